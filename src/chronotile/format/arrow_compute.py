"""Arrow's functions on columns, loaded at the first call.

In: the name of a function of `pyarrow.compute`. Out: that function. Loading them takes longer than
reading the log of a small array, which needs none of them.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt
    import pyarrow as pa

FEW = 2000
"""Values that Python's own sets compare sooner than Arrow is loaded."""


def __getattr__(name: str) -> Any:
    if name.startswith("__"):  # the import of a name asks for `__path__`, and must load nothing
        raise AttributeError(name)
    value = getattr(importlib.import_module("pyarrow.compute"), name)
    globals()[name] = value
    return value


def texts_in(texts: pa.Array, known: pa.Array) -> npt.NDArray[np.bool_]:
    """Mark the texts that are in a set.

    >>> import pyarrow as pa
    >>> texts_in(pa.array(["a", "b"]), pa.array(["b"])).tolist()
    [False, True]
    """
    if len(texts) + len(known) <= FEW:
        some = set(raw_texts(known))
        return np.array([text in some for text in raw_texts(texts)], bool)
    return np.asarray(importlib.import_module("pyarrow.compute").is_in(texts, value_set=known))


def raw_texts(values: pa.Array) -> list[bytes]:
    """Give texts as bytes: a name of a file need not be UTF-8."""
    texts: list[bytes] = values.view("binary").to_pylist()
    return texts
