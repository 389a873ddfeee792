"""The values that an erased predicate names, wherever files of ours or of the array repeat them.

In: a predicate; deletes, records, files of the quarantine. Out: whether they name one of its
values, and the same without it: a condition that means the same for all rows that are left, a
record with `[erased]` in its place. Reads no cell, and changes nothing.

Texts are looked for as they are: a long one anywhere, a shorter one as a word of its own. A number,
or a text of one or two letters, is everywhere: it counts only beside the name of its field, or in
the message of an operation, which people write in their own words.
"""

from __future__ import annotations

import ast
import re
import secrets
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from chronotile.change import operations
from chronotile.change.operations import OPERATIONS, QUARANTINE
from chronotile.change.plan import Step, put
from chronotile.conditions import codec
from chronotile.conditions.tree import AnyOf, Compare, Condition, Not, Op, fold, leaves, member_of
from chronotile.errors import ChronotileError
from chronotile.format import cell_values, tiles
from chronotile.format.commit_files import decode_con
from chronotile.format.documents import json_text, read_json
from chronotile.format.kinds import (
    CONDITIONS,
    FRAGMENT_META,
    GROUP,
    LINES,
    META,
    OLD_SCHEMA,
    SCHEMA,
)
from chronotile.safe_text import printable

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from chronotile.conditions.tree import AllOf
    from chronotile.format.schema import Field, Schema
    from chronotile.storage.store import Store

ERASED = "[erased]"
"""What stands in a record where a value was."""
_SHORT = 3
"""Letters from which on a text counts without the name of its field."""
_LONG = 6
"""Letters from which on it counts as a part of another word too."""
_EXACT = (Op.EQ, Op.NE, Op.IN, Op.NOT_IN)
_TILE_FOLDERS = tuple(f"{one}/" for one in (FRAGMENT_META, GROUP, META, SCHEMA))
_MESSAGE = "message"
_KEPT = 3
"""Slashes in the path of a file that the quarantine keeps by itself."""
_CODINGS = ("utf-8", "utf-16-le", "utf-32-le")


class _Token(NamedTuple):
    """A value as people and records spell it."""

    pattern: re.Pattern[str]
    field: re.Pattern[str] | None
    """The field that must be named beside it; None if the value says enough."""

    def is_in(self, text: str, *, is_message: bool = False) -> bool:
        """Tell whether a text has it."""
        is_beside = is_message or self.field is None or self.field.search(text) is not None
        return is_beside and self.pattern.search(text) is not None


