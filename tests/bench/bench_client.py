"""How many streams and tokens per second the load client takes on one core before it is the limit, and that it says so.

The client runs as in a run, pinned to one core; a server of a scripted pace runs on another. Before it measures it
prints the ceiling: the events per second of one core that does nothing but parse them. Run by hand on a quiet machine:

    python -m tests.bench.bench_client [--streams 1000] [--seconds 10] [--json]

Its status is 1 where the client is the limit at 1,000 streams and 5,000 tokens/s.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from runners.load.sse import SseParser
from tests.bench.scripted_server import TOKEN

SERVER = Path(__file__).with_name("scripted_server.py")
WANTED_TOKENS_PER_S = 5000
PACES = (6.0, 12.0, 24.0, 48.0, 96.0)
# Of different lengths, so that streams don't all end, and begin anew, at one moment.
OUTPUT_LEN = {"dist": "uniform", "min_tokens": 20, "max_tokens": 80}


@dataclass(frozen=True)
class Row:
    """What was asked of the client, and how it fared."""

    streams: int
    asked_tokens_per_s: float
    tokens_per_s: float
    failed: int
    p99_lag_s: float
    cpu_share: float
    limited_by: tuple[str, ...]
    server_cpu_share: float


def parsed_per_s(seconds: float = 0.5) -> float:
    """Events that one core takes from bytes to objects, and does nothing else."""
    event = TOKEN.split(b"\r\n")[1]
    parser, events = SseParser(), 0
    began = time.process_time()
    while (took := time.process_time() - began) < seconds:
        for data in parser.feed(event * 50):
            json.loads(data)
            events += 1
    return events / took


@contextmanager
def scripted_server(pace: float, core: int | None = None) -> Iterator[tuple[subprocess.Popen[str], str]]:
    process = subprocess.Popen([sys.executable, str(SERVER), str(pace)], stdout=subprocess.PIPE, text=True)
    if core is not None:
        os.sched_setaffinity(process.pid, {core})
    try:
        assert process.stdout is not None
        yield process, f"http://127.0.0.1:{int(process.stdout.readline())}"
    finally:
        process.kill()
        process.communicate()


def drive(streams: int, pace: float, seconds: float, cores: tuple[int, int]) -> Row:
    with scripted_server(pace, cores[1]) as (server, url):
        began_s, cpu_s = time.monotonic(), cpu_of(server.pid)
        lines = run_client(config(url, streams, seconds), cores[0])
        server_share = (cpu_of(server.pid) - cpu_s) / (time.monotonic() - began_s)
    done = lines[-1]
    start_s, end_s = done["window_start_s"], done["window_end_s"]
    records = [line["record"] for line in lines if line["type"] == "request"]
    tokens = sum(start_s <= t_s < end_s for record in records for t_s in record["token_times_s"])
    client = done["client"]
    return Row(
        streams=streams,
        asked_tokens_per_s=streams * pace,
        tokens_per_s=tokens / (end_s - start_s),
        failed=sum(record["status"] != "ok" for record in records),
        p99_lag_s=client["p99_lag_s"],
        cpu_share=client["cpu_share"],
        limited_by=tuple(client["limited_by"]),
        server_cpu_share=server_share,
    )


def config(url: str, streams: int, seconds: float) -> dict[str, Any]:
    workload = {
        "kind": "synthetic",
        "arrival": {"kind": "closed", "max_concurrency": streams},
        "input_len": {"dist": "fixed", "tokens": 128},
        "output_len": OUTPUT_LEN,
        "duration_s": seconds,
        "warmup": {"num_requests": 0},
    }
    return {
        "url": url, "model": "tiny", "workload": workload, "seed": 1, "vocab_size": 32000, "request_timeout_s": 120.0,
    }  # fmt: skip


def run_client(told: dict[str, Any], core: int) -> list[dict[str, Any]]:
    """The lines of a client that has one core to itself."""
    command = [sys.executable, "-m", "runners.load.client"]
    client = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    os.sched_setaffinity(client.pid, {core})
    assert client.stdin is not None and client.stdout is not None
    client.stdin.write(json.dumps(told).encode() + b"\n")
    client.stdin.flush()
    raw = list(client.stdout)
    if client.wait() != 0:
        raise SystemExit(f"the client ended with status {client.returncode}")
    client.stdin.close()
    return [json.loads(line) for line in raw]


def cpu_of(pid: int) -> float:
    """Seconds of CPU time that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--streams", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    cores = sorted(os.sched_getaffinity(0))[:2]
    if len(cores) < 2:
        raise SystemExit("two cores are needed: one for the client, one for the server")
    ceiling = parsed_per_s()
    if not options.json:
        print(f"ceiling: {ceiling:,.0f} events/s parsed by one core that does nothing else")
        print(" streams  asked tok/s     tok/s  failed    p99 lag    CPU  server  limit")
    rows = []
    for pace in PACES:
        row = drive(options.streams, pace, options.seconds, (cores[0], cores[1]))
        rows.append(row)
        if not options.json:
            print(
                f"{row.streams:8,} {row.asked_tokens_per_s:12,.0f} {row.tokens_per_s:9,.0f} {row.failed:7}"
                f" {row.p99_lag_s * 1000:6.1f} ms {row.cpu_share:6.1%} {row.server_cpu_share:7.1%}"
                f"  {', '.join(row.limited_by) or 'none'}"
            )
        if row.limited_by:
            break
    if options.json:
        print(json.dumps({"ceiling_events_per_s": ceiling, "rows": [asdict(row) for row in rows]}))
    held = [row for row in rows if not row.limited_by and row.asked_tokens_per_s >= WANTED_TOKENS_PER_S]
    return 0 if held else 1


if __name__ == "__main__":
    raise SystemExit(main())
