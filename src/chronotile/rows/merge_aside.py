"""Fragments merged aside: the engine makes one of several, away from their array.

In: an array, the names of some of its fragments, the deletes that act on them. Out: `Merged`: the
files of one new fragment in a scratch folder, proven; or a `MergeError` that says what went wrong.
The array is only read.

The scratch array has the fragments as links, or as copies if they lie in a bucket, the one schema
that they all name, and as deletes only those that the caller hands in. The engine merges them there
in a process of its own (`merge_process`): a crash, or more memory than it may take, ends that
process and nothing else.

Proven means: the new fragment passes the deep check, and an order-free digest of rows and times is
the same for it and for its sources (`row_digest`): of every cell, also of older ones at the same
place; and, if deletes were handed in, of what an open sees after each of them. Dense arrays keep no
times: there the digest is of what the sources show together.
"""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from chronotile.check.deep import DeepCheck
from chronotile.check.findings import LookedAt
from chronotile.check.fragment_health import Wholeness, inspect
from chronotile.conditions import codec
from chronotile.conditions.stored_conditions import matches_no_row
from chronotile.errors import ChangedError, ChronotileError
from chronotile.format import tiles
from chronotile.format.commit_files import FIRST_WITH_COMMITS
from chronotile.format.fragment_footer import METADATA
from chronotile.format.kinds import COMMITS, FRAGMENTS
from chronotile.format.names import MAX_TIMESTAMP, parse_name, version_of
from chronotile.history.read_footers import FooterReader
from chronotile.history.read_history import read_history
from chronotile.rows.cell_source import bared_metadata
from chronotile.rows.engine import require_engine
from chronotile.rows.merge_process import NO_MEMORY
from chronotile.rows.scratch_arrays import put_writes, with_duplicates
from chronotile.storage.store import MissingObjectError, open_store
from chronotile.storage.transfer import ScratchFolder, Transfer

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from chronotile.history.read_footers import StoredFooter
    from chronotile.history.read_history import History
    from chronotile.storage.store import Store

_MOST_MOMENTS = 8
"""Deletes after which rows are compared; of more, some."""
_FULL = ("no space left on device", "disk quota exceeded")
_BUDGET = ("budget", "bad_alloc", "memory")
_EMPTY = "read 0 cells"


class MergeError(ChronotileError):
    """A merge did not come about; the array is as it was."""


class EngineDiedError(MergeError):
    """The engine's process ended with a signal, or refused; fewer fragments may go through."""


class NoMemoryError(MergeError):
    """The engine took more memory than it may; fewer fragments take less."""


class NoSpaceError(MergeError):
    """The scratch folder's disk is full."""


class NothingLeftError(MergeError):
    """A purge took out every row: no fragment is left to show."""


class WrongMergeError(MergeError):
    """The merged fragment is damaged, or its rows are not those of its sources."""


class Merged(NamedTuple):
    """A fragment that was merged aside."""

    store: Store
    """The scratch array; it goes with the scratch folder."""
    folder: str
    """Of the fragment, in the scratch array."""
    sizes: Mapping[str, int]
    """The bytes of each of its files, by name."""
    version: int
    t1: int
    """The true times: the first and the last of its sources. The folder's name may lie (F4)."""
    t2: int
    cells: int
    source_cells: int
    applied: tuple[str, ...]
    """The deletes that it has applied; updates end in `.upd`."""
    peak: int
    """Bytes of memory that the engine's process took at most."""

    @property
    def size(self) -> int:
        """The bytes of all files."""
        return sum(self.sizes.values())


