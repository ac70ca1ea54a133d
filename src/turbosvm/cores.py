"""How many of the machine's cores this process may use: fewer in a container, or under `taskset`."""

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path, PurePosixPath

_V2, _V1 = PurePosixPath("sys/fs/cgroup"), PurePosixPath("sys/fs/cgroup/cpu")


def usable_cores(root: Path = Path("/")) -> int:
    """The cores that the system lets this process run on, as many at a time as its quota lasts for; at least one.

    Quotas are those of Linux's control groups, version 1 or 2, in the files under `root`. They are rounded down: a
    thread more would use the quota up before its period ends, and the system then stops all of them until it does.
    """
    quotas = [max(1, int(quota)) for quota in _quotas(root)]
    return min([_assigned(), *quotas])


def _assigned() -> int:
    """How many cores this process may run on, whatever part of them."""
    if hasattr(os, "sched_getaffinity"):  # not on macOS and Windows
        return len(os.sched_getaffinity(0)) or 1
    return os.cpu_count() or 1


def _quotas(root: Path) -> Iterator[float]:
    """Cores that the control groups of this process, and those above them, allow in the mean."""
    for mount, group in _groups(root):
        for path in (group, *group.parents):  # in a container, what is outside of it is not there
            with suppress(OSError, ValueError, ZeroDivisionError):
                quota, period = _quota_of(root / mount / path, mount)
                if quota > 0:
                    yield quota / period


def _quota_of(folder: Path, mount: PurePosixPath) -> tuple[float, float]:
    """Microseconds of a core in each period of so many; a ValueError, or -1, where there is no limit."""
    if mount == _V2:
        quota, period = (folder / "cpu.max").read_text().split()  # "max 100000", "150000 100000"
    else:
        quota, period = ((folder / f"cpu.cfs_{name}_us").read_text() for name in ("quota", "period"))
    return int(quota), int(period)


def _groups(root: Path) -> Iterator[tuple[PurePosixPath, PurePosixPath]]:
    """Where the groups of this process are mounted, and their paths there."""
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except (OSError, ValueError):
        return
    for line in lines:
        number, _, rest = line.partition(":")  # "0::/user.slice", "4:cpu,cpuacct:/docker/1a2b"
        kinds, _, path = rest.partition(":")
        if number == "0" or "cpu" in kinds.split(","):
            yield (_V2 if number == "0" else _V1), PurePosixPath(path.lstrip("/"))
