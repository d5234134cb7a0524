"""Client actors of a study, started and stopped as Ray nodes join and leave."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import ray
from ray.exceptions import RayError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from rayfed.core.errors import RayfedError, many
from rayfed.core.sources import NO_SOURCES, Sources
from rayfed.executors.calls import reason_of
from rayfed.executors.combiner import AT_ONCE, Combiner
from rayfed.executors.layout import actors_by_node, host_count
from rayfed.executors.ray_host import HostActor
from rayfed.executors.ray_pool import Pool


class Node(NamedTuple):
    """A node of the cluster: its name, and its CPUs and GPUs in Ray."""

    name: str
    cpus: float
    gpus: float


@dataclass
class NodeActors:
    """Actors of a study on one node.

    Parameters
    ----------
    node : Node
    share : float
        CPUs of each actor.
    actors : list of actor handles
        Of `HostActor`.
    combiner : actor handle, optional
        Of `Combiner`, once there are several nodes.
    starting : list of object references
        Calls that are answered once what was started here is ready.
    used : bool
        Whether the actors have been ready.
    """

    node: Node
    share: float
    actors: list[Any]
    combiner: Any = None
    starting: list[Any] = field(default_factory=list)
    used: bool = False

    def hosts(self, *, combined: bool) -> list[tuple[Any, int]]:
        """Return the hosts that drivers call here, with the number of actors of each."""
        if combined and self.combiner is not None and not self.starting:
            return [(self.combiner, len(self.actors))]
        return [(actor, 1) for actor in self.actors]


class StudyActors:
    """The client actors of a study, and the combiner of each node.

    Actors are pinned to their nodes. Where a node goes they go; those of the others get its
    clients. Nodes that come get actors while the number that is wanted is not reached.

    Parameters
    ----------
    clients : int
        Number N of clients.
    clients_per_actor : int or "auto"
        "auto": a process for each CPU, as far as there are GPUs for them.
    memory_gb : float, optional
        Memory that client state may take on each node, in 10^9 bytes.
    gpus : float
        GPUs, or the share of one, of each actor.
    sources : Sources
        Of the user's modules.

    Attributes
    ----------
    version : int
        Of the pool: another one each time that it is not what it was.
    drivers_at : str or None
        The node of the drivers, where these host a share of the clients in the place of an actor.
    drivers : int
        How many drivers there are at a time.
    """

    def __init__(
        self,
        clients: int,
        clients_per_actor: int | str,
        memory_gb: float | None = None,
        gpus: float = 0.0,
        sources: Sources = NO_SOURCES,
    ) -> None:
        self.clients, self.clients_per_actor = clients, clients_per_actor
        self.memory_gb, self.gpus, self.sources = memory_gb, gpus, sources
        self.drivers_at: str | None = None
        self.drivers = 1
        self.nodes: dict[str, Node] = {}
        self.by_node: dict[str, NodeActors] = {}
        self.refused: set[str] = set()
        self.version = 0

    # -- current actors --------------------------------------------------------------------------

    @property
    def actors(self) -> list[Any]:
        """Every client actor."""
        return [actor for on_node in self.by_node.values() for actor in on_node.actors]

    @property
    def cpus(self) -> int:
        """CPUs of the nodes."""
        with_clients = {*self.by_node, self.drivers_at}
        return max(1, int(sum(n.cpus for key, n in self.nodes.items() if key in with_clients)))

    @property
    def starting(self) -> list[Any]:
        """Calls that are answered once everything is ready."""
        return [ref for on_node in self.by_node.values() for ref in on_node.starting]

    @property
    def share(self) -> float:
        """The CPUs that an actor waits for, at most."""
        return max((on_node.share for on_node in self.by_node.values()), default=1.0)

    @property
    def processes(self) -> int:
        """Client actors, and the driver if it hosts clients."""
        return len(self.actors) + self.hosting_driver

    @property
    def hosting_driver(self) -> bool:
        """Whether drivers host a share of the clients."""
        return self.drivers_at is not None

    def hosting(self) -> tuple[float | None, int] | None:
        """Return the arguments of the `RayHost` of each driver; None if drivers host no clients."""
        if self.drivers_at is None:
            return None
        here = self.by_node.get(self.drivers_at)
        sharing = 1 + (0 if here is None else len(here.actors))
        return self.memory_gb, sharing * self.drivers  # each has the share of a single run

    def pool(self) -> Pool:
        """Return the pool of hosts that drivers call."""
        used = [on_node for on_node in self.by_node.values() if on_node.used]
        combined = self._several([key for key, on_node in self.by_node.items() if on_node.used])
        hosts = [host for on_node in used for host in on_node.hosts(combined=combined)]
        return Pool([host for host, _ in hosts], [size for _, size in hosts], self.version)

    # -- starting and ending ---------------------------------------------------------------------

    def begin(
        self, nodes: Mapping[str, Node], drivers_at: str | None = None, runs: int = 1
    ) -> None:
        """Start the actors of a study on the nodes that are there.

        Parameters
        ----------
        nodes : mapping of str to Node
        drivers_at : str, optional
            The node of the drivers, if these are to host clients. They do not where Ray may give
            away no CPU.
        runs : int
            How many runs there are.

        Raises
        ------
        RayfedError
            If they lack GPUs.
        """
        cpus = sum(node.cpus for node in nodes.values())
        self.drivers_at = drivers_at if drivers_at in nodes else None
        self.drivers = max(1, min(runs, int(cpus)))
        # "auto" takes as many as there are GPUs for
        fewest = 1 if self.clients_per_actor == "auto" else self._wanted(cpus)
        if self.gpus and fewest > sum(self._on_gpus(node) for node in nodes.values()):
            there = " + ".join(f"{node.gpus:g}" for node in nodes.values())
            wanted = f"{self.gpus:g} for each of {many(fewest, 'client actor')}"
            raise RayfedError(
                f"executor.gpus_per_actor: {wanted}, but there are {there}; use a smaller share, "
                "or a larger executor.clients_per_actor"
            )
        self.start(nodes)

    def _on_gpus(self, node: Node) -> int:
        """Return the number of actors that the GPUs of a node are enough for."""
        return int(node.gpus / self.gpus + 1e-9)  # 0.6 / 0.2 is less than 3

    def _several(self, nodes: Iterable[str]) -> bool:
        """Return whether these nodes, and that of drivers which host clients, are several."""
        return len({*nodes, self.drivers_at} - {None}) > 1

    def _wanted(self, cpus: float) -> int:
        processes = host_count(self.clients, self.clients_per_actor, max(1, int(cpus)))
        return processes - self.hosting_driver

    def start(self, nodes: Mapping[str, Node]) -> None:
        """Start the actors that are wanted on nodes that have none yet, and combiners."""
        self.nodes = dict(nodes)
        cpus = {key: node.cpus for key, node in nodes.items() if key not in self.refused}
        here = {key: len(on_node.actors) for key, on_node in self.by_node.items()}
        count = self._wanted(sum(cpus.values()))
        if self.drivers_at in cpus:
            cpus[self.drivers_at] = max(cpus[self.drivers_at] - 1, _HARDLY)
        most = {key: self._on_gpus(node) for key, node in nodes.items()} if self.gpus else {}
        if self.clients_per_actor == "auto":
            most = {key: min(max(1, int(n)), most.get(key, count)) for key, n in cpus.items()}
        for key, number in actors_by_node(count, cpus, here, most).items():
            self._start_actors(key, nodes[key], number)
        if self._several(self.by_node):
            for key, on_node in self.by_node.items():
                if on_node.combiner is None and len(on_node.actors) > 1:
                    self._start_combiner(key, on_node)

    def _start_actors(self, key: str, node: Node, number: int) -> None:
        share = 1.0 if number <= node.cpus else int(1e4 * node.cpus / number) / 1e4
        make = ray.remote(num_cpus=share, num_gpus=self.gpus, **_RESTARTED)(HostActor)
        pinned = make.options(scheduling_strategy=_on(key))
        sharing = number + (key == self.drivers_at)
        actors = [pinned.remote(self.memory_gb, sharing, self.sources) for _ in range(number)]
        starting = [actor.ready.remote() for actor in actors]
        self.by_node[key] = NodeActors(node, share, actors, starting=starting)

    def _start_combiner(self, key: str, on_node: NodeActors) -> None:
        make = ray.remote(num_cpus=0, max_concurrency=AT_ONCE, **_RESTARTED)(Combiner)
        pinned = make.options(scheduling_strategy=_on(key))
        # handles within bytes: Ray doubts that it can restart what it was given handles for
        handles = ray.cloudpickle.dumps(on_node.actors)
        on_node.combiner = pinned.remote(handles, self.clients, self.sources)
        on_node.starting.append(on_node.combiner.ready.remote())

    def ask_again(self) -> list[Any]:
        """Return new calls that are answered once everything is ready."""
        for on_node in self.by_node.values():
            if on_node.starting:
                hosts = [*on_node.actors, *([on_node.combiner] if on_node.combiner else [])]
                on_node.starting = [host.ready.remote() for host in hosts]
        return self.starting

    def started(self) -> None:
        """Note that everything is ready."""
        for on_node in self.by_node.values():
            on_node.starting, on_node.used = [], True

    def look(self, nodes: Mapping[str, Node]) -> Iterator[str]:
        """Follow the nodes of the cluster, and yield a line about everything that drivers notice.

        Parameters
        ----------
        nodes : mapping of str to Node
            Those that are alive.
        """
        for key in [key for key in self.by_node if key not in nodes]:
            gone = self.by_node.pop(key)
            self.version += 1
            waits = "" if self.processes else "; runs wait for a node"
            yield (
                f"node {gone.node.name} has gone with {many(len(gone.actors), 'client actor')}; "
                f"{len(self.actors)} are left{waits}"
            )
        self.start(nodes)
        for key, on_node in list(self.by_node.items()):
            if on_node.starting:
                yield from self._ready(key, on_node)

    def _ready(self, key: str, on_node: NodeActors) -> Iterator[str]:
        """Use the actors that were started on a node, if all of them are ready."""
        done, waiting = ray.wait(on_node.starting, num_returns=len(on_node.starting), timeout=0)
        try:
            ray.get(done)
        except RayError as error:  # the node may be going again, or lack what others have
            if on_node.used:
                on_node.starting, on_node.combiner = [], None
                return
            self.refused.add(key)
            del self.by_node[key]
            yield f"client actors cannot start on node {on_node.node.name}: {reason_of(error)}"
            return
        if waiting:
            return
        on_node.starting, new = [], not on_node.used
        on_node.used = True
        self.version += 1
        if new:
            yield (
                f"node {on_node.node.name} has come: {len(on_node.actors)} client actors there, "
                f"{len(self.actors)} in all, from the next checkpoint of each run on"
            )

    def end(self) -> Iterator[Any]:
        """Forget all actors, and yield those to end."""
        for on_node in self.by_node.values():
            yield from on_node.actors
            if on_node.combiner is not None:
                yield on_node.combiner
        self.by_node.clear()


_HARDLY = 1e-3  # CPUs of a node whose only one a driver takes: it gets actors last
_RESTARTED = {"max_restarts": -1, "max_task_retries": 0}


def _on(node: str) -> NodeAffinitySchedulingStrategy:
    return NodeAffinitySchedulingStrategy(node, soft=False)


def alive() -> dict[str, Node]:
    """Return the nodes of the cluster that are alive and have CPUs, by their ids in Ray."""
    nodes = {}
    for each in ray.nodes():
        given = each["Resources"]
        if each["Alive"] and given.get("CPU"):
            name = str(each["NodeManagerAddress"])
            nodes[str(each["NodeID"])] = Node(name, given["CPU"], given.get("GPU", 0.0))
    return dict(sorted(nodes.items()))
