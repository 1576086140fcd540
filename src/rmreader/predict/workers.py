"""Shards on the processors of this machine: in this process, or in several beside it, one of which may die."""

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
from rmreader.predict.shards import Asking, Plan

_TRIES = 3  # processes that a shard may cost, such as by more memory than there is


def answer_here(plan: Plan, job: Asking, todo: Sequence[int], workers: int = 1) -> Iterator[int]:
    """Make the parts of these shards, in so many processes; gives each as soon as it is there.

    A process that dies is replaced and its shard begun again. One that loses this process ends as well (on Linux at
    once), and what it was doing is done again by whoever resumes.
    """
    if workers == 1:
        for index in todo:
            plan.put(index, job.answer(plan.content(index)))
            yield index
        return
    waiting, lost = deque(todo), Counter[int]()
    team = [_Worker(plan, job) for _ in range(min(workers, len(waiting)))]
    try:
        while waiting or any(worker.shard is not None for worker in team):
            for worker in team:
                if worker.shard is None and waiting:
                    worker.begin(waiting.popleft())
            busy = {worker.pipe: worker for worker in team if worker.shard is not None}
            for pipe in wait(list(busy)):
                worker = busy[pipe]  # type: ignore[index]
                index, problem = worker.end()
                if problem is None:
                    yield index
                    continue
                lost[index] += 1
                if lost[index] == _TRIES:
                    raise UserError(f"shard {index}: {problem}, {_TRIES} times; it may need more memory than there is.")
                waiting.appendleft(index)
                team[team.index(worker)] = _Worker(plan, job)
    finally:
        for worker in team:
            worker.process.kill()  # a part that is not whole is nowhere
            worker.process.join()


class _Worker:
    """A process that makes one part after the other, and the shard that it is at."""

    def __init__(self, plan: Plan, job: Asking) -> None:
        context = multiprocessing.get_context("spawn")  # threads and locks of this process are none of its business
        self.pipe, theirs = context.Pipe()
        self.shard: int | None = None
        self.process: SpawnProcess = context.Process(target=_work, args=(plan, job, theirs, os.getpid()), daemon=True)
        self.process.start()
        theirs.close()  # so that its end is heard

    def begin(self, index: int) -> None:
        """Have it make this part."""
        self.shard = index
        with contextlib.suppress(OSError):  # it has died; ``end`` says so
            self.pipe.send(index)

    def end(self) -> tuple[int, str | None]:
        """The shard that it was at, and how it died if it did."""
        assert self.shard is not None
        index, self.shard = self.shard, None
        try:
            refusal: str | None = self.pipe.recv()
        except (EOFError, OSError):
            self.process.join()
            return index, f"the process that read it ended with status {self.process.exitcode}"
        if refusal is not None:
            raise UserError(refusal)
        return index, None


def _work(plan: Plan, job: Asking, pipe: Connection, parent: int) -> None:
    """The life of a worker: it ends when nobody is left to ask it."""
    end_with(parent, signal.SIGKILL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the one who started us
    while True:
        try:
            index = pipe.recv()
        except EOFError:
            return
        try:
            plan.put(index, job.answer(plan.content(index)))
        except UserError as error:
            pipe.send(str(error))
        except OSError as error:
            pipe.send(f"{error.filename or plan.folder}: {error.strerror or error}.")
        else:
            pipe.send(None)