def merge_aside(
    store: Store,
    history: History,
    names: Sequence[str],
    scratch: ScratchFolder,
    *,
    memory: int,
    deletes: Mapping[str, bytes] | None = None,
    purge: bool = False,
    compare: bool = True,
    extra: Mapping[str, Mapping[str, bytes]] | None = None,
    cell_by_cell: bool = False,
    bare: bool = False,
) -> Merged:
    """Merge fragments into one, in a scratch folder.

    It promises: the array is only read; the files in `Merged.sizes` are whole and pass the deep
    check; with `compare` every cell of the sources is there once, with its time, and no other.

    A purge takes out the cells that `deletes` match, as the engine evaluates them. Unless
    duplicates are allowed, it takes the older cells of the same place along, matched or not, so
    that windows before the delete lose them too; windows that end after it see the same rows,
    which `compare` makes sure of. With duplicates, all other cells are compared one by one.

    Args:
        store: Where the array is.
        history: What was read of it.
        names: At least two fragments of one schema, of version 12 or later; with `extra`, one.
        scratch: An empty folder; the caller removes it once the files are where they belong.
        memory: Bytes that the engine's process may take.
        deletes: The deletes and updates of the scratch array: file name in `__commits` -> content.
            Without `purge`, hand in those that a source has applied (F14), and no others: the
            merged fragment applies what it finds. One that a source has applied and that is not
            handed in is replaced by one that matches no row: its rows stay removed.
        purge: Take the cells out that the deletes match, instead of marking them. Cells that a
            source has marked go too, whatever is handed in.
        compare: Compare rows and times; without it, only the number of cells.
        extra: Fragments that only the scratch array has: name -> file -> content. The engine purges
            nothing of a lone fragment: a second one of rows that the deletes match helps.
        cell_by_cell: Let a purge decide on each cell by itself, as if duplicates were allowed:
            older cells of the same place stay.
        bare: Take the sources without their notes on deleted cells: these stay, and deletes of the
            array, which must all be there, act on them again.

    Raises:
        EngineDiedError: The engine crashed, or refused.
        NoMemoryError: It needs more memory.
        NoSpaceError: The scratch folder's disk is full.
        NothingLeftError: A purge took out every row.
        WrongMergeError: The result is not what the sources say.
        ChangedError: A source has gone meanwhile.
        NoEngineError: The engine is not installed.
    """
    require_engine()
    job = _MergeAside(store, history, names, Path(scratch.root), dict(extra or {}))
    try:
        job.prepare(dict(deletes or {}), cell_by_cell=cell_by_cell, bare=bare)
    except MissingObjectError as cause:
        problem = "expected it to stay, found it gone: the array is changing; try again"
        raise ChangedError(cause.where, problem) from cause
    except OSError as cause:
        raise NoSpaceError(scratch.root, f"the disk answered: {cause.strerror}") from cause
    return job.run(memory, purge=purge, compare=compare)


