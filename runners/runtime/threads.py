"""How the threads of an engine's process wait for each other. It says nothing about how many there are.

OpenMP's threads wait between two parallel regions by spinning, a few hundred times in a step. Beside other busy
processes on the same cores (a load client, the control plane) a spinning thread holds the core that its partner needs.
Sleeping costs some of a second thread's gain while the machine is quiet, and keeps steps even while it is not.
Measured on 2 cores shared with other work (load average 3 to 4.6), SmolLM2 int8, one sequence, three interleaved
rounds; median step in ms, and the longest: asleep 39 to 58 (168), 1,000 spins 33 to 58 (83), 10,000 spins 27 to 301
(562), as libgomp has it 34 to 396 (2,072). CPU time a step: asleep 39 to 43 ms, 1,000 spins 48 to 55 ms.
"""

from __future__ import annotations

from collections.abc import Mapping


def thread_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """`environ` with waiting threads asleep, unless it says how they wait. For a process that has not loaded torch."""
    if "OMP_WAIT_POLICY" in environ or "GOMP_SPINCOUNT" in environ:
        return dict(environ)
    return {**environ, "OMP_WAIT_POLICY": "PASSIVE"}
