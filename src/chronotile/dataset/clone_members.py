"""A clone of a whole dataset, as of a moment.

In: a dataset, a moment, an empty place. Out: a dataset there, with clones of its arrays and with
the lists of members of that moment, and `GroupReport`. Writes nothing to the source.

Every member is planned before the first is made, and must lie in the dataset's own folder under a
relative URI: a clone that leads back to its source would be none. The arrays go first, then the
groups, the innermost first: before that the place is no group.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from chronotile.change.clone import clone
from chronotile.change.operations import note_copy
from chronotile.check.findings import RefusedError
from chronotile.dataset.member_tree import LOST
from chronotile.dataset.over_members import GroupReport, MemberOutcome
from chronotile.format.commit_files import decode_vac, vacuumed_name
from chronotile.format.kinds import GROUP, GROUP_MARKER, META
from chronotile.format.names import find_name, try_parse
from chronotile.format.timestamps import now_ms
from chronotile.safe_text import shell_word
from chronotile.storage.transfer import Transfer

if TYPE_CHECKING:
    from collections.abc import Iterable

    from chronotile.dataset.member_tree import Node
    from chronotile.dataset.open_dataset import Dataset
    from chronotile.format.timestamps import Moment
    from chronotile.storage.store import Store


def clone_members(
    dataset: Dataset,
    target: Store,
    *,
    start: Moment = 0,
    end: Moment | None = None,
    without: Iterable[str] = (),
    dry_run: bool = False,
    **options: Any,
) -> GroupReport:
    """Make a dataset that shows what an open of every member at a moment shows.

    `without` names commits to leave out, or enough of their ids, in whichever members; `options`
    are further ones of `clone`.

    Raises:
        RefusedError: A member is gone, or lies elsewhere.
        ChronotileError: A member cannot be cloned, or no commit has such a name: nothing was made.
    """
    if (words := dataset.absence(end)) is not None:
        raise RefusedError(dataset.uri, f"there is nothing to clone: {words}")
    nodes = dataset.tree(end)
    for node in nodes:
        if node.found in LOST or not node.is_inside or not node.member.is_relative:
            why = node.problem or "it lies elsewhere, or is named by an absolute URI"
            hint = f"to see what is wrong: chronotile check {shell_word(dataset.uri)}"
            problem = f"the member {node.path} cannot be cloned: {why}"
            raise RefusedError(dataset.uri, f"{problem}; {hint}" if node.problem else problem)
    arrays = [node for node in nodes if node.found == "array"]
    window = {"start": dataset.moment(start)}
    window["end"] = now_ms() if end is None else dataset.moment(end)
    left_out = _left_out(dataset, arrays, tuple(without))

    def made(*, dry: bool) -> tuple[MemberOutcome, ...]:
        return tuple(
            _cloned(
                dataset,
                node,
                target,
                dry_run=dry,
                without=left_out.get(node.path, ()),
                **window,
                **options,
            )
            for node in arrays
        )

    planned = made(dry=True)
    if dry_run:
        return GroupReport("clone", target.uri, dry_run=True, outcomes=planned)
    done = made(dry=False)
    inner = [node for node in nodes if node.found == "group"]
    for node in sorted(inner, key=lambda node: -node.depth):
        assert node.store is not None  # a group was found there
        _clone_group(node.store, _below(dataset.store, node.store, target), dataset, end)
    _clone_group(dataset.store, target, dataset, end)
    names = sorted({name for found in left_out.values() for name in found})
    note_copy(dataset.store, target, "clone", window=window | {"without": names})
    return GroupReport("clone", target.uri, dry_run=False, outcomes=done)


def _left_out(
    dataset: Dataset, arrays: list[Node], without: tuple[str, ...]
) -> dict[str, list[str]]:
    """Map the path of a member to the names of its commits that are left out."""
    if not without:
        return {}
    holders: dict[str, list[str]] = {}
    for node in arrays:
        for name in dict.fromkeys(dataset.log_of(node).commits()["name"].to_pylist()):
            holders.setdefault(name, []).append(node.path)
    found: dict[str, list[str]] = {}
    for text in without:
        whole = find_name(holders, text, dataset.uri)
        for path in holders[whole]:
            found.setdefault(path, []).append(whole)
    return found


def _cloned(dataset: Dataset, node: Node, target: Store, **options: Any) -> MemberOutcome:
    assert node.store is not None  # an array was found there
    there = _below(dataset.store, node.store, target)
    report = clone(node.store, there, dataset.key, **options)
    return MemberOutcome(path=node.path, array=there.uri, report=report)


def _below(root: Store, inner: Store, target: Store) -> Store:
    """Give the place in the clone of a folder of the dataset."""
    path = inner.place.root[len(root.place.root) :].strip("/")
    return target.at(target.place.child(path))


def _clone_group(source: Store, target: Store, dataset: Dataset, end: Moment | None) -> None:
    """Copy the lists of members and the metadata of a group, its marker last."""
    last = None if end is None else dataset.moment(end)
    transfer = Transfer(source, target, "copy")
    transfer.make_root((GROUP, META))
    hidden: set[str] = set()
    names: dict[str, str] = {}
    for folder in (META, GROUP):
        for file in source.list_names(folder).files:
            name = try_parse(file.removesuffix(".vac"))
            if name is None or (last is not None and name.t2 > last):
                continue
            path = f"{folder}/{file}"
            if file.endswith(".vac"):
                # It names whole URIs, which lead back to the source: leave out what it hides.
                hidden |= {
                    f"{folder}/{vacuumed_name(o)}" for o in decode_vac(source.read(path), path)
                }
            else:
                names[path] = path
    transfer.files({path: path for path in names if path not in hidden})
    transfer.files({GROUP_MARKER: GROUP_MARKER})
