"""Threads are as many as the processors this process may really use."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from rmreader.core.cores import cores


@pytest.fixture(autouse=True)
def sixteen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(16)), raising=False)


def make(root: Path, group: str, **files: str) -> Path:
    """A system whose only group is this one; files by path under /sys/fs/cgroup, with __ for / and . for _of_."""
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/self/cgroup").write_text(group)
    for name, content in files.items():
        path = root / "sys/fs/cgroup" / name.replace("__", "/").replace("_of_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    return root


@pytest.mark.parametrize(
    ("quota", "expected"),
    [
        ("max 100000\n", 16),
        ("100000 100000\n", 1),
        ("50000 100000\n", 1),
        ("350000 100000\n", 4),
        ("junk", 16),
        ("", 16),
    ],
)
def test_a_containers_quota_counts(tmp_path: Path, quota: str, expected: int) -> None:
    assert cores(make(tmp_path, "0::/\n", cpu_of_max=quota)) == expected


def test_so_does_that_of_a_group_above(tmp_path: Path) -> None:
    inner = make(tmp_path, "0::/pod/box\n", pod__box__cpu_of_max="max 100000", pod__cpu_of_max="200000 100000")
    assert cores(inner) == 2


@pytest.mark.parametrize("controllers", ["cpu,cpuacct", "cpu"])
@pytest.mark.parametrize(("place", "group"), [("", "/"), ("box__", "/box"), ("", "/docker/4fe1")])
@pytest.mark.parametrize(("quota", "expected"), [("-1", 16), ("100000", 1), ("300000", 3)])
def test_version_1_counts_too(
    tmp_path: Path, controllers: str, place: str, group: str, quota: str, expected: int
) -> None:
    own = f"{controllers}__{place}cpu_of_cfs"
    files = {f"{own}_quota_us": quota, f"{own}_period_us": "100000"}
    root = make(tmp_path, f"11:memory:/elsewhere\n4:cpu,cpuacct:{group}\n", **files)
    assert cores(root) == expected


def test_affinity_counts_and_a_system_without_groups_is_none_the_worse(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert cores(tmp_path) == 16
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {3}, raising=False)
    assert cores(make(tmp_path, "0::/\n", cpu_of_max="800000 100000")) == 1


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="no affinity here")
def test_on_one_processor_reading_warns_of_nothing() -> None:
    script = """
import os, sys
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
from rmreader import Reader
reader = Reader.load()
assert reader.engine.threads == 1
assert list(reader.ask_many([("Who?", "Ada wrote it.")] * 3))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.fixture
def one_processor() -> Iterator[Path]:
    """A real control group, of whatever version is mounted, that is allowed one processor."""
    top = Path("/sys/fs/cgroup")
    second = (top / "cgroup.controllers").exists()
    group = (top if second else top / "cpu") / f"rmreader-test-{os.getpid()}"
    try:
        group.mkdir()
    except OSError as error:
        pytest.skip(f"no control group can be made here: {error}")
    try:
        (group / ("cpu.max" if second else "cpu.cfs_quota_us")).write_text("100000 100000" if second else "100000")
        yield group
    except OSError as error:
        pytest.skip(f"this control group has no quota: {error}")
    finally:
        group.rmdir()


def test_in_a_real_group_of_one_processor_there_is_one_thread(one_processor: Path) -> None:
    script = """
import os, sys
open(sys.argv[1], "w").write(str(os.getpid()))
from rmreader import Reader
print(Reader.load().engine.threads)
"""
    words = [sys.executable, "-c", script, str(one_processor / "cgroup.procs")]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout.strip()) == (0, "1"), done.stderr