class _MergeAside:
    """One merge."""

    def __init__(
        self,
        store: Store,
        history: History,
        names: Sequence[str],
        root: Path,
        extra: dict[str, Mapping[str, bytes]],
    ) -> None:
        self.store, self.history, self.root = store, history, root
        self.names, self.extra = list(names), extra
        self.array = ScratchFolder.at(root / "merge")
        self.deletes: list[str] = []
        self.bared: dict[str, str] = {}
        self.reader = FooterReader(store, history)

    def prepare(
        self, deletes: dict[str, bytes], *, cell_by_cell: bool = False, bare: bool = False
    ) -> None:
        """Make the scratch array."""
        footers = self.footers = self._footers()
        if footers[0].footer.dense:
            self._refuse_miscounted()
        schema = self._put_schema(footers[0], duplicates=cell_by_cell)
        instead: dict[str, dict[str, bytes]] = {}
        if bare:
            for stored in footers:
                if stored.footer.has_delete_metadata:
                    data = bared_metadata(self.store, self.reader, stored)
                    instead[stored.fragment] = {METADATA: data}
        if self.store.traits.has_links:
            for stored in footers:
                target = f"{FRAGMENTS}/{stored.fragment}"
                self.array.take(self.store, stored.path, target, instead.get(stored.fragment))
        else:
            self.array.make_folder(FRAGMENTS)
            here = open_store(self.array.root)
            entries = [e.path for s in footers for e in self.store.list_dir(s.path).files]
            Transfer(self.store, here).files({path: path for path in entries})
            for name, own in instead.items():
                self.array.put(f"{FRAGMENTS}/{name}/{METADATA}", own[METADATA])
        for name, files in self.extra.items():
            for file, data in files.items():
                self.array.put(f"{FRAGMENTS}/{name}/{file}", data)
        put_writes(self.array, [*self.names, *self.extra])
        for stored in footers if not bare else ():
            if stored.footer.has_delete_metadata:
                self.bared[stored.fragment] = str(self.root / stored.fragment)
                data = bared_metadata(self.store, self.reader, stored)
                Path(self.bared[stored.fragment]).write_bytes(data)
            for applied in stored.applied or ():
                file = applied if applied.endswith(".upd") else f"{applied}.del"
                if file not in deletes:
                    deletes[file] = schema[file[-4:]]
        for file, data in deletes.items():
            self.array.put(f"{COMMITS}/{file}", data)
        self.deletes = sorted(deletes)

    def _footers(self) -> list[StoredFooter]:
        """Read the footers of the sources, which must name one schema."""
        found: list[StoredFooter] = []
        for name, stored in self.reader.read(self.names, applied=True):
            if isinstance(stored, MissingObjectError):
                raise stored
            if isinstance(stored, ChronotileError) or stored.applied is None:
                why = stored.problem if isinstance(stored, ChronotileError) else "what it applied"
                raise MergeError(self.store.uri, f"expected the metadata of {name}, found: {why}")
            if version_of(parse_name(name)) < FIRST_WITH_COMMITS:
                problem = f"expected fragments from version {FIRST_WITH_COMMITS} on, found {name}"
                raise MergeError(self.store.uri, problem)
            if found and found[0].schema_file != stored.schema_file:
                problem = f"expected fragments of one schema, found {name} with another"
                raise MergeError(self.store.uri, problem)
            found.append(stored)
        return found

    def _refuse_miscounted(self) -> None:
        """Refuse dense sources whose tiles do not fit their domain: nobody knows their cells (F19).

        Raises:
            MergeError: There is one.
        """
        for health in inspect(self.store, self.history, [s.path for s in self.footers]).values():
            if health.state is Wholeness.MISCOUNTED:
                raise MergeError(self.store.uri, f"{health.path}: {health.problem}")

    def _put_schema(self, stored: StoredFooter, *, duplicates: bool) -> dict[str, bytes]:
        """Put the one schema; make deletes and updates that match no row of it, by extension."""
        (item,) = (one for one in self.history.schemas if one.text == stored.schema_file)
        data = self.store.read(item.path)
        for path in self.history.listing.enumerations:
            self.array.put(path, self.store.read(path))
        if duplicates:
            data = with_duplicates(data, item.path, self.history.key)
        self.array.put(item.path, data)
        tile = tiles.decode(data, item.path, key=self.history.key)
        self.key = self.history.key if tile.encrypted else None
        condition, version = matches_no_row(stored.schema), stored.schema.version
        payloads = {".del": codec.encode(condition), ".upd": codec.encode_update(condition, ())}
        return {
            extension: tiles.encode(payload, version=version, key=self.key)
            for extension, payload in payloads.items()
        }

    def _box(self) -> list[tuple[str, str]]:
        """Return where a dense array is read: from the least to the largest coordinates."""
        first = self.footers[0]
        if not first.footer.dense:
            return []
        box = []
        for at, field in enumerate(first.schema.dimensions):
            code = f"<{field.datatype.code}"
            domains = (stored.footer.domain for stored in self.footers)
            pairs = [domain[at] for domain in domains if domain is not None]
            low = min(struct.unpack(code, raw) for raw, _ in pairs)
            high = max(struct.unpack(code, raw) for _, raw in pairs)
            box.append((struct.pack(code, *low).hex(), struct.pack(code, *high).hex()))
        return box

    def run(self, memory: int, *, purge: bool, compare: bool) -> Merged:
        """Merge, check and compare."""
        moments = sorted({parse_name(name.rpartition(".")[0]).t2 for name in self.deletes})
        if purge and moments:
            # Windows that end before the last delete lose what it deletes.
            ends = {parse_name(name).t2 for name in self.names}
            moments = [moments[-1], *sorted(end for end in ends if end > moments[-1])]
        if len(moments) > _MOST_MOMENTS:
            step = len(moments) / _MOST_MOMENTS
            moments = [moments[int(at * step)] for at in range(_MOST_MOMENTS)]
        job = {
            "where": self.store.uri,
            "root": str(self.root),
            "names": [*self.names, *self.extra],
            "key": None if self.key is None else self.key.hex(),
            "memory": memory,
            "purge": purge,
            "compare": compare,
            "deletes": self.deletes,
            "bared": self.bared,
            "moments": [*moments, MAX_TIMESTAMP] if moments else [],
            "box": self._box(),
        }
        with _Process(self.store.uri, self.root, job) as process:
            name = process.line("merged")
            store = open_store(self.array.root)
            history = read_history(store, key=self.key)
            # The process reads rows meanwhile.
            folder = f"{FRAGMENTS}/{name}"
            self._check(store, history, folder)
            digests, peak = process.line("digests"), process.last["peak"]
        return self._merged(store, history, folder, digests, peak, purge=purge)

    def _check(self, store: Store, history: History, folder: str) -> None:
        """Check the merged fragment, down to its cell files.

        Raises:
            WrongMergeError: It is damaged.
        """
        health = inspect(store, history, [folder])[folder]
        deep = DeepCheck(store, history, LookedAt())
        damage = [item.message for item in deep.check(folder)] if health.is_whole else []
        closed = [*deep.unopened, *deep.closed]
        if not health.is_whole or damage or closed:
            problem = health.problem or (damage or closed)[0]
            raise WrongMergeError(self.store.uri, f"TileDB merged into a bad file: {problem}")

    def _merged(
        self,
        store: Store,
        history: History,
        folder: str,
        digests: Sequence[Sequence[Sequence[int | None]]],
        peak: int,
        *,
        purge: bool,
    ) -> Merged:
        """Compare, and describe the result.

        Raises:
            WrongMergeError: Rows differ.
        """
        for one, other in digests:
            if one != other:
                problem = f"expected {one[0]} rows as they are in the sources, found {other[0]}"
                same = " with other values or times" if one[0] == other[0] else ""
                raise WrongMergeError(self.store.uri, f"TileDB merged wrongly: {problem}{same}")
        source_cells = sum(stored.measure().cells for stored in self.footers)
        own = FooterReader(store, history)
        ((_, stored),) = own.read([folder.rpartition("/")[2]], own=True, applied=True)
        if isinstance(stored, ChronotileError):
            raise WrongMergeError(self.store.uri, f"TileDB merged wrongly: {stored.problem}")
        cells = stored.measure().cells
        if not (purge or self.history.dense or digests) and cells != source_cells:
            problem = f"expected {source_cells} cells, found {cells}"
            raise WrongMergeError(self.store.uri, f"TileDB merged wrongly: {problem}")
        spans = [parse_name(name)[:2] for name in self.names]
        if digests and digests[0][0][3] is not None:
            spans.append((digests[0][0][3], digests[0][0][4] or 0))
        files = store.list_dir(folder, sizes=True).files
        return Merged(
            store,
            folder,
            {entry.path.rpartition("/")[2]: entry.size or 0 for entry in files},
            stored.footer.version,
            min(t1 for t1, _ in spans),
            max(t2 for _, t2 in spans),
            cells,
            source_cells,
            stored.applied or (),
            peak,
        )


