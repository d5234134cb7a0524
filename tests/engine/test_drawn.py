"""Clients that are drawn more than once."""

import numpy as np
import pandas as pd
import pytest

import rayfed
from rayfed import api
from rayfed.engine.tasks import distinct
from rayfed.testing.studies import drive, stop_after


def test_who_is_drawn_twice_is_there_once_and_counts_twice():
    assert [part.tolist() for part in distinct(np.array([7, 2, 7, 5]))] == [[2, 5, 7], [1, 1, 2]]
    assert distinct(np.array([2, 5, 7]))[1].tolist() == [1, 1, 1]


TARGETS = (1.0, -2.0, 7.0)


def study(tmp_path, select="weighted", **participation):
    """Return a study of clients with F_i(x) = (x - m_i)^2 / 2, whose one step ends at m_i."""
    rows = [f"{i},1,{m}\n" * (i + 1) for i, m in enumerate(TARGETS)]
    (tmp_path / "points.csv").write_text("client,a,y\n" + "".join(rows))
    seconds = [{"ids": [i], "delay": {"name": "constant", "mean_s": 2.0 * i + 1}} for i in range(3)]
    return {
        "name": "drawn", "rounds": 8, "executor": "serial",
        "problem": {
            "name": "least-squares", "dataset": str(tmp_path / "points.csv"), "intercept": False,
        },
        "clients": {"groups": seconds},
        "participation": {"cohort": 3, "select": select, **participation},
        "algorithms": [{"name": "fedavg", "local": {"steps": 1, "batch": "full", "lr": 1.0}}],
        "checkpoint": {"every_s": 0},
    }  # fmt: skip


def test_events_say_how_often_a_client_was_drawn_and_so_counts(tmp_path):
    """The model of a round is the mean of the m_i of its draws."""
    result = rayfed.run(study(tmp_path), out=tmp_path / "out", page=False)
    events = result.events.assign(target=result.events.client.map(dict(enumerate(TARGETS))))
    assert (events.groupby("round").draws.sum() == 3).all()
    assert events.draws.max() > 1
    of_round = events.assign(all=events.draws * events.target).groupby("round")
    xs = of_round["all"].sum() / 3
    sizes = np.arange(1, 4) / 6
    losses = ((xs.to_numpy()[:, None] - TARGETS) ** 2 / 2 * sizes).sum(axis=1)
    np.testing.assert_allclose(result.rounds.loss[1:], losses, rtol=1e-12)


def test_a_round_without_any_event_has_the_columns_of_others(tmp_path):
    """Nothing is over after half a second; the run leaves three tasks, in one, two or three."""
    made = study(tmp_path, deadline_s=0.5, late="stale")
    result = rayfed.run({**made, "rounds": 1}, out=tmp_path / "out", page=False)
    assert (result.events.status == "unfinished").all()
    assert result.events.draws.sum() == 3


def test_late_work_says_how_often_its_client_was_drawn_after_a_resume_too(tmp_path, assert_same):
    made = study(tmp_path, deadline_s=2.0, late="stale")
    plan = api.prepare(api.read(made))
    drive(plan, tmp_path / "calm")
    events = pd.read_parquet(tmp_path / "calm" / plan.runs[0].folder / "events.parquet")
    assert (events[events.staleness > 0].draws > 1).any()
    assert (events[events.status == "unfinished"].draws >= 1).all()
    asked = events.groupby("version").draws.sum()
    assert (asked == 3).all()
    stop_after(plan, tmp_path / "stopped", rounds=3)
    drive(plan, tmp_path / "stopped", resume=True)
    assert_same(tmp_path / "calm", tmp_path / "stopped")


@pytest.mark.parametrize("select", ["uniform", "all"])
def test_who_is_drawn_once_has_no_such_column(tmp_path, select):
    made = study(tmp_path, select, **({"cohort": None} if select == "all" else {}))
    result = rayfed.run(made, out=tmp_path / "out", page=False)
    assert "draws" not in result.events
