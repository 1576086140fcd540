"""One reader, many clients: questions that wait together are read together, in one worker thread.

The event loop never runs the network. While questions are read, arrivals queue up, and when the
reader has room they join those it is still busy with. So batches grow with the load by themselves,
no processor waits for the end of one, and a lone question is never held back.

``turns.py`` says whose turn it is, ``pace.py`` how long it will take. What nobody waits for any
more is dropped, also between two turns of a long passage.
"""

import asyncio
import contextlib
import math
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from time import perf_counter
from typing import Any

from rmreader.reading.answers import Answers
from rmreader.reading.explanation import Explanation
from rmreader.reading.reader import Reader
from rmreader.server.cost import weigh, weigh_attention
from rmreader.server.jobs import ExplanationJob, QuestionJob, ReadingJob
from rmreader.server.pace import ReadingPace
from rmreader.server.responses import Refused
from rmreader.server.settings import Settings
from rmreader.server.turns import Turns

# Share of the deadline that may be promised to what waits: the pace can change meanwhile.
RESERVE = 0.5
# Seconds that the worker thread waits for the event loop, so that it ends if the loop was killed.
LOOP_TIMEOUT = 60
# Seconds between two words on how much of a long text was read.
TELL_EVERY = 0.5
# Who asks. Where that is not known, each call is a client by itself.
CLIENT: ContextVar[str] = ContextVar("client", default="")

Wanted = tuple[str, str, int] | tuple[str, str, int, bool]
More = Callable[[int], list[QuestionJob]]


class Full(Refused):
    """The queue holds all it may; ``retry_after`` is the expected wait in whole seconds."""

    def __init__(self, retry_after: int) -> None:
        message = (
            f"This is more than can be answered in time; ask again in {retry_after} s, "
            "or send less at once."
        )
        super().__init__(503, "busy", message, {"retry-after": str(retry_after)})
        self.retry_after = retry_after


