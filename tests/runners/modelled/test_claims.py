"""What the model says of claims: within its band, short and why, or beyond physics."""

from __future__ import annotations

import pytest

from runners.chips import Claim, ClaimTest, load_catalog
from runners.modelled.claims import judge

CHIPS = {chip.chip_id: chip for chip in load_catalog()}


def claim(
    figure: float | None, users: int | None = 1, model: str = "llama-3-70b", metric: str = "tokens_per_s_per_user"
):
    test = ClaimTest(model=model, chips=8, weights="fp8", users=users)
    return Claim(claim="a speed", figure=figure, unit="tokens/s", metric=metric, source="a test", test=test)


def test_a_claim_beyond_the_chips_bandwidth_is_told_by_how_much() -> None:
    # 70 GB of weights over 8 x 3.35 TB/s: at most some 380 tokens/s for one user.
    verdict = judge(claim(1900.0), CHIPS["h100-sxm"])
    assert verdict.outcome == "beyond physics" and "5.0 times what 8 x h100-sxm" in verdict.why
    assert verdict.most == pytest.approx(380, rel=0.03)


def test_a_modest_claim_is_reproduced_and_a_bold_one_falls_short_with_its_reason() -> None:
    assert judge(claim(40.0, users=None, metric="output_tokens_per_s"), CHIPS["h100-sxm"]).outcome == "reproduced"
    verdict = judge(claim(12_000.0, users=64, metric="output_tokens_per_s"), CHIPS["h100-sxm"])
    assert verdict.outcome == "short" and "of a step goes to" in verdict.why
    assert verdict.low < verdict.modelled < verdict.high < 12_000.0 < verdict.most
    assert sum(verdict.shares.values()) == pytest.approx(1.0)


@pytest.mark.parametrize("given", [claim(None), claim(5.0, model="nobody-1b"), claim(5.0, metric="other")])
def test_a_claim_without_figure_or_known_conditions_is_not_judged(given: Claim) -> None:
    verdict = judge(given, CHIPS["h100-sxm"])
    assert verdict.outcome == "not judged" and verdict.modelled is None and verdict.why


def test_every_claim_of_the_catalog_with_a_test_gets_a_verdict() -> None:
    verdicts = {
        (chip.chip_id, one.claim): judge(one, chip) for chip in CHIPS.values() for one in chip.claims if one.test
    }
    assert len(verdicts) > 10
    assert all(verdict.why for verdict in verdicts.values())
    outcomes = {verdict.outcome for verdict in verdicts.values()}
    assert {"reproduced", "short", "beyond physics"} <= outcomes
    assert next(v for (chip, _), v in verdicts.items() if chip == "etched-sohu").outcome == "beyond physics"
