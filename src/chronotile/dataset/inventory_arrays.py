"""From the objects of a bucket to the listings of its arrays.

In: objects, as `inventory` reads them. Out: Arrow tables with a row for each name that a listing of
an array has: its files, and the folders in it. Works on columns, as there may be a billion objects;
touches no storage.

An inventory comes in many files, and an array's objects may stand in several. So a row is made for
every folder that may be an array, `strong` if the object alone shows that it is one; `whole_arrays`
then drops what turned out to be none. As in `find_arrays`, what lies inside an array is a part of
it and no array; this is seen where both stand in one file, as keys come in order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from chronotile.format.kinds import (
    COMMITS,
    ENUMERATIONS,
    FRAGMENT_META,
    FRAGMENTS,
    LABELS,
    META,
    OLD_SCHEMA,
    OWN,
    SCHEMA,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

NAMES = pa.schema(
    [
        ("array", pa.string()),
        ("path", pa.string()),
        ("size", pa.int64()),
        ("modified_ms", pa.int64()),
        ("etag", pa.string()),
        ("strong", pa.bool_()),
    ]
)
"""A file of an array, or, if the path ends with a slash, a folder with the bytes below it: null if
its files are told of elsewhere."""

_FOLDERS_INSIDE = (COMMITS, FRAGMENTS, FRAGMENT_META, SCHEMA, META, LABELS, OWN)
_INSIDE = "|".join(_FOLDERS_INSIDE)
_NEITHER = pa.scalar(["", ""], pa.list_(pa.string()))
_OLD = r"__[0-9a-f]+_[0-9a-f_]+(?:\.[a-z]+)?"
"""Fragments and their files in the root of an array, before version 12."""
_OLD_SCHEMA = OLD_SCHEMA.replace(".", "[.]")
_KEY = rf"^(?:(?P<root>.*?)/)?(?P<path>(?:{_INSIDE})/.+|{_OLD_SCHEMA}|{_OLD}(?:/.+)?)$"
_DEEPER = rf"^({ENUMERATIONS}/[^/]+|(?:{_INSIDE})/[^/]+|{_OLD})/.+$"
_STRONG = rf"^(?:(?:{SCHEMA}|{COMMITS}|{FRAGMENTS})/|{_OLD_SCHEMA}$)"


def listing_rows(objects: pa.Table, bucket: str, below: Iterable[str] = ()) -> pa.Table:
    """The names of all folders that may be arrays, as in `NAMES`.

    Args:
        objects: Objects, as in `inventory.OBJECTS`.
        bucket: The place of the bucket.
        below: Only keys below these prefixes; all if there are none.

    >>> keys = ["g/a/__schema/s", "g/a/__fragments/f/x.tdb", "g/a/__fragments/f/y.tdb"]
    >>> nulls = [pa.nulls(3, pa.int64()), pa.nulls(3, pa.int64()), pa.nulls(3, pa.string())]
    >>> objects = pa.table([pa.array(keys), *nulls], ["key", "size", "modified_ms", "etag"])
    >>> rows = whole_arrays([listing_rows(objects, "s3://b")])
    >>> [(row["array"], row["path"]) for row in rows.to_pylist()]
    [('s3://b/g/a', '__fragments/f/'), ('s3://b/g/a', '__schema/s')]
    """
    prefixes = [prefix.strip("/") for prefix in below]
    if prefixes and "" not in prefixes:
        masks = [pc.starts_with(objects["key"], f"{prefix}/") for prefix in prefixes]
        keep = masks[0]
        for mask in masks[1:]:
            keep = pc.or_(keep, mask)
        objects = objects.filter(keep)
    objects = objects.combine_chunks()
    keys = objects["key"].combine_chunks()
    usual = _usual(keys)
    some, others = objects.filter(usual), objects.filter(pc.invert(usual))
    parts = pc.extract_regex(others["key"].combine_chunks(), _KEY)
    inside = pc.is_valid(parts)
    arrays = pa.concat_tables(
        [
            _inside(some, *_split_usual(keys.filter(usual))),
            _inside(others.filter(inside), *_split(parts.filter(inside))),
        ]
    )
    plain = others.filter(pc.invert(inside))
    tops = {prefix for prefix in prefixes if prefix}
    rows = [arrays, _plain_files(plain), _folders(arrays, plain, tops)]
    table = _deduplicated(pa.concat_tables(rows))
    table = table.filter(pc.invert(pc.is_in(table["array"], pa.array(_nested(table), pa.string()))))
    roots = pc.binary_join_element_wise(bucket, table["array"], "/")
    uris = pc.utf8_rtrim(roots, "/")
    return table.set_column(0, NAMES.field("array"), uris)


def _usual(keys: pa.Array) -> pa.Array:
    """Mask of the keys that need no regular expression: `_split_usual` gives what `_KEY` would.

    A path inside an array begins with two underscores, and `_KEY` takes the longest such path: it
    begins after the first `/__`, unless the key itself begins so.
    """
    _, path = _split_usual(keys)
    inside = pa.array(_FOLDERS_INSIDE, pa.string())
    parts = pc.split_pattern(path, "/", max_splits=1)
    deeper = pc.and_(pc.equal(pc.list_value_length(parts), 2), pc.invert(pc.ends_with(path, "/")))
    first = pc.list_element(parts, 0)
    odd = pc.or_(pc.starts_with(keys, "__"), pc.match_substring(keys, "\n"))
    return pc.and_(pc.and_(deeper, pc.is_in(first, inside)), pc.invert(odd))


def _split_usual(keys: pa.Array) -> tuple[pa.Array, pa.Array]:
    """What stands before the first `/__` of each key, and what begins there."""
    parts = pc.split_pattern(keys, "/__", max_splits=1)
    lengths = pc.list_value_length(parts)
    root = pc.list_element(parts, 0)
    rest = pc.list_element(pc.if_else(pc.equal(lengths, 2), parts, _NEITHER), 1)
    return root, pc.binary_join_element_wise("__", rest, "")


def _split(parts: pa.Array) -> tuple[pa.Array, pa.Array]:
    root = pc.struct_field(parts, "root")
    return pc.fill_null(root, ""), pc.struct_field(parts, "path")


def _inside(objects: pa.Table, root: pa.Array, path: pa.Array) -> pa.Table:
    """The rows of objects that lie in a folder of an array, or in the place of one."""
    deep = pc.match_substring_regex(path, _DEEPER)
    is_enumeration = pc.and_(
        pc.starts_with(path, f"{ENUMERATIONS}/"),
        pc.invert(pc.match_substring_regex(path, f"^{ENUMERATIONS}/[^/]+/")),
    )
    deep = pc.and_(deep, pc.invert(is_enumeration))
    return pa.table(
        [
            root,
            pc.replace_with_mask(path, deep, _folders_of(path.filter(deep))),
            objects["size"],
            *(_unless(deep, objects[name]) for name in ("modified_ms", "etag")),
            pc.match_substring_regex(path, _STRONG),
        ],
        schema=NAMES,
    )


def _folders_of(paths: pa.Array) -> pa.Array:
    """The folder of an array's folder that a file lies in, at any depth."""
    parts = pc.split_pattern(paths, "/", max_splits=2)
    usual = pc.and_(
        pc.equal(pc.list_value_length(parts), 3),
        pc.invert(pc.starts_with(paths, f"{SCHEMA}/")),
    )
    usual = pc.and_(usual, pc.is_in(pc.list_element(parts, 0), pa.array(_FOLDERS_INSIDE)))
    own = parts.filter(usual)
    folders = pc.binary_join_element_wise(pc.list_element(own, 0), pc.list_element(own, 1), "", "/")
    # RE2 takes the first alternative that fits, which is the enumeration's.
    rest = pc.replace_substring_regex(paths.filter(pc.invert(usual)), _DEEPER, r"\1/")
    made = pc.replace_with_mask(paths, usual, folders)
    return pc.replace_with_mask(made, pc.invert(usual), rest)


