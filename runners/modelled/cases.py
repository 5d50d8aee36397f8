"""A published row as work: the steps it timed, and how a step's seconds become its figure.

A row is turned into the work of a plain decode step and of a step that also takes a piece of prefill, the share of
steps of the second kind, and a scale. What a source leaves out is assumed, and each assumption stands here, once.
Nothing here knows a coefficient.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from runners.modelled.facts import ChipFacts, ChipFactsError, ChipTable
from runners.modelled.formats import FormatError, NumberFormat, parse_format
from runners.modelled.model_shapes import ModelShapes
from runners.modelled.parallel import Layout, Parallel, ParallelError, read_parallelism
from runners.modelled.row_units import unit_of
from runners.modelled.rows import CannotPredict, Quantity, Row, check_row, engine_of, quantity_of, scenario_of, value_of
from runners.modelled.shape import ModelShape, ShapeError
from runners.modelled.work import Counts, Splitter, Work

CHAT_INPUT_TOKENS = 160.0
"""Mean prompt of the chat tests that do not state theirs."""
CHAT_OUTPUT_TOKENS = 256.0
JITTERED = 0.9
"""Mean of lengths drawn evenly from 0.8 to 1 of those stated, as closed loops of InferenceX are."""
USABLE_SHARE = 0.9
FITS_SHARE = 0.62
"""Share of a chip's memory that weights may take where a source does not say over how many chips they lie."""
LEAST_FREE_SHARE = 0.04
MAX_BATCH = {"TensorRT-LLM": 1024, "TensorRT-LLM (MLPerf)": 2048}
OTHER_MAX_BATCH = 1024
CHUNK_TOKENS = {"llama.cpp": 512}
OTHER_CHUNK_TOKENS = 8192
OPEN_LOOP_BATCH = 64.0
FULL_BATCH = ("offline", "mlperf offline", "mlperf server", "mlperf interactive", "static")


@dataclass(frozen=True, slots=True)
class Load:
    """`batch` sequences decode in each data-parallel group; a mixed step takes `chunk` prompt tokens beside them.
    `limit` is how many sequences the memory holds; `concurrency` that of a closed loop, of one group."""

    batch: float
    limit: float
    concurrency: float | None
    input_tokens: float
    output_tokens: float
    chunk: float
    mixed_share: float


@dataclass(frozen=True, slots=True)
class Case:
    """One row, ready to be timed.

    A mean step takes (1 - mixed_share) x decode + mixed_share x mixed. A latency is `scale` x step; a rate or prefill
    rate `scale` / step; an energy `scale` x step x power of a chip; a TTFT `scale` x the prefill's step and its wait.
    """

    row_id: str
    quantity: Quantity
    engine: str
    scenario: str
    chip: ChipFacts
    shape: ModelShape
    weights: NumberFormat
    flops_per_s: float
    wide_flops_per_s: float
    layout: Layout
    splitter: Splitter
    prefill_splitter: Splitter
    load: Load
    decode: Work
    mixed: Work
    mixed_share: float
    scale: float
    value: float | None
    family_key: str

    @property
    def precision(self) -> str:
        return self.weights.name

    @property
    def queues(self) -> bool:
        """Whether its first token waits behind others."""
        return self.quantity == "ttft" and self.scenario in ("closed loop", "disaggregated")


class CaseReader:
    """Turns rows into cases, by the chips and shapes it was given."""

    def __init__(self, chips: ChipTable, shapes: ModelShapes) -> None:
        self._chips = chips
        self._shapes = shapes

    def read(self, row: Row) -> Case:
        """Raises CannotPredict with the reason."""
        try:
            return self._read(row)
        except (ChipFactsError, FormatError, ShapeError, ParallelError) as error:
            raise CannotPredict(str(error)) from error

    def _read(self, row: Row) -> Case:
        check_row(row)
        chip = self._chips.get(row["chip_id"])
        shape = self._shapes.get(row.get("model_key"), row.get("params_total_B"), row.get("params_active_B"))
        weights = parse_format(row["precision"])
        engine, scenario = engine_of(row.get("engine")), scenario_of(row.get("scenario"))
        quantity = quantity_of(row["metric"])
        compute, rate = weights.rate_of(chip.rate)
        layout = _layout(row, chip, shape, weights)
        unpacks = compute != weights.computes[0] or (weights.narrow and weights.computes[0] == "bf16")
        kv_bits = kv_bits_of(engine, weights)
        splitter = Splitter(shape, weights, layout.decode, kv_bits, unpacks)
        prefill_splitter = Splitter(shape, weights, layout.prefill or layout.decode, kv_bits, unpacks)
        load = _load(row, scenario, layout, splitter, chip, engine)
        prefills = quantity in ("ttft", "prefill")
        if prefills:
            mixed = prefill_splitter.split(prompt_counts(shape, load, load.batch if scenario == "static" else 1.0))
        else:
            mixed = splitter.split(mixed_counts(shape, load))
        plain = layout.prefill is not None or "median" in row["metric"]
        return Case(
            row_id=row["id"], quantity=quantity, engine=engine, scenario=scenario, chip=chip, shape=shape,
            weights=weights, flops_per_s=rate, wide_flops_per_s=wide_rate(chip, rate), layout=layout,
            splitter=splitter, prefill_splitter=prefill_splitter, load=load,
            decode=splitter.split(decode_counts(shape, load)), mixed=mixed,
            mixed_share=1.0 if prefills else 0.0 if plain else load.mixed_share,
            scale=_scale(row, quantity, load, layout), value=value_of(row),
            family_key=f"{row['chip_id']}|{row.get('model_key')}|{weights.name}",
        )  # fmt: skip


