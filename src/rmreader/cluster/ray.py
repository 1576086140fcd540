"""Ray, where it is installed: a cluster that is there, or one of this machine's cores for as long as it is needed."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import Any

from rmreader.cores import cores
from rmreader.errors import UserError


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
                ray.init("local", num_cpus=cores(), include_dashboard=False, **quiet)
            leave.callback(ray.shutdown)
        yield ray
