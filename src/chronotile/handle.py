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

from chronotile.errors import ChronotileError, shell_word

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable, Sequence

    import pyarrow as pa

    from chronotile.array import Array
    from chronotile.change.operations import Who
    from chronotile.change.plan import Plan, Report
    from chronotile.dataset.over_members import GroupReport
    from chronotile.format.timestamps import Moment
    from chronotile.group import Group
    from chronotile.show.picture import Picture
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

    def __init__(self, store: Store, key: bytes | None = None) -> None:
        self.store, self.key = store, key

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

        First, changes that were broken off are finished or taken back.

        Args:
            command: The name of the change.
            planner: Plans one array: `planner(store, key, **options)`.
            options: Further arguments of it.
            how: Options that every change takes.
            exclusive: Refuse while another such change is under way.
            of_group: How to treat the members of a group.
        """

    def operations(self) -> pa.Table:
        """Tell what this package did, the newest first; one row an operation.

        Columns: `id`, `time`, `command`, `options` and `rows` (JSON), `author`, `message`, `state`
        (`begun`, `done`, `failed`, `undone`, `final`), `undoes`, `put`, `hidden`, `removed`.
        """
        import json

        import pyarrow as pa

        from chronotile.change.operations import describe_operations

        texts, lists = pa.string(), pa.list_(pa.string())
        names = ("id", "time", "command", "options", "author", "message", "state", "undoes", "rows")
        columns = [*((name, texts) for name in names), *((name, lists) for name in _FILES)]
        rows = [
            one | {"options": json.dumps(one["options"]), "rows": json.dumps(one["rows"])}
            for one in describe_operations(self.store)
        ]
        return pa.Table.from_pylist(rows, schema=pa.schema(columns))

    def operation(self, id_: str) -> dict[str, Any]:
        """Read the record of one operation, with every file that it touched.

        Args:
            id_: Its id, or enough of it.

        Raises:
            ChronotileError: No operation has that id, or several do.
        """
        from chronotile.change.operations import list_operations, read_operation

        fitting = [one for one in list_operations(self.store) if one.id.startswith(id_.lower())]
        if len(fitting) != 1:
            problem = f"expected the id of one operation, found {id_!r:.40}"
            hint = f"chronotile operations {shell_word(self.uri)} lists all"
            raise ChronotileError(self.uri, f"{problem}; {hint}")
        return read_operation(self.store, fitting[0])

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
        from chronotile.rows.counted import plan_counted_delete

        options = {
            "where": where,
            "at": at,
            "any_time": any_time,
            "allow_null_loss": allow_null_loss,
            "allow_older_loss": allow_older_loss,
        }
        return self._rows_of_members("delete", plan_counted_delete, options, how)

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
        from chronotile.rows.counted import plan_counted_update

        options = {
            "where": where,
            "values": values,
            "at": at,
            "any_time": any_time,
            "experimental": experimental,
            "allow_older_loss": allow_older_loss,
        }
        return self._rows_of_members("update", plan_counted_update, options, how)

    def _rows_of_members(
        self, command: str, planner: Callable[..., Plan], options: Mapping[str, Any], how: How
    ) -> R:
        """Change rows; of a group, of the members that the caller names."""
        return self._change(command, planner, options, how, all_or_none=True)

    def apply(self, **how: Unpack[How]) -> R:
        """Carry out the updates, so that every TileDB program sees their values.

        The rows that an update matches, as an open right before it sees them, are written with the
        new values at the update's own time. NULL is no match. Needs `chronotile[engine]`.

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
        from chronotile.change.consolidate import plan_consolidate
        from chronotile.change.merged_files import plan_consolidate_group

        options = {"mode": mode, "updates": updates}
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
        from chronotile.change.vacuum import plan_vacuum
        from chronotile.change.vacuum_metadata import plan_vacuum_group

        options = {
            "mode": mode,
            "orphans": orphans,
            "whole_orphans": whole_orphans,
            "orphan_age": orphan_age,
            "loose_deletes": loose_deletes,
            "deletes": deletes,
            "updates": updates,
            "keep": tuple(keep),
            "keep_days": keep_days,
        }
        return self._change("vacuum", plan_vacuum, options, how, own=plan_vacuum_group, tags=True)

    def repair(
        self, *, accept_loss: bool = False, commit_orphans: bool = False, **how: Unpack[How]
    ) -> R:
        """Take out what keeps the engine from reading, and mend what can be mended.

        Nothing is destroyed: `undo` puts back what goes out.

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
        from chronotile.change.repair import plan_repair
        from chronotile.change.repair_group import plan_repair_group

        options = {"accept_loss": accept_loss, "commit_orphans": commit_orphans}
        return self._change(
            "repair",
            plan_repair,
            options,
            how,
            own=plan_repair_group,
            mended=True,
            exclusive=True,
        )

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
        """Make it, from a moment on, as it was at an earlier one: rows, schema and metadata.

        Tags stay. Every window that ends before stays as it is. Of a group: every member or none.

        Args:
            to: The moment to go back to.
            at: The moment from which on, after every commit; now, if it is left out.
            keep_metadata: Leave the metadata as it is now.
            rewrite: Write the rows again, with TileDB, even if commits alone can do it.
            commits_only: Refuse if commits alone cannot do it; without it TileDB, if it is
                installed, writes the rows again then.
            how: Options that every change takes.

        Raises:
            UnreachableError: Merged fragments hold more than that state, and what they were merged
                from is gone; the message names the nearest times that can be had.
            RefusedError: The array is damaged, or a delete on newer fields would break it.
        """
        from chronotile.rows.ways_back import plan_restore_any_way

        options = {
            "to": to,
            "at": at,
            "keep_metadata": keep_metadata,
            "rewrite": rewrite,
            "commits_only": commits_only,
        }
        planner = plan_restore_any_way
        return self._change("restore", planner, options, how, all_or_none=True, exclusive=True)

    @abstractmethod
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
            at: The moment from which on they come back, after every commit; now, if it is left
                out. Every window that ends before stays as it is.
            ever: Take it out of the whole history instead.
            commits_only: Refuse if commits alone cannot do it; without it TileDB, if it is
                installed, writes the rows again that nothing later overwrote or deleted.
            how: Options that every change takes.

        Raises:
            RefusedError: There is no such delete, or no row would come back.
            UnreachableError: Fragments have applied it, and what they were merged from is gone.
        """

    @abstractmethod
    def undo(self, operation: Done | None = None, **how: Unpack[How]) -> R:
        """Take back a change of ours: the last one, or that one.

        Args:
            operation: The id of the operation, or the report of the change; also a report that an
                earlier version left.
            how: Options that every change takes.

        Raises:
            RefusedError: There is no such change, or it cannot be taken back any more.
        """

    @abstractmethod
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

        A reader sees none of it or all. In a group, what is staged for all members shows at one
        moment, just ahead.

        Args:
            staging: Paths or URIs of staging arrays, or groups, or one of them.
            at: The moment that the first fragment gets; the others follow in their order, a
                millisecond each. Without it the fragments of an array keep their own times.
            own_times: Of a group: let all fragments keep their own times; members follow each
                other then.
            again: Take also fragments that are, or were, in the target already.
            allow_hidden: Go on even if a later delete hides rows of them.
            how: Options that every change takes.

        Raises:
            RefusedError: An array is damaged, schemas differ, or a staging array has deletes in
                force.
        """

    @abstractmethod
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
        """Make an array, or a group, elsewhere that shows what an open of this one shows.

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

    @abstractmethod
    def tag(
        self, name: str, *, at: Moment | None = None, move: bool = False, **how: Unpack[How]
    ) -> R:
        """Give a moment a name, which every option of a time takes.

        Args:
            name: A letter first, then letters, digits and _.:/@+-.
            at: The moment; now, if it is left out.
            move: Let a tag of that name name another moment.
            how: Options that every change takes.

        Raises:
            RefusedError: There is such a tag already, or the moment cannot be read whole any more.
        """

    @abstractmethod
    def untag(self, name: str, **how: Unpack[How]) -> R:
        """Take a tag away: from then on a vacuum may remove what only it needs.

        Raises:
            RefusedError: There is no such tag.
        """


