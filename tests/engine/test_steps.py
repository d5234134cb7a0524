"""Steps of nodes as a run records them: times, bytes, events, and what drift may change."""

import numpy as np
import pytest

from rayfed import api
from rayfed.cli.forecasts import server_sees
from rayfed.core.errors import ScenarioError
from rayfed.study.forecast.cost import _RunCost
from rayfed.testing import loop

SECONDS, UP = (1, 2.5, 3, 1.5), (16, 16, 8, 16)
MODEL = 8 * 125_000  # bytes


def scenario(algorithm, **more):
    """The ring of four of ``test_barriers``, by the settings of a user."""
    links = [{"up_mbps": up, "latency_s": 0.125} for up in UP]
    links[3]["down_mbps"] = 8
    groups = [
        {"name": f"node {i}", "ids": [i], "network": links[i],
         "delay": {"name": "constant", "mean_s": SECONDS[i]}}
        for i in range(4)
    ]  # fmt: skip
    data = {"name": "synthetic", "features": 125_000 - 1, "classes": 2, "samples": 2}
    return {
        "name": "ring", "rounds": 3, "evaluate": {"every": 3}, "dtype": "float64",
        "problem": {"name": "logistic-regression", "dataset": data},
        "clients": {"count": 4, "groups": groups}, "topology": "ring", "executor": "serial",
        "algorithms": [{"local": {"steps": 1}} | algorithm],
    } | more  # fmt: skip


@pytest.mark.parametrize(
    ("algorithm", "times", "skews"),
    [
        ({"name": "dfedavg"}, [5.25, 9, 14.25], [1.5, 0, 1.5]),
        ({"name": "d-psgd"}, [3, None, 9], [1.75, None, 2.5]),
    ],
)
def test_rows_have_the_times_of_the_ring(algorithm, times, skews):
    engine = loop(scenario(algorithm))
    state, _ = engine.start()
    for time_s, skew_s in zip(times, skews, strict=True):
        state, row, ended = engine.step(state)
        if time_s is not None:
            assert (row["time_s"], row["skew_s"]) == (time_s, skew_s)
        assert row["bytes_up"] == row["bytes_down"] == 4 * 2 * MODEL
        assert (row["participants"], row["late"], row["dropped"]) == (4, 0, 0)
        (counted,) = ended
        assert counted.tasks.compute_s.tolist() == list(SECONDS)


def test_a_forecast_and_rows_know_coded_messages():
    made = scenario({"name": "choco-sgd"}, uplink=[{"name": "top-k", "k": 1000}])
    (run,) = api.prepare(api.read(made)).runs
    message = 1000 * (64 + 17) // 8  # a number and its place
    assert _RunCost(run).up == 3 * 8 * message
    engine = loop(made)
    _, row, _ = engine.step(engine.start()[0])
    assert row["bytes_up"] == row["bytes_down"] == 8 * message


def test_a_forecast_knows_messages():
    (run,) = api.prepare(api.read(scenario({"name": "diging"}))).runs
    cost = _RunCost(run)
    assert cost.up == cost.down == 3 * 4 * 2 * 2 * MODEL
    assert cost.copies(1, 0) > 3 * 4 * 2 * MODEL
    assert server_sees(run) == "nothing; neighbours get single vectors"


def test_rows_that_arrive_are_refused():
    """The matrix of a graph follows from the sizes of the nodes, which would change."""
    drift = {"name": "arriving", "at": 2}
    data = {"name": "synthetic", "features": 3, "classes": 2, "samples": 8}
    problem = {"name": "logistic-regression", "dataset": data}
    with pytest.raises(ScenarioError, match="needs clients of constant size, but drift changes"):
        loop(scenario({"name": "d-psgd"}, drift=drift, problem=problem))


def test_labels_that_change_reach_the_nodes():
    drift = {"name": "labels-swap", "at": 2, "pairs": [[0, 1]]}
    data = {"name": "synthetic", "features": 3, "classes": 2, "samples": 8}
    more = {"problem": {"name": "logistic-regression", "dataset": data}}
    models = []
    for given in (more, more | {"drift": drift}):
        engine = loop(scenario({"name": "d-psgd"}, **given))
        state, _ = engine.start()
        models.append([])
        for _ in range(2):
            state, _, _ = engine.step(state)
            models[-1].append(state.state["x"])
    np.testing.assert_array_equal(models[0][0], models[1][0])
    assert (models[0][1] != models[1][1]).any()
