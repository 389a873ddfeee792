"""A policy: the maintenance that each array of a fleet may get, and how fast.

In: a file in TOML. Out: `Policy`, checked as a whole before anything is touched. Touches no array,
and knows nothing of Spark.

The guide on fleets has one with every key. `compact` needs the engine on each executor; each of its
options may be left out. Tags that an array has are always kept; an array that lacks a tag of `keep`
is refused. An array that no rule matches is left alone.

`*`, `?` and `[…]` match within a part of a path, `**` any number of parts; a pattern that is no URI
and no absolute path matches the end of one.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, NamedTuple, get_args

from chronotile.change.compact_batches import size_bytes
from chronotile.change.consolidate import Mode as ConsolidateMode
from chronotile.change.orphan_fragments import HOURS_24
from chronotile.change.vacuum import Mode as VacuumMode
from chronotile.check.debt import TARGET_BYTES
from chronotile.errors import ChronotileError
from chronotile.format.documents import read_toml
from chronotile.format.timestamps import duration_ms
from chronotile.safe_text import did_you_mean
from chronotile.storage.store import open_file

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


LONGEST = 1 << 20
"""The largest file of a policy, in bytes."""

MENDED_BY_COMMITS = frozenset(
    {"many-loose-commits", "con-superseded", "con-name-range", "delete-duplicate", "delete-ignored"}
)
"""Findings that go when commits are consolidated and vacuumed."""


class Compact(NamedTuple):
    """How fragments are merged."""

    target_bytes: int = TARGET_BYTES
    max_memory: int | None = None
    quiet_s: float = 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyRule:
    """A rule: the maintenance of the arrays of some patterns."""

    arrays: tuple[str, ...] = ("**",)
    left: tuple[str, ...] = ()
    """Patterns of arrays among them that are left alone."""
    consolidate: ConsolidateMode | None = None
    vacuum: VacuumMode | None = None
    compact: Compact | None = None
    quiet_ms: int = 0
    """Arrays with a commit younger than this are left alone."""
    always: bool = False
    """Whether an array needs no finding."""
    orphans: bool = False
    deletes: bool = False
    age_ms: int = HOURS_24
    keep: tuple[str, ...] = ()
    """Times and tags whose windows a vacuum leaves as they are."""
    keep_days: int | None = None

    def matches(self, array: str) -> bool:
        """Tell whether the rule is for an array.

        >>> rule = PolicyRule(arrays=("sales/**",), left=("**/audit",))
        >>> rule.matches("s3://lake/sales/a/b"), rule.matches("s3://lake/sales/audit")
        (True, False)
        >>> PolicyRule(arrays=("s3://lake/*",)).matches("s3://lake/a/b")
        False
        """
        return _any(self.arrays, array) and not _any(self.left, array)

    @property
    def codes(self) -> frozenset[str]:
        """The findings that the rule mends."""
        modes = {self.consolidate, self.vacuum}
        found = MENDED_BY_COMMITS if modes & {"commits", "all"} else frozenset()
        if self.vacuum in ("fragments", "all"):
            found |= {"vac-absolute", "superseded-bytes"}
        if self.consolidate in ("fragment-meta", "array-meta", "all"):
            found |= {"metadata-unconsolidated"}
        if self.compact is not None:
            found |= {"many-small-fragments"}
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The limits of one run; None for no limit."""

    arrays: int | None = None
    removed_files: int | None = None
    removed_bytes: int | None = None
    arrays_per_minute: int | None = None
    parallel: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """Rules, limits and a stop switch."""

    rules: tuple[PolicyRule, ...]
    limits: Limits = field(default_factory=Limits)
    stop: str | None = None
    """A file or object; while it exists, no further array is begun."""

    def rule_of(self, array: str) -> PolicyRule | None:
        """Give the first rule that matches an array."""
        return next((rule for rule in self.rules if rule.matches(array)), None)


def simple_policy(*, fragments: bool) -> Policy:
    """Give commits of every array that needs it; fragments too if the caller asks."""
    rule = PolicyRule(consolidate="commits", vacuum="all" if fragments else "commits")
    return Policy(rules=(rule,))


def read_policy(place: str, storage_options: Mapping[str, str] | None = None) -> Policy:
    """Read a policy from a file or an object."""
    store, name = open_file(place, storage_options)
    data = store.read(name, limit=LONGEST)
    return policy_of(read_toml(data, place, "a policy in TOML"), place)


def policy_of(document: Mapping[str, Any], where: str = "policy") -> Policy:
    """Check a policy.

    Raises:
        ChronotileError: A key is unknown, a value makes no sense, or no rule does anything.

    >>> policy_of({"rule": [{"arrays": ["a/*"], "vacuum": "commits"}]}).rules[0].vacuum
    'commits'
    >>> policy_of({"rule": [{"arrays": ["a/*"], "vaccum": "commits"}]})
    Traceback (most recent call last):
    chronotile.errors.ChronotileError: policy: rule 1: expected a known key, found 'vaccum'; did \
you mean 'vacuum'?
    """
    top = _Table(document, where)
    limits = _Table(top.take("limits", dict, {}), f"{where}: limits")
    rules = top.take("rule", list, [])
    policy = Policy(
        rules=tuple(_rule(one, f"{where}: rule {n}") for n, one in enumerate(rules, start=1)),
        limits=Limits(**{name: limits.count(name) for name in Limits.__dataclass_fields__}),
        stop=top.take("stop", str, None),
    )
    limits.check_all_known()
    top.check_all_known()
    if not policy.rules:
        raise ChronotileError(where, "expected at least one [[rule]], found none")
    if not any(rule.consolidate or rule.vacuum or rule.compact for rule in policy.rules):
        problem = "expected a rule with consolidate, compact or vacuum, found none"
        raise ChronotileError(where, problem)
    return policy


