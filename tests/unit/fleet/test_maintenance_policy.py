"""Policies of maintenance, without Spark: what they say, which arrays are due, what is done."""

from __future__ import annotations

import re
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from support.engine_arrays import EngineArray
from support.fleets import FIRST_MS, FleetMaker, make_template
from support.verbs import add_tag

from chronotile.errors import ChronotileError
from chronotile.fleet import maintenance as maintenance_job
from chronotile.fleet import maintenance as one_array
from chronotile.fleet import run_pipeline
from chronotile.fleet.maintenance import (
    Due,
    Work,
    arrays_due,
    maintain,
    maintain_group,
    pause_s,
    stopped_by,
)
from chronotile.fleet.options import Options
from chronotile.fleet.policy import Compact, Limits, Policy, PolicyRule, policy_of, read_policy
from chronotile.rows import engine
from chronotile.storage.store import open_store

if TYPE_CHECKING:
    from pathlib import Path

TEXT = """
stop = "s3://lake/stop"

[limits]
arrays = 10
removed_files = 1000
removed_bytes = 50_000_000
arrays_per_minute = 120
parallel = 2

[[rule]]
arrays = ["**/audit"]

[[rule]]
arrays = ["sales/**", "s3://other/*"]
except = ["sales/raw/*"]
consolidate = "all"
compact = { target_bytes = "2GB", max_memory = "512MB", quiet = "2h" }
vacuum = "fragments"
quiet = "1h"
always = true
orphans = true
deletes = true
age = "7d"
keep = ["2024-01-01", "release-1"]
keep_days = 30
"""


def test_a_policy_is_read_as_it_is_written(tmp_path: Path) -> None:
    (tmp_path / "policy.toml").write_text(TEXT)
    policy = read_policy(str(tmp_path / "policy.toml"))
    assert policy.stop == "s3://lake/stop"
    assert policy.limits == Limits(
        arrays=10, removed_files=1000, removed_bytes=50_000_000, arrays_per_minute=120, parallel=2
    )
    nothing, rule = policy.rules
    assert rule == PolicyRule(
        arrays=("sales/**", "s3://other/*"),
        left=("sales/raw/*",),
        consolidate="all",
        vacuum="fragments",
        compact=Compact(2 * 10**9, 512 * 10**6, 7200.0),
        quiet_ms=3_600_000,
        always=True,
        orphans=True,
        deletes=True,
        age_ms=7 * 86_400_000,
        keep=("2024-01-01", "release-1"),
        keep_days=30,
    )
    chosen = {
        "s3://lake/sales/a": rule,
        "s3://lake/sales/a/b": rule,
        "/data/sales/a": rule,
        "s3://other/x": rule,
        "s3://other/x/y": None,
        "s3://lake/sales/raw/a": None,
        "s3://lake/sales/audit": nothing,
        "s3://lake/resales/a": None,
    }
    assert {array: policy.rule_of(array) for array in chosen} == chosen


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("rule = 3", "rule: expected a list, found 3"),
        ("", r"expected at least one \[\[rule\]\], found none"),
        ("[[rule]]\n", "rule 1: expected patterns of arrays, found none"),
        ("[[rule]]\narrays = 'a'", "arrays: expected a list, found 'a'"),
        ("[[rule]]\narrays = [1]", "arrays: expected a list of texts"),
        ("[[rule]]\narrays = ['a']\nvacum = 'all'", "found 'vacum'; did you mean 'vacuum'"),
        ("[[rule]]\narrays = ['a']\nvacuum = 'everything'", "expected one of commits, fragments"),
        ("[[rule]]\narrays = ['a']\nquiet = 'soon'", "quiet: 'soon' is not a length of time"),
        ("[[rule]]\narrays = ['a']\norphans = true", "expected vacuum with orphans"),
        ("[[rule]]\narrays = ['a']\nkeep_days = 3", "expected vacuum with keep_days"),
        ("[[rule]]\narrays = ['a']\nalways = 1", "always: expected true or false, found 1"),
        ("[[rule]]\narrays = ['a']\nquiet = '1h'", "expected a rule with consolidate, compact or"),
        ("[[rule]]\narrays = ['a']\nvacuum = 'array-meta'", "expected always = true with vacuum"),
        ("[[rule]]\narrays = ['a']\ncompact = 3", "compact: expected a table, found 3"),
        ("[[rule]]\narrays = ['a']\ncompact = {target = '1GB'}", "did you mean 'target_bytes'"),
        (
            "[[rule]]\narrays = ['a']\ncompact = {max_memory = 'much'}",
            "compact: max_memory: 'much' is not a size; give one such as 512MB",
        ),
        ("[limits]\narrays = 0", "arrays: expected a whole number above 0, found 0"),
        ("[limits]\nremoved = 5", "limits: expected a known key, found 'removed'"),
        ("[limits]\nparallel = true", "parallel: expected a whole number above 0, found True"),
        ("stop = ['x']", "stop: expected a text"),
        ("stopp = 'x'", "did you mean 'stop'"),
        ("a = ", "expected a policy in TOML, found: Invalid value"),
        ("\udcff", "expected a policy in TOML"),
    ],
)
def test_a_policy_that_makes_no_sense_is_refused_as_a_whole(
    tmp_path: Path, text: str, words: str
) -> None:
    (tmp_path / "policy.toml").write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(ChronotileError, match=words):
        read_policy(str(tmp_path / "policy.toml"))


