"""Fixtures every room's tests share."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

# One thread per worker, before anything loads torch, and for the processes that tests start:
# tensors of a few numbers are slower on several threads, and spinning threads stop a busy machine.
for library in ("OMP", "OPENBLAS", "MKL"):
    os.environ.setdefault(f"{library}_NUM_THREADS", "1")

import psutil  # noqa: E402
import pytest  # noqa: E402
from support.processes import default_signals  # noqa: E402

ROOT = Path(__file__).resolve().parent
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]


TOGETHER = (
    ("tests/training/test_tune.py",),
    ("tests/server/test_page", "lab/tests/studies/test_claims.py::test_the_page_opens_in_chromium"),
    ("lab/tests/studies/test_trainings.py",),
    ("tests/test_guide.py::test_the_site_",),
)
"""Tests with fixtures that cost more than the tests that use them: all of such places are run by
one worker."""
BROWSER: list[tuple[Any, contextlib.ExitStack]] = []  # the one that is open, and how to close it


def scope(nodeid: str) -> str:
    """The name of what is run by one worker."""
    return next((places[0] for places in TOGETHER if nodeid.startswith(places)), nodeid)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    from xdist.scheduler import LoadScopeScheduling

    class Scheduling(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return scope(nodeid)

    config.option.loadscopereorder = False
    return Scheduling(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The long ones first, so that no worker is left alone with one at the end."""
    items.sort(
        key=lambda item: not item.get_closest_marker("slow") and scope(item.nodeid) == item.nodeid
    )


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(nextitem: pytest.Item | None) -> None:
    """The browser is closed after the last of the tests that use it: while its driver runs, no
    other event loop can."""
    if BROWSER and "chromium" not in getattr(nextitem, "fixturenames", ()):
        BROWSER.pop()[1].close()


LASTING = (
    "multiprocessing",
    "playwright",
    "support/warm.py",
    "ray::",
    "raylet",
    "gcs_server",
    "documents.sandbox",
)
"""Words of the command lines of processes that outlive one test on purpose. They end with the
process of the tests."""


def pytest_configure(config: pytest.Config) -> None:
    """Give the tests what they need wherever they run: signals, a home, a temporary folder that
    they can write to."""
    if config.getoption("numprocesses", None) in (
        None,
        0,
    ):  # else its workers do, and this process starts only them
        default_signals()
    if not os.access(ROOT, os.W_OK):  # else Hypothesis warns that it cannot keep its examples there
        kept = tempfile.mkdtemp(prefix="rmreader-hypothesis-")
        os.environ["HYPOTHESIS_STORAGE_DIRECTORY"] = kept
        config.add_cleanup(lambda: shutil.rmtree(kept, ignore_errors=True))
    if not _is_writable_home(os.environ.get("HOME")):
        home = tempfile.mkdtemp(prefix="rmreader-home-")
        os.environ["HOME"] = home
        config.add_cleanup(lambda: shutil.rmtree(home, ignore_errors=True))
        for name in ("XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME"):
            os.environ.pop(name, None)


def _is_writable_home(home: str | None) -> bool:
    """Whether a folder can be made where programs keep things."""
    if not home:
        return False
    try:
        os.rmdir(tempfile.mkdtemp(prefix=".rmreader-", dir=home))
    except OSError:
        return False
    return True


def _children() -> set[int]:
    """Processes that this one has started and that still run; on Linux alone."""
    pids: set[int] = set()
    for path in Path("/proc/self/task").glob("*/children"):
        with contextlib.suppress(OSError):
            pids.update(map(int, path.read_text().split()))
    return pids


def _outlives(pid: int) -> bool:
    """Whether a process still runs and is not one that outlives a test on purpose."""
    try:
        process = psutil.Process(pid)
        if process.status() == psutil.STATUS_ZOMBIE:
            return False
        command = " ".join(process.cmdline())
    except psutil.Error:
        return False
    return not any(word in command for word in LASTING)


@pytest.fixture(autouse=True)
def no_process_left() -> Iterator[None]:
    """Every process that a test starts has ended when the test ends. One that has not is killed,
    and the test fails."""
    before = _children()
    yield
    deadline = time.monotonic() + 10
    left = [pid for pid in _children() - before if _outlives(pid)]
    while left and time.monotonic() < deadline:  # it may be about to end
        time.sleep(0.01)
        left = [pid for pid in left if _outlives(pid)]
    commands = []
    for pid in left:
        with contextlib.suppress(psutil.Error):
            process = psutil.Process(pid)
            commands.append(" ".join(process.cmdline()))
            process.kill()
    assert commands == [], "this test left processes running"


@pytest.fixture(scope="session")
def real_data() -> Path:
    """The folder with SQuAD and its companions: ``RMREADER_DATA``, or ``shared/data`` beside the
    checkout."""
    for folder in (os.environ.get("RMREADER_DATA"), ROOT.parent / "shared" / "data"):
        if folder and Path(folder).is_dir():
            return Path(folder)
    pytest.skip("the real data is absent: set RMREADER_DATA to its folder")


@pytest.fixture
def still_there() -> Callable[[Sequence[psutil.Process]], list[psutil.Process]]:
    """Those of some processes that do not end within a minute. They are killed."""

    def alive(process: psutil.Process) -> bool:
        with contextlib.suppress(psutil.NoSuchProcess):
            return bool(process.status() != psutil.STATUS_ZOMBIE)
        return False

    def wait(processes: Sequence[psutil.Process]) -> list[psutil.Process]:
        deadline = time.monotonic() + 60
        while (
            left := [process for process in processes if alive(process)]
        ) and time.monotonic() < deadline:
            time.sleep(0.05)
        for process in left:
            process.kill()
        return left

    return wait


@pytest.fixture(scope="module")
def warm() -> Iterator[None]:
    """Processes that the module's tests start have torch loaded already: see ``support.warm``."""
    from support.warm import warm

    with warm():
        yield


@pytest.fixture
def chromium() -> Any:
    """A real Chromium, the same for one test after another."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    path = shutil.which("chromium") or shutil.which("google-chrome")
    if not path:
        pytest.skip("no Chromium on this machine: install the package `chromium`")
    if not BROWSER:
        with contextlib.ExitStack() as stack:
            driver = stack.enter_context(playwright.sync_playwright())
            browser = driver.chromium.launch(executable_path=path, args=FLAGS)
            stack.callback(browser.close)
            BROWSER.append((browser, stack.pop_all()))
    return BROWSER[0][0]
