"""Whether another tool's client measures the same of one server as ours does: by less than the run-to-run noise.

GuideLLM, from PyPI in an environment of its own, and our load client send the same prompts, as many at once, to one
server: the built-in runtime without a prefix cache, or one of a scripted pace, whose own noise is next to none, so that
it shows smaller differences. Runs interleave, and take turns in going first. Figures are computed alike, from each
tool's own times of each request; GuideLLM's `inter_token_latency_ms` is TPOT here. Shown are the paired difference with
its 95 % interval, and the noise floor: how far two means of equal runs lie apart. Run by hand on a quiet machine:

    python -m tests.bench.bench_client_peers [--server scripted] [--venv FOLDER] [--repeats 7] [--json]

Without --venv it makes one in a temporary folder. Its status is 1 where a difference exceeds the noise.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import fmean, median
from typing import Any

from experiments.analysis.intervals import noise_floor, paired_interval
from runners import models
from runners.events import RequestRecord
from runners.load.plan import make_plan
from runners.load.prompts import TextPrompts
from runners.load.text import shipped_text
from runners.request_figures import e2el_s, tpot_s, ttft_s
from runners.runtime.tokenizer import Tokenizer
from runners.spec import WorkloadSpec
from tests.bench.bench_client import scripted_server

MODEL = "smollm2-135m-instruct"
PEER = "guidellm==0.8.1"
CONCURRENCY, REQUESTS, INPUT_TOKENS, OUTPUT_TOKENS = 4, 32, 96, 32
PACE_TOKENS_PER_S = 40.0
FIGURES = {"output throughput": "tok/s", "TTFT": "s", "TPOT": "s", "E2EL": "s", "input tokens": "tok"}
JUDGED = ("output throughput", "TTFT", "TPOT", "E2EL")

Figures = dict[str, float]


def workload() -> dict[str, Any]:
    return {
        "kind": "text",
        "arrival": {"kind": "closed", "max_concurrency": CONCURRENCY},
        "input_len": {"dist": "fixed", "tokens": INPUT_TOKENS},
        "output_len": {"dist": "fixed", "tokens": OUTPUT_TOKENS},
        "num_requests": REQUESTS,
        "warmup": {"num_requests": 0},
    }


def prompts(model_path: Path, seed: int) -> list[str]:
    """As our client sends them, as text."""
    tokenizer = Tokenizer.from_path(model_path)
    allowed = [token_id for token_id in range(tokenizer.vocab_size) if tokenizer.token_bytes(token_id)]
    source = TextPrompts(seed, tokenizer.encode(shipped_text(), add_special=False), allowed)
    plan = make_plan(WorkloadSpec.model_validate(workload()), seed, source)
    return [tokenizer.decode(list(request.prompt_ids)) for request in plan.requests("measured")]


@contextmanager
def served(kind: str, model_path: Path) -> Iterator[tuple[str, str]]:
    """Its address, and the name of its model."""
    if kind == "scripted":
        with scripted_server(PACE_TOKENS_PER_S) as (_, url):
            yield url, MODEL
    else:
        with runtime_server(model_path) as found:
            yield found


@contextmanager
def runtime_server(model_path: Path) -> Iterator[tuple[str, str]]:
    command = [sys.executable, "-m", "runners.runtime.server", "--model", str(model_path), "--port", "0"]
    options = ["--weights", "int8", "--threads", "1", "--num-blocks", "256", "--no-prefix-cache", "--drain-s", "0"]
    server = subprocess.Popen([*command, *options], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    try:
        assert server.stdout is not None
        ready = json.loads(server.stdout.readline())
        yield f"http://127.0.0.1:{ready['port']}", ready["model"]
    finally:
        server.terminate()
        server.wait(30)


def measure_with_ours(url: str, model: str, model_path: Path, seed: int) -> Figures:
    told = {
        "url": url, "model": model, "workload": workload(), "seed": seed, "model_path": str(model_path),
        "request_timeout_s": 600.0,
    }  # fmt: skip
    command = [sys.executable, "-m", "runners.load.client"]
    client = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert client.stdin is not None and client.stdout is not None
    client.stdin.write(json.dumps(told).encode() + b"\n")
    client.stdin.flush()
    lines = [json.loads(line) for line in client.stdout]
    client.wait()
    records = [RequestRecord.model_validate(line["record"]) for line in lines if line["type"] == "request"]
    assert len(records) == REQUESTS and all(record.status == "ok" for record in records), lines[-1]
    spans = [(record.sent_s, record.finished_s or 0.0) for record in records]
    return figures(
        spans,
        [record.output_tokens or 0 for record in records],
        [record.input_tokens or 0 for record in records],
        [ttft_s(record) or 0.0 for record in records],
        [tpot_s(record) or 0.0 for record in records],
        [e2el_s(record) or 0.0 for record in records],
    )


def measure_with_guidellm(venv: Path, url: str, model: str, texts: Sequence[str], folder: Path) -> Figures:
    data, out = folder / "prompts.jsonl", folder / "guidellm.json"
    rows = [{"prompt": text, "output_tokens_count": OUTPUT_TOKENS} for text in texts]
    data.write_text("".join(json.dumps(row) + "\n" for row in rows))
    command = [str(venv / "bin" / "guidellm"), "run", "--disable-console", "--output", f"kind=json,path={out}"]
    backend = f"kind=openai_http,target={url},model={model},request_format=/v1/completions"
    load = ["--profile", f"kind=concurrent,streams={CONCURRENCY}", "--data", f"kind=json_file,path={data}"]
    end = ["--constraint", f"kind=max_requests,count={REQUESTS}"]
    offline = os.environ | {"HF_HUB_OFFLINE": "1", "HF_DATASETS_CACHE": str(folder / "datasets")}
    subprocess.run([*command, "--backend", backend, *load, *end], check=True, capture_output=True, env=offline)
    (benchmark,) = json.loads(out.read_text())["benchmarks"]
    found = benchmark["requests"]["successful"]
    assert len(found) == REQUESTS and all(one["output_tokens"] == OUTPUT_TOKENS for one in found)
    return figures(
        [(one["request_start_time"], one["request_end_time"]) for one in found],
        [one["output_tokens"] for one in found],
        [one["prompt_tokens"] for one in found],
        [one["time_to_first_token_ms"] / 1000 for one in found],
        [one["inter_token_latency_ms"] / 1000 for one in found],
        [one["request_latency"] for one in found],
    )


def figures(
    spans: Sequence[tuple[float, float]],
    outputs: Sequence[int],
    inputs: Sequence[int],
    ttfts_s: Sequence[float],
    tpots_s: Sequence[float],
    e2els_s: Sequence[float],
) -> Figures:
    """Of one run: medians over its requests; the throughput is from the first that was sent to the last end."""
    window_s = max(end for _, end in spans) - min(begin for begin, _ in spans)
    return {
        "output throughput": sum(outputs) / window_s,
        "TTFT": median(ttfts_s),
        "TPOT": median(tpots_s),
        "E2EL": median(e2els_s),
        "input tokens": fmean(inputs),
    }


@contextmanager
def peer_environment(given: Path | None) -> Iterator[Path]:
    if given is not None:
        yield given
        return
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        subprocess.run([f"{folder}/bin/pip", "install", "--quiet", PEER], check=True)
        yield Path(folder)


def compare(ours: Sequence[Figures], theirs: Sequence[Figures]) -> dict[str, dict[str, Any]]:
    rows: dict[str, dict[str, Any]] = {}
    for name, unit in FIGURES.items():
        left, right = [one[name] for one in ours], [one[name] for one in theirs]
        interval, mean = paired_interval(left, right), fmean(left)
        floor = noise_floor([left, right])
        rows[name] = {
            "unit": unit,
            "ours": mean,
            "guidellm": fmean(right),
            "relative": interval.estimate / mean,
            "low": None if interval.low is None else interval.low / mean,
            "high": None if interval.high is None else interval.high / mean,
            "noise_floor": floor,
            "n": interval.n,
            "within_noise": floor is not None and abs(interval.estimate / mean) <= floor,
        }
    return rows


def show(rows: Mapping[str, Mapping[str, Any]]) -> None:
    print(f"{'':18} {'ours':>10} {'GuideLLM':>10} {'difference':>11} {'95 % interval':>19} {'noise floor':>12}")
    for name, row in rows.items():
        interval = "–" if row["low"] is None else f"{row['low']:+.1%} to {row['high']:+.1%}"
        floor = "–" if row["noise_floor"] is None else f"{row['noise_floor']:.1%}"
        judged = ("within the noise" if row["within_noise"] else "beyond the noise") if name in JUDGED else ""
        print(
            f"{name:18} {row['ours']:10.4g} {row['guidellm']:10.4g} {row['relative']:+11.1%} {interval:>19}"
            f" {floor:>12}  {row['unit']:6} {judged}"
        )


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--server", choices=("runtime", "scripted"), default="runtime")
    parser.add_argument("--venv", type=Path, help="an environment that has guidellm")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    model_path = models.fetch(MODEL)
    ours: list[Figures] = []
    theirs: list[Figures] = []
    with (
        peer_environment(options.venv) as venv,
        served(options.server, model_path) as (url, model),
        tempfile.TemporaryDirectory() as scratch,
    ):
        measure_with_ours(url, model, model_path, seed=0)  # the server's first requests are slower
        for repeat in range(options.repeats):
            texts = prompts(model_path, seed=repeat)
            for turn in range(2):
                if (repeat + turn) % 2 == 0:
                    ours.append(measure_with_ours(url, model, model_path, repeat))
                else:
                    theirs.append(measure_with_guidellm(venv, url, model, texts, Path(scratch)))
    rows = compare(ours, theirs)
    if options.json:
        print(json.dumps({"figures": rows, "ours": ours, "guidellm": theirs, "load_average": os.getloadavg()}))
    else:
        print(f"{options.server} server, {options.repeats} interleaved repeats, {CONCURRENCY} requests at once")
        print(f"load average {' '.join(f'{one:.1f}' for one in os.getloadavg())}")
        show(rows)
    return 0 if all(rows[name]["within_noise"] for name in JUDGED) else 1


if __name__ == "__main__":
    raise SystemExit(main())
