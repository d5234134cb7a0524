"""A study that is given more rounds, looser rules or more seeds becomes what it would have been."""

import json
import shutil
import warnings
from contextlib import contextmanager

import numpy as np
import pytest
import yaml

import rayfed
from rayfed.core.errors import ScenarioError
from rayfed.runs.files.records import Records
from rayfed.testing.studies import mixed

pytestmark = pytest.mark.guard


class Crash(BaseException):
    """The process ends here."""


@pytest.fixture
def crash(monkeypatch):
    """Let the process end at the checkpoint after round 17."""

    @contextmanager
    def crashing():
        save = Records.save

        def dies(self, moment, changed):
            save(self, moment, changed)
            if moment.round >= 17:
                raise Crash

        with monkeypatch.context() as patch, pytest.raises(Crash):  # noqa: PT012
            patch.setattr(Records, "save", dies)
            yield

    return crashing


SGD = {"steps": 3, "batch": 4, "lr": 0.1}
CYCLIC = {"name": "cyclic", "groups": 3, "period_s": 20}


def ran(folder, **changes):
    return rayfed.run(scenario(**changes), out=folder, page=False)


def scenario(**changes):
    # seldom checkpoints: a run goes on from its end, as a fast study does
    return mixed(**{"checkpoint": {"every_s": 3600}, "evaluate": {"every": 7}, **changes})


def extended(folder, changes):
    """Edit the scenario of a result folder, as a user does, and resume."""
    path = folder / "scenario.yaml"
    held = yaml.safe_load(path.read_text())
    for key, value in changes.items():
        held[key] = {**held[key], **value} if isinstance(value, dict) else value
    path.write_text(yaml.safe_dump(held))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return rayfed.resume(folder, page=False)


def arrivals(name, **settings):
    """Return changes of `mixed` for an algorithm without rounds."""
    part = {"cohort": None, "over_select": 1.0, "timeout_s": 30, "select": "uniform"}
    clients = {**mixed()["clients"], "availability": CYCLIC}
    algorithm = {"name": name, "local": SGD, "concurrency": 5, **settings}
    return {"algorithms": [algorithm], "participation": part, "clients": clients}


STUDIES = {
    "fedavg": {"algorithms": [{"name": "fedavg", "local": SGD}]},
    "scaffold": {"algorithms": [{"name": "scaffold", "local": SGD}]},
    "mean of two iterates": {"algorithms": [{"name": "fedexp", "local": SGD}]},
    "own models": {"algorithms": [{"name": "ditto", "lam": 0.1, "local": SGD}]},
    "fedbuff": arrivals("fedbuff", buffer=3),
    "fedasync": arrivals("fedasync"),
    "late replies": {
        "participation": {"cohort": 4, "deadline_s": 2.0, "late": "stale"},
    },
    "by the clock": {"evaluate": {"every_s": 90.0}},
    "a rule for changes": {"stop": {"loss_change": 1e-12, "model_change": 1e-12}},
}


@pytest.mark.parametrize("name", STUDIES)
def test_more_rounds_of_a_finished_study(tmp_path, assert_same, name):
    """Round 10 is evaluated as the last of the first study, and by no cadence in the second."""
    ran(tmp_path / "short", rounds=10, **STUDIES[name])
    ran(tmp_path / "long", rounds=20, **STUDIES[name])
    with pytest.raises(AssertionError):
        assert_same(tmp_path / "short", tmp_path / "long")
    result = extended(tmp_path / "short", {"rounds": 20})
    assert set(result.outcome.values()) == {"finished"}
    assert_same(tmp_path / "short", tmp_path / "long")


@pytest.mark.parametrize("name", ["fedavg", "own models", "fedbuff"])
def test_a_study_that_is_extended_twice_and_killed_in_between(tmp_path, assert_same, name, crash):
    ran(tmp_path / "short", rounds=10, **STUDIES[name])
    ran(tmp_path / "long", rounds=20, **STUDIES[name])
    extended(tmp_path / "short", {"rounds": 15})
    with crash():
        extended(tmp_path / "short", {"rounds": 20})
    extended(tmp_path / "short", {})
    assert_same(tmp_path / "short", tmp_path / "long")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"time_s": 150.0}, {"time_s": 300.0}),
        ({"client_updates": 50}, {"client_updates": 99}),
        ({"loss": 1.0}, {"loss": 0.9}),
        ({"loss": 1.0}, {"loss": None, "time_s": 400.0}),
        ({"model_change": 0.1}, {"model_change": 0.05}),
        ({"metrics": {"objective_gradient_norm": 1.0}},
         {"metrics": {"objective_gradient_norm": 0.8}}),
    ],
)  # fmt: skip
@pytest.mark.parametrize("name", ["fedavg", pytest.param("fedbuff", marks=pytest.mark.slow)])
def test_a_looser_rule_of_a_finished_study(tmp_path, assert_same, name, before, after):
    study = {"rounds": 60, **STUDIES[name]}
    if "metrics" in before:
        study["evaluate"] = {"every": 7, "measures": ["gradient"]}
    short = ran(tmp_path / "short", stop=before, **study)
    ran(tmp_path / "long", stop={**before, **after}, **study)
    assert short.rounds["round"].max() < 60
    extended(tmp_path / "short", {"stop": after})
    assert_same(tmp_path / "short", tmp_path / "long")


