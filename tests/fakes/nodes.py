"""A Ray cluster on this machine whose nodes come, go and slow down, by `ray.cluster_utils`.

It is in a process of its own, since a process can belong to one cluster only. Nodes are killed by
the ids of their processes, all of which were started here.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from contextlib import suppress
from types import TracebackType
from typing import IO, Any, Self

import psutil

_CLUSTER = """
import sys
from ray.cluster_utils import Cluster

cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0})
print(cluster.address, flush=True)
for line in sys.stdin:
    name, cpus = line.split()
    node = cluster.add_node(num_cpus=int(cpus), node_name=name)
    print(node.all_processes["raylet"][0].process.pid, flush=True)
cluster.shutdown()
"""
_COMMAND = """
import sys
from ray._private import services

found, name = services.get_node_to_connect_for_driver, sys.argv[1]
services.get_node_to_connect_for_driver = lambda *of, **how: found(*of, **how | {"node_name": name})
from rayfed.cli.main import main

sys.argv[:2] = ["rayfed"]
main()
"""  # all nodes have the address of this machine, and Ray would take the head
_END_S = 60.0


class Nodes:
    """A cluster whose head has no CPUs, and the nodes that were added.

    Attributes
    ----------
    address : str
        Of the cluster.
    raylets : dict of str to psutil.Process
        The servers of the nodes that are there, by the nodes' names.
    """

    def __init__(self) -> None:
        self._cluster = _started(_CLUSTER, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self._cluster.stdin is not None
        assert self._cluster.stdout is not None
        self._in: IO[str] = self._cluster.stdin
        self._out: IO[str] = self._cluster.stdout
        self.address = self._out.readline().strip()
        self.raylets: dict[str, psutil.Process] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._in.close()
        try:
            self._cluster.wait(_END_S)
        except subprocess.TimeoutExpired:
            for name in list(self.raylets):
                self.kill(name)
            self._cluster.kill()
        self._out.close()

    def add(self, name: str, cpus: int) -> None:
        """Add a node."""
        self._in.write(f"{name} {cpus}\n")
        self._in.flush()
        self.raylets[name] = psutil.Process(int(self._out.readline()))

    def kill(self, name: str) -> None:
        """Kill a node: its raylet, and all that it has started."""
        raylet = self.raylets.pop(name)
        with suppress(psutil.NoSuchProcess):
            for process in (*raylet.children(recursive=True), raylet):
                with suppress(psutil.NoSuchProcess):
                    process.kill()

    def stop(self, name: str, which: float, seconds: float) -> None:
        """Let a client actor or combiner of a node stand still for a while.

        Parameters
        ----------
        name : str
        which : float
            Share in [0, 1) that decides which.
        seconds : float
        """
        with suppress(psutil.NoSuchProcess):
            for actor in self._chosen(name, which):
                actor.send_signal(signal.SIGSTOP)
                try:
                    time.sleep(seconds)
                finally:
                    actor.send_signal(signal.SIGCONT)

    def end(self, name: str, which: float) -> None:
        """Kill a client actor or combiner of a node, which Ray starts anew; see `stop`."""
        with suppress(psutil.NoSuchProcess):
            for actor in self._chosen(name, which):
                actor.kill()

    def _chosen(self, name: str, which: float) -> list[psutil.Process]:
        actors = [p for p in self.raylets[name].children() if _is_host(p)]
        return sorted(actors, key=lambda p: p.pid)[int(which * len(actors)) :][:1]

    def run(self, name: str, *command: str) -> subprocess.Popen[str]:
        """Begin a command of rayfed that joins the cluster at a node."""
        words = (name, *command, "--address", self.address)
        return _started(_COMMAND, *words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


def _started(script: str, *words: str, **pipes: Any) -> subprocess.Popen[str]:
    pipes.setdefault("stderr", subprocess.DEVNULL)
    return subprocess.Popen([sys.executable, "-c", script, *words], text=True, **pipes)


def _is_host(process: psutil.Process) -> bool:
    """Return whether a process computes for clients."""
    try:
        words = " ".join(process.cmdline())
    except psutil.Error:
        return False
    return "HostActor" in words or "Combiner" in words
