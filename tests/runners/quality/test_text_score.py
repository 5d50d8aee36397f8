"""Scores of real models: of the sample model in each precision, of a corrupted one, and of one that is quantised."""

from __future__ import annotations

from pathlib import Path

import gguf
import pytest
import torch
from tiny_model import TinyModel, write_tiny_model

from runners.quality.forward import Precision, WindowModel
from runners.quality.reference_types import describe_reference
from runners.quality.score import ScoreConfig, score
from runners.quality.summary import summarize_text
from runners.quality.text_score import read_windows, score_windows
from runners.quality_figures import QualityFacts, TextQuality, floor_breaches
from runners.runtime.executor import ScheduledSequence
from runners.runtime.loading.weights import FileWeights, open_model
from runners.runtime.models.weights import GatedWeights, LayerWeights
from runners.runtime.sequence import SamplingParams
from runners.runtime.tokenizer import Tokenizer
from runners.runtime.torch_executor import build
from runners.spec import FloorSpec

SMALL = {"num_windows": 2, "window_tokens": 128, "threads": 2}
TINY = {"num_windows": 3, "window_tokens": 64, "threads": 2}


def facts(path: Path, weights: str, **sizes: int) -> QualityFacts:
    config = ScoreConfig.model_validate({"model_path": path, "weights": weights, **sizes})
    return QualityFacts.model_validate(score(config))


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_model(tmp_path_factory.mktemp("tiny") / "tiny.gguf", TinyModel(ffn_size=96))


def test_the_reference_agrees_with_itself_exactly(tiny: Path) -> None:
    found = facts(tiny, "bf16", **TINY)
    assert found.text is not None and found.rescaled is None
    assert found.text.perplexity_ratio.value == 1 and found.text.kl_divergence.value == 0
    assert found.text.top1_agreement.value == 1 and found.text.perplexity.value > 1
    assert found.text.scored_tokens == 3 * 32


def test_a_window_is_computed_as_the_engine_computes_a_prompt(tiny: Path) -> None:
    tokenizer = Tokenizer.from_path(tiny)
    (window, *_) = read_windows(tokenizer, "Down, down, down. " * 40, 2, 64)
    model, executor = WindowModel.load(tiny, Precision("bf16"), 64), build(tiny, num_blocks=4)
    with torch.inference_mode():
        rows = torch.cat(list(model.logits(model.hidden(window))))
    item = ScheduledSequence("text", window.token_ids[:-1], 0, (0, 1), True, SamplingParams(), 0)
    last = executor.logits((item,))[0]
    assert len(rows) == 32
    torch.testing.assert_close(rows[-1], last, rtol=0.02, atol=0.05)


def test_the_sample_model_in_int8_loses_a_few_percent_of_perplexity(sample_model: Path) -> None:
    found = facts(sample_model, "int8", **SMALL)
    text = found.text
    assert text is not None and found.reference is not None and found.reference.label == "Q4_1"
    assert 1.0 < text.perplexity_ratio.value < 1.15
    assert 0.005 < text.kl_divergence.value < 0.15 and 0.7 < text.top1_agreement.value < 0.99
    assert 5 < text.perplexity.value < 80 and 0.5 < text.bits_per_byte.value < 2


def test_4_bits_on_a_4_bit_file_are_scored_again_off_its_grid(sample_model: Path) -> None:
    found = facts(sample_model, "int4", **SMALL)
    assert found.text is not None and found.rescaled is not None
    assert found.rescaled.kl_divergence.value > 2 * found.text.kl_divergence.value
    assert found.rescaled.perplexity_ratio.value > found.text.perplexity_ratio.value
    assert found.method["rescale_factor_up_to"] == 1.25


def test_4_bits_of_an_unquantised_file_are_scored_once(tiny: Path) -> None:
    found = facts(tiny, "int4", **TINY)
    assert found.reference is not None and found.reference.label is None and found.rescaled is None
    assert found.text is not None and found.text.kl_divergence.value > 0


class Corrupted(FileWeights):
    """The last layer's feed-forward block ten times as strong."""

    def layer(self, index: int) -> LayerWeights:
        weights = super().layer(index)
        if index == len(self._config.layers) - 1 and isinstance(weights.ffn, GatedWeights):
            weights.ffn.down.mul_(10)
        return weights


def test_a_corrupted_model_falls_below_the_floor(tiny: Path) -> None:
    config, weights = open_model(tiny)
    assert isinstance(weights, FileWeights)
    reference = WindowModel.load(tiny, Precision("bf16"), 64)
    with torch.inference_mode():
        corrupted = WindowModel(config, Corrupted(weights._file, config, weights.layout), reference.kernels, 64)
    tokenizer = Tokenizer.from_path(tiny)
    windows = read_windows(tokenizer, "The rabbit-hole went straight on like a tunnel. " * 12, 3, 64)
    (scores,) = score_windows(reference, [corrupted], windows, tokenizer)
    text: TextQuality = summarize_text(scores)
    broken = {
        breach.name
        for breach in floor_breaches(QualityFacts(text=text), FloorSpec(kl_divergence=0.05, top1_agreement=0.9))
    }
    assert broken == {"kl_divergence", "top1_agreement"}


@pytest.mark.parametrize(
    ("kind", "label"), [("F32", None), ("F16", None), ("BF16", None), ("Q4_1", "Q4_1"), ("Q8_0", "Q8_0")]
)
def test_a_file_is_labelled_by_the_types_of_its_matrices(tmp_path: Path, kind: str, label: str | None) -> None:
    model = TinyModel(weight_type=gguf.GGMLQuantizationType[kind])
    reference = describe_reference(write_tiny_model(tmp_path / "model.gguf", model), "bf16")
    assert reference.label == label and set(reference.types) == {kind}
