"""The survey of a machine: detected at every start, measured once, measured again when the chip is another."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from running_lab import WaitFor

from runners.agent.detect import detect
from runners.agent.home import NodeHome
from runners.agent.survey import CEILINGS_FILE, Survey

Conduct = Callable[..., Survey]


@pytest.fixture
def home(tmp_path: Path) -> NodeHome:
    return NodeHome(tmp_path)


@pytest.fixture
def conduct(home: NodeHome, wait_for: WaitFor) -> Conduct:
    def run(measure: bool = False) -> Survey:
        survey = Survey(home, measure)

        def polled() -> bool:
            survey.poll()
            return survey.done

        wait_for(polled, 120)
        return survey

    return run


def known(**changes: Any) -> dict[str, Any]:
    cpu = detect()["cpu"]
    return {"chip": cpu["model"], "cores": cpu["cores"], "made_up": True} | changes


def test_a_new_machine_is_measured_and_the_figures_are_kept(home: NodeHome, conduct: Conduct) -> None:
    survey = conduct()
    assert survey.facts is not None and survey.facts["torch"]["version"]
    assert survey.ceilings is not None and survey.ceilings["matmul"]["by_precision"]["fp32"]["median"] > 0
    assert home.read_json(CEILINGS_FILE) == survey.ceilings
    assert conduct().ceilings == survey.ceilings


def test_known_ceilings_are_not_measured_again(home: NodeHome, conduct: Conduct) -> None:
    home.write_json(CEILINGS_FILE, known())
    survey = conduct()
    assert survey.facts is not None and survey.ceilings == known()


@pytest.mark.parametrize(
    ("kept", "asked"), [(known(chip="another chip"), False), (known(cores=999), False), (known(), True)]
)
def test_another_chip_or_an_operators_wish_measures_again(
    home: NodeHome, conduct: Conduct, kept: dict[str, Any], asked: bool
) -> None:
    home.write_json(CEILINGS_FILE, kept)
    survey = conduct(measure=asked)
    assert survey.ceilings is not None and "made_up" not in survey.ceilings


def test_a_survey_that_fails_leaves_the_node_without_figures(conduct: Conduct, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.executable", "/bin/false")
    survey = conduct()
    assert survey.facts is None and survey.ceilings is None
