"""Read the corpus with code that is generated for Java, C++ and JavaScript: `make languages`.

In: the specs, the corpus, and the runtimes of Kaitai Struct. Out: how many files each language
reads as Python does; status 1 if one does not. Damaged files are among those that they get.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import tempfile
import zlib
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kaitaistruct import KaitaiStructError
from support.spec_files import PREFIX, ROOT, corpus_files, fragment_metadata

from chronotile.errors import BadFileError
from chronotile.format.parsers import parse

if TYPE_CHECKING:
    from collections.abc import Iterator

BUILD = ROOT / "ksy" / "_build"
NODE = os.environ.get("CHRONOTILE_NODE", "node")
JAVA_HANGS = "bad-tile"
"""A zlib stream that ends too early: the Java runtime waits for the rest for ever."""
CPP_FLAGS = ("-O1", "-std=c++11", "-DKS_ZLIB", "-DKS_STR_ENCODING_NONE")


def files(folder: Path) -> list[tuple[str, Path]]:
    """Each file of the corpus with its spec; one in five also cut, and with a byte flipped."""
    sound = [*corpus_files(), *(("fragment_metadata", path) for path in fragment_metadata())]
    found = [*sound, *corpus_files(damaged=True)]
    for number, (spec, path) in enumerate(sound[::5]):
        data = path.read_bytes()
        flipped = bytearray(data)
        flipped[len(data) * 2 // 3] ^= 4
        for word, text in (("cut", data[: len(data) // 2]), ("flipped", bytes(flipped))):
            found.append((spec, folder / f"{number}-{word}"))
            found[-1][1].write_bytes(text)
    return found


def expected(spec: str, path: Path, facts: dict[str, list[str | None]]) -> str:
    """What a reader must say of a file, by way of the parsers of this package."""
    name = f"{PREFIX}{spec}"
    class_name = "".join(part.capitalize() for part in name.split("_"))
    module = __import__(f"chronotile_ksy.{name}", fromlist=[class_name])
    payload, *asked = facts[name]
    try:
        tree = parse(getattr(module, class_name), path.name, path.read_bytes())
        if payload is not None and not tree.tile.is_one_zlib_stream:
            return " closed"
        at = tree if payload is None else getattr(tree, payload)
        return "".join(f" {int(reduce(_step, (fact or '').split('.'), at))}" for fact in asked)
    except (BadFileError, KaitaiStructError, zlib.error):
        return " refused"


def _step(at: Any, name: str) -> Any:
    return len(at) if name == "size" else getattr(at, name)


def programs(out: Path, cpp_runtime: Path | None) -> dict[str, list[str]]:
    """Makes the programs; language -> the command that runs it."""
    subprocess.run([NODE, str(BUILD / "readers.mjs"), str(out)], check=True, timeout=300)
    found = {"JavaScript": [NODE, str(out / "javascript" / "main.js")]}
    (jar,) = out.glob("kaitai-struct-runtime-*.jar")
    sources = map(str, (out / "java").glob("*.java"))
    classes = out / "classes"
    command = ["javac", "-cp", str(jar), "-d", str(classes), *sources]
    subprocess.run(command, check=True, timeout=300)
    found["Java"] = ["java", "-cp", f"{jar}{os.pathsep}{classes}", "Main"]
    if cpp_runtime is not None:
        parts = [*(out / "cpp_stl").glob("*.cpp"), cpp_runtime / "kaitai" / "kaitaistream.cpp"]
        paths = (f"-I{cpp_runtime}", f"-I{out / 'cpp_stl'}", *map(str, parts))
        program = out / "reader"
        command = ["g++", *CPP_FLAGS, *paths, "-lz", "-o", str(program)]
        subprocess.run(command, check=True, timeout=550)
        found["C++"] = [str(program)]
    return found


def differences(
    command: list[str], given: list[tuple[str, Path]], wanted: list[str]
) -> Iterator[str]:
    """Runs a program over files; gives what it says otherwise than Python does."""
    lines = "".join(f"{PREFIX}{spec}\t{path}\n" for spec, path in given)
    environment = {**os.environ, "NODE_PATH": str(BUILD / "node_modules")}
    done = subprocess.run(
        command,
        input=lines,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=300,
        env=environment,
    )
    for (spec, path), ours, theirs in zip(given, wanted, done.stdout.splitlines(), strict=True):
        if ours != theirs:
            yield f"  {spec} {path}:{ours} in Python,{theirs} there"


def main() -> int:
    """Reads the corpus in each language."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("out", type=Path, help="where the code goes; the Java runtime is there")
    arguments.add_argument("--cpp-runtime", type=Path, help="folder of the C++ runtime")
    asked = arguments.parse_args()
    commands = programs(asked.out, asked.cpp_runtime)
    facts = json.loads((asked.out / "facts.json").read_text())
    wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        given = files(Path(folder))
        for language, command in commands.items():
            mine = [item for item in given if language != "Java" or JAVA_HANGS not in str(item[1])]
            wanted = [expected(spec, path, facts) for spec, path in mine]
            found = [*differences(command, mine, wanted)]
            read = sum(answer not in (" refused", " closed") for answer in wanted)
            print(
                f"{language}: {read} files read, {len(mine) - read} refused or closed as in Python"
            )
            print(*found[:20], sep="\n", end="\n" if found else "")
            wrong += len(found)
    if asked.cpp_runtime is None:
        print("C++ is left out: CPP_RUNTIME=FOLDER names a copy of kaitai_struct_cpp_stl_runtime")
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