class _Process:
    """The engine's process, from its start to its end."""

    def __init__(self, where: str, root: Path, job: Mapping[str, Any]) -> None:
        self.where, self.job, self._words = where, job, root / "stderr"
        self.last: Mapping[str, Any] = {}

    def __enter__(self) -> Self:
        # A package that this process found on another way must be found there too.
        paths = os.pathsep.join(path for path in sys.path if path)
        with self._words.open("wb") as words:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "chronotile.rows.merge_process"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=words,
                env=os.environ | {"PYTHONPATH": paths},
            )
        assert self._process.stdin is not None
        try:
            # The key of an encrypted array goes this way: a command line is for all to see.
            self._process.stdin.write(json.dumps(self.job).encode())
            self._process.stdin.close()
        except BrokenPipeError:
            pass  # it has ended: the first line says so
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()

    def line(self, wanted: str) -> Any:
        """Read the next line, and give what is wanted of it.

        Raises:
            MergeError: The process ended without it.
        """
        assert self._process.stdout is not None
        text = self._process.stdout.readline()
        if not text.endswith(b"\n"):
            raise self._ended(self._process.wait())
        self.last = json.loads(text)
        if wanted not in self.last:
            raise self._refused(str(self.last.get("error")))
        return self.last[wanted]

    def _refused(self, words: str) -> MergeError:
        lower = words.lower()
        if any(text in lower for text in _FULL):
            return NoSpaceError(self.where, words)
        if _EMPTY in lower and self.job["purge"]:
            return NothingLeftError(self.where, "the purge leaves no row of these fragments")
        if any(text in lower for text in _BUDGET):
            return NoMemoryError(self.where, words)
        return EngineDiedError(self.where, words)

    def _ended(self, status: int) -> MergeError:
        limit = f"{self.job['memory'] >> 20} MB"
        if status == NO_MEMORY:
            problem = f"expected the merge to take at most {limit} of memory, found more"
            return NoMemoryError(self.where, problem)
        if status == -9:
            problem = f"TileDB's process was killed, as for lack of memory (it may take {limit})"
            return NoMemoryError(self.where, problem)
        words = self._words.read_bytes()[-2000:].decode("utf-8", "replace").strip()
        last = words.rpartition("\n")[2][:300]
        problem = f"TileDB's process ended with status {status}"
        return EngineDiedError(self.where, f"{problem}: {last}" if last else problem)


def allowed_memory() -> int:
    """Return the bytes of memory that this process may take: of its cgroup, or of the machine."""
    limits = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    root, own = Path("/sys/fs/cgroup"), ""
    with suppress(OSError):
        lines = Path("/proc/self/cgroup").read_text().splitlines()
        own = next((line[3:] for line in lines if line.startswith("0::")), "").strip("/")
    inside = (root / own, *(root / own).parents)
    files = [folder / "memory.max" for folder in inside if folder.is_relative_to(root)]
    for path in (*files, root / "memory" / "memory.limit_in_bytes"):
        with suppress(OSError, ValueError):
            limits.append(int(path.read_text()))
    return min(limits)
