"""The rows that one delete removed, or one update changed.

In: an array, the name of a delete or an update. Out: the rows as they were right before it. Whoever
else would have removed them later does not matter.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from chronotile.conditions.tree import AllOf
from chronotile.conditions.truth import rows_asked_for
from chronotile.conditions.update_values import parse_row
from chronotile.errors import ChronotileError
from chronotile.format.short_ids import uuid_of
from chronotile.rows.cells.cell_columns import shown, shown_type
from chronotile.rows.cells.cell_source import cell_source
from chronotile.rows.changes_in_force import changes_in_force
from chronotile.rows.open_for_rows import last_time, schema_in_force
from chronotile.rows.play_changes import Play
from chronotile.visibility.view import Update

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy.typing as npt

    from chronotile.conditions.tree import Compare
    from chronotile.format.schema import Schema
    from chronotile.history.read_history import SchemaFile
    from chronotile.log import Log
    from chronotile.rows.cells.engine import Range
    from chronotile.rows.changes_in_force import Change


@dataclass(frozen=True, slots=True, kw_only=True)
class RemovedRows:
    """What one change took, to be read batch by batch."""

    log: Log
    change: Change
    schema_file: SchemaFile
    before: tuple[Change, ...]
    """What acted before it."""
    wanted: tuple[Compare, ...] = ()
    """Only rows that hold these values."""

    @property
    def _schema(self) -> Schema:
        assert self.schema_file.schema is not None
        return self.schema_file.schema

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema of the rows."""
        return pa.schema([pa.field(f.name, shown_type(f)) for f in self._schema.fields])

    def plays(self, ranges: Sequence[Range] = ()) -> Iterator[tuple[Play, npt.NDArray[np.intp]]]:
        """Cells as they are right before the change, and which of them it hits."""
        # An update acts on the rows of before its own millisecond.
        end = self.change.t - self.change.is_update
        if end < 0:
            return
        fields = self._schema.fields
        source = cell_source(self.log, self.schema_file, end, [*self.before, self.change])
        for batch in source.batches(fields, ranges):
            play = Play(fields, batch.columns, batch.times, batch.lacks)
            for number, change in enumerate(self.before):
                play.act(number, change)
            hit = play.hit_by(self.change)
            mask = rows_asked_for(AllOf(parts=self.wanted), play.asked)
            wanted = hit[np.broadcast_to(mask, len(play.times))[hit]]
            if len(wanted):
                yield play, wanted

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The rows."""
        for play, hit in self.plays():
            cells = [
                shown(field, column, self.log.array)
                for field, column in zip(self._schema.fields, play.cells(hit), strict=True)
            ]
            yield pa.RecordBatch.from_arrays(cells, schema=self.schema)

    def table(self) -> pa.Table:
        """Read all rows at once."""
        return pa.Table.from_batches(self.batches(), schema=self.schema)


def removed_of(log: Log, name: str, values: Sequence[str] = ()) -> RemovedRows:
    """Find what one change of a log took; only rows with some `field=value`.

    Raises:
        ChronotileError: There is no such delete or update, or the engine cannot read it.
    """
    wanted = name.rpartition("/")[2].removesuffix(".del").removesuffix(".upd")
    every = log.view(0, last_time(log))
    # An update that was carried out may share its name with the delete of its old rows.
    kinds = (every.updates,) if name.endswith(".upd") else (every.deletes, every.updates)
    changes = [one for kind in kinds for one in kind]
    short = [one for one in changes if wanted and (uuid_of(one.name) or "").startswith(wanted)]
    found = [one for one in changes if one.name == wanted] or short
    if len({one.name for one in found}) != 1:
        problem = f"expected the name of a delete or an update, found {name[:80]!r}"
        raise ChronotileError(log.array, f"{problem}: `chronotile log` lists them")
    wanted = found[0].name
    schema_file = schema_in_force(log, found[0].t2)
    assert schema_file.schema is not None
    in_force = changes_in_force(log.view(0, found[0].t2), schema_file.schema)
    is_update = isinstance(found[0], Update)
    at = next(
        (
            number
            for number, one in enumerate(in_force.changes)
            if one.name == wanted and one.is_update == is_update
        ),
        None,
    )
    if at is None:
        raise ChronotileError(log.array, f"expected a commit that can be read: {in_force.notes}")
    return RemovedRows(
        log=log,
        change=in_force.changes[at],
        schema_file=schema_file,
        before=in_force.changes[:at],
        wanted=parse_row(values, schema_file.schema),
    )
