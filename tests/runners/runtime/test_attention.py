"""Paged attention against the formula in float64, through scattered blocks, chunks and tiles."""

from __future__ import annotations

import random

import pytest
import torch

from runners.runtime.attention import QUERY_SIZES, AttentionPlanner, KVCache, Slots, attend
from runners.runtime.kernels.products import TILE, AttentionProducts, ExactProducts, use_bf16_products
from runners.runtime.kernels.products_check import AttentionShape, choose_products
from runners.runtime.models.config import LayerConfig, ModelConfig

BLOCK_SIZE, NUM_BLOCKS = 16, 240
CONFIG = ModelConfig(
    architecture="llama",
    hidden_size=96,
    num_heads=6,
    num_kv_heads=2,
    head_dim=16,
    ffn_size=32,
    vocab_size=8,
    norm_eps=1e-5,
    max_model_len=2048,
    tied_embeddings=True,
    query_scale=0.25,
    layers=(LayerConfig(None), LayerConfig(None, window=40)),
)


class PagedText:
    """A sequence's random keys and values, and the shuffled blocks they are written to."""

    def __init__(self, length: int, blocks: list[int], seed: int) -> None:
        draw = torch.Generator().manual_seed(seed)
        self.keys = torch.randn(length, 2, 16, generator=draw).to(torch.bfloat16)
        self.values = torch.randn(length, 2, 16, generator=draw).to(torch.bfloat16)
        self.queries = torch.randn(length, 6, 16, generator=draw)
        self.table = tuple(blocks.pop() for _ in range(-(-length // BLOCK_SIZE)))

    def write(self, cache: KVCache, layer: int) -> None:
        positions = torch.arange(len(self.keys))
        slots = Slots(torch.tensor(self.table)[positions // BLOCK_SIZE], positions % BLOCK_SIZE)
        cache.write(layer, slots, self.keys, self.values)

    def expected(self, start: int, stop: int, window: int | None = None, softcap: float | None = None) -> torch.Tensor:
        keys, values = self.keys.double(), self.values.double()
        rows = []
        for position in range(start, stop):
            seen = slice(max(position + 1 - (window or position + 1), 0), position + 1)
            for head in range(6):
                scores = keys[seen, head // 3] @ self.queries[position, head].double()
                weights = torch.softmax(softcap * torch.tanh(scores / softcap) if softcap else scores, dim=0)
                rows.append(weights @ values[seen, head // 3])
        return torch.stack(rows).view(stop - start, -1).float()


@pytest.fixture(autouse=True)
def inference_mode():
    use_bf16_products()
    with torch.inference_mode():
        yield


@pytest.fixture
def blocks() -> list[int]:
    blocks = list(range(NUM_BLOCKS))
    random.Random(7).shuffle(blocks)
    return blocks


@pytest.fixture(params=["chosen", "exact"])
def products(request: pytest.FixtureRequest) -> AttentionProducts:
    sizes = AttentionPlanner(CONFIG, NUM_BLOCKS, BLOCK_SIZE).key_sizes()
    return (
        choose_products(AttentionShape(6, 2, 16, QUERY_SIZES, sizes)) if request.param == "chosen" else ExactProducts()
    )


SPANS = [
    [(0, 1)],
    [(15, 1), (16, 1), (200, 1), (31, 1)],
    [(0, 40)],
    [(5, 1), (10, 30), (0, 150)],
    [(TILE - 1, 1), (TILE, 1), (3, 1)],
    [(2 * TILE + 7, 1), (TILE - 20, 60)],
]


@pytest.mark.parametrize("spans", SPANS)
def test_each_query_attends_to_its_own_text_up_to_itself(
    blocks: list[int], products: AttentionProducts, spans: list[tuple[int, int]]
) -> None:
    cache = KVCache(CONFIG, NUM_BLOCKS, BLOCK_SIZE)
    texts = [PagedText(start + count, blocks, seed) for seed, (start, count) in enumerate(spans)]
    for text in texts:
        text.write(cache, layer=1)
    planner = AttentionPlanner(CONFIG, NUM_BLOCKS, BLOCK_SIZE)
    groups = planner.plan([(*span, text.table) for span, text in zip(spans, texts, strict=True)])
    queries = torch.cat([text.queries[start:] for text, (start, _) in zip(texts, spans, strict=True)])
    expected = torch.cat([text.expected(start, start + n) for text, (start, n) in zip(texts, spans, strict=True)])
    torch.testing.assert_close(attend(queries, cache, 1, groups, products), expected, rtol=0.03, atol=0.03)


@pytest.mark.parametrize("window", [1, 7, 40, TILE, 700])
@pytest.mark.parametrize("spans", SPANS)
def test_a_window_shows_the_last_tokens_alone(
    blocks: list[int], products: AttentionProducts, spans: list[tuple[int, int]], window: int
) -> None:
    cache = KVCache(CONFIG, NUM_BLOCKS, BLOCK_SIZE)
    texts = [PagedText(start + count, blocks, seed) for seed, (start, count) in enumerate(spans)]
    for text in texts:
        text.write(cache, layer=1)
    planner = AttentionPlanner(CONFIG, NUM_BLOCKS, BLOCK_SIZE)
    groups = planner.plan([(*span, text.table) for span, text in zip(spans, texts, strict=True)], window)
    queries = torch.cat([text.queries[start:] for text, (start, _) in zip(texts, spans, strict=True)])
    both = list(zip(texts, spans, strict=True))
    expected = torch.cat([text.expected(start, start + n, window, softcap=2.0) for text, (start, n) in both])
    ours = attend(queries, cache, 1, groups, products, softcap=2.0)
    torch.testing.assert_close(ours, expected, rtol=0.03, atol=0.03)


def test_tiles_that_a_window_left_behind_are_not_read() -> None:
    planner = AttentionPlanner(CONFIG, NUM_BLOCKS, BLOCK_SIZE)
    table = tuple(range(3 * TILE // BLOCK_SIZE))
    (group,) = planner.plan([(3 * TILE - 1, 1, table)], window=40)
    assert group.mask.shape[-1] == TILE
    assert group.table[0].tolist() == list(table[-TILE // BLOCK_SIZE :])


def test_layers_share_the_plan_until_a_text_passes_their_window() -> None:
    planner = AttentionPlanner(CONFIG, NUM_BLOCKS, BLOCK_SIZE)
    short = planner.plan_layers([(0, 40, (0, 1, 2))])
    assert short[None] is short[40]
    longer = planner.plan_layers([(0, 41, (0, 1, 2))])
    assert not torch.equal(longer[None][0].mask, longer[40][0].mask)


def test_single_queries_share_one_group_and_a_long_chunk_is_cut() -> None:
    planner = AttentionPlanner(CONFIG, NUM_BLOCKS, BLOCK_SIZE)
    groups = planner.plan([(3, 1, (0,)), (40, 1, (1, 2, 3)), (0, 300, tuple(range(19)))])
    assert [(group.rows.start, group.rows.stop, group.batch) for group in groups] == [
        (0, 2, 2),
        (2, 130, 1),
        (130, 258, 1),
        (258, 302, 1),
    ]
    for group in groups:
        assert group.mask.shape[-1] % 32 == 0
        assert (group.mask == 0).any(dim=-1).all()


@pytest.mark.parametrize("window", [None, 300])
@pytest.mark.parametrize("block_size", [8, 16, 32, 64, 128])
def test_the_shapes_of_products_are_those_that_are_tried(block_size: int, window: int | None) -> None:
    planner = AttentionPlanner(CONFIG, NUM_BLOCKS, block_size)
    tried = set(planner.key_sizes())
    for last in range(0, 1400, 1 if window is None else 7):
        queries = 1 + last % 300
        spans = [(last - last % 300, queries, tuple(range(200)))]
        for group in planner.plan(spans, window):
            whole, rest = divmod(group.mask.shape[-1], TILE)
            assert rest in tried or (rest == 0 and whole > 0)
            assert group.mask.shape[2] in QUERY_SIZES
            assert group.mask.shape[2] < 2 * group.num_queries


@pytest.mark.parametrize(("window", "softcap"), [(None, None), (90, 3.0), (TILE, 3.0)])
@pytest.mark.parametrize("position", [0, 31, 100, TILE - 1, TILE + 1, TILE + 20, 2 * TILE + 300])
def test_a_query_has_the_same_bits_alone_in_a_chunk_and_beside_longer_texts(
    blocks: list[int], products: AttentionProducts, position: int, window: int | None, softcap: float | None
) -> None:
    cache = KVCache(CONFIG, NUM_BLOCKS, BLOCK_SIZE)
    text, longer = PagedText(position + 1, blocks, 1), PagedText(position + 700, blocks, 2)
    for each in (longer, text):
        each.write(cache, layer=0)
    planner = AttentionPlanner(CONFIG, NUM_BLOCKS, BLOCK_SIZE)
    first = max(position - 70, 0)
    chunk = planner.plan([(first, position + 1 - first, text.table)], window)
    alone = planner.plan([(position, 1, text.table)], window)
    beside = planner.plan([(position + 699, 1, longer.table), (position, 1, text.table)], window)
    one = attend(text.queries[position:], cache, 0, alone, products, softcap)[0]
    assert torch.equal(attend(text.queries[first:], cache, 0, chunk, products, softcap)[-1], one)
    both = torch.cat((longer.queries[-1:], text.queries[position:]))
    assert torch.equal(attend(both, cache, 0, beside, products, softcap)[1], one)


def test_blocks_that_do_not_fill_a_tile_are_refused() -> None:
    with pytest.raises(ValueError, match="block_size is 48"):
        AttentionPlanner(CONFIG, NUM_BLOCKS, 48)