def test_more_seeds_are_added(tmp_path, assert_same):
    ran(tmp_path / "short", seeds=[3])
    ran(tmp_path / "long", seeds=[3, 4])
    kept = (tmp_path / "short" / "fedavg-seed3" / "run.json").read_bytes()
    extended(tmp_path / "short", {"seeds": [3, 4]})
    assert_same(tmp_path / "short", tmp_path / "long")
    assert (tmp_path / "short" / "fedavg-seed3" / "run.json").read_bytes() == kept


def test_the_row_of_an_end_that_failed_is_recorded_as_it_was_evaluated(tmp_path):
    """Round 1 is evaluated as the last alone; l2 ||x||^2 overflows, the model does not."""
    wild = {"name": "gradient-descent", "lr": 1e200}
    with pytest.warns(RuntimeWarning, match="round 1: the loss is not finite"):
        result = ran(tmp_path / "wild", rounds=1, algorithms=[wild])
    assert result.rounds["loss"].tolist()[1] == float("inf")


def test_an_extension_that_fails_keeps_nothing_of_the_earlier_end(tmp_path):
    """As if it were asked for all rounds at once: no model, no clients, nothing away."""
    wild = {"name": "gradient-descent", "lr": 1e20}
    folder = tmp_path / "study"
    ran(folder, rounds=2, algorithms=[wild])
    run = folder / "gradient-descent-seed3"
    assert (run / "model.npz").is_file()
    rayfed.extend(folder, rounds=40)
    with np.errstate(all="ignore"), pytest.warns(RuntimeWarning, match="1 of 1 run failed"):
        rayfed.resume(folder, page=False)
    with np.errstate(all="ignore"), pytest.warns(RuntimeWarning, match="1 of 1 run failed"):
        ran(tmp_path / "once", rounds=40, algorithms=[wild])
    left = {path.name for path in (tmp_path / "once" / run.name).iterdir()}
    assert {path.name for path in run.iterdir()} == left
    assert not left & {"model.npz", "clients.parquet", "away.parquet", "fit.npz"}
    files = json.loads((run / "run.json").read_text())["files"]
    assert not {"model.npz", "clients.parquet", "away.parquet"} & files.keys()


def test_fewer_rounds_than_it_has(tmp_path):
    ran(tmp_path / "study", rounds=20)
    before = (tmp_path / "study" / "fedavg-seed3" / "run.json").read_bytes()
    with pytest.raises(ScenarioError, match="found rounds: 12"):
        extended(tmp_path / "study", {"rounds": 12})
    assert (tmp_path / "study" / "fedavg-seed3" / "run.json").read_bytes() == before


def test_a_rule_that_would_have_ended_it_before(tmp_path):
    ran(tmp_path / "study", rounds=20)
    said = r"stop.loss would have ended it after round 0"
    with pytest.raises(ScenarioError, match=said):
        extended(tmp_path / "study", {"stop": {"loss": 99.0}})


def test_a_run_whose_checkpoint_was_deleted_begins_anew(tmp_path, assert_same):
    ran(tmp_path / "short", rounds=10)
    ran(tmp_path / "long", rounds=20)
    shutil.rmtree(tmp_path / "short" / "fedavg-seed3" / "checkpoint")
    extended(tmp_path / "short", {"rounds": 20})
    assert_same(tmp_path / "short", tmp_path / "long")


def test_a_folder_of_an_earlier_version_goes_on_with_a_warning(tmp_path):
    ran(tmp_path / "study", seeds=[3])
    path = tmp_path / "study" / "fedavg-seed3" / "run.json"
    held = json.loads(path.read_text())
    del held["identity"], held["digest"]
    held["status"] = "running"
    path.write_text(json.dumps(held))
    with pytest.warns(RuntimeWarning, match="noted no digests"):
        result = rayfed.resume(tmp_path / "study", page=False)
    assert result.outcome == {"fedavg-seed3": "finished"}


def test_noise_that_was_solved_for_its_rounds_takes_no_more(tmp_path):
    pytest.importorskip("dp_accounting", reason="dp-accounting is not installed")
    study = {
        "clients": {"count": 13}, "participation": {"cohort": 4, "select": "poisson"},
        "uplink": [{"name": "clip", "norm": 1.0}],
        "privacy": {"epsilon": 8.0, "delta": 1e-3, "accountant": "rdp"},
        "algorithms": [{"name": "fedavg", "weights": "uniform", "local": SGD}],
    }  # fmt: skip
    ran(tmp_path / "out", rounds=4, **study)
    with pytest.raises(ScenarioError, match="noise was solved for the rounds that it had"):
        extended(tmp_path / "out", {"rounds": 8})
