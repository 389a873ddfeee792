"""What a person reads when something is wrong: the right word for each thing, and a way out."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support.corpus_cases import CASES
from support.engine_arrays import EngineArray
from support.handmade_array import make_sample
from support.terminals import on_terminal

import chronotile as ct
from chronotile.check.findings import OddTimeError
from chronotile.cli import sample
from chronotile.cli.program import main
from chronotile.conditions.predicate_parser import at_place
from chronotile.errors import ChronotileError, split_problem
from chronotile.format.timestamps import now_ms

TESTS = Path(__file__).parents[2]


@pytest.fixture
def array(tmp_path: Path) -> Path:
    return sample.unpack(tmp_path).array


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    status = main([str(argument) for argument in arguments])
    said = capsys.readouterr()
    return status, said.out, said.err


def findings(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, Any]:
    status, out, _ = run(capsys, "check", *arguments, "--json")
    return status, json.loads(out)


def unprivileged(*arguments: object) -> tuple[int, Any]:
    """Run `check --json` as a user whom file permissions hold for."""
    command = [sys.executable, "-m", "support.unprivileged", "check", *map(str, arguments)]
    done = subprocess.run(
        [*command, "--json"], cwd=TESTS, capture_output=True, text=True, timeout=60, check=False
    )
    return done.returncode, json.loads(done.stdout)


@pytest.mark.parametrize(
    ("pattern", "deep"),
    [
        ("__commits/*.con", ""),
        ("__commits/*.del", ""),
        ("__schema/*", ""),
        ("__meta/*", ""),
        ("__fragments/*", ""),
        ("__fragments/*/__fragment_metadata.tdb", ""),
        ("__fragments/*/a0.tdb", "--deep"),
        ("__commits", ""),
    ],
)
def test_no_permission_is_no_damage(array: Path, pattern: str, deep: str) -> None:
    closed = min(array.glob(pattern))
    mode = closed.stat().st_mode
    closed.chmod(0)
    try:
        status, found = unprivileged(array, *([deep] if deep else []))
    finally:
        closed.chmod(mode)
    assert status == 3
    codes = {item["code"] for item in found}
    assert "unreadable" in codes
    assert codes.isdisjoint({"tile-corrupt", "fragment-damaged", "fragment-file-missing"})
    (refused,) = (item for item in found if item["code"] == "unreadable")
    assert "check permissions" in refused["hint"]
    assert "Permission denied" in refused["message"]
    assert refused["path"].startswith(str(closed.relative_to(array)))
    others = [item for item in found if item["code"] != "fragment-without-commit"]
    assert not [item for item in others if "repair" in item["hint"]]


def test_what_the_log_tells_is_said_although_a_fragment_is_closed(array: Path) -> None:
    closed = next(array.glob("__fragments/*/__fragment_metadata.tdb"))
    closed.chmod(0)
    _, found = unprivileged(array)
    assert "delete-hits-null" in {item["code"] for item in found}


def test_one_array_stops_no_other(array: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = array.parent / "dataset" / "readings"
    nowhere, empty = array.parent / "nope", array.parent / "empty"
    empty.mkdir()
    status, found = findings(capsys, array, nowhere, empty, other)
    assert status == 3
    arrays = list(dict.fromkeys(item["array"] for item in found))
    assert arrays == [str(array), str(other), str(nowhere), str(empty)]
    assert [item["message"] for item in found if item["code"] == "unreadable"] == [
        "expected a folder, found nothing",
        "expected an array at or below it, found none",
    ]


def test_a_root_without_arrays_is_not_fine(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status, text, _ = run(capsys, "check", tmp_path)
    assert status == 3
    assert "expected an array at or below it, found none" in text
    assert run(capsys, "check", tmp_path / "nope")[0] == 3


def test_the_status_tells_of_what_was_asked_for(
    array: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert findings(capsys, array)[0] == 1, "there are warnings"
    assert findings(capsys, array, "--severity", "error") == (0, [])
    for least, status in (("error", 0), ("warning", 1), ("info", 1), ("none", 0)):
        assert findings(capsys, array, "--fail-on", least)[0] == status
    assert findings(capsys, array, "--severity", "error", "--fail-on", "warning")[0] == 1


def test_explain_and_check_agree_on_an_old_array(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of format 10: an `.ok` without its fragment, which the engine passes over."""
    case = CASES["old-inside-sparse-v10"]
    array = tmp_path / "array"
    shutil.copytree(case.array, array)
    gone = min(path for path in array.glob("__1*_10") if path.is_dir())
    shutil.rmtree(gone)
    assert not isinstance(EngineArray(array).answer(), str), "the engine opens it"
    _, text, _ = run(capsys, "explain", array)
    assert "cannot open" not in text
    assert "TileDB passes over it" in text
    assert findings(capsys, array, "--severity", "error") == (0, [])
    _, history, _ = run(capsys, "log", array)
    assert "missing its files, though committed by" in history


