"""Makes the sample that the package ships: an array and a dataset, written by the engine.

In: the engine. Out: `sample.zip` in the package, with every file dated as its step is: `make
sample`. The dates are fixed; the uuids in the names are new with each run.
"""

from __future__ import annotations

import argparse
import os
import shutil
import tempfile
import zipfile
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import tiledb
from support.engine_arrays import EngineArray
from support.spec_files import ROOT

import chronotile as ct
from chronotile.format.timestamps import to_ms

SAMPLE = ROOT / "src" / "chronotile" / "cli" / "sample.zip"
PACKED = [tiledb.ZstdFilter(level=9)]
REGIONS = ("north", "south", "east", "west", "test")


class Recorder:
    """Dates every new file below a folder by the step that made it."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.seen = folder, set[Path]()

    def done(self, moment: str) -> None:
        """Date the files that have come since the last step."""
        seconds = to_ms(moment) / 1000
        for path in sorted(self.folder.rglob("*"), reverse=True):
            if path not in self.seen:
                os.utime(path, (seconds, seconds))
                self.seen.add(path)


def date_schema(array: Path, moment: str) -> None:
    """Give the schema of a new array a fixed date: the engine dates it by the clock."""
    (schema,) = (path for path in (array / "__schema").iterdir() if path.is_file())
    ms, uuid = to_ms(moment), schema.name.rpartition("_")[2]
    schema.rename(schema.with_name(f"__{ms}_{ms}_{uuid}"))


def rows(ids: range, *, channel: bool = False) -> dict[str, list[object]]:
    """Sales: every seventh amount is not known, every fifth row is a test."""
    columns: dict[str, list[object]] = {
        "id": list(ids),
        "amount": [None if i % 7 == 0 else round((i * 37 % 400) / 4, 2) for i in ids],
        "region": [REGIONS[i % 5] for i in ids],
    }
    return columns | ({"channel": ["web" if i % 2 else "shop" for i in ids]} if channel else {})


def make_array(folder: Path) -> None:
    """Sales: writes, deletes, an update, merges, a vacuum, a new attribute, an unfinished write."""
    place = folder / "array"
    record = Recorder(place)
    array = EngineArray(place)
    array.create(
        dims=[tiledb.Dim("id", domain=(0, 999_999), tile=1000, dtype=np.int64, filters=PACKED)],
        attrs=[
            tiledb.Attr("amount", dtype=np.float64, nullable=True, filters=PACKED),
            tiledb.Attr("region", dtype="ascii", var=True, filters=PACKED),
        ],
        offsets_filters=PACKED,
        capacity=1000,
    )
    date_schema(place, "2024-05-01T08:00")
    record.done("2024-05-01T08:00")

    def write(moment: str, ids: range, *, channel: bool = False) -> None:
        array.write_raw(to_ms(moment), **rows(ids, channel=channel))
        record.done(moment)

    def meta(moment: str, **values: object) -> None:
        with tiledb.open(array.uri, "w", timestamp=to_ms(moment), ctx=array.ctx) as opened:
            for key, value in values.items():
                opened.meta[key] = value
        record.done(moment)

    write("2024-05-01T09:00", range(40))
    write("2024-05-02T09:00", range(40, 80))
    meta("2024-05-02T09:05", currency="EUR", source="till export, v1")
    write("2024-05-03T09:00", range(30, 50))  # again, with the same keys: an overwrite
    array.commit(to_ms("2024-05-03T17:30"), "amount < 3.0")  # takes the NULLs too
    record.done("2024-05-03T17:30")
    write("2024-05-06T09:00", range(80, 120))
    early = (to_ms("2024-05-01"), to_ms("2024-05-03T12:00"))
    array.consolidate("fragments", early)
    record.done("2024-05-08T02:00")
    array.consolidate("commits")
    record.done("2024-05-08T02:10")
    array.vacuum("fragments")
    record.done("2024-05-08T02:20")
    ct.vacuum(place)
    record.done("2024-05-08T02:30")
    array.commit(to_ms("2024-05-09T11:00"), "id == 81", region="north")
    record.done("2024-05-09T11:00")
    evolution = tiledb.ArraySchemaEvolution(array.ctx)
    evolution.add_attribute(tiledb.Attr("channel", dtype="ascii", var=True, filters=PACKED))
    evolution.timestamp(to_ms("2024-05-10T08:00"))
    evolution.array_evolve(array.uri)
    record.done("2024-05-10T08:00")
    write("2024-05-10T09:00", range(120, 160), channel=True)
    write("2024-05-13T09:00", range(160, 200), channel=True)
    tagged = to_ms("2024-05-13T12:00")
    meta("2024-05-13T12:00", **{"chronotile.tag.before-clean-up": tagged})
    array.commit(to_ms("2024-05-14T16:45"), "region == 'test' and amount >= 50.0")
    record.done("2024-05-14T16:45")
    array.consolidate("fragments", (to_ms("2024-05-10"), to_ms("2024-05-13T10:00")))
    record.done("2024-05-15T02:00")
    write("2024-05-15T09:00", range(200, 240), channel=True)
    (place / "__commits" / f"{newest(place)}.wrt").unlink()  # the writer died before its commit
    meta("2024-05-16T08:00", source="till export, v2")
    write("2024-05-16T09:00", range(240, 280), channel=True)


def newest(array: Path) -> str:
    """The name of the fragment that was written last."""
    return max((array / "__fragments").iterdir(), key=lambda path: path.name.split("_")[3]).name


def make_dataset(folder: Path) -> None:
    """Weather: two members, and a third in a group below; the last load broke between members."""
    root = folder / "dataset"
    record = Recorder(root)
    created = "2024-06-01T06:00"
    config = tiledb.Config({"sm.group.timestamp_end": str(to_ms(created))})
    for group in (root, root / "derived"):
        tiledb.Group.create(str(group))
    stations, readings = EngineArray(root / "stations"), EngineArray(root / "readings")
    daily = EngineArray(root / "derived" / "daily")
    number = tiledb.Dim("station", domain=(0, 99), tile=10, dtype=np.int64, filters=PACKED)
    hour = tiledb.Dim("hour", domain=(0, 9999), tile=24, dtype=np.int64, filters=PACKED)
    stations.create(dims=[number], attrs=[tiledb.Attr("name", dtype="ascii", var=True)])
    celsius = tiledb.Attr("celsius", dtype=np.float32, nullable=True, filters=PACKED)
    readings.create(dims=[number, hour], attrs=[celsius])
    day = tiledb.Dim("day", domain=(0, 29), tile=10, dtype=np.int64)
    daily.create(sparse=False, dims=[day], attrs=[tiledb.Attr("mean", dtype=np.float32)])
    for array in (stations, readings, daily):
        date_schema(array.folder, created)
    add_members(root, config, stations="array", readings="array", derived="group")
    add_members(root / "derived", config, daily="array")
    record.done(created)
    stations.write_raw(to_ms("2024-06-01T06:05"), station=[1, 2, 3], name=["Fen", "Hill", "Pier"])
    record.done("2024-06-01T06:05")
    for number_of_day, (moment, whole) in enumerate(
        (("2024-06-02T01:00", True), ("2024-06-03T01:00", True), ("2024-06-04T01:00", False))
    ):
        hours = range(24 * number_of_day, 24 * number_of_day + 24, 6)
        cells = [(station, at) for station in (1, 2, 3) for at in hours]
        values = [None if at % 18 == 12 else 10 + station + at % 24 / 4 for station, at in cells]
        readings.write_raw(
            to_ms(moment),
            station=[cell[0] for cell in cells],
            hour=[cell[1] for cell in cells],
            celsius=values,
        )
        record.done(moment)
        if whole:  # the third load broke before this member was written
            later = to_ms(moment) + 60_000
            daily.write_raw(later, day=[number_of_day] * 2, mean=[14.5 + number_of_day])
            record.done(datetime.fromtimestamp(later / 1000, UTC).isoformat())
    readings.commit(to_ms("2024-06-04T15:00"), "celsius > 16.0")
    record.done("2024-06-04T15:00")


def add_members(group: Path, config: tiledb.Config, **members: str) -> None:
    """Add members by relative names."""
    with tiledb.Group(str(group), "w", config=config) as opened:
        for name in members:
            opened.add(name, name=name, relative=True)
        opened.meta["title"] = f"sample: {group.name}"


def pack(folder: Path, target: Path) -> None:
    """Put the files into a zip, in order, with their dates."""
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as packed:
        for path in sorted(folder.rglob("*")):
            moment = datetime.fromtimestamp(path.stat().st_mtime, UTC)
            name = str(path.relative_to(folder)) + ("/" if path.is_dir() else "")
            entry = zipfile.ZipInfo(name, moment.timetuple()[:6])
            entry.compress_type = zipfile.ZIP_DEFLATED
            packed.writestr(entry, b"" if path.is_dir() else path.read_bytes())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--target", type=Path, default=SAMPLE)
    target = parser.parse_args().target
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        make_array(folder)
        make_dataset(folder)
        shutil.rmtree(folder / "array.reports", ignore_errors=True)
        pack(folder, target)
    print(f"{target}: {target.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
