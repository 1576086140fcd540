"""The server under load on loopback, beside the engine alone: throughput, latency, overload, SIGTERM, memory.

    python benchmarks/serve.py [--reader small] [--data dev-v1.1.json.gz] [--seconds 6] [--requests 5000]
    python benchmarks/serve.py --parts hostile [--hostile-seconds 600]

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
        samples = json.loads(resources.files("rmreader.server").joinpath("page/samples.json").read_text("utf-8"))
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
        """Answers per second."""
        return self.statuses[200] / self.wall

    def quantile(self, q: float) -> float:
        """Milliseconds within which a share of the answers came."""
        return sorted(self.seconds)[min(len(self.seconds) - 1, int(q * len(self.seconds)))] * 1000


def request(pair: Pair) -> bytes:
    """One call of /v1/answer as bytes on the wire."""
    return post("/v1/answer", json.dumps({"question": pair[0], "passage": pair[1]}))


def post(path: str, body: str, extra: str = "") -> bytes:
    """A call as bytes on the wire."""
    head = f"POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n{extra}"
    return f"{head}content-length: {len(body.encode())}\r\n\r\n{body}".encode()


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
    """Questions per second of the reader in this process, without any server; and milliseconds of CPU for each."""
    done, began, cpu = 0, time.perf_counter(), time.process_time()
    while (spent := time.perf_counter() - began) < seconds:
        done += sum(1 for _ in reader.ask_many(pairs[:128], batch_size=32))
    return done / spent, (time.process_time() - cpu) * 1000 / done


def throughput(name: str, pairs: list[Pair], seconds: float) -> dict[str, Any]:
    """Answers per second at 1, 8 and 64 clients; at 64 in turns with the engine alone, as other work comes and goes."""
    from rmreader.reading.reader import Reader

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
    result["CPU ms per question: engine, server"] = [
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


@dataclass
class Attack:
    """A kind of hostile client: what it sends, again and again, and whether it takes what comes back."""

    sent: bytes
    takes: bool = True
    most: float = 12.0  # seconds that it keeps a connection


def attacks() -> dict[str, Attack]:
    """The ways in which one client used to stop the server, and a few others."""
    dots = {"question": "Who?", "passage": "." * 100_000}
    why = {"question": "?" * 300, "passage": "a " * 2_000}
    offer = "connection: Upgrade, HTTP2-Settings\r\nupgrade: h2c\r\nhttp2-settings: AAMAAABkAAQAAP__\r\n"
    rebound = post("/v1/answer", json.dumps(dots)).replace(b"host: localhost", b"host: evil.example")
    return {
        "349,000 empty items": Attack(post("/v1/answers", '{"items":[' + ",".join(["{}"] * 349_000) + "]}")),
        "80,000 unknown fields": Attack(post("/v1/answer", "{" + ",".join(f'"k{k}":0' for k in range(80_000)) + "}")),
        "100,000 dots": Attack(post("/v1/answer", json.dumps(dots))),
        "100,000 dots, left": Attack(post("/v1/answer", json.dumps(dots)), most=0.3),
        "a list of dots": Attack(post("/v1/answers", json.dumps({"items": [{**dots, "passage": "." * 15_000}] * 64}))),
        "unread pipelining": Attack(b"GET /style.css HTTP/1.1\r\nhost: localhost\r\n\r\n" * 2_000, takes=False),
        "an offer of HTTP/2": Attack(post("/v1/answer", json.dumps({"question": "?", "passage": "Ada."}), offer)),
        "attention unread": Attack(post("/v1/explain", json.dumps(why)), takes=False),
        "attention of a long question": Attack(post("/v1/explain", json.dumps({**why, "question": "." * 2_000}))),
        "another host": Attack(rebound),
        "no HTTP": Attack(random.Random(5).randbytes(2_000)),
        "half a head": Attack(b"POST /v1/answer HTTP/1.1\r\nhost: loc", most=3.0),
        "half a body": Attack(post("/v1/answer", json.dumps(dots))[:-20_000], most=3.0),
        "a head without end": Attack(b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 20_000),
    }


async def attack(port: int, one: Attack, seen: Counter[int], more: Callable[[int], bool]) -> None:
    """One hostile client, until the time is up. Everything it does has an end."""
    while more(0):
        try:
            async with asyncio.timeout(one.most):
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                try:
                    writer.write(one.sent)
                    if one.takes:
                        seen[int((await reader.readuntil(b"\r\n"))[9:12])] += 1
                    else:
                        writer.transport.pause_reading()  # type: ignore[attr-defined]
                        await asyncio.sleep(one.most)
                finally:
                    writer.transport.abort()
        except (OSError, TimeoutError, ValueError, asyncio.IncompleteReadError):
            seen[0] += 1
        await asyncio.sleep(0.05)


def hostile(name: str, pairs: list[Pair], seconds: float) -> dict[str, Any]:
    """Every attack at once, and a well-behaved client beside them, whose every request must be answered in time."""
    deadline, messages, kinds = 10.0, [request(pair) for pair in pairs], attacks()
    seen: dict[str, Counter[int]] = {kind: Counter() for kind in kinds}
    control: dict[str, Tally] = {"/v1/answer": Tally(), "/livez": Tally()}
    peak, unread = 0.0, b"GET /livez HTTP/1.1\r\nhost: localhost\r\n\r\n"

    async def ask(port: int, path: str, more: Callable[[int], bool]) -> None:
        while more(0):
            began, status = time.perf_counter(), 0
            try:
                async with asyncio.timeout(2 * deadline):
                    reader, writer = await asyncio.open_connection("127.0.0.1", port)
                    message = unread if path == "/livez" else messages[control[path].statuses.total() % len(messages)]
                    status, _ = await exchange(reader, writer, message)
                    writer.close()
            except (OSError, TimeoutError, asyncio.IncompleteReadError):
                pass
            control[path].statuses[status] += 1
            control[path].seconds.append(time.perf_counter() - began)
            await asyncio.sleep(0.1)

    async def run(port: int, process: psutil.Process) -> None:
        nonlocal peak
        more = for_seconds(seconds)
        clients = [attack(port, kinds[kind], seen[kind], more) for kind in kinds for _ in range(2)]
        tasks = [asyncio.ensure_future(one) for one in [*clients, *(ask(port, path, more) for path in control)]]
        while more(0):
            peak = max(peak, process.memory_info().rss / 2**20)
            await asyncio.sleep(0.2)
        await asyncio.gather(*tasks)

    with server(name, deadline=deadline) as one:
        process = psutil.Process(one.process.pid)
        asyncio.run(closed_loop(one.port, messages, 8, lambda sent: sent < 100))
        before = process.memory_info().rss / 2**20
        asyncio.run(run(one.port, process))
        after = asyncio.run(closed_loop(one.port, messages, 1, lambda sent: sent < 5))
        status = one.end()
        failed = sum(line["event"] == "failed" for line in one.lines())
    return {
        "seconds": seconds,
        "attacks, by status (0: cut off, or left)": {kind: dict(sorted(tally.items())) for kind, tally in seen.items()},
        "control, by status": {path: dict(tally.statuses) for path, tally in control.items()},
        "control, median ms": {path: round(tally.quantile(0.5)) for path, tally in control.items()},
        "control, worst ms": {path: round(tally.quantile(1.0)) for path, tally in control.items()},
        "deadline ms": round(deadline * 1000),
        "MiB before, at most": [round(before, 1), round(peak, 1)],
        "answered afterwards": after.statuses[200],
        "faults": failed,
        "holds": all(set(one.statuses) == {200} and one.quantile(1.0) <= deadline * 1000 for one in control.values())
        and after.statuses[200] == 5 and not failed and status == 0,
    }  # fmt: skip


def main() -> None:
    """Run the parts asked for and print what they found."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--reader", default="small")
    parser.add_argument("--data", help="a SQuAD file to ask from; without one, the page's samples")
    parser.add_argument("--questions", type=int, default=512, help="how many different questions")
    parser.add_argument("--seconds", type=float, default=6.0, help="length of each throughput measurement")
    parser.add_argument("--requests", type=int, default=5000, help="requests of the memory part")
    parser.add_argument("--hostile-seconds", type=float, default=20.0, help="length of the hostile part")
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
        elif part == "hostile":
            found[part] = hostile(options.reader, pairs, options.hostile_seconds)
        print(json.dumps({part: found[part]}, indent=2), flush=True)
    if options.json:
        options.json.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
