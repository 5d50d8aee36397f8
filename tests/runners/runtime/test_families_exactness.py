"""Windows, soft-caps, head norms and experts keep exactness: greedy output is the same under any schedule."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from family_models import FAMILIES, VOCAB, build_reference, save_folder
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from limited_pool import LimitedPool
from plain_forward import Plain

from runners.runtime.engine import Engine, SchedulerConfig
from runners.runtime.executor import ScheduledSequence
from runners.runtime.sequence import SamplingParams
from runners.runtime.torch_executor import build

BLOCK_SIZE, NUM_TOKENS = 16, 6
EXAMPLES = settings(max_examples=6, deadline=None, suppress_health_check=list(HealthCheck))


CASES = [
    *((name, "bf16") for name in ("smollm3", "mistral", "mixtral", "qwen2", "qwen3-moe", "gemma2", "gemma3")),
    *((name, "int8") for name in ("mistral", "qwen3-moe", "gemma2")),
]


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("families")
    return {name: save_folder(build_reference(FAMILIES[name]), folder / name) for name in dict(CASES)}


@pytest.fixture(scope="module", params=CASES, ids=["-".join(case) for case in CASES])
def plain(request: pytest.FixtureRequest, folders: dict[str, Path]) -> Iterator[Plain]:
    name, weights = request.param
    plain = Plain(build(folders[name], weights=weights, block_size=BLOCK_SIZE, num_blocks=128, threads=2))
    yield plain
    print(plain.report())


texts = st.lists(st.integers(3, VOCAB - 1), min_size=1, max_size=80).map(tuple)


@EXAMPLES
@given(
    shared=texts,
    prompts=st.lists(texts, min_size=2, max_size=4),
    budget=st.integers(4, 120),
    num_seqs=st.integers(1, 4),
    num_blocks=st.integers(12, 24),
)
def test_any_schedule_gives_the_plain_tokens(
    plain: Plain, shared: tuple[int, ...], prompts: list[tuple[int, ...]], budget: int, num_seqs: int, num_blocks: int
) -> None:
    prompts = [shared + prompt for prompt in prompts]
    config = SchedulerConfig(
        max_num_seqs=num_seqs, max_num_batched_tokens=max(budget, num_seqs), prefix_cache=True, chunked_prefill=True
    )
    engine = Engine(LimitedPool(plain.executor, num_blocks), config)
    for index, prompt in enumerate(prompts):
        engine.add(str(index), prompt, SamplingParams(max_tokens=NUM_TOKENS, ignore_eos=True))
    outputs: dict[str, list[int]] = {str(index): [] for index in range(len(prompts))}
    while engine.has_work:
        step = engine.step()
        for token in step.tokens if step else ():
            outputs[token.request_id].append(token.token_id)
    for index, prompt in enumerate(prompts):
        plain.compare_tokens(prompt, outputs[str(index)])


def test_a_text_of_several_tiles_is_equal_to_the_bit_however_it_is_cut(plain: Plain) -> None:
    tokens = tuple(3 + (7 * i * i + 11 * i) % (VOCAB - 3) for i in range(620))
    table, other = tuple(range(40)), tuple(range(40, 80))
    start = 0
    for size in (500, 30, 1, 1, 57, 1):
        batch = [ScheduledSequence("long", tokens[start : start + size], start, table, True, SamplingParams(), 0)]
        batch.append(ScheduledSequence("other", tokens[: 20 + size], 0, other, True, SamplingParams(), 0))
        logits = plain.executor.logits(tuple(batch))
        start += size
        plain.compare_logits(logits[0], tokens[:start])
        plain.compare_logits(logits[1], tokens[: 20 + size])
