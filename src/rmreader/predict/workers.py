"""Shards on this machine: in this process, or in several, any of which may die."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess

from rmreader.core.errors import UserError
from rmreader.core.processes import end_with
from rmreader.predict.job import PredictJob
from rmreader.predict.shards import Plan

_TRIES = 3  # processes that a shard may cost, such as by more memory than there is


def answer_here(
    plan: Plan, job: PredictJob, todo: Sequence[int], workers: int = 1
) -> Iterator[int]:
    """Make the parts of these shards in so many processes; yield each as soon as it is there.

    A process that dies is replaced and its shard begun again. One that loses this process ends as
    well (on Linux at once), and whoever resumes does its work again.
    """
    if workers == 1:
        for index in todo:
            plan.put(index, job.answer_lines(plan.content(index)))
            yield index
        return
    waiting = deque(todo)
    team = [_Worker(plan, job) for _ in range(min(workers, len(waiting)))]
    try:
        yield from _share_out(team, waiting)
    finally:
        for worker in team:
            worker.end()


def _share_out(team: list[_Worker], waiting: deque[int]) -> Iterator[int]:
    """Give each worker one shard after the other; yield those that are done."""
    lost = Counter[int]()
    while True:
        for worker in team:
            if worker.shard is None and waiting:
                worker.begin(waiting.popleft())
        busy = {worker.pipe: worker for worker in team if worker.shard is not None}
        if not busy:
            return
        for pipe in wait(list(busy)):
            worker = busy[pipe]  # type: ignore[index]
            index, problem = worker.result()
            if problem is None:
                yield index
                continue
            lost[index] += 1
            if lost[index] == _TRIES:
                raise UserError(
                    f"shard {index}: {problem}, {_TRIES} times; "
                    "it may need more memory than there is."
                )
            waiting.appendleft(index)
            worker.restart()


class _Worker:
    """A process that makes one part after the other, and the shard that it is at."""

    def __init__(self, plan: Plan, job: PredictJob) -> None:
        self.plan = plan
        self.job = job
        self.restart()

    def restart(self) -> None:
        """Start a new process."""
        self.shard: int | None = None
        # Spawned, not forked: threads and locks of this process are none of its business.
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.process: SpawnProcess = context.Process(
            target=_work, args=(self.plan, self.job, theirs, os.getpid()), daemon=True
        )
        self.process.start()
        theirs.close()  # so that we hear when it ends

    def begin(self, index: int) -> None:
        """Have it make this part."""
        self.shard = index
        with contextlib.suppress(OSError):  # it has died; ``result`` says so
            self.pipe.send(index)

    def result(self) -> tuple[int, str | None]:
        """Return the shard that it was at, and how it died if it did."""
        assert self.shard is not None
        index = self.shard
        self.shard = None
        try:
            refusal: str | None = self.pipe.recv()
        except (EOFError, OSError):
            self.process.join()
            return index, f"the process that read it ended with status {self.process.exitcode}"
        if refusal is not None:
            raise UserError(refusal)
        return index, None

    def end(self) -> None:
        """Kill it. A part that is not whole is nowhere."""
        self.process.kill()
        self.process.join()


def _work(plan: Plan, job: PredictJob, pipe: Connection, parent: int) -> None:
    """Make parts until the parent closes the pipe."""
    end_with(parent, signal.SIGKILL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that started us
    while True:
        try:
            index = pipe.recv()
        except EOFError:
            return
        try:
            plan.put(index, job.answer_lines(plan.content(index)))
        except UserError as error:
            pipe.send(str(error))
        except OSError as error:
            pipe.send(f"{error.filename or plan.folder}: {error.strerror or error}.")
        else:
            pipe.send(None)
