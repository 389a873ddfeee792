"""Why an object is not visible, in a sentence, and what to do about it.

In: explanations of one view. Out: `Advice`: groups of objects that share a reason, the reason in
words, and the next step. Takes no step itself.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from chronotile.check.commit_files import damage
from chronotile.check.findings import CODES, KEEP_OR_DROP, TAKEN_OUT, left_out
from chronotile.check.fragments_and_commits import COMMIT_IT, lone_vacuums
from chronotile.format.names import MAX_TIMESTAMP, try_parse
from chronotile.format.timestamps import span_text, time_text
from chronotile.safe_text import shell_word
from chronotile.show.operation_words import OperationWords, name_in
from chronotile.visibility.rules import first_end, is_seen, side
from chronotile.visibility.view import View, whole_copy

if TYPE_CHECKING:
    from collections.abc import Iterable

    from chronotile.history.read_history import History
    from chronotile.visibility.explanation import Explanation


MANY = 4
"""From this many files with the same reason on, report one group."""
MANY_FILES = "(many files)"
_KEPT = "nothing, if that was meant; __chronotile/quarantine/{} has the files"
"""The advice on a fragment whose files an operation moved away."""
NO_KEY = (
    "The array is encrypted, and no key was given: --key-file FILE opens schema and conditions."
)


class Advice(NamedTuple):
    """Objects that share a reason."""

    kind: str
    status: str
    state: str
    """The status in words."""
    reason: str
    because: str | None
    names: tuple[str, ...]
    why: str
    """The reason, in a sentence."""
    todo: str
    """What to do about it; empty if there is nothing to do."""


def advise(
    explained: Iterable[Explanation], view: View, operations: OperationWords | None = None
) -> tuple[Advice, ...]:
    """Group explanations of a view by their reason, in the order in which they come."""
    known = operations or OperationWords()
    groups: Groups = defaultdict(list)
    lone, there = lone_vacuums(view.rules), view.history.listing.fragment_paths()
    replaced = _hidden_anyway(view)
    for item in explained:
        where = _side(item, view)
        if where and item.row in replaced:
            where += f" {replaced[item.row]}"
        if item.kind == "fragment" and item.reason == "uncommitted" and item.name in lone:
            where = f"/{item.name}"
        elif item.reason == "uncommitted" and item.name in known.repaired:
            where = f"/{known.repaired[item.name]}"
        elif item.kind == "fragment" and item.reason == "ignored" and item.name not in there:
            where = "/gone"
        because = item.because if item.status == "hidden" else None
        groups[item.kind, item.status, f"{item.reason}{where}", because].append(item)
    advice = []
    for (kind, status, sided, because), items in _gathered(groups).items():
        reason, _, where = sided.partition("/")
        id_ = known.of_name.get(name_in(because or ""))
        if reason == "uncommitted" and where in known.repaired.values():
            id_ = where
        by = None if id_ is None else f"by {known.phrase(id_)}"
        why, todo = _words(kind, reason, where, because, items, view, by)
        names = tuple(item.name for item in items)
        if reason == "missing" or sided == "ignored/gone":
            todo = next(
                (_KEPT.format(known.quarantined[n]) for n in names if n in known.quarantined), todo
            )
        if status == "visible" and len(names) == 1:
            why = known.undeleted.get(names[0], why)
        state = _state(kind, status, sided)
        advice.append(Advice(kind, status, state, reason, because, names, why, todo))
    return tuple(advice)


def _state(kind: str, status: str, sided: str) -> str:
    """Put the status of objects in words."""
    match kind, sided:
        case _, "ignored/gone":
            return "removed"
        case "consolidated" | "ignore", "unreadable":
            return "damaged"  # the rest of its entries counts
        case _, "unreadable":
            return "cannot be read"
        case "schema", "superseded":
            return "replaced"
        case "delete" | "update", "in-window":
            return "in force"
        case "update", "in-window/unseen":
            return "not seen by TileDB"
    return f"{status}, {sided.partition('/')[0]}"


Groups: TypeAlias = "dict[tuple[str, str, str, str | None], list[Explanation]]"


def _gathered(groups: Groups) -> Groups:
    """Merge groups of many files with the same reason."""
    counts = Counter(key[:3] for key in groups)
    merged: Groups = defaultdict(list)
    for (kind, status, sided, because), items in groups.items():
        decider = because if counts[kind, status, sided] < MANY else MANY_FILES
        merged[kind, status, sided, decider] += items
    return merged


def _hidden_anyway(view: View) -> dict[int, str]:
    """Map the rows of fragments that stay hidden in a wider window to the `.vac` that hides them.

    The wider window has as much more as holds the fragment.
    """
    hidden: dict[int, str] = {}
    uris = view.history.table.uris
    for vacuum, listed in zip(view.history.vacuums, view.rules.vacuumed, strict=True):
        for row in view.rules.fragment_rows[listed].tolist():
            start, end = min(view.start, int(uris.t1[row])), max(view.end, int(uris.t2[row]))
            if is_seen(vacuum.name, start, end, dense=view.history.dense):
                hidden.setdefault(row, vacuum.path)
    return hidden


def _side(item: Explanation, view: View) -> str:
    if item.reason == "in-window" and item.kind == "update" and item.because is not None:
        return "/unseen"  # it is inside a .con
    if item.reason != "outside-window" or item.t1 is None or item.t2 is None:
        return ""
    return f"/{side(item.t1, item.t2, view.start, view.end)}"


def _words(
    kind: str,
    reason: str,
    side: str,
    because: str | None,
    items: list[Explanation],
    view: View,
    by: str | None,
) -> tuple[str, str]:
    plural = len(items) > 1
    be, it, its = ("are", "them", "their") if plural else ("is", "it", "its")
    array = shell_word(view.history.array)
    match reason:
        case "in-window" if side:
            why = f"inside a .con, where TileDB does not look for updates: {it} hides no row"
            if plural:
                why = why.replace(f"{it} hides", "they hide")
            rows = f"chronotile apply {array}"
            return why, f"to write the rows with the new values: {rows}"
        case "in-window" if kind in ("delete", "update") and not plural:
            removed = f"chronotile rows {array} --removed-by {items[0].name}"
            return "in force: committed, and inside the window", f"to see its rows: {removed}"
        case "in-window":
            return "committed, and inside the window", ""
        case "overlaps-window":
            why = "partly inside the window: only the cells of that time are read"
            return why, "widen the window to read the rest"
        case "outside-window":
            return _outside(kind, side, items, view)
        case "superseded" if kind == "schema":
            return "a later schema is in force", "nothing: older fragments may need this one"
        case "superseded":
            first = min((item.t2 for item in items if item.t2 is not None), default=0)
            return _superseded(because or "", it, its, view, by, first)
        case "ignored":
            decider = "several .ign files take" if because == MANY_FILES else f"{because} takes"
            out = f"{decider} {its} {'commits' if plural else 'commit'} out of use"
            if by is not None:
                todo = f"to see what brings {it} back: chronotile check {array}"
                todo = todo if by.startswith("by the repair ") and side != "gone" else ""
                return f"{'removed' if side == 'gone' else 'hidden'} {by}: {out}", todo
            gone = "files are gone" if side == "gone" else "removal was broken off"
            why = f"{its} {gone}: {out}"
            if merged := _merged_from(items, view):
                from_ = "was merged from fragments of that time"
                return why, f"nothing: {merged} {from_}"
            if side != "gone":
                return why, f"nothing, if that was meant; to see more: chronotile check {array}"
            return why, "nothing, if that was meant; only a backup has the files"
        case "uncommitted" if by is not None:
            look = f"chronotile check {array}"
            return f"{its} commit was taken out {by}", f"to see what brings {it} back: {look}"
        case "uncommitted" if side:
            return lone_vacuums(view.rules)[side].words, COMMIT_IT.format(array=array)
        case "uncommitted" if kind == "fragment":
            what = "these fragments: their writes are" if plural else "this fragment: its write is"
            they, were = ("they", "their commits were") if plural else ("it", "its commit was")
            why = f"no commit names {what} still running, {they} failed, or {were} lost"
            todo = KEEP_OR_DROP.format(array=array)
            return why, todo.replace(" its ", " their ") if plural else todo
        case "uncommitted":
            return f"TileDB ignores {it}", ""
        case "missing" if not _stops_an_open(items, view):
            why = f"{its} folder is gone, but {its} .ok is there: TileDB passes over {it}"
            return why, "nothing, if the fragment was removed on purpose"
        case "missing":
            engine = "TileDB cannot open the array"
            why = f"{its} folder is gone, but {its} commit is there: {engine}"
            return why, CODES["commit-without-fragment"][1].format(array=array)
        case "unreadable" if lacks_key(view.history):
            return f"{be} encrypted, and no key was given", "give --key-file"
        case "unreadable":
            if kind in ("delete", "update"):
                source = items[0].because
                copies = [whole_copy(view.history, one.name, source) for one in items if source]
                is_lost = None in copies
                words = left_out(None if is_lost else copies[0]) if source else TAKEN_OUT
                return f"{its} condition cannot be read", words.format(array=array)
            path = items[0].path
            for item in damage(view.history):
                if item.path == path:
                    return item.message, item.hint
            return f"{be} damaged", CODES["tile-corrupt"][1].format(array=array)
    return reason, ""


def _merged_from(items: list[Explanation], view: View) -> str | None:
    """Name a fragment that was merged from others of the times of some fragments."""
    times = [(one.t1, one.t2) for one in items if one.t1 is not None and one.t2 is not None]
    for fragment in (*view.fragments, *View(view.rules, 0, MAX_TIMESTAMP).fragments):
        covers = all(fragment.t1 <= t1 and t2 <= fragment.t2 for t1, t2 in times)
        if covers and fragment.t1 < fragment.t2:
            return f"{fragment.name}{', which is visible,' if fragment in view.fragments else ''}"
    return None


def _superseded(
    because: str, it: str, its: str, view: View, by: str | None, first: int
) -> tuple[str, str]:
    if because == MANY_FILES:
        why = f"several .vac files list {it}: other fragments replace {it}"
        return why, "nothing, if those are visible; --json names the file behind each"
    vacuum = next((one for one in view.history.vacuums if one.path == because), None)
    if vacuum is None:
        return f"{because} lists {it}: a later file holds all of its content", ""
    name, text = vacuum.name, vacuum.name.text
    if all(one is not None and one.t2 < name.t1 for one in map(try_parse, vacuum.targets)):
        moment = first_end(name, dense=view.history.dense)
        alone = "which has no fragment of its own (a restore writes such a file)"
        why = f"hidden {by}" if by else f"{because}, {alone}, hides {it}"
        why += f" from {time_text(moment)} ({moment}) on"
        rows = f"chronotile rows {shell_word(view.history.array)} --end {moment - 1}"
        before = f"to see {it}, until TileDB vacuums: {rows}"
        if by and by.startswith("by the undelete "):
            return why, f"nothing: the rows show again in new fragments; {before}"
        return why, before
    hidden = any(text in one.targets for one in view.history.vacuums if one.path != because)
    if hidden and all(fragment.name != text for fragment in view.fragments):
        return f"{because} lists {it}: {its} cells are in {text}, which is hidden too", ""
    if all(fragment.name != text for fragment in view.fragments):
        why = f"{because} lists {it}, but {text}, which should replace {it}, is not visible"
        return why, f"to see what is wrong: chronotile check {shell_word(view.history.array)}"
    why = f"{because} lists {it}: {its} cells are in {text}, which is visible"
    if not view.history.dense:
        return why, "nothing: every cell can still be read, at every time"
    moment = first_end(name, dense=True)
    if first >= moment:
        return why, "nothing is lost"
    end = f"{time_text(moment)} ({moment})"
    return why, f"nothing is lost; an --end before {end} sees {it} apart, until a vacuum"


def lacks_key(history: History) -> bool:
    """Return True if an array is encrypted, and no key is at hand."""
    return history.key is None and any(p.kind == "encrypted" for p in history.problems)


def _stops_an_open(items: list[Explanation], view: View) -> bool:
    """Return True if the engine looks for one of some fragments."""
    rules, table = view.rules, view.history.table
    passed_over = {table.name(row) for row in rules.ok_without_folder.tolist()}
    return any(item.name not in passed_over for item in items)


def _outside(kind: str, side: str, items: list[Explanation], view: View) -> tuple[str, str]:
    first = min(item.t1 for item in items if item.t1 is not None)
    last = max(item.t2 for item in items if item.t2 is not None)
    verb = {"delete": "made", "update": "made", "fragment": "written"}.get(kind, "dated")
    times, (side, _, hider) = span_text(first, last), side.partition(" ")
    if side == "after":
        why, window = f"{verb} {times}, after the window ends", f"--end {last}"
    elif side == "before":
        why, window = f"{verb} {times}, before the window starts", f"--start {first}"
    else:
        whole = "it must lie inside the window as a whole"
        why = f"{verb} {times}, across an edge of the window: {whole}"
        window = f"--start {min(first, view.start)} --end {max(last, view.end)}"
    if kind == "vacuum":
        return why, "nothing: it hides no fragment in this window"
    if not hider:
        return why, f"open with {window}"
    its, were = ("their", "them") if len(items) > 1 else ("its", "it")
    name = name_in(hider).removesuffix(".vac")
    if any(view.history.table.name(row) == name for row in view.rules.fragment_rows.tolist()):
        return why, f"open with {window}: {its} cells are in {name}, which replaces {were}"
    return why, f"nothing: {hider} hides {were} in a wider window too"
