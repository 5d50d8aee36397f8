"""How fast a large run is exported, and how much memory that takes of the web process. Run by hand:

python -m pytest tests/bench/bench_exports.py -s -m bench
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import httpx
import psutil
import pytest
from django.db import connection

from experiments.exports.formats import FORMATS
from experiments.models import Attempt
from labsite.accounts.models import Role

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "experiments"))
from api_client import member
from node_events import claimed, step
from web_process import web_process

pytestmark = [pytest.mark.bench, pytest.mark.django_db(transaction=True), pytest.mark.timeout(1800)]

ROWS = 1_000_000
MOST_GROWTH_BYTES = 200 * 1024 * 1024


def fill(attempt: Attempt) -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO experiments_step (run_id, attempt, seq, data, index, start_s)"
            " SELECT %s, %s, n, %s::jsonb || jsonb_build_object('index', n, 'start_s', n * 0.01), n, n * 0.01"
            " FROM generate_series(1, %s) AS n",
            [attempt.run_id, attempt.number, step(0).model_dump_json(), ROWS],
        )


def test_a_million_rows_leave_in_little_memory(process_env: dict[str, str], tmp_path: Path) -> None:
    attempt = claimed()
    fill(attempt)
    caller = member(attempt.run.experiment.project, Role.VIEWER)
    with web_process(process_env, tmp_path / "web.log") as web:
        address = f"http://{web.host}/api/v1/runs/{attempt.run_id}/export/steps"
        server = process_at(web.port)
        for form in FORMATS:
            httpx.get(f"http://{web.host}/health")
            before = most = server.memory_info().rss
            started, size = time.perf_counter(), 0
            headers = {"Authorization": f"Bearer {caller.token}"}
            with httpx.stream("GET", f"{address}.{form}?attempt=1", headers=headers, timeout=60) as response:
                for part in response.iter_raw(1 << 20):
                    size += len(part)
                    most = max(most, server.memory_info().rss)
            took_s = time.perf_counter() - started
            grown = (most - before) / 2**20
            print(
                f"\n{form:8} {ROWS / took_s:9,.0f} rows/s, {size / 2**20:6.1f} MiB sent, {grown:5.1f} MiB more memory"
            )
            assert most - before < MOST_GROWTH_BYTES


def process_at(port: int) -> psutil.Process:
    """The child of ours that listens there."""
    children = psutil.Process().children(recursive=True)
    (found,) = [child for child in children if any(one.laddr.port == port for one in child.net_connections("tcp"))]
    return found
