"""Every family's logits against transformers, through chunks, decode and the paged cache, from both kinds of file."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gguf
import pytest
import torch
from family_models import FAMILIES, ONLY_HF, VOCAB, build_reference, save_folder, write_gguf
from float32_parts import build_float32
from safetensors.torch import load_file, save_file

from runners.runtime.executor import ScheduledSequence
from runners.runtime.sequence import SamplingParams
from runners.runtime.torch_executor import TorchExecutor, build

PIECES = (70, 1, 1, 30, 300, 1, 130, 1, 1, 75, 1)
"""How the text is cut: longer than the window many times over, and than a tile of keys."""
TEXT = tuple(1 + (7 * i * i + 11 * i) % (VOCAB - 1) for i in range(sum(PIECES)))
BLOCK_SIZE = 16
TABLE = tuple(range(3, 3 + -(-len(TEXT) // BLOCK_SIZE)))
ENDS = [sum(PIECES[: count + 1]) - 1 for count in range(len(PIECES))]

TIGHT, BF16, BF16_EXPERTS, INT8 = 2e-5, 0.03, 0.12, 0.09
"""Mean error over the logits' spread: of float32 sums in another order (measured: 2e-6), of bf16 rounding in every
operation (0.009), where rounding may send a token to another expert (0.04), and of 8 bits (0.03)."""

Saved = dict[str, tuple[Path, torch.Tensor]]


@pytest.fixture(autouse=True)
def float32_products() -> Iterator[None]:
    """As it was before the test, whatever an executor set."""
    before = torch.backends.mkldnn.matmul.fp32_precision
    yield
    torch.backends.mkldnn.matmul.fp32_precision = before


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Saved:
    """Folder and reference logits of each family, made when asked for."""
    folder = tmp_path_factory.mktemp("families")

    class Made(dict[str, Any]):
        def __missing__(self, name: str) -> tuple[Path, torch.Tensor]:
            model = build_reference((FAMILIES | ONLY_HF)[name])
            with torch.inference_mode():
                logits = model(torch.tensor([TEXT])).logits[0][ENDS]
            self[name] = save_folder(model, folder / name), logits
            return self[name]

    return Made()


def piecewise_logits(executor: TorchExecutor) -> torch.Tensor:
    rows, start = [], 0
    for size in PIECES:
        tokens = TEXT[start : start + size]
        item = ScheduledSequence("a", tokens, start, TABLE, True, SamplingParams(), 0)
        rows.append(executor.logits((item,))[0])
        start += size
    return torch.stack(rows)


def mean_error(logits: torch.Tensor, expected: torch.Tensor) -> float:
    error = float((logits - expected).abs().mean() / expected.std())
    print(f"mean error over spread {error:.2g}, spread {expected.std():.2g}")
    return error


@pytest.mark.parametrize("name", [*FAMILIES, *ONLY_HF])
def test_logits_match_transformers_in_float32(saved: Saved, name: str) -> None:
    folder, expected = saved[name]
    executor = build_float32(folder, num_blocks=64, block_size=BLOCK_SIZE)
    assert mean_error(piecewise_logits(executor), expected) < TIGHT


@pytest.mark.parametrize("name", FAMILIES)
def test_a_gguf_file_gives_the_logits_of_the_folder(saved: Saved, name: str, tmp_path: Path) -> None:
    folder, expected = saved[name]
    path = write_gguf(FAMILIES[name], folder, tmp_path / "model.gguf")
    executor = build_float32(path, num_blocks=64, block_size=BLOCK_SIZE)
    assert mean_error(piecewise_logits(executor), expected) < TIGHT


@pytest.mark.parametrize("name", FAMILIES)
def test_bf16_logits_are_near(saved: Saved, name: str) -> None:
    folder, expected = saved[name]
    executor = build(folder, weights="bf16", num_blocks=64, block_size=BLOCK_SIZE, threads=1)
    assert mean_error(piecewise_logits(executor), expected) < (BF16_EXPERTS if executor.config.experts else BF16)


@pytest.mark.parametrize("name", ["qwen2", "mistral", "gemma2", "gemma3"])
def test_int8_logits_are_not_far(saved: Saved, name: str) -> None:
    folder, expected = saved[name]
    executor = build(folder, weights="int8", num_blocks=64, block_size=BLOCK_SIZE, threads=1)
    assert mean_error(piecewise_logits(executor), expected) < INT8


def test_experts_in_blocks_of_a_quantised_type_run_as_their_values(saved: Saved, tmp_path: Path) -> None:
    folder, expected = saved["mixtral"]
    kind = gguf.GGMLQuantizationType.Q8_0
    path = write_gguf(FAMILIES["mixtral"], folder, tmp_path / "model.gguf", kind)
    logits = piecewise_logits(build_float32(path, num_blocks=64, block_size=BLOCK_SIZE))
    assert TIGHT < mean_error(logits, expected) < BF16_EXPERTS


@pytest.mark.parametrize("prefix", ["language_model.model.", "model.language_model."])
def test_the_text_part_of_a_model_that_also_takes_images_runs_alone(saved: Saved, tmp_path: Path, prefix: str) -> None:
    folder, expected = saved["gemma3"]
    text = json.loads((folder / "config.json").read_text())
    config = {
        "model_type": "gemma3",
        "text_config": text,
        "vision_config": {"hidden_size": 16},
        "image_token_index": 90,
    }
    (tmp_path / "config.json").write_text(json.dumps(config))
    state = {
        prefix + name.removeprefix("model."): each for name, each in load_file(folder / "model.safetensors").items()
    }
    save_file(state | {"vision_tower.patch.weight": torch.zeros(2, 2)}, tmp_path / "model.safetensors")
    executor = build_float32(tmp_path, num_blocks=64, block_size=BLOCK_SIZE)
    assert mean_error(piecewise_logits(executor), expected) < TIGHT
