"""What /metrics tells Prometheus.

Each app counts for itself. Names follow Prometheus's conventions: counters end in ``_total`` (which
the client adds), times are ``_duration_seconds``. No label ever holds a caller's text.
"""

from collections.abc import Callable

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    generate_latest,
)

from rmreader.core.version import __version__

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
QUESTIONS = (1, 2, 4, 8, 16, 32, 64)


class Metrics:
    """The server's counters; ``waiting`` tells how many questions are in the queue."""

    def __init__(self, waiting: Callable[[], float]) -> None:
        self._registry = CollectorRegistry()
        ProcessCollector(registry=self._registry)
        self._requests = Counter(
            "rmreader_requests",
            "Requests by route and status.",
            ["route", "status"],
            registry=self._registry,
        )
        self._request_seconds = Histogram(
            "rmreader_request_duration_seconds",
            "From a request's head to the end of its response.",
            ["route"],
            buckets=SECONDS,
            registry=self._registry,
        )
        self._batch_questions = Histogram(
            "rmreader_batch_questions",
            "Questions read at once.",
            buckets=QUESTIONS,
            registry=self._registry,
        )
        self._batch_seconds = Histogram(
            "rmreader_batch_duration_seconds",
            "Time to read one batch.",
            buckets=SECONDS,
            registry=self._registry,
        )
        queue = Gauge(
            "rmreader_waiting_questions", "Questions in the queue.", registry=self._registry
        )
        queue.set_function(waiting)
        build = Gauge(
            "rmreader_build_info",
            "The version that answers; its value is always 1.",
            ["version"],
            registry=self._registry,
        )
        build.labels(__version__).set(1)

    def count_batch(self, size: int, seconds: float) -> None:
        """Count one batch."""
        self._batch_questions.observe(size)
        self._batch_seconds.observe(seconds)

    def count_request(self, route: str, status: int, seconds: float) -> None:
        """Count one response."""
        self._requests.labels(route, str(status)).inc()
        self._request_seconds.labels(route).observe(seconds)

    def page(self) -> bytes:
        """Write all of it in Prometheus's text format."""
        return generate_latest(self._registry)
