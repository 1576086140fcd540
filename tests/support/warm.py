"""Processes that begin with torch loaded: commands in processes of their own, at the price of a fork.

Importing torch takes longer than all that a test's training does. So one process per test worker imports it and waits;
within ``warm()``, ``subprocess.Popen`` forks that one wherever ``python -m MODULE`` would be started. What comes of it
is a real child of the caller (by way of a subreaper, which Linux alone has): it has its own pid, streams, environment,
folder and session, imports ``rmreader`` itself, and is killed and waited for as any other.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import functools
import gc
import importlib
import inspect
import json
import os
import runpy
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

LIBRARIES = ["numpy", "torch", "torch._dynamo", "torch.distributed.launcher.api", "safetensors.torch", "typer"]
LAUNCHERS = ("torch.distributed.run", "lab.foundry")  # start others, which are to be warm too
PIPES = ("p2cread", "p2cwrite", "c2pread", "c2pwrite", "errread", "errwrite")
STATUS: list[int] = []  # of this process, once it is known
SERVER: list[socket.socket] = []  # the way to the process that is forked
PLAIN, PYTHON, ONE = subprocess.Popen._execute_child, sys.executable, threading.Lock()  # type: ignore[attr-defined]
_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36


def execute(self: Any, *given: Any) -> None:
    """``subprocess.Popen._execute_child``, by the process at the other end of SERVER."""
    asked = dict(zip(inspect.signature(PLAIN).parameters, (self, *given), strict=True))
    words = [os.fspath(word) for word in asked["args"]] if isinstance(asked["args"], (list, tuple)) else []
    before = getattr(asked["preexec_fn"], "__name__", None)
    if words[:1] != [PYTHON] or "-m" not in words[1:3] or before not in (None, "end_with_parent"):
        PLAIN(self, *given)
        return
    pipes = [asked[name] for name in ("p2cread", "c2pwrite", "errwrite")]
    streams = [own if pipe == -1 else pipe for own, pipe in enumerate(pipes)]
    order = {
        "words": words[words.index("-m") + 1 :],
        "unbuffered": "-u" in words[1:2],
        "environment": dict(os.environ if asked["env"] is None else asked["env"]),
        "folder": os.fspath(asked["cwd"] or os.getcwd()),
        "session": asked["start_new_session"],
        "parent": os.getpid(),
        "ends_with_parent": before is not None,
    }
    content = json.dumps(order).encode()
    with ONE:
        prctl(_PR_SET_CHILD_SUBREAPER, 1)
        socket.send_fds(SERVER[-1], [len(content).to_bytes(8, "little")], streams)
        SERVER[-1].sendall(content)
        self.pid = int.from_bytes(receive(SERVER[-1], 8), "little")
        prctl(_PR_SET_CHILD_SUBREAPER, 0)
    assert self.pid, "the process that forks has ended"
    self._child_created = True
    self._close_pipe_fds(*(asked[name] for name in PIPES))


def prctl(option: int, value: int) -> None:
    ctypes.CDLL(None).prctl(option, ctypes.c_ulong(value), 0, 0, 0)


def receive(connection: socket.socket, count: int) -> bytes:
    """So many bytes; none at the end."""
    content = b""
    while len(content) < count and (more := connection.recv(count - len(content))):
        content += more
    return content


def serve(connection: socket.socket) -> dict[str, Any]:
    """Fork for every order, and end with the caller; only a child comes back from here, as what was ordered."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the caller's to handle
    while True:
        size, streams, _, _ = socket.recv_fds(connection, 8, 3)
        if not size:
            os._exit(0)
        order = json.loads(receive(connection, int.from_bytes(size, "little")))
        if middle := os.fork():
            os.waitpid(middle, 0)
            for stream in streams:
                os.close(stream)
        elif os.fork():
            os._exit(0)  # so that the child's parent is the next subreaper above: the caller
        else:
            return become(connection, order, streams)


def become(connection: socket.socket, order: dict[str, Any], streams: list[int]) -> dict[str, Any]:
    """What a process started with these words, streams, environment, folder and session would be."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    while os.getppid() != order["parent"]:
        time.sleep(0.0005)
    if order["ends_with_parent"]:
        prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if order["session"]:
        os.setsid()
    for number, (name, stream) in enumerate(zip(("stdin", "stdout", "stderr"), streams, strict=True)):
        os.dup2(stream, number)
        os.close(stream)
        mode, errors = "w" if number else "r", "backslashreplace" if number == 2 else None
        buffering = 1 if number == 2 or os.isatty(number) else -1
        setattr(sys, name, open(number, mode, buffering, errors=errors, closefd=False))  # noqa: SIM115
    os.environ.clear()
    os.environ.update(order["environment"])
    os.chdir(order["folder"])
    searched = order["environment"].get("PYTHONPATH", "").split(os.pathsep)
    sys.path[:1] = [order["folder"], *(path for path in searched if path and path not in sys.path)]
    sys.stdout.reconfigure(write_through=order["unbuffered"])  # type: ignore[union-attr]
    connection.sendall(os.getpid().to_bytes(8, "little"))
    connection.close()
    return order


def main(connection: socket.socket) -> None:
    order = serve(connection)
    if order["words"][0] in LAUNCHERS:
        ours, theirs = socket.socketpair()
        if not os.fork():
            ours.close()
            main(theirs)
            return
        theirs.close()
        SERVER.append(ours)
        subprocess.Popen._execute_child = execute  # type: ignore[attr-defined]
    sys.argv = [sys.executable, *order["words"][1:]]
    try:
        runpy.run_module(order["words"][0], run_name="__main__", alter_sys=True)
    except SystemExit as end:
        STATUS.append(end.code if isinstance(end.code, int) else end.code is not None)
        raise
    STATUS.append(0)


def leave() -> None:
    """The last act of a process that ends by itself: taking all libraries apart would take longer than to load them."""
    if STATUS:
        sys.stdout.flush()
        os._exit(STATUS[0])


@functools.cache
def start() -> None:
    """The one that waits with everything loaded, for as long as this process is there."""
    ours, theirs = socket.socketpair()
    SERVER.append(ours)
    with theirs:
        command = [PYTHON, __file__, str(theirs.fileno())]
        server = subprocess.Popen(command, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL)
    atexit.register(lambda: (ours.close(), server.wait()))


@contextlib.contextmanager
def warm() -> Iterator[None]:
    """Within it, ``subprocess`` starts modules warm."""
    if sys.platform != "linux":
        yield
        return
    start()
    subprocess.Popen._execute_child = execute  # type: ignore[attr-defined]
    try:
        yield
    finally:
        subprocess.Popen._execute_child = PLAIN  # type: ignore[attr-defined]


if __name__ == "__main__":
    atexit.register(leave)  # the first to be registered is the last to be called
    for library in LIBRARIES:
        importlib.import_module(library)
    gc.freeze()
    main(socket.socket(fileno=int(sys.argv[1])))
