r"""chronotile: the commit log of TileDB arrays, read, written, explained and looked after.

Data flows one way through the modules:

    places, disk, buckets -> store        the only modules that touch storage
    names, listing                        which file is what
    kaitai, tiles, schema                 bytes to payloads and types
    conditions, predicates, updates       what a delete or update says
    records, columns, commit_table        commit records, one by one and as columns
    history                               all that one reading of an array found
    visibility                            the rules, and only there
    view, lifelines, explain, log         what users ask
    checks, maintenance, reports, cli     what users do

Names are loaded when they are first used, so that `import chronotile` stays light.

>>> import chronotile as ct
>>> ct.parse(b"__commits/__1_1_00112233445566778899aabbccddeeff_22.wrt\n", kind="ign").lines
('__commits/__1_1_00112233445566778899aabbccddeeff_22.wrt',)
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from chronotile.anyfile import parse
    from chronotile.consolidation import consolidate
    from chronotile.errors import ChronotileError
    from chronotile.fleet import check_fleet
    from chronotile.log import Log, View, open_log
    from chronotile.predicates import parse_predicate
    from chronotile.repairing import repair
    from chronotile.vacuuming import vacuum
    from chronotile.writers import write_delete, write_update

__version__ = "0.1.0"

_HOMES = {
    "ChronotileError": "errors",
    "Log": "log",
    "View": "log",
    "check_fleet": "fleet",
    "consolidate": "consolidation",
    "open_log": "log",
    "parse": "anyfile",
    "parse_predicate": "predicates",
    "repair": "repairing",
    "vacuum": "vacuuming",
    "write_delete": "writers",
    "write_update": "writers",
}
"""Public name -> the module that it lives in."""

__all__ = [
    "ChronotileError",
    "Log",
    "View",
    "__version__",
    "check_fleet",
    "consolidate",
    "open_log",
    "parse",
    "parse_predicate",
    "repair",
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
