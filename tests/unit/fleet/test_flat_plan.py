"""The plan of a run by flat lists: groups, their members elsewhere, and storage that refuses."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from support.fleets import FleetMaker, make_template
from support.groups import member, put_array, put_list

from chronotile.fleet.data_source import TableReader
from chronotile.fleet.delta_store import Run, open_output
from chronotile.fleet.flat_listing import FEWEST
from chronotile.fleet.options import Options, read_options
from chronotile.fleet.plan import plan_fleet
from chronotile.fleet.stream import Watch
from chronotile.storage.place import PAGE
from chronotile.storage.store import open_store

if TYPE_CHECKING:
    from pathlib import Path

    from support.servers import FaultProxy, S3Server

    from chronotile.fleet.plan import FleetPlan
    from chronotile.fleet.shares import ListedArray


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

    def plan(*, follow: bool = False) -> tuple[FleetPlan, list[ListedArray]]:
        proxy.seen.clear()
        spark: Any = None  # so small a fleet is planned by the driver alone
        made = plan_fleet(spark, options, run, None, lambda *_: None, follow=follow)
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


def test_the_data_source_and_a_stream_list_neighbours_flat(
    tmp_path: Path, s3: S3Server, bucket: str, proxy: FaultProxy
) -> None:
    """One list for each 1,000 objects, where a walk takes nine an array."""
    maker, root = FleetMaker(make_template(tmp_path / "template")), tmp_path / "root"
    for number in range(60):
        maker.array(root / f"a-{number:02d}", 4, seed=number, loose=2)
    store = open_store(bucket, s3.options)
    files = [path for path in sorted(root.rglob("*")) if path.is_file()]
    for path in files:
        store.put_if_absent(str(path.relative_to(root)), path.read_bytes())
    pages = 2 + len(files) // PAGE
    given = {f"storage.{name}": value for name, value in proxy.options.items()}

    def lists() -> int:
        count = len([path for _, path, _ in proxy.seen if "list-type" in path])
        proxy.seen.clear()
        return count

    for table in ("commits", "arrays"):
        reader = TableReader(read_options({"path": bucket, "table": table, **given}))
        rows = [
            row for part in reader.partitions() for one in reader.read(part) for row in one["array"]
        ]
        expected = {str(one): 4 if table == "commits" else 1 for one in root.glob("a-*")}
        assert Counter(f"{root}/{str(row).rpartition('/')[2]}" for row in rows) == expected
        assert lists() <= pages + 1, "the root, and each page"
    watch = Watch(read_options({"path": bucket, "state": "unused", **given}, streaming=True))
    first = watch.look()
    assert len(first.marks) == 60
    proxy.seen.clear()
    assert watch.look() == first
    assert lists() <= pages + 1
    store.put_if_absent(f"a-07/__commits/__1_1_{'7' * 32}_22.wrt", b"")
    later = watch.look()
    assert [one for one in first.marks if later.marks[one] != first.marks[one]] == [
        f"{bucket}/a-07"
    ]
    # What a look at one array finds is the same mark.
    alone = read_options({"path": f"{bucket}/a-07", "state": "unused", **given}, streaming=True)
    assert Watch(alone).look().marks == {f"{bucket}/a-07": later.marks[f"{bucket}/a-07"]}
