"""What /metrics tells Prometheus. Each app counts for itself; no label ever holds a caller's text."""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)


class Meters:
    """The server's counters."""

    def __init__(self, waiting: Callable[[], float]) -> None:
        self._registry = CollectorRegistry()
        ProcessCollector(registry=self._registry)
        self.requests = Counter(
            "rmreader_requests", "Requests by route and status.", ["route", "status"], registry=self._registry
        )
        self.seconds = Histogram(
            "rmreader_request_seconds", "From a request's head to the end of its response.",
            ["route"], buckets=SECONDS, registry=self._registry,
        )  # fmt: skip
        self.batch_size = Histogram(
            "rmreader_batch_questions", "Questions read at once.",
            buckets=(1, 2, 4, 8, 16, 32, 64), registry=self._registry,
        )  # fmt: skip
        self.batch_seconds = Histogram(
            "rmreader_batch_seconds", "Time to read one batch.", buckets=SECONDS, registry=self._registry
        )
        Gauge("rmreader_waiting_questions", "Questions in the queue.", registry=self._registry).set_function(waiting)

    def batch(self, size: int, seconds: float) -> None:
        """Count one batch."""
        self.batch_size.observe(size)
        self.batch_seconds.observe(seconds)

    def request(self, route: str, status: int, seconds: float) -> None:
        """Count one response."""
        self.requests.labels(route, str(status)).inc()
        self.seconds.labels(route).observe(seconds)

    def page(self) -> bytes:
        """All of it in Prometheus's text format."""
        return generate_latest(self._registry)
