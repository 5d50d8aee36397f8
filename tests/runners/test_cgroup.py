"""runners.cgroup on the files of both versions, as kernels write them."""

from __future__ import annotations

from pathlib import Path

from runners.cgroup import cpu_quota_cores, memory_headroom_bytes, memory_limit_bytes, throttling


def write(root: Path, **files: str) -> None:
    for name, text in files.items():
        path = root / name.replace("__", "/").replace("_dot_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def test_version_2_limits_are_the_tightest_on_the_way_up(tmp_path: Path) -> None:
    write(
        tmp_path,
        cgroup_dot_controllers="cpu memory\n",
        pod__cpu_dot_max="150000 100000\n",
        pod__memory_dot_max="1073741824\n",
        pod__box__cpu_dot_max="max 100000\n",
        pod__box__memory_dot_max="max\n",
        pod__box__cpu_dot_stat="usage_usec 5\nnr_periods 40\nnr_throttled 4\nthrottled_usec 2500000\n",
    )
    membership = "0::/pod/box\n"
    assert cpu_quota_cores(tmp_path, membership) == 1.5
    assert memory_limit_bytes(tmp_path, membership) == 1 << 30
    assert throttling(tmp_path, membership) == {"periods": 40.0, "throttled_periods": 4.0, "throttled_s": 2.5}


def test_version_1_limits_are_read_from_each_controllers_tree(tmp_path: Path) -> None:
    write(
        tmp_path,
        cpu__box__cpu_dot_cfs_quota_us="200000\n",
        cpu__box__cpu_dot_cfs_period_us="100000\n",
        cpu__box__cpu_dot_stat="nr_periods 10\nnr_throttled 1\nthrottled_time 3000000000\n",
        memory__box__memory_dot_limit_in_bytes="536870912\n",
        memory__memory_dot_limit_in_bytes="9223372036854771712\n",
    )
    membership = "3:cpu:/box\n4:memory:/box\n0::/\n"
    assert cpu_quota_cores(tmp_path, membership) == 2.0
    assert memory_limit_bytes(tmp_path, membership) == 512 << 20
    assert throttling(tmp_path, membership) == {"periods": 10.0, "throttled_periods": 1.0, "throttled_s": 3.0}


def test_no_limit_is_null_and_not_a_number(tmp_path: Path) -> None:
    write(
        tmp_path,
        cpu__cpu_dot_cfs_quota_us="-1\n",
        cpu__cpu_dot_cfs_period_us="100000\n",
        memory__memory_dot_limit_in_bytes="9223372036854771712\n",
    )
    membership = "3:cpu:/\n4:memory:/\n"
    assert cpu_quota_cores(tmp_path, membership) is None
    assert memory_limit_bytes(tmp_path, membership) is None


def test_a_system_without_cgroups_has_no_limits(tmp_path: Path) -> None:
    assert cpu_quota_cores(tmp_path, "") is None
    assert memory_limit_bytes(tmp_path, "") is None
    assert throttling(tmp_path, "") is None


def test_headroom_is_the_least_limit_less_use_without_file_cache(tmp_path: Path) -> None:
    write(
        tmp_path,
        cgroup_dot_controllers="memory\n",
        pod__memory_dot_max="1000\n",
        pod__memory_dot_current="900\n",
        pod__memory_dot_stat="anon 500\ninactive_file 300\nactive_file 50\n",
        pod__box__memory_dot_max="700\n",
        pod__box__memory_dot_current="100\n",
    )
    assert memory_headroom_bytes(tmp_path, "0::/pod/box\n") == 450
    assert memory_headroom_bytes(tmp_path, "0::/elsewhere\n") is None


def test_headroom_in_version_1_counts_the_whole_trees_cache(tmp_path: Path) -> None:
    write(
        tmp_path,
        memory__box__memory_dot_limit_in_bytes="1000\n",
        memory__box__memory_dot_usage_in_bytes="800\n",
        memory__box__memory_dot_stat="inactive_file 0\ntotal_inactive_file 200\ntotal_active_file 100\n",
    )
    assert memory_headroom_bytes(tmp_path, "5:memory:/box\n") == 500
