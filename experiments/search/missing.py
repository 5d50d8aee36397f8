"""What a planner's step wants beyond the trials and runs that are there. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from experiments.search.seen import Settings, Step, TrialSeen, key_of


@dataclass(frozen=True)
class Missing:
    """One run that there should be; `trial` is the id of a trial that is there already."""

    settings: Settings
    trial: int | None
    repeat: int


def missing_runs(step: Step, trials: Sequence[TrialSeen]) -> list[Missing]:
    """What the step wants beyond what is there, repeat by repeat. Trials of the same settings each get their own."""
    by_key: defaultdict[str, list[TrialSeen]] = defaultdict(list)
    for trial in trials:
        by_key[key_of(trial.settings)].append(trial)
    most: dict[str, tuple[Settings, int]] = {}
    for wanted in step.wanted:
        key = key_of(wanted.settings)
        most[key] = (wanted.settings, max(wanted.runs, most.get(key, (wanted.settings, 0))[1]))
    found = []
    for key, (settings, runs) in most.items():
        matching: Sequence[TrialSeen | None] = by_key.get(key) or [None]
        for there in matching:
            have = len(there.runs) if there is not None else 0
            found += [Missing(settings, there.id if there else None, repeat) for repeat in range(have, runs)]
    return sorted(found, key=lambda one: one.repeat)