COMMITS = {"rule": [{"arrays": ["**"], "vacuum": "commits"}]}


def test_which_arrays_are_due() -> None:
    now = 10_000_000
    findings = pa.table(
        {
            "uri": ["/l/a", "/l/b", "/l/c", "/l/d", "/l/e", "/l/e", "/l/f"],
            "code": [
                "many-loose-commits",
                "superseded-bytes",
                "metadata-unconsolidated",
                "many-loose-commits",
                "tile-corrupt",
                "con-superseded",
                "many-small-fragments",
            ],
        }
    )
    times = [now, None, now - 100, 5, 5, now - 50]
    arrays = pa.table(
        {
            "uri": [f"/l/{name}" for name in "abcdef"],
            "last_timestamp": pa.array(times, pa.int64()),
        }
    )

    def due(*rules: dict[str, Any]) -> str:
        policy = policy_of({"rule": [{"arrays": ["**"], **rule} for rule in rules]})
        found = arrays_due(policy, reading(findings), reading(arrays), ["/l/d"], now)
        return "".join(one.array[-1] for one in found)

    assert due({"vacuum": "commits"}) == "ae"
    assert due({"vacuum": "all", "consolidate": "commits"}) == "abe"
    assert due({"consolidate": "fragment-meta"}) == "c"
    assert due({"compact": {}}) == "f"
    assert due({"vacuum": "commits", "quiet": "1ms"}) == "e"
    assert due({"vacuum": "commits", "always": True}) == "abcef"
    assert due({"vacuum": "commits", "always": True, "quiet": "60ms"}) == "bce"
    assert due({"arrays": ["**/a"]}, {"vacuum": "commits"}) == "e"
    assert due({"vacuum": "array-meta", "always": True}) == "abcef", "no finding asks for it"
    assert arrays_due(policy_of(COMMITS), reading(findings[:0]), reading(arrays)) == []


