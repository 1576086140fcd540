"""Turns go round by client, not by call: who asks much at once waits for himself."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import httpx
from support.in_parts import InParts

from rmreader.server.batcher import CLIENT, Batcher
from rmreader.server.documents import Documents
from rmreader.server.settings import Settings
from rmreader.server.uploads import DocumentReader


async def ask(batcher: Batcher, client: str, question: str, passage: str) -> None:
    CLIENT.set(client)  # in this task alone
    await batcher.ask([(question, passage, 1)])


def wait_of(batcher: Batcher, client: str) -> float:
    before = CLIENT.set(client)
    try:
        return batcher.expected_wait(1)
    finally:
        CLIENT.reset(before)


def test_many_calls_of_one_client_have_one_turn_a_round(reader: Any, passage: str) -> None:
    parts, long = InParts(reader), passage * 150
    waits: dict[str, float] = {}

    async def main() -> None:
        async with Batcher(parts, Settings(deadline=600.0)).running() as batcher:  # type: ignore[arg-type]
            tasks = [asyncio.create_task(ask(batcher, "greedy", f"greedy {k}?", long)) for k in range(6)]
            await asyncio.to_thread(parts.began.wait, 10)
            tasks.append(asyncio.create_task(ask(batcher, "patient", "patient?", long)))
            tasks.append(asyncio.create_task(ask(batcher, "greedy", "greedy short?", passage)))
            await asyncio.sleep(0.01)
            batcher.pace.seconds, batcher.pace.tokens = 1.0, 2_000.0  # as if a turn took a second
            waits.update({client: wait_of(batcher, client) for client in ("greedy", "stranger")})
            tasks.append(asyncio.create_task(ask(batcher, "brief", "brief?", passage)))
            await asyncio.sleep(0.01)
            parts.gate.set()
            await asyncio.gather(*tasks)

    asyncio.run(main())
    read = parts.read
    own = [place for place, one in enumerate(read) if one == "patient?"]
    assert len(own) > 4
    meanwhile = sum(one.startswith("greedy") for one in read[own[0] : own[-1]])
    assert meanwhile <= len(own) + 1  # turn by turn with all of the greedy one's calls together, not with each
    assert read.index("brief?") <= 4  # one turn of each client, and what was being read
    assert (
        read.index("greedy short?") <= 14
    )  # its calls take turns with one another: a long one never shuts out a short
    assert waits["stranger"] <= 4  # seconds: one turn of each of two clients, and what is being read
    assert waits["greedy"] >= 6  # and a turn of each of its own calls


def test_whoever_is_at_one_address_is_one_client(start: Any, held: Any, passage: str, until: Any) -> None:
    server = start(held)

    def post(address: str) -> None:
        with httpx.Client(transport=httpx.HTTPTransport(local_address=address), timeout=30) as client:
            body = {"question": "Who was the engineer?", "passage": passage}
            assert client.post(f"{server.url}/v1/answer", json=body).json()["answers"]

    threads = [threading.Thread(target=post, args=(f"127.0.0.{k}",)) for k in (2, 2, 3, 3)]
    for thread in threads:
        thread.start()
    until(lambda: len(server.batcher.pending) + len(server.batcher.reading) == 4)
    clients = sorted(job.client for job in server.batcher.pending + server.batcher.reading)
    held.gate.set()
    for thread in threads:
        thread.join(30)
    assert clients == ["127.0.0.2"] * 2 + ["127.0.0.3"] * 2


def test_a_client_searches_once_at_a_time(shelf: Any, reader: Any) -> None:
    """So that another, who comes later, is next."""
    order: list[str] = []

    async def run() -> None:
        documents = Documents(shelf, Batcher(reader, Settings()), DocumentReader(Settings()))

        async def look(client: str) -> None:
            CLIENT.set(client)
            await documents._look(lambda what, count: order.append(what), client, 1)

        await asyncio.gather(*(look("greedy") for _ in range(6)), look("other"))

    asyncio.run(run())
    assert sorted(order) == ["greedy"] * 6 + ["other"]
    assert order.index("other") <= 2
