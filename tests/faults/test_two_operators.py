"""Two operators change one place at the same moment: one of them is refused, or both are right.

The place is an array, on a disk or in a bucket, or a group. Two real processes run one command
each. The first is held before a change of a file, from the record that says what it is about to do
to the one that says that it is done, while the other one runs whole; or both begin at once. Then
the rows at every window are those of the one and then the other, run one after the other on a copy;
or those of the one that was not refused. A refusal is one message, `check` finds no error, and undo
leads back to the rows of the beginning.

`CHRONOTILE_PAIRS=1000` holds the first one of every pair before every change of a file.
"""

from __future__ import annotations

import itertools
import os
import shutil
import uuid
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING

import pytest
import tiledb
from support.engine_arrays import EngineArray
from support.operators import Operators, operators

import chronotile as ct
from chronotile.array import Array
from chronotile.change.operations import list_operations, read_operation
from chronotile.check.findings import RefusedError
from chronotile.storage.store import open_store

if TYPE_CHECKING:
    import pathlib
    from collections.abc import Iterator

    from support.engine_arrays import Answer, Window
    from support.operators import Ended
    from support.servers import S3Server

    from chronotile.change.operations import Operation

    Rows = dict[tuple[str, Window], Answer]

MOST = int(os.environ.get("CHRONOTILE_PAIRS", "1"))
"""Changes of files before which the first one of a pair is held, spread over all."""
WINDOWS: tuple[Window, ...] = ((0, 10), (0, 20), (0, 27), (0, 45), (15, 35), (0, 1 << 60))
COMMANDS = {
    "delete": "delete ARRAY --where a==4",
    "apply": "apply ARRAY",
    "undelete": "undelete ARRAY DELETE",
    "publish": "publish STAGING ARRAY",
    "undo": "undo ARRAY",
    "restore": "restore ARRAY --to 10",
    "consolidate": "consolidate ARRAY --mode all",
    "vacuum": "vacuum ARRAY",
    "tag": "tag add ARRAY before --at 20",
    "compact": "compact ARRAY --quiet 0s",
    "erase": "erase ARRAY --where a==30 --yes --earlier-values",
}
_SAME = ("publish", "undo", "restore", "consolidate", "vacuum", "tag")
OF_GROUP = {
    "delete": "delete ARRAY --member * --where a==4",
    "of-member": "delete ARRAY/one --where a==3",
    **{name: COMMANDS[name] for name in _SAME},
}
"""On a group as a whole, and on one of its members."""
OF_DENSE = ("publish", "undo", "restore", "consolidate", "vacuum", "tag", "compact")
FINAL = {"vacuum", "erase"}
"""What they remove does not come back."""
SLOW = {"compact", "erase"}
"""Commands that take seconds: only long runs try them in every pair."""


