"""The README and the guides: their commands are run, their output is real, their code works."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import obstore
import pytest

import chronotile as ct
from chronotile.cli import main, sample
from chronotile.cli.demo import Guide, read_guides, title_of
from chronotile.cli.program import _ALL, chronotile
from chronotile.fleet.policy import read_policy
from chronotile.storage.store import open_store

if TYPE_CHECKING:
    from support.servers import FaultProxy, S3Server

ROOT = Path(__file__).parent.parent
GUIDES = read_guides()
PAGES = {"README": (ROOT / "README.md").read_text("utf-8"), **GUIDES}
"""Name of a page -> its text."""
TOPICS = (
    *("changes", "datasets", "erase", "faults", "fleet", "format", "loads"),
    *("maintenance", "replicate", "rights", "rows", "side-by-side", "speed", "time-machine"),
)
BIN = str(Path(sys.executable).parent)
ENVIRONMENT = os.environ | {"TZ": "UTC", "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}"}
"""As in an environment that was activated: Spark's workers look for Python on the path."""


@pytest.fixture
def workplace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with the sample in `demo`, as after `make demo`."""
    sample.unpack(tmp_path / "demo")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def blocks(page: str, language: str) -> list[str]:
    found = re.findall(r"^```(\w+)\n(.*?)^```$", PAGES[page], re.MULTILINE | re.DOTALL)
    return [text for other, text in found if other == language]


def commands(page: str) -> list[tuple[str, str]]:
    """(command, what it is said to print) of every console block."""
    parts = [part for text in blocks(page, "console") for part in text.split("$ ")[1:]]
    return [(command, output.strip()) for command, _, output in (p.partition("\n") for p in parts)]


def fits(shown: str, printed: str) -> bool:
    """Compare what a page shows with what was printed; `…` stands for any text.

    >>> fits("a … c", "a b c"), fits("a c", "a b c")
    (True, False)
    """
    pattern = ".*".join(re.escape(re.sub(r" +", " ", part)) for part in shown.split("…"))
    return re.fullmatch(pattern, re.sub(r" +", " ", printed), re.DOTALL) is not None


@pytest.mark.usefixtures("workplace")
@pytest.mark.parametrize("page", PAGES)
def test_every_command_of_a_page_prints_what_is_shown(
    page: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for command, shown in commands(page):
        program, *arguments = shlex.split(command)
        if program == "make":
            dry = ["make", "--dry-run", "--directory", str(ROOT), *arguments]
            done = subprocess.run(dry, capture_output=True, timeout=60, check=False)
            assert done.returncode == 0, command
            continue
        assert program == "chronotile", command
        status = main(arguments)
        printed = capsys.readouterr()
        assert status == 0, f"{command}\n{printed.err}"
        if shown:
            assert "…" in shown or printed.out.strip() == shown
            assert fits(shown, printed.out.strip()), f"{command}\n{printed.out}"


def test_there_are_commands_on_nearly_every_page() -> None:
    assert {page for page in PAGES if not commands(page)} == {"changes"}
    assert sum(len(commands(page)) for page in PAGES) >= 40


@pytest.mark.usefixtures("workplace")
@pytest.mark.parametrize("page", PAGES)
def test_the_code_of_a_page_runs(page: str, capsys: pytest.CaptureFixture[str]) -> None:
    for text in blocks(page, "python"):
        if "SparkSession" not in text:
            exec(text, {})
            assert capsys.readouterr().out


def test_the_code_for_spark_runs(workplace: Path) -> None:
    (text,) = [text for text in blocks("README", "python") if "SparkSession" in text]
    done = subprocess.run(
        [sys.executable, "-c", text],
        cwd=workplace, env=ENVIRONMENT, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "superseded" in done.stdout
    assert "amount < 3.0" in done.stdout


def options_of(name: str) -> set[str]:
    command = chronotile.get_command(click.Context(chronotile), name)
    assert command is not None
    below = list(command.commands.values()) if isinstance(command, click.Group) else []
    return {
        spelling
        for one in (command, *below)
        for option in one.params
        if isinstance(option, click.Option) and not option.hidden
        for spelling in (*option.opts, *option.secondary_opts)
    }


@pytest.mark.parametrize("page", PAGES)
def test_every_option_that_a_page_names_is_there(page: str) -> None:
    every = {option for name in _ALL for option in options_of(name)}
    prose = re.sub(r"^```.*?^```$", "", PAGES[page], flags=re.MULTILINE | re.DOTALL)
    for words in re.findall(r"`([^`]+)`", prose):
        parts = words.removeprefix("chronotile ").split()
        if words.startswith("chronotile ") and re.fullmatch(r"[a-z-]+", parts[0]):
            assert parts[0] in _ALL, words
        if parts[0] not in _ALL and not parts[0].startswith("-"):
            continue
        known = options_of(parts[0]) if parts[0] in _ALL else every | {"--archives"}
        named = [part for part in parts if re.match(r"--?[a-z]", part)]
        gone = {"--prices"} if page == "changes" else set()
        assert set(named) <= known | gone, f"{words}: {set(named) - known}"


def test_a_policy_of_the_guide_can_be_read(tmp_path: Path) -> None:
    (text,) = blocks("fleet", "toml")
    assert tomllib.loads(text)
    (tmp_path / "policy.toml").write_text(text)
    assert read_policy(str(tmp_path / "policy.toml")).rules


def test_every_fault_is_there() -> None:
    faults, _, upstream = PAGES["faults"].partition("## Upstream")
    numbers = re.findall(r"^\| (F\d+) \|", faults, re.MULTILINE)
    known = {
        one
        for row in re.findall(r"^\| (F.*?) \|", upstream, re.MULTILINE)
        for one in row.split(", ")
    }
    assert known == set(numbers)
    assert numbers == [f"F{number}" for number in range(1, 20)]


def test_the_tests_that_a_guide_names_are_there() -> None:
    for page, text in PAGES.items():
        for path in re.findall(r"`(tests/[\w/]+\.py)(?:::\w+)?`", text):
            assert (ROOT / path).exists(), f"{page}: {path}"
        for name in re.findall(r"`(test_\w+\.py)`", text):
            assert list((ROOT / "tests").rglob(name)), f"{page}: {name}"


RIGHTS = [
    "log ARRAY",
    "operations ARRAY",
    "check ARRAY --deep",
    "repair ARRAY",
    "vacuum ARRAY --dry-run",
    "erase ARRAY --where 'id == 7' --dry-run",
    "delete ARRAY --where 'id == 7'",
    "tag add ARRAY load",
    "tag remove ARRAY load",
    "clone ARRAY ROOT/trial",
    "restore ROOT/trial --to 2024-05-10",
    "undo ROOT/trial",
    "undelete ROOT/trial 1edafe70",
    "clone ARRAY ROOT/second",
    "undelete ROOT/second 1edafe70 --ever",
    "compact ROOT/second --quiet 0s --vacuum",
    "clone ARRAY ROOT/staging --start 2024-05-16 --end 2024-05-17",
    "publish ROOT/staging ARRAY --again --at now",
    "undo ARRAY",
    "apply ARRAY",
    "compact ARRAY --quiet 0s",
    "consolidate ARRAY --mode all",
    "vacuum ARRAY",
    "replicate ARRAY ROOT/copy",
    "erase ARRAY --where 'id == 8' --yes",
    "replicate ARRAY ROOT/copy --prune",
]
"""Commands in the order in which they are run: each changes something, if it may."""


def rights_of(command: str) -> tuple[str, str]:
    """The columns "write" and "delete" of a command's row in the guide."""
    if "--dry-run" in command:
        return "", ""
    name = command.split()[0]
    for row in re.findall(r"^\| (`.*) \|$", PAGES["rights"].partition("## In S3")[0], re.MULTILINE):
        names, _, writes, deletes = (column.strip() for column in f"{row} ".split("| "))
        if name in re.findall(r"`([a-z]+)[^`]*`", names):
            return writes, deletes
    raise AssertionError(f"the guide has no row on {name}")


