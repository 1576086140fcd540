"""One reader, many askers: questions that wait together are read together, in one worker thread.

The event loop never runs the network. While questions are read, arrivals queue up, and when the reader asks for more
they join those it is still busy with: batches grow with the load by themselves, no processor waits for the end of one,
and a lone question is never held back.

Nobody can keep the reader to himself. It reads in rounds, and in every round each client has its turn, which is a
``SLICE`` at most: a long passage is read a few windows at a time, a long list a few questions at a time, the calls of
one client take turns among themselves, and whoever comes meanwhile is in the next round. What nobody waits for any more
is dropped, between two slices too.
"""

import asyncio
import contextlib
import math
from bisect import insort
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from dataclasses import dataclass
from time import perf_counter
from typing import Any

from rmreader.reading.answers import Answers
from rmreader.reading.explanation import Explanation
from rmreader.reading.reader import Reader
from rmreader.server.cost import weigh, weigh_attention, window_cost
from rmreader.server.schemas import Refused
from rmreader.server.settings import Settings

RESERVE = 0.5  # share of the deadline that may be promised to what waits: the pace can change meanwhile
PRIOR, LATELY = 4_000.0, 20_000.0  # tokens: of a reader not yet seen at work, and how far back pace is judged
DOUBT = 0.9  # what is left of the estimated pace each time that an idle server refuses a list
SLICE = 2_000  # tokens that one client may have read before the others have their turn
CLIENT: ContextVar[str] = ContextVar("client", default="")  # who asks; not known: each call is a client by itself


class Full(Refused):
    """The queue holds all it may; ``retry_after`` is the expected wait in whole seconds."""

    def __init__(self, retry_after: int) -> None:
        message = f"This is more than can be answered in time; ask again in {retry_after} s, or send less at once."
        super().__init__(503, "busy", message, {"retry-after": str(retry_after)})
        self.retry_after = retry_after


