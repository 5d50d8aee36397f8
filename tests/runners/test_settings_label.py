"""A trial's settings in a line: no longer than needed, and no two alike."""

from __future__ import annotations

from runners.display import about_of, settings_label


def test_a_path_is_shown_by_its_last_part():
    settings = {"engine.weights": "int8", "engine.prefix_cache": False}
    assert settings_label(settings) == "weights int8 · prefix_cache false"
    assert settings_label({}) == "as written"


def test_paths_that_end_alike_are_told_apart():
    pools = "placement.disaggregate"
    settings = {"chip": "a", f"{pools}.prefill.chip": "b", f"{pools}.decode.chip": "c"}
    assert settings_label(settings) == "chip a · prefill.chip b · decode.chip c"


def test_a_kind_is_shown_with_what_it_is_of():
    assert settings_label({"engine.speculation.kind": "ngram"}) == "speculation.kind ngram"
    assert settings_label({"placement.router.policy": "kv_aware"}) == "router.policy kv_aware"


def test_a_metric_without_words_of_its_own_has_none():
    assert about_of("interconnect_tax").startswith("the share of step time")
    assert about_of("ttft") == ""
