"""Whether what an attempt said is stored whole, once each, and what its run's results were made of."""

from __future__ import annotations

from typing import Any

from whole_lab import WholeLab

TABLES = ("requestrecord", "sample", "step", "statusrecord", "logline")


def load(duration_s: float) -> dict[str, Any]:
    return {
        "kind": "synthetic",
        "input_len": {"dist": "fixed", "tokens": 16},
        "output_len": {"dist": "fixed", "tokens": 8},
        "arrival": {"kind": "closed", "max_concurrency": 2},
        "duration_s": duration_s,
        "warmup": {"num_requests": 1},
    }


def document(duration_s: float, **changes: Any) -> dict[str, Any]:
    """A measured run that takes its time."""
    return {
        "name": "In trouble",
        "model": "smollm2-135m-instruct",
        "nodes": {"names": ["local"]},
        "engine": {"threads": 1},
        "workload": load(duration_s),
        "repeats": 1,
        "budget": {"max_run_seconds": 900},
        **changes,
    }


def start_run(lab: WholeLab, duration_s: float, **changes: Any) -> int:
    """A run that is under way: some of what it measured is stored."""
    (run_id,) = lab.submit(document(duration_s, **changes))
    wait_until_measuring(lab, run_id, 1)
    return run_id


def wait_until_measuring(lab: WholeLab, run_id: int, attempt: int) -> None:
    def measures() -> bool:
        run = lab.run(run_id)
        assert run["state"] in ("queued", "assigned", "running"), (run["state"], run["reason"])
        return samples_stored(lab, run_id, attempt) > 3

    lab.wait(measures, 240)


def samples_stored(lab: WholeLab, run_id: int, attempt: int) -> int:
    sql = "SELECT count(*) FROM experiments_sample WHERE run_id = %s AND attempt = %s AND data->>'phase' = 'measured'"
    ((count,),) = lab.rows(sql, run_id, attempt)
    return int(count)


def wait_until_judged(lab: WholeLab, run_id: int) -> dict[str, Any]:
    """The run, once it has ended and its results are kept."""
    lab.wait(lambda: lab.run(run_id)["valid"] is not None, 240)
    return lab.run(run_id)


def assert_succeeded(lab: WholeLab, run_id: int, attempt: int) -> None:
    """It succeeded at that attempt, all of which is stored, each event once, and its results are of that attempt."""
    run = wait_until_judged(lab, run_id)
    assert run["state"] == "succeeded", run["reason"]
    assert [one["number"] for one in run["attempts"]] == list(range(1, attempt + 1))
    assert ("retried" in run["reasons"]) == (attempt > 1)
    report = assert_all_stored_once(lab, run_id, attempt)
    requests = lab.items(run_id, "requests")
    # They are numbered as they are sent, and stored as they end.
    assert sorted(one["index"] for one in requests) == list(range(report["client"]["sent"]))
    assert {one["status"] for one in requests} == {"ok"}
    measured = [one for one in requests if one["phase"] == "measured"]
    assert run["summary"]["metrics"]["requests_ok"]["value"] == len(measured) > 0


def assert_all_stored_once(lab: WholeLab, run_id: int, attempt: int) -> dict[str, Any]:
    """Events 1 to N of the attempt are stored, N being what its report says. Gives the report."""
    one = "SELECT seq FROM experiments_{} WHERE run_id = %s AND attempt = %s"
    sql = " UNION ALL ".join(one.format(table) for table in TABLES)
    stored = sorted(seq for (seq,) in lab.rows(sql, *[run_id, attempt] * len(TABLES)))
    reports = lab.rows(
        "SELECT seq, data FROM experiments_statusrecord WHERE run_id = %s AND attempt = %s AND kind = 'report'",
        run_id, attempt,
    )  # fmt: skip
    ((last, report),) = reports
    assert stored == list(range(1, last + 1))
    assert report["events"] == last
    found: dict[str, Any] = report
    return found