@dataclass(slots=True, eq=False)
class ReadingJob:
    """A question waiting, and the future that its asker awaits."""

    question: str
    passage: str
    top: int
    finish: Callable[[Explanation], Any] | None  # set: explain, and run this on the result in the worker thread
    size: int  # tokens left to read; 0: skipped
    future: asyncio.Future[Any]
    always: bool = False  # answers even where the reader decides that there is none
    client: str = ""
    call: int = 0  # the same for all questions of a list
    turn: int = 0  # the round in which it is read, or its next part
    parts: Iterator[Any] | None = None  # of one that is read by itself, once begun

    @property
    def alone(self) -> bool:
        """Whether it is read by itself: an explanation, or a long passage part by part."""
        return self.finish is not None or self.parts is not None or self.size > SLICE

    def begin(self, reader: Reader) -> Iterator[Any]:
        """Its reading by itself, in parts: a None after each but the last, and then the result."""
        if self.finish is None:
            portions = max(1, SLICE // window_cost(self.question))
            options: dict[str, Any] = {"top": self.top, "always": self.always, "portions": portions}
            yield from reader.ask_in_parts(self.question, self.passage, **options)
        else:
            explanation = reader.explain(self.question, self.passage)
            yield None  # writing it down takes as long again
            yield self.finish(explanation)

    @property
    def slice(self) -> int:
        """How much of it is read in one turn."""
        if self.finish is not None:
            return -(-self.size // 2)
        return min(self.size, max(SLICE, window_cost(self.question) if self.parts is not None else 0))


class Batcher:
    """Collects questions into batches for one reader."""

    def __init__(
        self, reader: Reader, settings: Settings, observe: Callable[[int, float], None] = lambda size, seconds: None
    ) -> None:
        self.reader, self.settings, self.observe = reader, settings, observe
        self.pending: list[ReadingJob] = []  # in order of their turns, and within a round of arrival
        self.draining = False  # told to stop: what comes is still answered, but /readyz says to go elsewhere
        self._running: list[ReadingJob] = []  # in the order in which they are read
        self._since = 0.0  # when the pace was last judged
        self._round = self._calls = 0  # that is being read; and how many there were
        self._seconds, self._tokens = 0.0, PRIOR  # spent on what was read lately; nothing is refused on a whim
        self._wanted = 1  # how many questions the next batch waits for
        self._ripe = asyncio.Event()
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="reader")
        self._task: asyncio.Task[None] | None = None

    @contextlib.asynccontextmanager
    async def running(self) -> Any:
        """Serve questions inside this context; leaving it waits for the batch at hand."""
        self._task = asyncio.create_task(self._run())
        try:
            yield self
        finally:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            await asyncio.get_running_loop().run_in_executor(None, self._pool.shutdown)

    @property
    def alive(self) -> bool:
        """Whether questions are being read at all."""
        return self._task is not None and not self._task.done()

    def expected_wait(self, size: float = math.inf) -> float:
        """Seconds to read all that comes before the end of a call of this size, judged by what was read before."""
        turns, before = self._turns(), 0.0
        rounds = max(1.0, size / SLICE) + turns[CLIENT.get()] // SLICE  # that it takes, from the next on
        for job in self.pending + self._running:
            left = rounds - max(0, job.turn - self._round - 1)
            if left > 0:  # rounds before the call's end, of which it has one for each of its client's
                before += min(job.size, max(min(left, 1.0), left * SLICE / max(SLICE, turns[job.client])) * SLICE)
        return self._seconds / self._tokens * before

    def _turns(self, but: int = 0) -> Counter[str]:
        """Tokens that each client has waiting for one turn of each of its calls, all but this one."""
        calls: dict[int, int] = {}
        clients: dict[int, str] = {}
        for job in self.pending + self._running:
            calls[job.call] = calls.get(job.call, 0) + job.size
            clients[job.call] = job.client
        turns = Counter[str]()
        for call, size in calls.items():
            turns[clients[call]] += 0 if call == but else min(size, SLICE)
        return turns

    def check_room(self, count: int = 1, size: int = 1) -> None:
        """Raise ``Full`` where ``count`` more questions, of this size in all, overfill the queue or cannot be in time.

        A question that would be alone is always read: the pace may be misjudged, and only reading can correct it.
        """
        deadline, waiting = self.settings.deadline, self.pending + self._running
        room = len(self.pending) + count <= self.settings.queue
        if room and self._seconds / self._tokens * (sum([job.size for job in waiting]) + size) <= RESERVE * deadline:
            return  # whoever comes first
        wait, idle = self.expected_wait(size), not waiting
        late = wait + self._seconds / self._tokens * size > deadline and not (idle and count == 1)
        if late and idle:  # for the same reason a list is not refused for ever
            self._seconds *= DOUBT
        if not room or wait > RESERVE * deadline or late:
            raise Full(max(1, math.ceil(wait)))

    async def ask(self, questions: Sequence[tuple[str, str, int] | tuple[str, str, int, bool]]) -> list[Answers]:
        """Answers to (question, passage, top) or (question, passage, top, always): all of them accepted, or none."""
        return await self._results([self._job(*one) for one in questions])

    async def explain(self, question: str, passage: str, finish: Callable[[Explanation], Any]) -> Any:
        """``finish(explanation)``, both computed in the worker thread."""
        return (await self._results([self._job(question, passage, 1, finish=finish)]))[0]

    def _job(
        self,
        question: str,
        passage: str,
        top: int,
        always: bool = False,
        finish: Callable[[Explanation], Any] | None = None,
    ) -> ReadingJob:
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        size = (weigh if finish is None else weigh_attention)(question, passage)
        return ReadingJob(question, passage, top, finish, size, future, always)

    def _line_up(self, job: ReadingJob, spent: int) -> None:
        """In the next round, or later where so much of the same client comes before it."""
        job.turn = self._round + 1 + spent // SLICE
        insort(self.pending, job, key=lambda job: job.turn)
        if len(self.pending) >= self._wanted:
            self._ripe.set()

    def _take(self, count: int, tokens: int) -> list[ReadingJob]:
        """The next batch, from here on counted as being read."""
        taken = take(self.pending, count, tokens)
        self._round = max(self._round, max(job.turn for job in taken))
        self._running += taken
        return taken

    async def _results(self, jobs: list[ReadingJob]) -> list[Any]:
        self.check_room(len(jobs), sum(job.size for job in jobs))
        self._calls += 1
        client = CLIENT.get() or f"call {self._calls}"
        spent = self._turns()[client]
        for job in jobs:
            job.client, job.call = client, self._calls
            self._line_up(job, spent if job.finish is None else spent + job.size)  # who cannot yield waits the longer
            spent += job.size
        try:
            return [await job.future for job in jobs]
        except BaseException:  # past its deadline, its asker gone, or an item failed: what has not begun is dropped
            for job in jobs:
                if job in self.pending:
                    self.pending.remove(job)
                if not job.future.cancel() and not job.future.cancelled():
                    job.future.exception()  # seen, so that asyncio does not report it again
            raise

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await self._gather()
            if not self.pending:  # dropped while waiting
                continue
            self._since = perf_counter()
            first, *others = self._take(self.settings.batch, self.settings.batch_tokens)
            try:
                await loop.run_in_executor(self._pool, self._work, deque([first, *others]), loop)
            finally:  # told to stop just as the last answer went out: these count too
                self._wanted = min(max(self._account(0), len(self.pending)), self.settings.batch)
            if first.parts is not None and not first.future.done():
                over = 0 if first.finish else max(0, first.slice - SLICE)  # a window with a long question
                first.size = max(1, first.size - first.slice)
                self._line_up(first, self._turns(first.call)[first.client] + over)

    def _work(self, jobs: deque[ReadingJob], loop: asyncio.AbstractEventLoop) -> None:
        """Read, in the worker thread; every answer goes to its asker as soon as it is there."""

        def more(top: int) -> list[ReadingJob]:
            if not self.pending:  # the usual case where few ask: not worth a word with the loop
                return []
            joined = asyncio.run_coroutine_threadsafe(self._join(list(jobs), top), loop)
            return joined.result(60)  # lest this thread outlive a loop that was stopped by force

        for job, result in results(self.reader, jobs, self.settings.batch, more):
            if result is not None:  # of a long passage there may be more to read
                loop.call_soon_threadsafe(settle, job.future, result)

    async def _join(self, reading: list[ReadingJob], top: int) -> list[ReadingJob]:
        """What may join those being read, so that the reader need not wait between batches."""
        count = self.settings.batch - len(reading)
        tokens = self.settings.batch_tokens - sum(job.size for job in reading)
        ahead = self.pending[: max(1, count)]
        if count < 1 or not ahead or not self.alive or ahead[0].size > tokens or ahead[0].alone:
            return []
        if any(job.top > top for job in ahead):
            return []
        self._account(len(reading))
        return self._take(count, tokens)

    def _account(self, left: int) -> int:
        """Judge the pace by the questions read since the last time, all but ``left``; how many these are."""
        done = len(self._running) - left
        if not done:
            return 0
        sizes, now = [job.slice for job in self._running[:done] if job.size], perf_counter()
        size, seconds, self._since = sum(sizes), now - self._since, now
        fade = LATELY / (LATELY + size)
        self._seconds, self._tokens = self._seconds * fade + seconds, self._tokens * fade + size
        del self._running[:done]
        if sizes:
            self.observe(len(sizes), seconds)
        return len(sizes)

    async def _gather(self) -> None:
        """Wait for a question; after a batch, give the clients just answered a moment to ask again together."""
        if len(self.pending) < self._wanted and self._wanted > 1:
            self._ripe.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._ripe.wait(), self.settings.batch_wait)
        self._wanted = 1
        if not self.pending:
            self._ripe.clear()
            await self._ripe.wait()


