"""Each plug-in in a small study with own training code, for the page of what goes with what."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rayfed import api
from rayfed.core.errors import ScenarioError
from rayfed.core.needs import COHORT, GRAPHS
from rayfed.core.plugins import find
from rayfed.selection.simple import All
from rayfed.testing.examples import COUNT, example

LOCAL = {"name": "own-train", "steps": 2, "state": {"tasks": 1}}
KINDS = (
    "algorithms", "selections", "stages", "memories", "aggregators", "mixers", "faults", "measures",
    "partitions", "drifts",
)  # fmt: skip
_CLIP = {"name": "clip", "norm": 1.0}
_ALGORITHMS: dict[str, dict[str, Any]] = {
    "clusterfedvarp": {"clusters": 2},
    "fedavg-finetuned": {"tune": {"name": "own-train", "steps": 1}},
    "fedper": {"personal_layers": ["offset"]},
    "fedrep": {"personal_layers": ["offset"]},
}


def study(kind: str, name: str, folder: Path) -> dict[str, Any]:
    """Return a scenario with own code and one plug-in.

    Parameters
    ----------
    kind, name : str
        Kind and name of the plug-in.
    folder : Path
        Where files may be written that its settings name.
    """
    cls = find(kind)[name]
    algorithm: dict[str, Any] = {"name": "fedavg", "local": LOCAL}
    made: dict[str, Any] = {
        "problem": {"name": "own-code", "code": "rayfed.testing.own_code"},
        "clients": {"count": COUNT, "delay": {"name": "exponential", "mean_s": 1.0}},
        "rounds": 2,
        "executor": {"name": "serial"},
    }
    if kind == "algorithms":
        algorithm = {"name": name, "local": LOCAL, **_ALGORITHMS.get(name, {})}
    elif kind == "selections":
        cohort = {} if COHORT in cls.removes or issubclass(cls, All) else {"cohort": 3}
        made["participation"] = {"select": example(cls, folder), **cohort}
    elif kind == "stages":
        first = [_CLIP] if name == "secure-sum" else []
        made["uplink"] = [*first, example(cls, folder)]
    elif kind == "memories":
        codec = "rand-k" if name == "diana" else "top-k"  # one is unbiased, the other contractive
        made["uplink"] = [{"name": codec, "share": 0.5, "memory": example(cls, folder)}]
    elif kind in ("aggregators", "mixers"):
        algorithm["weights"] = "uniform"
        rule = example(cls, folder)
        made["aggregate"] = {"name": "median", "before": rule} if kind == "mixers" else rule
    elif kind == "faults":
        made["clients"]["faults"] = [example(cls, folder)]
    elif kind == "measures":
        made["evaluate"] = {"measures": [example(cls, folder)]}
    else:
        made[kind.removesuffix("s")] = example(cls, folder)
    if kind in ("algorithms", "selections") and GRAPHS in cls.needs:
        made["topology"] = "ring"
    return {**made, "algorithms": [algorithm]}


def refusal(scenario: dict[str, Any]) -> str:
    """Return the reason why a study is refused before a run; empty if it is not."""
    try:
        api.prepare(api.read(scenario))
    except ScenarioError as error:
        return error.problem
    return ""


def verdicts(folder: Path) -> Iterator[tuple[str, str, str]]:
    """Yield kind, name and reason of refusal of each plug-in; see `study`."""
    for kind in KINDS:
        for name in find(kind):
            yield kind, name, refusal(study(kind, name, folder))
