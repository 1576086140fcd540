"""Ray, where it is installed: a cluster that is there, or one of this machine's cores for as long as it is needed."""

from __future__ import annotations

import contextlib
import os
from collections import deque
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from rmreader.core.cores import cores
from rmreader.core.errors import UserError

if TYPE_CHECKING:
    from rmreader.predict.shards import Asking, Plan

_RETRIES = 5  # of a task whose machine or process is lost


@contextlib.contextmanager
def ray_at(where: str) -> Iterator[Any]:
    """The module ``ray``, attached to what ``--on`` names.

    ``ray://HOST:PORT`` is the client port of a cluster, 10001 by default. ``ray`` is the cluster that RAY_ADDRESS names
    or that runs on this machine; where there is none, one with this machine's cores is started, and ended with this.
    """
    if where != "ray" and not where.startswith("ray://"):
        raise UserError(f"--on {where}: no engine that is known; give ray, or ray://HOST:PORT.")
    import ray

    address = os.environ.get("RAY_ADDRESS") if where == "ray" else where
    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": "error"}
    with contextlib.ExitStack() as leave:
        if not ray.is_initialized():
            try:
                ray.init(address or "auto", **quiet)
            except (ConnectionError, RuntimeError, ValueError) as error:
                if address:
                    why = " ".join(str(error).split()) or type(error).__name__
                    raise UserError(f"--on {address}: no Ray cluster answers ({why}); check host and port.") from None
                os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # else Ray reports that it was started
                ray.init("local", num_cpus=cores(), include_dashboard=False, **quiet)
            leave.callback(ray.shutdown)
        yield ray


def answer_on_ray(plan: Plan, job: Asking, todo: Sequence[int], where: str) -> Iterator[int]:
    """Make the parts of these shards as tasks of a cluster; gives each as soon as it is there.

    Rows and answers travel, so nothing but rmreader (the same version) and the reader must be on its machines. Tasks
    and no actors: those of a lost machine are run again, where actors that restart were seen to hang.
    """
    with ray_at(where) as ray:
        largest = max((node["Resources"].get("CPU", 0) for node in ray.nodes() if node["Alive"]), default=0)
        if 0 < largest < job.threads:  # it would wait forever
            raise UserError(f"--on {where}: no machine there has {job.threads} processors; lower --threads.")
        task = ray.remote(num_cpus=job.threads, max_retries=_RETRIES)(_answer)
        waiting, flying = deque(todo), dict[Any, int]()
        while waiting or flying:
            room = 2 + 2 * int(ray.cluster_resources().get("CPU", 0)) // job.threads  # it may grow, or shrink
            while waiting and len(flying) < room:
                index = waiting.popleft()
                flying[task.remote(job, plan.content(index))] = index
            for ready in ray.wait(list(flying))[0]:
                index = flying.pop(ready)
                try:
                    plan.put(index, ray.get(ready))
                except ray.exceptions.RayError as error:
                    cause = getattr(error, "cause", None)
                    if isinstance(cause, UserError):
                        raise UserError(str(cause)) from None
                    why = str(cause or error).strip().splitlines()[0]
                    raise UserError(f"--on {where}: shard {index} failed ({why}); go on with --resume.") from None
                yield index


def _answer(job: Asking, content: bytes) -> bytes:
    return job.answer(content)
