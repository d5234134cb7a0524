"""Random scenarios: any plug-ins that are found, with random settings."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Collection, Iterable, Iterator
from pathlib import Path
from typing import Any

from rayfed.algorithms import Algorithm
from rayfed.channel import Codec
from rayfed.core import plugins
from rayfed.core.needs import ALL_STEPS, COHORT, EVERYONE, FRESH, GRAPHS, MEAN, SOLVER
from rayfed.engine.settings import Participation
from rayfed.population import Connection, Crash, Energy, Server
from rayfed.selection import All, Selection
from rayfed.study.scenario.fields import model_of
from rayfed.study.scenario.parts import Evaluate
from tests.chaos.dice import Dice
from tests.chaos.own import STANDS_IN, TASKS, network, table_file
from tests.chaos.tables import SOLVERS, weights
from tests.chaos.trial import Scenario, fits, settings

MOST_CLIENTS = 9
MOST_ROUNDS = 6
MOST_UPDATES = 20  # of an asynchronous algorithm
_NEVER_S = 1e9  # a checkpoint only at the start and at the end
_FLAGS = ("gap", "fairness", "skew", "heterogeneity", "distance", "layers")
_AGAIN = ("timeout_s", "retries", "retry")
_UNFIT = 0.01  # of the parts that are drawn whether they fit together or not
_SPOILED = 0.05  # of the scenarios that get a value which fits nowhere
_NONSENSE: tuple[Any, ...] = (
    None,
    True,
    -1,
    0,
    2**63,
    1e300,
    float("nan"),
    "",
    "a",
    ":",
    "all",
    [],
    [[]],
    {},
    [0],
)
_CODED = 0.2  # of the scenarios that code uploads, and downloads
_PRIVATE = 0.2  # of the scenarios whose means may get noise
_FAULTY = 0.15  # of the scenarios with faulty clients
_ROBUST = 0.25  # of those whose algorithms take what a rule makes of vectors
_NODE_FAULTS = ("scale", "bit-flip", "noise", "not-a-number", "silent")
_MEMBERS = ("ids", "count", "fraction", "group")
_TABLES = 0.15  # of the problems that take any table
_CONTROLLED = 0.15  # of the algorithms whose settings rules change
_WATCHED = {"round": (0, 5), "time_s": (0.5, 300.0), "loss": (0.1, 2.0), "participants": (0, 5)}


def draw(dice: Dice, folder: Path, algorithms: Collection[str] = ()) -> Scenario:
    """Return a random scenario.

    Parameters
    ----------
    dice : Dice
    folder : Path
        Where files are written that its settings name.
    algorithms : collection of str
        Which algorithms are drawn; any if empty.
    """
    scenario = _Drawing(dice, folder, algorithms).scenario()
    if dice.chance(_SPOILED):
        scenario = spoiled(dice, scenario)
    return scenario


def spoiled(dice: Dice, scenario: Scenario) -> Scenario:
    """Return a scenario with a value at a random place that fits hardly anywhere."""
    changed = copy.deepcopy(scenario)
    holder, key = dice.one_of(list(places(changed)))
    holder[key] = dice.one_of(_NONSENSE)
    return changed


def places(part: Any) -> Iterator[tuple[Any, Any]]:
    """Yield all places of a scenario: what holds a value, and its key or index there."""
    keys = list(part) if isinstance(part, dict) else range(len(part))
    for key in keys:
        yield part, key
        if isinstance(part[key], (dict, list)):
            yield from places(part[key])


class _Drawing:
    """Draws one scenario."""

    def __init__(self, dice: Dice, folder: Path, algorithms: Collection[str]) -> None:
        self.dice = dice
        self.count, self.folder = dice.whole(2, MOST_CLIENTS), folder
        self.settings = settings(dice, self.count, folder)
        self.weights = dict(weights())
        if algorithms:
            left_out = set(plugins.find("algorithms")) - set(algorithms)
            self.weights |= dict.fromkeys(left_out, 0.0)

    def scenario(self) -> Scenario:
        """Return the whole scenario."""
        dice = self.dice
        data, names = self.data()
        algorithms = [self.algorithm(names) for _ in range(1 if dice.chance(0.85) else 2)]
        walking = any(needs_walk for _, needs_walk in algorithms)
        methods = [given["name"] for given, _ in algorithms]
        select = self.selection(methods, walking)
        by_rounds = not any(plugins.find("algorithms")[name].asynchronous for name in methods)
        network = data["problem"]["name"] == "network"  # an update may take a second
        drift = self.drift(names, methods)
        scenario: Scenario = {
            "name": "chaos",
            "seeds": dice.some_of(range(100), 1 if dice.chance(0.95) else 2),
            "rounds": dice.whole(1, MOST_ROUNDS if by_rounds or network else MOST_UPDATES),
            **data,
            **({"drift": self.plugin("drifts", drift)} if drift else {}),
            "clients": self.clients(),
            "participation": self.participation(select, by_rounds, methods),
            "evaluate": self.evaluate(names, drift),
            "checkpoint": {"every_s": 0 if dice.chance(0.7) else _NEVER_S},
            "algorithms": [given for given, _ in algorithms],
            "executor": "serial",
        }
        gossip = any(plugins.find("algorithms")[name].gossip for name in methods)
        if gossip or GRAPHS in self._class_of(select).needs or dice.chance(_UNFIT):
            scenario["topology"] = self.plugin("topologies")
        self.extras(scenario)
        classes = [plugins.find("algorithms")[name] for name in methods]
        fit = all(
            MEAN not in cls.needs and not cls.asynchronous and not cls.gossip for cls in classes
        )
        if dice.chance(_PRIVATE if fit else _UNFIT):
            self.privacy(scenario)
        if all(cls.gossip for cls in classes) and not dice.chance(10 * _UNFIT):
            self.as_nodes(scenario, classes)
        return scenario

    def as_nodes(self, scenario: Scenario, classes: list[type[Algorithm]]) -> None:
        """Replace what methods without a server refuse."""
        dice, clients, methods = self.dice, scenario["clients"], scenario["algorithms"]
        for key in ("privacy", "aggregate", "downlink", "uplink"):
            scenario.pop(key, None)
            for given in methods:
                given.pop(key, None)
        for given, cls in zip(methods, classes, strict=True):
            given.pop("participation", None)
            if cls.asynchronous:
                given.pop("weights", None)
        if all(cls.coded for cls in classes) and dice.chance(2 * _CODED):
            scenario["uplink"] = [{**self.codec(["ef21"]), "memory": None}]

        def fitting(name: str) -> bool:
            return all(fits(algorithm=given["name"], topology=name) for given in methods)

        scenario["topology"] = self.plugin("topologies", self.name("topologies", fitting))
        if not self.absence(classes):
            for part in (clients, *clients.get("groups", ())):
                part.pop("availability", None)
                part.pop("crash", None)
                part.get("network", {}).pop("loss", None)
        in_steps = not any(cls.asynchronous for cls in classes)
        if not (in_steps and self.absence(classes)):
            scenario["participation"].pop("patience_s", None)
        self.without_radios((clients, *clients.get("groups", ())))
        self.node_faults(clients.get("faults", ()), silent=in_steps and self.absence(classes))

    def without_radios(self, parts: Iterable[dict[str, Any]]) -> None:
        """Leave out batteries and what is spent by the time of transfers."""
        for given in parts:
            if "energy" in given:
                given["energy"] = {"compute_w": given["energy"]["compute_w"], "up_j_per_mb": 1e4}

    def node_faults(self, faults: list[dict[str, Any]], *, silent: bool) -> None:
        """Replace faults that follow what a server receives, and silent ones where they are."""
        known = [name for name in _NODE_FAULTS if name != "silent" or silent]
        for fault in faults:
            if fault["name"] not in known:
                who = {key: fault[key] for key in _MEMBERS if key in fault}
                fault.clear()
                fault.update({"name": self.dice.one_of(known), **who})

    @staticmethod
    def absence(classes: list[type[Algorithm]]) -> bool:
        """Return whether methods run without some of the nodes."""
        return all(EVERYONE not in cls.needs for cls in classes)

    def extras(self, scenario: Scenario) -> None:
        """Add what few scenarios have."""
        dice, algorithms = self.dice, scenario["algorithms"]
        for index, given in enumerate(algorithms[1:], 1):
            given["label"] = f"{given['name']} {index}"
        if dice.chance(0.25):
            scenario["server"] = self.settings.of(Server)
        if dice.chance(0.2):
            scenario["dtype"] = dice.one_of(["float32", "float64"])
        if dice.chance(0.15):
            scenario["stop"] = self.stop()
        if dice.chance(0.05):
            scenario["grid"] = {"rounds": [scenario["rounds"], scenario["rounds"] + 1]}
        if dice.chance(0.03):
            algorithms[0]["grid"] = {"evaluate_last": [1, 2]}
        if dice.chance(0.03):
            scenario["clock"] = {"name": "wall", "scale": 1e-9}
        self.channel(scenario)

    def channel(self, scenario: Scenario) -> None:
        """Add what becomes of vectors on their way."""
        dice, algorithms = self.dice, scenario["algorithms"]
        if dice.chance(_CODED):
            scenario["uplink"] = self.uplink()
        if dice.chance(_CODED):
            scenario["downlink"] = [self.codec(["ef21"])]
        if dice.chance(_FAULTY):
            scenario["clients"]["faults"] = [self.fault() for _ in range(dice.whole(1, 2))]
        classes = [plugins.find("algorithms")[given["name"]] for given in algorithms]
        takes = all(MEAN not in cls.needs for cls in classes)
        if dice.chance(_ROBUST if takes else _UNFIT):
            scenario["aggregate"] = self.plugin("aggregators")
            if not dice.chance(_UNFIT):
                scenario["algorithms"] = [{**each, "weights": "uniform"} for each in algorithms]

    def fault(self) -> dict[str, Any]:
        """Return a fault, and who has it."""
        name = self.name("faults")
        given = self.settings.plugin("faults", name)
        return {key: each for key, each in given.items() if key not in _MEMBERS} | self.members()

    def privacy(self, scenario: Scenario) -> None:
        """Make a study private, most of the time one of which epsilon is true."""
        dice, count = self.dice, self.count
        tree, masked = dice.chance(0.4), dice.chance(0.3)
        shares = masked and not tree and dice.chance(0.5)
        private: dict[str, Any] = {"noise": dice.number(0.3, 3.0), "delta": 1e-5}
        follows = {"start": dice.number(0.1, 5.0), "noise": 2 * private["noise"]}
        fixed = tree or shares
        norm = follows if dice.chance(_UNFIT if fixed else 0.5) else dice.number(0.1, 5.0)
        wide = 500.0 if shares else 8.0
        tail = [{"name": "secure-sum", "range": wide, "threshold": 0.1}] if masked else []
        select = dice.one_of(["uniform", "all"]) if fixed else "poisson"
        if tree:
            private |= {"name": "tree", "separation": dice.whole(1, 5)}
        else:
            private |= {"accountant": "rdp", **({"at": "clients"} if shares else {})}
        if masked:
            scenario["clients"].pop("faults", None)
        if not dice.chance(_UNFIT):
            scenario.pop("aggregate", None)
        if "model_change" not in scenario.get("stop", {}):  # other rules have no noise
            scenario.pop("stop", None)
        scenario["privacy"] = private
        scenario["uplink"] = [{"name": "clip", "norm": norm}, *tail]
        kept = {"deadline_s", "interrupted"} & set(scenario["participation"])
        scenario["participation"] = {key: scenario["participation"][key] for key in kept}
        scenario["participation"] |= {"select": select}
        if select != "all":
            scenario["participation"]["cohort"] = dice.whole(1, count)
        for given in scenario["algorithms"]:
            own = ("uplink", "aggregate", "participation", "privacy")
            for key in own if not dice.chance(_UNFIT) else ():
                given.pop(key, None)
            given["weights"] = "uniform"

    def uplink(self) -> list[dict[str, Any]]:
        """Return what uploads go through, most of the time in an order that is accepted."""
        dice = self.dice
        stages = [self.codec(list(plugins.find("memories")))] if dice.chance(0.9) else []
        for name in ("clip", "secure-sum"):
            if not stages or dice.chance(0.15):
                stages.append(self.plugin("stages", name))
        return stages

    def codec(self, memories: list[str]) -> dict[str, Any]:
        """Return a codec, half of the time with a memory."""
        dice = self.dice
        name = self.name("stages", lambda name: issubclass(plugins.find("stages")[name], Codec))
        given = self.plugin("stages", name)
        if name in ("rand-k", "top-k"):
            given = {key: value for key, value in given.items() if key not in ("k", "share")}
            given[dice.one_of(["k", "share"])] = 1
        given["memory"] = None
        if dice.chance(0.5):
            given["memory"] = self.plugin("memories", dice.one_of(memories))
        return given

    # -- data ------------------------------------------------------------------------------

    def data(self) -> tuple[Scenario, dict[str, str]]:
        """Return problem and partition, and the names that other parts must fit; see `fits`."""
        dice = self.dice
        problem = self.name("problems")
        given, names = self.plugin("problems", problem), {"problem": problem}
        if problem == "network":
            given = {"name": problem, **network(dice)}
        if "dataset" not in given:
            given["dataset"] = self.dataset(problem)
        if dice.chance(0.3):
            given["test"] = dice.one_of([0.0, 0.2, 0.5])
        if dice.chance(0.2 if problem != "network" else _UNFIT):
            given["init"] = dice.one_of(["zeros", "normal", "uniform"])
        table = isinstance(given["dataset"], str)
        stand_in = STANDS_IN.get(TASKS.get(problem, 0), "synthetic")
        names["dataset"] = stand_in if table else given["dataset"]["name"]
        split_by = dice.chance(0.7) and (fits(**names, partition="iid") or dice.chance(_UNFIT))
        owned = table and dice.chance(0.8)  # rows have their clients, most of the time
        if owned or not split_by:  # at random, or as the data says
            return {"problem": given}, names
        split = self.name("partitions", lambda name: fits(**names, partition=name))
        return {"problem": given, "partition": self.plugin("partitions", split)}, names

    def dataset(self, problem: str) -> dict[str, Any] | str:
        """Return data for a problem, or the path of a table."""
        if problem in TASKS and self.dice.chance(_TABLES):
            return table_file(self.dice, self.count, self.folder, TASKS[problem])
        name = self.name("datasets", lambda name: fits(problem=problem, dataset=name))
        return self.plugin("datasets", name)

    # -- algorithms ------------------------------------------------------------------------

    def algorithm(self, names: dict[str, str]) -> tuple[dict[str, Any], bool]:
        """Return an algorithm that takes the problem, and whether its server has to walk."""
        walks = {"selection": "walk", "topology": "complete"}
        name = self.name(
            "algorithms",
            lambda name: any(
                fits(**names, **graph, algorithm=name)
                for graph in ({}, walks, {"topology": "complete"})
            ),
        )
        given = self.plugin("algorithms", name)
        if given.pop("uplink", "study") != "study" and self.dice.chance(0.5):
            given["uplink"] = self.uplink()
        if given.pop("downlink", "study") != "study" and self.dice.chance(0.5):
            given["downlink"] = None
        if given.pop("aggregate", "study") != "study" and self.dice.chance(0.5):
            given["aggregate"] = None
        cls = plugins.find("algorithms")[name]
        walking = not fits(**names, algorithm=name)
        parts = {"algorithm": name, **(walks if walking else {})}
        for key in SOLVERS:
            if key in cls.__dataclass_fields__ and self.dice.chance(0.8):
                solver = self.name("solvers", lambda solver: fits(**parts, solver=solver))
                given[key] = self.plugin("solvers", solver)
        if self.dice.chance(_UNFIT if cls.asynchronous else _CONTROLLED):
            given["control"] = [self.rule(cls) for _ in range(self.dice.whole(1, 2))]
        return given, walking

    def rule(self, cls: type[Algorithm]) -> dict[str, Any]:
        """Return a rule that changes a setting, most of the time one that the method has."""
        dice = self.dice
        column = dice.one_of(_WATCHED)
        values: dict[str, Any] = {"lr": dice.number(0.003, 0.2)}
        if not (cls.gossip or cls.centralised):
            values |= {"cohort": dice.whole(1, self.count), "deadline_s": dice.number(1.0, 300.0)}
            values["uplink"] = [{**self.codec(["ef21"]), "memory": None}]
            if MEAN not in cls.needs:
                values["aggregate"] = self.plugin("aggregators")
        name = dice.one_of(values)
        return {
            "column": column, dice.one_of(["above", "below"]): dice.number(*_WATCHED[column]),
            "set": {name: values[name]}, **({"start": 2} if dice.chance(0.3) else {}),
        }  # fmt: skip

    def drift(self, names: dict[str, str], methods: list[str]) -> str | None:
        """Return how rows change over rounds; None if they do not."""
        if not self.dice.chance(0.2):
            return None

        def fitting(name: str) -> bool:
            return all(fits(**names, algorithm=method, drift=name) for method in methods)

        found = self.name("drifts", fitting)
        return found if fitting(found) or self.dice.chance(_UNFIT) else None

    # -- population ------------------------------------------------------------------------

    def clients(self) -> dict[str, Any]:
        """Return the population."""
        given: dict[str, Any] = {"count": self.count, **self.behaviour(0.7, 0.6)}
        if self.dice.chance(0.3):
            slow = self.dice.number(0.0, 1.0)
            given["stragglers"] = {"fraction": slow, "slowdown": self.dice.number(0.5, 20.0)}
        if self.dice.chance(0.25):
            given["groups"] = [self.group() for _ in range(self.dice.whole(1, 2))]
        return given

    def behaviour(self, delay: float, availability: float) -> dict[str, Any]:
        """Return how clients behave; each part with a probability."""
        dice = self.dice
        given: dict[str, Any] = {}
        if dice.chance(delay):
            given["delay"] = self.plugin("delays")
        if dice.chance(availability):
            given["availability"] = self.plugin("availability")
        if dice.chance(delay / 2):
            given["network"] = self.settings.of(Connection)
            if "file" not in given["network"] and not dice.chance(_UNFIT):
                given["network"].pop("repeat_s", None)
        if dice.chance(delay / 4):
            given["crash"] = self.settings.of(Crash)
        if dice.chance(delay / 4):
            given["capacity"] = dice.number(0.05, 1.0)
        if dice.chance(delay / 4):
            given["energy"] = {"compute_w": dice.number(0.1, 10.0), **self.settings.of(Energy)}
        return given

    def group(self) -> dict[str, Any]:
        """Return some clients that differ."""
        dice = self.dice
        group = {**self.members(), **self.behaviour(0.4, 0.4)}
        if dice.chance(0.4):
            group["local"] = dice.one_of([{"steps": dice.whole(1, 5)}, {"lr": 0.05}, {"batch": 3}])
        return group

    def members(self) -> dict[str, Any]:
        """Return who is in a group, or has a fault."""
        dice = self.dice
        size = dice.whole(1, max(1, self.count // 2))
        members: dict[str, Any] = dice.one_of(
            [{"count": size}, {"fraction": 0.5}, {"ids": dice.some_of(range(self.count), size)}]
        )
        return members

    # -- participation and measures --------------------------------------------------------

    def selection(self, algorithms: list[str], walking: bool) -> dict[str, Any]:
        """Return who takes part."""
        if walking:
            return self.plugin("selections", "walk")

        def fitting(name: str) -> bool:
            graphs = "complete" if GRAPHS in self._class_of({"name": name}).needs else None
            parts = {"selection": name, "topology": graphs}
            return all(fits(algorithm=method, **parts) for method in algorithms)

        return self.plugin("selections", self.name("selections", fitting))

    def participation(
        self, select: dict[str, Any], by_rounds: bool, methods: list[str]
    ) -> dict[str, Any]:
        """Return the participation for a selection and some algorithms."""
        dice = self.dice
        given: dict[str, Any] = {"select": select}
        if all(plugins.find("algorithms")[name].gossip for name in methods):
            return self.without_server()
        cls = self._class_of(select)
        everyone = COHORT in cls.removes or issubclass(cls, All)
        if dice.chance(_UNFIT) if everyone else dice.chance(0.85):
            given["cohort"] = dice.whole(1, self.count)
        if dice.chance(0.25 if by_rounds else _UNFIT):
            given["over_select"] = dice.number(1.0, 2.0)
        if "d" in select and not dice.chance(_UNFIT):
            asked = math.ceil(given.get("cohort", self.count) * given.get("over_select", 1.0))
            select["d"] = max(select["d"], min(asked, self.count))
        if dice.chance(0.3):
            ends_rounds = by_rounds != dice.chance(_UNFIT)
            given["deadline_s" if ends_rounds else "timeout_s"] = dice.number(0.1, 300.0)
        given |= self.lateness(methods)
        if dice.chance(0.3):
            known = ("select", "cohort", "over_select", "deadline_s", "late", *_AGAIN)
            given |= self.settings.rest(model_of(Participation), known)
        if dice.chance(0.25):
            given |= self.asking_again(cls, by_rounds)
        return given

    def without_server(self) -> dict[str, Any]:
        """Return the participation of nodes, most of the time as gossip allows it."""
        dice = self.dice
        given: dict[str, Any] = {"select": dice.one_of(["all", "uniform"])}
        if dice.chance(0.3):
            given["interrupted"] = dice.one_of(["drop", "resume"])
        if dice.chance(0.4):
            given["patience_s"] = dice.number(0.1, 10.0)
        if dice.chance(_UNFIT):
            given["deadline_s"] = 10.0
        return given

    def asking_again(self, select: type[Selection], by_rounds: bool) -> dict[str, Any]:
        """Return when the server gives up work, and whom it asks then."""
        dice = self.dice
        given: dict[str, Any] = {"retries": dice.whole(0, 3)}
        if dice.chance(0.8):
            given["timeout_s"] = dice.number(0.1, 100.0)
        plain = by_rounds and not (select.asks or select.listens or COHORT in select.removes)
        if dice.chance(0.5 if plain else _UNFIT):
            given["retry"] = "other"
        return given

    def lateness(self, methods: list[str]) -> dict[str, Any]:
        """Return what becomes of late task, most of the time as the algorithms allow it."""
        found, fitting = [plugins.find("algorithms")[name] for name in methods], ["drop"]
        rounds = not any(cls.asynchronous for cls in found)
        if rounds and all(ALL_STEPS not in cls.needs and SOLVER in cls.needs for cls in found):
            fitting.append("partial")
        if rounds and all(FRESH not in cls.needs for cls in found):
            fitting.append("stale")
        if not self.dice.chance(0.4):
            return {}
        unfit = self.dice.chance(_UNFIT)
        late = self.dice.one_of(["drop", "partial", "stale"] if unfit else fitting)
        return {"late": late}

    def evaluate(self, names: dict[str, str], drift: str | None) -> dict[str, Any]:
        """Return what is measured."""
        dice = self.dice
        asked = [flag for flag in _FLAGS if dice.chance(0.12)]
        given: dict[str, Any] = {
            flag: True
            for flag in asked
            if fits(**names, flag=flag, drift=drift) or dice.chance(_UNFIT)
        }
        if dice.chance(0.3):
            given["every"] = dice.whole(1, 4)
        if dice.chance(0.2):
            given["clients"] = dice.whole(1, self.count)
        if dice.chance(0.15):
            given |= self.settings.rest(Evaluate, (*_FLAGS, "every", "clients"))
        return given

    def stop(self) -> dict[str, float]:
        """Return a rule that may end a run early."""
        dice = self.dice
        return dice.one_of([
            {"time_s": dice.number(0.5, 300.0)}, {"loss": dice.number(0.1, 2.0)},
            {"accuracy": dice.number(0.3, 1.0)}, {"loss_change": dice.number(1e-4, 0.1)},
            {"model_change": dice.number(1e-4, 0.1)}, {"loss_gap": dice.number(1e-3, 1.0)},
            {"client_updates": dice.whole(1, 40)},
        ])  # fmt: skip

    # -- plug-ins --------------------------------------------------------------------------

    def plugin(self, kind: str, name: str | None = None) -> dict[str, Any]:
        """Return a plug-in with random settings; any of its kind if no name is given."""
        return self.settings.plugin(kind, name or self.name(kind))

    def name(self, kind: str, fitting: Callable[[str], bool] | None = None) -> str:
        """Return the name of a plug-in, most of the time of one that fits what was drawn."""
        left = [name for name in plugins.find(kind) if self.weights.get(name, 1.0)]
        unfit = self.dice.chance(_UNFIT)
        while left:
            name = self.dice.one_of(left, self.weights)
            if fitting is None or unfit or fitting(name):
                return name
            left.remove(name)
        return self.dice.one_of(plugins.find(kind))

    @staticmethod
    def _class_of(select: dict[str, Any]) -> type[Selection]:
        cls: type[Selection] = plugins.find("selections")[select["name"]]
        return cls
