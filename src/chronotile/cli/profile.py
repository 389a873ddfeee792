"""The profile of a user: options of storage and keys by prefix, so that nobody types them again.

In: `config.toml` in the user's config folder, and a place. Out: the options and the key that apply
to the place, and `chronotile config`, which shows where each comes from, secrets hidden.

The file is never looked for in the working folder, and must belong to the user: a stranger's could
send credentials elsewhere. Each place that a command opens has its own options: the longest prefix
counts, option by option. The command line comes first, then the environment, then the profile.

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
from chronotile.errors import ChronotileError
from chronotile.safe_text import SECRET_NAME, did_you_mean, without_queries
from chronotile.storage.place import bare_option, find_place, option_below, options_at

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from rich.console import RenderableType

    from chronotile.show.output import Answer
    from chronotile.storage.place import Place

_SECRET = re.compile(SECRET_NAME, re.IGNORECASE)
_HIDDEN = "(hidden)"
_ENVIRONMENT = {"s3": "AWS_", "gs": "GOOGLE_", "az": "AZURE_"}
"""Scheme -> how the variables begin that the client of the storage reads."""
_CREDENTIALS = {
    *("access_key_id", "secret_access_key", "session_token"),
    *("account_key", "access_key", "sas_key", "sas_token"),
}
"""Options that belong together: all of them come from one source."""
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

    def options(self) -> dict[str, str]:
        """Give the options of every prefix, less what the environment sets; see `option_below`.

        Whatever a command opens takes from them what holds there, so that no credentials go to
        the storage of another prefix.
        """
        return {
            option_below(prefix, name): text
            for prefix, options in self.storage.items()
            for name, text in options.items()
            if not _is_set(find_place(prefix), bare_option(name))
        }

    def settings(self, uri: str) -> dict[str, Setting]:
        """Find the options of storage for a place."""
        given = self.options()
        here = options_at(find_place(uri), ((name, name) for name in given))
        return {
            name: Setting(given[full], f'[storage."{full.rpartition(" ")[0]}"]')
            for name, full in here
        }

    def key(self, uri: str) -> Setting | None:
        """Find the file of the key for a place: that of the longest prefix."""
        place = find_place(uri)
        fitting = (prefix for prefix in self.keys if place.is_below(find_place(prefix)))
        nearest = max(fitting, key=lambda prefix: len(find_place(prefix).root), default=None)
        if nearest is None:
            return None
        return Setting(str(Path(self.keys[nearest]).expanduser()), f'[keys] "{nearest}"')


def _variables(place: Place) -> dict[str, str]:
    """Give the environment variables that the client of a storage reads."""
    begins = _ENVIRONMENT.get(place.uri.partition("://")[0], "\0")
    return {n: text for n, text in sorted(os.environ.items()) if n.startswith(begins) and text}


def _is_set(place: Place, option: str) -> bool:
    """Return True if the environment has the option, or credentials where it is a part of some."""
    names = {bare_option(name) for name in _variables(place)}
    return option in names or (option in _CREDENTIALS and not names.isdisjoint(_CREDENTIALS))


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
    variables = _variables(find_place(uri))
    settings = {name: Setting(text, "the environment") for name, text in variables.items()}
    settings |= profile.settings(uri)
    key = profile.key(uri)
    if given := os.environ.get("CHRONOTILE_KEY_FILE"):
        key = Setting(given, "CHRONOTILE_KEY_FILE in the environment")
    hidden = {name: one._replace(value=_hidden(name, one.value)) for name, one in settings.items()}
    return hidden | ({"key file": key} if key is not None else {})


def _hidden(name: str, value: str) -> str:
    """Hide a value that is a secret or holds some; of an address, the user and the query."""
    text = without_queries(value)
    is_secret = _SECRET.search(name) or ("=" in text and _SECRET.search(text))
    return _HIDDEN if is_secret else text


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
    --key-file. Options come first, then the environment, then the profile. Two places in one call
    each get their own. Secrets are hidden.
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
