"""How the threads of an engine's process wait for each other. It says nothing about how many there are.

OpenMP's threads wait between two parallel regions, a few hundred times in a step. Long spinning takes the core that
another process (a load client, the control plane) or the spinner's own partner needs; falling asleep at once costs a
wake-up each time. A short spin gets most of both. Measured on 2 cores with SmolLM2 int8 at 8 sequences, median ms a
step, on a quiet machine and beside one busy process: asleep 57 and 59, 1,000 spins 43 and 68, 2,500 spins 37 and 99,
5,000 spins 32 and 140, 20,000 spins 32 and 325. On a node of its own an operator may set GOMP_SPINCOUNT=20000.
"""

from __future__ import annotations

from collections.abc import Mapping

SPINS = "1000"


def thread_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """`environ` with a short spin before a waiting thread sleeps, unless it says how threads wait. For a process that
    has not loaded torch."""
    if "OMP_WAIT_POLICY" in environ or "GOMP_SPINCOUNT" in environ:
        return dict(environ)
    return {**environ, "GOMP_SPINCOUNT": SPINS}
