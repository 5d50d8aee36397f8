"""The chip catalog's table and a chip's page: every record is drawn, with its sources, claims and versions."""

from __future__ import annotations

import subprocess
import sys

import pytest
from control_plane import person, submit, team
from django.test import Client
from modelled_node import figure, finish_run, modelled_node, text_of

from experiments.chip_claims import claims_of
from experiments.chip_facts import groups_of, with_unit
from experiments.figures.roofline import roofline_figure
from hardware.models import Chip
from hardware.services import edit_chip, load_catalog
from labsite.accounts.models import User
from runners.chips import load_catalog as read_catalog
from runners.chips import record_for_run

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("redis_url")]
RECORDS = {record.chip_id: record for record in read_catalog()}


@pytest.fixture
def browser() -> Client:
    client = Client()
    client.force_login(person(team()))
    return client


def test_nobody_sees_chips_without_signing_in() -> None:
    for path in ("/chips/", "/chips/h100-sxm/"):
        assert Client().get(path)["Location"].startswith("/accounts/login/")


def test_the_table_is_filtered_sorted_and_paged_by_its_address(browser: Client) -> None:
    load_catalog()
    page = text_of(browser.get("/chips/?vendor=Cerebras"))
    assert "Cerebras WSE-3 (CS-3 system)" in page and "H100 SXM5" not in page
    largest = browser.get("/chips/?sort=-capacity_bytes")
    assert largest.context["rows"][0]["chip"].chip_id == "majestic-prometheus"
    assert "128 TB" in text_of(largest)
    assert all(row["record"].dense_tflops["nvfp4"] for row in browser.get("/chips/?format=nvfp4").context["rows"])
    undisclosed = browser.get("/chips/?speculative=true").context["rows"]
    assert {row["chip"].chip_id for row in undisclosed} >= {"jalapeno", "etched-sohu"}
    seen, address = [], "/chips/?sort=-tdp_w"
    while address:
        found = browser.get(address)
        seen += [row["chip"].chip_id for row in found.context["rows"]]
        following = found.context["following"]
        address = f"/chips/{following}" if following else ""
    assert sorted(seen) == sorted(RECORDS)
    assert "No chip is like that" in text_of(browser.get("/chips/?search=abacus"))
    assert "Left out of the address: format" in text_of(browser.get("/chips/?format=fp3"))


def test_every_chip_has_its_page(browser: Client) -> None:
    load_catalog()
    for chip_id, record in RECORDS.items():
        response = browser.get(f"/chips/{chip_id}/")
        assert response.status_code == 200
        page = text_of(response)
        assert record.name.split(" (")[0].replace("&", "&amp;") in page
        assert page.count("not one that a model can judge") == sum(claim.test is None for claim in record.claims)


def test_a_chips_page_says_each_figure_with_its_source(browser: Client) -> None:
    load_catalog()
    page = text_of(browser.get("/chips/h100-sxm/"))
    for part in ("989 TFLOP/s", "3.35 TB/s", "80.0 GB", "10.0 µs", "700 W", "1.30 $/h", "450 GB/s",
                 "medium: a good source", "the link alone takes 1 to 2 us", "version 1",
                 "from the catalog’s file", "77.0 µs"):  # fmt: skip
        assert part in page, part
    assert figure(browser.get("/chips/h100-sxm/"), "roofline")["data"]


def test_an_undisclosed_chip_says_what_it_takes_to_run_it(browser: Client) -> None:
    load_catalog()
    page = text_of(browser.get("/chips/jalapeno/"))
    assert "Its vendor has not disclosed" in page and "allow_speculative: true" in page
    assert "a band from 0.500 to 2.00 times the stand-ins" in page
    assert "No figure is disclosed" in page
    mixed = text_of(browser.get("/chips/composite-rubin-lpx/"))
    assert "Is a system of unlike chips" in mixed and "/chips/vr-nvl72/" in mixed


