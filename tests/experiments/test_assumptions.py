"""Prices and power in an address: on the pages of a comparison and of an experiment, and over the API."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import urlencode

import pytest
from api_client import member, refused
from control_plane import submit, team
from django.test import Client
from modelled_node import finish_run, modelled_node, text_of

from experiments.assumptions import BadAssumption, assumed_in, kept_fields, read_assumed
from experiments.models import Run
from labsite.accounts.models import Role

WORKLOAD: dict[str, Any] = {
    "kind": "synthetic",
    "input_len": {"dist": "fixed", "tokens": 32},
    "output_len": {"dist": "fixed", "tokens": 16},
    "arrival": {"kind": "closed", "max_concurrency": 8},
    "num_requests": 32,
}


def test_what_is_assumed_is_read_by_node_and_empty_fields_count_as_not_given() -> None:
    asked = {"usd_per_hour[a]": "2.5", "watts[a]": " ", "watts[b-1]": "300", "x": "ttft"}
    found = assumed_in(asked)
    assert (found.usd_per_hour, found.watts) == ({"a": 2.5}, {"b-1": 300.0})
    assert kept_fields(asked) == {"usd_per_hour[a]": "2.5", "watts[b-1]": "300"}
    assert not assumed_in({"x": "ttft"})


@pytest.mark.parametrize("value", ["-1", "nan", "inf", "two", "1e9"])
def test_what_is_no_price_is_refused_by_its_field(value: str) -> None:
    with pytest.raises(BadAssumption, match=r"usd_per_hour\[a\].*allowed: a number from 0 to 1,000,000"):
        assumed_in({"usd_per_hour[a]": value})
    found, fault = read_assumed({"usd_per_hour[a]": value})
    assert not found and "usd_per_hour[a]" in fault
    with pytest.raises(BadAssumption, match=r"watts\[a\].*above 0"):
        assumed_in({"watts[a]": "0"})


@pytest.mark.django_db(transaction=True)
def test_a_view_computes_cost_and_energy_by_them_and_says_assumed_everywhere(redis_url: str) -> None:
    modelled_node()
    run: Run = finish_run(submit(team(), chip="h100-sxm", workload=WORKLOAD).runs.get(), redis_url)
    reader = member(run.experiment.project, Role.VIEWER)
    asked = urlencode({"usd_per_hour[modelled]": "7.2", "watts[modelled]": "500"})
    told = json.loads(reader.get(f"/compare?experiment={run.experiment_id}&{asked}").content)
    metrics = told["trials"][0]["metrics"]
    assert metrics["mean_power"]["median"] == pytest.approx(500)
    assert metrics["mean_power"]["assumed"] and metrics["mean_power"]["source"] == "assumed"
    throughput = metrics["output_throughput"]["median"]
    assert metrics["cost_per_million_output_tokens"]["median"] == pytest.approx(7.2 / 3600 / throughput * 1e6)
    assert not metrics["output_throughput"]["assumed"]
    stored = json.loads(reader.get(f"/compare?experiment={run.experiment_id}").content)["trials"][0]["metrics"]
    assert stored["mean_power"]["source"] == "modelled" and not stored["mean_power"]["assumed"]
    refused(reader.get(f"/compare?experiment={run.experiment_id}&watts[modelled]=much"), 400)

    assert reader.user is not None
    browser = Client()
    browser.force_login(reader.user)
    for address in (
        f"/compare/?trials={run.trial_id}&figures=all",
        f"/experiments/{run.experiment_id}/?against=cost_per_million_output_tokens",
    ):
        plain, page = text_of(browser.get(address)), text_of(browser.get(f"{address}&{asked}"))
        assert "Prices and power of this view" in plain and "tag assumed" not in plain
        assert '<span class="tag assumed">assumed</span>' in page
        assert 'name="usd_per_hour[modelled]" value="7.2"' in page
    compared = text_of(browser.get(f"/compare/?trials={run.trial_id}&x=tpot&{asked}"))
    # the form of axes keeps the prices, that of prices the axes
    assert '<input type="hidden" name="watts[modelled]" value="500">' in compared
    assert '<input type="hidden" name="x" value="tpot">' in compared
    faulty = text_of(browser.get(f"/compare/?trials={run.trial_id}&watts[modelled]=much"))
    assert "watts[modelled]" in faulty and 'role="alert"' in faulty
