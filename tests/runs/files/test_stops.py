"""A study that runs elsewhere is asked to stop, and goes on to the same bytes."""

import json
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

import rayfed
from rayfed.core.entries import sealed
from rayfed.core.errors import ScenarioError
from rayfed.runs.files import stops
from rayfed.runs.files.folder import locked
from rayfed.runs.files.outcome import outcomes
from rayfed.testing.studies import mixed

pytestmark = pytest.mark.guard


@pytest.fixture
def slow(monkeypatch):
    """Let runs look before every round whether they are asked to stop."""
    monkeypatch.setattr("rayfed.runs.driver._LOOK_S", 0.0)


def stopping_after(monkeypatch, round_number, what):
    """Do something after a round, as another process would."""
    from rayfed.runs.driver import Driver

    before = Driver._update_progress

    def updates(self, now):
        before(self, now)
        if now.state.round == round_number:
            what(self)

    monkeypatch.setattr(Driver, "_update_progress", updates)


def elsewhere(what, *arguments):
    """Return what is returned in another thread, or raise what is raised there."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(what, *arguments).result()


def asked_by_another(folder, runs=()):
    """Ask as a process does that does not hold the lock."""
    return elsewhere(stops.ask, folder, runs)


def test_a_run_that_is_asked_to_stop_ends_alone_and_goes_on_to_the_same_bytes(
    tmp_path, monkeypatch, slow, assert_same
):
    study = mixed(seeds=[3, 4])
    rayfed.run(study, out=tmp_path / "whole", page=False)
    out = tmp_path / "stopped"
    with monkeypatch.context() as patch:
        stopping_after(patch, 5, lambda driver: asked_by_another(out, ["fedavg-seed3"]))
        result = rayfed.run(study, out=out, page=False)
    assert result.outcome == {"fedavg-seed3": "running", "fedavg-seed4": "finished"}
    assert rayfed.load(out).rounds.groupby("seed")["round"].max().to_dict() == {3: 5, 4: 12}
    assert "stopped after round 5" in (out / "fedavg-seed3" / "log.txt").read_text()
    assert set(rayfed.resume(out, page=False).outcome.values()) == {"finished"}
    assert_same(tmp_path / "whole", out)


def test_where_the_study_is_asked_no_other_run_begins(tmp_path, monkeypatch, slow):
    with monkeypatch.context() as patch:
        stopping_after(patch, 5, lambda driver: asked_by_another(tmp_path / "out"))
        result = rayfed.run(mixed(seeds=[3, 4]), out=tmp_path / "out", page=False)
    assert set(result.outcome.values()) == {"running"}
    rounds = result.rounds.groupby("seed")["round"].max()
    assert rounds.to_dict() == {3: 5, 4: 0}
    (line,) = (tmp_path / "out" / stops.HISTORY).read_text().splitlines()
    noted = json.loads(line)
    assert (noted["what"], noted["runs"]) == ("stop", ["fedavg-seed3"])
    assert noted["time"].startswith(time.strftime("%Y-"))


def test_what_cannot_be_stopped_is_said(tmp_path):
    out = tmp_path / "out"
    rayfed.run(mixed(), out=out, page=False)
    with pytest.raises(ScenarioError, match="nobody runs this study; there is nothing to stop"):
        stops.ask(out)
    assert not (out / stops.HISTORY).exists()

    def asks(runs, text):
        with pytest.raises(ScenarioError, match=text):
            stops.ask(out, runs)

    with locked(out):
        for runs, text in (
            (["fedavg-seed9"], "unknown run"),
            (["fedavg-seed3"], "it has finished"),
        ):
            elsewhere(asks, runs, text)
    assert outcomes(out) == {"fedavg-seed3": "finished"}
    assert not list(out.glob("**/.stop"))


def test_a_sweep_is_not_stopped_by_whoever_asks(tmp_path):
    rayfed.run(mixed(), out=tmp_path / "out", page=False)
    path = tmp_path / "out" / "fedavg-seed3" / "run.json"
    path.write_text(json.dumps(sealed(json.loads(path.read_text()) | {"trial": {"number": 1}})))

    def asks():
        with pytest.raises(ScenarioError, match="is a sweep; end it by Ctrl-C where it runs"):
            stops.ask(tmp_path / "out")

    with locked(tmp_path / "out"):
        elsewhere(asks)
    assert not list((tmp_path / "out").glob("**/.stop"))
