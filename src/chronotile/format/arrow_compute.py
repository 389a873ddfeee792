"""Arrow's functions on columns, loaded at the first call.

In: the name of a function of `pyarrow.compute`. Out: that function. Loading them takes longer than
reading the log of a small array, which needs none of them.
"""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt
    import pyarrow as pa

_FEW = 2000
"""Values that Python's own code handles sooner than Arrow's functions are loaded."""
_MODULE = "pyarrow.compute"


def does_without(count: int) -> bool:
    """Return True if Python's own code is quicker for so many values: to load Arrow's takes longer.

    Once they are loaded, they are always quicker.

    >>> does_without(1_000_000)
    False
    """
    return count <= _FEW and _MODULE not in sys.modules


def __getattr__(name: str) -> Any:
    if name.startswith("__"):  # the import of a name asks for `__path__`, and must load nothing
        raise AttributeError(name)
    value = getattr(importlib.import_module(_MODULE), name)
    globals()[name] = value
    return value


def texts_in(texts: pa.Array, known: pa.Array) -> npt.NDArray[np.bool_]:
    """Mark the texts that are in a set.

    >>> import pyarrow as pa
    >>> texts_in(pa.array(["a", "b"]), pa.array(["b"])).tolist()
    [False, True]
    """
    if does_without(len(texts) + len(known)):
        some = set(raw_texts(known))
        return np.array([text in some for text in raw_texts(texts)], bool)
    return np.asarray(importlib.import_module(_MODULE).is_in(texts, value_set=known))


def raw_texts(values: pa.Array) -> list[bytes]:
    """Give texts as bytes: a name of a file need not be UTF-8."""
    texts: list[bytes] = values.view("binary").to_pylist()
    return texts
