"""runners.agent.detect on the machine that runs the tests, held against other sources of the same facts."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import psutil
import torch

from runners.agent.detect import detect, usable_cores


def test_facts_agree_with_what_the_system_says_elsewhere() -> None:
    facts = detect()
    assert facts["cpu"]["model"] and facts["chip"] == facts["cpu"]["model"]
    assert facts["cpu"]["logical_cores"] == os.cpu_count()
    assert facts["memory"]["total_bytes"] == psutil.virtual_memory().total
    assert facts["memory"]["usable_bytes"] <= facts["memory"]["total_bytes"]
    assert facts["python"] == ".".join(map(str, sys.version_info[:3]))
    assert facts["packages"]["torch"] == torch.__version__


def test_instruction_sets_agree_with_torchs_own_detection() -> None:
    found = detect()["cpu"]["instruction_sets"]
    assert ("avx2" in found) == torch.cpu._is_avx2_supported()
    assert ("avx512f" in found) == torch.cpu._is_avx512_supported()


def test_cores_respect_the_affinity_of_the_process() -> None:
    one = sorted(os.sched_getaffinity(0))[0]
    source = (
        f"import os; os.sched_setaffinity(0, {{{one}}}); from runners.agent import detect; print(detect.usable_cores())"
    )
    done = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "1"
    assert usable_cores() >= 1


def test_the_full_detection_prints_what_torch_can_compute_on() -> None:
    done = subprocess.run([sys.executable, "-m", "runners.agent.detect"], capture_output=True, check=True)
    facts = json.loads(done.stdout)
    assert facts["torch"]["version"] == torch.__version__
    assert facts["torch"]["cuda"] == torch.version.cuda
    assert len(facts["accelerators"]) == (torch.cuda.device_count() if torch.cuda.is_available() else 0)


def test_detection_itself_does_not_load_torch() -> None:
    source = "import sys; from runners.agent import detect, loop; detect.detect(); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", source]).returncode == 0
