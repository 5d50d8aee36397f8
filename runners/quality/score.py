"""`python -m runners.quality.score`: scores a model on the shipped text, in a process of its own.

One JSON line on stdin says what to score (ScoreConfig). JSON lines on stdout: `progress` as windows are done, then
`done` with the figures. What can't be scored gives a line on stderr and status 2. It asks no server.
"""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path
from typing import Any

import torch
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from runners.load.text import shipped_text
from runners.quality.forward import Precision, WindowModel
from runners.quality.reference_types import describe_reference
from runners.quality.rescale import WIDEST
from runners.quality.summary import summarize_text
from runners.quality.text_score import read_windows, score_windows
from runners.quality_figures import Reference
from runners.runtime.kernels.selfcheck import Choice, Weights
from runners.runtime.quantize.int4 import GROUP
from runners.runtime.tokenizer import Tokenizer


class ScoreConfig(BaseModel):
    """Score `weights` of the model at `model_path` against `reference`, both with `kernels` on `threads`."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    model_path: Path
    weights: Weights
    reference: Weights = "bf16"
    kernels: Choice = "auto"
    threads: int | None = Field(default=None, ge=1)
    num_windows: int = Field(ge=2)
    window_tokens: int = Field(ge=2)


def main() -> int:
    try:
        config = ScoreConfig.model_validate_json(sys.stdin.buffer.readline())
        put({"type": "done", "quality": score(config)})
    except (ValidationError, ValueError, RuntimeError, OSError) as error:
        print(f"error: the text can't be scored: {error}", file=sys.stderr)
        return 2
    return 0


def score(config: ScoreConfig) -> dict[str, Any]:
    """The text's part of runners.quality_figures.QualityFacts, as JSON holds it.

    Where 4-bit weights are scored and the file is quantised itself, they are scored again off its grid.
    """
    if config.threads is not None:
        torch.set_num_threads(config.threads)
    tokenizer, text = Tokenizer.from_path(config.model_path), shipped_text()
    windows = read_windows(tokenizer, text, config.num_windows, config.window_tokens)
    reference = describe_reference(config.model_path, config.reference)
    precisions = _precisions(config, reference)
    with torch.inference_mode():
        ours = [WindowModel.load(config.model_path, one, config.window_tokens) for one in precisions]
        theirs = WindowModel.load(config.model_path, Precision(config.reference, config.kernels), config.window_tokens)
    scores = score_windows(theirs, ours, windows, tokenizer, _say)
    found = [summarize_text(one).model_dump(mode="json") for one in scores]
    return {
        "reference": reference.model_dump(mode="json"),
        "text": found[0],
        "rescaled": found[1] if len(found) > 1 else None,
        "method": _method(config, text, len(found) > 1),
    }


def _precisions(config: ScoreConfig, reference: Reference) -> list[Precision]:
    """What is computed beside the reference: nothing, where it is what the run serves."""
    if config.weights == config.reference:
        return []
    plain = Precision(config.weights, config.kernels)
    off_grid = config.weights == "int4" and reference.label is not None
    return [plain, Precision(config.weights, config.kernels, rescaled=True)] if off_grid else [plain]


def _method(config: ScoreConfig, text: str, rescaled: bool) -> dict[str, Any]:
    """How it was measured, for whoever reads the figures."""
    return {
        "text": "shipped",
        "text_sha256": hashlib.sha256(text.encode()).hexdigest(),
        "windows": config.num_windows,
        "window_tokens": config.window_tokens,
        "context_tokens": config.window_tokens // 2,
        "kl": "exact, over the whole vocabulary, both models computed",
        "int4_group": GROUP if config.weights == "int4" else None,
        "int4_grid": "asymmetric, nearest level, emulated in bf16" if config.weights == "int4" else None,
        "rescale_factor_up_to": WIDEST if rescaled else None,
        "torch": torch.__version__,
    }


def _say(done: int, total: int) -> None:
    put({"type": "progress", "detail": f"quality: window {done} of {total}"})


def put(line: dict[str, Any]) -> None:
    print(json.dumps(line), flush=True)


if __name__ == "__main__":
    raise SystemExit(main())