def test_an_edited_chip_keeps_its_older_versions_pages(browser: Client) -> None:
    load_catalog()
    first = Chip.objects.get(chip_id="h100-sxm")
    edit_chip(first, {**first.record, "tdp_w": 650}, by=User.objects.create_superuser("editor"))
    now, before = (text_of(browser.get(f"/chips/h100-sxm/{query}")) for query in ("", "?version=1"))
    assert "650 W" in now and "edited by editor" in now
    assert "700 W" in before and "version 1, not the current one" in before
    assert browser.get("/chips/h100-sxm/?version=9").status_code == 404
    assert browser.get("/chips/abacus/").status_code == 404


def test_a_chip_names_the_experiments_that_used_it_to_their_readers_alone(redis_url: str) -> None:
    modelled_node()
    project = team()
    finish_run(submit(project, chip="h100-sxm", name="Mine alone").runs.get(), redis_url)
    for member, seen in ((person(project), True), (person(team()), False)):
        client = Client()
        client.force_login(member)
        assert ("Mine alone" in text_of(client.get("/chips/h100-sxm/"))) is seen


# Figures and claims


def test_a_claim_stands_beside_what_the_model_says_of_it(browser: Client) -> None:
    load_catalog()
    page = text_of(browser.get("/chips/etched-sohu/"))
    assert "500 000 tokens/s" in page.replace("\u2009", " ")
    assert "Faster than physics allows" in page and "at 100 % of its peaks" in page and "at most" in page


def test_a_chip_that_works_from_its_sram_is_judged_by_it() -> None:
    verdicts = [one.verdict for one in claims_of(RECORDS["dmatrix-corsair"]) if one.verdict]
    assert len(verdicts) == 2 and all(one.outcome != "beyond physics" for one in verdicts)


@pytest.mark.parametrize("chip_id", ["h200-sxm", "wse3", "tensordyne-napier", "groq3-lpx", "etched-sohu"])
def test_the_claims_that_people_ask_about_are_judged(chip_id: str) -> None:
    judged = [one for one in claims_of(RECORDS[chip_id]) if one.verdict and one.verdict.outcome != "not judged"]
    assert judged and all(one.modelled for one in judged)


def test_judging_needs_no_torch() -> None:
    source = "import sys, experiments.chip_claims; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", source], check=False).returncode == 0


def test_a_roof_bends_where_the_peak_meets_the_bandwidth() -> None:
    drawn = roofline_figure(RECORDS["h100-sxm"])
    assert drawn is not None
    roof = next(trace for trace in drawn["data"] if trace["name"] == "bf16")
    points = dict(zip(roof["x"], roof["y"], strict=True))
    ridge = 989e12 / 3.35e12
    assert points[ridge] == pytest.approx(989)
    assert all(y == pytest.approx(min(989, 3.35 * x)) for x, y in points.items())


def test_stand_ins_are_drawn_as_a_band_and_nothing_disclosed_is() -> None:
    banded = roofline_figure(record_for_run(RECORDS["jalapeno"], True))
    assert banded is not None and any(trace.get("fill") == "toself" for trace in banded["data"])
    plain = roofline_figure(RECORDS["wse3"])
    assert plain is not None and not any(trace.get("fill") for trace in plain["data"])
    assert roofline_figure(RECORDS["qualcomm-ai200"]) is None


@pytest.mark.parametrize("record", RECORDS.values(), ids=lambda record: record.chip_id)
def test_every_figure_of_a_record_is_in_one_group(record) -> None:
    shown = [one for group in groups_of(record) for one in group.figures]
    assert len(shown) == len(record.figures())
    assert all(one.source is not None and one.value != "–" for one in shown)


def test_figures_are_written_with_their_units() -> None:
    written = {
        "memory.capacity_bytes": (1.28e14, "128 TB"),
        "memory.sram_bytes": (5e7, "50.0 MB"),
        "dense_tflops.int8": (1979.0, "1.98 POP/s"),
        "dense_tflops.fp32": (0.083, "83.0 GFLOP/s"),
        "interconnect.latency_s": (1e-5, "10.0 µs"),
        "interconnect.domain_chips": (8, "8.00"),
        "ownership.all_in_w": (1730, "1 730 W"),
        "efficiency.gemm_fraction.bf16": (0.79, "0.790"),
    }
    for path, (value, text) in written.items():
        assert with_unit(path, value).replace("\u00a0", " ").replace("\u2009", " ") == text
