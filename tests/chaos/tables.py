"""What is drawn where the type of a setting says too little, and how often plug-ins are drawn."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from rayfed.core.plugins import find
from rayfed.solvers.step_counts import STEP_SETTINGS
from tests.chaos.dice import Dice

SOLVERS = ("local", "tune", "head")
"""Settings of algorithms that are local solvers; those that an algorithm can use are drawn."""

SKIPPED = frozenset({"label", "grid", "init", "rows", "control", *SOLVERS})
"""Settings that the scenario as a whole decides, or that fit no other draw."""

ALWAYS = frozenset({"samples", "features", "clients", "limit", "hidden"})
"""Settings that decide how large a case is: never left at their defaults."""

EXCLUSIVE = (
    STEP_SETTINGS,
    ("rounds", "period_s"),
    ("every", "every_s"),
    ("noise", "epsilon"),
    ("end", "recurs"),
    ("every", "recurs"),
    ("start", "period_s"),
    ("end", "period_s"),
)
"""Settings of which a plug-in takes one at most."""

FETCHED = ("boston", "cifar10", "cifar100", "fashion-mnist", "fedhybrid-boston", "mnist")
"""Data sets of files that are downloaded: never drawn, so that a seed means the same everywhere."""


def weights() -> Mapping[str, float]:
    """Return how often plug-ins are drawn, by name, in place of 1."""
    large = {"mushroom": 0.03, "fedhybrid-mushroom": 0.03}
    torch = {"network": 1.0 if find_spec("torch") else 0.0, "flower": 0.0}  # which takes an app
    return {**large, **torch, "own-train": 0.1, **dict.fromkeys(FETCHED, 0.0)}


def table(clients: int, folder: Path) -> Mapping[str, Any]:
    """Return what is drawn for settings, by ``plugin.setting`` or ``setting``; see `Settings`.

    Parameters
    ----------
    clients : int
        Number N of clients.
    folder : Path
        Where files are written that settings name.
    """
    return {
        **_DATA, **_LEARNING, **_POPULATION,
        "clients": [clients],
        **{f"{drift}.clients": (0.0, 1.0) for drift in find("drifts")},
        "clusters": lambda dice: _clusters(dice, clients),
        "d": (1, clients),
        "fedat.tiers": lambda dice: _tiers(dice, clients),
        "hierfavg.edges": lambda dice: dice.one_of([_tiers(dice, clients), "groups"]),
        "multi-walk.home": (0, clients - 1),
        "newton": lambda dice: _newton(dice, clients),
        **{f"{name}.mixing": ["symmetric", "lazy", "uniform"] for name in _mixing()},
        "minimum": (1, clients),
        "number": (1, clients),
        "walk.start": (0, clients - 1),
        "zones": lambda dice: _zones(dice, clients),
        "trace.path": lambda dice: _trace(dice, clients, folder),
        "matrix.path": lambda dice: _matrix(dice, clients, folder),
    }  # fmt: skip


def _mixing() -> list[str]:
    """Return the methods without a server whose messages have one sum."""
    return [name for name, cls in find("algorithms").items() if not getattr(cls, "pushes", True)]


_DATA = {
    "UniformSizes.high": (4, 9),
    "UniformSizes.low": (1, 5),
    "LognormalSizes.mean": (0.5, 2.0),
    "LognormalSizes.plus": (1, 6),
    "LognormalSizes.sigma": (0.0, 1.0),
    "cifar100.classes": ["fine", "coarse"],
    "classes": (2, 4),
    "column": ["x", "x0", "x1", "a", "odor"],
    "circle.intercept": [False],
    "disc.samples": (20, 60),
    "features": (1, 4),
    "flip": [0.0, 0.0, 0.3],
    "Augment.flip": [False, True],
    "fedhybrid-logistic.samples": (20, 60),
    "fedhybrid-quadratic.samples": (10, 40),
    "ill_conditioned": (0, 3),
    "limit": (40, 80),
    "line.high": (0.5, 3.0),
    "line.low": (-3.0, 0.4),
    "line.samples": (20, 60),
    "network.intercept": [False],
    "quadratic.intercept": [False],
    "samples": (4, 12),
    "seed": (0, 5),
}
_LEARNING: Mapping[str, Any] = {
    "adacomm.start": (1, 6),
    "alpha_gradient": (0.005, 0.2),
    "alpha_newton": (0.1, 1.0),
    "batch": [1, 2, 5, 32, "full"],
    "before": [None, {"name": "buckets", "size": 2}, {"name": "nearest-neighbours", "f": 1}],
    "beta_gradient": (0.005, 0.2),
    "beta_newton": (0.005, 0.2),
    "cg_steps": (1, 8),
    "cosine.rounds": (1, 6),
    "epochs": (0.3, 2.5),
    "f": (0, 2),
    "fedat.overlap": [False],
    "hidden": [[3], [2, 2]],
    "inner_steps": (1, 4),
    "lr": (0.003, 0.4),
    "max_steps": (1, 5),
    "model": ["rayfed.testing.modules:Small"],
    "preconditioner": ["first", "none", 0, 1],
    "staleness": [
        {"name": "constant"},
        {"name": "polynomial", "power": 0.5},
        {"name": "hinge", "slope": 2.0, "after": 1},
    ],
    "time_s": (0.5, 5.0),
    "uniform.high": (3, 6),
    "uniform.low": (1, 3),
}
_POPULATION = {
    "Battery.high": (0.5, 1.0),
    "Battery.low": (0.0, 0.5),
    "capacity_wh": (1e-4, 1.0),
    "charge_w": (0.0, 20.0),
    "cyclic.rounds": (1, 3),
    "cloud_down_mbps": (1e-4, 1.0),
    "cloud_latency_s": (0.0, 3.0),
    "cloud_up_mbps": (1e-4, 1.0),
    "down_mbps": (1e-4, 1.0),
    "downloads_mbps": (1e-4, 1.0),
    "every_s": (0.5, 100.0),
    "groups": (1, 4),
    "halve_every": (1, 5),
    "hop_s": (0.0, 20.0),
    "last": (0, 5),
    "latency_s": (0.0, 3.0),
    "mean_s": (0.2, 100.0),
    "patience_s": (0.5, 100.0),
    "period_s": (0.5, 300.0),
    "restart_s": (0.0, 30.0),
    "range_m": (200.0, 1500.0),
    "small-world.neighbours": [2, 4],
    "start_h": [0.0],
    "speed_m_s": (0.1, 50.0),
    "step_s": (0.5, 50.0),
    "tail_s": (0.0, 20.0),
    "up_mbps": (1e-4, 1.0),
    "uploads_mbps": (1e-4, 1.0),
}


def _clusters(dice: Dice, clients: int) -> Any:
    number = dice.whole(1, clients)
    listed = [dice.whole(0, number - 1) for _ in range(clients)]
    listed[:number] = range(number)
    found = {"by": "updates", "number": number}
    return dice.one_of([number, listed, found, {"by": "labels"}])


def _tiers(dice: Dice, clients: int) -> Any:
    number = dice.whole(1, clients)
    listed = [dice.whole(0, number - 1) for _ in range(clients)]
    listed[:number] = range(number)
    return dice.one_of([number, listed])


def _zones(dice: Dice, clients: int) -> Any:
    each = [dice.number(-12.0, 14.0) for _ in range(clients)]
    shares = [{"utc_h": each[0], "share": 0.5}, {"utc_h": each[1], "share": 0.5}]
    return dice.one_of([each, shares])


def _newton(dice: Dice, clients: int) -> Any:
    number = dice.whole(0, clients)
    ids = sorted(dice.some_of(range(clients), number))
    return dice.one_of([number, ids, "all", "fastest 25%", 0.5])


def _trace(dice: Dice, clients: int, folder: Path) -> str:
    """Write a ring whose links change once or twice."""
    clock = dice.one_of(["time", "round"])
    moments = sorted({0, dice.whole(1, 30), dice.whole(1, 5)})
    rows = [
        f"{moment},{i},{(i + 1 + (moment > 0 and dice.chance(0.3))) % clients}"
        for moment in moments
        for i in range(clients)
    ]
    return _file(folder / "contacts.csv", [f"{clock},u,v", *rows])


def _matrix(dice: Dice, clients: int, folder: Path) -> str:
    """Write a lazy walk on a ring."""
    stay = dice.one_of([0.2, 0.5])
    rows = []
    for i in range(clients):
        row = [0.0] * clients
        row[i] += stay
        for j in (i + 1, i - 1):
            row[j % clients] += (1 - stay) / 2
        rows.append(",".join(map(repr, row)))
    return _file(folder / "moves.csv", rows)


def _file(path: Path, lines: list[str]) -> str:
    path.write_text("\n".join([*lines, ""]), encoding="utf-8")
    return str(path)
