"""The handle: what `ct.open` gives, with every verb of the command line as a method.

In: the place of an array or a group. Out: `Array` or `Group`, by what is there. A change is the
same call on both: an array is planned and changed; a group's members are planned, all of them, and
then changed. Decides nothing about files: planners do.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import (
    TYPE_CHECKING,
    Any,
    Generic,
    Literal,
    NamedTuple,
    TypeAlias,
    TypedDict,
    TypeVar,
    Unpack,
)

from chronotile.errors import ChronotileError, ReadError, WrongCallError
from chronotile.safe_text import shell_word

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Collection, Iterable, Sequence

    import pyarrow as pa

    from chronotile.array import Array
    from chronotile.change.operations import Who
    from chronotile.change.plan import Plan, Report
    from chronotile.change.settle import Settled
    from chronotile.change.usage import Usage
    from chronotile.dataset.over_members import GroupReport
    from chronotile.dataset.replicate_tree import ReplicateOptions
    from chronotile.format.timestamps import Moment
    from chronotile.group import Group
    from chronotile.log import Log
    from chronotile.rows.commit_changes import RemovedRows
    from chronotile.rows.compact import CompactProgress
    from chronotile.rows.group_rows import GroupRows
    from chronotile.rows.read_rows import RowReader
    from chronotile.show.picture import Height, Picture
    from chronotile.storage.store import Store
    from chronotile.storage.transfer import Link


R = TypeVar("R", bound="Report | GroupReport")
_FILES = ("put", "hidden", "removed")
"""Columns of operations that hold several names."""
Done: TypeAlias = "str | Mapping[str, Any] | Report | GroupReport"
"""A change: the id of its operation, or its report."""


class How(TypedDict, total=False):
    """Options that every change takes."""

    dry_run: bool
    """Change nothing; report what would be done."""
    message: str | None
    """Why; the operation keeps it."""
    author: str | None
    """Who; this user on this host, if it is left out. An empty text leaves it out."""
    record: bool
    """False leaves no record, and so no way back."""
    member: str | None
    """Of a group: only members whose path fits this pattern."""
    outside: bool
    """Of a group: change also members that lie outside of its folder."""
    before: Callable[[Any], None]
    """Called with the report of the plan, before anything is written."""


class OfGroup(TypedDict, total=False):
    """How a change treats the members of a group; an array has none."""

    own: Callable[..., Plan]
    """Plans the files of the group itself."""
    all_or_none: bool
    """Change no member if one of them cannot be changed."""
    named: bool
    """Refuse unless the caller names the members."""
    mended: bool
    """Take the members that a repair of damaged lists leaves."""
    tags: bool
    """Give both planners the group's tags, and `own` the moments to keep."""


class Drawn(NamedTuple):
    """A picture that was written to a file."""

    picture: Picture
    out: str
    size: int
    errors: Mapping[str, ChronotileError] = {}
    """Of a group: path of a member -> why it could not be read."""


