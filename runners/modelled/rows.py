"""Published serving results, and what each of them timed, as steps of the cost model.

A row is turned into the work of a plain decode step and of a step that also takes a piece of prefill, the share of
steps of the second kind, and how a step's seconds become the row's figure. What a source leaves out is assumed, and
each assumption stands here, once. Nothing here knows a coefficient.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from typing import Any, Literal

from runners.modelled.facts import ChipFacts, ChipFactsError, ChipTable
from runners.modelled.formats import FormatError, NumberFormat, parse_format
from runners.modelled.model_shapes import ModelShapes
from runners.modelled.parallel import Layout, Parallel, ParallelError, read_parallelism
from runners.modelled.shape import ModelShape, ShapeError
from runners.modelled.work import Counts, Splitter, Work

CHAT_INPUT_TOKENS = 160.0
"""Mean prompt of the chat benchmarks that do not state theirs."""
CHAT_OUTPUT_TOKENS = 256.0
USABLE_SHARE = 0.9
FITS_SHARE = 0.62
"""Share of a chip's memory that weights may take where a source does not say over how many chips they lie."""
MAX_BATCH = {"TensorRT-LLM": 1024, "TensorRT-LLM (MLPerf)": 2048, "vLLM": 1024}
CHUNK_TOKENS = {"vLLM": 8192, "SGLang": 8192, "TensorRT-LLM": 8192, "TensorRT-LLM (MLPerf)": 8192, "llama.cpp": 512}
OPEN_LOOP_BATCH = 64.0

Quantity = Literal["latency", "rate", "energy", "ttft", "prefill"]


@dataclass(frozen=True, slots=True)
class Case:
    """One row, ready to be timed.

    A mean step takes (1 - mixed_share) x decode + mixed_share x mixed. `quantity` says what the row is: a latency is
    `scale` x step; a rate `scale` / step; an energy `scale` x step x power; a TTFT `scale` x the prefill's step, plus
    the wait that a queue adds; a prefill rate `scale` / the prefill's step.
    """

    row_id: str
    quantity: Quantity
    engine: str
    chip: ChipFacts
    weights: NumberFormat
    compute: str
    rate_flops_per_s: float
    wide_flops_per_s: float
    shape: ModelShape
    scenario: str
    decode: Work
    mixed: Work
    mixed_share: float
    scale: float
    layout: Layout
    batch: float
    input_tokens: float
    output_tokens: float
    value: float | None
    family_key: str

    @property
    def precision(self) -> str:
        return self.weights.name


class CannotPredict(ValueError):
    """Why a row has no prediction."""


def read_rows(path: Path) -> list[dict[str, Any]]:
    rows = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(rows, list):
        raise ValueError(f"{path.name}: holds a {type(rows).__name__}; allowed: a list of results")
    return rows


def engine_of(name: str | None) -> str:
    """The engine profile that a published engine goes by."""
    text = name or ""
    for known, profile in (
        ("MLPerf closed: TensorRT", "TensorRT-LLM (MLPerf)"),
        ("MLPerf", "MLPerf, other"),
        ("TensorRT", "TensorRT-LLM"),
        ("SGLang", "SGLang"),
        ("vLLM", "vLLM"),
        ("llama.cpp", "llama.cpp"),
        ("Neuron", "NeuronX"),
        ("Kog", "Kog"),
    ):
        if known in text:
            return profile
    return "other"


def scenario_of(row: Mapping[str, Any]) -> str:
    text = row["scenario"] or ""
    for known, name in (
        ("disaggregated", "disaggregated"),
        ("closed-loop", "closed loop"),
        ("LM-Arena", "steady"),
        ("offline max", "offline"),
        ("offline static", "static"),
        ("fixed batch", "static"),
        ("MLPerf Offline", "mlperf offline"),
        ("MLPerf Server", "mlperf server"),
        ("MLPerf Interactive", "mlperf interactive"),
        ("iso-interactivity", "closed loop"),
        ("open loop", "open loop"),
        ("req/s", "open loop"),
    ):
        if known in text:
            return name
    return "single"


