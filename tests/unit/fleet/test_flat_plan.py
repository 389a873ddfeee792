"""The plan of a run by flat lists: groups, their members elsewhere, and storage that refuses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from support.groups import member, put_array, put_list

from chronotile.fleet.delta_store import Run, open_output
from chronotile.fleet.flat_listing import FEWEST
from chronotile.fleet.options import Options
from chronotile.fleet.plan import plan_fleet
from chronotile.storage.store import open_store

if TYPE_CHECKING:
    from pathlib import Path

    from support.servers import FaultProxy, S3Server

    from chronotile.fleet.plan import FleetPlan
    from chronotile.fleet.shares import Place


def test_members_elsewhere_and_a_refused_list(
    tmp_path: Path, s3: S3Server, bucket: str, proxy: FaultProxy
) -> None:
    near = [f"lake/g/a{number:02d}" for number in range(FEWEST)]
    for name in (*near, "elsewhere"):
        put_array(tmp_path / "files" / name, "bare")
    far = member(f"{bucket}/elsewhere", "far")
    put_list(tmp_path / "files" / "lake" / "g", 10, far, member("a00", "near"))
    store = open_store(bucket, s3.options)
    for path in (path for path in sorted(tmp_path.rglob("*")) if path.is_file()):
        store.put_if_absent(str(path.relative_to(tmp_path / "files")), path.read_bytes())
    options = Options(roots=(f"{bucket}/lake",), storage=tuple(sorted(proxy.options.items())))
    run = Run(output=open_output(str(tmp_path / "out"), {}), name="1-a")

    def plan(**more: bool) -> tuple[FleetPlan, list[Place]]:
        proxy.seen.clear()
        spark: Any = None  # so small a fleet is planned by the driver alone
        made = plan_fleet(spark, options, run, None, lambda *_: None, **more)
        return made, sorted(place for share in made.shares for place in share.places(run))

    def lists() -> int:
        return len([path for _, path, _ in proxy.seen if "list-type" in path])

    wanted = [f"{bucket}/{name}" for name in near]
    made, places = plan()
    assert [place.uri for place in places] == wanted
    assert all(place.entries for place in places)
    assert (made.arrays, made.problems, lists()) == (FEWEST, (), 3), "lake, g, and one page"
    made, places = plan(follow=True)
    assert [place.uri for place in places] == [f"{bucket}/elsewhere", *wanted]
    assert [place.entries is None for place in places] == [True] + [False] * FEWEST
    # A list from a key on is refused: the walk finds the same, and tells what it could not list.
    bad = "prefix=lake%2Fg%2Fa03%2F"
    proxy.plan = lambda _, __, path: "503" if "start-after" in path or bad in path else "pass"
    made, places = plan()
    assert [place.uri for place in places] == [uri for uri in wanted if not uri.endswith("a03")]
    assert [problem.uri for problem in made.problems] == [f"{bucket}/lake/g/a03"]
    assert not any(place.entries for place in places)
