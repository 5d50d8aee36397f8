"""Fitting a few rows, storing the fit, and predicting rows by it."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from published_rows import CHAT, CLOSED, row

from runners.modelled import calibrate, predict
from runners.modelled.calibration_file import OWN_FILE, Calibration, CalibrationError, own_calibration
from runners.modelled.cases import CaseReader
from runners.modelled.facts import ChipTable
from runners.modelled.fit import fit_steps, step_figures
from runners.modelled.model_shapes import ModelShapes

READER = CaseReader(ChipTable.load("catalog"), ModelShapes.load())
POWER = [item | {"id": f"p{n}", "metric": "energy_per_output_token", "unit": "J/token", "value": 3.0 / (n + 1)}
         for n, item in enumerate(CHAT[:3])]  # fmt: skip


def test_a_fit_comes_nearer_to_its_rows_than_the_priors() -> None:
    cases = [READER.read(item) for item in CHAT]

    def off(parameters: dict) -> float:
        figures = step_figures(cases, parameters)
        return sum(abs(math.log(figure / case.value)) for figure, case in zip(figures, cases, strict=True)) / len(cases)

    fitted = fit_steps(cases)
    assert off(fitted) < 0.12 < off({})


def test_claims_and_impossible_rows_are_left_out_and_told() -> None:
    claim = row(30, value=1e9, split="claim_only")
    too_fast = row(31, value=1e6)
    unknown = row(32, value=1.0, chip_id="abacus-1")
    reading = calibrate.read_cases([*CHAT, claim, too_fast, unknown], READER)
    assert len(reading.cases) == len(CHAT) and reading.claims == 1
    assert [error.row_id for error in reading.data_errors] == ["r31"] and "abacus-1" in reading.unreadable["r32"]


def test_a_calibration_is_stored_with_its_errors_and_read_again(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    other = [item | {"id": f"o{n}", "model_key": "gemma-3-27b"} for n, item in enumerate(CHAT)]
    results, out = tmp_path / "rows.json", tmp_path / "fit.json"
    results.write_text(json.dumps([*CHAT, *other, *POWER, CLOSED]))
    calibrate.main(["--results", str(results), "--out", str(out)])
    stored = Calibration.load(out)
    assert stored.provenance["fitted"] == 16 and stored.provenance["chips"] == ["b200-sxm", "h100-sxm"]
    error = stored.errors["latency: vLLM x blackwell x bf16"]
    assert error.n == 12 and error.low < error.high
    assert "latency: vLLM" in capsys.readouterr().out


def test_results_without_a_row_to_fit_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    results, out = tmp_path / "rows.json", tmp_path / "fit.json"
    for rows in ([], [row(1, value=1.0, split="claim_only")]):
        results.write_text(json.dumps(rows))
        with pytest.raises(SystemExit):
            calibrate.main(["--results", str(results), "--out", str(out)])
        assert f"none of {len(rows)} rows can be fitted" in capsys.readouterr().err and not out.exists()


def test_rows_of_one_family_are_fitted_and_held_against_the_priors_alone() -> None:
    result = calibrate.calibrate(CHAT, READER, {})
    assert len(result.residuals) == len(CHAT) and result.calibration.errors["latency: all engines"].n == len(CHAT)


def test_rows_are_predicted_in_their_units_with_a_band_or_told_why_not(tmp_path: Path) -> None:
    rows, out = tmp_path / "rows.json", tmp_path / "out.json"
    unseen = [dict(item, value=None) for item in CHAT]
    rows.write_text(json.dumps([*unseen, CLOSED, row(40, chip_id="abacus-1")]))
    predict.main(["--rows", str(rows), "--json", str(out)])
    answers = json.loads(out.read_text())
    assert [answer["id"] for answer in answers] == [*[item["id"] for item in CHAT], "r20", "r40"]
    for answer, item in zip(answers, [*CHAT, CLOSED], strict=False):
        assert answer["low"] < answer["predicted"] < answer["high"] and answer["why_not"] is None
        assert item["value"] / 2.5 < answer["predicted"] < item["value"] * 2.5
    assert answers[-1]["predicted"] is None and "abacus-1" in answers[-1]["why_not"]


def test_rows_of_one_id_are_each_predicted_by_themselves() -> None:
    twins = [CHAT[0], CHAT[5] | {"id": CHAT[0]["id"]}]
    first, second = predict.predict_rows(twins, READER, own_calibration())
    assert first["id"] == second["id"] and second["predicted"] > 2 * first["predicted"]


@pytest.mark.parametrize("text", ["", "{}", "[[]]", '[{"metric": "ttft_ms"}]'])
def test_a_file_without_results_ends_with_a_clear_error_and_writes_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture, text: str
) -> None:
    rows, out = tmp_path / "rows.json", tmp_path / "out.json"
    rows.write_text(text)
    for program, wanted in ((predict, ["--rows", str(rows), "--json"]), (calibrate, ["--results", str(rows), "--out"])):
        with pytest.raises(SystemExit) as ended:
            program.main([*wanted, str(out)])
        assert ended.value.code == 2 and "error: rows.json: " in capsys.readouterr().err
    assert not out.exists()


JUNK = (
    None, "", 0, -1, 3.5, 10**30, float("nan"), True, [], {}, "TP8", "agg TP0 PP0", "disagg P0x0gpu D0x0gpu",
    "EP3 TP2", "ms", "tokens/s", "J/token", "a100-80g-sxm", "jalapeno", "MXFP4", "offline max throughput",
)  # fmt: skip
KEYS = sorted({*row(0)} - {"id"})


@given(
    st.sampled_from([CHAT[0], POWER[0], row(50)]),
    st.dictionaries(st.sampled_from(KEYS), st.sampled_from(JUNK), min_size=1, max_size=3),
)
@settings(max_examples=150, deadline=None)
def test_whatever_a_row_holds_it_is_predicted_or_told_why_not(item: dict, junk: dict) -> None:
    (answer,) = predict.predict_rows([{**item, **junk}], READER, own_calibration())
    if answer["predicted"] is None:
        assert answer["why_not"] and answer["low"] is None and answer["high"] is None
    else:
        assert 0 < answer["low"] < answer["predicted"] < answer["high"] < math.inf and answer["why_not"] is None


def test_what_a_row_is_worth_is_not_looked_at() -> None:
    asked = [CHAT[0], CHAT[0] | {"value": 1e9}, CHAT[0] | {"value": "unknown"}]
    answers = predict.predict_rows(asked, READER, own_calibration())
    assert len({answer["predicted"] for answer in answers}) == 1


def test_an_energy_of_a_chip_without_a_power_is_not_predicted() -> None:
    asked = [item | {"chip_id": "trainium1"} for item in POWER[:1]]
    (answer,) = predict.predict_rows(asked, READER, own_calibration())
    assert answer["predicted"] is None and answer["why_not"] == "trainium1: its record states no power"


def test_the_stored_fit_is_as_good_on_unseen_families_as_is_asked_of_it() -> None:
    errors = own_calibration().errors
    assert errors["latency: all engines"].median <= 0.18
    assert errors["rate: TensorRT-LLM"].median <= 0.20
    assert errors["energy: all engines"].median <= 0.20
    assert errors["ttft: all engines"].median <= 0.35
    assert errors["run_ttft: all engines"].median <= 0.35
    assert len(own_calibration().provenance["data_errors"]) < 10


@pytest.mark.parametrize("text", ["[]", "{}", "no", '{"cost_model": "other"}'])
def test_a_file_that_is_no_calibration_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "fit.json"
    path.write_text(text)
    with pytest.raises(CalibrationError, match=r"fit\.json: "):
        Calibration.load(path)
    assert OWN_FILE.exists()
