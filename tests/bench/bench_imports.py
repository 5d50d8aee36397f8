"""What memory reading, importing and writing foreign files takes, at 10,000, 100,000 and 1,000,000 requests.

Each in a process of its own, whose largest resident set is printed; that of a million must be near that of ten
thousand. Run by hand: pytest -m bench tests/bench/bench_imports.py -s
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.bench

REQUESTS = (10_000, 100_000, 1_000_000)
MIB = 1024
MOST_GROWTH_MIB = 40

WRITE = """
import sys
from pathlib import Path
from runners.events import RequestRecord
from runners.interchange.writing import vllm_bytes

def records():
    for i in range({n}):
        sent = i * 0.01
        times = [sent + 0.2 + 0.01 * k for k in range(8)]
        yield RequestRecord(index=i, request_id=f"r{{i}}", phase="measured", scheduled_s=sent, sent_s=sent,
                            first_token_s=times[0], token_times_s=times, token_counts=[1] * 8, finished_s=times[-1],
                            input_tokens=100, output_tokens=8, status="ok")

metrics = {{name: {{"value": {n}, "percentiles": {{}}}} for name in ("requests_ok", "window", "request_throughput")}}
about = {{"model_id": "m", "request_rate": "inf", "max_concurrency": 8, "burstiness": 1.0}}
with open({path!r}, "wb") as file:
    for piece in vllm_bytes(records, about, metrics):
        file.write(piece)
"""
READ = """
from pathlib import Path
from runners.interchange.reading import read_file

(run,) = read_file(Path({path!r})).runs()
assert sum(1 for _ in run.records()) == {n}
"""
BUNDLE = """
from pathlib import Path
from runners.interchange.bundle import Bundle, bundle_bytes

line = b'{{"seq": 1, "kind": "request", "token_times_s": [0.1234567, 0.2345678, 0.3456789], "request_id": "%d"}}\\n'
members = [("experiment.json", [b"{{}}"]), ("runs/0/request.jsonl", (line % (i * 7919) for i in range({n})))]
with open({path!r}, "wb") as file:
    for piece in bundle_bytes("lab", members):
        file.write(piece)
with Bundle(Path({path!r})) as bundle:
    assert sum(1 for _ in bundle.lines(0, "request")) == {n}
"""
# ru_maxrss would begin with that of the process that started this one
PEAK = """
print(next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM")))
"""


def peak_mib(program: str, n: int, path: Path) -> float:
    done = subprocess.run(
        [sys.executable, "-c", program.format(n=n, path=str(path)) + PEAK], capture_output=True, text=True, check=True
    )
    return int(done.stdout) / MIB


@pytest.mark.timeout(1800)
def test_memory_does_not_grow_with_the_requests(tmp_path: Path) -> None:
    for name, program in (("write vLLM", WRITE), ("read vLLM", READ), ("bundle, out and in", BUNDLE)):
        peaks = []
        for n in REQUESTS:
            path = tmp_path / f"{'bundle' if program is BUNDLE else 'vllm'}-{n}"
            peaks.append(peak_mib(program, n, path))
            print(f"{name:20} {n:>9,} requests: {peaks[-1]:6.1f} MiB at most, file {path.stat().st_size / 1e6:8.1f} MB")
        assert peaks[-1] - peaks[0] < MOST_GROWTH_MIB
