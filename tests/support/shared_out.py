"""How tests are shared out among workers: a file is one worker's, and slow files come first.

In: ids of tests. Out: the share that each belongs to, the rank of each share, and a scheduler for
xdist. A worker that has a whole file makes what the tests of the file share once. (xdist's own
groups are a mark; xdist 3.8 writes it into a field that pytest 9.2 does not read, and then shares
out test by test.)
"""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from xdist.scheduler import LoadFileScheduling

if TYPE_CHECKING:
    import pytest

ONE_SPARK = (
    "test_spark_jobs",
    "test_spark_outages",
    "test_spark_changes",
    "test_spark_inventory",
)
"""Files with a session of Spark each: one worker runs them all, as the process that Spark starts
stays, and its first queries take longest."""

SLOW = (
    *ONE_SPARK,
    "test_spark_cluster",
    "test_two_operators",
    "test_timeline",
    "test_time_machine_crash",
    "test_walk_back",
    "test_guides",
    "test_replicate",
    "test_replicate_broken_off",
    "test_replicate_race",
    "test_clouds",
    "test_compact_crash",
    "test_compact",
    "test_maintenance_killed",
    "test_tag_crash",
    "test_undo_faults",
    "test_cli",
    "test_dataset_time_machine",
    "test_time_machine",
    "test_rows_model",
    "test_hostile_text",
    "test_evolved_crash",
    "test_consolidation",
    "test_apply_crash",
    "test_publish_race",
    "test_maintenance_oracle",
    "test_engine_deletes",
    "test_store",
    "test_erase",
    "test_erase_crash",
    "test_restore_steps",
    "test_restore_race",
    "test_deep_check",
    "test_attack",
    "test_oracle",
    "test_fleet_tables",
    "test_right_words",
    "test_lines_to_columns",
    "test_unneeded_deletes",
    "test_group_publish_race",
    "test_followed_hints",
    "test_usage",
    "test_wheel",
    "test_hostile_names",
    "test_spark_rows",
    "test_group_crash",
    "test_open_cost",
    "test_story",
)
"""Files that take longest: begun first, so that no core waits for one of them in the end."""

_RANKS = {name: rank for rank, name in enumerate(SLOW)}


def rank_of(test: str) -> int:
    """When the file of a test has its turn.

    >>> rank_of("tests/spark/test_spark_jobs.py::test_one") < rank_of("tests/test_wheel.py::test")
    True
    """
    return _RANKS.get(_name(test), len(SLOW))


def share_of(test: str) -> str:
    """What one worker runs whole: a file, or all files of Spark.

    >>> share_of("tests/test_wheel.py::test_one[a::b]")
    'tests/test_wheel.py'
    >>> share_of("tests/spark/test_spark_jobs.py::test_one")
    'spark'
    """
    return "spark" if _name(test) in ONE_SPARK else test.split("::", 1)[0]


def _name(test: str) -> str:
    return PurePosixPath(test.split("::", 1)[0]).stem


def scheduler(config: pytest.Config, log: Any) -> Any:
    """What gives a worker one share after the other, in the order of the tests."""
    made = LoadFileScheduling(config, log)
    assert hasattr(made, "_split_scope"), "xdist asks it for the share of each test"
    made._split_scope = share_of
    return made
