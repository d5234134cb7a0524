"""The walking server: who takes part, what a move costs, and what it refuses."""

import re

import numpy as np
import pandas as pd
import pytest

import rayfed
from rayfed import api
from rayfed.core.errors import ScenarioError
from rayfed.runs.files.outcome import reason
from rayfed.topology import Graphs, Metropolis


@pytest.fixture
def study(tmp_path):
    """Seven clients of one row each on a ring; a local step takes a second."""
    rows = pd.DataFrame({"client": range(7), "a": 1.0, "y": np.arange(7.0)})
    rows.to_csv(tmp_path / "rows.csv", index=False)

    def make(select=None, **keys):
        return {
            "rounds": 40,
            "problem": {
                "name": "least-squares", "intercept": False, "dataset": str(tmp_path / "rows.csv"),
                "test": 0,
            },
            "topology": "ring",
            "clients": {"delay": {"name": "constant", "mean_s": 1.0}},
            "participation": {"select": {"name": "walk", **(select or {})}},
            "algorithms": [{"name": "fedavg", "local": {"steps": 1, "batch": "full", "lr": 0.1}}],
            "executor": "serial",
        } | keys  # fmt: skip

    return make


def walked(scenario, tmp_path):
    result = rayfed.run(scenario, out=tmp_path / f"out{len(list(tmp_path.iterdir()))}", page=False)
    return result.rounds[result.rounds["round"] > 0], result.events


def test_the_visited_client_and_its_neighbours_take_part(study, tmp_path):
    rounds, events = walked(study({"start": 3}), tmp_path)
    places = rounds.position.astype(int).tolist()
    assert places[0] == 3
    assert set(np.diff(places) % 7) <= {0, 1, 6}  # it stays, or goes one step around
    assert len(set(places)) > 3
    for number, place in enumerate(places, 1):
        asked = events[events["round"] == number].client
        assert asked.tolist() == sorted({(place - 1) % 7, place, (place + 1) % 7})


def test_it_may_ask_the_visited_client_alone(study, tmp_path):
    rounds, events = walked(study({"neighbours": False}), tmp_path)
    assert events.client.tolist() == rounds.position.astype(int).tolist()


def test_a_move_takes_its_seconds_and_staying_none(study, tmp_path):
    rounds, _ = walked(study({"rule": {"name": "metropolis", "lazy": 0.5, "hop_s": 10}}), tmp_path)
    places = rounds.position.to_numpy()
    moved = np.concatenate([[False], places[1:] != places[:-1]])
    assert 5 < moved.sum() < 35
    np.testing.assert_allclose(np.diff(rounds.time_s, prepend=0.0), 1.0 + 10.0 * moved)


def test_all_walks_of_a_study_go_the_same_way(study, tmp_path):
    local = {"steps": 1, "batch": "full", "lr": 0.1}
    two = [{"name": "fedavg", "local": local}, {"name": "fedexp", "local": local}]
    rounds, _ = walked(study(algorithms=two), tmp_path)
    one, other = (rows.position.dropna().tolist() for _, rows in rounds.groupby("label"))
    assert one == other


def test_its_rule_is_settled_once_a_run(study, tmp_path, monkeypatch):
    # that takes a pass over all clients
    resolved, calls = Metropolis.resolved, []
    monkeypatch.setattr(
        Metropolis, "resolved", lambda *given: (calls.append(given), resolved(*given))[1]
    )
    counts = []
    for rounds in (2, 20):
        walked(study(rounds=rounds), tmp_path)
        counts.append(len(calls))
        calls.clear()
    assert counts[0] == counts[1] > 0


