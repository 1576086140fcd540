"""Questions that wait together are read together, and nobody can tell."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import random
import threading
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.in_parts import InParts

from rmreader.server.batcher import Batcher, Full
from rmreader.server.cost import count_tokens, weigh
from rmreader.server.jobs import ExplanationJob, QuestionJob, ReadingJob
from rmreader.server.pace import PRIOR
from rmreader.server.settings import Settings
from rmreader.server.turns import take
from rmreader.text.tokens import tokenize


def asks(passage: str, questions: list[str], count: int) -> list[tuple[str, str, int]]:
    """Questions about passages of many lengths, and lists of answers of many lengths."""
    draw = random.Random(7)
    return [
        (draw.choice(questions), passage[draw.randrange(100) :] * draw.randint(1, 3), draw.randint(1, 5))
        for _ in range(count)
    ]


def same(one: list[Any], other: list[Any]) -> bool:
    """Equal answers: the same stretches, with scores equal up to the rounding of sums taken in another order."""
    return [(a.text, a.start, a.end, a.sentence) for a in one] == [
        (a.text, a.start, a.end, a.sentence) for a in other
    ] and [a.confidence for a in one] == pytest.approx([a.confidence for a in other], abs=1e-4)


def test_batched_answers_equal_single_ones(reader: Any, passage: str, questions: list[str]) -> None:
    sizes: list[int] = []
    wanted = asks(passage, questions, 40)

    async def main() -> list[Any]:
        async with Batcher(reader, Settings(), lambda size, seconds: sizes.append(size)).running() as batcher:
            return await asyncio.gather(*(batcher.ask([ask]) for ask in wanted))

    for (question, text, top), (answers,) in zip(wanted, asyncio.run(main()), strict=True):
        assert same(answers, reader.ask(question, text, top=top))
    assert max(sizes) > 8


def test_a_lone_question_is_never_held_back(reader: Any, passage: str) -> None:
    async def main() -> None:
        async with Batcher(reader, Settings(batch_wait=600.0)).running() as batcher:
            for _ in range(5):
                await asyncio.wait_for(batcher.ask([("Who?", passage, 1)]), 60)

    asyncio.run(main())


def test_after_a_batch_its_askers_are_waited_for(held: Any, passage: str) -> None:
    async def client(batcher: Batcher, count: int) -> None:
        for _ in range(count):
            await batcher.ask([("Who?", passage, 1)])

    async def main() -> None:
        async with Batcher(held, Settings(batch_wait=0.5)).running() as batcher:
            clients = [asyncio.create_task(client(batcher, 5))]
            await asyncio.to_thread(held.began.wait, 10)
            clients += [asyncio.create_task(client(batcher, 5)) for _ in range(7)]
            await asyncio.sleep(0.01)
            held.gate.set()
            await asyncio.gather(*clients)

    asyncio.run(main())
    assert held.batches == [1, 8, 8, 8, 8, 7]  # without waiting: 1, 7, 1, 7, …


def test_one_question_cannot_spoil_anothers_answer(reader: Any, passage: str, questions: list[str]) -> None:
    class Poisoned:
        def ask_many(self, pairs: Any, **options: Any) -> Iterator[Any]:
            pairs = list(pairs)
            if any(question == "poison" for question, _ in pairs):
                raise ZeroDivisionError
            return reader.ask_many(pairs, **options)

    async def main() -> list[Any]:
        async with Batcher(Poisoned(), Settings()).running() as batcher:  # type: ignore[arg-type]
            texts = [questions[0], "poison", questions[1]]
            return await asyncio.gather(*(batcher.ask([(q, passage, 1)]) for q in texts), return_exceptions=True)

    first, second, third = asyncio.run(main())
    assert same(first[0], reader.ask(questions[0], passage))
    assert isinstance(second, ZeroDivisionError)
    assert same(third[0], reader.ask(questions[1], passage))


class Lazy:
    """A reader that reads one question after another, two ahead of its answers, as the CPU engine does."""

    def __init__(self, reader: Any) -> None:
        self.reader, self.calls, self.most = reader, 0, 0
        self.sizes: list[int] = []

    def ask_many(self, pairs: Iterator[tuple[str, str]], *, top: int, **options: Any) -> Iterator[Any]:
        self.calls += 1
        ahead: list[tuple[str, str]] = []
        for pair in pairs:
            ahead.append(pair)
            if len(ahead) > 2:
                yield self.read(*ahead.pop(0), top)
        while ahead:
            yield self.read(*ahead.pop(0), top)

    def read(self, question: str, passage: str, top: int) -> Any:
        if question == "poison":
            raise ZeroDivisionError
        return self.reader.ask(question, passage, top=top, always=True)


def serve_clients(lazy: Lazy, wanted: list[list[tuple[str, str, int]]], **settings: Any) -> list[list[Any]]:
    """What each client got, who asked one question after the other."""

    async def client(batcher: Batcher, questions: list[tuple[str, str, int]]) -> list[Any]:
        got = []
        for question in questions:
            (answer,) = await asyncio.gather(batcher.ask([question]), return_exceptions=True)
            got.append(answer)
            lazy.most = max(lazy.most, len(batcher.reading))
        return got

    async def main() -> list[list[Any]]:
        observe = lambda size, seconds: lazy.sizes.append(size)  # noqa: E731
        async with Batcher(lazy, Settings(**settings), observe).running() as batcher:  # type: ignore[arg-type]
            return await asyncio.gather(*(client(batcher, questions) for questions in wanted))

    return asyncio.run(main())


def test_who_asks_meanwhile_joins_those_being_read(reader: Any, passage: str, questions: list[str]) -> None:
    lazy, wanted = Lazy(reader), [[(question, passage[:120], 2) for question in questions] * 2] * 12
    for got in serve_clients(lazy, wanted, batch=6):
        for (question, text, top), (answers,) in zip(wanted[0], got, strict=True):
            assert same(answers, reader.ask(question, text, top=top))
    assert lazy.calls < 96 / 6 / 2  # without joining: a call for every six questions
    assert lazy.most <= 6
    assert sum(lazy.sizes) == 96  # each counted once
    assert set(lazy.sizes) <= set(range(1, 7))


def test_who_joins_gets_a_list_as_long_as_asked_for(reader: Any, passage: str, questions: list[str]) -> None:
    wanted = [asks(passage, questions, 6)[k:] for k in range(6)]
    for want, got in zip(wanted, serve_clients(Lazy(reader), wanted, batch=4), strict=True):
        for (question, text, top), (answers,) in zip(want, got, strict=True):
            assert same(answers, reader.ask(question, text, top=top))


def test_one_question_cannot_spoil_those_it_joined(reader: Any, passage: str, questions: list[str]) -> None:
    wanted = [[(questions[k % 4], passage[:120], 1), ("poison" if k == 3 else "Who?", passage, 1)] for k in range(8)]
    for k, got in enumerate(serve_clients(Lazy(reader), wanted, batch=4)):
        assert same(got[0][0], reader.ask(questions[k % 4], passage[:120]))
        assert isinstance(got[1], ZeroDivisionError) if k == 3 else same(got[1][0], reader.ask("Who?", passage))


def test_a_list_is_accepted_whole_or_not_at_all(held: Any, passage: str) -> None:
    async def main() -> None:
        async with Batcher(held, Settings(queue=4, max_items=4, batch=1)).running() as batcher:
            first = asyncio.create_task(batcher.ask([("Who?", passage, 1)]))
            await asyncio.to_thread(held.began.wait, 10)
            three = asyncio.create_task(batcher.ask([("Who?", passage, 1)] * 3))
            await asyncio.sleep(0)
            with pytest.raises(Full):
                await batcher.ask([("Who?", passage, 1)] * 2)
            assert len(batcher.pending) == 3
            held.gate.set()
            assert len(await first) == 1
            assert len(await three) == 3

    asyncio.run(main())


def test_what_cannot_be_in_time_is_refused_but_never_a_lone_question(held: Any, passage: str) -> None:
    one = ("Who?", passage, 1)

    async def main() -> None:
        async with Batcher(held, Settings(deadline=100.0)).running() as batcher:
            batcher.pace.seconds, batcher.pace.tokens = 120.0, weigh("Who?", passage)  # as if each took 120 seconds
            with pytest.raises(Full):
                await batcher.ask([one] * 3)
            assert batcher.expected_wait() == 0
            alone = asyncio.create_task(batcher.ask([one]))
            await asyncio.to_thread(held.began.wait, 10)
            batcher.pace.seconds = 40.0
            with pytest.raises(Full):  # 40 seconds of others, and 80 of its own
                await batcher.ask([one] * 2)
            joins = asyncio.create_task(batcher.ask([one]))
            held.gate.set()
            assert len(await alone) == len(await joins) == 1

    asyncio.run(main())


def test_half_of_the_deadline_is_kept_in_reserve(held: Any, passage: str) -> None:
    async def main() -> None:
        async with Batcher(held, Settings(deadline=100.0)).running() as batcher:
            batcher.pace.seconds, batcher.pace.tokens = 60.0, weigh("Who?", passage)  # as if each took 60 seconds
            first = asyncio.create_task(batcher.ask([("Who?", passage, 1)]))
            await asyncio.to_thread(held.began.wait, 10)
            with pytest.raises(Full) as refused:  # it would be in time, but for the smallest delay
                await batcher.ask([("Who?", "Ada.", 1)])
            assert refused.value.retry_after == 60
            batcher.pace.seconds = 40.0
            second = asyncio.create_task(batcher.ask([("Who?", "Ada.", 1)]))
            held.gate.set()
            assert len(await first) == len(await second) == 1

    asyncio.run(main())


def test_long_passages_take_turns_with_the_rest(reader: Any, passage: str) -> None:
    parts, long = InParts(reader), passage * 300

    async def main() -> list[Any]:
        async with Batcher(parts, Settings(deadline=600.0)).running() as batcher:  # type: ignore[arg-type]
            asked = [asyncio.create_task(batcher.ask([(name, long, 3)])) for name in ("long?", "other?")]
            await asyncio.to_thread(parts.began.wait, 10)
            asked += [asyncio.create_task(batcher.ask([(f"{k}?", passage, 1)])) for k in range(3)]
            await asyncio.sleep(0.01)
            parts.gate.set()
            return await asyncio.gather(*asked)

    answers = asyncio.run(main())
    assert parts.read[:6] == ["long?", "other?", "0?", "1?", "2?", "long?"]  # the short wait for one turn of each
    middle = parts.read[5:-1]
    assert all(one != next for one, next in pairwise(middle))  # turn by turn
    assert parts.read.count("long?") > 5
    for question, (got,) in zip(("long?", "other?"), answers, strict=False):
        assert same(got, reader.ask(question, long, top=3))


def test_so_do_long_lists(reader: Any, passage: str) -> None:
    parts = InParts(reader)
    parts.gate.set()

    async def main() -> None:
        async with Batcher(parts, Settings(deadline=600.0, batch=2)).running() as batcher:  # type: ignore[arg-type]
            many = asyncio.create_task(batcher.ask([(f"{k}?", passage * 5, 1) for k in range(64)]))
            await asyncio.sleep(0.01)
            await batcher.ask([("short?", passage, 1)])
            await many

    asyncio.run(main())
    assert sorted(parts.read[:65]) == sorted(["short?", *(f"{k}?" for k in range(64))])
    assert parts.read.index("short?") < 40  # a slice of the list, and what was already being read


def test_a_short_question_is_accepted_where_a_long_one_fills_the_deadline(reader: Any, passage: str) -> None:
    parts, long = InParts(reader), passage * 300

    async def main() -> None:
        async with Batcher(parts, Settings(deadline=100.0)).running() as batcher:  # type: ignore[arg-type]
            batcher.pace.seconds, batcher.pace.tokens = 100.0, weigh("long?", long)
            first = asyncio.create_task(batcher.ask([("long?", long, 1)]))
            await asyncio.to_thread(parts.began.wait, 10)
            with pytest.raises(Full):
                await batcher.ask([("long?", long, 1)])
            second = asyncio.create_task(batcher.ask([("short?", passage, 1)]))
            parts.gate.set()
            assert len(await second) == len(await first) == 1

    asyncio.run(main())
    assert parts.read.index("short?") <= 2


@given(st.text(alphabet="ab1_. \n\x1c-", max_size=40))
def test_tokens_are_counted_without_finding_them(text: str) -> None:
    assert count_tokens(text) == len(tokenize(text))


@given(st.text(max_size=40))
def test_never_too_few(text: str) -> None:
    assert count_tokens(text) >= len(tokenize(text))


def test_a_misjudged_pace_does_not_refuse_a_list_for_ever(reader: Any, passage: str) -> None:
    async def main() -> int:
        async with Batcher(reader, Settings()).running() as batcher:
            batcher.pace.seconds, batcher.pace.tokens = 100.0, weigh("Who?", passage)  # as if it had once stood still
            for refused in range(100):
                with contextlib.suppress(Full):
                    await batcher.ask([("Who?", passage, 1)] * 4)
                    return refused
        return -1

    assert asyncio.run(main()) == 36  # 400 seconds, 360, 324, ... 10.01


def test_an_asker_who_leaves_takes_his_questions_along(held: Any, passage: str) -> None:
    async def main() -> None:
        async with Batcher(held, Settings(batch=1)).running() as batcher:
            stays = asyncio.create_task(batcher.ask([("Who?", passage, 1)]))
            await asyncio.to_thread(held.began.wait, 10)
            leaves = asyncio.create_task(batcher.ask([("What?", passage, 1)] * 5))
            await asyncio.sleep(0.01)
            leaves.cancel()
            await asyncio.gather(leaves, return_exceptions=True)
            assert batcher.pending == []
            held.gate.set()
            assert await stays

    asyncio.run(main())
    assert held.batches == [1]


def test_what_nobody_waits_for_is_skipped_in_the_midst_of_reading(reader: Any, passage: str) -> None:
    began, gate, read, sizes = threading.Event(), threading.Event(), [], []

    class Slow(Lazy):
        def read(self, question: str, passage: str, top: int) -> Any:
            began.set()
            assert gate.wait(60)
            read.append(question)
            return super().read(question, passage, top)

    async def main() -> Any:
        observe = lambda size, seconds: sizes.append(size)  # noqa: E731
        async with Batcher(Slow(reader), Settings(), observe).running() as batcher:  # type: ignore[arg-type]
            leaves = asyncio.create_task(batcher.ask([(f"{k}?", passage, 1) for k in range(9)]))
            stays = asyncio.create_task(batcher.ask([("Who was the engineer?", passage, 2)]))
            late = asyncio.create_task(batcher.ask([(f"And was it {k}?", passage * 2, 1) for k in range(9)]))
            await asyncio.to_thread(began.wait, 60)
            for one in (leaves, late):
                one.cancel()
            await asyncio.gather(leaves, late, return_exceptions=True)
            gate.set()
            return await stays

    (answers,) = asyncio.run(main())
    assert same(answers, reader.ask("Who was the engineer?", passage, top=2))
    assert read == ["0?", "1?", "2?", "Who was the engineer?"]  # begun, or wanted
    assert sum(sizes) == 4


def test_the_event_loop_never_waits_for_the_reader(held: Any, passage: str) -> None:
    threads: set[str] = set()

    class Watched:
        def ask_many(self, pairs: Any, **options: Any) -> Iterator[Any]:
            threads.add(threading.current_thread().name)
            return held.ask_many(pairs, **options)

    async def main() -> int:
        async with Batcher(Watched(), Settings()).running() as batcher:  # type: ignore[arg-type]
            task, turns = asyncio.create_task(batcher.ask([("Who?", passage, 1)])), 0
            while turns < 50:
                await asyncio.sleep(0.001)
                turns += 1
            assert not task.done()
            held.gate.set()
            await task
            return turns

    assert asyncio.run(main()) == 50
    assert threads == {"reader_0"}


def jobs(sizes: list[int], explained: set[int]) -> list[ReadingJob]:
    loop = asyncio.new_event_loop()
    made: list[ReadingJob] = []
    for k, size in enumerate(sizes):
        common: dict[str, Any] = {"question": "", "passage": "", "size": size, "future": loop.create_future()}
        made.append(ExplanationJob(**common, write=repr) if k in explained else QuestionJob(**common))
    loop.close()
    return made


@given(
    st.lists(st.integers(1, 1000), min_size=1, max_size=40),
    st.integers(1, 16),
    st.integers(1, 5000),
    st.sets(st.integers(0, 39), max_size=3),
)
def test_batches_keep_the_order_of_arrival_and_their_bounds(
    sizes: list[int], count: int, characters: int, explained: set[int]
) -> None:
    pending = jobs(sizes, explained)
    everything = list(pending)
    while pending:
        before = list(pending)
        batch = take(pending, count, characters)
        assert set(map(id, batch)) == set(map(id, before[: len(batch)]))  # nobody is overtaken
        assert pending == before[len(batch) :]
        assert 1 <= len(batch) <= count
        assert len(batch) == 1 or sum(job.size for job in batch) <= characters
        assert len(batch) == 1 or all(isinstance(job, QuestionJob) for job in batch)
        assert [job.size for job in batch] == sorted(job.size for job in batch)
        together = pending and isinstance(batch[0], QuestionJob) and isinstance(pending[0], QuestionJob)
        if together and len(batch) < count:  # and full
            assert sum(job.size for job in batch) + pending[0].size > characters
        everything = everything[len(batch) :]
    assert everything == []


def test_settings_are_frozen() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        Settings().queue = 3  # type: ignore[misc]


def test_the_wait_is_judged_by_what_reading_took(held: Any, passage: str) -> None:
    async def main() -> list[float]:
        read = asyncio.Event()
        async with Batcher(held, Settings(batch=1), lambda size, seconds: read.set()).running() as batcher:
            first = asyncio.create_task(batcher.ask([("Who?", passage, 1)]))
            await asyncio.to_thread(held.began.wait, 60)
            await asyncio.sleep(0.3)
            waits = [batcher.expected_wait()]  # nothing is known yet
            held.gate.set()
            await asyncio.gather(first, read.wait())
            held.gate.clear()
            asked = []
            for _ in range(3):
                asked.append(asyncio.create_task(batcher.ask([("Who?", passage, 1)])))
                await asyncio.sleep(0)  # it is in the queue now
                waits.append(batcher.expected_wait())
            held.gate.set()
            await asyncio.gather(*asked)
            return waits

    unknown, one, *more = asyncio.run(main())
    assert unknown == 0
    size = weigh("Who?", passage)
    assert one >= 0.3 * size / (PRIOR + 2 * size)  # a first batch is taken with a grain of salt
    assert more == pytest.approx([2 * one, 3 * one])
