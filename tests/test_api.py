"""The Python interface: what goes in, what comes back, and what happens to folders."""

import fcntl
import inspect
import json
import math
import os
import subprocess
import sys
import textwrap
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pandas as pd
import pytest
import yaml

import rayfed
from rayfed import api
from rayfed.algorithms import FedAvg
from rayfed.core.entries import sealed
from rayfed.core.errors import ScenarioError
from rayfed.datasets import Linear
from rayfed.messages import Ask, Upload
from rayfed.problems import LeastSquares
from rayfed.problems.logistic_regression import LinearModel
from rayfed.runs.backend import ProgressDisplay
from rayfed.runs.files.outcome import damaged, differences
from rayfed.runs.progress import Bars
from rayfed.study import Clients, Executor

ROUNDS = [
    "algorithm", "label", "seed", "round", "time_s", "loss", "test_loss", "accuracy", "loss_gap",
    "participants", "dropped", "late", "bytes_down", "bytes_up",
    "bytes_wasted", "local_steps",
]  # fmt: skip
EVENTS = [
    "round", "ask", "client", "start_s", "compute_s", "end_s", "status", "loss", "steps",
]  # fmt: skip
CLIENTS = [
    "client", "samples", "test_samples", "speed_s", "straggler", "group", "selected", "used",
    "loss", "accuracy",
]  # fmt: skip


@pytest.fixture
def small():
    """Return a scenario that takes no time."""
    return {
        "name": "small",
        "seeds": [0, 1],
        "rounds": 3,
        "problem": {
            "name": "least-squares",
            "dataset": {"name": "linear", "features": 2, "samples": 5},
            "test": 0.2,
        },
        "clients": {"count": 6},
        "participation": {"cohort": 2},
        "algorithms": [
            {"name": "fedavg", "local": {"steps": 2, "batch": 2}},
            {"name": "fedexp", "label": "FedExP (eps=1e-3)", "local": {"steps": 2, "batch": 2}},
        ],
        "executor": "serial",
    }


@pytest.fixture
def one_row(tmp_path):
    """Return a scenario with one client that has the row a = 1, y = 1; step 1/2, no intercept."""
    (tmp_path / "one.csv").write_text("client,a,y\n0,1,1\n")
    data = {"dataset": str(tmp_path / "one.csv"), "intercept": False}
    return {
        "rounds": 2,
        "problem": {"name": "least-squares", **data},
        "clients": {},
        "algorithms": [{"name": "fedavg", "local": {"steps": 1, "batch": "full", "lr": 0.5}}],
        "executor": "serial",
    }


@pytest.fixture
def plain(monkeypatch):
    """Leave the page out where it is not what a test is about."""
    monkeypatch.setattr(api.Result, "report", lambda result, **_: None)