class Scene:
    """One kind of array, with all that the commands need, and its rows after each command."""

    commands = COMMANDS
    access: tuple[str, ...] = ()
    """Options of every command."""

    def __init__(self, folder: pathlib.Path, kind: str, running: Operators) -> None:
        self.folder, self.kind, self.running = folder, kind, running
        self.is_sparse = kind != "dense"
        self._numbers = itertools.count()
        self._after: dict[tuple[str, ...], tuple[list[int], Rows]] = {}
        self.total: dict[str, int] = {}
        """Command -> the changes of files that it begins alone."""
        uri = str(folder / "array")
        self.make()
        self.before = self.seen(uri)
        self.known = {one.id for one in self.operations(uri)}

    def make(self) -> None:
        """Make the array, and what is staged for it."""
        array = self._made("array")
        array.write(10, {1: 1, 2: 2, 3: 3, 4: 4})
        self._key(12, 1)
        array.write(20, {2: 20, 3: 30})
        array.consolidate("fragments", (5, 22))
        if self.is_sparse:
            array.delete(25, "a == 1")
        array.write(30, {5: 50, 6: 60})
        self._key(32, 2)
        handle = Array(open_store(array.uri))
        if self.is_sparse:
            handle.update("a == 60", ["a=61"], at=35, experimental=True)
            handle.delete("a == 50", at=40)
        else:
            handle.restore(20)
        self._made("staging").write(42, {8: 80, 9: 90})

    def operations(self, uri: str) -> list[Operation]:
        """List what was done by itself, and not as a part of something else."""
        return [*list_operations(open_store(uri))]

    def _made(self, name: str) -> EngineArray:
        array = EngineArray(self.folder / name)
        return array.create(sparse=self.is_sparse, duplicates=self.kind == "duplicates")

    def _key(self, at: int, value: int) -> None:
        with tiledb.open(str(self.folder / "array"), "w", timestamp=at) as array:
            array.meta["k"] = value

    @cached_property
    def delete(self) -> str:
        """The delete that an undelete takes back."""
        files = (self.folder / "array" / "__commits").glob("__25_*.del")
        return next((file.stem for file in files), "")

    def seen(self, uri: str) -> Rows:
        """Let the engine read every window."""
        array = EngineArray(uri)
        array.sparse = self.is_sparse
        return {("", window): array.answer(*window, metadata=True) for window in WINDOWS}

    def run(self, *names: str, hold_at: int | None) -> tuple[str, int, list[Ended]]:
        """Run commands on a copy; give it, with what the first one did and how each ended."""
        uri, staging = self.copy("array", f"{next(self._numbers)}"), self.staging
        places = {"ARRAY": uri, "ARRAY/one": f"{uri}/one", "STAGING": staging}
        places["DELETE"] = self.delete
        lines = [[*self.commands[name].split(), *self.access] for name in names]
        commands = [[places.get(word, word) for word in line] for line in lines]
        steps, ended = self.running.run(*commands, hold_at=hold_at)
        return self.fetch(uri), steps, ended

    @property
    def staging(self) -> str:
        """What a publication takes."""
        return str(self.folder / "staging")

    def copy(self, source: str, name: str) -> str:
        """Copy an array to where the commands change it."""
        return str(shutil.copytree(self.folder / source, self.folder / name))

    def fetch(self, uri: str) -> str:
        """Bring what the commands left to the disk, where it is judged."""
        return uri

    def steps(self, name: str) -> int:
        """Count the changes of files of a command that runs alone."""
        self.after(name)
        return self.total[name]

    def after(self, *names: str) -> tuple[list[int], Rows]:
        """Give the rows after commands that ran one after the other, and how these ended."""
        if names not in self._after:
            uri, steps, ended = self.run(*names, hold_at=None)
            self.total.setdefault(names[0], steps)
            self._after[names] = ([one.status for one in ended], self.seen(uri))
            shutil.rmtree(uri)
        return self._after[names]

    def judge(self, first: str, second: str, hold_at: int) -> None:
        """Run two commands at once, and judge what is there afterwards."""
        uri, _, ended = self.run(first, second, hold_at=hold_at)
        rows, went = self.seen(uri), [one.status == 0 for one in ended]
        for one in ended:
            assert one.status in (0, 1, 3), one.said
            messages = [line for line in one.said.splitlines() if line.startswith("chronotile: ")]
            assert len(messages) == (one.status != 0), one.said
            # What another change has disturbed can be tried again, and says so with status 3.
            assert one.status != 3 or "try again" in one.said or "taken back" in one.said, one.said
        if all(went):
            orders = [self.after(first, second), self.after(second, first)]
            right = [order for status, order in orders if status == [0, 0]]
        else:
            alone = [name for name, went_on in zip((first, second), went, strict=True) if went_on]
            right = [self.after(*alone)[1] if alone else self.before]
        assert rows in right, [one.said for one in ended]
        assert [one for one in ct.open(uri).check() if one.severity == "error"] == []
        with suppress(*[RefusedError] if FINAL & {first, second} else []):
            self._walk_back(uri)
            assert FINAL & {first, second} or self.seen(uri) == self.before
        shutil.rmtree(uri)

    def _walk_back(self, uri: str) -> None:
        """Take back what the two have done; what they have undone comes again."""
        for _ in range(2):
            standing = [
                one
                for one in self.operations(uri)
                if one.id not in self.known and one.state == "done" and one.command != "undo"
            ]
            if standing:
                try:
                    self.undo(uri, standing[0])
                except RefusedError as error:
                    # Both ran at once: what began first may build on what began after it.
                    if "builds on it" not in str(error):
                        raise
                    self.undo(uri, standing[1])
        handle = ct.open(uri)
        done = [*list_operations(handle.store)]
        undos = [one.id for one in done if one.command == "undo" and one.state == "done"]
        by_undone = {handle.operation(id_)["undoes"]: id_ for id_ in undos}
        for one in done:
            if one.id in self.known and one.state == "undone":
                handle.undo(by_undone[one.id])

    def undo(self, uri: str, last: Operation) -> None:
        """Take back the last operation, which undo finds by itself."""
        del last
        ct.open(uri).undo()


class GroupScene(Scene):
    """A group of two arrays, changed as a whole, and one of them alone."""

    commands = OF_GROUP
    members = ("one", "two")

    def make(self) -> None:
        for place in ("array", "staging"):
            tiledb.Group.create(str(self.folder / place))
            with tiledb.Group(str(self.folder / place), "w") as group:
                for name in self.members:
                    array = self._made(f"{place}/{name}")
                    group.add(name, name=name, relative=True)
                    if place == "staging":
                        array.write(42, {8: 80})
                    else:
                        array.write(10, {1: 1, 3: 3, 4: 4})
                        array.write(20, {2: 20, 5: 50})
        ct.open(self.folder / "array").delete("a == 50", at=40, member="*")

    def seen(self, uri: str) -> Rows:
        return {
            (name, window): EngineArray(f"{uri}/{name}").answer(*window)
            for name in self.members
            for window in WINDOWS
        }

    def operations(self, uri: str) -> list[Operation]:
        found = [*list_operations(open_store(uri))]
        for name in self.members:
            store = open_store(f"{uri}/{name}")
            alone = (
                one for one in list_operations(store) if not read_operation(store, one).get("group")
            )
            found += [one._replace(path=f"{name}/{one.path}") for one in alone]
        return sorted(found, key=lambda one: one.at_ms, reverse=True)

    def undo(self, uri: str, last: Operation) -> None:
        member = last.path.partition("/")[0]
        ct.open(f"{uri}/{member}" if member in self.members else uri).undo(last.id)


