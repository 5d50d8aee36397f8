"""A small conversation with the sample model: the answers it gave stand in the next prompts, and the cache has them."""

from __future__ import annotations

from collections.abc import Callable
from itertools import groupby, pairwise

import pytest
from test_execute import Run, spec, start

from runners.events import RequestRecord, Step
from runners.metrics import summarize
from runners.spec import RunSpec

__all__ = ["start"]

TURN_TOKENS, ANSWER_TOKENS, BLOCK = 24, 6, 8


@pytest.mark.usefixtures("sample_model")
def test_the_history_of_a_measured_conversation_comes_from_the_cache(start: Callable[..., Run]) -> None:
    document = spec()
    document["engine"] = {"threads": 1, "block_size": BLOCK, "scheduler": {"policy": "priority"}}
    document["workload"] |= {
        "kind": "conversation",
        "conversation": {
            "turns": {"dist": "fixed", "count": 3}, "think_time_s": {"dist": "fixed", "value_s": 0.05}
        },
        "classes": [{"name": "chat", "share": 0.5, "priority": -1}, {"name": "batch", "share": 0.5, "priority": 1}],
        "num_requests": 12,
        "warmup": {"num_requests": 3},
    }  # fmt: skip
    run = start(document)
    report = run.report()
    assert report.outcome == "succeeded", report
    records = sorted(run.of(RequestRecord), key=lambda record: record.index)
    assert len(records) == 15 and all(record.status == "ok" for record in records)
    for _, own in groupby(records, lambda record: record.session):
        turns = list(own)
        assert [turn.turn for turn in turns] == [1, 2, 3]
        for place, turn in enumerate(turns):
            assert turn.input_tokens == TURN_TOKENS + place * (TURN_TOKENS + ANSWER_TOKENS)
        for earlier, later in pairwise(turns):
            assert earlier.finished_s is not None and later.sent_s >= earlier.finished_s + 0.05
            # All of the earlier turn but the last token of its answer was computed, and full blocks are kept.
            known = (earlier.input_tokens or 0) + ANSWER_TOKENS - 1
            assert later.cached_tokens == known // BLOCK * BLOCK
    found = summarize(run.of(RequestRecord), run.of(Step), report, RunSpec.model_validate(document))
    assert found.metrics["sessions_ok"].value == 4 and (found.metrics["session_time"].value or 0) > 0.1
    assert "cache_contaminated" not in {reason.code for reason in found.reasons}
    assert sum(figures["requests_ok"].value or 0 for figures in found.classes.values()) == 12