@pytest.fixture
def own_path(monkeypatch):
    """Forget afterwards what a scenario's folder put on the path, and the modules found there."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    before = set(sys.modules)
    yield
    for name in [name for name in sys.modules if name.startswith("own_") and name not in before]:
        del sys.modules[name]


def losses(result):
    return {run: rows.loss.tolist() for run, rows in result.rounds.groupby(["label", "seed"])}


class TestKeywords:
    """A study may be given as its keywords."""

    KEYWORDS: ClassVar = {
        "rounds": 2,
        "problem": LeastSquares(l2=0.1),
        "data": Linear(features=2, samples=5, test=0.2),
        "clients": Clients(count=3),
        "algorithms": (FedAvg(),),
        "executor": Executor(name="serial"),
    }

    def test_they_run_as_a_study(self, tmp_path, plain, assert_same):
        rayfed.run(rayfed.Study(**self.KEYWORDS), out=tmp_path / "study", page=False)
        rayfed.run(**self.KEYWORDS, out=tmp_path / "keywords", page=False)
        assert_same(tmp_path / "study", tmp_path / "keywords")

    def test_overrides_change_them(self):
        made = api.read(None, {"problem.test": 0.5, "problem.dataset.features": 3}, **self.KEYWORDS)
        assert made.data == Linear(features=3, samples=5, test=0.5)

    @pytest.mark.parametrize("run", [rayfed.run, rayfed.sweep, rayfed.iterate])
    def test_beside_a_scenario_they_are_refused(self, run):
        with pytest.raises(ScenarioError, match=r"^rounds: is given as well as a scenario; change"):
            run("quickstart", rounds=3)
        with pytest.raises(ScenarioError, match="2 mistakes"):
            run()


class TestResult:
    @pytest.fixture
    def result(self, small, tmp_path, plain):
        return rayfed.run(small, out=tmp_path / "out")

    def test_every_run_ends(self, result):
        assert dict(result.outcome) == dict.fromkeys(
            [
                "fedavg-seed0", "FedExP-eps=1e-3-seed0", "fedavg-seed1", "FedExP-eps=1e-3-seed1",
            ],
            "finished",
        )  # fmt: skip

    def test_a_profile_is_beside_results_that_stay_the_same(
        self, result, small, tmp_path, assert_same
    ):
        assert len(result.profile) == 0
        profiled = rayfed.run(small, out=tmp_path / "profiled", profile=True)
        assert_same(result.folder, profiled.folder)
        frame = profiled.profile
        assert frame[["label", "seed"]].to_numpy().tolist() == [
            [label, seed] for label in ("fedavg", "FedExP (eps=1e-3)") for seed in (0, 1)
        ]
        steps = frame.drop(columns=["label", "seed", "setting", "round"])
        np.testing.assert_allclose(steps.sum(axis=1), frame["round"])
        assert (steps[["selection", "clock", "computing", "records"]] > 0).all(axis=None)
        assert (steps["sending"] == 0).all()
        run = json.loads((profiled.folder / "fedavg-seed0" / "run.json").read_text())
        assert "profile.json" not in run["files"]

    def test_rounds(self, result):
        frame = result.rounds
        assert set(frame.columns) == {*ROUNDS, "setting", "server_lr"}
        assert len(frame) == 4 * (3 + 1)  # row 0 is the state before the first round
        assert frame.groupby(["label", "seed"])["round"].apply(list).tolist() == [[0, 1, 2, 3]] * 4
        assert set(frame.label) == {"fedavg", "FedExP (eps=1e-3)"}
        assert set(frame.algorithm) == {"fedavg", "fedexp"}
        assert frame[ROUNDS[5]].dtype == np.float64

    def test_files_hold_the_documented_columns(self, result):
        for run in result.outcome:
            columns = pd.read_parquet(result.folder / run / "rounds.parquet").columns
            assert set(columns) == {*ROUNDS, *(["server_lr"] if "FedExP" in run else [])}
            assert columns[:6].tolist() == ROUNDS[:6]
            assert list(pd.read_parquet(result.folder / run / "events.parquet").columns) == EVENTS

    def test_events(self, result):
        frame = result.events
        assert set(frame.columns) == {*EVENTS, "label", "seed", "setting"}
        assert len(frame) == 4 * 3 * 2
        assert set(frame.status) == {"used"}
        one, two = (frame[frame.label == label] for label in ("fedavg", "FedExP (eps=1e-3)"))
        assert one.client.tolist() == two.client.tolist()  # all algorithms see the same cohorts

    def test_clients(self, result):
        frame = result.clients
        assert set(frame.columns) == {*CLIENTS, "label", "seed", "setting"}
        touched = result.events.groupby(["label", "seed"]).client.nunique()
        assert (frame.groupby(["label", "seed"]).size() == touched).all()
        assert (frame.samples == 4).all()
        assert (frame.test_samples == 1).all()

    def test_activity(self, result):
        """Constant steps of a second and no network: whoever is asked computes all the time."""
        frame = result.activity
        assert frame.columns.tolist() == [
            "label", "seed", "setting", "client", "computing", "communicating", "finished", "idle",
            "away",
        ]  # fmt: skip
        states = frame[["computing", "communicating", "finished", "idle", "away"]]
        end = result.rounds.time_s.max()
        assert np.allclose(states.sum(axis=1), end)
        touched = result.clients.set_index(["label", "seed", "client"]).selected
        computed = frame.set_index(["label", "seed", "client"]).computing
        rounds = 3
        assert np.allclose(computed, touched.reindex(computed.index) * end / rounds)
        assert "computing_share" in result.summary(by="run")

    def test_models(self, result):
        assert result.model("fedavg-seed0").shape == (3,)
        with np.load(result.folder / "fedavg-seed0" / "model.npz", allow_pickle=False) as held:
            assert "x" in held.files

    def test_run_json(self, result):
        told = json.loads((result.folder / "fedavg-seed1" / "run.json").read_text())
        assert told["status"] == "finished"
        assert told["stopped_by"] == "rounds"
        assert told["seed"] == 1
        assert told["settings"]["local"]["steps"] == 2
        assert told["settings"]["local"]["lr"] == 0.1  # resolved: a default
        assert set(told["versions"]) >= {"python", "rayfed", "numpy"}
        assert told["host"]
        assert told["started"] <= told["ended"]

    def test_the_resolved_scenario_gives_the_same_again(self, result, tmp_path):
        again = rayfed.run(result.folder / "scenario.yaml", out=tmp_path / "again")
        assert losses(again) == losses(result)


class TestPage:
    def test_report_and_summary(self, small, tmp_path):
        result = rayfed.run(small, out=tmp_path / "out")
        page = result.folder / "report.html"
        assert "small" in page.read_text("utf-8")
        assert (result.folder / "summary.csv").is_file()
        page.unlink()
        assert result.report() == page
        assert page.is_file()
        table = result.comparison()
        assert table.iloc[:, 0].tolist() == ["fedavg", "FedExP (eps=1e-3)"]
        assert result.report("test_loss", 0.5) == page
        assert pd.read_csv(result.folder / "summary.csv")["target"].tolist() == [0.5, 0.5]
        with pytest.raises(ScenarioError, match="unknown column 'lost'"):
            result.report("lost", 0.5)


class TestLoad:
    """A folder that was run once, opened again."""

    @pytest.fixture(scope="class")
    @classmethod
    def folder(cls, tmp_path_factory):
        data = {"name": "synthetic", "features": 3, "classes": 2, "samples": 20}
        scenario = {
            "name": "loaded <b>",
            "seeds": [0, 1],
            "rounds": 3,
            "problem": {"name": "softmax-regression", "test": 0.2, "dataset": data},
            "clients": {"count": 4},
            "algorithms": [{"name": "fedavg", "local": {"steps": 2, "batch": 2}},
                           {"name": "ditto", "local": {"steps": 2, "batch": 2}}],
            "executor": "serial",
        }  # fmt: skip
        return rayfed.run(scenario, out=tmp_path_factory.mktemp("runs") / "out").folder

    def test_it_holds_what_run_returned(self, small, tmp_path, plain):
        first = rayfed.run(small, out=tmp_path / "out")
        again = rayfed.load(str(tmp_path / "out"))
        assert again.outcome == first.outcome
        for frame in ("rounds", "events", "clients", "personal"):
            pd.testing.assert_frame_equal(getattr(again, frame), getattr(first, frame))

    def test_personal_models(self, folder):
        frame = rayfed.load(folder).personal
        assert set(frame.label) == {"ditto"}
        assert set(frame.seed) == {0, 1}
        assert set(frame.client) == {0, 1, 2, 3}

    def test_runs_are_in_the_order_of_the_scenario(self, folder):
        rounds = rayfed.load(folder).rounds
        order = list(dict.fromkeys(zip(rounds.label, rounds.seed, strict=True)))
        assert order == [("fedavg", 0), ("fedavg", 1), ("ditto", 0), ("ditto", 1)]

    def test_summaries(self, folder):
        result = rayfed.load(folder)
        last = result.rounds[result.rounds["round"] == 3].set_index(["label", "seed"]).loss
        runs = result.summary(by="run").set_index(["label", "seed"])
        pd.testing.assert_series_equal(runs.loss, last)
        settings = result.summary(y="accuracy", target=0.5).set_index("name")
        assert settings.loss_mean["fedavg"] == pytest.approx(last["fedavg"].mean(), rel=1e-15)
        assert set(settings.target_column) == {"accuracy"}

    def test_a_figure_that_a_notebook_shows(self, folder):
        drawn = rayfed.load(folder).figure("convergence", x="time_s", y="loss")
        assert {t.meta["name"] for t in drawn.data} == {"fedavg", "ditto"}
        assert "timeline" in rayfed.load(folder).figures

    @pytest.mark.parametrize("columns", [40, 80, 200])
    def test_the_text_fits_the_terminal(self, folder, monkeypatch, columns):
        monkeypatch.setenv("COLUMNS", str(columns))
        title, *lines = repr(rayfed.load(folder)).splitlines()
        assert title == f"loaded <b> (4 finished) in {folder}"
        assert max(map(len, lines)) <= columns
        heads, *rows = [line.rstrip("\\ ") for line in lines if line.strip("\\ ")]
        assert [row.split()[0] for row in rows[:2]] == ["fedavg", "ditto"]
        assert "final loss" in heads
        assert "personal accuracy" in "\n".join(lines)  # what matters, on narrow terminals below

    def test_html_is_escaped_and_holds_every_column(self, folder):
        text = rayfed.load(folder)._repr_html_()
        assert "loaded &lt;b&gt;" in text
        assert all(f"<th>{column}</th>" in text for column in ("algorithm", "final loss"))

    @pytest.mark.parametrize(
        ("ask", "told"),
        [
            (lambda r: r.summary(by="runs"), "unknown table 'runs'; did you mean 'run'?"),
            (lambda r: r.summary(y="los"), "unknown column 'los'; did you mean 'loss'?"),
            (lambda r: r.figure("timelime"), "unknown figure 'timelime'; did you mean 'timeline'?"),
            (lambda r: r.model("fedavg-seed9"), "unknown run 'fedavg-seed9'; known: ditto-seed0, "),
        ],
    )
    def test_a_mistake_is_one_line(self, folder, ask, told):
        with pytest.raises(ScenarioError) as error:
            ask(rayfed.load(folder))
        assert str(error.value).startswith(told)
        assert len(str(error.value).splitlines()) == 1

    def test_a_run_without_a_model(self, folder, tmp_path):
        (tmp_path / "out" / "fedavg-seed0").mkdir(parents=True)
        status = json.dumps({"status": "running", "label": "fedavg", "seed": 0})
        (tmp_path / "out" / "fedavg-seed0" / "run.json").write_text(status)
        result = rayfed.load(tmp_path / "out")
        assert dict(result.outcome) == {"fedavg-seed0": "running"}
        assert result.rounds.empty
        with pytest.raises(ScenarioError, match="is not there; the run is running"):
            result.model("fedavg-seed0")

    def test_a_folder_above_the_results_names_them(self, folder, tmp_path):
        with pytest.raises(ScenarioError) as error:
            rayfed.load(folder.parent)
        assert str(error.value) == (
            f"{folder.parent}: is no result folder; it holds no runs; did you mean '{folder}'?"
        )
        with pytest.raises(ScenarioError, match=r"is no result folder; it holds no runs$"):
            rayfed.load(tmp_path)


class TestWhatRunTakes:
    def test_the_name_of_a_scenario_that_comes_with_rayfed(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr(sys, "path", list(sys.path))
        assert api.read("quickstart", {"rounds": 7}).rounds == 7
        (tmp_path / "quickstart").mkdir()
        with pytest.raises(ScenarioError, match="quickstart: cannot be read: Is a"):
            api.read("quickstart")
        with pytest.raises(ScenarioError, match=r"^unknown scenario 'quikstart'; did you"):
            api.read("quikstart")

    def test_a_path_a_mapping_and_a_study_are_the_same(self, small, tmp_path, plain):
        (tmp_path / "named.yaml").write_text(yaml.safe_dump(small))
        results = [
            rayfed.run(given, out=tmp_path / str(number))
            for number, given in enumerate(
                [small, tmp_path / "named.yaml", str(tmp_path / "named.yaml"), api.read(small)]
            )
        ]
        assert all(losses(result) == losses(results[0]) for result in results[1:])

    def test_it_is_the_same_function_every_time(self):
        assert rayfed.run is rayfed.run is api.run
        assert callable(rayfed.resume)

    def test_overrides(self, small, tmp_path, plain):
        result = rayfed.run(
            small,
            out=tmp_path / "out",
            overrides=["rounds=1", "algorithms.*.local.steps=7", "seeds=[5]"],
        )
        assert set(result.rounds["round"]) == {0, 1}
        assert set(result.events.steps) == {7}
        assert set(result.rounds.seed) == {5}
        assert small["rounds"] == 3  # the mapping is not changed
        resolved = yaml.safe_load((result.folder / "scenario.yaml").read_text())
        assert (resolved["rounds"], resolved["seeds"]) == (1, [5])

    def test_a_grid(self, small, tmp_path, plain):
        small |= {"seeds": [3], "grid": {"participation.cohort": [1, 4]}}
        result = rayfed.run(small, out=tmp_path / "out")
        assert sorted(result.outcome) == [
            "FedExP-eps=1e-3-cohort=1-seed3",
            "FedExP-eps=1e-3-cohort=4-seed3",
            "fedavg-cohort=1-seed3",
            "fedavg-cohort=4-seed3",
        ]
        last = result.rounds[result.rounds["round"] == 3]
        found = dict(zip(last.setting, last.participants, strict=True))
        assert found == {"cohort=1": 1, "cohort=4": 4}
        assert set(result.events.setting) == set(result.clients.setting) == set(found)

    def test_without_a_folder_it_is_results_and_the_name(self, small, tmp_path, monkeypatch, plain):
        monkeypatch.chdir(tmp_path)
        result = rayfed.run(small | {"name": "../my study/1"}, overrides=["seeds=[0]"])
        assert result.folder.resolve().parent == tmp_path / "results"
        assert (result.folder / "fedavg-seed0" / "run.json").is_file()
        assert not (tmp_path.parent / "my study").exists()

    def test_a_data_file_is_relative_to_the_scenario(self, one_row, tmp_path, monkeypatch, plain):
        (tmp_path / "elsewhere").mkdir()
        monkeypatch.chdir(tmp_path / "elsewhere")
        one_row["problem"]["dataset"] = "one.csv"
        (tmp_path / "s.yaml").write_text(yaml.safe_dump(one_row))
        result = rayfed.run(tmp_path / "s.yaml", out="out")
        assert result.rounds.loss.tolist() == [0.5, 0.125, 0.03125]
        assert result.folder.resolve() == tmp_path / "elsewhere" / "out"


@dataclass(frozen=True, kw_only=True)
class Doubled(FedAvg):
    """FedAvg whose server takes every step twice."""

    name = "doubled"

    def round(self, state):
        """Double the step."""
        reply = yield Ask("train", send={"x": state["x"]}, up={"delta": state["x"].size})
        return {"x": state["x"] - 2 * reply.mean["delta"]}, {}


@dataclass(frozen=True, kw_only=True)
class LogCosh(LinearModel):
    """A robust regression: log cosh of the residual."""

    name = "log-cosh"
    task = "regression"

    scale: float = 1.0

    def losses(self, z, y):
        """Return loss and slope."""
        r = self.scale * (z - y)
        return np.log(np.cosh(r)), self.scale * np.tanh(r)

    def curvatures(self, z, y):
        """Return the second derivative."""
        return self.scale**2 / np.cosh(self.scale * (z - y)) ** 2


@dataclass(frozen=True, kw_only=True)
class Broken(FedAvg):
    """A client function that cannot do client 4."""

    name = "broken"

    def train(self, clients, x):
        """Fail at one client."""
        if 4 in clients.ids:
            raise ValueError("no such thing")
        return Upload({"delta": np.zeros((len(clients.ids), x.size))})


LOCAL = {"steps": 1, "batch": "full", "lr": 0.5}
BESIDE = """
    from dataclasses import dataclass
    from rayfed.algorithms.fedavg import FedAvg
    from own_step import FACTOR

    @dataclass(frozen=True, kw_only=True)
    class Mine(FedAvg):
        name = "mine"
        factor: float = FACTOR
        def round(self, state):
            new, told = yield from super().round(state)
            return {"x": state["x"] + self.factor * (new["x"] - state["x"])}, told
