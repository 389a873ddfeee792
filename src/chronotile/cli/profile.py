"""The profile of a user: options of storage and keys by prefix, so that nobody types them again.

In: `config.toml` in the user's config folder, and a place. Out: the options and the key that apply
to the place, and `chronotile config`, which shows where each comes from, secrets hidden.

The file is never looked for in the working folder, and must belong to the user: a stranger's could
send credentials elsewhere. The longest prefix counts, option by option; the command line and the
environment come before it.

    [storage."s3://lake"]
    region = "eu-west-1"
    [keys]
    "s3://lake/secret" = "~/keys/lake"
"""

from __future__ import annotations

import os
import re
import stat
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from chronotile.cli.options import PlaceType, command, reporting
from chronotile.errors import SECRET_NAME, ChronotileError, did_you_mean
from chronotile.storage.place import find_place

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from rich.console import RenderableType

    from chronotile.show.output import Answer
    from chronotile.storage.place import Place

_SECRET = re.compile(SECRET_NAME, re.IGNORECASE)
_HIDDEN = "(hidden)"
_ENVIRONMENT = {"s3": "AWS_", "gs": "GOOGLE_", "az": "AZURE_"}
"""Scheme -> how the variables begin that the client of the storage reads."""
_SAMPLE = '[storage."s3://lake"]\nregion = "eu-west-1"\n[keys]\n"s3://lake/secret" = "~/keys/lake"'


class Setting(NamedTuple):
    """A value, and where it comes from."""

    value: str
    source: str


@dataclass(frozen=True, kw_only=True)
class Profile:
    """The file of a user, read."""

    path: Path
    storage: Mapping[str, Mapping[str, str]] = field(default_factory=dict, repr=False)
    """Prefix -> options."""
    keys: Mapping[str, str] = field(default_factory=dict)
    """Prefix -> the file of a key."""

    def options(self, uri: str) -> dict[str, Setting]:
        """Find the options of storage for a place."""
        found: dict[str, Setting] = {}
        for prefix in _around(uri, self.storage):
            source = f'[storage."{prefix}"]'
            found |= {name: Setting(text, source) for name, text in self.storage[prefix].items()}
        return found

    def key(self, uri: str) -> Setting | None:
        """Find the file of the key for a place."""
        *_, prefix = (None, *_around(uri, self.keys))
        return None if prefix is None else Setting(self.keys[prefix], f'[keys] "{prefix}"')


def _around(uri: str, prefixes: Mapping[str, Any]) -> list[str]:
    """List the prefixes that a place is at or below, the longest last."""
    place = find_place(uri)
    places: dict[str, Place] = {prefix: find_place(prefix) for prefix in prefixes}
    fitting = [prefix for prefix, root in places.items() if place.is_below(root)]
    return sorted(fitting, key=lambda prefix: len(places[prefix].root))


def profile_path() -> Path:
    """Name the file, in the config folder of the user."""
    return Path(click.get_app_dir("chronotile")) / "config.toml"


def read_profile() -> Profile:
    """Read the profile; an empty one, if there is no file.

    Raises:
        ChronotileError: It is not the user's own, or is no profile.
    """
    path = profile_path()
    if not path.is_absolute():
        return Profile(path=path)
    try:
        data, about = path.read_bytes(), path.stat()
    except FileNotFoundError:
        return Profile(path=path)
    except OSError as cause:
        raise ChronotileError(str(path), f"cannot be read: {cause.strerror}") from cause
    if about.st_uid not in (os.geteuid(), 0) or about.st_mode & (stat.S_IWOTH | stat.S_IWGRP):
        problem = "expected a file that you alone can write, found one that others can"
        raise ChronotileError(str(path), f"{problem}; chmod 600 {path} mends it")
    from chronotile.format.documents import read_toml

    document = read_toml(data, str(path), "a profile in TOML")
    for name in document:
        if name not in ("storage", "keys"):
            hint = did_you_mean(name, ["storage", "keys"])
            problem = f"expected [storage] and [keys], found {name!r:.60}{hint}"
            raise ChronotileError(str(path), problem)
    storage, keys = document.get("storage", {}), document.get("keys", {})
    tables = [storage, keys, *(storage.values() if isinstance(storage, dict) else ())]
    if not all(isinstance(table, dict) for table in tables):
        problem = 'expected [storage."PREFIX"] with options, and [keys] with files'
        raise ChronotileError(str(path), f"{problem}, such as {_SAMPLE!r}")
    texts = {prefix: _texts(options, path) for prefix, options in storage.items()}
    return Profile(path=path, storage=texts, keys=_texts(keys, path))


def _texts(table: Mapping[str, Any], path: Path) -> dict[str, str]:
    """Take every value as a text; the error names no value, as it may be a secret."""
    for name, value in table.items():
        if isinstance(value, dict | list):
            raise ChronotileError(str(path), f"expected a text for {name!r:.60}, found a table")
    words = {True: "true", False: "false"}
    return {
        name: words.get(v, str(v)) if isinstance(v, bool) else str(v) for name, v in table.items()
    }


def _applied(profile: Profile, uri: str) -> dict[str, Setting]:
    """Give every setting of a place: name -> value, source."""
    begins = _ENVIRONMENT.get(uri.partition("://")[0], "\0")
    settings = {
        name: Setting(text, "the environment")
        for name, text in sorted(os.environ.items())
        if name.startswith(begins)
    }
    settings |= profile.options(uri)
    key = profile.key(uri)
    if given := os.environ.get("CHRONOTILE_KEY_FILE"):
        key = Setting(given, "CHRONOTILE_KEY_FILE in the environment")
    hidden = {
        name: one._replace(value=_HIDDEN) if _SECRET.search(name) else one
        for name, one in settings.items()
    }
    return hidden | ({"key file": key} if key is not None else {})


def _lines(
    profile: Profile, uri: str | None, applied: dict[str, Setting]
) -> Iterator[RenderableType]:
    from chronotile.show.output import Text, plain_table

    there = profile.path.exists()
    state = "your profile" if there else "no profile yet"
    if not there and uri is not None:
        state += "; for an example: chronotile config"
    yield Text(f"{profile.path}: {state}", "bold")
    if uri is None:
        yield from (f'  [storage."{prefix}"]' for prefix in profile.storage)
        yield from (f'  [keys] "{prefix}"' for prefix in profile.keys)
        if not there:
            yield "it could hold, for example:"
            yield from (f"  {line}" for line in _SAMPLE.split("\n"))
    elif applied:
        table = plain_table("name", "value", "from")
        for name, setting in applied.items():
            table.add_row(name, *setting)
        yield table
    else:
        yield f"no setting applies to {uri}"


@command(epilog="\b\nExample:\n  chronotile config\n  chronotile config s3://lake/sales")
@click.argument("uri", metavar="[URI]", required=False, type=PlaceType("dir"))
@reporting
def config(uri: str | None) -> Answer:
    """Show your profile: the storage options and keys that apply to URI, and where they come from.

    The profile is config.toml in your config folder; it saves you from repeating --storage and
    --key-file. Those options and the environment come before it. Secrets are hidden.
    """
    from chronotile.show.output import Answer

    place, profile = None if uri is None else find_place(uri).uri, read_profile()
    applied = {} if place is None else _applied(profile, place)
    document: dict[str, Any] = {"file": str(profile.path), "uri": place}
    if place is None:
        document |= {"storage": [*profile.storage], "keys": [*profile.keys]}
    else:
        document["applies"] = {name: one._asdict() for name, one in applied.items()}
    return Answer(document, _lines(profile, place, applied))
