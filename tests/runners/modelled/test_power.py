"""Power of a step: between idle and the chip's stated power, rising with what it does, and as the fit has it."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_cost import LLAMA_3_8B, Piece
from test_topology import CHIPS

from runners.modelled.calibration_file import own_calibration
from runners.modelled.cost import CostModel
from runners.modelled.energy import _power
from runners.modelled.power import PRIORS, UNFITTED, shares_of

SHARE = st.floats(0, 1)
FITTED = own_calibration().power


@given(SHARE, SHARE, st.sampled_from(["hopper", "blackwell", "nobody's"]))
def test_a_busy_chip_draws_between_idle_and_its_stated_power(mbu: float, mfu: float, family: str) -> None:
    shares = shares_of(FITTED, family)
    idle_w, busy_w = shares.idle_w(700.0), shares.busy_w(700.0, mbu, mfu)
    assert 0 < idle_w <= busy_w <= 700.0
    assert busy_w <= shares.busy_w(700.0, min(mbu + 0.1, 1.0), min(mfu + 0.1, 1.0))


@given(SHARE, SHARE)
def test_a_step_has_the_power_that_was_fitted(mbu: float, mfu: float) -> None:
    case = SimpleNamespace(chip=SimpleNamespace(tdp_w=700.0, family="hopper"))
    (fitted_w,) = _power([case], np.array([mbu]), np.array([mfu]), FITTED)  # type: ignore[list-item]
    assert shares_of(FITTED, "hopper").busy_w(700.0, mbu, mfu) == pytest.approx(fitted_w)


def test_without_a_fit_the_shares_are_the_priors() -> None:
    assert UNFITTED.idle_w(100.0) == 100 * PRIORS["idle"]
    assert UNFITTED.busy_w(100.0, 0.5, 0.0) == pytest.approx(
        100 * (PRIORS["idle"] + PRIORS["busy"] + PRIORS["memory"] / 2)
    )


def test_a_step_of_more_work_takes_more_energy_and_a_chip_without_a_stated_power_none() -> None:
    cost = CostModel(CHIPS["h100-sxm"], LLAMA_3_8B, "bf16", "vLLM")
    few, many = (cost.step([Piece(500, 1)] * number) for number in (1, 64))
    assert few.energy_j is not None and many.energy_j is not None
    assert few.energy_j < many.energy_j < 64 * few.energy_j
    silent = CostModel(CHIPS["wse3"], LLAMA_3_8B, "bf16", "vLLM")
    assert silent.idle_w is None and silent.step([Piece(500, 1)]).energy_j is None
