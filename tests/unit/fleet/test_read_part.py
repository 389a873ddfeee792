"""One task of the pipeline: storage that refuses, and rows that are carried on."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from support.fleets import FleetMaker, age, make_template
from support.stored_tables import stored

from chronotile.fleet import read_part
from chronotile.fleet.options import Options
from chronotile.fleet.read_part import BRAKE
from chronotile.fleet.read_share import AHEAD
from chronotile.fleet.run_pipeline import Job, run
from chronotile.fleet.run_summary import UnreadableError, read_limit
from chronotile.storage.bucket import ATTEMPTS
from chronotile.storage.store import open_store

if TYPE_CHECKING:
    from pathlib import Path

    from support.servers import FaultProxy, S3Server


def test_a_run_that_storage_refuses_brakes(
    tmp_path: Path, s3: S3Server, bucket: str, proxy: FaultProxy
) -> None:
    """It tries a few arrays, each request as often as the client does, and no more."""
    maker, root = FleetMaker(make_template(tmp_path / "template")), tmp_path / "root"
    arrays = 60
    for number in range(arrays):
        maker.array(root / f"a-{number:02d}", 3, seed=number)
    store = open_store(bucket, s3.options)
    for path in (path for path in sorted(root.rglob("*")) if path.is_file()):
        store.put_if_absent(str(path.relative_to(root)), path.read_bytes())
    options = Options(roots=(bucket,), storage=tuple(sorted(proxy.options.items())))
    lists = "list-type"
    proxy.plan = lambda _, method, path: "503" if method == "GET" and lists not in path else "pass"
    with pytest.raises(UnreadableError, match=rf"at most 0 of {arrays} arrays unreadable"):
        run(None, Job(options=options, out=str(tmp_path / "out")))
    asked = Counter(path for method, path, _ in proxy.seen if method == "GET" and lists not in path)
    tried = {path.split("/")[2] for path in asked}
    assert len(tried) <= BRAKE + 1 + AHEAD < arrays / 2
    assert max(asked.values()) <= ATTEMPTS, "one layer of retries"


def test_rows_are_carried_on_whatever_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither another option nor another version drops the rows of an array that is unreadable."""
    maker, root, out = FleetMaker(make_template(tmp_path / "template")), tmp_path / "root", tmp_path
    for number in range(4):
        maker.array(root / f"a-{number}", 6, seed=number, deletes=1)
    age(root)

    def told(**asked: Any) -> Any:
        options = Options(roots=(str(root),), **asked)
        limit = read_limit("1")
        job = Job(options=options, out=str(out / "out"), since_last=True, max_unreadable=limit)
        return run(None, job)

    def rows() -> list[str]:
        names = ["array", "name", "kind", "t1"]
        return sorted(map(repr, stored(out / "out" / "commits").select(names).to_pylist()))

    first, before = told(), rows()
    (root / "a-1" / "__commits").rename(root / "a-1" / "away")
    (root / "a-1" / "__commits").symlink_to(root / "a-1" / "away")
    asked: tuple[dict[str, Any], ...] = ({"sizes": True}, {"cells": True}, {"max_findings": 7}, {})
    for one in asked:
        assert told(**one).unreadable == 1
        assert rows() == before
        stale = {row["array"]: row["stale"] for row in stored(out / "out" / "arrays").to_pylist()}
        assert stale[str(root / "a-1")] == first.run
    monkeypatch.setattr(read_part, "__version__", "99")
    assert told().unreadable == 1
    assert rows() == before