def test_it_waits_on_the_spot_until_somebody_comes(study, tmp_path):
    # everybody is there in the first half of every day: moves of five hours miss it at times
    away = {"name": "diurnal", "zones": [0.0] * 7, "from_h": 0, "to_h": 12}
    clients = {"delay": {"name": "constant", "mean_s": 1.0}, "availability": away}
    rule = {"name": "metropolis", "hop_s": 5 * 3600.0}
    rounds, events = walked(study({"rule": rule}, clients=clients, rounds=12), tmp_path)
    assert (rounds.participants == 3).all()
    assert ((events.start_s % 86400) < 12 * 3600).all()
    expected = [0.0]  # each comes a second and a move after the one before, or next morning
    for _ in range(11):
        there = expected[-1] + 1 + 5 * 3600
        expected.append(there if there % 86400 < 12 * 3600 else 86400 * (there // 86400 + 1))
    assert events.groupby("round").start_s.first().tolist() == expected


def taking_turns(ids, availability):
    """Clients that are there by rounds, and one group that is there by the clock."""
    return {
        "delay": {"name": "constant", "mean_s": 1.0},
        "availability": {"name": "cyclic", "groups": 7, "rounds": 1},
        "groups": [{"name": "clock", "ids": ids, "availability": availability}],
    }


def test_it_never_waits_for_a_client_that_it_would_not_ask(study, tmp_path):
    # client 6 comes and goes by the clock; the server is never at it in these two rounds
    clients = taking_turns([6], {"name": "cyclic", "groups": 2, "period_s": 10.0})
    select = {"neighbours": False, "start": 2}
    rounds, _ = walked(study(select, clients=clients, rounds=2), tmp_path)
    places = rounds.position.astype(int).tolist()
    there = [place == turn for turn, place in enumerate(places)]
    assert 6 not in places
    assert rounds.participants.tolist() == there
    assert rounds.time_s.iloc[-1] == sum(there)  # nobody was waited for


def test_it_waits_for_the_client_that_it_is_at(study, tmp_path):
    # client 6 is in the second of two groups: there from second 10 to 20, and so on
    clients = taking_turns([6], {"name": "cyclic", "groups": 2, "period_s": 10.0})
    _, events = walked(study({"neighbours": False, "start": 6}, clients=clients), tmp_path)
    assert events.start_s.iloc[0] == 10.0
    assert events.client.iloc[0] == 6
    of_six = events[events.client == 6]
    assert (of_six.start_s % 20 >= 10).all()


def test_a_wait_without_an_end_ends_the_run_with_a_sentence(study, tmp_path, monkeypatch):
    # who is in range changes with the clock, so that client 6 might come by; it never does
    monkeypatch.setattr("rayfed.engine.rounds.MOST_CHANGES", 50)
    monkeypatch.setattr(Graphs, "lasts", lambda *given: False)
    clients = taking_turns([6], {"name": "cyclic", "groups": 2, "period_s": 10.0})
    result = rayfed.run(
        study({"start": 2}, clients=clients, rounds=9), out=tmp_path / "out", page=False
    )
    assert set(result.outcome.values()) == {"failed"}
    (folder,) = result.outcome
    assert re.fullmatch(
        r"round \d+: after 50 changes of availability, at \d+ s, 'walk' found no available .*",
        reason(tmp_path / "out" / folder),
    )


def test_one_algorithm_may_ask_everybody_where_the_others_draw(study, tmp_path):
    local = {"steps": 1, "batch": "full", "lr": 0.1}
    algorithms = [
        {"name": "ditto", "local": local, "participation": {"select": "all"}},
        {"name": "fedavg", "local": local},
    ]
    made = study(algorithms=algorithms, participation={"cohort": 5}, topology=None)
    rounds, _ = walked(made, tmp_path)
    each = rounds.groupby("label").participants.unique()
    assert each.map(list).to_dict() == {"ditto": [7], "fedavg": [5]}


def test_one_algorithm_may_walk_where_the_others_draw(study, tmp_path):
    local = {"steps": 1, "batch": "full", "lr": 0.1}
    algorithms = [
        {
            "name": "rwsadmm",
            "local": {"steps": 1, "batch": "full"},
            "participation": {"select": "walk"},
        },
        {"name": "fedavg", "local": local},
    ]
    rounds, _ = walked(study(algorithms=algorithms, participation={"cohort": 5}), tmp_path)
    each = rounds.groupby("label")
    assert each.participants.unique().map(list).to_dict() == {"fedavg": [5], "rwsadmm": [3]}
    assert each.position.count().to_dict() == {"fedavg": 0, "rwsadmm": 40}


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        (
            {"topology": None},
            "participation.select: 'walk' needs a graph of clients, but topology",
        ),
        (
            {"topology": "star", "select": {"rule": {"name": "uniform", "periodic": "refuse"}}},
            "^participation.select.rule: 'uniform' comes back only every 2 moves and never mixes",
        ),
        (
            {"select": {"rule": {"name": "uniform", "speed_m_s": 3}}},
            "^participation.select.rule: speed_m_s: found 3, but the clients have no positions",
        ),
        ({"select": {"start": 7}}, "^participation.select.start: found 7, but clients are 0 to 6"),
        (
            {
                "participation": {},
                "algorithms": [
                    {"name": "fedavg", "participation": {"select": {"name": "walk", "start": 7}}}
                ],
            },
            "^algorithms.0.participation.select.start: found 7",
        ),
        (
            {
                "participation": {},
                "algorithms": [
                    {
                        "name": "fedavg",
                        "participation": {
                            "select": {"name": "walk", "rule": {"name": "uniform", "speed_m_s": 3}}
                        },
                    }
                ],
            },
            "^algorithms.0.participation.select.rule: speed_m_s: found 3",
        ),
        (
            {"participation": {"select": "walk", "cohort": 3}},
            "participation.cohort: cohort: 3 needs a cohort of a given size, but 'walk'",
        ),
    ],
)
def test_what_does_not_fit_is_one_clear_line(study, changes, line):
    with pytest.raises(ScenarioError, match=line):
        api.prepare(api.read(study(**changes)))


@pytest.mark.parametrize("name", ["fedavg", "rwsadmm"])
def test_links_with_a_latency_of_their_own_are_refused(study, tmp_path, name):
    """A server that walks takes the seconds of its rule; it would leave those of the links out."""
    (tmp_path / "links.csv").write_text(
        "u,v,latency_s\n" + "\n".join(f"{i},{i + 1},5" for i in range(6))
    )
    made = study(topology={"name": "trace", "path": str(tmp_path / "links.csv")})
    made["algorithms"][0]["name"] = name
    with pytest.raises(ScenarioError, match="'walk' needs links without a latency or bandwidth of"):
        api.prepare(api.read(made))