class NamedValues(NamedTuple):
    """The values that a predicate names."""

    raw: Mapping[str, frozenset[bytes]]
    """Field -> values as they are stored."""
    texts: tuple[str, ...]
    tokens: tuple[_Token, ...]
    is_whole: bool = False
    """True if no row with one of these values is left once all matches are gone."""

    @property
    def are_long(self) -> bool:
        """True if all are texts that can be looked for anywhere."""
        long = [text for text in self.texts if len(text) >= _SHORT]
        return len(long) == sum(map(len, self.raw.values()))

    def are_in(self, condition: Condition) -> bool:
        """Tell whether a condition names one of them."""
        return any(self._of(leaf) for leaf in leaves(condition))

    def _of(self, leaf: Compare) -> frozenset[bytes]:
        members = leaf.members if leaf.op.is_set else (leaf.value,)
        found = self.raw.get(leaf.field, frozenset()).intersection(members)
        # Another field may hold the same text.
        return found | {text.encode() for text in self.texts}.intersection(members)

    def without(self, stored: Condition, schema: Schema) -> Condition | None:
        """Write a stored condition without them; None if that may change which rows stay.

        A value that no row holds takes the place of one that is gone: what the condition says of
        NULL, and of cells that lack the field, stays as it is.
        """
        for node in leaves(stored):
            named = self._of(node)
            is_of_field = named <= self.raw.get(node.field, frozenset())
            if named and not (self.is_whole and is_of_field and node.op in _EXACT):
                return None
        found = True

        def leaf(node: Compare) -> Condition:
            nonlocal found
            named = self._of(node)
            if not named:
                return node
            rest = tuple(one for one in node.members if one not in named)
            if node.op.is_set and rest:
                return member_of(node.field, node.op, rest)
            other = _held_by_no_row(schema.field(node.field), node)
            found = found and other is not None
            return other or node

        def join(node: AllOf | AnyOf | Not, parts: list[Condition]) -> Condition:
            if isinstance(node, Not):
                return Not(part=parts[0])
            return type(node)(parts=tuple(parts))

        new = fold(stored, leaf, join)
        return new if found else None

    def are_in_text(self, text: str) -> bool:
        """Tell whether a text names one of them."""
        return any(token.is_in(text) for token in self.tokens)

    def redact(self, value: Any, *, is_message: bool = False) -> Any:
        """Write a JSON value without them; the message of a record is one, too."""
        if isinstance(value, str):
            for token in self.tokens:
                if token.is_in(value, is_message=is_message):
                    value = token.pattern.sub(ERASED, value)
            return value
        if isinstance(value, list):
            return [self.redact(one) for one in value]
        if isinstance(value, Mapping):
            return {
                self.redact(name): self.redact(one, is_message=name == _MESSAGE)
                for name, one in value.items()
            }
        return value

    def are_in_bytes(self, data: bytes) -> bool:
        """Tell whether bytes hold one of the texts."""
        texts = [text for text in self.texts if len(text) >= _SHORT]
        return any(text.encode(coding) in data for text in texts for coding in _CODINGS)


def named_values(predicate: Condition, schema: Schema) -> NamedValues:
    """Find the values that a flat predicate names: texts, and numbers that it asks for exactly.

    >>> from chronotile.format.datatypes import Datatype
    >>> from chronotile.format.schema import Field, Schema
    >>> s = Field(name="s", datatype=Datatype.STRING_ASCII, cell_val_num=2**32 - 1)
    >>> schema = Schema(version=22, dimensions=(), attributes=(s,))
    >>> found = named_values(Compare(field="s", op=Op.EQ, value=b"Ann"), schema)
    >>> found.redact({"where": "s == 'Ann'"})
    {'where': "s == '[erased]'"}
    """
    raw: dict[str, set[bytes]] = {}
    texts: dict[str, None] = {}
    tokens: list[_Token] = []
    for leaf in leaves(predicate):
        field = schema.field(leaf.field)
        if field is None or (field.is_number and leaf.op not in _EXACT):
            continue
        for one in leaf.members if leaf.op.is_set else (leaf.value,):
            if not one:
                continue
            raw.setdefault(leaf.field, set()).add(one)
            value = cell_values.decode(field, one)
            if isinstance(value, str):
                texts[value] = None
            tokens += _tokens(value, leaf.field)
    parts = predicate.parts if isinstance(predicate, AnyOf) else (predicate,)
    is_whole = all(isinstance(one, Compare) and one.op in (Op.EQ, Op.IN) for one in parts)
    known = {name: frozenset(values) for name, values in raw.items()}
    return NamedValues(known, tuple(texts), tuple(tokens), is_whole)


def quoted_values(where: str) -> NamedValues:
    """Find the values that a predicate names, without a schema: for messages, and for groups."""
    try:
        nodes = [*ast.walk(ast.parse(where.strip(), mode="eval"))]
    except (SyntaxError, ValueError):
        return NamedValues({}, (), ())  # the predicate is refused before anything is written
    called = [part for node in nodes if isinstance(node, ast.Call) for part in node.args]
    fields = [node.id for node in nodes if isinstance(node, ast.Name)]
    fields += [str(part.value) for part in called if isinstance(part, ast.Constant)]
    values = [n.value for n in nodes if isinstance(n, ast.Constant) and n not in called]
    tokens = {token for value in values for field in fields for token in _tokens(value, field)}
    return NamedValues({}, tuple(one for one in values if isinstance(one, str)), tuple(tokens))


