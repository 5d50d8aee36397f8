"""Models that are a shape alone: their weights are drawn, the same for the same shape, and every logit is finite."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
import torch

from runners.runtime import torch_executor
from runners.runtime.engine import Engine
from runners.runtime.executor import ScheduledSequence
from runners.runtime.loading.random_weights import RandomWeights
from runners.runtime.loading.shape_config import UnsupportedShape
from runners.runtime.memory import ModelDoesNotFit
from runners.runtime.model_source import RandomModel
from runners.runtime.scheduler import SchedulerConfig
from runners.runtime.sequence import SamplingParams
from runners.runtime.tokenizer import TextError, Tokenizer
from runners.runtime.torch_executor import TorchExecutor
from runners.shapes import resolve
from runners.spec import ShapedModel

SMALL = {"layers": 2, "hidden_size": 64, "heads": 4, "kv_heads": 2, "vocab_size": 512, "max_model_len": 512}
MIXTURE = {**SMALL, "ffn": 48, "experts": 4, "experts_per_token": 2, "expert_ffn": 24, "expert_layers": 1}
WINDOWED = {**SMALL, "sliding_window": 16, "sliding_layers": 1}
DEEP = {**SMALL, "layers": 48}
UNALIGNED = {**SMALL, "hidden_size": 100, "heads": 5, "kv_heads": 1, "ffn": 77, "vocab_size": 301}


def model(**shape: Any) -> RandomModel:
    return RandomModel(resolve(ShapedModel.model_validate({"shape": shape})).shape)


def executor(source: RandomModel, weights: Any = "bf16") -> TorchExecutor:
    return torch_executor.build(source, weights=weights, block_size=16, num_blocks=32, threads=1)


def logits(source: RandomModel, weights: str = "bf16") -> torch.Tensor:
    prompt = tuple(token % source.shape["vocab_size"] for token in range(7, 7 + 96))
    share = ScheduledSequence("one", prompt, 0, tuple(range(6)), True, SamplingParams(max_tokens=1), 0)
    return executor(source, weights).logits((share,))


@pytest.mark.parametrize("weights", ["bf16", "int8"])
@pytest.mark.parametrize(
    "shape", [MIXTURE, WINDOWED, DEEP, UNALIGNED], ids=["mixture", "windowed", "deep", "unaligned"]
)
def test_no_logit_overflows_whatever_the_shape(shape: dict[str, Any], weights: str) -> None:
    found = logits(model(**shape), weights)
    assert found.shape == (1, shape["vocab_size"]) and torch.isfinite(found).all()
    assert 0.1 < float(found.std()) < 10


def test_equal_shapes_have_equal_weights_and_others_have_others() -> None:
    first, again, other = (RandomWeights(m.config(), m.seed) for m in (model(**SMALL), model(**SMALL), model(**DEEP)))
    assert torch.equal(first.layer(1).qkv, again.layer(1).qkv)
    assert torch.equal(first.embedding(), again.embedding())
    assert not torch.equal(first.layer(1).qkv, first.layer(0).qkv)
    assert not torch.equal(first.layer(0).qkv, other.layer(0).qkv)


def test_a_tied_head_is_the_embedding_and_another_is_not() -> None:
    tied, apart = (RandomWeights(m.config(), m.seed) for m in (model(**SMALL), model(**SMALL, tied_embeddings=False)))
    assert torch.equal(tied.head(), tied.embedding())
    assert not torch.equal(apart.head(), apart.embedding())


def test_a_matrix_has_a_variance_of_one_over_its_inputs() -> None:
    source = model(**{**SMALL, "hidden_size": 256})
    layer = RandomWeights(source.config(), source.seed).layer(0)
    assert float(layer.qkv.var()) == pytest.approx(1 / 256, rel=0.05)
    assert float(layer.ffn.down.var()) == pytest.approx(1 / source.shape["ffn"], rel=0.05)  # type: ignore[union-attr]


def test_what_is_generated_depends_on_the_shape_alone() -> None:
    def answer() -> list[int]:
        engine = Engine(executor(model(**SMALL)), SchedulerConfig())
        engine.add("one", tuple(range(40)), SamplingParams(max_tokens=6, min_tokens=6, ignore_eos=True))
        tokens = []
        while engine.has_work:
            output = engine.step()
            tokens += [token.token_id for token in output.tokens] if output else []
        return tokens

    first = answer()
    assert len(first) == 6 and answer() == first


def test_layers_with_experts_come_last_and_windows_are_spread_evenly() -> None:
    config = model(**{**SMALL, "layers": 6}, experts=4, experts_per_token=2, expert_ffn=8, expert_layers=4,
                   sliding_window=9, sliding_layers=3).config()  # fmt: skip
    assert [layer.experts for layer in config.layers] == [False, False, True, True, True, True]
    assert [layer.window for layer in config.layers] == [None, 9, None, 9, None, 9]


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"kv_latent_dim": 128}, r"shape.kv_latent_dim: latent attention \(MLA\) runs on modelled nodes only"),
        ({"attention_layers": 1}, "shape.attention_layers: a hybrid with recurrent layers"),
        ({"head_dim": 15}, "shape.head_dim: 15 can't be split into rotary pairs; allowed: an even number"),
    ],
)
def test_a_shape_without_a_decoder_is_refused_by_name(change: dict[str, Any], told: str) -> None:
    with pytest.raises(UnsupportedShape, match=told):
        executor(model(**SMALL, **change))


def test_a_mapping_that_is_no_shape_is_refused() -> None:
    with pytest.raises(UnsupportedShape, match="head_dim"):
        RandomModel.from_json('{"layers": 2}')
    with pytest.raises(ValueError, match="not list"):
        RandomModel.from_json("[1]")


def test_a_shape_larger_than_memory_is_refused_before_a_weight_is_drawn() -> None:
    with pytest.raises(ModelDoesNotFit, match=r"it needs .* bytes \(weights "):
        executor(RandomModel(resolve("llama-3-405b").shape))


def test_a_model_of_random_weights_travels_to_the_engine_process() -> None:
    source = model(**SMALL)
    assert pickle.loads(pickle.dumps(source)) == source
    assert RandomModel.from_json(source.to_json()).seed == source.seed == resolve(ShapedModel(shape=SMALL)).sha256  # type: ignore[arg-type]


def test_its_vocabulary_is_its_ids() -> None:
    tokenizer = Tokenizer.from_source(model(**SMALL))
    assert tokenizer.vocab_size == 512 and tokenizer.eos_ids == ()
    assert tokenizer.decode([7, 500, 0]) == "7 500 0" and tokenizer.token_text(3) == " 3"
    with pytest.raises(TextError, match="random weights has no words; give token ids"):
        tokenizer.encode("Hello")
    with pytest.raises(TextError):
        tokenizer.apply_chat_template([{"role": "user", "content": "Hello"}])
