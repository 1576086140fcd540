"""Ray, where it is installed: a running cluster, or one of this machine's cores."""

from __future__ import annotations

import contextlib
import os
from collections import deque
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from rmreader.core.cores import cores
from rmreader.core.errors import UserError

if TYPE_CHECKING:
    from rmreader.predict.job import PredictJob
    from rmreader.predict.shards import Plan

_RETRIES = 5  # of a task whose machine or process is lost


@contextlib.contextmanager
def ray_at(where: str) -> Iterator[Any]:
    """Give the module ``ray``, attached to what ``--on`` names.

    ``ray://HOST:PORT`` is the client port of a cluster, 10001 by default. ``ray`` is the cluster
    that RAY_ADDRESS names or that runs on this machine. Where there is none, one with this
    machine's cores is started, and ended with this.
    """
    if where != "ray" and not where.startswith("ray://"):
        raise UserError(f"--on {where}: not a known engine; give ray, or ray://HOST:PORT.")
    import ray

    with contextlib.ExitStack() as stack:
        if not ray.is_initialized():
            _attach(ray, os.environ.get("RAY_ADDRESS") if where == "ray" else where)
            stack.callback(ray.shutdown)
        yield ray


def _attach(ray: Any, address: str | None) -> None:
    """Attach to the cluster at an address, or to one of this machine, started if there is none."""
    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": "error"}
    try:
        ray.init(address or "auto", **quiet)
    except (ConnectionError, RuntimeError, ValueError) as error:
        if address:
            why = " ".join(str(error).split()) or type(error).__name__
            raise UserError(
                f"--on {address}: no Ray cluster answers ({why}); check host and port."
            ) from None
        # Ray would report to its makers that it was started.
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        ray.init("local", num_cpus=cores(), include_dashboard=False, **quiet)


def answer_on_ray(plan: Plan, job: PredictJob, todo: Sequence[int], where: str) -> Iterator[int]:
    """Make the parts of these shards as tasks of a cluster; yield each as soon as it is there.

    Rows and answers travel, so its machines need only rmreader (the same version) and the reader.
    Tasks and no actors: those of a lost machine are run again, where actors were seen to hang.
    """
    with ray_at(where) as ray:
        nodes = [node for node in ray.nodes() if node["Alive"]]
        largest = max((node["Resources"].get("CPU", 0) for node in nodes), default=0)
        if 0 < largest < job.threads:  # it would wait forever
            raise UserError(
                f"--on {where}: no machine there has {job.threads} processors; lower --threads."
            )
        task = ray.remote(num_cpus=job.threads, max_retries=_RETRIES)(_answer)
        waiting = deque(todo)
        running: dict[Any, int] = {}
        while waiting or running:
            processors = int(ray.cluster_resources().get("CPU", 0))  # it may grow, or shrink
            room = 2 + 2 * processors // job.threads
            while waiting and len(running) < room:
                index = waiting.popleft()
                running[task.remote(job, plan.content(index))] = index
            for ready in ray.wait(list(running))[0]:
                index = running.pop(ready)
                plan.put(index, _result(ray, ready, index, where))
                yield index


def _result(ray: Any, ready: Any, index: int, where: str) -> bytes:
    """Return what a task gives; one that failed is a sentence."""
    try:
        lines: bytes = ray.get(ready)
    except ray.exceptions.RayError as error:
        cause = getattr(error, "cause", None)
        if isinstance(cause, UserError):
            raise UserError(str(cause)) from None
        why = str(cause or error).strip().splitlines()[0]
        raise UserError(
            f"--on {where}: shard {index} failed ({why}); go on with --resume."
        ) from None
    return lines


def _answer(job: PredictJob, lines: bytes) -> bytes:
    return job.answer_lines(lines)
