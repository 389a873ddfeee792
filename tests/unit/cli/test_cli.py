"""The command line: every command in text and in JSON, over the whole corpus; every error."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from support.corpus_cases import CASES, Case
from support.handmade_array import make_sample
from support.plain_columns import without_times
from support.terminals import PROGRAM, on_terminal

import chronotile
from chronotile.cli import main
from chronotile.cli import program as cli
from chronotile.format.names import new_name
from chronotile.single_file import decode

if TYPE_CHECKING:
    from pathlib import Path

    from support.servers import S3Server


SPARSE = CASES["sparse-everything-v22"]
SECRET = CASES["secret-loose-v22"]


@pytest.fixture(scope="session")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A sample array, to look at only."""
    array = tmp_path_factory.mktemp("sample") / "array"
    array.mkdir()
    make_sample(str(array))
    return array


@pytest.fixture
def key_of(tmp_path: Path) -> Any:
    """The options that open a case."""

    def options(case: Case) -> tuple[str, ...]:
        if case.key is None:
            return ()
        (tmp_path / "key").write_bytes(case.key)
        return ("--key-file", str(tmp_path / "key"))

    return options


def run(capsys: pytest.CaptureFixture[str], *args: object) -> tuple[int, str, str]:
    status = main([str(arg) for arg in args])
    out, err = capsys.readouterr()
    return status, out, err


def answer(capsys: pytest.CaptureFixture[str], *args: object) -> Any:
    """The JSON document of a command that must succeed; beside it there may be a note."""
    status, out, err = run(capsys, *args, "--json")
    assert status == 0
    assert all(line.startswith("note: ") for line in err.splitlines())
    return json.loads(out)


# --- the whole corpus ------------------------------------------------------------------------


def test_the_corpus_is_there() -> None:
    assert len(CASES) > 140


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_visible_says_what_the_engine_sees(
    case: Case, capsys: pytest.CaptureFixture[str], key_of: Any
) -> None:
    options = key_of(case)
    log = chronotile.open_log(str(case.array), key=case.key)
    for window in case.expected["windows"][:4]:
        bounds = ("--start", window["start"], "--end", window["end"])
        document = answer(capsys, "visible", case.array, *bounds, *options)
        view = log.view(window["start"], window["end"])
        assert document == view.to_dict()
        if "fields" in window:
            assert [f["name"] for f in document["fragments"]] == window["fragments"]
        status, text, err = run(capsys, "visible", case.array, *bounds, *options)
        assert (status, err.count("\n")) == (0, 0 if view.gap is None else 1)
        for item in document["fragments"]:
            assert item["name"] in text
        for commit in document["deletes"]:
            assert commit["text"] is None or f"`{commit['text']}`" in text


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_log_tells_of_every_commit(
    case: Case, capsys: pytest.CaptureFixture[str], key_of: Any
) -> None:
    options = key_of(case)
    log = chronotile.open_log(str(case.array), key=case.key)
    events = answer(capsys, "log", case.array, *options)
    told = {(event["kind"], event["name"]) for event in events}
    commits = log.commits().to_pylist()
    lost = {item.name for item in log.view().explain() if item.kind == "fragment"}
    for commit in commits:
        known = commit["kind"] != "write" or commit["name"] in lost
        assert ((commit["kind"], commit["name"]) in told) == known
    assert len(told) == len(events), "an event is told once"
    times = [event["t2"] or 0 for event in events]
    assert times == sorted(times, reverse=True), "the newest comes first"
    view = log.view()
    seen = {event["name"] for event in events if event["kind"] == "write"} - {
        event["name"] for event in events if event["status"] == "hidden"
    }
    assert seen == {fragment.name for fragment in view.fragments}
    for delete in view.deletes:
        text = next(e["text"] for e in events if (e["kind"], e["name"]) == ("delete", delete.name))
        document = delete.to_dict()
        assert text.startswith("deleted rows")
        assert document["text"] is None or f"`{document['text']}`" in text
    status, text, err = run(capsys, "log", case.array, *options)
    assert (status, err) == (0, "")
    for event in events:
        assert event["text"] in text
        assert event["source"] in text
        assert event["t2"] is None or str(event["t2"]) in text


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_explain_covers_every_object(
    case: Case, capsys: pytest.CaptureFixture[str], key_of: Any
) -> None:
    options = key_of(case)
    log = chronotile.open_log(str(case.array), key=case.key)
    window = case.expected["windows"][1]
    bounds = ("--start", window["start"], "--end", window["end"])
    document = answer(capsys, "explain", case.array, *bounds, *options)
    view = log.view(window["start"], window["end"])
    assert document == [item.to_dict() for item in view.explain()]
    status, text, err = run(capsys, "explain", case.array, *bounds, *options)
    assert (status, err.count("\n")) == (0, 0 if view.gap is None else 1)
    assert f"visible: {len(view.fragments)} of" in text
    assert ("not looked at: whether all fragments can be read" in text) == bool(view.fragments)
    assert len(text.splitlines()) < 70, "one screen, or little more"
    for item in document[:3]:
        named = answer(capsys, "explain", case.array, item["name"], *bounds, *options)
        assert item in named
        assert all(item["name"] in other["name"] for other in named)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_show_decodes_every_file(
    case: Case, capsys: pytest.CaptureFixture[str], key_of: Any
) -> None:
    options = key_of(case)
    seen: set[str | None] = {None}
    for file in case.files():
        kind = decode.kind_of_name(str(file.path))
        if kind in seen:
            continue
        if kind == "fragment-metadata":
            seen.add(kind)  # one fragment a case: others look at all of them
        status, out, err = run(capsys, "show", file.path, "--hex", "--json", *options)
        if status:
            no_footer = case.name == "era-one" and kind == "fragment-metadata"
            assert case.name.startswith("bad-") or no_footer, (file.path, err)
            assert (status, out) == (3, "")
            assert file.path.name in json.loads(err)["error"]["where"]
            continue
        document = json.loads(out)
        assert (document["kind"], document["size"]) == (kind, file.path.stat().st_size)
        at = 0
        for field in document["layout"][0]["fields"]:
            assert (field["start"], field["end"] >= field["start"]) == (at, True)
            assert bytes.fromhex(field["raw"]) == file.path.read_bytes()[at : field["end"]]
            at = field["end"]
        assert at == document["size"], "each byte belongs to one field"
        status, text, err = run(capsys, "show", file.path, *options)
        assert (status, err) == (0, "")
        assert text.startswith(file.path.name)