class BucketScene(Scene):
    """The sparse array in a bucket."""

    def __init__(self, folder: pathlib.Path, running: Operators, server: S3Server) -> None:
        self._server, self._name = server, f"operators-{uuid.uuid4().hex[:12]}"
        self._bucket = server.make_bucket(self._name)
        options = [f"{name}={value}" for name, value in server.options.items()]
        self.access = tuple(word for one in options for word in ("--storage", one))
        super().__init__(folder, "bucket", running)

    def make(self) -> None:
        super().make()
        self.copy("staging", "staging")

    @property
    def staging(self) -> str:
        return f"{self._bucket}/staging"

    def copy(self, source: str, name: str) -> str:
        for file in (self.folder / source).rglob("*"):
            if file.is_file():
                path = file.relative_to(self.folder / source).as_posix()
                self._server.send("PUT", f"{self._name}/{name}/{path}", file.read_bytes())
        return f"{self._bucket}/{name}"

    def fetch(self, uri: str) -> str:
        folder = self.folder / uri.rpartition("/")[2]
        store = open_store(uri, self._server.options)
        for file in store.list_files():
            (folder / file.path).parent.mkdir(parents=True, exist_ok=True)
            (folder / file.path).write_bytes(store.read(file.path))
        return str(folder)


@pytest.fixture(scope="module")
def running() -> Iterator[Operators]:
    with operators() as process:
        yield process


@pytest.fixture(scope="module", params=["sparse", "duplicates", "dense", "group", "bucket"])
def scene(
    request: pytest.FixtureRequest, running: Operators, tmp_path_factory: pytest.TempPathFactory
) -> Scene:
    folder = tmp_path_factory.mktemp(request.param)
    if request.param == "bucket":
        return BucketScene(folder, running, request.getfixturevalue("s3"))
    kind = GroupScene if request.param == "group" else Scene
    return kind(folder, request.param, running)


def chosen(scene: Scene) -> list[str]:
    """List the commands whose pairs are tried: all of them in a long run."""
    names = [name for name in scene.commands if scene.is_sparse or name in OF_DENSE]
    if MOST > 10:
        return names
    if scene.kind == "sparse":
        return [name for name in names if name not in SLOW]
    few = ("publish", "undo", "restore")
    return [name for name in names if name in (*few, "of-member")]


def holds(scene: Scene, first: str, number: int) -> list[int]:
    """List the changes of files to hold a command at; each pair takes another one, by its number.

    The first one is the record of the command: all is planned then, and nobody knows of it.
    """
    total = scene.steps(first)
    if MOST > 1:
        return [0, *range(1, total + 1)][: MOST + 1]
    places = (1, 2, total // 2 + 1, 0, total)
    return [places[number % len(places)]] if total else [0]


def test_one_is_refused_or_both_are_right(scene: Scene) -> None:
    names = chosen(scene)
    if MOST > 1:
        pairs = [*itertools.product(names, repeat=2)]
    else:
        # Whoever comes first in the table comes second in every other pair.
        once = itertools.combinations_with_replacement(names, 2)
        pairs = [pair[::-1] if number % 2 else pair for number, pair in enumerate(once)]
    wrong = []
    for number, (first, second) in enumerate(pairs):
        for hold_at in holds(scene, first, number):
            try:
                scene.judge(first, second, hold_at)
            except AssertionError as error:
                wrong.append(f"{first} held at {hold_at} beside {second}: {error}")
                print(wrong[-1], flush=True)
    assert not wrong, "\n\n".join(wrong)


@pytest.mark.parametrize(
    ("first", "second", "hold_at"),
    [
        # The `.con` of a restore or a publication held the delete that was undone meanwhile.
        ("restore", "undo", 1),
        ("undo", "publish", 1),
        # So did that of a consolidation, and then nothing could take the delete back any more.
        ("undo", "consolidate", 2),
        ("consolidate", "undo", 2),
        # A restore hid a merged fragment that the compact then took back: a commit without one.
        ("compact", "restore", 8),
        # A compact that was taken back stood in the way of every undo.
        ("compact", "restore", 2),
        ("compact", "compact", 1),
        # The vacuum took fragments by a plan from before the restore.
        ("restore", "vacuum", 7),
        ("vacuum", "restore", 1),
    ],
)
def test_a_pair_that_once_went_wrong(
    running: Operators, tmp_path: pathlib.Path, first: str, second: str, hold_at: int
) -> None:
    kind = "dense" if "vacuum" in (first, second) else "sparse"
    Scene(tmp_path, kind, running).judge(first, second, hold_at)
