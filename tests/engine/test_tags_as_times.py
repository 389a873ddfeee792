"""Every command takes a tag where it takes a time: of an array, and of a group for its members."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

import click
import pytest
import tiledb
from support.engine_arrays import EngineArray
from support.verbs import add_tag

import chronotile as ct
from chronotile.cli import main
from chronotile.cli.options import MOMENT
from chronotile.cli.program import chronotile as program
from chronotile.format.timestamps import now_ms

if TYPE_CHECKING:
    from collections.abc import Iterator

CALLS = {
    "log --start": "log ARRAY --start THEN",
    "log --end": "log ARRAY --end THEN",
    "visible --start": "visible ARRAY --start THEN",
    "visible --end": "visible ARRAY --end THEN",
    "rows --start": "rows ARRAY --start THEN",
    "rows --end": "rows ARRAY --end THEN",
    "diff t1": "diff ARRAY THEN 30",
    "diff t2": "diff ARRAY 10 THEN",
    "explain --start": "explain ARRAY --start THEN",
    "explain --end": "explain ARRAY --end THEN",
    "timeline --as-of": "timeline ARRAY -o FOLDER/picture.svg --as-of THEN",
    "members --as-of": "members GROUP --as-of SOON",
    "members --end": "members GROUP --end SOON",
    "check --as-of": "check GROUP --as-of SOON",
    "delete --at": "delete ARRAY --where a==3 --at THEN --any-time --dry-run",
    "update --at": "update ARRAY --where a==3 --set a=4 --at THEN --experimental --dry-run",
    "vacuum --keep": "vacuum ARRAY --keep THEN --dry-run",
    "compact --keep": "compact ARRAY --keep THEN --dry-run",
    "clone --start": "clone ARRAY FOLDER/clone --start THEN --dry-run",
    "clone --end": "clone ARRAY FOLDER/clone --end THEN --dry-run",
    "restore --to": "restore ARRAY --to THEN --at SOON --dry-run",
    "restore --at": "restore ARRAY --to 10 --at SOON --dry-run",
    "undelete --at": "undelete ARRAY DELETE --at SOON --dry-run",
    "publish --at": "publish FOLDER/stage ARRAY --at SOON --dry-run",
    "tag add --at": "tag add ARRAY other --at THEN --dry-run",
}
"""Command and option -> a call of it. SOON is after every commit, THEN is among them."""


def options(command: click.Command, path: str = "") -> Iterator[str]:
    """Each option of a command, or of those below it, that is a time."""
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            assert below is not None
            yield from options(below, f"{path} {name}".strip())
        return
    for option in command.params:
        if option.type is MOMENT:
            yield f"{path} {option.opts[0]}"


def test_the_list_is_whole() -> None:
    assert set(options(program)) == CALLS.keys() - {"members --end"}  # `--as-of`, spelled otherwise


class Tagged(NamedTuple):
    """A group with an array, an array that is staged for it, and the tags of both."""

    folder: str
    moments: dict[str, int]

    def call(self, option: str, then: str, soon: str) -> list[str]:
        """The arguments of a call, with its times in some words."""
        array = f"{self.folder}/group/array"
        (delete,) = ct.open_log(array).view().deletes
        words = {"THEN": then, "SOON": soon, "ARRAY": array, "GROUP": f"{self.folder}/group"}
        words |= {"FOLDER": self.folder, "DELETE": delete.name}
        return [re.sub("[A-Z]{4,}", lambda m: words[m[0]], one) for one in CALLS[option].split()]


@pytest.fixture(scope="module")
def tagged(tmp_path_factory: pytest.TempPathFactory) -> Tagged:
    folder = tmp_path_factory.mktemp("tagged")
    group = str(folder / "group")
    tiledb.Group.create(group)
    array = EngineArray(folder / "group" / "array").create()
    for at in (10, 20, 30):
        array.write(at, {at: at})
    array.delete(25, "a == 10")
    with tiledb.Group(group, "w") as opened:
        opened.add("array", name="array", relative=True)
    EngineArray(folder / "stage").create().write(40, {1: 1})
    moments = {"then": 20, "soon": now_ms() + 3_600_000}
    for name, at in moments.items():
        add_tag(array.uri, f"array-{name}", at=at)
        ct.open_dataset(group).add_tag(f"group-{name}", at=at)
    return Tagged(str(folder), moments)


def is_now(text: str) -> bool:
    return abs(int(text) - now_ms()) < 600_000


@pytest.mark.parametrize("whose", ["array", "group"])
@pytest.mark.parametrize("option", CALLS)
def test_a_tag_is_a_time(
    tagged: Tagged, capsys: pytest.CaptureFixture[str], option: str, whose: str
) -> None:
    """A group's tag names a time of its member too, if that has none of the name itself."""
    prefix = "group" if "GROUP" in CALLS[option] else whose
    then, soon = tagged.moments.values()
    said = []
    for words in ((f"{prefix}-then", f"{prefix}-soon"), (str(then), str(soon))):
        status = main([*tagged.call(option, *words), "--json"])
        out, error = capsys.readouterr()
        # Names that are made up, the time of the call itself, and so the length of a picture,
        # differ from call to call.
        out = re.sub(r"[0-9a-f]{32,64}|\"time\": \"[^\"]*\"|\"size\": \d{5},", "", out)
        out = re.sub(r"\d{13}", lambda m: "now" if is_now(m[0]) else m[0], out)
        said.append((status, out, error))
    assert said[0] == said[1]
    assert said[0][0] in (0, 1), said[0]
    assert said[0][1], said[0]
