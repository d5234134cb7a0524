"""Methods with own training code: they work, or are refused before a run with the reason."""

import pytest

from rayfed import api
from rayfed.core.errors import ScenarioError
from rayfed.core.plugins import find
from rayfed.testing import loop

LOCAL = {"name": "own-train", "steps": 2, "state": {"tasks": 1}}
SETTINGS = {
    "clusterfedvarp": {"clusters": 2},
    "fedavg-finetuned": {"tune": {"name": "own-train", "steps": 1}},
    "fedper": {"personal_layers": ["offset"]},
}
REFUSED = {
    "apfl": "must know how a local solver adds up gradients",
    "centralised": "needs rows of features and targets",
    "dasha": "needs gradients",
    "diging": "needs gradients",
    "disco": "needs",
    "ditto": "needs gradients",
    "exact-diffusion": "needs gradients",
    "extra": "needs gradients",
    "fedbn": "has no normalisation layers",
    "feddyn": "needs gradients",
    "fedhybrid": "needs gradients",
    "fednova": "give a kind of SGD",
    "fedprox": "needs a proximal term",
    "fedrep": "needs gradients",
    "giant": "needs",
    "gradient-descent": "needs gradients",
    "marina": "needs gradients",
    "moon": "needs gradients",
    "per-fedavg": "needs gradients",
    "pfedme": "needs gradients",
    "proxskip": "plain steps of sgd",
    "rwsadmm": "brings its own",
    "scaffold": "must know how a local solver adds up gradients",
}
"""Methods that need gradients, rows or more of the solver, and a part of the reason."""

MODULE = """
from rayfed.testing.own_code import client, evaluate, size, train as descend
import numpy as np

def model():
    return {"mean": np.zeros(2), "offset": np.zeros(1)}

def train(model, data, context):
    return descend(model, data, context)
"""


@pytest.fixture
def scenario(tmp_path, monkeypatch):
    (tmp_path / "layered_code.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)

    def make(name, **keys):
        algorithm = {"name": name, "local": LOCAL, **SETTINGS.get(name, {})}
        if name == "fedrep":
            algorithm["personal_layers"] = ["offset"]
        problem = {"name": "own-code", "code": "layered_code"}
        clients = {"count": 5, "delay": {"name": "exponential", "mean_s": 1.0}}
        given = {"problem": problem, "clients": clients, "algorithms": [algorithm], "rounds": 2}
        return {**given, "executor": {"name": "serial"}, **keys}

    return make


@pytest.mark.parametrize("name", find("algorithms"))
def test_a_method_runs_or_is_refused(scenario, name):
    given = scenario(name) | ({"topology": "ring"} if find("algorithms")[name].gossip else {})
    if name in REFUSED:
        with pytest.raises(ScenarioError, match=REFUSED[name]):
            api.prepare(api.read(given))
        return
    made = loop(given)
    now, _ = made.start()
    for _ in range(2):
        now, row, _ = made.step(now)
    assert row["participants"] > 0


@pytest.mark.parametrize("name", [n for n in find("selections") if n not in ("cpow-d", "walk")])
def test_selections_run(scenario, name):
    cohort = {} if name == "all" else {"cohort": 3}
    made = loop(scenario("fedavg", participation={"select": name, **cohort}))
    now, _ = made.start()
    _, row, _ = made.step(now)
    assert row["participants"] > 0