# --- what the words say ----------------------------------------------------------------------


def test_log_in_words(sample: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, folded, _ = run(capsys, "log", sample)
    assert status == 0
    assert "put the commits into one file" in folded, "one event for our consolidation"
    status, text, _ = run(capsys, "log", sample, "--commits")
    assert status == 0
    for words in (
        "deleted rows where `amount < 3.0`; TileDB also removes rows where amount is NULL or NaN",
        "set region = 'north' in rows where `id == 7`",
        "note: TileDB does not apply updates: it hides these rows instead",
        "merged 2 fragments into one",
        "lists 2 fragments that were replaced; the next vacuum removes them",
        "put 5 commits into one file: 4 writes, 1 delete",
        "took 2 commits out of the consolidated files",
        "wrote a fragment; its files are gone",
        "wrote a fragment, but did not commit it",
        "hidden now by __commits/",
        "hidden now: ignored by __commits/",
        "created the array: sparse, dimensions id (int64, 0 to 999999, tiles of 1000); attributes",
        "a fragment of 974 bytes, committed by __commits/",
        " bytes, in __fragments/",
        "now 4 of 7 fragments visible (2 more removed), 2 deletes and 1 update in force",
    ):
        assert words in text


def test_log_narrows(sample: Path, capsys: pytest.CaptureFixture[str]) -> None:
    every = answer(capsys, "log", sample)
    assert answer(capsys, "log", sample, "--reverse")[::-1] == every
    assert answer(capsys, "log", sample, "-n", 2) == every[:2]
    deletes = answer(capsys, "log", sample, "--kind", "delete")
    assert [event["kind"] for event in deletes] == ["delete", "delete"]
    both = answer(capsys, "log", sample, "--kind", "delete", "--kind", "update")
    assert {event["kind"] for event in both} == {"delete", "update"}
    moment = deletes[0]["t2"]
    since = answer(capsys, "log", sample, "--since", moment)
    assert since == [event for event in every if event["t2"] >= moment]
    until = answer(capsys, "log", sample, "--until", deletes[0]["time"])
    assert until == [event for event in every if event["t1"] <= moment]
    sizes = {event["size"] for event in answer(capsys, "log", sample, "--no-size")}
    assert None in sizes


def test_schema_changes_in_words(capsys: pytest.CaptureFixture[str]) -> None:
    words = {
        "schema-add": "changed the schema: added",
        "schema-drop": "changed the schema: dropped",
        "schema-extend": "changed the labels of",
    }
    for name, text in words.items():
        case = CASES[name]
        events = answer(capsys, "log", case.array, "--kind", "schema")
        assert any(text in event["text"] for event in events), name


def test_a_delete_that_breaks_the_array_is_noted(capsys: pytest.CaptureFixture[str]) -> None:
    case = CASES["null-bricks-eq"]
    _, text, _ = run(capsys, "log", case.array, "--kind", "delete")
    assert "note: TileDB cannot read the array over this" in text


@pytest.mark.parametrize(
    ("case", "window", "words"),
    [
        (
            "sparse-consolidated-v22",
            ("0", "40"),
            "nothing to do: every cell can still be read, at every time",
        ),
        ("dense-consolidated-v22", ("0", "40"), "sees them apart, until a vacuum"),
        ("sparse-loose", ("0", "15"), "to do: open with --end"),
        ("sparse-loose", ("15", "99"), "to do: open with --start 10"),
        ("overlaps", ("15", "99"), "only the cells of that time are read"),
        ("bad-uncommitted", ("0", "99"), "no commit names this fragment: its write is still"),
        ("bad-no-fragment", ("0", "99"), "TileDB cannot open this array at this window"),
        ("bad-vac-alone", ("0", "99"), "which should replace"),
        ("ign", ("0", "99"), "its files are gone"),
        ("bare", ("0", "99"), "nothing was ever written"),
        ("sparse-loose", ("0", "5"), "The window ends before the first write."),
        ("secret-loose-v22", ("0", "99"), "--key-file FILE opens"),
        ("sparse-loose", ("0", "99"), "Deletes and updates in force"),
    ],
)
def test_explain_gives_advice(
    case: str, window: tuple[str, str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    array = CASES[case].array
    _, text, _ = run(capsys, "explain", array, "--start", window[0], "--end", window[1])
    assert words in text


def test_show_shows_both_sides_of_a_condition(
    sample: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (delete,) = (sample / "__commits").glob("*.del")
    _, text, _ = run(capsys, "show", delete)
    assert "text  region == 'test' and amount >= 100.0" in text
    assert "stored_text  region != 'test' or amount < 100.0" in text
    _, text, _ = run(capsys, "show", delete, "--hex")
    assert re.search(r" 0 +4  16 00 00 00 +version +22\n", text)


def test_show_away_from_the_array(
    sample: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (delete,) = (sample / "__commits").glob("*.del")
    (tmp_path / "mystery").write_bytes(delete.read_bytes())
    raw = answer(capsys, "show", tmp_path / "mystery")
    assert raw["kind"] == "del"
    assert "value" not in raw["predicate"]["children"][0]
    (schema,) = (sample / "__schema").iterdir()
    for place in (sample, schema):
        typed = answer(capsys, "show", tmp_path / "mystery", "--schema", place)
        assert typed["text"] == "region == 'test' and amount >= 100.0"


def test_an_encrypted_array(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], key_of: Any
) -> None:
    with_key = answer(capsys, "visible", SECRET.array, *key_of(SECRET))
    assert [delete["text"] is not None for delete in with_key["deletes"]] == [True, True]
    without = answer(capsys, "visible", SECRET.array)
    assert ["error" in delete for delete in without["deletes"]] == [True, True]
    (tmp_path / "wrong").write_bytes(b"x" * 32)
    status, out, err = run(capsys, "log", SECRET.array, "--key-file", tmp_path / "wrong")
    assert (status, out, err.count("\n")) == (3, "", 1)


def test_a_path_into_an_array_finds_the_array(
    sample: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = answer(capsys, "log", sample)
    assert answer(capsys, "log", sample / "__commits") == whole
    assert answer(capsys, "log", next((sample / "__commits").iterdir())) == whole


def test_a_path_with_a_typing_error_is_answered_with_the_right_one(
    sample: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong = sample.with_name(f"{sample.name[:-1]}")
    _, _, err = run(capsys, "log", wrong)
    assert f"did you mean {sample}?" in err
    _, _, err = run(capsys, "log", sample.parent.with_name(f"x{sample.parent.name}") / sample.name)
    assert f"did you mean {sample}?" in err


def test_an_array_in_a_bucket(
    sample: Path, s3: S3Server, bucket: str, capsys: pytest.CaptureFixture[str]
) -> None:
    options = [part for pair in s3.options.items() for part in ("--storage", "=".join(pair))]
    from chronotile.storage.store import open_store

    store = open_store(f"{bucket}/array", s3.options)
    for path in sorted(sample.rglob("*")):
        if path.is_file():
            store.put_if_absent(str(path.relative_to(sample)), path.read_bytes())
    there = answer(capsys, "log", f"{bucket}/array", *options)
    here = answer(capsys, "log", sample)
    for event in (*there, *here):
        event.pop("written")  # each file has its own date here and there
    assert there == here


# --- wrong calls and failures ----------------------------------------------------------------

WRONG_CALLS = [
    ((), 0, None),
    (("frobnicate",), 2, "expected a command, found 'frobnicate'"),
    (("vissible", "x"), 2, "did you mean visible?"),
    (("--colour",), 2, "there is no option --colour"),
    (("log",), 2, "log: ARRAY is missing"),
    (("log", "ARRAY", "extra"), 2, "log: one value too many: extra; for example: chronotile log "),
    (
        ("log", "ARRAY", "--since", "1.5"),
        2,
        "'1.5' is not a time; give one such as 2024-05-01",
    ),
    (
        ("log", "ARRAY", "--since", "yesterdy"),
        2,
        "'yesterdy' is neither a time nor a tag; did you mean yesterday?",
    ),
    (("visible", "ARRAY", "--start", "2", "--end", "1"), 2, "the window ends before it starts"),
    (("log", "ARRAY", "--since", "1", "--until", "0"), 2, "the window ends before it starts"),
    (("log", "ARRAY", "--kind", "delte"), 2, "--kind"),
    (("log", "ARRAY", "-n", "-1"), 2, "--limit"),
    (("log", "ARRAY", "-n", "x"), 2, "--limit: 'x' is no number"),
    (("restore", "ARRAY"), 2, "; for example: chronotile restore PLACE --to 2024-05-15"),
    (("clone", "ARRAY"), 2, "; for example: chronotile clone PLACE demo/copy"),
    (("tag", "add", "ARRAY", "now"), 2, "'now' already means a time; choose another name"),
    (("check", "ARRAY/..", "--as-of", "2024-01-01"), 2, "--as-of needs a group"),
    (("log", "ARRAY", "--storage", "x"), 2, "expected NAME=VALUE, found no = in it"),
    (("log", "ARRAY", "--key-file", "/no/such"), 2, "--key-file"),
    (("visible", "ARRAY", "--start", "5", "--end", "4"), 2, "00:00:00.004 UTC (5 to 4)"),
    (("visible", "ARRAY", "--end", "99999999999999999999"), 2, "64 bits"),
    (("visible", "ARRAY", "--nd", "4"), 2, "did you mean --end?"),
    (("explain", "ARRAY", "nothing-like-it"), 2, "has 'nothing-like-it' in its name"),
    (("explain", "ARRAY", "--start", "5", "--end", "4"), 2, "00:00:00.004 UTC (5 to 4)"),
    (("show",), 2, "FILE… is missing"),
    (("show", "ARRAY"), 2, "found a folder; for the array: chronotile log"),
    (("show", "ARRAY/no-such-file"), 3, "no-such-file"),
    (("show", "ARRAY/__schema/SCHEMA", "--kind", "del"), 3, "SCHEMA"),
    (("timeline", "ARRAY"), 2, "--out is missing"),
    (("timeline", "ARRAY", "-o", "picture.pdf"), 2, "found 'picture.pdf'"),
    (("timeline", "ARRAY", "-o", "/no/such/folder/x.svg"), 1, "/no/such/folder/x.svg"),
    (("demo", "ARRAY"), 1, "expected an empty folder or an earlier demo"),
    *(
        ((command, "/no/such/array", *more), 3, "/no/such")
        for command, *more in (
            ("log",),
            ("visible",),
            ("explain",),
            ("timeline", "-o", "x.svg"),
            ("show",),
        )
    ),
]


@pytest.mark.parametrize(
    ("args", "status", "words"), WRONG_CALLS, ids=lambda value: str(value)[:50]
)
def test_an_error_is_one_line_and_a_status(
    args: tuple[str, ...],
    status: int,
    words: str | None,
    sample: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (schema,) = (sample / "__schema").iterdir()
    given = [a.replace("ARRAY", str(sample)).replace("SCHEMA", schema.name) for a in args]
    found, out, line = run(capsys, *given)
    assert found == status
    if words is None:
        return
    assert out == "", "nothing but the answer goes to standard output"
    assert words.replace("SCHEMA", schema.name).replace("PLACE", str(sample)) in line
    assert line.startswith("chronotile: ")
    assert line.count("\n") == 1
    found, out, err = run(capsys, *given, "--json")
    assert (found, out, err.count("\n")) == (status, "", 1)
    parts = json.loads(err)["error"]
    assert list(parts) == ["where", "expected", "found", "hint"]
    assert parts["where"]
    assert parts["expected"] or parts["found"]
    for part in parts.values():
        assert part is None or part in line, "the same words in both forms"


def test_an_error_that_nobody_expected(
    sample: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(*_: object) -> None:
        message = "no such thing\x1b[31m\nand more"
        raise LookupError(message)

    monkeypatch.setattr("chronotile.storage.store.open_store", broken)
    monkeypatch.delenv("CHRONOTILE_TRACEBACK", raising=False)
    status, out, err = run(capsys, "log", sample)
    assert (status, out, err.count("\n")) == (1, "", 1)
    assert "found LookupError: no such thing\\x1b[31m" in err
    assert "CHRONOTILE_TRACEBACK=1" in err
    _, _, err = run(capsys, "log", sample, "--json")
    assert "CHRONOTILE_TRACEBACK=1" in json.loads(err)["error"]["hint"]
    monkeypatch.setenv("CHRONOTILE_TRACEBACK", "1")
    with pytest.raises(LookupError):
        main(["log", str(sample)])
    assert main(["log", "--since", "1.5", str(sample)]) == 2, "an expected one is told as ever"


HUSH = "hush/Hush+HUSH"
SECRETIVE = [
    ("log", "ARRAY", f"aws_secret_access_key={HUSH}"),
    ("log", "ARRAY", "--storage", HUSH),
    ("log", "ARRAY", "--storage", f"={HUSH}"),
    ("log", "ARRAY", f"--storage={HUSH}"),
    ("log", "ARRAY", "--storge", f"token={HUSH}"),
    ("log", "ARRAY-gone", "--storage", f"secret_access_key={HUSH}"),
    ("log", "s3://bucket/array", "--storage", f"secret_acces_key={HUSH}"),
    ("check", "s3://bucket/array", "--storage", f"no_such_token={HUSH}"),
    ("log", f"s3://key:{HUSH.replace('/', '')}@bucket/array"),
    ("log", f"https://account.example/array?sig={HUSH}"),
    ("log", f"https://key:{HUSH.replace('/', '')}@account.example/array"),
    ("pipeline", "ARRAY", "--out", "ARRAY-tables", "--conf", HUSH),
]


@pytest.mark.parametrize("args", SECRETIVE, ids=range(len(SECRETIVE)))
def test_a_secret_is_not_repeated(
    args: tuple[str, ...], sample: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = [arg.replace("ARRAY", str(sample)) for arg in args]
    for more in ([], ["--json"]):
        status, out, err = run(capsys, *given, *more)
        assert (status != 0, out, err.count("\n")) == (True, "", 1)
        assert "hush" not in err.lower()


def test_a_secret_in_an_error_that_nobody_expected(
    sample: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(_: str, options: dict[str, str]) -> None:
        raise LookupError(options)

    monkeypatch.setattr("chronotile.storage.store.open_store", broken)
    for command in ("log", "visible", "explain"):
        for more in ([], ["--json"]):
            secret = ["--storage", f"token={HUSH}", f"--storage=account_key={HUSH}x"]
            status, _, err = run(capsys, command, sample, *secret, *more)
            assert (status, "LookupError" in err) == (1, True)
            assert "hush" not in err.lower()


def test_a_reader_that_has_seen_enough() -> None:
    command = f"{sys.executable} -m chronotile log {SPARSE.array} | head -1"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, timeout=60)
    assert (done.stderr, done.stdout.count("\n")) == ("", 1)


# --- the program as it is installed ----------------------------------------------------------

HEAVY = {"pyspark", "vl_convert", "numpy", "pyarrow", "obstore", "rich", "tiledb"}


@pytest.mark.parametrize("args", [["--help"], ["--version"], ["log", "--help"], ["nonsense"]])
def test_help_is_light(args: list[str]) -> None:
    code = (
        "import sys; from chronotile.cli import main; main(sys.argv[1:]);"
        "print(*{m.partition('.')[0] for m in sys.modules}, file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *args], capture_output=True, text=True, timeout=60
    )
    assert not HEAVY & set(done.stderr.split())
    assert "click" in done.stderr


def test_every_command_has_an_example(capsys: pytest.CaptureFixture[str]) -> None:
    for name in cli._ALL:
        status, text, _ = run(capsys, name, "--help")
        assert status == 0
        assert "--json" in text
        assert f"chronotile {name}" in text.partition("Usage:")[2].partition("\n")[2], name


def test_the_examples_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert answer(capsys, "demo", "--no-spark")["folder"] == "demo"
    monkeypatch.setenv("PATH", str(tmp_path))
    for name in ("log", "show", "visible", "explain", "timeline"):
        _, text, _ = run(capsys, name, "--help")
        line = text.partition("Example:")[2].strip().splitlines()[0]
        arguments = []
        for part in line.split()[1:]:
            found = sorted(str(p) for p in tmp_path.glob(part)) if "*" in part else []
            arguments += found[:1] or [part]
        assert run(capsys, *arguments)[0] == 0, line


def test_colour_on_a_terminal_and_none_in_a_pipe(sample: Path) -> None:
    command = [*PROGRAM, "log", str(sample)]
    piped = subprocess.run(command, capture_output=True, timeout=60, check=True)
    assert b"\x1b" not in piped.stdout + piped.stderr
    status, seen = on_terminal(["log", str(sample)])
    assert status == 0
    assert "\x1b[33m" in seen
    assert "deleted rows where `amount < 3.0`" in seen


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("chronotile vis", "visible"),
        ("chronotile log x --en", "--end"),
        ("chronotile log x --kind del", "delete"),
        ("chronotile rows ARRAY --fields id,am", "id,amount"),
        ("chronotile rows ARRAY --where re", "region"),
        ("chronotile update ARRAY --set reg", "region="),
        ("chronotile visible ARRAY --end befo", "before-clean-up"),
        ("chronotile visible ARRAY --end mon", "monday"),
        ("chronotile undelete ARRAY 1e", "1edafe"),
        ("chronotile rows ARRAY --removed-by 1e", "1edafe"),
        ("chronotile rows DATASET --member re", "readings"),
        ("chronotile tag remove ARRAY befo", "before-clean-up"),
        ("chronotile rows ARRAY --storage typo --fields am", ""),
    ],
)
def test_the_shell_completes(words: str, found: str, tmp_path: Path) -> None:
    from chronotile.cli import sample

    made = sample.unpack(tmp_path)
    words = words.replace("ARRAY", str(made.array)).replace("DATASET", str(made.dataset))
    environment = os.environ | {
        "_CHRONOTILE_COMPLETE": "bash_complete",
        "COMP_WORDS": words,
        "COMP_CWORD": str(len(words.split()) - 1),
    }
    done = subprocess.run(
        [sys.executable, "-c", "from chronotile.cli import run; run()"],
        capture_output=True, text=True, timeout=60, env=environment,
    )  # fmt: skip
    assert done.stderr == "", "nothing is said while somebody types"
    assert not found or f"plain,{found}" in done.stdout.splitlines()


def test_letters_that_the_terminal_lacks(sample: Path) -> None:
    (delete,) = (sample / "__commits").glob("*.del")
    environment = os.environ | {"PYTHONIOENCODING": "ascii"}
    done = subprocess.run(
        [*PROGRAM, "show", str(delete)], capture_output=True, timeout=60, env=environment
    )
    assert done.returncode == 0


# --- the demo --------------------------------------------------------------------------------


def test_demo_leaves_everything_behind(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "demo"
    status, text, err = run(capsys, "demo", folder, "--no-spark")
    assert status == 0
    assert [line.split(": ")[0] for line in err.splitlines()] == [
        "restore",
        "to undo",
        "to take this undo back",
    ]
    assert f"Open {folder}/timeline.html first" in text
    report = answer(capsys, "demo", folder, "--no-spark")
    for step in report["steps"]:
        assert step["status"] in (0, 1), step
        assert (folder / step["file"]).stat().st_size > 0
        assert step["command"] in text or "__commits" in step["command"]
    commands = [step["command"].split()[1] for step in report["steps"]]
    assert {"ls", "log", "explain", "timeline", "visible", "show", "check"} <= set(commands)
    assert commands[-6:] == ["clone", "restore", "log", "diff", "undo", "operations"]
    restored = (folder / "restored.txt").read_text()
    assert "restore  done" in restored
    assert "the delete took rows with NULL" in restored
    found = {one["command"]: one["state"] for one in answer(capsys, "operations", folder / "trial")}
    assert found == {"undo": "done", "restore": "undone", "clone": "final"}


def test_the_engine_reads_the_sample_schema(sample: Path) -> None:
    import tiledb

    schema = tiledb.ArraySchema.load(str(sample))
    assert schema.sparse
    assert [schema.attr(i).name for i in range(schema.nattr)] == ["amount", "region"]
    assert schema.attr("amount").isnullable


def test_a_huge_time_is_no_problem(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_sample(str(tmp_path))
    last = 2**64 - 1
    name = new_name(last, last, 22)
    (tmp_path / "__fragments" / name).mkdir()
    (tmp_path / "__commits" / f"{name}.wrt").touch()
    status, text, _ = run(capsys, "log", tmp_path)
    assert (status, "after the year 9999" in text) == (0, True)
    assert answer(capsys, "log", tmp_path)[0]["time"] is None
    seen = answer(capsys, "visible", tmp_path, "--end", last)["fragments"]
    assert seen[-1]["name"] == name


def test_fragments_as_a_table_and_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    case = CASES["inside-sparse-v22"]
    facts = without_times(chronotile.open_log(case.array).fragments()).to_pylist()
    assert answer(capsys, "fragments", case.array) == facts
    status, text, _ = run(capsys, "fragments", case.array)
    assert status == 0
    head, columns, *rows = text.splitlines()
    assert head.endswith(": 4 fragments, 52 cells, 41.6 kB")
    assert columns.split() == ["cells", "bytes", "tiles", "fragment", "domain", "metadata", "notes"]
    assert len(rows) == 4
    assert "-2 to 18, 20 to kkk7" in rows[1]
    assert rows[1].rstrip().endswith("a time for each cell, delete marks, 1 delete applied")
    assert facts[0]["name"] not in text
    assert facts[0]["name"] in run(capsys, "fragments", case.array, "--names")[1]


def test_cells_where_they_are_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    case = CASES["inside-sparse-v22"]
    facts = {
        row["name"]: row for row in chronotile.open_log(str(case.array)).fragments().to_pylist()
    }
    seen = answer(capsys, "visible", case.array, "--cells")["fragments"]
    assert seen
    for row in seen:
        assert {name: row[name] for name in ("cells", "bytes")} == {
            name: facts[row["name"]][name] for name in ("cells", "bytes")
        }
    assert "cells" not in answer(capsys, "visible", case.array)["fragments"][0]
    events = answer(capsys, "log", case.array, "--cells", "--kind", "write")
    assert {row["name"]: row["cells"] for row in events} == {
        name: row["cells"] for name, row in facts.items()
    }
    assert {row["cells"] for row in answer(capsys, "log", case.array)} == {None}
