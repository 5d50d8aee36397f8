"""What a published figure counts, by its unit and its metric: from a step's seconds to the row's own number.

A unit is a numerator and denominators, such as "tokens/s/gpu" or "J/token (GPU only)"; what stands in brackets is a
remark, and "input+output" in one says that prompt tokens count too. Nothing here knows a chip or a model.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from runners.modelled.rows import CannotPredict, Quantity, Row

TIMES = {"s": 1.0, "ms": 1e3, "us": 1e6, "µs": 1e6}
JOULES = {"j": 1.0, "mj": 1e3}
TOKENS, REQUESTS = ("token", "tokens", "tok"), ("request", "requests", "req", "queries", "query", "samples", "sample")
SECONDS = {"s": 1.0, "sec": 1.0, "second": 1.0, "min": 60.0, "minute": 60.0}
CHIPS, USERS, WHOLE = ("gpu", "chip", "accelerator", "card"), ("user",), ("node", "system", "server")
ALLOWED = {
    "latency": "ms, s or us",
    "ttft": "ms, s or us",
    "energy": "J/token, mJ/token or J/request",
    "rate": "tokens/s, requests/s, and either of them per user, per gpu or per node",
    "prefill": "tokens/s, and that per gpu or per node",
}


@dataclass(frozen=True, slots=True)
class Unit:
    """`factor` is how many of the unit one second, joule, or token a second is; `of` says what is counted, `per` what
    it is divided by beside time; `with_prompt` that prompt tokens count as output does."""

    factor: float
    of: str = "token"
    per: str = "system"
    with_prompt: bool = False


def unit_of(row: Row, quantity: Quantity) -> Unit:
    """Raises CannotPredict for a unit that is none of the quantity's."""
    text = row["unit"].lower()
    parts = [part.strip() for part in re.sub(r"\(.*?\)", "", text).split("/")]
    if quantity in ("latency", "ttft"):
        found = Unit(TIMES[parts[0]]) if len(parts) == 1 and parts[0] in TIMES else None
    elif quantity == "energy":
        found = _energy(parts)
    else:
        found = _rate(parts, text, row["metric"])
    if found is None or (quantity == "prefill" and (found.of != "token" or found.per == "user")):
        raise CannotPredict(f"unit: {row['unit']!r} is not one of {row['metric']}; allowed: {ALLOWED[quantity]}")
    return found


def _energy(parts: list[str]) -> Unit | None:
    if len(parts) != 2 or parts[0] not in JOULES:
        return None
    counted = _counted(parts[1].removeprefix("output "))
    return Unit(JOULES[parts[0]], counted) if counted else None


def _rate(parts: list[str], text: str, metric: str) -> Unit | None:
    if len(parts) not in (2, 3) or parts[1] not in SECONDS:
        return None
    # One source labels as queries what are tokens, and says so.
    counted = "token" if "looks like tokens/s" in text else _counted(parts[0].removeprefix("output "))
    per = "system" if len(parts) == 2 else _per(parts[2])
    if "per_gpu" in metric and per == "system":
        per = "chip"
    if metric == "decode_tokens_per_s" and per == "system":
        per = "user"
    if counted is None or per is None:
        return None
    prompt = metric.startswith("total_throughput") or "input+output" in text
    return Unit(SECONDS[parts[1]], counted, per, prompt)


def _counted(word: str) -> str | None:
    return "token" if word in TOKENS else "request" if word in REQUESTS else None


def _per(word: str) -> str | None:
    return "chip" if word in CHIPS else "user" if word in USERS else "system" if word in WHOLE else None
