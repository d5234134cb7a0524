"""The workloads: a scenario, the bare loop that does the same, and what must hold."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, TypeAlias

from benchmarks.bare import Arrivals, Bare, LeastSquares, OnDemand, Perceptron, Softmax
from benchmarks.clocked import Clocked, ClockedFedAsync, ClockedFedBuff, Metered
from benchmarks.data import Noise
from benchmarks.large import Carried, Copied, Parabola, Sent
from benchmarks.networks import NETWORKS, NetworkCase
from rayfed.algorithms.base import Algorithm
from rayfed.datasets.base import Source
from rayfed.solvers import SGD

Scenario: TypeAlias = Mapping[str, Any]
Column: TypeAlias = Literal[
    "ratio", "of_pair", "of_actors", "overhead_ms", "carrying", "growth", "memory_gb"
]
_FROM_BELOW = ("ratio", "of_pair", "of_actors")


@dataclass(frozen=True)
class Target:
    """A number of a measured case and its bound, from below (the first three) or from above.

    Parameters
    ----------
    column : str
        ``ratio``: bare loop's seconds over ours; ``of_pair``: rounds over those that two bare loops
        do at once; ``of_actors``: rounds over those of two plain Ray actors; ``overhead_ms``: a
        round less its computing; ``carrying``: that over the bare loop; ``growth``: a round over
        that of the first case; ``memory_gb``: of all processes, 10^9 bytes.
    bound : float
    case : int
        Which of the workload's cases.
    """

    column: Column
    bound: float
    case: int = 0

    def holds(self, value: float) -> bool:
        """Return whether a measured value keeps the bound."""
        if self.column in _FROM_BELOW:
            return value >= self.bound
        return value <= self.bound


@dataclass(frozen=True)
class Workload:
    """What is measured in one go, on one pool of processes.

    Parameters
    ----------
    name, text : str
    scenario : mapping
        As for `rayfed.run`; each setting of its grid is a case.
    cohort : int
        Clients that take part in a round.
    processes : int
        Processes that host clients, the driver among them; 0 runs in this one, without Ray.
    bare : tuple of callables
        Make the bare loop of each case.
    targets : tuple of Target
    """

    name: str
    text: str
    scenario: Scenario
    cohort: int
    processes: int
    bare: tuple[Callable[[], Bare], ...]
    targets: tuple[Target, ...]

    @property
    def paired(self) -> bool:
        """Whether several processes should be faster than one bare loop."""
        return self.processes > 1 and any(target.column in _FROM_BELOW for target in self.targets)

    @property
    def has_actors(self) -> bool:
        """Whether two plain Ray actors are measured beside."""
        return any(target.column == "of_actors" for target in self.targets)


@dataclass(frozen=True)
class Size:
    """How large the workloads are.

    Parameters
    ----------
    clients : float
        Factor on the numbers of clients and on the cohorts.
    rounds : float
        Factor on the rounds that are timed.
    """

    clients: float = 1.0
    rounds: float = 1.0

    def of(self, clients: int) -> int:
        """Return a number of clients, at least two."""
        return max(2, round(clients * self.clients))

    def timed(self, rounds: int) -> int:
        """Return a number of rounds, of which the first does not count, at least three."""
        return max(3, round(rounds * self.rounds))


def w1(size: Size, processes: int = 0) -> Workload:
    """Return W1: small full-gradient steps, where everything is overhead."""
    data, rounds = Noise(clients=size.of(100), samples=50, features=30), size.timed(300)
    local = SGD(steps=10, batch="full", lr=0.1)

    def bare() -> Bare:
        X, y = _stacked(data)
        return LeastSquares(X, y, steps=10, lr=0.1)

    algorithm = Metered(local=local) if processes else Clocked(local=local)
    problem = {"name": "least-squares", "dataset": data, "intercept": False}
    return Workload(
        name="overhead" if processes else "W1",
        text="least squares d=30, 100 x 50, 10 full gradients",
        scenario=_scenario(problem, algorithm, data.clients, rounds, processes, "float64"),
        cohort=data.clients,
        processes=processes,
        bare=(bare,),
        targets=(
            (Target("overhead_ms", 1.0), Target("ratio", 2.0))
            if processes
            else (Target("ratio", 6.0),)
        ),
    )


def overhead(size: Size) -> Workload:
    """Return W1 in two processes: what the engine adds to the computing of a round."""
    return w1(size, processes=2)


def w2(size: Size, processes: int = 2) -> Workload:
    """Return W2: softmax regression of the size of MNIST, 1000 clients, in two processes."""
    data = Noise(clients=size.of(1000), samples=60, features=784, classes=10)
    cohort, rounds = size.of(100), size.timed(48)

    def bare() -> Bare:
        return Softmax(*_stacked(data), 10, cohort, 20, 32, 0.01)

    local = SGD(steps=20, batch=32, lr=0.01)
    algorithm = Metered(local=local) if processes else Clocked(local=local)
    problem = {"name": "softmax-regression", "dataset": data, "intercept": False}
    return Workload(
        name="W2" if processes else "W2-serial",
        text="softmax 784x10, 1000 x 60, cohort 100, 20 x batch 32",
        scenario=_scenario(problem, algorithm, data.clients, rounds, processes, "float32", cohort),
        cohort=cohort,
        processes=processes,
        bare=(bare,),
        targets=(
            (Target("ratio", 5.0), Target("memory_gb", 1.0))
            if processes
            else (Target("ratio", 3.0),)
        ),
    )


def w2_serial(size: Size) -> Workload:
    """Return W2 in this process."""
    return w2(size, processes=0)


def w3(size: Size, processes: int = 2) -> Workload:
    """Return W3: a perceptron of 100,000 parameters, 100 clients, in two processes."""
    data = Noise(clients=size.of(100), samples=600, features=784, classes=10)
    cohort, rounds = size.of(10), size.timed(24)

    def bare() -> Bare:
        return Perceptron(*_stacked(data), 10, cohort, 20, 32, 0.01)

    local = SGD(steps=20, batch=32, lr=0.01)
    algorithm = Metered(local=local) if processes else Clocked(local=local)
    problem = {"name": "mlp", "hidden": [128], "dataset": data}
    return Workload(
        name="W3" if processes else "W3-serial",
        text="MLP 784-128-10, 100 x 600, cohort 10, 20 x batch 32",
        scenario=_scenario(problem, algorithm, data.clients, rounds, processes, "float32", cohort),
        cohort=cohort,
        processes=processes,
        bare=(bare,),
        targets=(
            (Target("of_pair", 0.95), Target("of_actors", 1.0))
            if processes
            else (Target("ratio", 1.05),)
        ),
    )


def w3_serial(size: Size) -> Workload:
    """Return W3 in this process."""
    return w3(size, processes=0)


def network(case: NetworkCase, processes: int, size: Size) -> Workload:
    """Return a workload of a network, in this process or in two processes."""
    pixels, clients = math.prod(case.shape), size.of(case.clients)
    data = Noise(
        clients=clients, samples=case.samples, features=pixels, classes=case.classes,
        symbols=case.symbols,
    )  # fmt: skip
    cohort, rounds = min(size.of(case.cohort), clients), size.timed(case.rounds)

    def bare() -> Bare:
        from benchmarks.bare_torch import Network

        X, y = _stacked(data)
        return Network(X, y, case.shape, case.bare, cohort, case.steps, case.batch, 0.01)

    local = SGD(steps=case.steps, batch=case.batch, lr=0.01)
    problem = {
        "name": "network", "model": case.model, "shape": list(case.shape), "dataset": data,
        **case.problem,
    }  # fmt: skip
    algorithm = Metered(local=local) if processes else Clocked(local=local)
    return Workload(
        name=f"{case.name}-actors" if processes else case.name,
        text=case.text,
        scenario=_scenario(problem, algorithm, clients, rounds, processes, "float32", cohort),
        cohort=cohort,
        processes=processes,
        bare=(bare,),
        targets=(
            (Target("of_pair", 0.95), Target("of_actors", 1.0))
            if processes
            else (Target("ratio", case.ratio),)
        ),
    )


def w5(size: Size) -> Workload:
    """Return W5: rows made on demand, for populations of which few are ever asked."""
    counts = [size.of(n) for n in (1_000, 1_000_000, 10_000_000)]
    cohort, rounds = size.of(100), size.timed(60)

    def bare(population: int) -> Callable[[], Bare]:
        rows = Noise(clients=1, samples=20, features=60, classes=10)
        return lambda: OnDemand(*_stacked(rows), 10, cohort, 10, 10, 0.01, population)

    algorithm = Metered(local=SGD(steps=10, batch=10, lr=0.01))
    data = {"name": "synthetic", "features": 60, "samples": 20}
    problem = {"name": "softmax-regression", "dataset": data, "test": 0.0, "intercept": False}
    scenario = _scenario(problem, algorithm, counts[-1], rounds, 2, "float32", cohort)
    return Workload(
        name="W5",
        text="softmax 60x10, 1,000 to 10,000,000 x 20 on demand, cohort 100, 10 x batch 10",
        scenario={**scenario, "grid": {"clients.count": counts}},
        cohort=cohort,
        processes=2,
        bare=tuple(bare(count) for count in counts),
        targets=(
            Target("ratio", 3.5),
            Target("ratio", 3.5, case=2),
            Target("growth", 1.2, case=2),
            Target("memory_gb", 2.0, case=2),
        ),
    )


def w6(size: Size) -> Workload:
    """Return W6: FedAsync, arrival after arrival, evaluated at every 1,000th."""
    data, arrivals = Noise(clients=size.of(100), samples=50, features=30), size.timed(25_000)

    def bare() -> Bare:
        X, y = _stacked(data)
        return Arrivals(X, y, steps=5, lr=0.1)

    algorithm = ClockedFedAsync(local=SGD(steps=5, batch="full", lr=0.1))
    problem = {"name": "least-squares", "dataset": data, "intercept": False}
    scenario = _scenario(problem, algorithm, data.clients, arrivals, 0, "float64")
    clients = {"count": data.clients, "delay": {"name": "exponential", "mean_s": 0.2}}
    return Workload(
        name="W6",
        text="FedAsync, least squares d=30, 100 x 50, all at work, 5 full gradients",
        scenario={**scenario, "clients": clients, "evaluate": {"every": 1000}},
        cohort=1,
        processes=0,
        bare=(bare,),
        targets=(Target("ratio", 0.12),),
    )


def w7(size: Size, processes: int = 0) -> Workload:
    """Return W7: FedBuff on softmax regression of the size of MNIST, 100 clients at work."""
    data = Noise(clients=size.of(1000), samples=60, features=784, classes=10)
    busy_clients, buffer, updates = size.of(100), size.of(10), size.timed(200)

    def bare() -> Bare:
        return Softmax(*_stacked(data), 10, buffer, 20, 32, 0.01)

    local = SGD(steps=20, batch=32, lr=0.01)
    algorithm = ClockedFedBuff(local=local, buffer=buffer, concurrency=busy_clients)
    problem = {"name": "softmax-regression", "dataset": data, "intercept": False}
    scenario = _scenario(
        problem, algorithm, data.clients, updates, processes, "float32", busy_clients
    )
    clients = {"count": data.clients, "delay": {"name": "exponential", "mean_s": 0.2}}
    return Workload(
        name="W7-actors" if processes else "W7",
        text="FedBuff, softmax 784x10, 1000 x 60, 100 at work, buffer 10, 20 x batch 32",
        scenario={**scenario, "clients": clients},
        cohort=buffer,
        processes=processes,
        bare=(bare,),
        targets=(Target("ratio", 1.5 if processes else 1.0),),
    )


def w7_actors(size: Size) -> Workload:
    """Return W7 in two processes."""
    return w7(size, processes=2)


def large(size: Size, actors: int = 0) -> Workload:
    """Return a model of 11 million parameters and no computing, against bare copies of it."""
    parameters = max(10, round(11_000_000 * size.clients))
    clients = max(1, actors)
    problem = {
        "name": Parabola, "parameters": parameters,
        "dataset": Noise(clients=clients, samples=1, features=1), "test": 0.0,
    }  # fmt: skip

    def bare() -> Bare:
        return Sent(parameters, actors) if actors else Copied(parameters)

    return Workload(
        name="sent" if actors else "large",
        text="11 million parameters to two actors and back" if actors else "11 million parameters",
        scenario=_scenario(
            problem, Carried(), clients, size.timed(10), actors, "float32", driver_hosts=False
        ),
        cohort=clients,
        processes=actors,
        bare=(bare,),
        targets=(Target("carrying", 1.3),),
    )


def sent(size: Size) -> Workload:
    """Return a large model on two actors."""
    return large(size, actors=2)


WORKLOADS: tuple[Callable[[Size], Workload], ...] = (
    w1, overhead, w2_serial, w2, w3_serial, w3,
    *(partial(network, case, processes) for case in NETWORKS for processes in (0, 2)),
    w5, w6, w7, w7_actors, large, sent,
)  # fmt: skip


def _scenario(
    problem: Scenario,
    algorithm: Algorithm,
    clients: int,
    rounds: int,
    processes: int,
    dtype: str,
    cohort: int | None = None,
    *,
    driver_hosts: bool = True,
) -> Scenario:
    """Return a scenario that evaluates at its ends alone."""
    each = -(-clients // max(1, processes))
    placement = {"name": "ray", "clients_per_actor": each, "driver_hosts": driver_hosts}
    return {
        "name": "benchmark",
        "rounds": rounds,
        "evaluate": {"every": rounds},
        "dtype": dtype,
        "problem": problem,
        "clients": {"count": clients},
        "participation": {"cohort": cohort, "select": "uniform" if cohort else "all"},
        "algorithms": [algorithm],
        "executor": placement if processes else {"name": "serial"},
    }


def _stacked(data: Noise) -> tuple[Any, Any]:
    """Return the rows as the bare loops hold them, X (N, n, d) and y (N, n)."""
    table = data.load(Source(), 0)
    shape = (data.clients, data.samples)
    return table.X.reshape(*shape, -1), table.y.reshape(shape)
