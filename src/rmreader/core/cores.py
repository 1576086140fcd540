"""How many processors there are to read with: by affinity and by the container's quota, as ONNX Runtime looks at
neither."""

import math
import os
from collections.abc import Iterator
from pathlib import Path

MOST_THREADS = 8


def cores(root: Path = Path("/")) -> int:
    """Processors this process may use; a share of one counts as one. ``root`` is where /proc and /sys are."""
    there = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min([there, *(math.ceil(quota) for quota in _quotas(root))]))


def _quotas(root: Path) -> Iterator[float]:
    """Processors allowed by each control group that this process is in, of version 2 or 1, and by those above it."""
    try:
        groups = (root / "proc/self/cgroup").read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError):  # no Linux
        return
    for line in groups:
        _, controllers, path = line.split(":", 2)
        if not controllers:
            top, names = root / "sys/fs/cgroup", ["cpu.max"]
        elif "cpu" in controllers.split(","):
            top, names = root / "sys/fs/cgroup" / controllers, ["cpu.cfs_quota_us", "cpu.cfs_period_us"]
            top = top if top.exists() else root / "sys/fs/cgroup/cpu"
        else:
            continue
        own = top / path.lstrip("/")  # is not there in a container that sees only its own group, as the top
        for folder in (own, *(above for above in own.parents if above.is_relative_to(top))):
            try:
                quota, period = " ".join((folder / name).read_text() for name in names).split()
                if quota not in ("max", "-1") and float(quota) > 0 < float(period):
                    yield float(quota) / float(period)
            except (OSError, ValueError):
                continue
