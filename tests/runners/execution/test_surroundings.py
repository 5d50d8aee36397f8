"""What a run notes of its machine beside the chip: from files of the kernel, and of the environment what is listed."""

from __future__ import annotations

import json
from pathlib import Path

from runners.execution.surroundings import ENVIRONMENT, clock, numa_nodes, surroundings


def test_only_listed_variables_of_the_environment_are_noted() -> None:
    found = surroundings({"OMP_NUM_THREADS": "2", "AWS_SECRET_ACCESS_KEY": "hidden", "HF_TOKEN": "hidden"})
    assert found["environment"] == {"OMP_NUM_THREADS": "2"}
    assert "hidden" not in json.dumps(found)
    assert not [name for name in ENVIRONMENT if "TOKEN" in name or "SECRET" in name or "PASSWORD" in name]


def test_this_machine_has_a_kernel_and_cpus() -> None:
    found = surroundings({})
    assert found["kernel"] and found["cpus"]


def test_numa_nodes_and_clocks_are_as_the_kernel_lists_them(tmp_path: Path) -> None:
    for node, cpus in ((0, "0-3"), (1, "4-7")):
        (tmp_path / f"node{node}").mkdir()
        (tmp_path / f"node{node}" / "cpulist").write_text(f"{cpus}\n")
    assert numa_nodes(tmp_path) == {"node0": "0-3", "node1": "4-7"}
    for cpu, governor in ((0, "performance"), (1, "powersave")):
        folder = tmp_path / f"cpu{cpu}" / "cpufreq"
        folder.mkdir(parents=True)
        (folder / "scaling_governor").write_text(governor)
        (folder / "scaling_min_freq").write_text("800000\n")
        (folder / "scaling_max_freq").write_text("3500000\n")
    assert clock(tmp_path) == {
        "governors": ["performance", "powersave"], "min_khz": 800_000, "max_khz": 3_500_000, "turbo": None,
    }  # fmt: skip


def test_a_machine_that_tells_nothing_has_null_for_it(tmp_path: Path) -> None:
    assert numa_nodes(tmp_path) is None and clock(tmp_path) is None
