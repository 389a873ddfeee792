"""The tables of a run as tables of an open format: Delta or Iceberg, beside the Parquet files.

In: a run that is published, and where its tables should be. Out: one commit for each table, after
which it has the rows of that run; a table that has them already gets none. `delta_tables` and
`iceberg_tables` commit the run's own files, and need no jars; `session_tables` lets Spark write to
a catalog that the session has. Knows nothing of what the tables hold.

A run's files are never changed, and each has a name of its own. So a table is brought up to date by
names: the files that it lacks are added, those that the run does not have are taken out, and the
rows of a bucket that has not changed are not touched. A run that was killed between two tables, and
a table that somebody has compacted, are mended by the next run.
"""

from __future__ import annotations

import importlib
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from chronotile.errors import ChronotileError, StorageError
from chronotile.spark.pipeline.runs import PRIVATE, OvertakenError, complete_runs, started_ms

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pyarrow as pa
    from pyspark.sql import SparkSession

    from chronotile.spark.pipeline.runs import Part, Run

FORMATS = ("parquet", "iceberg", "delta")
NAMESPACE = "chronotile"
"""Where a catalog keeps the tables, unless the user names another place."""
HISTORY = frozenset({"findings_changes"})
"""Tables that keep the rows of every run."""
RUN = "chronotile.run"
"""The property, of a table or of a commit in it, that names the run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Where the tables should be, besides the Parquet files of the run."""

    format: str = "parquet"
    catalog: str | None = None
    """A catalog of the session, by name; of PyIceberg, by name or URI; None for folders."""
    namespace: str = NAMESPACE


PARQUET = Target()
"""The files of the run, and nothing else."""


class RunTable(NamedTuple):
    """A table as a run has it."""

    run: Run
    name: str
    parts: tuple[Part, ...]
    """Its files; those of earlier runs too if the table keeps their rows."""
    schema: pa.Schema

    @property
    def keeps(self) -> bool:
        """Whether rows of earlier runs stay."""
        return self.name in HISTORY

    def parts_after(self, committed_ms: int) -> dict[str, Part]:
        """The files that a table of an earlier run may lack, by their bare names.

        Raises:
            OvertakenError: The table has a later run.
        """
        if committed_ms > self.run.started_ms:
            problem = f"expected {self.run.name} to be the newest run, found a later one in it"
            raise OvertakenError(f"table {self.name}", problem)
        return {
            bare_name(part.path): part
            for part in self.parts
            if not self.keeps or started_ms(run_of(part)) > committed_ms
        }


class Committed(NamedTuple):
    """What became of one table."""

    table: str
    version: str
    """As the format counts: a number, or the id of a snapshot."""
    added: int
    """Files that the commit added: 0, as `removed`, if there was nothing to commit."""
    removed: int


def bare_name(path: str) -> str:
    """The name of a file without its folders.

    >>> bare_name("runs/1-a/commits/part-0001-ab.parquet")
    'part-0001-ab.parquet'
    """
    return path.rpartition("/")[2]


def run_of(part: Part) -> str:
    """The name of the run that published a file."""
    return part.path.split("/")[1]


def check_target(spark: SparkSession, target: Target, out: str) -> None:
    """Refuses a target that nothing here can write to, before anything is read.

    Raises:
        ChronotileError: A package is missing, or a catalog is not known.
    """
    _writer(spark, target, out)


def commit_tables(spark: SparkSession, target: Target, run: Run) -> tuple[Committed, ...]:
    """Brings every table of a target up to date with a run, each by one commit.

    Raises:
        OvertakenError: A table has a later run already.
        StorageError: A table cannot be written, or another program changed it meanwhile.
    """
    commit = _writer(spark, target, run.out)
    return tuple(commit(table) for table in run_tables(run)) if commit else ()


def run_tables(run: Run) -> Iterator[RunTable]:
    """The tables of a run that is published, but for those that only the next run reads."""
    parts = run.parts()
    earlier = [
        part
        for one in complete_runs(run)
        if one.name < run.name
        for part in one.parts()
        if part.table in HISTORY
    ]
    for name in dict.fromkeys(part.table for part in parts if part.table not in PRIVATE):
        own = [part for part in parts if part.table == name]
        schema = run.open(min(own, key=lambda part: part.size)).schema_arrow.remove_metadata()
        every = [part for part in (*earlier, *own) if part.table == name and part.rows]
        yield RunTable(run, name, tuple(every), schema)


def _writer(
    spark: SparkSession, target: Target, out: str
) -> Callable[[RunTable], Committed] | None:
    """What commits one table."""
    if target.format not in FORMATS:
        problem = f"expected one of {', '.join(FORMATS)}, found {target.format!r}"
        raise ChronotileError("table format", problem)
    if target.format == "parquet":
        return None
    from chronotile.spark.table_formats.session_tables import has_catalog, session_writer

    if target.catalog is not None and has_catalog(spark, target.catalog):
        return session_writer(spark, target)
    if out.startswith("memory:"):
        raise ChronotileError(out, f"expected a disk or a bucket with {target.format}")
    if target.format == "iceberg":
        from chronotile.spark.table_formats.iceberg_tables import iceberg_writer

        return iceberg_writer(target)
    if target.catalog is not None:
        problem = f"expected a catalog of the session (spark.sql.catalog.{target.catalog})"
        raise ChronotileError(f"catalog {target.catalog}", f"{problem}, found none")
    from chronotile.spark.table_formats.delta_tables import delta_writer

    return delta_writer()


def needed(module: str, extra: str) -> Any:
    """A module of an extra.

    Raises:
        ChronotileError: The extra is not installed.
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as cause:
        if (cause.name or "").partition(".")[0] != module.partition(".")[0]:
            raise
        problem = f"expected {cause.name}, found none: pip install 'chronotile[{extra}]'"
        raise ChronotileError(f"table format {extra}", problem) from None


@contextmanager
def told(where: str, hidden: str = "") -> Iterator[None]:
    """Turns the errors of a format's library into one of ours, without what should be hidden."""
    try:
        yield
    except ChronotileError:
        raise
    except Exception as cause:  # each library has its own
        words = (str(cause).strip() or type(cause).__name__).split("\n", 1)[0]
        words = words.replace(hidden, "…") if hidden else words
        problem = f"expected to commit, found {type(cause).__name__}: {words[:500]}"
        raise StorageError(where, problem) from None