def _rule(document: Any, where: str) -> PolicyRule:
    if not isinstance(document, dict):
        raise ChronotileError(where, f"expected a table, found {document!r:.60}")
    table = _Table(document, where)
    rule = PolicyRule(
        arrays=table.texts("arrays"),
        left=table.texts("except"),
        consolidate=table.one_of("consolidate", get_args(ConsolidateMode)),
        vacuum=table.one_of("vacuum", get_args(VacuumMode)),
        compact=_compact(table.take("compact", dict, None), f"{where}: compact"),
        quiet_ms=table.duration("quiet", 0),
        always=table.take("always", bool, False),
        orphans=table.take("orphans", bool, False),
        deletes=table.take("deletes", bool, False),
        age_ms=table.duration("age", HOURS_24),
        keep=table.texts("keep"),
        keep_days=table.count("keep_days"),
    )
    table.check_all_known()
    if not rule.arrays:
        raise ChronotileError(where, "expected patterns of arrays, found none")
    for name in ("orphans", "deletes", "age", "keep", "keep_days"):
        is_kept = name == "keep" and rule.compact is not None
        if rule.vacuum is None and document.get(name) and not is_kept:
            raise ChronotileError(where, f"expected vacuum with {name}, found none")
    if rule.vacuum and not rule.codes and not rule.always:
        problem = f"expected always = true with vacuum = {rule.vacuum!r} alone, found none"
        raise ChronotileError(where, f"{problem}: no finding asks for it")
    return rule


def _compact(document: dict[str, Any] | None, where: str) -> Compact | None:
    if document is None:
        return None
    table, plain = _Table(document, where), Compact()
    target, memory = (table.take(name, str, None) for name in ("target_bytes", "max_memory"))
    found = Compact(
        plain.target_bytes if target is None else size_bytes(target, f"{where}: target_bytes"),
        None if memory is None else size_bytes(memory, f"{where}: max_memory"),
        table.duration("quiet", int(plain.quiet_s * 1000)) / 1000,
    )
    table.check_all_known()
    return found


class _Table:
    """One table of the file; it knows which of its keys were asked for."""

    def __init__(self, document: Mapping[str, Any], where: str) -> None:
        self._document, self._where = document, where
        self._asked: list[str] = []

    def take(self, name: str, kind: type, default: Any) -> Any:
        """Give a value of a kind."""
        self._asked.append(name)
        value = self._document.get(name, default)
        if value is not default and type(value) is not kind:
            words = {dict: "a table", list: "a list", str: "a text", bool: "true or false"}
            raise self._wrong(name, f"expected {words[kind]}, found {value!r:.60}")
        return value

    def texts(self, name: str) -> tuple[str, ...]:
        """Give a list of texts."""
        values = self.take(name, list, [])
        if not all(isinstance(one, str) and one for one in values):
            raise self._wrong(name, f"expected a list of texts, found {values!r:.60}")
        return tuple(values)

    def count(self, name: str) -> int | None:
        """Give a whole number above 0."""
        self._asked.append(name)
        value = self._document.get(name)
        if value is not None and (type(value) is not int or value < 1):
            raise self._wrong(name, f"expected a whole number above 0, found {value!r:.60}")
        return value

    def one_of(self, name: str, allowed: tuple[str, ...]) -> Any:
        """Give one of some words."""
        value = self.take(name, str, None)
        if value is not None and value not in allowed:
            raise self._wrong(name, f"expected one of {', '.join(allowed)}, found {value!r:.60}")
        return value

    def duration(self, name: str, default: int) -> int:
        """Give a length of time, in ms."""
        text = self.take(name, str, None)
        return default if text is None else duration_ms(text, f"{self._where}: {name}")

    def check_all_known(self) -> None:
        """Refuse a key that was not asked for: it may be a limit, misspelt."""
        for name in self._document:
            if name not in self._asked:
                hint = did_you_mean(repr(name), map(repr, self._asked))
                problem = f"expected a known key, found {name[:60]!r}{hint}"
                raise ChronotileError(self._where, problem)

    def _wrong(self, name: str, problem: str) -> ChronotileError:
        return ChronotileError(f"{self._where}: {name}", problem)


def _any(patterns: Iterable[str], array: str) -> bool:
    return any(_matches(_parts(pattern), array.split("/")) for pattern in patterns)


def _parts(pattern: str) -> list[str]:
    is_whole = "://" in pattern or pattern.startswith("/")
    return (pattern if is_whole else f"**/{pattern}").rstrip("/").split("/")


def _matches(patterns: list[str], parts: list[str]) -> bool:
    if not patterns:
        return not parts
    if patterns[0] == "**":
        return any(_matches(patterns[1:], parts[n:]) for n in range(len(parts) + 1))
    return bool(parts) and fnmatchcase(parts[0], patterns[0]) and _matches(patterns[1:], parts[1:])
