"""What the tests of datasets share."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from support.groups import member, put_array, put_list

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def group(tmp_path: Path) -> Path:
    """A group with an array, and a group with another array in it."""
    root = tmp_path / "group"
    put_array(root / "cells")
    put_array(root / "inner" / "deep")
    put_list(root, 10, member("cells", "cells"), member("inner", "inner", "group"))
    put_list(root / "inner", 10, member("deep"))
    return root
