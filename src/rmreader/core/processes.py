"""Processes that end with the one that started them, even where that was killed and could tell nobody."""

import os
import signal
import sys

_PR_SET_PDEATHSIG = 1  # of prctl(2)


def end_with(parent: int, number: int = signal.SIGTERM) -> None:
    """Have the kernel send us this signal once the process ``parent``, which started us, ends; only Linux can.

    What it watches is the one thread that started us, so that one must stay for as long as we are to.
    """
    if sys.platform != "linux":
        return
    import ctypes

    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, ctypes.c_ulong(number))
    if os.getppid() != parent:  # it ended before it was watched
        os.kill(os.getpid(), number)