def is_granted(key: str, places: list[str], right: str) -> bool:
    """Whether the guide grants an object to a command that changes the last of some places."""
    array, _, path = key.partition("/")
    folder = path.partition("/")[0]
    if folder == "__chronotile":
        return array in places
    return array == places[-1] and bool(re.search(rf"\b{folder}\b|^TARGET|the array", right))


@pytest.mark.usefixtures("workplace")
def test_the_rights_of_the_guide_are_those_that_are_used(
    bucket: str,
    s3: S3Server,
    proxy: FaultProxy,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Each request is written down between the command and the server."""
    removed: list[str] = []

    def recorded(client: Any, keys: Any) -> None:
        removed.extend([keys] if isinstance(keys, str) else keys)
        delete(client, keys)

    delete = obstore.delete
    monkeypatch.setattr(obstore, "delete", recorded)
    copied = ct.replicate("demo/array", f"{bucket}/array", target_options=s3.options)
    assert copied.steps
    open_store(f"{bucket}/array", s3.options).put_if_absent("__commits/notes.wrt", b"")
    options = [word for pair in proxy.options.items() for word in ("--storage", "=".join(pair))]
    for command in RIGHTS:
        words = shlex.split(command.replace("ARRAY", f"{bucket}/array").replace("ROOT", bucket))
        places = [word.rpartition("/")[2] for word in words if word.startswith("s3://")]
        proxy.seen.clear()
        removed.clear()
        status = main([*words, *options])
        printed = capsys.readouterr()
        assert status == 0 or command.startswith("check"), f"{command}\n{printed.err}"
        writes, deletes = rights_of(command)
        puts = [
            path.partition("?")[0].split("/", 2)[2]
            for method, path, _ in proxy.seen
            if method == "PUT"
        ]
        if not writes:
            assert not puts, command
            assert not removed, command
            continue
        assert puts, f"{command}\n{printed.out}"
        for right, keys in ((writes, puts), (deletes, removed)):
            wrong = {key for key in keys if not is_granted(key, places, right)}
            assert not wrong, (command, right, sorted(wrong)[:5])


def test_specs_of_the_guide_are_there() -> None:
    names = set(re.findall(r"`(tiledb_[a-z_]+)(?:\.ksy)?`", PAGES["format"] + PAGES["README"]))
    assert len(names) >= 10
    for name in names:
        assert (ROOT / "ksy" / f"{name}.ksy").exists(), name


@pytest.mark.parametrize("topic", TOPICS)
def test_a_guide_begins_with_a_title_and_an_answer(topic: str) -> None:
    title, empty, first, *_ = GUIDES[topic].splitlines()
    assert re.match(r"# [A-Z]", title)
    assert not empty
    assert re.match(r"[A-Z`].{60}", first)


def test_the_topics_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert tuple(GUIDES) == TOPICS
    assert main(["guide"]) == 0
    listed = capsys.readouterr().out
    for topic, text in GUIDES.items():
        assert re.search(rf"^{topic} +{re.escape(title_of(text))}$", listed, re.MULTILINE)
        assert f"](src/chronotile/guides/{topic}.md)" in PAGES["README"]
    assert main(["guide", "--json"]) == 0
    assert [one["topic"] for one in json.loads(capsys.readouterr().out)] == list(TOPICS)


def test_a_pipe_gets_the_guide_as_it_is_written(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["guide", "faults"]) == 0
    assert capsys.readouterr().out == GUIDES["faults"]


def test_a_terminal_gets_the_guide_laid_out() -> None:
    guide = Guide(topic="faults", text=GUIDES["faults"])
    plain = "\n".join(guide.lines(width=80, colour=False))
    assert "\x1b" not in plain
    assert "| F1 |" not in plain
    assert "F19" in plain
    assert max(map(len, plain.splitlines())) <= 80
    assert "\x1b[" in "\n".join(guide.lines(width=80, colour=True))


def test_an_unknown_topic_is_a_wrong_call(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["guide", "nothing"]) == 2
    assert "there are changes, datasets," in capsys.readouterr().err
