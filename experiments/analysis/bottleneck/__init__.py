"""What held a run up, argued from its data: evidence is gathered once, where the records are, and judged anywhere."""

from __future__ import annotations

from experiments.analysis.bottleneck.advice import suggest
from experiments.analysis.bottleneck.causes import CAUSES
from experiments.analysis.bottleneck.evidence import Evidence, gather
from experiments.analysis.bottleneck.verdict import Cause, Verdict, common_cause, judge

__all__ = ["CAUSES", "Cause", "Evidence", "Verdict", "common_cause", "gather", "judge", "suggest"]
