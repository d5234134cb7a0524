"""A user's own data: checked once wherever it comes from, and its clients keep their names."""

import json
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pandas as pd
import pytest

import rayfed
from rayfed import api
from rayfed.core.errors import ScenarioError
from rayfed.datasets import Dataset, Linear
from rayfed.datasets.base import OnDemand, Table
from rayfed.report.read.results import Results
from tests.fakes.pages import data_of

X = np.arange(12.0).reshape(6, 2)
Y = np.array([0, 1, 0, 1, 1, 0])


@dataclass(frozen=True, kw_only=True)
class Own(Dataset):
    """Whatever a test puts in."""

    name: ClassVar[str] = "own"
    table: ClassVar[Table]

    def load(self, source, seed):
        return self.table


def prepared(dataset, problem="softmax-regression", **more):
    scenario = {
        "rounds": 1,
        "problem": {"name": problem, "dataset": dataset},
        "clients": {"count": 2},
        "algorithms": ["fedavg"],
        "executor": "serial",
    }
    return api.prepare(api.read(scenario | more))


NAN = X.copy()
NAN[4, 1] = np.nan
WRONG = {
    "a target is missing": (Table(X, Y[:-1], 2), "there are 6 rows and 5 targets, y (5,)"),
    "a number is NaN": (Table(NAN, Y, 2), "row 5, feature 2 is nan; give finite"),
    "labels from 1": (Table(X, Y + 1, 2), "labels go from 1 to 2, but there are 2 classes; number"),
    "a label below 0": (Table(X, Y - 1, 2), "labels go from -1 to 0, but there are 2 classes"),
    "a label between": (Table(X, Y / 2, 2), "labels go from 0.0 to 0.5, but there are 2 classes"),
    "one feature as a vector": (Table(X[:, 0], Y, 2), "X is (6,); give (rows, features)"),
    "no rows": (Table(X[:0], Y[:0], 2), "X is (0, 2); give (rows, features)"),
    "a client without rows": (
        Table(X, Y, 2, client=np.array([0, 2, 2, 0, 0, 0])),
        "clients go from 0 to 2, but 2 have rows",
    ),
    "a client is missing": (
        Table(X, Y, 2, client=np.zeros(5, np.int64)), "there are 5 values of 'client' for 6 rows"
    ),
    "a name too few": (
        Table(X, Y, 2, client=np.array([0, 1] * 3), client_names=("a",)),
        "there are 1 names of 2 clients",
    ),
    "other features in the test rows": (
        Table(X, Y, 2, test=Table(X[:, :1], Y, 2)), "test rows have 1 features, others 2"
    ),
    "NaN in the test rows": (
        Table(X, Y, 2, test=Table(NAN, Y, 2)), "row 5, feature 2 of the test rows is nan"
    ),
}  # fmt: skip


@pytest.mark.parametrize("mistake", WRONG)
def test_a_table_of_ones_own_class_is_refused_before_anything_starts(monkeypatch, mistake):
    table, told = WRONG[mistake]
    monkeypatch.setattr(Own, "table", table, raising=False)
    with pytest.raises(ScenarioError) as error:
        prepared(Own())
    assert str(error.value).startswith(f"problem.dataset (own): {told}")


def test_targets_that_are_not_finite_are_refused(monkeypatch):
    y = np.array([0.0, 1, 2, 3, 4, np.inf])
    monkeypatch.setattr(Own, "table", Table(X, y), raising=False)
    with pytest.raises(ScenarioError, match="the target of row 6 is inf"):
        prepared(Own(), "least-squares")


def test_rows_made_on_demand_are_looked_at_too():
    @dataclass(frozen=True, kw_only=True)
    class Broken(Linear):
        name: ClassVar[str] = "broken"

        def shards(self, *given, **named):
            shards = super().shards(*given, **named)

            class Last(type(shards)):
                def rows(self, ids, width, part="train"):
                    made, y = super().rows(ids, width, part)
                    made[ids == 1] = np.inf
                    return made, y

            object.__setattr__(shards, "__class__", Last)
            return shards

    assert issubclass(Broken, OnDemand)
    with pytest.raises(ScenarioError, match="row 1, feature 1 of client 1 is inf"):
        prepared(Broken(features=2, samples=3), "least-squares")


def test_labels_from_1_in_arrays_are_refused():
    with pytest.raises(ScenarioError, match="labels 1 to 2 in y; number them from 0"):
        prepared({"name": "arrays", "data": {"X": X, "y": Y + 1}})


