"""What a measured run does for its quality once its load is over: it asks the tasks, and scores the text.

The tasks go to the run's own server while it is up; the text is computed in a process of its own after the server is
gone, so that two models need not lie beside it. Neither is in the measured window; the run's time limit counts both.
What can't be measured is reported as such and fails no run: whether that matters is for its validity to say.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import aiohttp

from runners.agent.version import code_revision
from runners.execution.child import Child
from runners.execution.journal import Journal
from runners.execution.server import ReadyServer
from runners.quality.ask import NotAnswered, ask_all
from runners.quality.kept import KeptFigures
from runners.quality.tasks import questions
from runners.quality_figures import QualityFacts
from runners.spec import ModelRef, QualitySpec, RunSpec

TELL_EVERY_S = 1.0


class QualityPhase:
    """Of one run; `facts()` is what it found."""

    def __init__(self, spec: RunSpec, quality: QualitySpec, journal: Journal) -> None:
        self._spec, self._quality, self._journal = spec, quality, journal
        self._found: dict[str, Any] = {}
        self._missing: list[str] = []
        self._told_s = float("-inf")

    async def ask(self, ready: ReadyServer) -> None:
        """Asks the tasks' questions, those of the run's seed: trials of one repeat answer the same."""
        quality = self._quality
        if not quality.tasks:
            return
        if self._spec.model.random_weights:
            self._miss("tasks: a model of random weights has no words")
            return
        asked = questions(quality.tasks, self._spec.seed, quality.num_questions)
        self._journal.status("draining", detail=f"quality: {len(asked)} questions")
        try:
            results = await ask_all(ready.url, ready.model, asked, self._say_question)
        except* (NotAnswered, aiohttp.ClientError, TimeoutError) as errors:
            self._miss(f"tasks: {errors.exceptions[0]!r}")
        else:
            self._found["tasks"] = {task: result.model_dump(mode="json") for task, result in results.items()}

    async def score(self, model: Path | ModelRef, models_dir: Path) -> None:
        """Scores the text, or takes the figures that an equal run left on this node."""
        if self._quality.text is None:
            return
        if self._spec.engine.kind != "builtin":
            self._miss("text: it is scored with the built-in runtime's precisions, and this engine has its own")
            return
        if not isinstance(model, Path):
            self._miss("text: a model of random weights has no words")
            return
        config = self._config(model)
        key = {**config, "model_path": None, "model": self._spec.model.sha256}
        kept = KeptFigures(models_dir, key, code_revision())
        figures = kept.read()
        if figures is not None:
            self._found |= {**figures, "cached": True}
            return
        self._journal.status("draining", detail="quality: the text")
        figures = await self._compute(config)
        if figures is not None:
            self._found |= figures
            self._keep(kept, figures)

    def facts(self) -> dict[str, Any]:
        """The run's `quality`, as runners.quality_figures reads it."""
        return QualityFacts.model_validate(
            {**self._found, "not_measured": [why[:1000] for why in self._missing]}
        ).model_dump(mode="json")

    def _config(self, model: Path) -> dict[str, Any]:
        engine, quality = self._spec.engine, self._quality
        return {
            "model_path": str(model),
            "weights": engine.weights,
            "reference": quality.reference.weights,
            "kernels": engine.kernels,
            "threads": None if engine.threads == "auto" else engine.threads,
            "num_windows": quality.num_windows,
            "window_tokens": quality.window_tokens,
        }

    async def _compute(self, config: dict[str, Any]) -> dict[str, Any] | None:
        async with Child("quality", "runners.quality.score", [], self._journal, stdin=True) as child:
            child.write_line(json.dumps(config))
            while line := await child.read_line():
                message = json.loads(line)
                if message["type"] == "done":
                    return dict(message["quality"])
                self._say(message["detail"])
            self._miss(f"text: {await child.died()}")
        return None

    def _keep(self, kept: KeptFigures, figures: dict[str, Any]) -> None:
        try:
            kept.keep(figures)
        except OSError as error:
            self._journal.log("warning", "quality", f"the figures are not kept for later runs: {error}")

    def _miss(self, why: str) -> None:
        self._missing.append(why)
        self._journal.log("warning", "quality", f"not measured: {why}")

    def _say_question(self, done: int, total: int) -> None:
        self._say(f"quality: question {done} of {total}")

    def _say(self, detail: str) -> None:
        now_s = time.monotonic()
        if now_s - self._told_s >= TELL_EVERY_S:
            self._told_s = now_s
            self._journal.status("draining", detail=detail)
