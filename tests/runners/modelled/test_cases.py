"""Published rows as steps: units, definitions, what a source leaves out, and rows that nothing can be said of."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from published_rows import CHAT, CLOSED, row

from runners.modelled.cases import Case, CaseReader
from runners.modelled.facts import ChipFactsError, ChipTable, family_of
from runners.modelled.floor import find_data_error
from runners.modelled.model_shapes import ModelShapes
from runners.modelled.rows import CannotPredict, ResultsFileError, engine_of, quantity_of, read_rows

CHIPS = ChipTable.load("catalog")
READER = CaseReader(CHIPS, ModelShapes.load())


def read(**fields: object) -> Case:
    return READER.read(row(1, **fields))


def test_a_rate_per_gpu_is_that_of_all_over_their_number() -> None:
    total = read(n_chips=4, parallelism="TP4")
    each = read(n_chips=4, parallelism="TP4", metric="output_throughput_per_gpu", unit="tokens/s/gpu")
    assert each.scale == pytest.approx(total.scale / 4)


def test_a_total_of_input_and_output_counts_both() -> None:
    output, both = read(input_len=384), read(input_len=384, metric="total_throughput_per_gpu",
                                             unit="tokens/s/gpu (input+output)")  # fmt: skip
    assert both.scale == pytest.approx(output.scale * 4)


def test_a_latency_in_milliseconds_is_a_thousand_times_the_step() -> None:
    assert read(metric="itl_median_ms", unit="ms", concurrency_or_batch=8).scale == 1e3
    assert read(metric="itl_median_ms", unit="ms", concurrency_or_batch=8).mixed_share == 0


def test_a_mean_step_takes_its_share_of_prefill() -> None:
    case = read(input_len=1000, output_len=500, concurrency_or_batch=8, metric="tpot_mean_ms", unit="ms",
                scenario="online serving closed-loop concurrency, aggregated")  # fmt: skip
    # Eight sequences take in 8 x 1000 / 500 = 16 prompt tokens a step: a prompt of 1000 in each 62nd or so.
    assert case.load.chunk == 1000 and case.mixed_share == pytest.approx(0.016)


def test_energy_is_of_all_chips_over_all_tokens() -> None:
    case = READER.read(CHAT[2] | {"metric": "energy_per_output_token", "unit": "J/token (GPU only)"})
    assert case.scale == pytest.approx(1 / 31.9)


def test_an_offline_batch_is_what_memory_holds_beside_the_weights() -> None:
    small, large = read(), read(input_len=32_000, output_len=2000)
    assert small.load.batch == 1024 and 1 < large.load.batch < 64


def test_only_a_first_token_of_a_closed_loop_queues() -> None:
    assert READER.read(CLOSED).queues
    assert not read(metric="ttft_ms", unit="ms", scenario="first-token latency, batch 1").queues


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"chip_id": "abacus-1"}, "chip_id: 'abacus-1' is not in the catalog"),
        ({"chip_id": "jalapeno"}, "jalapeno: its record states no memory.capacity_bytes"),
        ({"precision": "ternary"}, "precision: 'ternary'"),
        ({"metric": "mmlu"}, "metric: 'mmlu'"),
        ({"model_key": "nobody", "params_total_B": None}, "model_key: 'nobody'"),
        ({"chip_id": None}, "chip_id: is None; allowed: a text"),
        ({"unit": 7}, "unit: is 7; allowed: a text"),
        ({"scenario": ["offline"]}, "scenario: is "),
        ({"n_chips": "eight"}, "n_chips: is 'eight'; allowed: a number above 0"),
        ({"input_len": -1}, "input_len: is -1; allowed: a number from 0"),
        ({"output_len": 1e12}, "output_len: is 1000000000000"),
        ({"concurrency_or_batch": float("nan")}, "concurrency_or_batch: is nan"),
        ({"value": "fast"}, "value: is 'fast'"),
        ({"value": 0}, "value: is 0; allowed: a number above 0"),
    ],
)
def test_a_row_that_nothing_can_be_said_of_is_told_why(fields: dict, reason: str) -> None:
    with pytest.raises(CannotPredict, match=reason):
        read(**fields)


@pytest.mark.parametrize(("text", "message"), [("{}", "a list"), ("[1]", "row 0"), ('[{"chip_id": "a"}]', "row 0: id"),
                                                ("", "not JSON"), ("{", "not JSON")])  # fmt: skip
def test_a_file_of_other_things_is_refused(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "rows.json"
    path.write_text(text)
    with pytest.raises(ResultsFileError, match=rf"rows\.json: .*{message}"):
        read_rows(path)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ResultsFileError, match="nowhere\\.json: can't be read"):
        read_rows(tmp_path / "nowhere.json")


def test_engines_metrics_and_families_go_by_their_names() -> None:
    assert engine_of("MLPerf closed: TensorRT 10.11") == "TensorRT-LLM (MLPerf)"
    assert engine_of("SGLang (Wafer)") == "SGLang" and engine_of(None) == "other"
    assert quantity_of("ttft_p50_ms") == "ttft" and quantity_of("decode_tokens_per_s") == "rate"
    assert family_of("gb300-nvl72") == "blackwell" and family_of("trainium3") == "neuron"
    assert family_of("abacus-1") == "other"


def test_a_row_faster_than_its_chip_is_an_error_of_the_data() -> None:
    # 8 billion weights in 8 bits, 3.35 TB/s: at most some 470 tokens/s for a single user.
    single = {"concurrency_or_batch": 1, "scenario": "single stream", "metric": "decode_tokens_per_s"}
    assert find_data_error(read(value=300.0, **single)) is None
    wrong = find_data_error(read(value=900.0, **single))
    assert wrong is not None and 1.8 < wrong.times_too_fast < 2.2
    assert find_data_error(read(value=1e6)) is not None


def test_a_rack_of_like_chips_is_modelled_by_one_of_them() -> None:
    rack, chip = CHIPS.get("groq3-lpx"), CHIPS.get("groq3-lpu")
    assert rack.bytes_per_s == pytest.approx(40e15 / 256) and rack.capacity_bytes == pytest.approx(chip.capacity_bytes)
    with pytest.raises(ChipFactsError):
        CHIPS.get("composite-rubin-lpx")


def test_a_file_of_chips_is_read_in_its_own_units(tmp_path: Path) -> None:
    record = {
        "id": "mine-1", "dense_tflops": {"bf16": 100}, "memory": {"capacity_GB": 80, "bandwidth_TBps": 2.0},
        "interconnect": {"scale_up_GBps_per_chip": 300, "latency_us": 5}, "tdp_W": 500,
    }  # fmt: skip
    path = tmp_path / "chips.json"
    path.write_text(json.dumps([record, record | {"id": "mine-2", "memory": {}}]))
    table = ChipTable.load(str(path))
    assert (table.get("mine-1").bytes_per_s, table.get("mine-1").link_latency_s) == pytest.approx((2e12, 5e-6))
    with pytest.raises(ChipFactsError, match="mine-2: its record states no memory bandwidth"):
        table.get("mine-2")


def test_a_file_of_chips_in_other_units_is_refused_by_the_figures_name(tmp_path: Path) -> None:
    record = {
        "id": "mine-1", "dense_tflops": {"bf16": 100}, "memory": {"capacity_GB": 80e9, "bandwidth_TBps": 2.0},
        "interconnect": {}, "tdp_W": 500,
    }  # fmt: skip
    path = tmp_path / "chips.json"
    path.write_text(json.dumps([record]))
    with pytest.raises(ChipFactsError, match=r"mine-1: memory\.capacity_GB: 8e\+10 is not plausible in GB; allowed: "):
        ChipTable.load(str(path))