NAMES = ["north", "hospital-03", "east"]
FILE = pd.DataFrame(
    {"client": np.repeat(NAMES, [2, 3, 4]), "a": np.arange(9.0), "y": np.arange(9.0) % 4}
)


@pytest.fixture
def named(tmp_path):
    """Return a scenario whose clients have names; sorted they are east, hospital-03, north."""
    FILE.to_csv(tmp_path / "own.csv", index=False)
    return {
        "name": "named",
        "rounds": 2,
        "problem": {"name": "least-squares", "dataset": str(tmp_path / "own.csv")},
        "clients": {
            "groups": [
                {"name": "slow", "ids": ["north"], "delay": {"name": "constant", "mean_s": 5}}
            ]
        },
        "algorithms": [
            {"name": "fedavg", "local": {"steps": 1, "lr": 0.001}},
            {"name": "fedhybrid", "newton": ["hospital-03", 2]},
        ],
        "executor": "serial",
    }


def test_names_of_clients_are_kept_and_may_be_used_where_ids_can(named, tmp_path):
    result = rayfed.run(named, out=tmp_path / "out")
    assert set(result.outcome.values()) == {"finished"}
    clients = pd.read_parquet(tmp_path / "out/fedavg-seed0/clients.parquet").set_index("client")
    assert clients["name"].tolist() == ["east", "hospital-03", "north"]
    assert clients["samples"].tolist() == [4, 3, 2]
    assert clients["group"].tolist() == [0, 0, 1]
    assert clients["speed_s"].tolist() == [1, 1, 5]
    by_id = named | {"algorithms": [{"name": "fedhybrid", "newton": [1, 2]}]}
    by_id["clients"] = {"groups": [named["clients"]["groups"][0] | {"ids": [2]}]}
    again = rayfed.run(by_id, out=tmp_path / "again", page=False)
    losses = result.rounds.query("label == 'fedhybrid'").loss.tolist()
    assert again.rounds.loss.tolist() == losses
    page = (tmp_path / "out/report.html").read_text()
    shown = '"names": {"0": "east", "1": "hospital-03", "2": "north"}'
    assert shown in json.dumps(data_of(page))
    recorded = (tmp_path / "out/scenario.yaml").read_text()
    assert "- north" in recorded  # as the user wrote it


def test_hovers_and_axes_say_the_names(named, tmp_path):
    rayfed.run(named, out=tmp_path / "out", page=False)
    from rayfed.report.panels.participation import participation, participation_over_rounds
    from rayfed.report.panels.timeline import timeline

    results = Results.read(tmp_path / "out")
    drawn = timeline(results, "fedavg", 0)
    assert sorted(drawn.layout.yaxis.ticktext) == ["east", "hospital-03", "north"]
    shown = {
        row[0]
        for bar in drawn.data
        if bar.meta is not None and bar.meta.get("part") in ("used", "waiting")
        for row in bar.customdata
    }
    assert shown == {"east", "hospital-03", "north"}
    dots = participation(results, "fedavg", 0)
    shown = {row[0] for trace in dots.data if trace.customdata is not None
             for row in trace.customdata}  # fmt: skip
    assert shown == {"east", "hospital-03", "north"}
    rows = participation_over_rounds(results, "fedavg", 0)
    assert rows.data[0].customdata[-1][0] == "north"  # the slowest is at the bottom
    assert json.dumps(rows.to_dict(), default=list)


def everywhere(tmp_path, east, hospital, north):
    """Return a scenario that gives clients by names or ids wherever it can."""
    there = f"client,start_s,end_s\n{north},0,1000\n{east},0,1000\n{hospital},0,2\n"
    devices = f"client,compute_s\n{north},3\n{east},1\n{hospital},2\n"
    links = f"time,u,v\n0,{east},{hospital}\n0,{hospital},{north}\n"
    (tmp_path / "there.csv").write_text(there)
    (tmp_path / "links.csv").write_text(links)
    (tmp_path / "devices.csv").write_text(devices)
    fedavg = {"name": "fedavg", "local": {"steps": 1, "lr": 0.001}}
    walk = {"name": "walk", "start": north}
    return {
        "clients": {
            "availability": {"name": "trace", "file": str(tmp_path / "there.csv")},
            "delay": {"name": "trace", "file": str(tmp_path / "devices.csv")},
        },
        "topology": {"name": "trace", "path": str(tmp_path / "links.csv")},
        "drift": {"name": "labels-swap", "clients": [hospital], "at": 2},
        "problem": {"name": "softmax-regression", "dataset": str(tmp_path / "own.csv")},
        "algorithms": [
            fedavg,
            fedavg | {"label": "walking", "participation": {"select": walk}},
            fedavg | {"name": "clusterfedvarp", "clusters": [[north, east], [hospital]]},
        ],
    }