class Batcher:
    """Collects questions into batches for one reader.

    ``observe`` is called with the size of each batch and the seconds it took.
    """

    def __init__(
        self,
        reader: Reader,
        settings: Settings,
        observe: Callable[[int, float], None] = lambda size, seconds: None,
    ) -> None:
        self.reader = reader
        self.settings = settings
        self.observe = observe
        self.pace = ReadingPace()
        self.turns = Turns()
        self.draining = False
        """Told to stop: what comes is still answered, but /readyz says to go elsewhere."""
        self._calls = 0
        self._since = 0.0  # when the pace was last judged
        self._wanted = 1  # how many questions the next batch waits for
        self._ripe = asyncio.Event()
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="reader")
        self._task: asyncio.Task[None] | None = None

    # Life

    def start(self) -> None:
        """Begin to read questions, unless this event loop already does."""
        loop = asyncio.get_running_loop()
        if self._task is not None and self._task.get_loop() is loop:
            return
        self.turns.clear()
        self._ripe = asyncio.Event()
        self._task = loop.create_task(self._run())

    async def stop(self) -> None:
        """Stop reading, after the batch at hand."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        await asyncio.get_running_loop().run_in_executor(None, self._pool.shutdown)

    @contextlib.asynccontextmanager
    async def running(self) -> Any:
        """Serve questions inside this context."""
        self.start()
        try:
            yield self
        finally:
            await self.stop()

    @property
    def alive(self) -> bool:
        """Whether questions are being read at all."""
        return self._task is not None and not self._task.done()

    @property
    def pending(self) -> list[ReadingJob]:
        """What waits."""
        return self.turns.pending

    @property
    def reading(self) -> list[ReadingJob]:
        """What is being read."""
        return self.turns.reading

    # Admission

    def expected_wait(self, size: float = math.inf) -> float:
        """Estimate the seconds before a call of this size is answered, without its own."""
        return self.pace.seconds_for(self.turns.tokens_before(size, CLIENT.get()))

    def check_room(self, count: int = 1, size: int = 1) -> None:
        """Raise ``Full`` where so many more questions, of this size in all, are too many.

        A question that would be alone is always read: the pace may be misjudged, and only reading
        can correct it. For the same reason a list is not refused for ever.
        """
        allowed = RESERVE * self.settings.deadline
        has_room = len(self.pending) + count <= self.settings.queue
        if has_room and self.pace.seconds_for(self.turns.tokens() + size) <= allowed:
            return  # whatever the order of turns
        wait = self.expected_wait(size)
        idle = not self.turns.everything()
        late = wait + self.pace.seconds_for(size) > self.settings.deadline
        if idle and count == 1:
            late = False
        if late and idle:
            self.pace.doubt()
        if not has_room or wait > allowed or late:
            raise Full(max(1, math.ceil(wait)))

    def check_queue(self) -> None:
        """Raise ``Full`` where one more question is too many, however long it takes to read."""
        if len(self.pending) >= self.settings.queue:
            raise Full(max(1, math.ceil(self.expected_wait(1))))

    # Asking

    async def ask_long(self, question: Wanted) -> AsyncIterator[float | Answers]:
        """Answer one question about a text of any length.

        Yields the share that was read, again and again, and at last the answers. Where that is not
        waited for, the rest is not read.
        """
        self.check_queue()
        job = self._question(*question)
        size = job.size
        answering = asyncio.create_task(self._results([job], patient=True))
        try:
            while not answering.done():
                yield min(1.0, 1 - job.size / size)
                await asyncio.wait((answering,), timeout=TELL_EVERY)
            (answers,) = answering.result()
            yield answers
        finally:
            answering.cancel()
            await asyncio.wait((answering,))

    async def ask(self, questions: Sequence[Wanted]) -> list[Answers]:
        """Answer (question, passage, top) or (question, passage, top, always).

        All of them are accepted, or none.
        """
        jobs: list[ReadingJob] = [self._question(*wanted) for wanted in questions]
        return await self._results(jobs)

    async def explain(
        self, question: str, passage: str, write: Callable[[Explanation], Any]
    ) -> Any:
        """Return ``write(explanation)``, both computed in the worker thread."""
        job = ExplanationJob(
            question=question,
            passage=passage,
            size=weigh_attention(question, passage),
            future=asyncio.get_running_loop().create_future(),
            write=write,
        )
        (result,) = await self._results([job])
        return result

    def _question(self, question: str, passage: str, top: int, always: bool = False) -> QuestionJob:
        return QuestionJob(
            question=question,
            passage=passage,
            size=weigh(question, passage),
            future=asyncio.get_running_loop().create_future(),
            top=top,
            always=always,
        )

    async def _results(self, jobs: Sequence[ReadingJob], patient: bool = False) -> list[Any]:
        """Line up the jobs of one call and wait for all of them.

        Who is ``patient`` need not have an answer before the deadline.
        """
        if not patient:
            self.check_room(len(jobs), sum(job.size for job in jobs))
        self._calls += 1
        client = CLIENT.get() or f"call {self._calls}"
        tokens = self.turns.tokens_by_client()[client]
        for job in jobs:
            job.client = client
            job.call = self._calls
            self._line_up(job, tokens + job.delay)
            tokens += job.size
        try:
            return [await job.future for job in jobs]
        except BaseException:
            # Past its deadline, its client gone, or an item failed: what has not begun is dropped.
            for job in jobs:
                self._drop(job)
            raise

    def _line_up(self, job: ReadingJob, tokens_before: int) -> None:
        self.turns.add(job, tokens_before)
        if len(self.pending) >= self._wanted:
            self._ripe.set()

    def _drop(self, job: ReadingJob) -> None:
        if job in self.pending:
            self.pending.remove(job)
        if not job.future.cancel() and not job.future.cancelled():
            # Looked at, so that asyncio does not report it again.
            job.future.exception()

    # Reading

    async def _run(self) -> None:
        """Read batch after batch."""
        loop = asyncio.get_running_loop()
        while True:
            await self._gather()
            if not self.pending:  # dropped while waiting
                continue
            self._since = perf_counter()
            batch = self.turns.take(self.settings.batch, self.settings.batch_tokens)
            try:
                await loop.run_in_executor(self._pool, self._work, deque(batch), loop)
            finally:
                # Also where this is cancelled just as the last answer went out.
                read = self._account(0)
                self._wanted = min(max(read, len(self.pending)), self.settings.batch)
            first = batch[0]
            if first.parts is not None and not first.future.done():
                self._line_up_again(first)

    def _line_up_again(self, job: ReadingJob) -> None:
        """Let a job that was read in part wait for its next turn."""
        excess = job.excess
        job.size = max(1, job.size - job.slice)
        tokens = self.turns.tokens_by_client(except_call=job.call)[job.client]
        self._line_up(job, tokens + excess)

    async def _gather(self) -> None:
        """Wait for a question.

        After a batch, the clients just answered have a moment to ask again together.
        """
        if 1 < self._wanted > len(self.pending):
            self._ripe.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._ripe.wait(), self.settings.batch_wait)
        self._wanted = 1
        if not self.pending:
            self._ripe.clear()
            await self._ripe.wait()

    def _work(self, jobs: deque[ReadingJob], loop: asyncio.AbstractEventLoop) -> None:
        """Read, in the worker thread; every answer goes to its asker as soon as it is there."""

        def more(top: int) -> list[QuestionJob]:
            # The usual case where few ask: not worth a word with the loop.
            if not self.pending:
                return []
            joining = asyncio.run_coroutine_threadsafe(self._join(list(jobs), top), loop)
            return joining.result(LOOP_TIMEOUT)

        for job, result in results(self.reader, jobs, self.settings.batch, more):
            # None: of a long passage there is more to read.
            if result is not None:
                loop.call_soon_threadsafe(settle, job.future, result)

    async def _join(self, reading: list[ReadingJob], top: int) -> list[Any]:
        """Take what may join those being read, so that the reader need not wait between batches."""
        count = self.settings.batch - len(reading)
        tokens = self.settings.batch_tokens - sum(job.size for job in reading)
        if count < 1 or not self.pending or not self.alive:
            return []
        first = self.pending[0]
        if first.size > tokens or first.alone:
            return []
        if any(isinstance(job, QuestionJob) and job.top > top for job in self.pending[:count]):
            return []
        self._account(len(reading))
        return self.turns.take(count, tokens)

    def _account(self, left: int) -> int:
        """Judge the pace by what was read since the last time, all but ``left`` jobs.

        Return how many questions these are, without those that were skipped.
        """
        count = len(self.reading) - left
        if not count:
            return 0
        sizes = [job.slice for job in self.turns.finish(count) if job.size]
        now = perf_counter()
        seconds = now - self._since
        self._since = now
        self.pace.note(sum(sizes), seconds)
        if sizes:
            self.observe(len(sizes), seconds)
        return len(sizes)


def no_more(top: int) -> list[QuestionJob]:
    """Let nothing join."""
    return []


def results(
    reader: Reader, jobs: deque[Any], batch: int, more: More = no_more
) -> Iterator[tuple[ReadingJob, Any]]:
    """Yield each job with its result.

    Where reading fails, the rest is read one by one: none can spoil another's answer.
    """
    try:
        for result in read(reader, jobs, batch, more):
            yield jobs.popleft(), result
    except Exception as error:
        if len(jobs) == 1:
            yield jobs.popleft(), error
        while jobs:
            yield from results(reader, deque([jobs.popleft()]), 1)


def read(reader: Reader, jobs: deque[Any], batch: int, more: More) -> Iterator[Any]:
    """Yield the results of the jobs and of those that join, or of the next part of a long one."""
    first = jobs[0]
    if first.alone:
        if first.parts is None:
            first.parts = first.begin(reader)
        yield next(first.parts)
    else:
        yield from read_together(reader, jobs, batch, more)


def read_together(
    reader: Reader, jobs: deque[QuestionJob], batch: int, more: More
) -> Iterator[Answers]:
    """Yield the answers of questions that are read as one stream.

    All share the longest ``top`` and are read ``always``; each is then given what it asked for, as
    a shorter list is the beginning of a longer one. Questions that nobody waits for any more when
    their turn comes are skipped, with an empty list for a result.
    """
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
        job = jobs[0]
        yield answers.select(job.top, always=job.always)
    yield from skipped()


def settle(future: asyncio.Future[Any], result: Any) -> None:
    """Hand a result, or an error, to whoever still waits for it."""
    if future.done():
        return
    if isinstance(result, Exception):
        future.set_exception(result)
    else:
        future.set_result(result)
