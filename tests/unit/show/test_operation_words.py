"""Operations in words: what each command is told as, whose commits are whose, and odd records."""

from __future__ import annotations

from typing import Any

import pytest

from chronotile.format.names import new_name
from chronotile.show.operation_words import OperationWords

TIME = "2024-05-12T10:00:00.000Z"
NAME = "__1_1_00112233445566778899aabbccddeeff_22"
RESTORED = "restored the array to 2024-05-10 00:00:00.000 UTC"
WHEN = "2024-05-12 10:00:00.000 UTC"


def record(command: str, **more: Any) -> dict[str, Any]:
    """One operation, as `tell_operations` gives it."""
    lists: dict[str, Any] = {name: [] for name in ("put", "hidden", "removed", "added")}
    head = {"id": "1f3a9c02", "time": TIME, "command": command, "state": "done", "rows": {}}
    nobody = dict.fromkeys(("author", "message", "undoes", "group"))
    return head | nobody | lists | {"options": {}} | more


@pytest.mark.parametrize(
    ("one", "words"),
    [
        (
            record(
                "restore",
                options={"to": 1715299200000},
                rows={"rewritten": 105},
                hidden=["a", "b", "c", "d"],
                author="AUTHOR",
                message="bad load",
            ),
            f'{RESTORED}: 105 rows rewritten, 4 fragments hidden; by AUTHOR: "bad load"',
        ),
        (record("restore", options={"to": "before-load"}), "restored the array to 'before-load'"),
        (
            record("undelete", options={"name": NAME}, put=[f"__fragments/{NAME}"], author="ann"),
            "brought back the rows of 00112233: 1 fragment put; by ann",
        ),
        (
            record("delete", options={"where": "a < 3"}, rows={"deleted": 1}),
            "deleted rows where `a < 3`: 1 row deleted",
        ),
        (
            record("update", options={"where": "a < 3", "values": {"a": 7}}, message="why not"),
            'set a = 7 in rows where `a < 3`; "why not"',
        ),
        (record("consolidate", options={"mode": "commits"}), "put the commits into one file"),
        (
            record("vacuum", removed=["x", "y"]),
            "vacuumed: 2 files removed",
        ),
        (record("publish", options={"staging": ["s3://a/b"]}), "published s3://a/b"),
        (record("tag", options={"name": "good"}), "set the tag 'good'"),
        (record("untag", options={"name": "good"}), "removed the tag 'good'"),
        (record("undo", undoes="00000000"), "ran undo"),
        (record("unheard-of"), "ran unheard-of"),
    ],
)
def test_words(one: dict[str, Any], words: str) -> None:
    (event,) = OperationWords([one]).events()
    assert event.text == words
    assert event.is_operation
    assert (event.kind, event.t2) == (one["command"], 1715508000000)


def test_an_undo_names_what_it_takes_back() -> None:
    done = record("restore", state="undone", author="ann", message="bad load")
    undo = record("undo", id="2b2b2b2b", undoes="1f3a9c02")
    known = OperationWords([undo, done], noun="group")
    last, first = known.events()
    assert last.text == f"undid the restore of {WHEN}, operation 1f3a9c02"
    assert (first.status, first.because) == ("undone", "2b2b2b2b")
    assert first.text.startswith("restored the group to ")
    assert known.events(undone=False) == []
    assert (
        known.phrase("1f3a9c02")
        == f'the restore of {WHEN} (operation 1f3a9c02; by ann: "bad load")'
    )


def test_what_an_erasure_makes_final_is_undone_all_the_same() -> None:
    done = record("compact", state="final", removed=["x"])
    undo = record("undo", id="2b2b2b2b", undoes="1f3a9c02", state="final")
    last, first = OperationWords([undo, done]).events()
    assert (first.status, first.because) == ("undone", "2b2b2b2b")
    assert (last.status, last.because) == ("final", None)
    assert first.text == "merged small fragments: 1 file moved to the quarantine"


def test_copies_name_both_places() -> None:
    places = {"source": "a", "target": "b"}
    both = [record(name, options=places) for name in ("clone", "replicate")]
    words = [event.text for event in OperationWords(both).events()]
    assert words == ["cloned a to b", "replicated a to b"]


def test_a_clone_tells_its_window() -> None:
    name = "__20_20_00112233445566778899aabbccddeeff_22"
    window = {"end": 1_714_780_800_000, "without": [name]}
    done = record("clone", options={"source": "a", "target": "b", **window})
    (event,) = OperationWords([done]).events()
    assert event.text == "cloned a to b, as of 2024-05-04 00:00:00.000 UTC, without 00112233"


def test_an_undo_of_an_undo_leaves_the_first_change() -> None:
    done = record("delete")
    undo = record("undo", id="2b2b2b2b", undoes="1f3a9c02", state="undone")
    again = record("undo", id="3c3c3c3c", undoes="2b2b2b2b")
    events = OperationWords([again, undo, done]).events(undone=False)
    assert [event.name for event in events] == ["1f3a9c02"]


def test_the_first_operation_that_put_a_file_owns_it() -> None:
    name, other = new_name(5, 5, 22), new_name(6, 6, 22)
    first = record("restore", put=[f"__commits/{name}.vac"], added=[f"__commits/{other}.del"])
    later = record("apply", id="2b2b2b2b", put=[f"__commits/{name}.vac", "__commits/odd.vac"])
    undo = record("undo", id="3c3c3c3c", put=[f"__fragments/{new_name(7, 7, 22)}"])
    assert OperationWords([undo, later, first]).of_name == {
        f"{name}.vac": "1f3a9c02",
        other: "1f3a9c02",
    }


@pytest.mark.parametrize("odd", [None, 7, [], ["a"], {"a": []}, "text", -1])
def test_odd_records_are_told_all_the_same(odd: Any) -> None:
    commands = ("restore", "update", "delete", "publish", "undelete", "tag", "undo", "consolidate")
    for command in commands:
        names = ("to", "where", "values", "staging", "name", "mode")
        for options in (odd, dict.fromkeys(names, odd)):
            one = record(command, options=options, rows=odd, author=odd, message=odd, undoes=odd)
            known = OperationWords([one])
            assert known.events()[0].text
            assert known.events(undone=False)
            assert known.phrase("1f3a9c02")


def test_rows_that_an_apply_wrote_are_its_own() -> None:
    update = record("update", id="00000001", put=[f"__commits/{NAME}.upd"])
    apply = record("apply", id="00000002", put=[f"__fragments/{NAME}", f"__commits/{NAME}.wrt"])
    undo = record("undo", id="00000003", undoes="00000002")
    assert OperationWords([update]).of_name == {NAME: "00000001"}
    assert OperationWords([apply, update]).of_name == {NAME: "00000002"}
    undone = apply | {"state": "undone"}
    assert OperationWords([undo, undone, update]).of_name == {NAME: "00000001"}
