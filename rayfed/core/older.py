"""Scenarios in result folders of older versions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_MEASURES = ("fairness", "skew", "distance", "appeal", "heterogeneity", "layers", "gradient")
"""Measures that had keys of their own under ``evaluate``, in the order of their columns."""

_TABLES = (".csv", ".csv.gz", ".parquet", ".parquet.gz", ".libsvm", ".svm")


def renewed(scenario: Mapping[str, Any]) -> dict[str, Any]:
    """Return a resolved scenario in the spelling of this version.

    Older versions had further spellings of measures, of schedules, of keys of participation and of
    tables without settings, which are recorded as their paths.
    Values below ``grid``, ``cases``, ``search`` and groups of clients stay as they are.

    Examples
    --------
    >>> renewed({"evaluate": {"every": 2, "fairness": True, "skew": False, "skew_draws": 100}})
    {'evaluate': {'every': 2, 'measures': [{'name': 'fairness'}]}}
    """
    made = dict(scenario)
    parts = {"evaluate": _evaluate, "participation": _participation, "problem": _problem}
    for key, renew in parts.items():
        if isinstance(made.get(key), Mapping):
            made[key] = renew(made[key])
    if isinstance(made.get("algorithms"), list):
        shared = not _rates_of_groups(made.get("clients"))
        made["algorithms"] = [
            _algorithm(each, shared) if isinstance(each, Mapping) else each
            for each in made["algorithms"]
        ]
    return made


def _rates_of_groups(clients: Any) -> bool:
    """Return whether groups of clients have learning rates, which decayed with the algorithm's."""
    groups = clients.get("groups") if isinstance(clients, Mapping) else None
    named = (group.get("local") or {} for group in groups or () if isinstance(group, Mapping))
    return any("lr" in local for local in named)


def _evaluate(given: Mapping[str, Any]) -> dict[str, Any]:
    asked = {key: given.get(key) for key in _MEASURES}
    settings = {"skew": {"draws": given.get("skew_draws")}, "appeal": {"steps": asked["appeal"]}}
    found = [{"name": key, **settings.get(key, {})} for key in _MEASURES if asked[key]]
    made = {key: value for key, value in given.items() if key not in (*_MEASURES, "skew_draws")}
    return made | {"measures": [*found, *made.get("measures", ())]} if found else made


def _participation(given: Mapping[str, Any]) -> dict[str, Any]:
    return {"if_fewer" if key == "too_few" else key: value for key, value in given.items()}


def _problem(given: Mapping[str, Any]) -> dict[str, Any]:
    data = given.get("dataset")
    if not isinstance(data, Mapping) or data.get("name") != "table":
        return dict(given)
    path, rest = data.get("path"), [data[key] for key in data if key not in ("name", "path")]
    default = all(v is None or v is False or v in ([], "refuse", "utf-8") for v in rest)
    table = default and str(path).lower().endswith(_TABLES)
    return {**given, "dataset": path} if table else dict(given)


def _algorithm(given: Mapping[str, Any], shared: bool) -> dict[str, Any]:
    """Return an algorithm; decay stays, and is refused, unless all clients have its rate."""
    made = {key: value for key, value in given.items() if key != "select"}
    if isinstance(made.get("participation"), Mapping):
        made["participation"] = _participation(made["participation"])
    if given.get("select") is not None:
        made["participation"] = {**made.get("participation", {}), "select": given["select"]}
    local = made.get("local")
    if isinstance(local, Mapping) and (shared or local.get("lr_decay") == 1):
        made["local"] = {key: value for key, value in local.items() if key != "lr_decay"}
        if local.get("lr_decay", 1) != 1:
            lr = {"name": "exponential", "start": local.get("lr"), "factor": local["lr_decay"]}
            made["local"]["lr"] = lr
    return made
