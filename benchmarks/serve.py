"""The server under load on loopback, beside the engine alone: throughput, latency, overload, SIGTERM, memory.

    python benchmarks/serve.py [--reader small] [--data dev-v1.1.json.gz] [--seconds 6] [--requests 5000]

Every figure comes from one run on one machine, client and server sharing its cores; the ratios are what to read. The
client sends requests made beforehand and looks at the status of an answer alone, which costs 0.1 ms of CPU a request.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any

import psutil

Pair = tuple[str, str]


def questions(data: str | None, count: int) -> list[Pair]:
    """(question, passage) pairs: from a SQuAD file, or the page's own samples over and over."""
    if data:
        from rmreader.data.squad import read_squad

        pairs = [(question.text, paragraph.context) for paragraph, question in read_squad(data).questions()]
    else:
        samples = json.loads(resources.files("rmreader.serving").joinpath("page/samples.json").read_text("utf-8"))
        pairs = [(question, sample["passage"]) for sample in samples for question in sample["questions"]] * count
    random.Random(1).shuffle(pairs)
    return pairs[:count]


class Server:
    """A server process of its own; its log goes to a file."""

    def __init__(self, reader: str, **settings: Any) -> None:
        self.log = tempfile.NamedTemporaryFile("w+", suffix=".jsonl")  # noqa: SIM115
        options = [part for name, value in settings.items() for part in (f"--{name.replace('_', '-')}", str(value))]
        command = [sys.executable, "-m", "rmreader", "serve", "--model", reader, "--port", "0", *options]
        self.process = subprocess.Popen(command, stderr=self.log)
        while not (started := [line for line in self.lines() if line["event"] == "serving"]):
            if self.process.poll() is not None:
                sys.exit(f"The server did not start:\n{Path(self.log.name).read_text()}")
            time.sleep(0.05)
        self.port = int(started[0]["url"].rpartition(":")[2])

    def lines(self) -> list[dict[str, Any]]:
        """What it has logged so far."""
        text = Path(self.log.name).read_text()
        return [json.loads(line) for line in text.splitlines() if line.startswith("{") and line.endswith("}")]

    def end(self) -> int:
        """SIGTERM unless it got one already; its exit status."""
        if self.process.poll() is None and not any(line["event"] == "draining" for line in self.lines()):
            self.process.send_signal(signal.SIGTERM)
        return self.process.wait(60)


@contextmanager
def server(reader: str, **settings: Any) -> Iterator[Server]:
    """A server while the block lasts."""
    one = Server(reader, **settings)
    try:
        yield one
    finally:
        one.end()
        one.log.close()


@dataclass
class Tally:
    """What the clients saw: statuses (0: the connection ended without an answer) and seconds of each 200."""

    statuses: Counter[int] = field(default_factory=Counter)
    seconds: list[float] = field(default_factory=list)
    wall: float = 0.0

    @property
    def rate(self) -> float:
        """Answers a second."""
        return self.statuses[200] / self.wall

    def quantile(self, q: float) -> float:
        """Milliseconds within which a share of the answers came."""
        return sorted(self.seconds)[min(len(self.seconds) - 1, int(q * len(self.seconds)))] * 1000


