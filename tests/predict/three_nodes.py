"""A Ray cluster of three nodes on this machine that loses one: ``three_nodes.py DATA FOLDER SHARDS [PORT]``.

``rmreader predict --on ray`` runs the shards. As soon as four parts are there and one node is at work on another, each
process of that node gets SIGKILL. With PORT it is asked as a cluster elsewhere is, through its client port.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
from ray.cluster_utils import Cluster

PARTS = 4


def processes(node: Any) -> list[psutil.Process]:
    """The raylet of a node and all that it started."""
    raylet = psutil.Process(node.all_processes["raylet"][0].process.pid)
    return [raylet, *raylet.children(recursive=True)]


def at_work(node: Any) -> bool:
    """Whether it is reading a shard."""
    return any("ray::_answer" in " ".join(process.cmdline()) for process in processes(node))


def main(data: str, folder: str, shards: str, port: str = "") -> None:
    head: dict[str, Any] = {"num_cpus": 1, "include_dashboard": False}
    head |= {"ray_client_server_port": int(port)} if port else {}
    cluster = Cluster(initialize_head=True, head_node_args=head)
    victim, _ = (cluster.add_node(wait=False, num_cpus=1) for _ in range(2))
    cluster.wait_for_nodes(timeout=180)
    words = ["predict", data, "--out", folder, "--shards", shards, "--on", f"ray://127.0.0.1:{port}" if port else "ray"]
    command = [sys.executable, "-m", "rmreader", *words]
    environment = {**os.environ, "RAY_ADDRESS": cluster.address}
    with contextlib.ExitStack() as stack:
        stack.callback(cluster.shutdown)
        running = stack.enter_context(subprocess.Popen(command, env=environment))
        stack.callback(running.kill)
        while (there := len(list(Path(folder).glob("part-*")))) < PARTS or not at_work(victim):
            assert running.poll() is None, "it ended before a node could be killed"
            time.sleep(0.005)
        doomed = processes(victim)
        for process in doomed:
            process.kill()
        print(f"killed {len(doomed)} processes of a node at work when {there} of {shards} parts were there", flush=True)
        assert running.wait(300) == 0


if __name__ == "__main__":
    main(*sys.argv[1:])
