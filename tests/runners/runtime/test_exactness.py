"""Greedy output is the same token for token under any batch mix, chunk size, preemption and prefix hit."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from limited_pool import LimitedPool
from plain_forward import Plain
from tiny_model import TinyModel, write_tiny_model

from runners.runtime.engine import Engine, SchedulerConfig
from runners.runtime.executor import ScheduledSequence
from runners.runtime.sequence import SamplingParams
from runners.runtime.torch_executor import build

BLOCK_SIZE = 16
MAX_LEN = 2048
PRECISIONS = ("bf16", "int8")
SLOW_EXAMPLES = settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_model(tmp_path_factory.mktemp("model") / "tiny.gguf", TinyModel(num_layers=3))


@pytest.fixture(scope="module", params=PRECISIONS)
def plain(request: pytest.FixtureRequest, tiny: Path) -> Iterator[Plain]:
    plain = Plain(
        build(tiny, weights=request.param, block_size=BLOCK_SIZE, num_blocks=256, max_model_len=MAX_LEN, threads=1)
    )
    yield plain
    print(plain.report())


def chunk(name: str, tokens: tuple[int, ...], start: int, table: tuple[int, ...]) -> ScheduledSequence:
    return ScheduledSequence(name, tokens, start, table, True, SamplingParams(), 0)


def take_step(engine: Engine, outputs: dict[str, tuple[int, ...]]) -> None:
    step = engine.step()
    for token in step.tokens if step else ():
        outputs[token.request_id] = (*outputs.get(token.request_id, ()), token.token_id)


texts = st.lists(st.integers(3, 269), min_size=1, max_size=90).map(tuple)


@SLOW_EXAMPLES
@given(
    data=st.data(),
    prompts=st.lists(texts, min_size=1, max_size=5),
    budget=st.integers(4, 120),
    num_seqs=st.integers(1, 5),
    num_blocks=st.integers(9, 40),
    prefix_cache=st.booleans(),
)
def test_any_schedule_gives_the_plain_tokens(
    plain: Plain,
    data: st.DataObject,
    prompts: list[tuple[int, ...]],
    budget: int,
    num_seqs: int,
    num_blocks: int,
    prefix_cache: bool,
) -> None:
    shared = data.draw(texts)
    prompts = [shared[: data.draw(st.integers(0, len(shared)))] + prompt for prompt in prompts]
    prompts = [prompt[: num_blocks * BLOCK_SIZE - 14] for prompt in prompts]
    config = SchedulerConfig(
        max_num_seqs=num_seqs,
        max_num_batched_tokens=max(budget, num_seqs),
        prefix_cache=prefix_cache,
        chunked_prefill=True,
    )
    engine = Engine(LimitedPool(plain.executor, num_blocks), config)
    outputs: dict[str, tuple[int, ...]] = {}
    for index, prompt in enumerate(prompts):
        engine.add(str(index), prompt, SamplingParams(max_tokens=12, ignore_eos=True))
        if data.draw(st.booleans()):
            take_step(engine, outputs)
    while engine.has_work:
        take_step(engine, outputs)
    for index, prompt in enumerate(prompts):
        assert len(outputs[str(index)]) == 12
        plain.compare_tokens(prompt, outputs[str(index)])


@SLOW_EXAMPLES
@given(data=st.data(), sequences=st.lists(texts, min_size=1, max_size=4))
def test_logits_are_equal_to_the_bit_however_text_is_cut_and_batched(
    plain: Plain, data: st.DataObject, sequences: list[tuple[int, ...]]
) -> None:
    tables = [tuple(range(index * 8, index * 8 + 8)) for index in range(len(sequences))]
    done = [0] * len(sequences)
    while unfinished := [index for index, tokens in enumerate(sequences) if done[index] < len(tokens)]:
        taken = data.draw(st.lists(st.sampled_from(unfinished), min_size=1, unique=True))
        batch = []
        for index in taken:
            stop = done[index] + data.draw(st.integers(1, len(sequences[index]) - done[index]))
            batch.append(chunk(str(index), sequences[index][done[index] : stop], done[index], tables[index]))
            done[index] = stop
        in_order = sorted(zip(taken, batch, strict=True), key=lambda pair: len(pair[1].token_ids) != 1)
        for (index, _), logits in zip(in_order, plain.executor.logits(tuple(batch)), strict=True):
            plain.compare_logits(logits, sequences[index][: done[index]])


@pytest.mark.parametrize("pieces", [(700,), (513, 187), (1, 511, 1, 100, 87), (300, 300, 100)])
def test_a_long_text_is_equal_to_the_bit_across_tiles(plain: Plain, pieces: tuple[int, ...]) -> None:
    tokens = tuple(3 + (7 * i * i + 11 * i) % 260 for i in range(760))
    table = tuple(range(60))
    start = 0
    for size in (*pieces, *[1] * 10, 50):
        batch = (chunk("long", tokens[start : start + size], start, table),)
        if start % 3:
            batch = (*batch, chunk("other", tokens[: 1 + start % 40], 0, tuple(range(60, 70))))
        others_first = len(batch) == 2 and len(batch[1].token_ids) == 1 and size > 1
        logits = plain.executor.logits(batch)[1 if others_first else 0]
        start += size
        plain.compare_logits(logits, tokens[:start])


def test_a_text_is_equal_to_the_bit_beside_a_much_longer_one(plain: Plain) -> None:
    tokens = tuple(3 + (5 * i * i + i) % 260 for i in range(1500))
    short, long = tuple(range(50)), tuple(range(50, 150))
    plain.executor.logits((chunk("short", tokens[:700], 0, short), chunk("long", tokens[:1499], 0, long)))
    both = plain.executor.logits(
        (chunk("short", tokens[700:701], 700, short), chunk("long", tokens[1499:], 1499, long))
    )
    plain.compare_logits(both[0], tokens[:701])
    plain.compare_logits(both[1], tokens)
