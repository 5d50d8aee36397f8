"""What pages show of trials on chips whose vendors have not disclosed all: a band, no point and no verdict."""

from __future__ import annotations

import pytest
from control_plane import submit
from modelled_node import MODELLED, figure, finish_run, modelled_node, text_of

pytestmark = pytest.mark.django_db(transaction=True)


def test_a_speculative_trial_is_an_area_in_the_charts_and_a_band_in_the_table(browser, project, researcher, redis_url):
    modelled_node(chip_id="jalapeno")
    asked = MODELLED | {"chip": "jalapeno", "allow_speculative": True, "matrix": {}, "repeats": 1}
    experiment = submit(project, researcher, **asked)
    run = finish_run(experiment.runs.get(), redis_url)
    assert run.reasons == ["speculative_chip"]
    response = browser.get(f"/experiments/{experiment.pk}/")
    (area,) = figure(response, "tradeoff")["data"]
    assert area["fill"] == "toself" and area["name"].endswith("(modelled), speculative")
    page = text_of(response)
    assert "speculative band" in page and "areas are speculative" in page
    compared = browser.get(f"/compare/?trials={experiment.trials.get().pk}")
    assert len(figure(compared, "tradeoff")["data"]) == 1


def test_the_chart_shows_what_is_chosen_against_interactivity(browser, finished):
    page = f"/experiments/{finished.pk}/"
    response = browser.get(f"{page}?against=output_throughput_per_chip&metric=ttft")
    assert figure(response, "tradeoff")["layout"]["yaxis"]["title"]["text"].startswith("Output throughput per chip")
    text = text_of(response)
    assert '<input type="hidden" name="metric" value="ttft">' in text
    assert '<th class="num">Output throughput per chip</th>' in text
    plain = figure(browser.get(f"{page}?against=%3Cb%3E"), "tradeoff")
    assert plain["layout"]["yaxis"]["title"]["text"].startswith("Output throughput,")


def test_a_chart_says_how_many_trials_have_no_figure_for_it(browser, finished):
    for run in finished.runs.filter(trial__index=0):
        run.summary["metrics"].pop("output_throughput_per_chip")
        run.save()
    page = f"/experiments/{finished.pk}/"
    assert "1 trial without a figure" in text_of(browser.get(f"{page}?against=output_throughput_per_chip"))
    assert "without a figure" not in text_of(browser.get(page))
