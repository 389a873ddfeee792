"""The wheel: both roots in one, and it works without the checkout."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from support.spec_files import CORPUS

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What an installer would put beside other packages."""
    place = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(place)]
    subprocess.run(command, cwd=ROOT, capture_output=True, check=True, timeout=120)
    (wheel,) = place.glob("*.whl")
    with zipfile.ZipFile(wheel) as packed:
        packed.extractall(place / "site")
    return place / "site"


def test_all_of_the_packages_are_in_it(unpacked: Path) -> None:
    roots = ("src/chronotile", "src/pyspark_chronotile", "generated/chronotile_ksy")
    wanted = {
        path.relative_to(ROOT / root.partition("/")[0])
        for root in roots
        for path in (ROOT / root).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    found = {path.relative_to(unpacked) for path in unpacked.rglob("*") if path.is_file()}
    assert {path for path in found if ".dist-info" not in path.parts[0]} == wanted
    assert Path("chronotile/show/timeline_page.html") in wanted
    assert Path("chronotile/guides/time-machine.md") in wanted


def test_it_opens_an_array(unpacked: Path) -> None:
    code = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "import chronotile, chronotile_ksy, pyspark_chronotile\n"
        "for package in (chronotile, chronotile_ksy, pyspark_chronotile):\n"
        "    assert package.__file__.startswith(sys.argv[1]), package.__file__\n"
        "print(len(chronotile.open_log(sys.argv[2]).commits()))\n"
    )
    array = CORPUS / "con-twice" / "array"
    command = [sys.executable, "-P", "-c", code, str(unpacked), str(array)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    assert int(done.stdout) > 0
