"""What /metrics tells Prometheus. Each app counts for itself; no label ever holds a caller's text."""

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
QUESTIONS = (1, 2, 4, 8, 16, 32, 64)


class Meters:
    """The server's counters."""

    def __init__(self, waiting: Callable[[], float]) -> None:
        self._all = own = CollectorRegistry()
        ProcessCollector(registry=own)
        what = "Requests by route and status."
        self._requests = Counter("rmreader_requests", what, ["route", "status"], registry=own)
        long = "From a request's head to the end of its response."
        self._seconds = Histogram("rmreader_request_seconds", long, ["route"], buckets=SECONDS, registry=own)
        self._sizes = Histogram("rmreader_batch_questions", "Questions read at once.", buckets=QUESTIONS, registry=own)
        self._times = Histogram("rmreader_batch_seconds", "Time to read one batch.", buckets=SECONDS, registry=own)
        Gauge("rmreader_waiting_questions", "Questions in the queue.", registry=own).set_function(waiting)

    def batch(self, size: int, seconds: float) -> None:
        """Count one batch."""
        self._sizes.observe(size)
        self._times.observe(seconds)

    def request(self, route: str, status: int, seconds: float) -> None:
        """Count one response."""
        self._requests.labels(route, str(status)).inc()
        self._seconds.labels(route).observe(seconds)

    def page(self) -> bytes:
        """All of it in Prometheus's text format."""
        return generate_latest(self._all)
