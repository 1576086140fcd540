"""What the server itself costs: CPU time per request, with a reader that has its answer already.

    python benchmarks/overhead.py [--requests 4000] [--clients 8] [--rounds 5]
    python benchmarks/overhead.py --beside ../other/src       another checkout in turn with this one

The server is a process of its own, as `rmreader serve` runs it. Its user and system time is
counted, without the client's. Rounds of two checkouts alternate, so that both meet the same load.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import socket
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
from serve import closed_loop, questions, request

HERE = Path(__file__).resolve().parent.parent / "src"


class ReadyReader:
    """Gives every question the answers that the reader gave to the first one."""

    def __init__(self, answers: Any) -> None:
        self.answers = answers

    def ask_many(self, pairs: Any, **how: Any) -> Any:
        """Yield the same answers for each pair."""
        for _ in pairs:
            yield self.answers


def serve_ready(descriptor: int) -> None:
    """Serve, in this process, on a socket that listens already."""
    from rmreader.reading.reader import Reader
    from rmreader.server.logs import to_stderr
    from rmreader.server.server import HttpServer
    from rmreader.server.settings import Settings

    try:
        from rmreader.server.application import create_app
    except ImportError:  # as it was called before 0.2
        from rmreader.server.app import create_app  # type: ignore[import-not-found, no-redef]
    to_stderr()
    settings = Settings()
    passage = questions(None, 1)[0]
    answers = next(iter(Reader.load("small").ask_many([passage], top=1, always=True)))
    reader: Any = ReadyReader(answers)
    listener = socket.socket(fileno=descriptor)
    HttpServer(create_app(reader, settings, "small"), settings).run(sockets=[listener])


class ReadyServer:
    """A server process of one checkout."""

    def __init__(self, source: Path) -> None:
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        self.port = listener.getsockname()[1]
        self.source = source
        command = [sys.executable, __file__, "--descriptor", str(listener.fileno())]
        self.process = subprocess.Popen(
            command,
            env={**os.environ, "PYTHONPATH": str(source)},
            pass_fds=[listener.fileno()],
            stderr=subprocess.DEVNULL,
        )
        listener.close()

    def microseconds(self, messages: list[bytes], clients: int, count: int) -> float:
        """Return the CPU time of one request, in microseconds."""
        before = psutil.Process(self.process.pid).cpu_times()
        tally = asyncio.run(closed_loop(self.port, messages, clients, lambda sent: sent < count))
        after = psutil.Process(self.process.pid).cpu_times()
        if set(tally.statuses) != {200}:
            sys.exit(f"{self.source}: not every request was answered: {dict(tally.statuses)}")
        seconds = after.user + after.system - before.user - before.system
        return seconds / tally.statuses[200] * 1e6

    def end(self) -> None:
        """Stop it."""
        self.process.terminate()
        self.process.wait(60)


def main() -> None:
    """Measure, and print the median and the least of the rounds."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--requests", type=int, default=4000)
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--beside", type=Path, action="append", default=[])
    parser.add_argument("--descriptor", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.descriptor is not None:
        serve_ready(options.descriptor)
        return
    messages = [request(pair) for pair in questions(None, 200)]
    servers = [ReadyServer(source.resolve()) for source in (HERE, *options.beside)]
    measured: list[list[float]] = [[] for _ in servers]
    try:
        for server in servers:
            server.microseconds(messages, options.clients, 200)  # warm
        for _ in range(options.rounds):
            for server, times in zip(servers, measured, strict=True):
                times.append(server.microseconds(messages, options.clients, options.requests))
    finally:
        for server in servers:
            server.end()
    for server, times in zip(servers, measured, strict=True):
        print(f"{statistics.median(times):6.0f} µs (least {min(times):.0f})  {server.source}")


if __name__ == "__main__":
    main()
