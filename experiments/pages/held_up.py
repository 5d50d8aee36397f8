"""Of trials side by side: what each was held up by, and where its time to a first token went."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from experiments.bottlenecks import bottlenecks_by_trial
from experiments.figures.ttft import ttft_bar, ttft_figure
from experiments.selectors import TrialWithRuns

MOST_BARS = 40


def held_up_side_by_side(entries: Sequence[TrialWithRuns], trials: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """`held_up` in the order of `trials`, which have their labels; the bars are of the first MOST_BARS, over valid
    runs. Bars of equal labels would be drawn as one: they are numbered."""
    by_id = {entry.trial.pk: entry for entry in entries}
    found = bottlenecks_by_trial(entries)
    shown = trials[:MOST_BARS]
    labels = [trial["label"] for trial in shown]
    bars = [
        ttft_bar(
            trial["label"] if labels.count(trial["label"]) == 1 else f"{place}: {trial['label']}",
            bool(trial["modelled"]),
            [(one.run.summary or {}).get("ttft_parts") for one in by_id[trial["id"]].runs if one.run.valid],
        )
        for place, trial in enumerate(shown, 1)
    ]
    drawn = [bar for bar in bars if bar is not None]
    return {
        "held_up": [{"found": found.get(trial["id"]), "modelled": trial["modelled"]} for trial in trials],
        "any_held_up": bool(found),
        "ttft_parts": ttft_figure(drawn) if drawn else None,
        "ttft_bars": len(drawn),
    }