def draw_to(
    out: str | os.PathLike[str],
    picture: Picture,
    errors: Mapping[str, ChronotileError] | None = None,
) -> Drawn:
    """Draw a picture into a file, in the form that the end of its name says."""
    from pathlib import Path

    from chronotile.show.picture import draw

    data = draw(picture, Path(out).suffix.lower())
    Path(out).write_bytes(data)
    return Drawn(picture, str(out), len(data), errors or {})


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
    """Open an array or a group, by what is there.

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
    """Open what is at a store: an array, or a group."""
    from chronotile.history.listing import is_group_at

    raw = key.encode() if isinstance(key, str) else key
    if is_group_at(store):
        from chronotile.group import Group

        return Group(store, raw)
    from chronotile.array import Array

    return Array(store, raw)


def with_operations(table: pa.Table, names: str, stores: Iterable[Store]) -> pa.Table:
    """Add the column `operation` behind a column of names: the operation of ours that put each.

    Args:
        table: A table with a column of names of commits.
        names: That column.
        stores: The arrays that they are of.
    """
    import pyarrow as pa

    from chronotile.change.operations import tell_operations
    from chronotile.show.operation_words import Operations

    known: dict[str, str] = {}
    for store in stores:
        known |= Operations(tell_operations(store)).of_name
    ids = pa.array([known.get(name) for name in table[names].to_pylist()], pa.string())
    return table.add_column(table.schema.get_field_index(names) + 1, "operation", ids)


def operation_of(done: Done | None) -> str | Mapping[str, Any] | None:
    """Give the id of an operation, if there is one; else the report that was given.

    >>> operation_of("1f3a9c02"), operation_of({"operation": "1f3a9c02"})
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


def wrong_member(uri: str) -> ChronotileError:
    """Make the error of a pattern of members where there are none."""
    return ChronotileError(uri, "expected a group, as members are named, found an array")
