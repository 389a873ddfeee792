"""Storage: the only room that touches a disk or a bucket.

In: the place of an array, and relative paths. Out: listings as entries, objects as bytes; puts,
links, copies, removals. Does not know what the objects mean. Nobody else knows on which kind of
storage they lie: who has to choose between two right ways asks for `Store.traits`. A function that
is given a store raises `StorageError` if the storage fails: its own text names other errors alone.

In reading order:

    place          where an array is, what a path may be, the rows of a listing
    prefetch       work that threads do ahead of the caller
    store          the one door: checks paths, calls hooks, and a backend
    backend        the base of a backend, and the traits of a storage
    disk           the backend of a local disk
    disk_files     folders and new, whole files of a disk, by descriptor
    bucket         the backend of S3, GCS, Azure, and of the memory of a process
    overlay        a store with other files, a known listing, or a memory
    processes      the processes of this machine, told from those of others
    transfer       files that get a second name in another place, or in a scratch folder
    side_by_side   the ends of files of one name in many folders
    engine_access  how the engine reaches a place
"""