def take(pending: list[ReadingJob], count: int, tokens: int) -> list[ReadingJob]:
    """Remove the next batch, in order; within it the short come first, and like is beside like."""
    size = 0
    for place, job in enumerate(pending):
        size += job.size
        if place and (place == count or size > tokens or job.alone or pending[0].alone):
            break
    else:
        place = len(pending)
    batch = sorted(pending[:place], key=lambda job: job.size)
    del pending[:place]
    return batch


def results(
    reader: Reader, jobs: deque[ReadingJob], batch: int, more: Callable[[int], list[ReadingJob]] = lambda top: []
) -> Iterator[tuple[ReadingJob, Any]]:
    """Each job with its result. Where reading fails, the rest is read one by one: none can spoil another's answer."""
    try:
        for result in read(reader, jobs, batch, more):
            yield jobs.popleft(), result
    except Exception as error:
        if len(jobs) == 1:
            yield jobs.popleft(), error
        while jobs:
            yield from results(reader, deque([jobs.popleft()]), 1)


def read(reader: Reader, jobs: deque[ReadingJob], batch: int, more: Callable[[int], list[ReadingJob]]) -> Iterator[Any]:
    """Results of the jobs and of those that join. All share the longest ``top`` and are read ``always``, and each is
    then given what it asked for: a shorter list is the beginning of a longer one.

    Questions that nobody waits for any more when their turn comes are skipped, with an empty list for a result.
    """
    if (first := jobs[0]).alone:
        first.parts = first.parts or first.begin(reader)
        yield next(first.parts)
        return
    top = max(job.top for job in jobs)

    def pairs() -> Iterator[tuple[str, str]]:
        fresh = list(jobs)
        while fresh:
            for job in fresh:
                if job.future.cancelled():
                    job.size = 0
                else:
                    yield job.question, job.passage
            fresh = more(top)
            jobs.extend(fresh)

    def skipped() -> Iterator[Answers]:
        while jobs and not jobs[0].size:
            yield Answers()

    for answers in reader.ask_many(pairs(), top=top, always=True, batch_size=batch):
        yield from skipped()
        yield answers.select(jobs[0].top, always=jobs[0].always)
    yield from skipped()


def settle(future: asyncio.Future[Any], result: Any) -> None:
    """Hand a result, or an error, to whoever still waits for it."""
    if future.done():
        return
    if isinstance(result, Exception):
        future.set_exception(result)
    else:
        future.set_result(result)
