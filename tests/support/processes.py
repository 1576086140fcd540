"""Processes that tests start. Each ends with the test that started it, whatever happens."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from typing import Any

STOPPED = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM)
"""Signals by which people and machines stop a process."""
_PR_SET_PDEATHSIG = 1  # of prctl(2)
_LIBC = ctypes.CDLL(None) if sys.platform == "linux" else None


def end_with_parent() -> None:
    """Have the kernel kill this process when the one that started it ends. Only Linux can."""
    if _LIBC is not None:
        _LIBC.prctl(_PR_SET_PDEATHSIG, ctypes.c_ulong(signal.SIGKILL), 0, 0, 0)


def default_signals() -> None:
    """Give every signal that stops a process its default action again.

    ``nohup`` and a shell's ``&`` start us with some of them ignored, and a child would inherit that. A handler is not
    inherited: so this process goes on ignoring the signal, and its children do not.
    """
    signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPPED)
    for number in STOPPED:
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, lambda *_: None)


@contextlib.contextmanager
def started(command: Sequence[object], **options: Any) -> Iterator[subprocess.Popen[Any]]:
    """Start a process in a session of its own. At the end of the block, all of that session is killed."""
    words = [os.fspath(word) if isinstance(word, os.PathLike) else str(word) for word in command]
    process = subprocess.Popen(words, start_new_session=True, preexec_fn=end_with_parent, **options)
    try:
        yield process
    finally:
        kill(process)


def kill(process: subprocess.Popen[Any]) -> None:
    """Kill a process that ``started`` gave and all that it started; wait for it; close its pipes."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    with contextlib.suppress(ProcessLookupError):
        process.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe is not None:
            with contextlib.suppress(OSError, ValueError):
                pipe.close()
