"""The figures of models in some precision on a text, held against the same model at its reference precision.

KL divergence and top-1 agreement are exact: the models are computed here side by side, window by window, and compared
over the whole vocabulary; no log-probabilities are cut off or stored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import torch

from runners.quality.divergence import TokenScores, compare_logits, negative_log_likelihood
from runners.quality.forward import SLICE_ROWS, WindowModel
from runners.quality.summary import WindowScore
from runners.quality.windows import Window, cut_windows
from runners.runtime.tokenizer import Tokenizer

Progress = Callable[[int, int], object]


def read_windows(tokenizer: Tokenizer, text: str, num_windows: int, window_tokens: int) -> list[Window]:
    """The windows of a text in a model's own tokens. Raises TextTooShort."""
    first = tokenizer.encode("", add_special=True)
    return cut_windows(tokenizer.encode(text, add_special=False), num_windows, window_tokens, first)


def score_windows(
    reference: WindowModel,
    models: Sequence[WindowModel],
    windows: Sequence[Window],
    tokenizer: Tokenizer,
    progress: Progress = lambda done, total: None,
) -> list[list[WindowScore]]:
    """For each of `models` its scores by window; without any, those of the reference itself."""
    scores: list[list[WindowScore]] = [[] for _ in models or [reference]]
    with torch.inference_mode():
        for number, window in enumerate(windows):
            text_bytes = sum(len(tokenizer.token_bytes(token, skip_special=False)) for token in window.targets)
            for found, tokens in zip(scores, _score_window(reference, models, window), strict=True):
                found.append(_window_score(tokens, text_bytes))
            progress(number + 1, len(windows))
    return scores


def _score_window(reference: WindowModel, models: Sequence[WindowModel], window: Window) -> Iterator[list[TokenScores]]:
    """Of each model the scores slice by slice. The reference's hidden states are computed once."""
    targets = torch.split(torch.tensor(window.targets), SLICE_ROWS)
    held = reference.hidden(window)
    if not models:
        yield [_of_itself(logits, ids) for logits, ids in zip(reference.logits(held), targets, strict=True)]
    for model in models:
        pairs = zip(model.logits(model.hidden(window)), reference.logits(held), targets, strict=True)
        yield [compare_logits(ours, theirs, ids) for ours, theirs, ids in pairs]


def _of_itself(logits: torch.Tensor, targets: torch.Tensor) -> TokenScores:
    nll = negative_log_likelihood(logits, targets)
    return TokenScores(nll, nll, torch.zeros_like(nll), torch.ones(len(nll), dtype=torch.bool))


def _window_score(slices: Sequence[TokenScores], text_bytes: int) -> WindowScore:
    def mean(parts: list[torch.Tensor]) -> float:
        return float(torch.cat(parts).to(torch.float64).mean())

    return WindowScore(
        nll=mean([part.nll for part in slices]),
        reference_nll=mean([part.reference_nll for part in slices]),
        kl=mean([part.kl for part in slices]),
        same_top=mean([part.same_top for part in slices]),
        scored_tokens=sum(len(part.nll) for part in slices),
        scored_bytes=text_bytes,
    )
