"""The sample: an array and a dataset that the engine wrote, with a history worth telling.

In: an empty folder. Out: `array` and `dataset` in it, unpacked from `sample.zip`, each file with
the date of the step that wrote it. `tests/bench/make_sample.py` makes the zip.
"""

from __future__ import annotations

import os
import shutil
import zipfile
from datetime import UTC, datetime
from importlib.resources import files
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from pathlib import Path

FIRST_DELETE = "2024-05-03T17:30"
"""When a delete took more rows than its author meant."""
UPDATE = "2024-05-09T11:00"
LAST_WRITE = "2024-05-16T09:00"
BEFORE_DELETE = "2024-05-03T17:29"
BEFORE_LOSS = "2024-06-04T14:00"
"""An hour before a delete of the dataset took rows with NULL."""
AFTER_LOSS = "2024-06-04T16:00"


class Sample(NamedTuple):
    """Where the sample is."""

    array: Path
    """A sparse array: sales."""
    dataset: Path
    """A group of three arrays: weather."""


def unpack(folder: Path) -> Sample:
    """Put the sample into a folder, which is made if it is not there."""
    with (
        (files("chronotile.cli") / "sample.zip").open("rb") as file,
        zipfile.ZipFile(file) as zipped,
    ):
        for entry in zipped.infolist():
            target = folder / entry.filename
            if entry.is_dir():
                target.mkdir(parents=True, exist_ok=True)
                continue
            target.parent.mkdir(parents=True, exist_ok=True)
            with zipped.open(entry) as packed, target.open("wb") as unpacked:
                shutil.copyfileobj(packed, unpacked)
        # Last, as a new file changes the date of its folder.
        for entry in reversed(zipped.infolist()):
            seconds = datetime(*entry.date_time, tzinfo=UTC).timestamp()
            os.utime(folder / entry.filename, (seconds, seconds))
    return Sample(folder / "array", folder / "dataset")
