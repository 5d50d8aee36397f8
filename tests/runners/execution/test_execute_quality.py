"""The quality phase of a run: after its load, in its report, kept for equal runs; a modelled run has none."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from test_execute import Run, modelled_spec, spec, start  # noqa: F401

from runners import models
from runners.events import RequestRecord, Status
from runners.execution import quality as phase_module
from runners.execution.journal import Journal
from runners.execution.quality import QualityPhase
from runners.execution.server import ReadyServer
from runners.metrics import summarize
from runners.quality.ask import NotAnswered, ask_all
from runners.quality.tasks import questions
from runners.quality_figures import QualityFacts, read_quality
from runners.spec import RunSpec
from runners.spool import SpoolWriter

SMALL = {
    "num_windows": 2, "window_tokens": 64, "tasks": ["arithmetic", "json_schema"], "num_questions": 2,
    "floor": {"perplexity_ratio": 1.001},
}  # fmt: skip


def test_a_measured_run_tells_its_quality_after_its_load(start: Any, sample_model: Path) -> None:  # noqa: F811
    run: Run = start(spec(quality=SMALL, engine={"threads": 2, "weights": "int4"}))
    report = run.report()
    assert report.outcome == "succeeded" and report.facts["emulated"] is True
    found = read_quality(report)
    assert found is not None and not found.not_measured
    assert found.text is not None and found.rescaled is not None and found.text.kl_divergence.value > 0
    assert {name: task.asked for name, task in found.tasks.items()} == {"arithmetic": 2, "json_schema": 2}
    details = [status.detail for status in run.of(Status)]
    assert any("4 questions" in detail for detail in details)
    first = next(place for place, detail in enumerate(details) if detail.startswith("quality"))
    assert [status.phase for status in run.of(Status)].index("done") < first
    assert report.window_end_s is not None


def test_a_modelled_run_says_that_quality_is_not_modelled(start: Any) -> None:  # noqa: F811
    report = start(modelled_spec(quality=SMALL), "--modelled").report()
    found = read_quality(report)
    assert found is not None and found.text is None and not found.tasks
    assert "measured on a chip" in found.not_measured[0]


def phase(tmp_path: Path, **changes: Any) -> QualityPhase:
    run = RunSpec.model_validate(spec(quality=SMALL, **changes))
    assert run.quality is not None
    return QualityPhase(run, run.quality, Journal(SpoolWriter(tmp_path / "1-1.jsonl")))


async def test_figures_of_an_equal_run_are_taken_and_said_to_be(
    tmp_path: Path, sample_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(phase_module, "code_revision", lambda: "abc")
    one, other = phase(tmp_path), phase(tmp_path)
    await one.score(sample_model, tmp_path)
    await other.score(sample_model, tmp_path)
    first, second = (QualityFacts.model_validate(each.facts()) for each in (one, other))
    assert (first.cached, second.cached) == (False, True) and first.text == second.text is not None


async def test_a_text_that_can_not_be_scored_is_told_with_why(tmp_path: Path) -> None:
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(b"no model")
    one = phase(tmp_path)
    await one.score(broken, tmp_path)
    (why,) = one.facts()["not_measured"]
    assert why.startswith("text: quality ended with status 2") and "broken.gguf" in why


@pytest.fixture
async def answering() -> AsyncIterator[Any]:
    """Starts servers that give each chat the same answer."""
    runners: list[web.AppRunner] = []

    async def start_server(body: Any, status: int = 200) -> str:
        async def answer(request: web.Request) -> web.Response:
            return web.json_response(body, status=status)

        app = web.Application()
        app.router.add_post("/v1/chat/completions", answer)
        runners.append(web.AppRunner(app))
        await runners[-1].setup()
        site = web.TCPSite(runners[-1], "127.0.0.1", 0)
        await site.start()
        return f"http://127.0.0.1:{runners[-1].addresses[0][1]}"

    yield start_server
    await asyncio.gather(*(runner.cleanup() for runner in runners))


def chat(content: Any) -> dict[str, Any]:
    return {"choices": [{"message": {"content": content}}]}


async def test_answers_are_counted_by_task(answering: Any) -> None:
    asked = questions(("arithmetic", "multiple_choice"), 3, 12)
    right = [q for q in asked if q.task == "multiple_choice" and q.expected == "A"]
    found = await ask_all(await answering(chat("A")), "m", asked, lambda done, total: None)
    assert (found["multiple_choice"].asked, found["multiple_choice"].correct) == (12, len(right)) and right
    assert found["arithmetic"].correct == 0 and found["arithmetic"].accuracy.value == 0


async def test_an_empty_answer_is_wrong_and_no_fault(answering: Any) -> None:
    found = await ask_all(await answering(chat(None)), "m", questions(("arithmetic",), 1, 3), lambda *_: None)
    assert found["arithmetic"].asked == 3


@pytest.mark.parametrize(("body", "status"), [({"error": "busy"}, 503), ([], 200), ({"choices": []}, 200)])
async def test_no_answer_is_no_wrong_answer(answering: Any, body: Any, status: int) -> None:
    with pytest.raises(ExceptionGroup) as caught:
        await ask_all(await answering(body, status), "m", questions(("arithmetic",), 1, 3), lambda *_: None)
    assert caught.group_contains(NotAnswered)


async def test_a_server_that_refuses_leaves_the_tasks_unmeasured(answering: Any, tmp_path: Path) -> None:
    one = phase(tmp_path)
    await one.ask(ReadyServer(await answering({"error": "busy"}, 503), "m", {}))
    assert "tasks" in one.facts()["not_measured"][0] and "503" in one.facts()["not_measured"][0]


async def test_a_model_of_random_weights_has_no_words_to_score(tmp_path: Path) -> None:
    entry = models.get("smollm2-135m-instruct")
    model = {"name": "a-shape", "sha256": "0", "shape": dict(entry.shape), "random_weights": True}
    one = phase(tmp_path, model=model)
    await one.ask(ReadyServer("http://127.0.0.1:9", "m", {}))
    await one.score(RunSpec.model_validate(spec(model=model)).model, tmp_path)
    assert [why.split(":")[0] for why in one.facts()["not_measured"]] == ["tasks", "text"]


def test_a_load_of_questions_says_of_each_whether_its_answer_was_right(start: Any, sample_model: Path) -> None:  # noqa: F811
    document = spec()
    document["workload"] |= {"kind": "tasks", "tasks": ["arithmetic", "multiple_choice"], "num_requests": 8}
    run: Run = start(document)
    report = run.report()
    assert report.outcome == "succeeded", report.error
    records = run.of(RequestRecord)
    assert len(records) == 10 and all(record.status == "ok" and record.correct is not None for record in records)
    useful = summarize(records, [], report, RunSpec.model_validate(document)).metrics["useful_answers"]
    assert useful.value == sum(bool(record.correct) for record in records if record.phase == "measured")


def test_a_cost_model_answers_no_questions(start: Any) -> None:  # noqa: F811
    document = modelled_spec()
    document["workload"] |= {"kind": "tasks"}
    report = start(document, "--modelled").report()
    assert report.outcome == "failed" and "measured node" in (report.error or "") and not report.retry