def _tokens(value: object, field: str) -> Iterator[_Token]:
    spelled, is_enough = {str(value)}, False
    if isinstance(value, str):
        spelled, is_enough = {value, repr(value)[1:-1], printable(value)}, len(value) >= _SHORT
    elif isinstance(value, bytes):
        spelled, is_enough = {value.hex()}, True
    for one in sorted(spelled, key=len, reverse=True):
        is_long = is_enough and len(one) >= _LONG
        pattern = re.compile(re.escape(one)) if is_long else _word(one)
        yield _Token(pattern, None if is_enough else _word(field))


def _word(text: str) -> re.Pattern[str]:
    return re.compile(rf"(?<!\w){re.escape(text)}(?!\w)")


def _held_by_no_row(field: Field | None, leaf: Compare) -> Compare | None:
    """Compare with something else to the same effect; None if there is no such value."""
    if field is None:
        return None
    keeps = leaf.op in (Op.NE, Op.NOT_IN)
    if field.is_number and not field.datatype.is_float:
        least = _least(field)
        # Of whole numbers all are at least the least: NULL alone fails both.
        return Compare(field=leaf.field, op=Op.GE if keeps else Op.LT, value=least)
    size = field.cell_size
    other = secrets.token_hex(16).encode()
    if field.is_number:
        other = secrets.token_bytes(field.datatype.size - 1) + b"\x41"
    elif size is not None:
        if size < 8:
            return None
        other = secrets.token_hex(size).encode()[:size]
    return Compare(field=leaf.field, op=Op.NE if keeps else Op.EQ, value=other)


def _least(field: Field) -> bytes:
    size = field.datatype.size
    is_signed = str(field.datatype.code).islower()
    return (bytes(size - 1) + b"\x80") if is_signed else bytes(size)


def kept_files(
    store: Store, key: bytes | None, values: NamedValues, names: Collection[str]
) -> Iterator[Step]:
    """Find the files in the quarantine that name the values, or fragments that go; not cells.

    Raises:
        StorageError: The storage failed.
    """
    for entry in store.list_prefix(QUARANTINE):
        if entry.path.count("/") != _KEPT:
            continue
        data = store.read(entry.path)
        try:
            is_named = is_file_naming(data, entry.path, key, values)
            if not is_named and entry.path.endswith(".meta"):
                content = tiles.decode(data, entry.path, key=key).payload
                is_named = any(name.encode() in content for name in names)
        except ChronotileError:
            is_named = values.are_in_bytes(data)
        if is_named:
            reason = "the quarantine keeps nothing of what is erased"
            yield Step(op="remove", path=entry.path, size=entry.size, reason=reason)


def is_file_naming(data: bytes, path: str, key: bytes | None, values: NamedValues) -> bool:
    """Tell whether a file that holds no cells names one of the values.

    Raises:
        ChronotileError: TileDB wrote it, and it cannot be read.
    """
    if path.endswith(".con"):
        records = decode_con(data, path)
        return any(one.tile and is_naming(one.tile, one.uri, key, values) for one in records)
    if path.endswith(CONDITIONS):
        return is_naming(data, path, key, values)
    if values.are_in_bytes(data):
        return True
    is_tile = path.startswith(_TILE_FOLDERS) or path.endswith((".meta", OLD_SCHEMA))
    try:
        return values.are_in_bytes(tiles.decode(data, path, key=key).payload)
    except ChronotileError:
        if is_tile and not path.endswith(LINES):
            raise
        return False


