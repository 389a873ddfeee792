"""The oracle: random histories, read by the engine and by the log, cell by cell.

In: a first seed and a number of windows. Out: `Figures`, with every difference. `make oracle`
runs this file: it prints the figures as text and as JSON, and fails if there is a difference.
"""

from __future__ import annotations

import argparse
import dataclasses
import itertools
import json
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from corpus.recipes.capi import EngineError
from support.histories import History, layered
from support.lifeline_views import lifeline_differences
from support.reference_cells import Raw, Reference, differences

import chronotile as ct

if TYPE_CHECKING:
    from chronotile.visibility.view import View


@dataclass(slots=True, kw_only=True)
class Figures:
    """What a run of the oracle came to."""

    first_seed: int
    windows: int = 0
    histories: int = 0
    dense_histories: int = 0
    states: int = 0
    cells: int = 0
    """Cells that the engine gave and that were compared."""
    left_out_f4: int = 0
    """Cells that were not, as they stand in a fragment that fault F4 misnamed."""
    left_out_f13: int = 0
    """Likewise, as it was consolidated from cells at one place and of one time."""
    either_f13: int = 0
    """Places where two cells were as new as each other, so that either may be found."""
    lifelines: int = 0
    """Lifelines held against views, each at every moment."""
    steps: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    """What the engine refused to do, or to read, and why."""
    differences: list[dict[str, Any]] = field(default_factory=list)
    seconds: float = 0.0

    def to_dict(self) -> dict[str, Any]:
        return {item.name: getattr(self, item.name) for item in dataclasses.fields(self)}

    def to_text(self) -> str:
        lines = []
        for name, value in self.to_dict().items():
            if isinstance(value, Counter):
                lines.append(f"{name.replace('_', ' ')}:")
                lines += [f"  {count:7}  {what}" for what, count in value.most_common()]
            elif isinstance(value, list):
                lines.append(f"{name}: {len(value)}")
                lines += [f"  {one}" for one in value[:20]]
            else:
                lines.append(f"{name.replace('_', ' ')}: {value}")
        return "\n".join(lines)


def run(first_seed: int, windows: int, scratch: Path) -> Figures:
    """Make histories until so many windows were compared."""
    figures = Figures(first_seed=first_seed)
    begun = time.monotonic()
    for seed in itertools.count(first_seed):
        if figures.windows >= windows:
            break
        live(seed, scratch / str(seed), figures)
    figures.seconds = round(time.monotonic() - begun, 1)
    return figures


def live(seed: int, folder: Path, figures: Figures) -> None:
    """One history, looked at on its way and at its end."""
    history = History(seed, folder)
    figures.histories += 1
    figures.dense_histories += history.dense
    lasts = history.chance.randint(4, 18)
    for number in range(1, lasts + 1):
        history.step()
        if number == lasts or history.chance.random() < 0.15:
            look(history, figures, windows=16 if number == lasts else 4)
    figures.steps += history.done
    figures.refused += history.refused
    history.remove()


def look(history: History, figures: Figures, windows: int) -> None:
    """Compare one state of a history at random windows."""
    log = ct.open_log(history.uri)
    figures.states += 1
    figures.lifelines += log.lifelines().num_rows
    for said in lifeline_differences(log):
        figures.differences.append({"seed": history.seed, "lifelines": said})
    reference = Reference([one.name for one in history.fields], history.rank)
    with history.reader() as reader:
        for start, end in history.windows(windows):
            figures.windows += 1
            view = log.view(start, end)
            try:
                reader.look(start, end)
                found = reader.rows(history.fields, dense=history.dense)
            except EngineError as error:
                figures.refused[f"read: {error}"] += 1
                if not any(history.held[one.name].is_torn for one in view.fragments):
                    figures.differences.append(told(history, view, "refused", str(error)))
                continue
            compare(history, view, found, reference, figures)


def compare(
    history: History, view: View, found: list[Raw], reference: Reference, figures: Figures
) -> None:
    """Hold what the engine gave at a window against what the view says."""
    rank = history.rank
    cells = {one.name: history.held[one.name].cells for one in view.fragments}
    torn = [name for name in cells if history.held[name].is_torn]
    misnamed = [name for name in cells if history.held[name].is_misnamed(name)]
    kept = found
    left_out: set[Raw] = set()
    for names, figure in ((misnamed, "left_out_f4"), (torn, "left_out_f13")):
        left_out |= {cell.raw[:rank] for name in names for cell in cells[name]}
        count = len(kept)
        kept = [raw for raw in kept if raw[:rank] not in left_out]
        setattr(figures, figure, getattr(figures, figure) + count - len(kept))
    figures.cells += len(kept)
    if history.duplicates:
        rows = reference.rows(view, cells)
        wanted = Counter({raw: n for raw, n in rows.items() if raw[:rank] not in left_out})
        if Counter(kept) != wanted:
            figures.differences.append(told(history, view, kept, wanted))
        return
    choices: dict[Raw, set[Raw | None]]
    if history.dense:
        choices = dict(dense_choices(history, view))
    else:
        choices = reference.choices(view, cells)
    choices = {at: some for at, some in choices.items() if at not in left_out}
    figures.either_f13 += sum(len(some) > 1 for some in choices.values())
    wrong = differences(kept, choices, rank)
    if wrong:
        have = [raw for raw in kept if raw[:rank] in wrong]
        want = {at: choices.get(at) for at in wrong}
        figures.differences.append(told(history, view, have, want))


def dense_choices(history: History, view: View) -> dict[Raw, set[Raw | None]]:
    """What may be found at each place of a dense array, untouched ones included."""
    layers = layered((one.t1, history.held[one.name].cells) for one in view.fragments)
    return {
        at: set(layers.get(at, ())) or {(*at, *history.fill[history.rank :])}
        for at in history.places()
    }


def told(history: History, view: View, found: object, wanted: object) -> dict[str, Any]:
    """A difference, with all that it takes to see it again."""
    return {
        "seed": history.seed,
        "window": (view.start, view.end),
        "found": str(found),
        "wanted": str(wanted),
        "visible": [one.name for one in view.fragments],
        "steps": history.steps,
    }


def main() -> int:
    """Run as a program."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--windows", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=1, help="of the first history")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        figures = run(asked.seed, asked.windows, Path(scratch))
    print(figures.to_text())
    print(json.dumps(figures.to_dict(), default=str))
    return 1 if figures.differences else 0


if __name__ == "__main__":
    sys.exit(main())
