"""Masks of rows, which may say the same of all rows in one word.

In: masks. Out: masks. Knows nothing of what they mean.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

Mask: TypeAlias = "npt.NDArray[np.bool_] | np.bool_"
"""One truth for each row, or one for all of them."""

YES, NO = np.True_, np.False_


def both(one: Mask, other: Mask) -> Mask:
    """Mask of the rows that two masks have; quick where one of them says the same of all rows.

    >>> both(YES, np.array([True, False])).tolist()
    [True, False]
    """
    if one is NO or other is YES:
        return one
    return other if one is YES or other is NO else one & other


def either(one: Mask, other: Mask) -> Mask:
    """Mask of the rows that one of two masks has.

    >>> bool(either(NO, YES))
    True
    """
    if one is YES or other is NO:
        return one
    return other if one is NO or other is YES else one | other


def opposite(one: Mask) -> Mask:
    """Mask of the rows that a mask does not have."""
    return NO if one is YES else YES if one is NO else ~one
