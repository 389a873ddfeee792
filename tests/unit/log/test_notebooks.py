"""What a notebook and a prompt show of the objects that users hold."""

from __future__ import annotations

import pydoc
import sys
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import chronotile as ct
from chronotile.cli import sample
from chronotile.conditions.predicate_parser import at_place
from chronotile.show.notebook import table_html

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def array(tmp_path: Path) -> Path:
    return sample.unpack(tmp_path / "<b>lake").array


def test_a_plain_repr_tells_the_predicate(array: Path) -> None:
    view = ct.open_log(array).view()
    first = view.deletes[0]
    assert repr(first) == "<delete at 2024-05-03 17:30:00.000 UTC where `amount < 3.0`>"
    assert repr(view.updates[0]).startswith("<update at 2024-05-09 11:00:00.000 UTC where `id == 8")
    assert "`amount < 3.0`" in repr(view.deletes)
    assert "4 fragments, 2 deletes, 1 updates" in repr(view)
    report = ct.write_delete(array, "id == 3", dry_run=True)
    assert repr(report).endswith(": delete where id == 3>")
    assert "would remove" in repr(ct.vacuum(array, dry_run=True))


def test_a_notebook_shows_each_of_them(array: Path) -> None:
    log = ct.open_log(array)
    view = log.view()
    shown: dict[str, Any] = {
        "sparse": log,
        "region == &#x27;test&#x27; and amount &gt;= 50.0": view,
        "amount &lt; 3.0": view.deletes[0],
        "id == 81": view.updates[0],
        "and 11 more": ct.vacuum(array, dry_run=True),
    }
    for words, thing in shown.items():
        page = thing._repr_html_()
        assert words in page
        assert page.startswith("<table>")
        assert "<b>" not in page, "text from outside is escaped"


def test_an_array_and_a_group_show_themselves(tmp_path: Path) -> None:
    made = sample.unpack(tmp_path / "<b>lake")
    array = ct.open(made.array)
    assert isinstance(array, ct.Array)
    page = array._repr_html_()
    assert page.startswith("<table><caption>array at ")
    assert "<th>commits</th><td>9</td>" in page
    group = ct.open(made.dataset)
    assert isinstance(group, ct.Group)
    listed = group._repr_html_()
    assert listed.startswith("<table><caption>group at ")
    assert "<th>derived/daily</th><td>array</td>" in listed
    for text in (page, listed):
        assert "&lt;b&gt;lake" in text
        assert "<b>" not in text, "text from outside is escaped"


def test_findings_and_operations_show_themselves(array: Path) -> None:
    place = ct.open(array)
    place.tag("load", message="for <b>safety")
    findings: Any = place.check()
    assert findings == tuple(findings)
    assert f"{len(findings)} findings" in findings._repr_html_()
    assert "<th>what to do</th>" in findings._repr_html_()
    operations = place.operations()
    assert isinstance(operations, pa.Table)
    assert operations["command"].to_pylist() == ["tag"]
    page = table_html(operations)
    assert page is not None
    assert "for &lt;b&gt;safety" in page
    assert "<caption>1 operation</caption>" in page


def test_a_notebook_learns_the_form_of_our_tables(
    array: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """IPython keeps a function a type; one that a user gave is asked for all other tables."""
    printers: dict[type, Any] = {pa.Table: lambda table: f"{len(table)} rows of a user"}
    formatter = SimpleNamespace(type_printers=printers, for_type=printers.__setitem__)
    shell = SimpleNamespace(display_formatter=SimpleNamespace(formatters={"text/html": formatter}))
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
    for _ in range(2):
        operations = ct.open(array).operations()
    assert printers[pa.Table](operations).startswith("<table><caption>0 operations</caption>")
    assert printers[pa.Table](pa.table({"a": [1]})) == "1 rows of a user"


def test_a_wrong_path_is_one_line_without_frames(tmp_path: Path) -> None:
    """A notebook asks an error for what to show: IPython looks for this method."""
    with pytest.raises(ct.ChronotileError) as raised:
        ct.open(tmp_path / "nowhere")
    (line,) = raised.value._render_traceback_()
    assert line.endswith("nowhere: expected a folder, found nothing")
    assert "\n" not in line


def test_a_predicate_and_its_caret_have_lines_of_their_own() -> None:
    shown = at_place("a << 3", 3, "expected a value")._render_traceback_()
    assert shown == [
        "PredicateError: predicate, column 4: expected a value",
        "  a << 3",
        "     ^",
    ]


def test_help_begins_with_what_users_call() -> None:
    text = pydoc.plain(pydoc.render_doc(ct))
    called, rooms = text.index("ct.open(uri)"), text.index("only room that touches a disk")
    assert called < rooms
    assert text[:600].count("array.") >= 3
