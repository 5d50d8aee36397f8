"""How the threads of an engine's process wait for each other. It says nothing about how many there are.

OpenMP's threads wait between two parallel regions by spinning, a few hundred times in a step. Beside other busy
processes on the same cores (a load client, the control plane) a spinning thread holds the core that its partner needs.
Sleeping costs a quiet machine some of a second thread's gain and keeps a busy one's steps even. Measured on 2 cores
with SmolLM2, one sequence, median (and longest) step in ms: quiet, 40 asleep, 33 with 1,000 spins, 27 with 10,000;
with three other busy processes 40 (100) asleep, 55 (90) with 1,000 spins, 200 (560) with 10,000, 390 (1,600) as
libgomp has it.
"""

from __future__ import annotations

from collections.abc import Mapping


def thread_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """`environ` with waiting threads asleep, unless it says how they wait. For a process that has not loaded torch."""
    if "OMP_WAIT_POLICY" in environ or "GOMP_SPINCOUNT" in environ:
        return dict(environ)
    return {**environ, "OMP_WAIT_POLICY": "PASSIVE"}
