"""What a scheduler sees of a run: exit status, metrics, lines of progress, errors in one line."""

from __future__ import annotations

import json
import pickle
import socket
from contextlib import nullcontext
from typing import TYPE_CHECKING, NoReturn

import pytest
from prometheus_client.parser import text_string_to_metric_families
from rich.table import Table

from chronotile import cli
from chronotile.cli.pipeline import LINE_S, PipelineReport, ProgressLines
from chronotile.errors import StorageError
from chronotile.fleet import run_pipeline, session
from chronotile.fleet.run_summary import METRICS, Summary, Totals, write_metrics
from chronotile.fleet.session import check_master
from chronotile.storage.place import with_secrets

if TYPE_CHECKING:
    from pathlib import Path

    from chronotile.fleet.run_pipeline import Job

NASTY = 's3://lake/"a"\\b\nc{d="e"} 7'


def summary(*findings: tuple[str, str, int]) -> Summary:
    totals = Totals(
        arrays=5,
        commits=40,
        arrays_measured=5,
        bytes=900,
        findings=findings,
        worst=((9, NASTY),),
        engine_open_requests=517,
        engine_open_requests_after_maintenance=14,
        open_requests=73,
    )
    maintained = (("consolidate done", 2), ("vacuum refused", 1))
    return Summary(
        out="out",
        run="out/runs/1",
        totals=totals,
        read=3,
        unchanged=2,
        unreadable=0,
        files_read=7,
        reads=7,
        seconds=1.5,
        maintained=maintained,
    )


def samples(file: Path) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    """Name and labels -> value, as the parser of `prometheus_client` reads them."""
    families = text_string_to_metric_families(file.read_text())
    every = [sample for family in families for sample in family.samples]
    found = {(one.name, frozenset(one.labels.items())): one.value for one in every}
    assert len(found) == len(every)
    return found


@pytest.mark.parametrize(
    ("severity", "fail_on", "status"),
    [
        ("error", "error", 1),
        ("error", "info", 1),
        ("error", "never", 0),
        ("warning", "error", 0),
        ("warning", "warning", 1),
        ("info", "warning", 0),
        ("info", "info", 1),
    ],
)
def test_the_severity_that_fails_a_run_is_chosen(severity: str, fail_on: str, status: int) -> None:
    found = summary((severity, "con-superseded", 2))
    assert PipelineReport(summary=found, fail_on=fail_on).status == status
    unread = summary((severity, "con-superseded", 2), ("error", "unreadable", 1))
    assert PipelineReport(summary=unread, fail_on=fail_on).status == 3


def test_metrics_are_in_the_format_of_prometheus(tmp_path: Path) -> None:
    file = tmp_path / "run.prom"
    ended = (NASTY, 1, 2.0, summary(("info", "vac-absolute", 4)))
    for _ in range(2):
        write_metrics(file, *ended)
    found = samples(file)
    assert {name for name, _ in found} == set(METRICS)

    def value(name: str, **labels: str) -> float:
        return found[f"chronotile_{name}", frozenset({"out": NASTY, **labels}.items())]

    assert value("findings", severity="info", code="vac-absolute") == 4
    assert value("array_engine_open_requests", array=NASTY) == 9
    assert value("engine_open_requests") == 517
    assert value("open_requests") == 73
    assert value("bytes") == 900
    assert value("maintenance_arrays", command="consolidate", outcome="done") == 2
    assert value("run_success") == 1
    write_metrics(file, "o", 3, 1)
    failed = samples(file)
    assert [name for name, _ in failed] == list(METRICS)[:4]
    assert failed["chronotile_run_exit_status", frozenset({("out", "o")})] == 3
    assert [path.name for path in tmp_path.iterdir()] == ["run.prom"]
    with pytest.raises(StorageError, match="expected to write metrics"):
        write_metrics(tmp_path / "no" / "folder", *ended)
    write_metrics(file, "\ud800", 0, 1)
    assert {labels for _, labels in samples(file)} == {frozenset({("out", "?")})}


def test_the_summary_says_whose_requests_it_counts() -> None:
    """One counted this package's opens, and the page of a fleet the engine's."""
    *_, worst, line, _, _ = PipelineReport(summary=summary()).to_text()
    assert isinstance(worst, Table)
    assert [column.header for column in worst.columns] == ["requests of an open", "array"]
    assert line == (
        "in a bucket, opening all of these arrays takes TileDB 517 requests (14 after "
        "consolidate --mode all and vacuum), and chronotile 73"
    )


def test_lines_of_progress_come_now_and_then() -> None:
    lines: list[str] = []
    now = [0.0]
    step = ProgressLines(lines.append, lambda: now[0])
    for words, done, total in (("looking", 0, 0), *(("reading", n, 300) for n in range(301))):
        step(words, done, total)
        now[0] += LINE_S / 99.5
    step("reading", 300, 300)
    assert lines == ["looking", *(f"reading: {n} of 300 tasks" for n in (0, 100, 200, 300))]


def test_a_master_that_does_not_answer_is_one_line(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        call = ["pipeline", str(tmp_path), "--out", str(tmp_path / "out")]
        call += ["--master", f"spark://127.0.0.1:{port}", "--metrics", str(tmp_path / "m.prom")]
        assert cli.main(call) == 3
        (line,) = capfd.readouterr().err.splitlines()
        assert line.startswith(f"chronotile: spark://127.0.0.1:{port}: expected a Spark master")
        assert cli.main([*call, "--json"]) == 3
        assert json.loads(capfd.readouterr().err)["error"]["where"] == call[5]
        free.listen()
        check_master(f"spark://127.0.0.1:1,127.0.0.1:{port}")
    found = samples(tmp_path / "m.prom")
    assert found["chronotile_run_success", frozenset({("out", str(tmp_path / "out"))})] == 0
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "call",
    [["lake", "--out", "/abs"], ["/abs", "--out", "tables"], ["--arrays", "a.csv", "--out", "/x"]],
)
def test_a_relative_path_is_refused_if_tasks_run_elsewhere(
    call: list[str], capfd: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["pipeline", *call, "--master", "spark://127.0.0.1:1"]) == 2
    assert "expected a URI or an absolute path" in capfd.readouterr().err


def test_the_path_of_a_key_travels_and_not_the_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = b"0123456789abcdef" * 2
    jobs: list[Job] = []

    def stop(_: object, job: Job, *__: object) -> NoReturn:
        jobs.append(job)
        raise StorageError("out", "that is enough")

    monkeypatch.setattr(run_pipeline, "run", stop)
    monkeypatch.setattr(session, "session", lambda *_: nullcontext(None))
    monkeypatch.setattr(session, "master_of", lambda *_: "spark://host:7077")
    (tmp_path / "key").write_bytes(key)
    monkeypatch.setenv("LAKE_SECRET", "hush")
    call = ["pipeline", str(tmp_path), "--out", str(tmp_path / "out")]
    call += ["--key-file", str(tmp_path / "key"), "--storage", "session_token=env:LAKE_SECRET"]
    assert cli.main(call) == 3
    (job,) = jobs
    assert job.options.read_key() == key
    assert with_secrets(job.options.storage) == {"session_token": "hush"}
    for secret in (key, b"hush"):
        assert secret not in pickle.dumps(job)


def test_a_task_gets_its_own_item_alone() -> None:
    reader = session._ItemReader(repr, [bytes(1_000_000)] * 2)
    assert len(pickle.dumps(reader)) < 1_000
    assert [len(one.value) for one in reader.partitions()] == [1_000_000] * 2