def quantity_of(metric: str) -> Quantity:
    if metric.startswith("energy"):
        return "energy"
    if metric.startswith("ttft"):
        return "ttft"
    if metric.startswith("prefill"):
        return "prefill"
    if metric.startswith(("tpot", "itl", "e2e_tpot", "inter_token")):
        return "latency"
    if "throughput" in metric or "tokens_per_s" in metric:
        return "rate"
    raise CannotPredict(f"metric: {metric!r} is not one that the cost model predicts")


class CaseReader:
    """Turns rows into cases, by the chips and shapes it was given."""

    def __init__(self, chips: ChipTable, shapes: ModelShapes) -> None:
        self._chips = chips
        self._shapes = shapes

    def read(self, row: Mapping[str, Any]) -> Case:
        """Raises CannotPredict with the reason."""
        try:
            return self._read(row)
        except (ChipFactsError, FormatError, ShapeError, ParallelError) as error:
            raise CannotPredict(str(error)) from error

    def _read(self, row: Mapping[str, Any]) -> Case:
        chip = self._chips.get(row["chip_id"])
        shape = self._shapes.get(row.get("model_key"), row.get("params_total_B"), row.get("params_active_B"))
        weights = parse_format(row["precision"])
        engine, scenario, quantity = engine_of(row["engine"]), scenario_of(row), quantity_of(row["metric"])
        compute, rate = weights.rate_of(chip.rate)
        wide = next((chip.rates[name] for name in ("bf16", "fp16", "fp8", "fp32", "int8") if name in chip.rates), rate)
        layout = _layout(row, chip, shape, weights)
        parallel = layout.prefill if quantity in ("ttft", "prefill") and layout.prefill else layout.decode
        unpacks = compute != weights.computes[0] or (weights.narrow and weights.computes[0] == "bf16")
        splitter = Splitter(shape, weights, parallel, _kv_bits(row, engine, weights), unpacks)
        load = _load(row, scenario, layout, splitter, chip, engine)
        decode = splitter.split(_decode_counts(shape, load))
        mixed = splitter.split(_mixed_counts(shape, load, quantity))
        per_request = load.output_tokens if quantity != "latency" else 1.0
        share = 0.0 if layout.prefill or "median" in row["metric"] or not per_request else load.mixed_share
        if quantity in ("ttft", "prefill"):
            share = 1.0
        return Case(
            row["id"], quantity, engine, chip, weights, compute, rate, wide, shape, scenario, decode, mixed, share,
            _scale(row, quantity, load, layout), layout, load.batch, load.input_tokens, load.output_tokens,
            row.get("value"), f"{row['chip_id']}|{row['model_key']}|{weights.name}",
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Load:
    """`batch` sequences decode in each data-parallel group; a mixed step takes `chunk` prompt tokens beside them."""

    batch: float
    input_tokens: float
    output_tokens: float
    chunk: float
    mixed_share: float


def _layout(row: Mapping[str, Any], chip: ChipFacts, shape: ModelShape, weights: NumberFormat) -> Layout:
    total = Splitter(shape, weights, Parallel()).resident_bytes()
    least = 1
    while total / least > chip.capacity_bytes * FITS_SHARE and least < 1024:
        least *= 2
    fits = 1
    while total / fits > chip.capacity_bytes * 0.95 and fits < 1024:
        fits *= 2
    text = row.get("parallelism")
    return read_parallelism(text, row.get("n_chips") or 1, fits if text else least)


def _kv_bits(row: Mapping[str, Any], engine: str, weights: NumberFormat) -> float:
    """vLLM, SGLang and llama.cpp keep the cache in 16 bits unless told; TensorRT-LLM's published runs use FP8."""
    if weights.bits < 10 and engine.startswith(("TensorRT-LLM", "MLPerf")) and weights.computes[0] != "bf16":
        return 8.0
    return 16.0


def _load(
    row: Mapping[str, Any], scenario: str, layout: Layout, splitter: Splitter, chip: ChipFacts, engine: str
) -> Load:
    given_in, given_out = row.get("input_len"), row.get("output_len")
    input_tokens = float(given_in) if given_in is not None else CHAT_INPUT_TOKENS
    output_tokens = float(given_out) if given_out is not None else CHAT_OUTPUT_TOKENS
    if "InferenceX" in (row.get("notes") or "") or "jitter" in (row.get("notes") or ""):
        input_tokens, output_tokens = 0.9 * input_tokens, 0.9 * output_tokens
    decode = layout.decode
    given = row.get("concurrency_or_batch")
    concurrency = float(given) if given is not None else None
    groups = decode.replicas * decode.dp * (decode.pp if scenario != "single" else 1)
    if concurrency is None:
        batch = OPEN_LOOP_BATCH if scenario == "open loop" else 1.0
        if scenario in ("offline", "mlperf offline", "mlperf server", "mlperf interactive", "static"):
            batch = _memory_batch(splitter, chip, input_tokens, output_tokens, engine)
    else:
        batch = max(concurrency / groups, 1.0)
        if scenario == "closed loop":
            batch = min(batch, _memory_batch(splitter, chip, input_tokens, output_tokens, engine))
    chunk_limit = CHUNK_TOKENS.get(engine, 8192)
    mean_prefill = batch * input_tokens / max(output_tokens, 1.0)
    chunk = min(max(input_tokens, mean_prefill), max(chunk_limit, mean_prefill))
    return Load(batch, input_tokens, output_tokens, chunk, min(mean_prefill / max(chunk, 1.0), 1.0))


def _memory_batch(splitter: Splitter, chip: ChipFacts, input_tokens: float, output_tokens: float, engine: str) -> float:
    """Sequences of that length whose cache fits beside the weights, as far as the engine's own limit."""
    shape, parallel = splitter.shape, splitter.parallel
    held = shape.kv_elements_held(int(input_tokens + output_tokens / 2)) * splitter.kv_bytes
    split = 1 if shape.kv_latent_dim else min(parallel.tp, shape.kv_heads)
    free = chip.capacity_bytes * USABLE_SHARE - splitter.resident_bytes()
    free = max(free, 0.04 * chip.capacity_bytes)
    fitting = free / (held / (split * parallel.pp)) / parallel.pp
    return float(min(max(fitting, 1.0), MAX_BATCH.get(engine, 1024)))


def _decode_counts(shape: ModelShape, load: Load) -> Counts:
    context = int(load.input_tokens + load.output_tokens / 2)
    keys = shape.kv_elements_held(context)
    return Counts(load.batch, load.batch, load.batch, load.batch * keys, load.batch * shape.attention_flops(context, 1))


def _mixed_counts(shape: ModelShape, load: Load, quantity: Quantity) -> Counts:
    """The decode batch beside `chunk` prompt tokens; a TTFT or prefill rate has the prompts alone."""
    length = max(int(load.input_tokens), 1)
    if quantity in ("ttft", "prefill"):
        prompts = load.batch if quantity == "ttft" else 1.0
        return Counts(prompts * length, prompts, prompts, prompts * shape.kv_elements_held(length),
                      prompts * shape.attention_flops(0, length))  # fmt: skip
    base = _decode_counts(shape, load)
    prompts = load.chunk / length
    return Counts(
        base.tokens + load.chunk,
        base.sampled + max(prompts, 1.0),
        base.sequences + ceil(prompts),
        base.kv_elements + prompts * shape.kv_elements_held(length),
        base.attention_flops + prompts * shape.attention_flops(0, length),
    )


def _scale(row: Mapping[str, Any], quantity: Quantity, load: Load, layout: Layout) -> float:
    """From a step's seconds to the row's figure, in its own unit."""
    if quantity in ("latency", "ttft"):
        return 1e3 if "ms" in row["unit"] else 1.0
    unit, metric, pool = row["unit"], row["metric"], layout.decode
    tokens = load.batch * pool.dp * pool.replicas
    if quantity == "prefill":
        tokens = load.input_tokens * pool.dp * pool.replicas
    elif "/user" in unit or metric == "decode_tokens_per_s":
        tokens = 1.0
    elif quantity == "energy":
        return pool.chips / tokens
    if metric.startswith("total_throughput") or "input+output" in unit:
        tokens *= 1.0 + load.input_tokens / max(load.output_tokens, 1.0)
    if "per_gpu" in metric or "/gpu" in unit:
        tokens /= max(layout.chips, row.get("n_chips") or 1)
    return tokens
