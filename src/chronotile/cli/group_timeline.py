"""`chronotile timeline` of a group: a lane for each array, on one time axis.

In: a group, and the file to write. Out: that file. `timeline.lanes` decides what it shows.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from chronotile.cli.group_each import chosen
from chronotile.cli.options import say
from chronotile.cli.timeline import TimelineReport, _draw
from chronotile.errors import ChronotileError, ReadError
from chronotile.format.timestamps import now_ms

if TYPE_CHECKING:
    from collections.abc import Callable

    from chronotile.dataset.open_dataset import Dataset
    from chronotile.timeline.picture import Height


def group_timeline(
    _: Callable[..., Any],
    dataset: Dataset,
    pattern: str | None,
    *,
    output: str,
    now: Any,
    cells: bool,
    height: Height | None,
    **rest: Any,  # noqa: ARG001  (options of arrays alone)
) -> TimelineReport:
    """A picture of the history of every array in a group."""
    from chronotile.report.output import progress
    from chronotile.timeline.lanes import join_pictures
    from chronotile.timeline.picture import make_picture

    moment = now_ms() if now is None else dataset.moment(now, "--now")
    arrays = [node for node in chosen(dataset, pattern) if node.found == "array"]
    pictures, status = [], 0
    with progress("reading members", len(arrays)) as step:
        for node in arrays:
            log = dataset.read_log(node)
            if isinstance(log, ChronotileError):
                say(f"note: {node.path} cannot be read: {log}")
                status = ReadError.exit_code
            else:
                holds = cells or height is not None
                drawn = make_picture(log, moment, cells=holds, height=height or "cells")
                pictures.append((node.path, drawn))
            step()
    if not pictures:
        kind = ReadError if status else ChronotileError
        raise kind(dataset.uri, "expected arrays that can be read, found none")
    picture = join_pictures(dataset.uri, pictures, moment)
    data = _draw(picture, Path(output).suffix.lower())
    Path(output).write_bytes(data)
    return TimelineReport(picture=picture, output=output, size=len(data), status=status)
