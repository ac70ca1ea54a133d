"""How many cores may be used, told from made-up files of control groups."""

import os
from pathlib import Path

import pytest

from turbosvm import cores
from turbosvm.cores import usable_cores
from turbosvm.experiment.resolve import resolve_config
from turbosvm.experiment.sweep import threads_for


def system(root: Path, groups: str, **files: str) -> Path:
    """A root with the groups of a process, and files of control groups; slashes in names are double underscores."""
    for name, text in {"proc__self__cgroup": groups, **files}.items():
        path = root / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


@pytest.fixture(autouse=True)
def _many_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(32)), raising=False)


@pytest.mark.parametrize(
    ("limit", "expected"),
    [
        ("400000 100000", 4),
        ("150000 100000", 1),  # a second thread would be stopped for half of each period
        ("390000 100000", 3),
        ("20000 100000", 1),
        ("6400000 100000", 32),
        ("max 100000", 32),
        ("max", 32),
        ("", 32),
        ("0 0", 32),
        ("four of them", 32),
    ],
)
def test_a_quota_of_version_2(limit: str, expected: int, tmp_path: Path) -> None:
    root = system(tmp_path, "0::/work\n", **{"sys__fs__cgroup__work__cpu.max": limit + "\n"})
    assert usable_cores(root) == expected


def test_the_tightest_of_the_groups_above_counts(tmp_path: Path) -> None:
    files = {"all": "max 100000", "all__some": "300000 100000", "all__some__one": "800000 100000"}
    root = system(
        tmp_path,
        "0::/all/some/one\n",
        **{f"sys__fs__cgroup__{group}__cpu.max": limit for group, limit in files.items()},
    )
    assert usable_cores(root) == 3


@pytest.mark.parametrize(("quota", "expected"), [("250000\n", 2), ("-1\n", 32), ("0\n", 32), ("\n", 32)])
def test_a_quota_of_version_1(quota: str, expected: int, tmp_path: Path) -> None:
    folder = "sys__fs__cgroup__cpu__docker__1a2b__"
    files = {f"{folder}cpu.cfs_quota_us": quota, f"{folder}cpu.cfs_period_us": "100000\n"}
    groups = "9:name=systemd:/docker/1a2b\n3:cpuset:/docker/1a2b\n1:cpu,cpuacct:/docker/1a2b\n"
    assert usable_cores(system(tmp_path, groups, **files)) == expected


def test_in_a_container_whose_group_has_its_path_outside_of_it(tmp_path: Path) -> None:
    files = {"sys__fs__cgroup__cpu__cpu.cfs_quota_us": "200000", "sys__fs__cgroup__cpu__cpu.cfs_period_us": "100000"}
    assert usable_cores(system(tmp_path / "1", "4:cpu:/docker/1a2b\n0::/\n", **files)) == 2
    assert usable_cores(system(tmp_path / "2", "0::/../..\n", **{"sys__fs__cgroup__cpu.max": "200000 100000"})) == 2


@pytest.mark.parametrize("groups", ["", "nothing that is known", "0:\n", "\n\n", "::\n"])
def test_odd_files_are_no_limits(groups: str, tmp_path: Path) -> None:
    assert usable_cores(system(tmp_path, groups)) == 32
    assert usable_cores(tmp_path / "nowhere") == 32


def test_cores_that_the_process_may_not_run_on_do_not_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {3, 5})
    assert usable_cores(tmp_path) == 2
    assert usable_cores(system(tmp_path, "0::/\n", **{"sys__fs__cgroup__cpu.max": "100000 100000"})) == 1


def test_a_system_without_affinity_has_the_cores_that_it_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "sched_getaffinity")
    monkeypatch.setattr(os, "cpu_count", lambda: 12)
    assert usable_cores(tmp_path) == 12
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert usable_cores(tmp_path) == 1


def test_runs_and_sweeps_take_no_more_threads_than_that(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cores, "_quotas", lambda _: iter([6.5]))
    assert threads_for(3) == 2
    monkeypatch.setattr("torch.get_num_threads", lambda: 16)
    assert resolve_config().threads == 6
    assert resolve_config(overrides={"threads": 9}).threads == 9  # who asks for it gets it
    monkeypatch.setattr("torch.get_num_threads", lambda: 4)
    assert resolve_config().threads == 4