def request(pair: Pair) -> bytes:
    """One call of /v1/answer as bytes on the wire."""
    body = json.dumps({"question": pair[0], "passage": pair[1]}).encode()
    head = (
        f"POST /v1/answer HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


async def exchange(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, message: bytes) -> tuple[int, bool]:
    """Send one request; the status, and whether the connection may be used again."""
    writer.write(message)
    head = (await reader.readuntil(b"\r\n\r\n")).lower()
    length = int(head.partition(b"content-length:")[2].partition(b"\r\n")[0])
    await reader.readexactly(length)
    return int(head[9:12]), b"connection: close" not in head


async def closed_loop(port: int, messages: list[bytes], clients: int, more: Callable[[int], bool]) -> Tally:
    """Clients that each ask again as soon as they are answered, while ``more(number of requests sent)``."""
    tally, sent = Tally(), 0

    async def client() -> None:
        nonlocal sent
        while more(sent):
            try:
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
            except OSError:
                return
            keep = True
            while keep and more(sent):
                message, began = messages[sent % len(messages)], time.perf_counter()
                sent += 1
                try:
                    status, keep = await exchange(reader, writer, message)
                except (OSError, asyncio.IncompleteReadError):
                    status, keep = 0, False
                tally.statuses[status] += 1
                if status == 200:
                    tally.seconds.append(time.perf_counter() - began)
            writer.close()

    began = time.perf_counter()
    await asyncio.gather(*(client() for _ in range(clients)))
    tally.wall = time.perf_counter() - began
    return tally


async def open_loop(port: int, messages: list[bytes], rate: float, seconds: float) -> Tally:
    """Requests at a steady rate whatever becomes of them, each on a connection that happens to be free."""
    tally, idle = Tally(), list[tuple[asyncio.StreamReader, asyncio.StreamWriter]]()

    async def one(message: bytes) -> None:
        began = time.perf_counter()
        try:
            pipe = idle.pop() if idle else await asyncio.open_connection("127.0.0.1", port)
            status, keep = await exchange(*pipe, message)
        except (OSError, asyncio.IncompleteReadError):
            status, keep = 0, False
        tally.statuses[status] += 1
        if status == 200:
            tally.seconds.append(time.perf_counter() - began)
        if keep:
            idle.append(pipe)

    began, tasks = time.perf_counter(), list[asyncio.Task[None]]()
    while (now := time.perf_counter() - began) < seconds:
        due = int(now * rate) - len(tasks)
        tasks += [asyncio.create_task(one(messages[(len(tasks) + k) % len(messages)])) for k in range(due)]
        await asyncio.sleep(0.005)
    await asyncio.gather(*tasks)
    tally.wall = time.perf_counter() - began
    for _, writer in idle:
        writer.close()
    return tally


def for_seconds(seconds: float) -> Callable[[int], bool]:
    """True until so many seconds from now."""
    end = time.perf_counter() + seconds
    return lambda sent: time.perf_counter() < end


def engine(reader: Any, pairs: list[Pair], seconds: float) -> tuple[float, float]:
    """Questions a second of the reader in this process, without any server; and milliseconds of CPU for each."""
    done, began, cpu = 0, time.perf_counter(), time.process_time()
    while (spent := time.perf_counter() - began) < seconds:
        done += sum(1 for _ in reader.ask_many(pairs[:128], batch_size=32))
    return done / spent, (time.process_time() - cpu) * 1000 / done


def throughput(name: str, pairs: list[Pair], seconds: float) -> dict[str, Any]:
    """Answers a second at 1, 8 and 64 clients; at 64 in turns with the engine alone, as other work may come and go."""
    from rmreader.reading.answering.reader import Reader

    reader, messages = Reader.load(name), [request(pair) for pair in pairs[:128]]
    engine(reader, pairs, 0.5)
    result: dict[str, Any] = {}
    with server(name) as one:
        process = psutil.Process(one.process.pid)
        asyncio.run(closed_loop(one.port, messages, 8, for_seconds(0.5)))
        turns: dict[int, list[Tally]] = {1: [], 8: [], 64: []}
        alone, cpu = [], []
        for clients in (1, 8, 64, 64, 64):
            if clients == 64:
                alone.append(engine(reader, pairs, seconds))
            before = process.cpu_times()
            tally = asyncio.run(closed_loop(one.port, messages, clients, for_seconds(seconds)))
            after = process.cpu_times()
            assert set(tally.statuses) == {200}, tally.statuses
            turns[clients].append(tally)
            if clients == 64:
                spent = after.user + after.system - before.user - before.system
                cpu.append(spent * 1000 / tally.statuses[200])
    for clients, tallies in turns.items():
        tally = sorted(tallies, key=lambda tally: tally.rate)[len(tallies) // 2]
        result[f"{clients} clients"] = {
            "a second": round(tally.rate, 1),
            "median ms": round(statistics.median(tally.seconds) * 1000, 1),
            "p99 ms": round(tally.quantile(0.99), 1),
        }
    ratios = [tally.rate / rate for tally, (rate, _) in zip(turns[64], alone, strict=True)]
    result["engine alone, a second"] = [round(rate, 1) for rate, _ in alone]
    result["64 clients, a second"] = [round(tally.rate, 1) for tally in turns[64]]
    result["64 clients / engine"] = [round(ratio, 3) for ratio in ratios]
    result["CPU ms a question: engine, server"] = [
        round(statistics.median(cost for _, cost in alone), 2), round(statistics.median(cpu), 2),
    ]  # fmt: skip
    result["holds"] = statistics.median(ratios) >= 0.8
    return result


def overload(name: str, pairs: list[Pair], seconds: float, rate: float) -> dict[str, Any]:
    """Four times what it can do: it must refuse, and keep its word to those it did not refuse."""
    deadline, messages = 2.0, [request(pair) for pair in pairs]
    with server(name, deadline=deadline, queue=128, max_items=64) as one:
        tally = asyncio.run(open_loop(one.port, messages, 4 * rate, seconds))
        after = asyncio.run(closed_loop(one.port, messages, 1, lambda sent: sent < 5))
        status = one.end()
    return {
        "sent": sum(tally.statuses.values()),
        "statuses": dict(sorted(tally.statuses.items())),
        "answers a second": round(tally.rate, 1),
        "slowest answer ms": round(tally.quantile(1.0)),
        "deadline ms": round(deadline * 1000),
        "answered afterwards": after.statuses[200],
        "holds": set(tally.statuses) <= {200, 503} and tally.quantile(1.0) <= deadline * 1000 + 250
        and after.statuses[200] == 5 and status == 0,
    }  # fmt: skip


def sigterm(name: str, pairs: list[Pair]) -> dict[str, Any]:
    """SIGTERM under 64 clients: every request that the server took up must have reached its client."""
    messages = [request(pair) for pair in pairs]

    async def run(one: Server) -> Tally:
        load = asyncio.create_task(closed_loop(one.port, messages, 64, for_seconds(10)))
        await asyncio.sleep(2)
        one.process.send_signal(signal.SIGTERM)
        return await load

    with server(name) as one:
        tally = asyncio.run(run(one))
        status = one.end()
        taken = Counter(line["status"] for line in one.lines() if line["event"] == "request")
    return {
        "taken up by the server": dict(taken),
        "answered, as the clients saw it": tally.statuses[200],
        "connections closed between two requests": tally.statuses[0],
        "exit status": status,
        "holds": dict(taken) == {200: tally.statuses[200]} and status == 0,
    }


def memory(name: str, requests: int, most: int) -> dict[str, Any]:
    """Resident memory of the server over many requests of 8 to ``most`` words, after the first tenth."""
    words = ["river", "town", "north", "harbour", "bridge", "was", "built", "old", "stone", "by", "masons", "away"]
    draw = random.Random(3)
    pairs = [("Who built the bridge?", " ".join(draw.choices(words, k=draw.randint(8, most)))) for _ in range(997)]
    messages, readings, warm = [request(pair) for pair in pairs], list[float](), list[float]()
    with server(name) as one:
        process = psutil.Process(one.process.pid)
        for clients in (64, 1):  # many at once and one alone are read by sessions of their own, made when first needed
            asyncio.run(closed_loop(one.port, messages, clients, lambda sent: sent < 200))
            warm.append(round(process.memory_info().rss / 2**20, 1))
        began = time.perf_counter()
        for _ in range(10):
            asyncio.run(closed_loop(one.port, messages, 64, lambda sent: sent < requests // 10))
            readings.append(process.memory_info().rss / 2**20)
        seconds = time.perf_counter() - began
    return {
        "requests": requests,
        "words of a passage": [8, most],
        "a second": round(requests / seconds, 1),
        "MiB after 200 requests of 64 clients, and 200 of one": warm,
        "MiB after each tenth": [round(reading, 1) for reading in readings],
        "growth from the second tenth on, MiB": round(readings[-1] - readings[1], 1),
        "holds": readings[-1] - readings[1] < 0.05 * readings[1],
    }


def main() -> None:
    """Run the parts asked for and print what they found."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--reader", default="small")
    parser.add_argument("--data", help="a SQuAD file to ask from; without one, the page's samples")
    parser.add_argument("--questions", type=int, default=512, help="how many different questions")
    parser.add_argument("--seconds", type=float, default=6.0, help="length of each throughput measurement")
    parser.add_argument("--requests", type=int, default=5000, help="requests of the memory part")
    parser.add_argument("--words", type=int, default=40, help="longest passage of the memory part")
    parser.add_argument("--parts", nargs="+", default=["throughput", "overload", "sigterm", "memory"])
    parser.add_argument("--json", type=Path, help="write the figures here too")
    options = parser.parse_args()
    pairs = questions(options.data, options.questions)
    found: dict[str, Any] = {"reader": options.reader, "cores": os.cpu_count(), "questions": len(pairs)}
    for part in options.parts:
        if part == "throughput":
            found[part] = throughput(options.reader, pairs, options.seconds)
        elif part == "overload":
            rate = found.get("throughput", {}).get("64 clients", {}).get("a second", 100.0)
            found[part] = overload(options.reader, pairs, options.seconds, rate)
        elif part == "sigterm":
            found[part] = sigterm(options.reader, pairs)
        elif part == "memory":
            found[part] = memory(options.reader, options.requests, options.words)
        print(json.dumps({part: found[part]}, indent=2), flush=True)
    if options.json:
        options.json.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
