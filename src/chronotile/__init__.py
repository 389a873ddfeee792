r"""chronotile: the commit log of TileDB arrays, read, written, explained and looked after.

What users call:

    log = ct.open_log(array)         the commit log of an array, read once
    log.view(end="2024-05-01")       what an open at a window sees: fragments, deletes, updates
    log.view().explain()             why each object is, or is not, visible
    log.events()                     what happened, in words, as a table
    log.commits(), log.fragments(), log.lifelines(), log.usage()   more tables
    log.check()                      what is wrong, and what to do about it
    ct.check_fleet(root, out=DIR)    the same of every array below a folder, and its tables
    ct.open_dataset(group)           a group as one thing
    ct.write_delete(array, "a < 3")  and write_update: commits
    ct.consolidate(array), ct.vacuum(array), ct.repair(array)   maintenance
    ct.clone, restore, undelete, undo, publish                  the time machine
    ct.read_rows, removed_rows, diff, blame, apply_updates      rows, with the engine
    ct.parse(file)                   one file of any kind, decoded

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
    change        deletes, updates, consolidation, vacuum, repair
    time_machine  clones, and changes that bring a past state back
    log           the object that users hold: reading, rules, checks and plans meet here
    single_file   one file by itself, decoded
    dataset       many arrays at once
    rows          what a window should show, row by row: the only room that asks the engine
    tables        what a fleet holds, as Arrow tables
    report        what was found, in words, on its way out
    timeline      a picture of a history
    spark         the same for a whole fleet
    cli           the command line
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from chronotile.change.consolidate import consolidate
    from chronotile.change.delete_update import write_delete, write_update
    from chronotile.change.repair import repair
    from chronotile.change.vacuum import vacuum
    from chronotile.conditions.predicate_parser import parse_predicate
    from chronotile.dataset.open_dataset import Dataset, open_dataset
    from chronotile.errors import ChronotileError
    from chronotile.log import Log, View, open_log
    from chronotile.rows.apply import apply_updates
    from chronotile.rows.blame import blame
    from chronotile.rows.diff import diff
    from chronotile.rows.read_rows import read_rows
    from chronotile.rows.removed_rows import removed_rows
    from chronotile.single_file.decode import parse
    from chronotile.tables.checked_fleet import check_fleet
    from chronotile.time_machine.clone import clone
    from chronotile.time_machine.publish import publish
    from chronotile.time_machine.restore import restore
    from chronotile.time_machine.undelete import undelete
    from chronotile.time_machine.undo import undo

__version__ = "0.1.0"

_HOMES = {
    "ChronotileError": "errors",
    "Dataset": "dataset.open_dataset",
    "Log": "log",
    "View": "log",
    "apply_updates": "rows.apply",
    "blame": "rows.blame",
    "check_fleet": "tables.checked_fleet",
    "clone": "time_machine.clone",
    "consolidate": "change.consolidate",
    "open_dataset": "dataset.open_dataset",
    "diff": "rows.diff",
    "open_log": "log",
    "parse": "single_file.decode",
    "parse_predicate": "conditions.predicate_parser",
    "publish": "time_machine.publish",
    "read_rows": "rows.read_rows",
    "removed_rows": "rows.removed_rows",
    "repair": "change.repair",
    "restore": "time_machine.restore",
    "undelete": "time_machine.undelete",
    "undo": "time_machine.undo",
    "vacuum": "change.vacuum",
    "write_delete": "change.delete_update",
    "write_update": "change.delete_update",
}
"""Public name -> the module that it lives in."""

__all__ = [
    "ChronotileError",
    "Dataset",
    "Log",
    "View",
    "__version__",
    "apply_updates",
    "blame",
    "check_fleet",
    "clone",
    "consolidate",
    "diff",
    "open_dataset",
    "open_log",
    "parse",
    "parse_predicate",
    "publish",
    "read_rows",
    "removed_rows",
    "repair",
    "restore",
    "undelete",
    "undo",
    "vacuum",
    "write_delete",
    "write_update",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        message = f"module 'chronotile' has no attribute {name!r}"
        raise AttributeError(message)
    value = getattr(importlib.import_module(f"chronotile.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
