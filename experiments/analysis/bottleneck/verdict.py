"""From evidence to a verdict: each cause with the share of the requests' time that it accounts for, largest first.

A cause is named as the bottleneck where its share is NAMED at least. What time is put down to which cause is in
`shares`, the sentence behind each in `arguments`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from experiments.analysis.bottleneck.arguments import argue, percent
from experiments.analysis.bottleneck.causes import CAUSES, FEWEST, NAMED, TOLD
from experiments.analysis.bottleneck.evidence import Evidence
from experiments.analysis.bottleneck.shares import Shares


@dataclass(frozen=True)
class Cause:
    """`score` is its share of the requests' time; `says` the argument, with the figures and thresholds behind it."""

    kind: str
    score: float
    says: str
    figures: Mapping[str, float] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return CAUSES[self.kind]

    def as_json(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "name": self.name,
            "score": self.score,
            "says": self.says,
            "figures": dict(self.figures),
        }


@dataclass(frozen=True)
class Verdict:
    """`kind` is the bottleneck, None where no cause is large enough or the evidence does not do (`why_not`)."""

    kind: str | None
    causes: tuple[Cause, ...]
    why_not: str = ""
    requests: int = 0

    def as_json(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "name": CAUSES[self.kind] if self.kind else None,
            "why_not": self.why_not,
            "requests": self.requests,
            "threshold": NAMED,
            "causes": [cause.as_json() for cause in self.causes],
        }


def common_cause(verdicts: Iterable[Mapping[str, Any] | None]) -> dict[str, Any] | None:
    """What most runs of a trial were held up by, as `{"kind", "name", "runs", "of"}`, of runs with enough evidence.

    None where there is none, or where as many name another."""
    kinds = [verdict["kind"] for verdict in verdicts if verdict and (verdict["causes"] or verdict["kind"])]
    ranked = Counter(kinds).most_common(2)
    if not ranked or ranked[0][0] is None or (len(ranked) > 1 and ranked[1][1] == ranked[0][1]):
        return None
    kind, runs = ranked[0]
    return {"kind": kind, "name": CAUSES[kind], "runs": runs, "of": len(kinds)}


def judge(e: Evidence) -> Verdict:
    if why_not := _lacking(e):
        return Verdict(None, (), why_not, e.requests)
    shares = Shares(e)
    causes = [Cause(kind, score, *argue(kind, e)) for kind, score in shares.scores().items() if score >= TOLD]
    causes.sort(key=lambda cause: -cause.score)
    if not causes or causes[0].score < NAMED:
        largest = f"; the largest is {causes[0].name} with {percent(causes[0].score)}" if causes else ""
        why = f"no cause accounts for {percent(NAMED)} of the requests’ time{largest}"
        return Verdict(None, tuple(causes), why, e.requests)
    return Verdict(causes[0].kind, tuple(causes), requests=e.requests)


def _lacking(e: Evidence) -> str:
    if e.outcome != "succeeded":
        return f"the run {'was cancelled' if e.outcome == 'cancelled' else e.outcome}"
    if e.client.get("was_limit") and e.finished >= FEWEST:
        return ""
    if e.requests < FEWEST:
        where = "" if e.requests == e.finished else f" ({e.finished} finished, without the runtime’s own times)"
        return f"not enough evidence: {e.requests} finished requests with times of both ends{where}, {FEWEST} needed"
    if not e.steps.steps:
        return "not enough evidence: the engine told no steps"
    return "" if e.total_s > 0 else "not enough evidence: the requests took no time"
