"""Every metric that the README lists is there, under that name and no other, and counts what it says."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families
from server_process import ServerProcess, wait_until
from tiny_chat_model import write_tiny_chat_model

from runners.runtime import serving

ROW = re.compile(r"^\| `(lab:\w+)` \| (\w+) \|", re.MULTILINE)


def documented() -> dict[str, str]:
    """Kind by name, from the README beside the server."""
    (folder,) = serving.__path__
    return dict(ROW.findall((Path(folder) / "README.md").read_text()))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    model = write_tiny_chat_model(tmp_path_factory.mktemp("model") / "tiny.gguf")
    options = ("--num-blocks", "64", "--threads", "1", "--max-num-seqs", "2", "--block-size", "16")
    with ServerProcess(model, *options) as process:
        yield process


def value_of(server: ServerProcess, name: str, **labels: str) -> float:
    """The sum over all samples of that name with those labels."""
    return sum(
        sample.value
        for family in text_string_to_metric_families(server.get("/metrics").text)
        for sample in family.samples
        if sample.name == f"lab:{name}" and labels.items() <= sample.labels.items()
    )


def test_what_is_documented_is_what_is_shown(server: ServerProcess) -> None:
    families = list(text_string_to_metric_families(server.get("/metrics").text))
    shown = {f"{family.name}_total" if family.type == "counter" else family.name: family.type for family in families}
    assert shown == documented()


COUNTS = {
    "prompt_tokens_total": 2 * 40.0,
    "generation_tokens_total": 2 * 6.0,
    "prefix_cache_queries_total": 2 * 40.0,
    "prefix_cache_hits_total": 32.0,
    "time_to_first_token_seconds_count": 2.0,
    "inter_token_latency_seconds_count": 2 * 5.0,
    "request_time_per_output_token_seconds_count": 2.0,
    "e2e_request_latency_seconds_count": 2.0,
    "request_queue_time_seconds_count": 2.0,
    "request_prefill_time_seconds_count": 2.0,
    "request_decode_time_seconds_count": 2.0,
    "request_inference_time_seconds_count": 2.0,
    "request_prompt_tokens_sum": 2 * 40.0,
    "request_generation_tokens_sum": 2 * 6.0,
    "request_params_n_sum": 2.0,
    "request_params_max_tokens_sum": 2 * 6.0,
    # The second prompt computes what the cache lacks: 40 - 32 tokens. A last token is never computed.
    "iteration_tokens_total_sum": 40.0 + 8.0 + 2 * 5.0,
    "iteration_tokens_total_count": 2 * 6.0,
    "steps_total": 2 * 6.0,
    "num_preemptions_total": 0.0,
}


def test_two_requests_are_counted_token_by_token(server: ServerProcess) -> None:
    before = {name: value_of(server, name) for name in COUNTS}
    ended = value_of(server, "request_success_total", finished_reason="length")
    prompt = list(range(60, 100))
    for _ in range(2):
        lab = server.complete(prompt, max_tokens=6, ignore_eos=True).json["lab"]
    assert {name: value_of(server, name) - value for name, value in before.items()} == COUNTS
    assert value_of(server, "request_success_total", finished_reason="length") - ended == 2
    assert value_of(server, "request_decode_time_seconds_sum") >= lab["finished_s"] - lab["prefill_done_s"] > 0


def test_blocks_add_up_to_those_that_the_cache_has(server: ServerProcess) -> None:
    server.complete("fill a block or two of the cache", max_tokens=4, ignore_eos=True)
    kept = {name: value_of(server, f"kv_{name}_blocks") for name in ("used", "cached", "free")}
    assert sum(kept.values()) == 64
    assert kept["used"] == 0
    assert kept["cached"] > 0
    assert value_of(server, "cache_config_info", num_blocks="64", block_size="16", enable_prefix_caching="true") == 1


def test_what_runs_waits_and_is_given_up_is_counted(server: ServerProcess) -> None:
    aborted = value_of(server, "request_success_total", finished_reason="abort")
    streams = [server.open_stream(f"number {i}", max_tokens=500, ignore_eos=True) for i in range(3)]
    wait_until(lambda: value_of(server, "num_requests_running") == 2 and value_of(server, "num_requests_waiting") == 1)
    assert 0 < value_of(server, "kv_cache_usage_perc") <= 1
    for stream in streams:
        stream.hang_up()
    wait_until(lambda: value_of(server, "num_requests_running") == value_of(server, "num_requests_waiting") == 0)
    wait_until(lambda: value_of(server, "request_success_total", finished_reason="abort") - aborted == 3)