def is_naming(tile: bytes, uri: str, key: bytes | None, values: NamedValues) -> bool:
    """Tell whether the tile of a delete or update names one of the values.

    Raises:
        ChronotileError: It cannot be read.
    """
    payload = tiles.decode(tile, uri, key=key).payload
    if uri.endswith(".upd"):
        condition, set_to = codec.decode_update(payload, uri)
        if any(one.value in values.raw.get(one.field, frozenset()) for one in set_to):
            return True
    else:
        condition = codec.decode(payload, uri)
    return values.are_in(condition)


class RecordChange(NamedTuple):
    """The records that change: redacted, or no longer to be undone."""

    steps: tuple[Step, ...]
    final: tuple[str, ...]
    """Ids of the operations that can no longer be undone."""


def plan_records(store: Store, values: NamedValues, touched: Collection[str]) -> RecordChange:
    """Plan records without the values, and `final` for operations that need what goes.

    Args:
        store: The array, or the group.
        values: What no record may name.
        touched: Names of fragments, deletes and operations: what relies on them is final.

    Raises:
        StorageError: The storage failed.
    """
    steps: list[Step] = []
    final: list[str] = []
    names = re.compile("|".join(map(re.escape, sorted(touched)))) if touched else None
    merged: dict[str, list[dict[str, Any]]] = {}
    for one in operations.list_operations(store):
        if one.state == "begun":
            continue
        try:
            old = operations.read_operation(store, one)
        except ChronotileError:
            continue
        new = values.redact(old)
        is_named = new | {_MESSAGE: None} != old | {_MESSAGE: None}  # words alone bind no undo
        if is_named or (names is not None and names.search(json_text(old)) is not None):
            final += [one.id] * (one.state != "final")
            new = _without_hashes(new) | {"state": "final"}
        if one.path.endswith(operations.MERGED):
            merged.setdefault(one.path, []).append(new)
        elif new != old:
            path = operations.path_of(new)
            reason = "it says nothing of what is erased, and cannot be undone"
            data = json_text(new).encode()
            if path == one.path:
                steps.append(_replacement(path, store.read(path), data, reason))
            else:
                steps.append(put(path, data, reason))
                steps.append(Step(op="remove", path=one.path, size=None, reason=reason))
    steps += _outlived(store)
    for path, documents in merged.items():
        before = store.read(path)
        data = json_text({"records": documents}).encode()
        if read_json(before, path, "records").get("records") != documents:
            reason = "it says nothing of what is erased"
            steps.append(_replacement(path, before, data, reason))
    return RecordChange(tuple(steps), tuple(final))


def _replacement(path: str, old: bytes, new: bytes, reason: str) -> Step:
    """Exchange a record; the quarantine does not keep the old one."""
    size = len(new)
    return Step(op="replace", path=path, size=size, reason=reason, data=new, old=old, keep=False)


def _outlived(store: Store) -> Iterator[Step]:
    """Find the files of records that a later state has replaced: a killed run leaves them."""
    known = {one.id: one for one in operations.list_operations(store)}
    for name in store.list_names(OPERATIONS).files:
        found = operations.operation_of(f"{OPERATIONS}/{name}")
        if found is None or found.id not in known or known[found.id].state == "begun":
            continue
        if found.path != known[found.id].path:
            why = "a later state of the operation has a file of its own"
            yield Step(op="remove", path=found.path, size=None, reason=why)


def _without_hashes(value: Any) -> Any:
    """Write a JSON value without hashes of files: anybody could guess what was hashed."""
    if isinstance(value, list):
        return [_without_hashes(one) for one in value]
    if isinstance(value, Mapping):
        return {name: _without_hashes(one) for name, one in value.items() if name != "sha256"}
    return value


def naming_records(store: Store, values: NamedValues) -> Iterator[str]:
    """List the records that name one of the values, of changes under way too."""
    for one in operations.list_operations(store):
        with suppress(ChronotileError):
            try:
                document = operations.read_operation(store, one)
            except ChronotileError:
                is_named = values.are_in_bytes(store.read(one.path))
            else:
                is_named = values.redact(document) != document
            if is_named:
                yield one.path
