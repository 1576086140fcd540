"""Child processes: what a program prints, and children that end with their parent."""

import os
import signal
import sys

_PR_SET_PDEATHSIG = 1  # of prctl(2)


def end_with(parent: int, number: int = signal.SIGTERM) -> None:
    """Have the kernel send us this signal once ``parent``, which started us, ends. Linux only.

    The kernel watches the thread that started us, so that thread must live as long as we should.
    """
    if sys.platform != "linux":
        return
    import ctypes

    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, ctypes.c_ulong(number))
    if os.getppid() != parent:  # it ended before it was watched
        os.kill(os.getpid(), number)


def stdout_of(program: str, *arguments: str) -> str:
    """Run a program and return what it prints; nothing where it fails or is not installed."""
    import shutil
    import subprocess

    path = shutil.which(program)
    if path is None:
        return ""
    result = subprocess.run([path, *arguments], capture_output=True, check=False)
    return result.stdout.decode().strip()