def wide_rate(chip: ChipFacts, rate: float) -> float:
    """FLOP/s of the widest units that attention and the head may use."""
    return next((chip.rates[name] for name in ("bf16", "fp16", "fp8", "fp32", "int8") if name in chip.rates), rate)


def kv_bits_of(engine: str, weights: NumberFormat) -> float:
    """Engines keep the cache in 16 bits unless told; TensorRT-LLM's published runs of narrow formats use FP8."""
    narrow = weights.bits < 10 and weights.computes[0] != "bf16"
    return 8.0 if narrow and engine.startswith(("TensorRT-LLM", "MLPerf")) else 16.0


def decode_counts(shape: ModelShape, load: Load) -> Counts:
    """A step in which each sequence of the batch decodes, half-way through its output."""
    context = int(load.input_tokens + load.output_tokens / 2)
    moved = load.batch * (shape.kv_elements_held(context) + shape.state_traffic)
    return Counts(load.batch, load.batch, load.batch, moved, load.batch * shape.attention_flops(context, 1))


def prompt_counts(shape: ModelShape, load: Load, prompts: float) -> Counts:
    """A step that computes whole prompts and nothing else."""
    length = max(int(load.input_tokens), 1)
    elements, flops = shape.kv_elements_held(length), shape.attention_flops(0, length)
    return Counts(prompts * length, prompts, prompts, prompts * elements, prompts * flops)


def mixed_counts(shape: ModelShape, load: Load) -> Counts:
    """The decode batch beside `chunk` prompt tokens."""
    base = decode_counts(shape, load)
    length = max(int(load.input_tokens), 1)
    prompts = load.chunk / length
    return Counts(
        base.tokens + load.chunk,
        base.sampled + max(prompts, 1.0),
        base.sequences + ceil(prompts),
        base.kv_elements + prompts * shape.kv_elements_held(length),
        base.attention_flops + prompts * shape.attention_flops(0, length),
    )


def memory_batch(splitter: Splitter, chip: ChipFacts, input_tokens: float, output_tokens: float, engine: str) -> float:
    """Sequences of that length whose cache fits beside the weights, as far as the engine's own limit."""
    shape, parallel = splitter.shape, splitter.parallel
    held = max(shape.kv_elements_held(int(input_tokens + output_tokens / 2)) * splitter.kv_bytes, 1.0)
    split = 1 if shape.kv_latent_dim else min(parallel.tp, shape.kv_heads)
    free = chip.capacity_bytes * USABLE_SHARE - splitter.resident_bytes()
    fitting = max(free, LEAST_FREE_SHARE * chip.capacity_bytes) * split / held
    return float(min(max(fitting, 1.0), MAX_BATCH.get(engine, OTHER_MAX_BATCH)))


def _layout(row: Row, chip: ChipFacts, shape: ModelShape, weights: NumberFormat) -> Layout:
    total = Splitter(shape, weights, Parallel()).resident_bytes()
    text = row.get("parallelism")
    share = 0.95 if text else FITS_SHARE
    least = 1
    while total / least > chip.capacity_bytes * share and least < 1024:
        least *= 2
    return read_parallelism(text, row.get("n_chips") or 1, least)


def _load(row: Row, scenario: str, layout: Layout, splitter: Splitter, chip: ChipFacts, engine: str) -> Load:
    given_in, given_out = row.get("input_len"), row.get("output_len")
    input_tokens = float(given_in) if given_in is not None else CHAT_INPUT_TOKENS
    output_tokens = float(given_out) if given_out is not None else CHAT_OUTPUT_TOKENS
    if "jitter" in (row.get("notes") or ""):
        input_tokens, output_tokens = JITTERED * input_tokens, JITTERED * output_tokens
    decode = layout.decode
    limit = memory_batch(splitter, chip, input_tokens, output_tokens, engine)
    given = row.get("concurrency_or_batch")
    concurrency = None
    if given is not None:
        groups = decode.replicas * decode.dp * (decode.pp if scenario != "single" else 1)
        concurrency = max(float(given) / groups, 1.0)
        batch = min(concurrency, limit) if scenario == "steady" else concurrency
    elif scenario in FULL_BATCH:
        batch = limit
    else:
        batch = OPEN_LOOP_BATCH if scenario == "open loop" else 1.0
    mean_prefill = batch * input_tokens / max(output_tokens, 1.0)
    chunk = min(max(input_tokens, mean_prefill), max(CHUNK_TOKENS.get(engine, OTHER_CHUNK_TOKENS), mean_prefill))
    share = min(mean_prefill / max(chunk, 1.0), 1.0) if output_tokens else 0.0
    return Load(batch, limit, concurrency, input_tokens, output_tokens, chunk, share)


def _scale(row: Row, quantity: Quantity, load: Load, layout: Layout) -> float:
    """From a step's seconds to the row's figure, in its own unit."""
    unit, pool = unit_of(row, quantity), layout.decode
    one_by_one = pool.pp if row.get("concurrency_or_batch") == 1 else 1  # one sequence passes stage after stage
    if quantity in ("latency", "ttft"):
        return unit.factor * one_by_one
    outputs = max(load.output_tokens, 1.0)
    if quantity == "energy":
        tokens = outputs if unit.of == "request" else 1.0
        return unit.factor * tokens * pool.chips / (load.batch * pool.dp * pool.replicas)
    if quantity == "prefill":
        tokens = load.input_tokens * pool.dp * pool.replicas / one_by_one
    elif unit.per == "user":
        tokens = 1.0 / one_by_one
    else:
        tokens = load.batch * pool.dp * pool.replicas / one_by_one
    if unit.of == "request":
        tokens /= outputs
    elif unit.with_prompt:
        tokens *= 1.0 + load.input_tokens / outputs
    if unit.per == "chip":
        tokens /= max(layout.chips, row.get("n_chips") or 1)
    return unit.factor * tokens
