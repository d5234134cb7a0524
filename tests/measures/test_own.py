"""Measures of the user's own: one file beside the scenario, named by `evaluate.measures`."""

import re
from pathlib import Path

import pytest

import rayfed
from rayfed import api
from rayfed.core.errors import ScenarioError
from rayfed.study import Study

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "own-measure.md"
SCENARIO = """
rounds: 6
evaluate: {{every: 2, measures: [{measures}]}}
problem: {{name: least-squares, dataset: linear}}
clients: {{count: 4}}
executor: serial
algorithms: [fedavg]
"""


@pytest.fixture
def folder(tmp_path):
    (code,) = re.findall(r":caption: mine.py\n\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    (tmp_path / "own_gradient.py").write_text(code)
    bad = code.replace('"gradient_least": least}, {', '"other": 1.0}, {')
    (tmp_path / "own_undeclared.py").write_text(bad)
    return tmp_path


def study(folder, measures):
    path = folder / "study.yaml"
    path.write_text(SCENARIO.format(measures=measures))
    return path


def test_the_measure_of_the_documents_fills_its_columns(folder):
    path = study(folder, "own_gradient:Gradient, fairness")
    rows = rayfed.run(path, out=folder / "out", page=False).rounds
    asked = rows.iloc[::2]
    assert (asked.gradient_norm > 0).all()
    assert asked.gradient_least.to_list() == asked.gradient_norm.cummin().to_list()
    assert rows.gradient_norm.iloc[1::2].isna().all()
    assert "accuracy_jain" in rows


def test_a_column_that_is_not_declared_fails_the_run_in_one_line(folder):
    path = study(folder, "own_undeclared:Gradient")
    with pytest.warns(RuntimeWarning, match="returns other, not among its columns"):
        rayfed.run(path, out=folder / "out", page=False)


def made(**evaluate):
    return {
        "rounds": 2, "evaluate": evaluate, "clients": {"count": 4}, "algorithms": ["fedavg"],
        "problem": {"name": "least-squares", "dataset": "linear"},
    }  # fmt: skip


def test_a_study_without_measures_is_recorded_as_before():
    assert "measures" not in Study.parse(made()).to_dict()["evaluate"]
    assert Study.parse(made(measures=["fairness"])).to_dict()["evaluate"]["measures"] == [
        {"name": "fairness"}
    ]


def test_what_is_asked_for_twice_is_refused():
    with pytest.raises(ScenarioError, match=r"evaluate.measures.1: found 'fairness', which is"):
        Study.parse(made(measures=["fairness", "fairness"]))


def test_a_measure_without_the_optimum_that_it_needs_is_refused_in_its_place():
    scenario = made(measures=["distance"], clients=2)
    with pytest.raises(ScenarioError, match=r"evaluate.measures.0: needs `evaluate.clients: all`"):
        api.prepare(api.read(scenario))