class Handle(ABC, Generic[R]):
    """An array or a group that is open: the store and the key live in it."""

    store: Store
    key: bytes | None

    def __init__(self, store: Store, key: bytes | str | None = None) -> None:
        self.store, self.key = store, key.encode() if isinstance(key, str) else key

    @property
    def uri(self) -> str:
        """The place, as a local path or URI."""
        return self.store.uri

    @abstractmethod
    def _change(
        self,
        command: str,
        planner: Callable[..., Plan],
        options: Mapping[str, Any],
        how: How,
        *,
        exclusive: bool = False,
        **of_group: Unpack[OfGroup],
    ) -> R:
        """Plan a change, and carry it out unless it is a dry run.

        First, changes that were broken off are finished or taken back. An option has one name all
        the way: on the command line, of the method here (`given(locals())`), of the planner. Only
        `group_tags` is no option: a group adds it for its members (`OfGroup.tags`).

        Args:
            command: The name of the change.
            planner: Plans one array: `planner(store, key, **options)`.
            options: Further arguments of it.
            how: Options that every change takes.
            exclusive: Refuse while another such change is under way.
            of_group: How to treat the members of a group.
        """

    def operations(self) -> pa.Table:
        """List what this package did, the newest first: one row for each operation.

        Columns: `id`, `time`, `command`, `options` and `rows` (JSON), `author`, `message`, `state`
        (`begun`, `done`, `failed`, `undone`, `final`), `undoes`, `put`, `hidden`, `removed`.
        """
        import json

        import pyarrow as pa

        from chronotile.change.operations import tell_operations
        from chronotile.show.notebook import show_in_notebook

        texts, lists = pa.string(), pa.list_(pa.string())
        names = ("id", "time", "command", "options", "author", "message", "state", "undoes", "rows")
        columns = [*((name, texts) for name in names), *((name, lists) for name in _FILES)]
        rows = [
            one | {"options": json.dumps(one["options"]), "rows": json.dumps(one["rows"])}
            for one in tell_operations(self.store)
        ]
        table = pa.Table.from_pylist(rows, schema=pa.schema(columns))
        shown = ("id", "time", "command", "author", "message", "state")
        return show_in_notebook(table, "operation", shown)

    def operation(self, id_: str) -> dict[str, Any]:
        """Read the record of one operation, with every file that it touched.

        Args:
            id_: Its id, or enough of it.

        Raises:
            ChronotileError: No operation has that id, or several do.
        """
        from chronotile.change.operations import (
            is_of_this,
            list_operations,
            read_operation,
            schema_names,
        )

        names = schema_names(self.store)
        found = [one for one in list_operations(self.store) if one.id.startswith(id_.lower())]
        read = (read_operation(self.store, one) for one in found)
        fitting = [document for document in read if is_of_this(document, self.store, names)]
        if len(fitting) != 1:
            count = f"{len(fitting):,} operations here have" if fitting else "no operation here has"
            problem = f"{count} an id that starts with {id_!r:.40}"
            hint = f"to list all: chronotile operations {shell_word(self.uri)}"
            raise WrongCallError(self.uri, f"{problem}; {hint}")
        return fitting[0]

    @abstractmethod
    def _each(self, table_of: Callable[[Log], pa.Table], member: str | None) -> pa.Table:
        """Make a table of the array; of every array of a group, with the column `member` first."""

    def commits(self, *, member: str | None = None) -> pa.Table:
        """List the commit records in time order, one row each; see `Log.commits`.

        Args:
            member: Of a group: only members whose path fits this pattern.
        """
        return self._each(lambda log: log.commits(), member)

    def fragments(
        self,
        *,
        names: Collection[str] | None = None,
        sizes: bool = True,
        member: str | None = None,
    ) -> pa.Table:
        """List the fragments, one row each: what it holds; see `Log.fragments`."""
        return self._each(lambda log: log.fragments(names=names, sizes=sizes), member)

    def lifelines(self, *, member: str | None = None) -> pa.Table:
        """List the fragments, one row each: when it is visible, and why it stops to be."""
        return self._each(lambda log: log.lifelines(), member)

    def usage(self, *, member: str | None = None) -> pa.Table:
        """List the files, one row each: why it is there, and the command that frees it.

        Raises:
            ChronotileError: A member of a group cannot be read.
        """
        used, errors = self.measure_usage(member=member)
        for error in errors.values():
            raise error
        return used.table

    @abstractmethod
    def measure_usage(
        self, *, member: str | None = None
    ) -> tuple[Usage, dict[str, ChronotileError]]:
        """Give what `usage` gives, with every way to free bytes, notes, and what failed."""

    def timeline(
        self,
        out: str | os.PathLike[str],
        *,
        as_of: Moment | None = None,
        cells: bool = False,
        height: Height | None = None,
        member: str | None = None,
    ) -> Drawn:
        """Draw the history into a file: `.html`, `.svg` or `.png`; a lane for each array.

        Args:
            out: The file.
            as_of: The moment that counts as now.
            cells: Read also how many cells and bytes each fragment holds.
            height: What the height of a fragment goes by, `cells` or `bytes`; implies `cells`.
            member: Of a group: only members whose path fits this pattern.

        Raises:
            ReadError: No member can be read.
            ChronotileError: There is no array.
        """
        from pathlib import Path

        from chronotile.format.timestamps import now_ms
        from chronotile.show.picture import draw

        moment = now_ms() if as_of is None else self.moment(as_of, "as_of")
        counted = cells or height is not None
        picture, errors = self._picture(moment, counted, height or "cells", member)
        data = draw(picture, Path(out).suffix.lower())
        Path(out).write_bytes(data)
        return Drawn(picture, str(out), len(data), errors)

    @abstractmethod
    def _picture(
        self, now: int, cells: bool, height: Height, member: str | None
    ) -> tuple[Picture, dict[str, ChronotileError]]:
        """Gather what a timeline shows, and why members could not be read."""

    @abstractmethod
    def moment(self, time: Moment, where: str = "time") -> int:
        """Give a time in any spelling, or a tag's name, in ms."""

    def rows(
        self,
        start: Moment = 0,
        end: Moment | None = None,
        *,
        where: str | None = None,
        fields: Sequence[str] | None = None,
        order_by: Sequence[str] = (),
        member: str | None = None,
    ) -> pa.Table:
        """Read the rows that an open at a window should see, with updates applied.

        Deletes remove what the engine removes, rows with NULL among it (F7, F15): they are gone for
        every reader. Updates mean what SQL means: a comparison with NULL is no match. Of a group,
        the column `member` comes first. Needs `chronotile[engine]`.

        Args:
            start: The start of the window.
            end: The end of the window; now, if it is left out.
            where: A predicate on the rows as they are at the end, such as `a < 3`.
            fields: Dimensions and attributes; all if left out.
            order_by: Fields to sort by, such as `["amount desc", "id"]`.
            member: Of a group: only members whose path fits this pattern.

        Returns:
            A table; its schema's metadata holds notes under `chronotile.notes` if a commit that
            the engine refuses, or a member, had to be left out.

        Raises:
            NoEngineError: The engine is not installed.
            PredicateError: The predicate or a field does not fit the schema.
            EngineError: The engine refused.
        """
        from chronotile.rows.read_rows import in_order

        table = self.row_reader(start, end, where=where, fields=fields, member=member).table()
        return in_order(table, order_by) if order_by else table

    @abstractmethod
    def row_reader(
        self,
        start: Moment = 0,
        end: Moment | None = None,
        *,
        where: str | None = None,
        fields: Sequence[str] | None = None,
        member: str | None = None,
    ) -> RowReader | GroupRows:
        """Open what `rows` reads, to be read batch by batch."""

    def removed_rows(
        self, name: str, values: Sequence[str] = (), *, member: str | None = None
    ) -> pa.Table:
        """Read the rows that one delete removed, or one update changed, as they were before.

        Args:
            name: The name of the delete or update, or enough of its id.
            values: Only rows with these values, such as `id=7`.
            member: Of a group: only members whose path fits this pattern.

        Raises:
            NoEngineError: The engine is not installed.
            ChronotileError: There is no such delete or update.
        """
        return self.removed_reader(name, values, member=member).table()

    @abstractmethod
    def removed_reader(
        self, name: str, values: Sequence[str] = (), *, member: str | None = None
    ) -> RemovedRows:
        """Open what `removed_rows` reads, to be read batch by batch."""

    def diff(
        self, t1: Moment, t2: Moment, *, rows: bool = False, member: str | None = None
    ) -> pa.Table:
        """Compare what opens at two moments see.

        Args:
            t1: The earlier moment.
            t2: The later one.
            rows: List the rows that differ. This needs `chronotile[engine]`.
            member: Of a group, with `rows`: only members whose path fits this pattern.

        Returns:
            A table, with notes on what had to be left out as `rows` has them.
        """
        from chronotile.rows.read_rows import with_notes

        table, notes = self._diff(t1, t2, rows, member)
        names, times = ("commit", ("t",)) if rows else ("name", ("t1", "t2"))
        return with_notes(for_users(table, names, self._array_stores(member), times), notes)

    @abstractmethod
    def _diff(
        self, t1: Moment, t2: Moment, rows: bool, member: str | None
    ) -> tuple[pa.Table, tuple[str, ...]]:
        """Compare two moments, and note what had to be left out."""

    def blame(
        self, row: Mapping[str, object] | Sequence[str], *, member: str | None = None
    ) -> pa.Table:
        """List every commit that wrote, changed or removed a row, in order.

        Args:
            row: A value for some fields, or texts such as `id=7`. Dimensions say where the row is;
                of attributes it is enough that it once had the value.
            member: Of a group: only members whose path fits this pattern.

        Returns:
            A table, with notes on what had to be left out as `rows` has them.
        """
        from chronotile.rows.read_rows import with_notes

        table, notes = self._blame(row, member)
        return with_notes(for_users(table, "commit", self._array_stores(member)), notes)

    @abstractmethod
    def _blame(
        self, row: Mapping[str, object] | Sequence[str], member: str | None
    ) -> tuple[pa.Table, tuple[str, ...]]:
        """List the commits of a row, and note what had to be left out."""

    @abstractmethod
    def _array_stores(self, member: str | None) -> list[Store]:
        """Give the store of every array."""

    def delete(
        self,
        where: str,
        *,
        at: Moment | None = None,
        any_time: bool = False,
        allow_null_loss: bool = False,
        allow_older_loss: bool = False,
        **how: Unpack[How],
    ) -> R:
        """Delete the rows that satisfy a predicate, as of a moment: write a delete commit.

        Args:
            where: The predicate, such as `a < 3 and s == 'x'`.
            at: The moment; now, if it is left out.
            any_time: Go on even if the moment is before all data, or in the future.
            allow_null_loss: Go on even if the engine also removes rows with NULL or NaN.
            allow_older_loss: Go on even if the engine also removes every row that was written
                before a field of the predicate was added.
            how: Options that every change takes; a group needs `member`.

        Raises:
            PredicateError: The predicate cannot be read, or does not fit the schema.
            RefusedError: The array is dense or too old, the delete would break it, or the delete
                would remove further rows and the caller does not allow that.
        """
        options = given(locals())
        from chronotile.rows.counted import plan_counted_delete

        rows = OfGroup(all_or_none=True, named=True)
        return self._change("delete", plan_counted_delete, options, how, **rows)

    def update(
        self,
        where: str,
        values: Mapping[str, object] | Sequence[str],
        *,
        at: Moment | None = None,
        any_time: bool = False,
        experimental: bool = False,
        allow_older_loss: bool = False,
        **how: Unpack[How],
    ) -> R:
        """Write an update commit: new values for the rows that satisfy a predicate.

        Today's engine takes an update for a delete: the rows disappear, and the values are
        dropped. `rows` shows the values, and `apply` writes them.

        Args:
            where: The predicate.
            values: A value for each field, or texts such as `a=3`.
            at: The moment; now, if it is left out.
            any_time: Go on even if the moment is before all data, or in the future.
            experimental: Confirm that the caller knows what the engine does with an update.
            allow_older_loss: As for a delete.
            how: Options that every change takes; a group needs `member`.

        Raises:
            PredicateError: The predicate or a value cannot be read, or does not fit the schema.
            RefusedError: `experimental` is not set, or as for a delete.
        """
        options = given(locals())
        from chronotile.rows.counted import plan_counted_update

        rows = OfGroup(all_or_none=True, named=True)
        return self._change("update", plan_counted_update, options, how, **rows)

    def apply(self, **how: Unpack[How]) -> R:
        """Carry out the updates, so that every TileDB program sees their values.

        TileDB writes the rows that an update matches with their new values, at the time of the
        update. NULL is no match. Needs `chronotile[engine]`.

        Args:
            how: Options that every change takes.

        Raises:
            NoEngineError: The engine is not installed.
            RefusedError: The array is dense, or an earlier run left other rows.
            ChangedError: Somebody wrote to the array meanwhile; try again.
        """
        from chronotile.rows.apply import plan_apply

        return self._change("apply", plan_apply, {}, how, exclusive=True)

    def consolidate(
        self,
        mode: Literal["commits", "fragment-meta", "array-meta", "all"] = "commits",
        *,
        updates: bool = False,
        **how: Unpack[How],
    ) -> R:
        """Put what many files hold into one.

        Every window sees the same before and after. Nothing is removed: `vacuum` does that. A
        group's lists of members and metadata are merged too.

        Args:
            mode: `commits` (a `.con` with every effective commit), `fragment-meta` (a `.meta` with
                the footer of every visible fragment), `array-meta` (one file of the metadata, and
                a `.vac` for those that it replaces), or `all` of them.
            updates: Put loose updates in too; the engine then no longer sees them.
            how: Options that every change takes.

        Raises:
            RefusedError: The array is damaged, or too old to have `.con` files.
            KeyNeededError: The array is encrypted, and what is to be merged needs the key.
            ChangedError: Somebody else changes the same files; try again.
        """
        options = given(locals())
        from chronotile.change.consolidate import plan_consolidate
        from chronotile.change.merge_metadata import plan_consolidate_group

        return self._change(
            "consolidate", plan_consolidate, options, how, own=plan_consolidate_group
        )

    def vacuum(
        self,
        mode: Literal["all", "commits", "fragments", "fragment-meta", "array-meta"] = "all",
        *,
        orphans: bool = False,
        whole_orphans: bool = False,
        orphan_age: float | str = "24h",
        loose_deletes: bool = False,
        deletes: bool = False,
        updates: bool = False,
        keep: Iterable[Moment] = (),
        keep_days: float | None = None,
        **how: Unpack[How],
    ) -> R:
        """Remove files that no window needs.

        Every window sees the same before and after, except for the time travel of dense arrays and
        of metadata; notes say so first.

        Args:
            mode: `commits` (commit files that a `.con` replaces), `fragments` (those that a `.vac`
                lists), `fragment-meta` (`.meta` files), `array-meta` (merged metadata), or `all`.
            orphans: Remove also unfinished fragments that no commit names.
            whole_orphans: Remove also orphans that lack only a commit, which may have been lost.
            orphan_age: How old an orphan, or a delete that goes, must be: `24h`, or a number of
                hours.
            loose_deletes: Remove also files of deletes in a `.con`: no engine consolidates then
                (F1).
            deletes: Remove also deletes that no fragment needs: all cells in their reach are
                purged.
            updates: Remove also loose updates that a `.con` holds; the engine does not see them
                there.
            keep: Moments: windows that end there stay as they are, as those of tags always do.
            keep_days: And windows that end within these last days.
            how: Options that every change takes.

        Raises:
            RefusedError: The array is damaged.
            ChangedError: Somebody else changes the array: try again.
        """
        options = given(locals()) | {"keep": tuple(keep)}
        from chronotile.change.vacuum import plan_vacuum
        from chronotile.change.vacuum_metadata import plan_vacuum_group

        return self._change("vacuum", plan_vacuum, options, how, own=plan_vacuum_group, tags=True)

    def compact(
        self,
        *,
        target_bytes: int | str = "1GB",
        max_memory: int | str | None = None,
        quiet: str | float = "10m",
        purge: bool = False,
        compare: bool = True,
        vacuum: bool = False,
        keep: Iterable[Moment] = (),
        scratch: str | None = None,
        on_progress: Callable[[CompactProgress], None] | None = None,
        **how: Unpack[How],
    ) -> R:
        """Merge small fragments into few, in a process of its own, away from the array.

        Every window reads as before. The sources stay hidden until a vacuum; after it `undo` cannot
        take the merge back, and a dense array cannot be read at the times between its sources.
        Needs `chronotile[engine]`.

        Args:
            target_bytes: The size of a merged fragment, at most, such as `1GB`.
            max_memory: Memory of the engine's process, such as `2GB`; a quarter of what this
                process may take, if it is left out.
            quiet: Leave fragments alone whose files are younger, such as `1h`, or seconds.
            purge: Take deleted cells out; windows before the deletes lose them too.
            compare: Compare rows and times of each merged fragment with its sources; without it,
                the number of cells.
            vacuum: Remove the sources at once.
            keep: Moments: no merge of a dense array crosses one of them, or a tag.
            scratch: A local folder to merge in, instead of `__chronotile/scratch` in the array; of
                a bucket, instead of where temporary files go.
            on_progress: Called after each batch.
            how: Options that every change takes.

        Raises:
            NoEngineError: The engine is not installed.
            RefusedError: The array is damaged, or another compact is under way.
        """
        options = given(locals(), "vacuum", "on_progress") | {"keep": tuple(keep)}
        from functools import partial

        from chronotile.rows.compact import plan_compact, with_vacuum

        planner = partial(plan_compact, on_progress=on_progress)
        report = self._change("compact", planner, options, how, tags=True)
        return with_vacuum(
            report, lambda: self.vacuum("fragments", keep=keep, **how), wanted=vacuum
        )

    def repair(
        self, *, accept_loss: bool = False, commit_orphans: bool = False, **how: Unpack[How]
    ) -> R:
        """Move files that keep TileDB from reading into the quarantine, and mend what can be.

        Nothing is destroyed: `undo` puts the files back.

        Args:
            accept_loss: Mend a `.con` that was cut short even if nobody can tell which commit its
                last line named, and take out fragments that can still be read in part.
            commit_orphans: Commit also whole fragments that no commit names, as after the loss of
                a `.con`. Nobody can tell them from writes that never finished, or that somebody
                removed; deletes that stood in the lost file stay lost.
            how: Options that every change takes.

        Returns:
            What was done; its `findings` are what is still wrong.
        """
        options = given(locals())
        from chronotile.change.repair import plan_repair
        from chronotile.change.repair_group import plan_repair_group

        of_group = OfGroup(own=plan_repair_group, mended=True)
        return self._change("repair", plan_repair, options, how, exclusive=True, **of_group)

    def restore(
        self,
        to: Moment,
        *,
        at: Moment | None = None,
        keep_metadata: bool = False,
        rewrite: bool = False,
        commits_only: bool = False,
        **how: Unpack[How],
    ) -> R:
        """Go back to an earlier moment: rows, schema and metadata.

        Tags stay. Windows that end before the change show what they showed. Of a group: every
        member changes, or none.

        Args:
            to: The moment to go back to.
            at: The time of the change, later than every commit; now, if it is left out.
            keep_metadata: Leave the metadata as it is now.
            rewrite: Write the rows again, with TileDB, even if commits alone can do it.
            commits_only: Refuse if commits alone cannot do it; otherwise TileDB, if it is
                installed, writes the rows again.
            how: Options that every change takes.

        Raises:
            UnreachableError: Merged fragments hold more than that state, and what they were merged
                from is gone; the message names the nearest times that can be had.
            RefusedError: The array is damaged, or a delete on newer fields would break it.
        """
        options = given(locals())
        from chronotile.rows.ways_back import plan_restore_any_way

        planner = plan_restore_any_way
        return self._change("restore", planner, options, how, all_or_none=True, exclusive=True)

    def undelete(
        self,
        name: str,
        *,
        at: Moment | None = None,
        ever: bool = False,
        commits_only: bool = False,
        **how: Unpack[How],
    ) -> R:
        """Bring back the rows that one delete or update hides.

        Args:
            name: The name of the delete or update, or enough of its id.
            at: The time at which they come back, later than every commit; now, if it is left
                out. Windows that end before it show what they showed.
            ever: Bring them back in every window; rows that a merge took out stay away.
            commits_only: Refuse if commits alone cannot do it; without it TileDB, if it is
                installed, writes the rows again that nothing later overwrote or deleted.
            how: Options that every change takes.

        Raises:
            RefusedError: There is no such delete, or no row would come back.
            UnreachableError: Fragments have applied it, and what they were merged from is gone.
        """
        from chronotile.rows.ways_back import plan_undelete_any_way

        try:
            whole, chosen = self._find_change(name, how)
        except ChronotileError as error:
            # A change that was broken off may have taken it out: it is finished, or taken back.
            settled = self._settle(how)
            if not any(one.is_back for one in settled):
                notes = "".join(f"; {one.note}" for one in settled)
                raise type(error)(error.where, f"{error.problem}{notes}") from error
            whole, chosen = self._find_change(name, how)
        options = {"name": whole, "at": at, "ever": ever, "commits_only": commits_only}
        planner = plan_undelete_any_way
        return self._change("undelete", planner, options, chosen, all_or_none=True, exclusive=True)

    def erase(
        self,
        where: str,
        *,
        verify: Mapping[str, Any] | None = None,
        earlier_values: bool = False,
        orphan_age: float | str = "24h",
        **how: Unpack[How],
    ) -> R:
        """Erase the rows that match a predicate from every fragment, window and record.

        This cannot be undone. Every other row, in every window, stays as it is. Of a group: in all
        members that have the fields of the predicate.

        Args:
            where: The predicate.
            verify: A certificate: change nothing, and search again for rows that match.
            earlier_values: Erase also older values of these rows that would show again.
            orphan_age: How old a fragment without a commit must be to go: `24h`, or a number of
                hours. A younger one may be a write under way.
            how: Options that every change takes.

        Returns:
            What was done, with a `certificate`: what was read, what is left, and what could not be
            searched. A dry run has none.

        Raises:
            NoEngineError: The engine is not installed.
            PredicateError: The predicate cannot be read, or does not fit the schema.
            RefusedError: The array is dense, or TileDB would remove rows that do not match.
        """
        from functools import partial

        from chronotile.rows.erase import plan_erase, plan_redact_group, without_names

        if verify is not None:
            return self._certified(self._nothing("erase", how), where, verify)
        options = {"earlier_values": earlier_values, "orphan_age": orphan_age}
        planner = partial(plan_erase, where=where, is_member=self._has_members)
        own = partial(plan_redact_group, where=where)
        how["message"] = without_names(how.get("message"), where)
        report = self._change(
            "erase", planner, options, how, own=own, all_or_none=True, exclusive=True
        )
        return report if how.get("dry_run") else self._certified(report, where)

    _has_members = False

    @abstractmethod
    def _nothing(self, command: str, how: How) -> R:
        """Report a change that has nothing to do."""

    @abstractmethod
    def _certified(self, report: R, where: str, verify: Mapping[str, Any] | None = None) -> R:
        """Look at every array again, and add the certificates to the report of an erasure."""

    @abstractmethod
    def _settle(self, how: How, *, exclusive: bool = True) -> tuple[Settled, ...]:
        """Finish or take back what changes that were broken off have left."""

    @abstractmethod
    def _find_change(self, name: str, how: How) -> tuple[str, How]:
        """Find a delete or update by enough of its id: its name, and how to reach its array."""

    def undo(self, operation: Done | None = None, **how: Unpack[How]) -> R:
        """Take back the last change of this package, or the one that is given.

        Args:
            operation: The id of the operation, or the report of the change; also a report that an
                earlier version left.
            how: Options that every change takes.

        Raises:
            RefusedError: There is no such change, or it cannot be taken back any more.
        """
        return self._undo(id_of_report(operation), how)

    @abstractmethod
    def _undo(self, wanted: str | Mapping[str, Any] | None, how: How) -> R:
        """Take back the change with that id, or of that report; the last one without it."""

    def publish(
        self,
        staging: str | Sequence[str],
        *,
        at: Moment | None = None,
        own_times: bool = False,
        again: bool = False,
        allow_hidden: bool = False,
        **how: Unpack[How],
    ) -> R:
        """Make all fragments of staging arrays visible, in one step.

        A reader sees none of it or all. In a group, all members show it from one moment on, shortly
        after now.

        Args:
            staging: The path or URI of a staging array, or a list of them; of a group: of groups.
            at: The moment that the first fragment gets; the others follow in their order, a
                millisecond each. Without it the fragments of an array keep their own times.
            own_times: Of a group: keep the fragments' own times; members then show them one by
                one.
            again: Also publish fragments that are, or were, in the target.
            allow_hidden: Go on even if a later delete hides rows of them.
            how: Options that every change takes.

        Raises:
            RefusedError: An array is damaged, schemas differ, or a staging array has deletes in
                force.
        """
        staging = [staging] if isinstance(staging, str) else list(staging)
        return self._publish(given(locals()), how)

    @abstractmethod
    def _publish(self, options: dict[str, Any], how: How) -> R:
        """Publish, with all options of `publish`."""

    def clone(
        self,
        target: str,
        *,
        start: Moment = 0,
        end: Moment | None = None,
        without: Iterable[str] = (),
        link: Link = "hard",
        dry_run: bool = False,
    ) -> R:
        """Make a new array, or group, that shows what an open of this one at a window shows.

        Args:
            target: A path or a URI of nothing yet, or of a clone that was broken off.
            start: The start of the window.
            end: The end of the window; now, if it is left out.
            without: Names of commits to leave out, or enough of their ids.
            link: `hard` (on one disk; elsewhere a copy), `symbolic` (of fragments on one disk: they
                dangle once the source is vacuumed, and only the engine follows them), or `copy`.
            dry_run: Write nothing.

        Raises:
            RefusedError: Something else is at the target.
            UnreachableError: A merged fragment holds more than the window sees, and what it was
                merged from is gone.
        """
        options = given(locals(), "target", "without")
        from chronotile.storage.store import open_store

        return self._clone(open_store(target, dict(self.store.options)), tuple(without), options)

    def replicate(
        self,
        target: str,
        *,
        prune: bool = False,
        check: bool = False,
        dry_run: bool = False,
        message: str | None = None,
        target_options: Mapping[str, str] | None = None,
        before: Callable[[Any], None] | None = None,
        on_file: Callable[[], None] | None = None,
    ) -> R:
        """Make a copy elsewhere that a reader can open at any time, or bring it up to date.

        Copies only new files: each fragment before its commit, and a merged fragment before the
        file that hides its sources. If a run is killed, the same call again continues it. Of a
        group: every array and group in its folder, then the lists of members. Encrypted arrays need
        no key.

        Args:
            target: A path or a URI of nothing yet, or of an earlier copy.
            prune: Remove copied files that the source no longer has, instead of hiding them.
            check: Copy nothing; the findings are the files in which both differ.
            dry_run: Write nothing.
            message: Why; the records of both places keep it.
            target_options: Options of the target's storage; those of the source, if left out.
            before: Called with the planned steps of each place, before anything is written there.
            on_file: Called after each file that is copied.

        Raises:
            RefusedError: Somebody else wrote to the copy, or the source is damaged.
            ChangedError: The source changes all the time; try again.
        """
        from chronotile.dataset.replicate_tree import ReplicateOptions
        from chronotile.storage.store import open_store

        given = dict(self.store.options) if target_options is None else target_options
        asked = ReplicateOptions(prune, check, dry_run, message, before, on_file)
        return self._replicate(open_store(target, given), asked)

    @abstractmethod
    def _replicate(self, target: Store, options: ReplicateOptions) -> R:
        """Replicate to a place."""

    @abstractmethod
    def _clone(self, target: Store, without: Sequence[str], options: dict[str, Any]) -> R:
        """Clone to a place, without some commits."""

    def tag(
        self, name: str, *, at: Moment | None = None, move: bool = False, **how: Unpack[How]
    ) -> R:
        """Give a moment a name, which can then stand for it wherever a time is asked for.

        Args:
            name: A letter first, then letters, digits and _.:/@+-.
            at: The moment; now, if it is left out.
            move: Let a tag of that name name another moment.
            how: Options that every change takes.

        Raises:
            RefusedError: There is such a tag already, or the moment cannot be read whole any more.
        """
        return self._tag("tag", given(locals()), how)

    def untag(self, name: str, **how: Unpack[How]) -> R:
        """Take a tag away: a vacuum may then remove what only this tag needed.

        Raises:
            RefusedError: There is no such tag.
        """
        return self._tag("untag", given(locals()), how)

    @abstractmethod
    def _tag(self, command: str, options: dict[str, Any], how: How) -> R:
        """Add or remove a tag."""


