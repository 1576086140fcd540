"""How many processors there are to read with.

Counted by affinity and by the container's quota: ONNX Runtime looks at neither.
"""

import math
import os
from collections.abc import Iterator
from pathlib import Path

MOST_THREADS = 8


def cores(root: Path = Path("/")) -> int:
    """Return how many processors this process may use; a share of one counts as one.

    ``root`` is where /proc and /sys are.
    """
    if hasattr(os, "sched_getaffinity"):
        allowed = len(os.sched_getaffinity(0))
    else:
        allowed = os.cpu_count() or 1
    for folder, names in _control_groups(root):
        quota = _quota(folder, names)
        if quota is not None:
            allowed = min(allowed, math.ceil(quota))
    return max(1, allowed)


def _control_groups(root: Path) -> Iterator[tuple[Path, list[str]]]:
    """Yield the folders of the control groups that this process is in, and of those above.

    With each, the files that hold its quota: one in version 2 of control groups, two in version 1.
    """
    try:
        groups = (root / "proc/self/cgroup").read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError):  # not Linux
        return
    for line in groups:
        _, controllers, path = line.split(":", 2)
        if not controllers:
            top = root / "sys/fs/cgroup"
            names = ["cpu.max"]
        elif "cpu" in controllers.split(","):
            top = root / "sys/fs/cgroup" / controllers
            if not top.exists():
                top = root / "sys/fs/cgroup/cpu"
            names = ["cpu.cfs_quota_us", "cpu.cfs_period_us"]
        else:
            continue
        # A container that sees only its own group sees it as the top; then this is not there.
        own = top / path.lstrip("/")
        yield own, names
        for above in own.parents:
            if above.is_relative_to(top):
                yield above, names


def _quota(folder: Path, names: list[str]) -> float | None:
    """Return how many processors one control group allows; None where it sets no limit."""
    try:
        content = " ".join((folder / name).read_text() for name in names)
        quota, period = content.split()
        if quota in ("max", "-1") or float(quota) <= 0 or float(period) <= 0:
            return None
        return float(quota) / float(period)
    except (OSError, ValueError):
        return None
