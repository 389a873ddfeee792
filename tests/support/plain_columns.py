"""Tables without the timestamps that stand beside their columns of ms, to compare with numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from chronotile.history.text_columns import TWIN

if TYPE_CHECKING:
    import pyarrow as pa


def without_times(table: pa.Table) -> pa.Table:
    """The table without the timestamps."""
    return table.drop_columns([name for name in table.column_names if name.endswith(TWIN)])