def _unless(mask: pa.Array, column: pa.ChunkedArray) -> pa.Array:
    return pc.if_else(mask, pa.scalar(None, column.type), column.combine_chunks())


def _plain_files(objects: pa.Table) -> pa.Table:
    """Other objects are strangers, if their folder turns out to be an array."""
    split = pc.extract_regex(
        objects["key"].combine_chunks(), r"^(?:(?P<root>.*)/)?(?P<path>[^/]+)$"
    )
    return pa.table(
        [
            pc.fill_null(pc.struct_field(split, "root"), ""),
            pc.struct_field(split, "path"),
            *(objects[name] for name in ("size", "modified_ms", "etag")),
            pa.repeat(False, len(objects)),
        ],
        schema=NAMES,
    ).filter(pc.is_valid(split))


def _folders(arrays: pa.Table, plain: pa.Table, tops: set[str]) -> pa.Table:
    """Every folder is a stranger in the folder above it, if that turns out to be an array."""
    above = pc.replace_substring_regex(plain["key"], r"/?[^/]*$", "")
    waiting = {*arrays["array"].unique().to_pylist(), *above.unique().to_pylist()}
    pairs: set[tuple[str, str]] = set()
    seen: set[str] = set()
    for start in waiting:
        folder = start
        while folder and folder not in tops and folder not in seen:
            seen.add(folder)
            parent, _, name = folder.rpartition("/")
            pairs.add((parent, f"{name}/"))
            folder = parent
    ordered = sorted(pairs)
    empty = [pa.nulls(len(ordered), field.type) for field in list(NAMES)[2:5]]
    names = [pa.array([pair[n] for pair in ordered], pa.string()) for n in (0, 1)]
    return pa.table([*names, *empty, pa.repeat(False, len(ordered))], schema=NAMES)


def _nested(table: pa.Table) -> list[str]:
    """Arrays that lie inside another one."""
    strong = frozenset(table.filter(table["strong"])["array"].unique().to_pylist())
    return [array for array in strong if any(above in strong for above in _above(array))]


def _above(folder: str) -> Iterator[str]:
    while folder:
        folder = folder.rpartition("/")[0]
        yield folder


def _deduplicated(table: pa.Table) -> pa.Table:
    values = [(name, "max") for name in NAMES.names[2:]]
    made = table.group_by(["array", "path"]).aggregate([*values, ("size", "sum")])
    # Files of one folder add up; one file may only be told of twice.
    is_folder = pc.ends_with(made["path"], "/")
    columns = {name: made[f"{name}_max"] for name in NAMES.names[2:]}
    columns["size"] = pc.if_else(is_folder, made["size_sum"], columns["size"])
    return pa.table([made["array"], made["path"], *columns.values()], NAMES.names).cast(NAMES)


def whole_arrays(tables: Iterable[pa.Table]) -> pa.Table:
    """The names of arrays alone, each once, in order, of rows that several files gave."""
    table = _deduplicated(pa.concat_tables([NAMES.empty_table(), *tables]))
    arrays = table.filter(table["strong"])["array"].unique()
    table = table.filter(pc.is_in(table["array"], arrays))
    return table.sort_by([("array", "ascending"), ("path", "ascending")])