def test_the_driver_never_holds_every_array_that_is_due(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Waves share the limits of the policy."""
    maker, held = FleetMaker(make_template(tmp_path / "template")), list[int]()
    for number in range(12):
        maker.array(tmp_path / "root" / f"{number}", 4, seed=number, loose=4, deletes=1)

    def watched(*given: Any) -> list[Due]:
        found = arrays_due(*given)
        held.append(len(found))
        return found

    monkeypatch.setattr(run_pipeline, "arrays_due", watched)
    monkeypatch.setattr(run_pipeline, "ARRAYS_IN_WAVE", 3)
    rule = {"arrays": ["**"], "vacuum": "commits", "consolidate": "commits", "always": True}

    def told(**limits: int) -> dict[str, int]:
        policy = policy_of({"rule": [rule], "limits": limits})
        options = Options(roots=(str(tmp_path / "root"),))
        job = run_pipeline.Job(options=options, out=str(tmp_path / "out"), policy=policy)
        return dict(run_pipeline.run(None, job).maintained)

    def loose() -> int:
        return len([*(tmp_path / "root").rglob("__commits/*.wrt")])

    by_arrays, before = told(arrays=5), loose()
    assert (by_arrays["consolidate done"], by_arrays["maintain left"]) == (5, 7)
    by_files = told(removed_files=10)
    assert 0 < before - loose() <= 10
    assert by_files["maintain left"] > 0
    assert max(held) < sum(held[:4]) == sum(held[4:]) == 12


@pytest.fixture
def root(tmp_path: Path) -> Path:
    maker = FleetMaker(make_template(tmp_path / "template"))
    for number in range(3):
        maker.array(tmp_path / "root" / f"{number}", 12, seed=number, loose=12, deletes=2)
    return tmp_path / "root"


def group(root: Path, **rule: Any) -> tuple[Due, ...]:
    asked = PolicyRule(**{"consolidate": "all", "vacuum": "all", **rule})
    return tuple(Due(str(array), asked) for array in sorted(root.glob("[0-9]")))


def reading(table: pa.Table) -> Any:
    """Reads columns and rows of a table, as the store does."""

    def read(columns: list[str], only: Any) -> Any:
        rows = table if only is None else table.filter(only)
        return rows.select(columns).to_batches()

    return read


def planned_removals(array: str, **rule: Any) -> list[str]:
    """The files that a vacuum by a rule would remove."""
    asked = PolicyRule(**{"consolidate": None, "vacuum": "all", **rule})
    report = one_array._change("vacuum", open_store(array), Options(), asked, dry_run=True)
    return [step.path for step in report.steps if step.op == "remove"]


def test_a_dry_run_plans_what_the_run_then_does(root: Path) -> None:
    before = sorted(root.rglob("*"))
    plan, real = (Work(options=Options(), dry_run=dry_run) for dry_run in (True, False))
    there = {str(path) for path in before if path.is_file()}
    planned = maintain_group(group(root), plan)
    assert sorted(root.rglob("*")) == before
    done = maintain_group(group(root), real)
    assert [one.outcome for one in (*planned, *done)] == ["planned"] * 6 + ["done"] * 6
    # A plan of a consolidation has no id yet.
    named = [
        replace(one, why=re.sub("[0-9a-f]{8}$", "the consolidate before it", one.why))
        for one in done
    ]
    assert [replace(one, outcome="done") for one in planned] == named
    assert {one.why for one in planned if one.command == "vacuum"} == {
        "operations that can no longer be undone: the consolidate before it"
    }
    gone = there - {str(path) for path in root.rglob("*")}
    assert len(gone) == sum(one.removed for one in done) == 30  # the deletes keep their own files
    for number in range(3):
        records = list((root / f"{number}").glob("__chronotile/operations/*-*-*.json"))
        assert {one.stem.rpartition("-")[2] for one in records} == {"final"}
    assert {one.outcome for one in maintain_group(group(root), real)} == {"nothing"}


def test_the_stop_switch_ends_the_work_between_two_arrays(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    switch = tmp_path / "stop"
    stops = ((str(switch), ()), (str(tmp_path / "no" / "folder" / "stop"), ()))
    work = Work(options=Options(), dry_run=False, stops=stops)

    def then_stop(array: str, *rest: Any, **more: Any) -> Any:
        done = maintain(array, *rest, **more)
        switch.touch()
        return done

    monkeypatch.setattr(maintenance_job, "maintain", then_stop)
    done = maintain_group(group(root), work)
    assert [one.outcome for one in done] == ["done", "done", "stopped", "stopped"]
    assert done[2].why == f"{switch} is there"
    assert len(list((root / "1" / "__commits").iterdir())) == 12
    switch.unlink()
    # Nobody can say whether it is there: then nothing is changed.
    (tmp_path / "link").symlink_to(tmp_path / "link")
    assert "expected to look for" in str(stopped_by([(str(tmp_path / "link" / "stop"), ())]))


def test_the_pace_is_kept(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    policy = Policy(rules=(PolicyRule(),), limits=Limits(arrays_per_minute=60, parallel=2))
    assert pause_s(policy) == 2.0
    now = [0.0]
    begun: list[float] = []
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    monkeypatch.setattr(time, "sleep", lambda seconds: now.__setitem__(0, now[0] + seconds))

    def slow(array: str, *rest: Any, **more: Any) -> Any:
        begun.append(now[0])
        now[0] += 0.5 if array.endswith("0") else 3.0
        return maintain(array, *rest, **more)

    monkeypatch.setattr(maintenance_job, "maintain", slow)
    work = Work(options=Options(), dry_run=True, pause_s=2.0)
    maintain_group(group(root), work)
    assert begun == [0.0, 2.0, 5.0]


def test_deletes_and_orphans_go_only_by_their_age(root: Path) -> None:
    orphan = root / "0" / "__fragments" / f"__{FIRST_MS}_{FIRST_MS}_{'a' * 32}_22"
    orphan.mkdir()
    (orphan / "a0.tdb").write_bytes(b"half")
    young = planned_removals(str(root / "0"), orphans=True)
    assert not any("a" * 32 in path for path in young)
    old = planned_removals(str(root / "0"), orphans=True, age_ms=0)
    assert any("a" * 32 in path for path in old)


def test_a_vacuum_keeps_the_windows_that_a_policy_names(tmp_path: Path) -> None:
    """In a dense array, time travel hangs on the fragments that a consolidation has replaced."""
    array = EngineArray(tmp_path / "array").create(sparse=False)
    for at in (10, 20, 30, 40):
        array.write(at, {1: at, 2: 2 * at})
    array.consolidate("fragments")

    def gone(**rule: Any) -> set[int]:
        paths = planned_removals(array.uri, **{"vacuum": "fragments", **rule})
        return {int(path.split("__")[2].split("_")[0]) for path in paths if "__fragments/" in path}

    assert gone() == {10, 20, 30, 40}
    assert gone(keep=("20",)) == {30, 40}
    add_tag(array.uri, "release", at=30)
    assert gone() == {40}
    assert gone(keep_days=10**5) == set()
    work = Work(options=Options(), dry_run=True)
    (refused,) = maintain_group(
        (Due(array.uri, PolicyRule(vacuum="all", keep=("nightly",))),), work
    )
    assert (refused.outcome, "'nightly' is neither a time nor a tag" in refused.why) == (
        "refused",
        True,
    )


@pytest.mark.parametrize("has_engine", [True, False])
def test_small_fragments_are_merged_where_there_is_an_engine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_engine: bool
) -> None:
    key = "0123456789abcdef0123456789abcdef"
    (tmp_path / "key").write_text(key)
    array = EngineArray(tmp_path / "array", key=key).create()
    for at in (10, 20, 30):
        array.write(at, {at: at})
    before = array.answer()
    if not has_engine:
        monkeypatch.setattr(engine, "_library", refuse)
    options = Options(key_file=str(tmp_path / "key"))
    rule = PolicyRule(compact=Compact(quiet_s=0), consolidate="commits", vacuum="fragments")
    plan, real = (Work(options=options, dry_run=dry_run) for dry_run in (True, False))
    planned = maintain_group((Due(array.uri, rule),), plan)
    done = maintain_group((Due(array.uri, rule),), real)
    assert [one.command for one in done] == ["compact", "consolidate", "vacuum"]
    assert array.answer() == before
    if has_engine:
        assert [one.outcome for one in planned[:2]] == ["planned", "planned"]
        assert [one.outcome for one in done] == ["done", "done", "done"]
        assert len(array.files("__fragments")) == 1
        assert done[2].removed > 9
    else:
        assert [one.outcome for one in done] == ["refused", "done", "nothing"]
        assert "pip install 'chronotile[engine]'" in done[0].why


def refuse() -> Any:
    raise engine.NoEngineError(
        "tiledb", "expected it, found none; pip install 'chronotile[engine]'"
    )
