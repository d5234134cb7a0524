"""The figure of paths over the contours of F."""

import numpy as np
import pytest

import rayfed
from rayfed.report.panels.paths import paths
from rayfed.report.read.results import Results


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    dataset = {"name": "quadratic", "clients": 4, "features": 2, "seed": 2}
    local = {"steps": 10, "batch": "full", "lr": 0.05}
    scenario = {
        "rounds": 6, "dtype": "float64", "problem": {"name": "quadratic", "dataset": dataset},
        "clients": {}, "executor": "serial", "evaluate": {"measures": ["path"]},
        "algorithms": [{"name": "fedavg", "local": local}],
    }  # fmt: skip
    folder = tmp_path_factory.mktemp("paths") / "study"
    rayfed.run(scenario, out=folder, page=False)
    return Results.read(folder)


def parts(figure, part):
    return [trace for trace in figure.data if trace.meta["part"] == part]


def test_server_and_clients_are_drawn_over_f(results):
    run = results.run("fedavg", 0)
    figure = paths(results, "fedavg", 0)
    (server,) = parts(figure, "server")
    assert list(server.x) == run.rounds["model_0"].to_list()
    assert list(server.y) == run.rounds["model_1"].to_list()
    (contour,) = parts(figure, "F")
    assert contour.customdata == pytest.approx(run.pulls.map)
    ends = parts(figure, "end")
    assert [trace.customdata[0, 0] for trace in ends] == [0, 1, 2, 3]
    assert list(ends[1].x) == run.pulls.ends[:, 1, 0].tolist()  # every round of so few
    pull = parts(figure, "pull")[0]
    assert pull.x[0] == run.pulls.starts[0, 0]
    assert pull.x[1] == run.pulls.ends[0, 0, 0]
    assert np.isnan(pull.x[2])
