"""Whose turn it is to be read.

No client can monopolise the reader. It reads in rounds, and in every round each client has one turn
of at most ``SLICE`` tokens: a long passage is read a few windows at a time, a long list a few
questions at a time. The calls of one client take turns among themselves.
"""

from bisect import insort
from collections import Counter

from rmreader.server.jobs import SLICE, ReadingJob


class Turns:
    """The jobs that wait, in the order of their turns, and those that are being read."""

    def __init__(self) -> None:
        self.pending: list[ReadingJob] = []
        """By turn, and within a round by arrival."""
        self.reading: list[ReadingJob] = []
        """In the order in which they are read."""
        self.round = 0

    def everything(self) -> list[ReadingJob]:
        """List what waits and what is being read."""
        return self.pending + self.reading

    def tokens(self) -> int:
        """Count the tokens of everything."""
        return sum([job.size for job in self.everything()])

    def clear(self) -> None:
        """Forget everything."""
        self.pending.clear()
        self.reading.clear()

    def add(self, job: ReadingJob, tokens_before: int) -> None:
        """Line up a job for the next round, or later after so many tokens of the same client."""
        job.turn = self.round + 1 + tokens_before // SLICE
        insort(self.pending, job, key=lambda waiting: waiting.turn)

    def take(self, count: int, tokens: int) -> list[ReadingJob]:
        """Move the next batch from what waits to what is being read."""
        batch = take(self.pending, count, tokens)
        self.round = max(self.round, max(job.turn for job in batch))
        self.reading += batch
        return batch

    def finish(self, count: int) -> list[ReadingJob]:
        """Remove the first of what is being read."""
        finished = self.reading[:count]
        del self.reading[:count]
        return finished

    def tokens_by_client(self, except_call: int = 0) -> Counter[str]:
        """Count the tokens that each client has waiting for one turn of each of its calls."""
        calls: dict[int, int] = {}
        clients: dict[int, str] = {}
        for job in self.everything():
            calls[job.call] = calls.get(job.call, 0) + job.size
            clients[job.call] = job.client
        counts = Counter[str]()
        for call, size in calls.items():
            if call != except_call:
                counts[clients[call]] += min(size, SLICE)
        return counts

    def tokens_before(self, size: float, client: str) -> float:
        """Estimate the tokens that are read before a call of this size has been."""
        waiting = self.tokens_by_client()
        # The rounds that the call takes, from the next one on.
        rounds = max(1.0, size / SLICE) + waiting[client] // SLICE
        tokens = 0.0
        for job in self.everything():
            rounds_left = rounds - max(0, job.turn - self.round - 1)
            if rounds_left > 0:
                # In each round its client has one turn, which all of that client's calls share.
                share = rounds_left * SLICE / max(SLICE, waiting[job.client])
                turns = max(min(rounds_left, 1.0), share)
                tokens += min(job.size, turns * SLICE)
        return tokens


def take(pending: list[ReadingJob], count: int, tokens: int) -> list[ReadingJob]:
    """Remove the next batch, in order; the short come first within it, beside their like."""
    number = 0
    size = 0
    for job in pending:
        size += job.size
        is_full = number == count or size > tokens
        if number and (is_full or job.alone or pending[0].alone):
            break
        number += 1
    batch = sorted(pending[:number], key=lambda job: job.size)
    del pending[:number]
    return batch