def given(arguments: Mapping[str, Any], *others: str) -> dict[str, Any]:
    """Give the options of a verb: the `locals()` of its first line, less what no planner takes.

    >>> given({"self": 1, "how": {}, "mode": "all"})
    {'mode': 'all'}
    """
    return {name: one for name, one in arguments.items() if name not in ("self", "how", *others)}


def who_asks(options: Mapping[str, Any], how: How) -> Who | None:
    """Say who asks for a change, for its record; None if there is to be none."""
    from chronotile.change.operations import Who

    if unknown := how.keys() - How.__annotations__.keys():
        raise TypeError(f"expected options of this change, found {', '.join(sorted(unknown))}")
    if not how.get("record", True):
        return None
    plain = {name: _plain(value) for name, value in options.items() if value not in (None, False)}
    return Who(how.get("author"), how.get("message"), plain)


def _plain(value: Any) -> Any:
    """Give an option in a form that JSON has."""
    if isinstance(value, Mapping):
        return {str(name): _plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value if isinstance(value, str | int | float | bool) else str(value)


def open(  # noqa: A001 (the name that users call)
    uri: str | os.PathLike[str],
    *,
    key: bytes | str | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> Array | Group:
    """Open the array or the group at a place.

    Args:
        uri: A local path, or a `file://`, `s3://`, `gs://` or `az://` URI.
        key: The AES-256 key of an encrypted array, or of encrypted members: 32 bytes, or 32
            characters as the engine takes them.
        storage_options: Options of the storage, such as `aws_endpoint`.

    Raises:
        ArrayNotFoundError: There is neither; the message says what is below.
        StorageError: The storage failed.

    >>> open("memory:doc-nowhere")
    Traceback (most recent call last):
    chronotile.errors.ArrayNotFoundError: memory://doc-nowhere: expected an array, found no schema
    """
    from chronotile.storage.store import open_store

    return open_at(open_store(uri, storage_options), key)


def open_at(store: Store, key: bytes | str | None = None) -> Array | Group:
    """Open what is at a store: an array, or a group; of a path into one, the one around it."""
    from chronotile.history.listing import array_around, is_group_at, with_near

    try:
        is_group = is_group_at(store)
    except ReadError as error:
        around = array_around(store)
        if around is not None:
            return open_at(around, key)
        raise with_near(store, error) from None
    if is_group:
        from chronotile.group import Group

        return Group(store, key)
    from chronotile.array import Array

    return Array(store, key)


def open_tree(store: Store, key: bytes | str | None = None) -> Array | Group:
    """Open an array, a group, or a folder above them: it is copied as a group is."""
    from chronotile.array import Array
    from chronotile.group import Group
    from chronotile.history.listing import enter, is_array, with_near

    store = enter(store)
    try:
        kind = Array if is_array(store.list_dir()) else Group
    except ReadError as error:
        raise with_near(store, error) from None
    return kind(store, key)


def for_users(
    table: pa.Table, names: str, stores: Iterable[Store], times: Sequence[str] = ("t",)
) -> pa.Table:
    """Add the operation of ours that put each commit, and a real time behind each one in ms.

    Args:
        table: A table with a column of names of commits.
        names: That column; `operation` comes behind it.
        stores: The arrays that they are of.
        times: Columns of ms; the twin of `t` is `t_time`.
    """
    import pyarrow as pa

    from chronotile.history.text_columns import TWIN, timestamps
    from chronotile.log import operation_words

    known: dict[str, str] = {}
    for store in stores:
        known |= operation_words(store).of_name
    ids = pa.array([known.get(name) for name in table[names].to_pylist()], pa.string())
    table = table.add_column(table.schema.get_field_index(names) + 1, "operation", ids)
    for name in times:
        place = table.schema.get_field_index(name) + 1
        table = table.add_column(place, f"{name}{TWIN}", timestamps(table[name]))
    return table


def id_of_report(done: Done | None) -> str | Mapping[str, Any] | None:
    """Give the id of an operation, if there is one; else the report that was given.

    >>> id_of_report("1f3a9c02"), id_of_report({"operation": "1f3a9c02"})
    ('1f3a9c02', '1f3a9c02')
    """
    if done is None or isinstance(done, str):
        return done
    document = done if isinstance(done, Mapping) else done.to_dict()
    known = document.get("operation")
    return document if known is None else str(known)


def is_id(text: str) -> bool:
    """Tell whether a text is the id of an operation, or begins one.

    >>> is_id("1f3a9c02"), is_id("20240501T080000.120Z-vacuum.json")
    (True, False)
    """
    return len(text) <= 8 and all(letter in "0123456789abcdef" for letter in text)
