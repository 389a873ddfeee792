r"""chronotile: the commit log of TileDB arrays, read, written, explained and looked after.

What users call:

    array = ct.open(uri)             an array or a group, by what is there
    array.view(end="2024-05-01")     what an open at a window sees: fragments, deletes, updates
    array.explain()                  why each object is, or is not, visible
    array.events()                   what happened, in words, as a table
    array.commits(), .fragments(), .lifelines(), .usage()       more tables
    array.check()                    what is wrong, and what to do about it
    array.rows(), .diff(t1, t2), .blame(["id=7"])               rows, with the engine
    array.delete("a < 3"), .update(…), .apply()                 commits
    array.consolidate(), .vacuum(), .repair()                   maintenance
    array.restore(to), .undelete(name), .undo(), .publish(staging), .clone(target), .tag(name)
    ct.check_fleet(root, out=DIR)    the same of every array below a folder, and its tables
    ct.fleet_tables(DIR)             these tables, all of one run
    ct.parse(file)                   one file of any kind, decoded

Every method of a change takes `dry_run=True`. A group has the same methods, for all members, and
`.members()`, `.moments()`. `ct.open_log(array)` and other functions of earlier versions stay.

A time is ms, a `datetime`, ISO-8601, `now`, a time ago such as `2h`, or a tag; UTC without a zone.

Names are loaded when they are first used, so that `import chronotile` stays light.

>>> import chronotile as ct
>>> ct.parse(b"__commits/__1_1_00112233445566778899aabbccddeeff_22.wrt\n", kind="ign").lines
('__commits/__1_1_00112233445566778899aabbccddeeff_22.wrt',)

Data moves one way through the rooms: each imports only from those above it.

    storage       the only room that touches a disk or a bucket
    format        the bytes of one file, its name, the values in it
    conditions    what a delete or an update says
    history       all that one reading of an array found
    visibility    what an open at a window sees, and why: the rules, and only there
    check         what is wrong, and what to do about it
    single_file   one file by itself, decoded
    show          all of it in words, pages and pictures, on its way out: reads nothing by itself
    change        every change: its plan, the executor, the record, the way back
    dataset       many arrays at once
    rows          what a window should show, row by row: the only room that asks the engine
    fleet         whole fleets: finding arrays, tables, Spark, streams, the pipeline, maintenance
    cli           the command line

F1 to F19, all over the code, are faults of the engine; `guides/faults.md` explains each.

Beside them: `log`, one array's log, where reading, rules, checks and words meet; `handle`, `array`
and `group`, which users hold; and `shims` and `spark`, the functions of earlier
versions.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from chronotile.array import Array as Array
    from chronotile.conditions.predicate_parser import parse_predicate as parse_predicate
    from chronotile.errors import ChronotileError as ChronotileError
    from chronotile.fleet.check_all import check_fleet as check_fleet
    from chronotile.fleet.delta_store import fleet_tables as fleet_tables
    from chronotile.group import Group as Group
    from chronotile.handle import open as open  # noqa: A004 (the name that users call)
    from chronotile.log import Log as Log
    from chronotile.log import open_log as open_log
    from chronotile.shims import *  # noqa: F403
    from chronotile.single_file.decode import parse as parse
    from chronotile.visibility.view import View as View

__version__ = "0.2.0"

_SHIMS = (
    *("Dataset", "apply_updates", "blame", "clone", "consolidate", "diff", "open_dataset"),
    *("publish", "read_rows", "removed_rows", "repair", "replicate", "restore", "undelete"),
    *("undo", "vacuum", "write_delete", "write_update"),
)
"""Names of earlier versions, which live in `shims`."""
_HOMES = dict.fromkeys(_SHIMS, "shims") | {
    "Array": "array",
    "ChronotileError": "errors",
    "Group": "group",
    "Log": "log",
    "View": "visibility.view",
    "check_fleet": "fleet.check_all",
    "fleet_tables": "fleet.delta_store",
    "open": "handle",
    "open_log": "log",
    "parse": "single_file.decode",
    "parse_predicate": "conditions.predicate_parser",
}
"""Public name -> the module that it lives in."""

__all__ = [*_HOMES, "__version__"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        message = f"module 'chronotile' has no attribute {name!r}"
        raise AttributeError(message)
    value = getattr(importlib.import_module(f"chronotile.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
