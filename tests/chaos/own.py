"""What users bring to a scenario: a table in a file, and networks."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.chaos.dice import Dice

TASKS: Mapping[str, int] = {
    "least-squares": 0, "logistic-regression": 2, "softmax-regression": 3, "mlp": 3, "network": 3,
}  # fmt: skip
"""Problems that take a table of any columns: the number of classes, 0 for numbers."""
STANDS_IN = {0: "linear"}
"""Data of plug-ins that fit the same algorithms as a table; "synthetic" for classes."""
_SIDE = 8  # pixels of images, which LeNet pads


def table_file(dice: Dice, clients: int, folder: Path, classes: int) -> str:
    """Write a CSV table, and return its path.

    Parameters
    ----------
    dice : Dice
    clients : int
        Number N of clients; a column says whose a row is, most of the time.
    folder : Path
    classes : int
        Of the target `y`; 0 for numbers.
    """
    names = [f"x{k}" for k in range(dice.whole(1, 4))]
    owned = dice.chance(0.7)
    rows = [",".join((*(["client"] if owned else []), *names, "y"))]
    for number in range(clients * dice.whole(3, 8)):
        whose = [number % clients] if owned else []
        features = [dice.number(-2.0, 2.0) for _ in names]
        target = number % classes if classes else dice.number(-2.0, 2.0)
        rows.append(",".join(map(str, (*whose, *features, target))))
    path = folder / "table.csv"
    path.write_text("\n".join([*rows, ""]), encoding="utf-8")
    return str(path)


def network(dice: Dice) -> dict[str, Any]:
    """Return the settings of a problem with a network; with data where it needs some of its own."""
    given: dict[str, Any] = {"l2": dice.one_of([0.0, 0.01])}
    if dice.chance(0.2):
        given["label_smoothing"] = 0.1
    if dice.chance(0.8):
        dropout = dice.one_of([0.0, 0.25])
        model = {"name": "rayfed.testing.modules:Small", "hidden": dice.whole(2, 5)}
        return given | {"model": {**model, "dropout": dropout}}
    given |= {"model": "lenet5", "shape": [1, _SIDE, _SIDE]}
    if dice.chance(0.5):
        given["augment"] = {"crop": dice.whole(0, 2), "flip": dice.chance(0.5)}
    data = {"name": "synthetic", "features": _SIDE**2, "samples": dice.whole(4, 10)}
    return given | {"dataset": data}