"""


class TestTheUsersOwn:
    """x moves half the way to 1: from 0 by FedAvg to 1/2, doubled to 1, where F = 0."""

    @pytest.mark.parametrize(
        "given",
        [
            [{"name": Doubled, "local": LOCAL}],
            [api.read({"rounds": 1, "problem": "least-squares", "clients": {},
                       "algorithms": [{"name": Doubled, "local": LOCAL}]}).algorithms[0]],
        ],
        ids=["class", "value"],
    )  # fmt: skip
    def test_algorithm(self, given, one_row, tmp_path, plain):
        result = rayfed.run(one_row | {"algorithms": given}, out=tmp_path / "out")
        assert result.rounds.loss.tolist() == [0.5, 0.0, 0.0]
        assert set(result.rounds.label) == {"doubled"}

    def test_problem(self, one_row, tmp_path, plain):
        """The loss at 0 is log cosh s; its slope there is -s tanh s."""
        one_row["problem"] |= {"name": LogCosh, "scale": 2.0}
        result = rayfed.run(one_row | {"rounds": 1}, out=tmp_path / "out")
        x = 0.5 * 2 * math.tanh(2)
        expected = [math.log(math.cosh(2)), math.log(math.cosh(2 * (x - 1)))]
        np.testing.assert_allclose(result.rounds.loss, expected, rtol=1e-14)

    def test_a_module_beside_the_scenario(self, one_row, tmp_path, own_path, monkeypatch, plain):
        """The module imports a neighbour; a setting of its own is read and resumed."""
        (tmp_path / "beside").mkdir()
        (tmp_path / "elsewhere").mkdir()
        monkeypatch.chdir(tmp_path / "elsewhere")
        (tmp_path / "beside" / "own_method.py").write_text(textwrap.dedent(BESIDE))
        (tmp_path / "beside" / "own_step.py").write_text("FACTOR = 1.0\n")
        given = [{"name": "own_method:Mine", "factor": 2.0, "local": LOCAL}]
        (tmp_path / "beside" / "s.yaml").write_text(yaml.safe_dump(one_row | {"algorithms": given}))
        result = rayfed.run(tmp_path / "beside" / "s.yaml", out=tmp_path / "out")
        assert result.rounds.loss.tolist() == [0.5, 0.0, 0.0]
        assert rayfed.resume(tmp_path / "out").rounds.loss.tolist() == [0.5, 0.0, 0.0]

    def test_a_setting_of_its_own_is_checked(self, one_row):
        one_row["problem"] |= {"name": LogCosh, "scale": "wide"}
        with pytest.raises(ScenarioError, match=r"problem\.scale: found 'wide'; it should be a n"):
            rayfed.run(one_row)

    def test_a_client_half_that_fails_ends_its_run_alone(self, small, tmp_path, plain):
        small |= {"seeds": [0], "participation": {}}
        small["algorithms"] = [{"name": Broken}, {"name": "fedavg"}]
        result = rayfed.run(small, out=tmp_path / "out")
        assert dict(result.outcome) == {"broken-seed0": "failed", "fedavg-seed0": "finished"}
        told = json.loads((result.folder / "broken-seed0" / "run.json").read_text())
        line = inspect.getsourcelines(Broken.train)[1] + 3
        assert told["reason"] == (
            "round 1, time 0 s, client 4, 'train' failed: ValueError: no such thing "
            f"(test_api.py:{line})"
        )
        assert "Traceback" in (result.folder / "broken-seed0" / "log.txt").read_text()
        assert result.rounds[result.rounds.label == "broken"]["round"].tolist() == [0]
        # So that its loss is noticed, as of a run that finished.
        (part,) = (name for name in told["files"] if name.startswith("rounds.parquet/"))
        assert damaged(result.folder, result.outcome) == []
        (result.folder / "broken-seed0" / part).unlink()
        (line,) = damaged(result.folder, result.outcome)
        assert line.endswith("part-000000000000.parquet is missing")


class TestFolders:
    def test_earlier_results_are_moved_aside(self, small, tmp_path, plain):
        small |= {"seeds": [0]}
        for rounds in (1, 2, 3):
            rayfed.run(small | {"rounds": rounds}, out=tmp_path / "out")
        for folder, rounds in (("out.1", 1), ("out.2", 2), ("out", 3)):
            rows = pd.read_parquet(tmp_path / folder / "fedavg-seed0" / "rounds.parquet")
            assert rows["round"].max() == rounds

    def test_an_empty_folder_is_used(self, small, tmp_path, plain):
        (tmp_path / "out").mkdir()
        rayfed.run(small, out=tmp_path / "out", overrides=["rounds=1"])
        assert [path.name for path in tmp_path.iterdir()] == ["out"]

    def test_a_folder_of_something_else_is_left_alone(self, small, tmp_path):
        (tmp_path / "scenario.yaml").write_text("mine")  # a user's scenario may have that name
        (tmp_path / "data.csv").write_text("mine")
        with pytest.raises(ScenarioError, match="holds files that are no results; choose another"):
            rayfed.run(small, out=tmp_path)
        assert (tmp_path / "data.csv").read_text() == "mine"

    def test_a_folder_in_use_is_neither_taken_nor_resumed(self, small, tmp_path, plain):
        rayfed.run(small, out=tmp_path / "out")
        with (tmp_path / "out" / ".lock").open() as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # as another process does
            with pytest.raises(ScenarioError, match="another process is running this study; wait"):
                rayfed.run(small, out=tmp_path / "out")
            with pytest.raises(ScenarioError, match="another process is running this study; wait"):
                rayfed.resume(tmp_path / "out")
        assert not (tmp_path / "out.1").exists()
        assert (tmp_path / "out" / "fedavg-seed0" / "model.npz").is_file()

    def test_of_two_that_begin_at_the_same_moment_the_last_one_runs(self, small, tmp_path):
        one, other = (api.prepare(api.read(small, [f"rounds={n}"])) for n in (1, 2))
        for plan in (one, other):  # before either locks the folder
            (tmp_path / "scenario.yaml").write_text(plan.study.to_yaml())
        with pytest.raises(ScenarioError, match="another study was begun here at the same moment"):
            api.execute(one, tmp_path, watch=ProgressDisplay(), page=False)
        assert [*tmp_path.glob("*/run.json")] == []
        api.execute(other, tmp_path, watch=ProgressDisplay(), page=False)
        assert rayfed.load(tmp_path).rounds["round"].max() == 2


class TestResume:
    @staticmethod
    def stamps(folder):
        return {path: path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()}

    def test_what_is_finished_is_left_as_it_is(self, small, tmp_path, plain):
        first = rayfed.run(small, out=tmp_path / "out")
        before = self.stamps(first.folder)
        again = rayfed.resume(tmp_path / "out")
        assert self.stamps(first.folder) == before
        assert again.outcome == first.outcome
        assert losses(again) == losses(first)

    def test_the_cluster_of_before_may_be_another_or_none(self, small, tmp_path, plain):
        folder = tmp_path / "out"
        folder.mkdir()
        cluster = small | {"executor": {"name": "ray", "address": "head:6379"}}
        (folder / "scenario.yaml").write_text(yaml.safe_dump(cluster))
        found = [
            api.recorded(folder, address).study.executor.address
            for address in (None, "other:6379", "local")
        ]
        assert found == ["head:6379", "other:6379", None]

    @pytest.mark.parametrize("executor", ["auto", "serial", {"name": "workers"}, "ray"])
    def test_a_cluster_hosts_the_clients_of_every_scenario(self, small, executor):
        found = api.read(small | {"executor": executor}, address="head:6379").executor
        assert (found.name, found.address) == ("ray", "head:6379")

    def test_a_run_that_never_began_is_run(self, small, tmp_path, plain):
        first = rayfed.run(small, out=tmp_path / "out")
        expected, gone = losses(first), first.folder / "fedavg-seed1"
        for path in sorted(gone.rglob("*"), reverse=True):
            path.rmdir() if path.is_dir() else path.unlink()
        gone.rmdir()
        assert losses(rayfed.resume(tmp_path / "out")) == expected

    def test_another_version_is_told(self, small, tmp_path, plain):
        result = rayfed.run(small, out=tmp_path / "out", overrides=["seeds=[0]"])
        runs = list(result.outcome)
        assert differences(result.folder, runs) == []
        path = result.folder / "fedavg-seed0" / "run.json"
        told = json.loads(path.read_text())
        told["versions"]["numpy"], told["machine"] = "1.0", "abacus"
        path.write_text(json.dumps(sealed(told)))
        lines = differences(result.folder, runs)
        assert any("numpy 1.0, now" in line for line in lines)
        assert any("machine abacus, now" in line for line in lines)


def test_serial_never_imports_ray(one_row, tmp_path):
    """And the import of the package alone is next to nothing: a client actor does it."""
    (tmp_path / "s.yaml").write_text(yaml.safe_dump(one_row))
    script = (
        "import sys, rayfed\n"
        "light = not {'pandas', 'pydantic', 'scipy', 'plotly'} & set(sys.modules)\n"
        f"result = rayfed.run({str(tmp_path / 's.yaml')!r}, out={str(tmp_path / 'out')!r})\n"
        "rayfed.run(result.folder / 'scenario.yaml', out='again')\n"
        "print(light, 'ray' in sys.modules, result.outcome)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=tmp_path,
        env={**os.environ}, timeout=120,
    )  # fmt: skip
    assert done.stdout == "True False {'fedavg-seed0': 'finished'}\n"
    assert (tmp_path / "again" / "report.html").is_file()


class Pressed(ProgressDisplay):
    """Presses Ctrl-C after the first round of a run."""

    def runs(self, progress, outcome):
        if any(far.round == 1 for far in progress.values()):
            raise KeyboardInterrupt


def test_after_a_ctrl_c_it_is_said_how_to_go_on(small, tmp_path, plain):
    out = tmp_path / "out"
    with pytest.raises(KeyboardInterrupt) as stopped:
        rayfed.run(small, out=out, watch=Pressed())
    (line,) = stopped.value.__notes__
    assert line == (f"interrupted; the records are kept, resume with: rayfed.resume({str(out)!r})")
    assert set(eval(line.partition("with: ")[2]).outcome.values()) == {"finished"}


class TestDisplay:
    """Who calls from Python sees progress where somebody looks."""

    @pytest.fixture
    def looked_at(self, monkeypatch):
        monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)

    def test_bars_in_a_terminal(self, looked_at):
        assert isinstance(api._display(True, 3), Bars)

    def test_nothing_where_nobody_looks(self, monkeypatch):
        monkeypatch.setattr(sys.stderr, "isatty", lambda: False, raising=False)
        assert type(api._display(True, 3)) is ProgressDisplay

    @pytest.mark.parametrize(("watch", "debug"), [(False, False), (True, True), (False, True)])
    def test_nothing_if_unwanted_or_in_the_way_of_a_debugger(self, looked_at, watch, debug):
        assert type(api._display(watch, 3, debug)) is ProgressDisplay

    def test_one_of_the_users_own(self, looked_at):
        own = Pressed()
        assert api._display(own, 3) is api._display(own, 3, debug=True) is own


@dataclass(frozen=True, kw_only=True)
class Breaking(FedAvg):
    """Raises in its first round."""

    name = "breaking"

    def round(self, state):
        raise ArithmeticError("no luck")
        yield


def test_from_python_a_run_that_failed_is_a_warning(small, tmp_path):
    scenario = small | {"algorithms": ["fedavg", Breaking()], "seeds": [0, 1]}
    with pytest.warns(
        RuntimeWarning, match="2 of 4 runs failed, the first breaking-seed0: "
    ) as told:
        result = rayfed.run(scenario, out=tmp_path / "out", page=False)
    assert told[0].filename == __file__
    assert "ArithmeticError: no luck" in str(told[0].message)
    shown = [line for line in repr(result).splitlines() if "failed: " in line]
    assert len(shown) == 1
    assert shown[0].startswith("breaking-seed0, breaking-seed1 failed: ")
    with pytest.raises(ScenarioError, match=r"the run is failed .*no luck"):
        result.model("breaking-seed0")


def test_a_run_may_be_named_by_its_label_if_there_is_one_seed(small, tmp_path):
    one = rayfed.run(small | {"seeds": [3]}, out=tmp_path / "one", page=False)
    np.testing.assert_array_equal(one.model("fedavg"), one.model("fedavg-seed3"))
    two = rayfed.run(small, out=tmp_path / "two", page=False)
    with pytest.raises(ScenarioError, match="unknown run 'fedavg'; "):
        two.model("fedavg")


def test_a_model_that_has_no_name_is_there_in_this_process(tmp_path):
    from torch import nn

    def network(inputs, outputs):
        return nn.Linear(*inputs, outputs)

    scenario = {
        "rounds": 1, "clients": {"count": 2}, "algorithms": ["fedavg"], "executor": "serial",
        "problem": {
            "name": "network", "model": network,
            "dataset": {"name": "synthetic", "features": 3, "samples": 5},
        },
    }  # fmt: skip
    result = rayfed.run(scenario, out=tmp_path / "out", page=False)
    assert isinstance(result.model(), nn.Linear)


@pytest.mark.ray
def test_ray_in_a_notebook_without_widgets_warns_of_no_bars():
    code = """
    import sys
    from unittest.mock import MagicMock
    sys.modules |= {name: MagicMock() for name in ("ipykernel.zmqshell", "IPython")}
    sys.modules["ipywidgets"] = None
    from rayfed.runs.ray import imported
    assert imported(None).RayStudy
    assert "tqdm.auto" in sys.modules
    """
    ended = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=True
    )
    assert ended.stderr == ""
