"""The fast decoder of conditions is held to the generated parser, for any bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import condition_spec
from support.spec_files import corpus_files
from support.strategies import raw_conditions, update_lists

from chronotile.conditions import codec
from chronotile.errors import BadFileError
from chronotile.format import tiles

if TYPE_CHECKING:
    from collections.abc import Callable

    from chronotile.conditions.tree import Condition


def agree(payload: bytes, fast: Callable[[bytes], object], slow: Callable[[bytes], object]) -> None:
    """The same value, or both refuse."""
    try:
        expected = slow(payload)
    except BadFileError:
        with pytest.raises(BadFileError):
            fast(payload)
    else:
        assert fast(payload) == expected


def mutated(draw: st.DrawFn, data: bytes) -> bytes:
    """Bytes with a few of them changed, dropped or added."""
    out = bytearray(data)
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, max(len(out) - 1, 0)))
        match draw(st.sampled_from(["set", "cut", "drop", "add"])):
            case "set" if out:
                out[at] = draw(st.sampled_from([0, 1, 2, 3, 6, 7, 8, 127, 253, 254, 255]))
            case "cut":
                del out[at:]
            case "drop" if out:
                del out[at]
            case _:
                out[at:at] = draw(st.binary(max_size=9))
    return bytes(out)


@st.composite
def damaged_conditions(draw: st.DrawFn) -> bytes:
    return mutated(draw, codec.encode(draw(raw_conditions())))


@st.composite
def damaged_updates(draw: st.DrawFn) -> bytes:
    whole = codec.encode_update(draw(raw_conditions()), draw(update_lists()))
    return mutated(draw, whole)


@given(raw_conditions())
def test_whole_conditions(node: Condition) -> None:
    payload = codec.encode(node)
    assert codec.decode(payload) == node
    assert condition_spec.decode(payload) == node


@settings(max_examples=1000)
@given(damaged_conditions() | st.binary(max_size=64))
def test_damaged_conditions(payload: bytes) -> None:
    agree(payload, codec.decode, condition_spec.decode)


@settings(max_examples=500)
@given(damaged_updates() | st.binary(max_size=64))
def test_damaged_updates(payload: bytes) -> None:
    agree(payload, codec.decode_update, condition_spec.decode_update)


@pytest.mark.parametrize("extension", ["delete_commit", "update_commit"])
def test_the_corpus(extension: str) -> None:
    pairs = {
        "delete_commit": (codec.decode, condition_spec.decode),
        "update_commit": (codec.decode_update, condition_spec.decode_update),
    }
    fast, slow = pairs[extension]
    seen = 0
    for spec, path in corpus_files():
        if spec != extension:
            continue
        data = path.read_bytes()
        if data[29]:
            continue  # encrypted: the tests of tiles open those with their key
        payload = tiles.decode(data, path.name).payload
        assert fast(payload) == slow(payload)
        seen += 1
    assert seen > 0