def test_names_may_be_used_wherever_ids_can(named, tmp_path, monkeypatch):
    monkeypatch.setattr(api.Result, "report", lambda result, **_: None)
    seen = []
    for clients in (["east", "hospital-03", "north"], [0, 1, 2]):
        scenario = named | everywhere(tmp_path, *clients)
        result = rayfed.run(scenario, out=tmp_path / "out")
        assert set(result.outcome.values()) == {"finished"}
        seen.append((result.rounds.loss.tolist(), result.events.client.tolist()))
    assert seen[0] == seen[1]
    speed = result.clients.query("label == 'fedavg'").set_index("client").speed_s
    assert (speed[2] / speed[0], speed[1] / speed[0]) == (3, 2)  # north and hospital-03 to east
    assert set(result.rounds.query("label == 'walking' and round == 1").position) == {2}


@pytest.mark.parametrize(
    ("place", "told"),
    [
        ("clients", "clients.availability.file: there.csv: row 1: client is 'nobody'; "
                    "unknown client 'nobody'; known: east, hospital-03, north"),
        ("delay", "clients.delay.file: devices.csv: row 1: client is 'nobody'; unknown client"),
        ("topology", "links.csv: row 2: v is 'nobody'; ids are whole numbers from 0 to 2, or "
                     "names in the data"),
        ("algorithms", "algorithms.1.participation.select.start: unknown client 'nobody'; known: "),
    ],
)  # fmt: skip
def test_a_name_of_nobody_is_one_line_wherever_it_stands(named, tmp_path, place, told):
    wrong = everywhere(tmp_path, "east", "hospital-03", "nobody")
    if place == "delay":  # the other file is right
        wrong["clients"].pop("availability")
        place = "clients"
    kept = {key: wrong[key] for key in ("problem", place)}
    if place == "algorithms":
        (tmp_path / "links.csv").write_text("time,u,v\n0,0,1\n0,1,2\n")
        kept |= {"topology": wrong["topology"], "clients": {}}
    with pytest.raises(ScenarioError) as error:
        api.prepare(api.read(named | {"algorithms": ["fedavg"], "clients": {}} | kept))
    assert told in str(error.value)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"clients": {"groups": [{"ids": ["hospital-3"], "local": {"steps": 2}}]}},
         "clients.groups.0.ids: unknown client 'hospital-3'; did you mean 'hospital-03'?"),
        ({"algorithms": [{"name": "fedhybrid", "newton": ["nobody"]}]},
         "algorithms.0.newton: unknown client 'nobody'; known: east, hospital-03, north"),
        ({"drift": {"name": "arriving", "clients": ["nobody"]}, "algorithms": ["fedavg"]},
         "drift.clients: unknown client 'nobody'; known: east, hospital-03, north"),
        ({"algorithms": [{"name": "clusterfedvarp", "clusters": [["east"], ["north", 0]]}]},
         "algorithms.0.clusters.1: found client 0 twice; list it once"),
        ({"algorithms": [{"name": "clusterfedvarp", "clusters": [["east"], ["north"]]}]},
         "algorithms.0.clusters: client hospital-03 is in none; list every client once"),
        ({"clients": {"count": 3, "groups": [{"ids": ["north", 2], "local": {"steps": 2}}]}},
         "clients.groups: found id 2 twice"),
        ({"problem": {"name": "least-squares", "dataset": {"name": "linear", "features": 2}},
          "clients": {"count": 3, "groups": [{"ids": ["north"]}]}},
         "clients.groups.0.ids: found 'north', but the data do not name their clients; give ids"),
    ],
)  # fmt: skip
def test_a_name_that_is_no_clients_is_one_line(named, change, told):
    with pytest.raises(ScenarioError) as error:
        api.prepare(api.read(named | change))
    assert str(error.value).startswith(told)


def test_clients_that_are_numbered_from_0_have_no_names(named, tmp_path):
    FILE.assign(client=np.repeat([0, 1, 2], 3)).to_csv(tmp_path / "own.csv", index=False)
    del named["clients"]  # the file says how many there are
    rayfed.run(named | {"algorithms": ["fedavg"]}, out=tmp_path / "out", page=False)
    assert "name" not in pd.read_parquet(tmp_path / "out/fedavg-seed0/clients.parquet")