@pytest.mark.parametrize("case", CASES.values(), ids=list(CASES))
def test_the_first_line_of_explain_is_what_check_calls_an_error(
    case: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    log = ct.open_log(case.array, key=case.key)
    codes = {item.code for item in log.check(log_only=True) if item.severity == "error"}
    stops = {"name-malformed", "commit-without-fragment", "delete-null", "delete-dropped-field"}
    if case.key is not None:
        return
    _, text, _ = run(capsys, "explain", case.array)
    first = text.splitlines()[0]
    fails = first.startswith(("Every read at this window fails", "TileDB cannot open"))
    assert fails == bool(codes & stops) or codes & {"tile-corrupt"}
    assert not fails or "chronotile repair" in first


@pytest.mark.parametrize("name", ["bad-backwards", "bad-name", "bad-no-fragment", "bad-tile"])
@pytest.mark.parametrize("command", ["log", "visible", "explain"])
def test_looking_says_first_that_tiledb_cannot_open_or_read_the_array(
    name: str, command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    status, text, _ = run(capsys, command, CASES[name].array)
    first, *others = text.splitlines()
    assert (status, first.split(" this array")[0]) in [
        (0, "TileDB cannot open"),
        (0, "TileDB cannot read"),
    ]
    assert "chronotile repair" in first
    assert any("would be visible" in line for line in others)


@pytest.mark.parametrize("name", ["bad-tile", "bad-empty-delete", "bad-con-tile"])
def test_no_command_calls_a_delete_in_force_that_cannot_be_read(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    array = CASES[name].array
    _, history, _ = run(capsys, "log", array)
    assert "0 deletes and 0 updates would be in force; 1 delete cannot be read" in history
    assert "delete  cannot be read" in history
    _, seen, _ = run(capsys, "visible", array)
    assert "\n1 delete cannot be read\n" in seen
    assert "in force" not in seen


def test_explain_lists_only_what_hides_rows(capsys: pytest.CaptureFixture[str]) -> None:
    _, text, _ = run(capsys, "explain", CASES["bad-vac-alone"].array)
    assert "1 delete in force, but it hides no row: no fragment is visible" in text
    assert "Deletes and updates in force" not in text
    _, text, _ = run(capsys, "log", CASES["bad-vac-alone"].array)
    assert "in force, but it hides no row: no fragment is visible" in text
    _, text, _ = run(capsys, "explain", CASES["bad-update-in-con"].array)
    assert "What TileDB does not see: updates inside a .con" in text
    assert "Deletes and updates in force" not in text


def test_a_fragment_that_several_files_ignore_counts_once(tmp_path: Path) -> None:
    array = shutil.copytree(CASES["ign"].array, tmp_path / "array")
    (item,) = (one for one in ct.open_log(array).view().explain() if one.reason == "ignored")
    con = array / item.path
    shutil.copy(con, con.with_name(f"{con.stem[:-35]}{'f' * 32}_22.con"))
    log = ct.open_log(array)
    assert [one.name for one in log.view().explain() if one.reason == "ignored"] == [item.name]
    assert log.lifelines()["name"].to_pylist().count(item.name) == 1


def test_a_command_in_a_hint_stays_whole_on_a_narrow_terminal(array: Path) -> None:
    name = ct.open_log(array).view().deletes[0].name
    for command, hint in (
        ("explain", f"to see these rows: chronotile rows {array} --removed-by {name}"),
        ("check", f"to bring them back: chronotile undelete {array} {name}"),
        ("usage", f"freed by: chronotile vacuum {array}"),
    ):
        _, text = on_terminal([command, str(array)], columns=60, NO_COLOR="1")
        assert f"{hint}\n" in text.replace("\r", ""), command


def test_explain_says_how_to_see_what_a_window_leaves_out(
    array: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The window that it names shows the cells, if only in the fragment that was merged."""
    log = ct.open_log(array)
    _, text, _ = run(capsys, "explain", array, "--end", "2024-05-09")
    assert "written 2024-05-10 09:00:00.000 UTC to 2024-05-13 09:00:00.000 UTC (" in text
    (found,) = re.finditer(r"open with --end (\d+): their cells are in (\S+), which", text)
    assert found[2] in {fragment.name for fragment in log.view(end=int(found[1])).fragments}
    assert "nothing to do: it hides no fragment in this window" in text
    later = log.view().fragments[-1]
    _, text, _ = run(capsys, "explain", array, later.name, "--end", later.t2 - 1)
    assert f"to do: open with --end {later.t2}\n" in text
    _, text, _ = run(capsys, "explain", array, "--start", later.t2, "--end", later.t2)
    assert f"[{later.t2}, {later.t2}] (2024-05-16 09:00:00.000 UTC alone)" in text


def test_an_update_inside_a_con_is_not_in_force(capsys: pytest.CaptureFixture[str]) -> None:
    array = CASES["bad-update-in-con"].array
    (update,) = ct.open_log(array).view().updates
    _, text, _ = run(capsys, "explain", array, update.name)
    assert f"update {update.name}  not seen by TileDB" in text
    assert "it hides no row" in text
    _, text, _ = run(capsys, "visible", array)
    assert "1 update inside a .con, not in force" in text


def test_a_log_says_what_it_leaves_out(array: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, text, _ = run(capsys, "log", array, "--kind", "delete", "--start", "2025-01-01")
    assert text.splitlines()[1:] == [
        "only events from 2025-01-01 00:00:00.000 UTC",
        "no event",
    ]
    _, text, _ = run(capsys, "log", array, "--end", "2024-05-02")
    assert text.splitlines()[1] == "only events up to 2024-05-02 00:00:00.000 UTC"


def test_a_row_that_nobody_wrote_has_no_event(
    array: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status, text, _ = run(capsys, "blame", array, "--row", "id=99999")
    assert (status, text.splitlines()[1:]) == (
        0,
        ["0 events", "no commit wrote, changed or removed such a row"],
    )


@pytest.mark.parametrize(
    ("words", "near"),
    [
        ("tag remove ARRAY before-clean", "before-clean-up"),
        ("guide time-machin", "time-machine"),
        ("log ARRAY --kind delet", "delete"),
        ("tag ad ARRAY x", "add"),
        ("rows GROUP --member reading", "readings"),
        ("delete GROUP --member reading --where celsius>1 --dry-run", "readings"),
    ],
)
def test_a_wrong_name_is_a_wrong_call_with_the_right_one(
    words: str, near: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = sample.unpack(tmp_path)
    places = {"ARRAY": made.array, "GROUP": made.dataset}
    status, _, err = run(capsys, *(places.get(word, word) for word in words.split()))
    assert (status, f"; did you mean {near}?" in err) == (2, True), err


def test_a_moment_is_the_end_of_a_window(capsys: pytest.CaptureFixture[str]) -> None:
    array = CASES["sparse-loose"].array
    _, text, _ = run(capsys, "visible", array, "--as-of", "15", "--json")
    assert text == run(capsys, "visible", array, "--end", "15", "--json")[1]


def test_an_option_is_guessed_only_if_its_letters_are_near(
    capsys: pytest.CaptureFixture[str],
) -> None:
    status, _, err = run(capsys, "visible", "nowhere", "--jsn")
    assert (status, err.count("there is no option --jsn; did you mean --json?")) == (2, 1)
    status, _, err = run(capsys, "moments", "nowhere", "--as-of", "15")
    assert (status, err.count("there is no option --as-of (see")) == (2, 1)


@pytest.mark.parametrize("inside", ["", "tables"])
def test_tables_are_not_written_into_an_array(
    inside: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    array = shutil.copytree(CASES["sparse-loose"].array, tmp_path / "array")
    before = sorted(array.rglob("*"))
    status, _, err = run(capsys, "tables", array, "--out", array / inside)
    assert (status, f"--out: {array} is an array" in err) == (2, True)
    assert sorted(array.rglob("*")) == before


def test_a_lock_is_of_tiledb(capsys: pytest.CaptureFixture[str]) -> None:
    array = CASES["old-inside-sparse-v10"].array
    assert (array / "__lock.tdb").exists()
    _, text, _ = run(capsys, "explain", array)
    assert "__lock.tdb" not in text
    assert "stray" not in ct.open_log(array).usage()["reason"].to_pylist()


def test_advice_leads_out_of_a_blocked_consolidation(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    array = EngineArray(tmp_path / "array").create()
    for at in range(10, 130):
        array.write(at, {1: at})
    array.delete(200, "a == 7")
    for command in ("consolidate", "vacuum"):
        assert main([command, array.uri]) == 0
    assert "con-blocks-consolidation" not in {f.code for f in ct.open_log(array.uri).check()}
    _, _, said = run(capsys, "vacuum", array.uri, "--loose-deletes")
    assert (
        "TileDB can then no longer consolidate commits (F1); without --loose-deletes they stay"
        in said
    )
    (item,) = (f for f in ct.open_log(array.uri).check() if f.code == "con-blocks-consolidation")
    told = item.hint.split()[-3:]
    assert told == ["chronotile", "repair", array.uri]
    assert main(told[1:]) == 0
    assert "con-blocks-consolidation" not in {f.code for f in ct.open_log(array.uri).check()}
    array.write(300, {2: 2})
    array.consolidate("commits")


@pytest.mark.parametrize("case", CASES.values(), ids=list(CASES))
def test_a_dry_run_says_as_much_as_the_run_does(case: Any, tmp_path: Path) -> None:
    array = tmp_path / "array"
    shutil.copytree(case.array, array)
    every: tuple[dict[str, Any], ...] = ({}, {"loose_deletes": True, "updates": True})
    for options in every:
        try:
            planned = ct.vacuum(array, key=case.key, dry_run=True, **options)
        except ChronotileError:
            return
        done = ct.vacuum(array, key=case.key, **options)
        assert [step.op for step in planned.steps].count("remove") == [
            step.op for step in done.steps
        ].count("remove")
        assert planned.summary().replace("would ", "").replace("remove ", "removed ") == (
            done.summary()
        )


def test_an_odd_time_is_asked_about(array: Path, capsys: pytest.CaptureFixture[str]) -> None:
    where = ("--where", "id == 3")
    for moment, words in (("2020-01-01", "before all data"), ("2100-01-01", "in the future")):
        status, out, err = run(capsys, "delete", array, *where, "--at", moment)
        assert (status, out) == (1, "")
        assert words in err
        assert err.count("\n") == 1
        anyway = ("--at", moment, "--any-time", "--dry-run")
        assert run(capsys, "delete", array, *where, *anyway)[0] == 0
        with pytest.raises(OddTimeError):
            ct.write_delete(array, "id == 3", timestamp=moment)
    assert run(capsys, "delete", array, *where, "--at", "2024-05-16T10:00")[0] == 0


def test_a_commit_of_a_time_to_come_is_found(array: Path) -> None:
    ct.write_delete(array, "id == 3", timestamp=now_ms() + 86_400_000, any_time=True)
    (item,) = (f for f in ct.open_log(array).check() if f.code == "future-commit")
    assert item.severity == "warning"
    assert item.message.startswith("1 commit of a time to come")


def test_encrypted_without_a_key_is_said_once(capsys: pytest.CaptureFixture[str]) -> None:
    case = CASES["secret-everything"]
    for command in ("log", "explain", "visible", "fragments"):
        status, text, _ = run(capsys, command, case.array)
        assert status == 0
        assert text.count("no key was given") == 1, command
        assert "damaged" not in text
        assert "cannot be read" not in text
    codes = {item.code for item in ct.open_log(case.array).check()}
    assert codes == {"tile-encrypted", "con-blocks-consolidation"}
    _, text, _ = run(capsys, "check", case.array)
    assert "0 schemas and the metadata of 0 committed fragments" in text


def test_a_caret_stands_under_the_character(
    array: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = "amount < 3 and and"
    status, _, err = run(capsys, "delete", array, "--where", text, "--dry-run")
    assert status == 2
    head, shown, caret = err.splitlines()
    assert head.startswith("chronotile: predicate, column 16: expected")
    assert shown == f"  {text}"
    assert caret == " " * 17 + "^"
    wide = str(at_place("x == '日本' zz", 10, "expected and")).splitlines()
    assert wide[1:] == ["  x == '日本' zz", " " * 14 + "^"], "a wide letter takes two columns"


def test_show_takes_several_files(array: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = sorted((array / "__commits").glob("*.del"))
    assert len(files) == 2
    status, out, _ = run(capsys, "show", *files, "--json")
    assert status == 0
    assert [document["file"] for document in json.loads(out)] == [str(file) for file in files]
    status, text, _ = run(capsys, "show", files[0], array / "nothing", files[1])
    assert status == 3
    assert text.count("a delete") == 2
    assert "nothing" in text


BLOCKED = """
import sys
class Block:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("pyspark", "cryptography", "vl_convert"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Block())
from chronotile.cli.program import main
from chronotile.conditions.predicate_parser import at_place
sys.exit(main())
"""


def test_a_missing_extra_is_one_line(array: Path, tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.write_text("0" * 32)
    secret = CASES["secret-everything"].array
    for extra, arguments in (
        ("plot", ("timeline", array, "-o", tmp_path / "x.png")),
        ("plot", ("usage", array, "-o", tmp_path / "x.png")),
        ("spark", ("pipeline", array, "--out", tmp_path / "tables")),
        ("crypto", ("log", secret, "--key-file", key)),
    ):
        command = [sys.executable, "-c", BLOCKED, *map(str, arguments)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode in (1, 3)
        assert done.stdout == ""
        assert done.stderr.count("\n") == 1
        assert f"pip install 'chronotile[{extra}]'" in done.stderr


def test_words_in_the_right_number(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_sample(str(tmp_path))
    _, text, _ = run(capsys, "consolidate", tmp_path, "--dry-run")
    assert "note: 1 update left loose: TileDB" in text
    schema = next((CASES["op-blob-var"].array / "__schema").iterdir())
    _, text, _ = run(capsys, "show", schema)
    assert "a: blob, variable length" in text


@pytest.mark.parametrize(
    ("moment", "words"), [("2020-01-01", "before all data"), ("2100-01-01", "in the future")]
)
def test_a_terminal_is_asked_about_an_odd_time(array: Path, moment: str, words: str) -> None:
    call = ("delete", str(array), "--where", "id == 3", "--at", moment)
    before = len(ct.open_log(array).view(0, 2**64 - 1).deletes)
    for answer, status, deletes in (("n", 1, before), ("", 1, before), ("y", 0, before + 1)):
        ended, shown = on_terminal(call, answer=answer)
        assert ended == status
        assert words in shown
        assert "Go on all the same? [y/N]" in shown
        assert ("nothing was changed" in shown) == bool(status)
        assert "Traceback" not in shown
        assert len(ct.open_log(array).view(0, 2**64 - 1).deletes) == deletes


def test_missing_credentials_are_one_line_with_what_to_do() -> None:
    # The machine's own service for credentials, which S3 asks last, is looked for on loopback.
    environment = {name: text for name, text in os.environ.items() if not name.startswith("AWS_")}
    environment |= {"AWS_METADATA_ENDPOINT": "http://127.0.0.1:9", "HOME": "/nonexistent"}
    done = subprocess.run(
        [sys.executable, "-m", "chronotile", "check", "s3://lake/array"],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        env=environment,
    )
    assert (done.returncode, done.stdout) == (3, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith("chronotile: s3://lake/array: expected credentials for s3, found none: ")
    assert "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or give --storage" in line


CLOCK = re.compile(
    r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?P<zone> UTC|Z|[+-]\d\d:\d\d)?"
)


@pytest.mark.parametrize(
    "command",
    [
        "log {array}",
        "log {array} --oneline",
        "log {dataset}",
        "visible {array}",
        "explain {array}",
        "members {dataset}",
        "moments {dataset}",
        "tag list {array}",
        "diff {array} 2024-05-01 2024-05-10",
        "restore {array} --to 2024-05-15 --dry-run",
        "clone {array} {copy} --end 2024-05-15",
        "undo {array}",
    ],
)
def test_every_time_has_its_zone_and_it_is_utc(
    command: str, array: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = array.parent
    words = command.format(array=array, dataset=folder / "dataset", copy=folder / "copy").split()
    if words[0] == "undo":
        assert run(capsys, "consolidate", array)[0] == 0
    status, out, err = run(capsys, *words)
    assert status == 0, err
    found = [(one.group(), one["zone"]) for one in CLOCK.finditer(out)]
    assert found or words[0] in ("diff", "clone")
    assert {zone for _, zone in found} <= {" UTC"}, found


def test_a_short_id_is_a_name_everywhere(array: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Wherever a command takes the name of a commit, the start of its uuid will do."""
    name = ct.open_log(array).view().deletes[1].name
    short = name.split("_")[4][:6]
    for words in (
        ("explain", array, short),
        ("rows", array, "--removed-by", short, "--limit", 1),
        ("clone", array, array.parent / "copy", "--without", short, "--dry-run"),
        ("undelete", array, short, "--ever", "--dry-run"),
    ):
        asked = run(capsys, *words)
        told = run(capsys, *(name if word == short else word for word in words))
        assert asked[0] == told[0] == 0, asked[2]
        assert without_now(asked[1]) == without_now(told[1])


def without_now(text: str) -> str:
    """A text less the moment at which it was made."""
    return re.sub(
        r"\b17[5-9]\d{10}\b|\d{8}T\d{6}\.\d+Z|20(2[5-9]|[3-9]\d)-\S+ \S+ UTC", "now", text
    )


def test_a_secret_of_one_letter_leaves_a_message_whole(capsys: pytest.CaptureFixture[str]) -> None:
    secrets = ("--storage", "access_key_id=a", "--storage", "secret_access_key=hush-hush")
    status, _, err = run(capsys, "log", "nowhere-hush-hush", *secrets)
    assert status == 3
    assert "nowhere-…: expected a folder, found nothing" in err


def test_what_repair_leaves_alone_comes_with_its_own_command(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    array = tmp_path / "array"
    shutil.copytree(CASES["bad-vac-alone"].array, array)
    _, _, said = run(capsys, "repair", array)
    assert said.startswith("left alone: fragment-without-commit")
    assert said.rstrip().endswith(f"chronotile repair {array} --commit-orphans")
    _, text, _ = run(capsys, "explain", array)
    assert "so that its rows show" in text
    assert "--whole-orphans" not in text, "a .vac hides what it replaces"


def test_fragments_without_files_are_removed_and_not_hidden(
    capsys: pytest.CaptureFixture[str],
) -> None:
    _, text, _ = run(capsys, "explain", CASES["ign"].array)
    assert "  removed\n      its files are gone: " in text
    assert "hidden, ignored" not in text


def test_the_command_at_the_end_of_an_error_is_its_hint(
    capsys: pytest.CaptureFixture[str],
) -> None:
    array = CASES["ign"].array
    _, _, said = run(capsys, "undelete", array, "abcdef", "--json")
    hint = json.loads(said)["error"]["hint"]
    assert hint == f"to list the deletes: chronotile log {array} --kind delete"
    quoted = split_problem("found 'x; to see more: chronotile rows a'")
    assert quoted["hint"] is None, "a name from a file is no hint"
