"""What is kept of every client's own model, and how it stays small."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rayfed import api
from rayfed.executors.serial import SerialExecutor
from rayfed.measures import evaluation
from rayfed.measures.evaluation import MOST_ROWS, RECORDED, Thinning
from rayfed.runs.driver import Driver
from rayfed.runs.files.records import Records
from rayfed.runs.files.stops import STOPPED

LOCAL = {"steps": 2, "batch": 4, "lr": 0.1}
DITTO = {"name": "ditto", "lam": 0.5, "local": LOCAL}


@given(st.integers(1, 7), st.integers(1, 10_000), st.integers(0, 10**6))
def test_what_is_left_at_the_end_was_kept_all_the_way(every, clients, last):
    thinning = Thinning(every, clients)
    rounds = np.unique(np.r_[np.arange(0, last + 1, every)[:: max(1, last // 997)], last])
    left = rounds[thinning.of(rounds, last)]
    assert last in left
    assert 0 in left
    for k in left[left < last].tolist():
        assert thinning.keeps(k, last=k)
        assert thinning.keeps(k, last=(k + last) // 2)


@pytest.mark.parametrize("clients", [1, 20, 999, 10_000])
def test_the_table_stays_small_and_the_rounds_evenly_spaced(clients):
    rounds = np.arange(0, 3 * MOST_ROWS)
    left = rounds[Thinning(1, clients).of(rounds, rounds[-1])]
    assert MOST_ROWS / 2.5 < len(left) * clients <= MOST_ROWS + clients  # the last one comes on top
    assert len(set(np.diff(left[:-1]))) == 1


def drive(plan, out, index=0):
    run = plan.runs[index]
    return Driver(run, out, SerialExecutor(plan.tables))


def prepared(mixed, **changes):
    made = {"participation": {"cohort": 4}, "algorithms": [DITTO], "rounds": 9, **changes}
    return api.prepare(api.read(mixed(**made)))


def table(plan, out):
    return pd.read_parquet(out / plan.runs[0].folder / "personal.parquet")


def test_the_columns_average_to_those_of_the_rounds(mixed, tmp_path):
    plan = prepared(mixed, evaluate={"every": 2})
    drive(plan, tmp_path).execute()
    found = table(plan, tmp_path)
    assert found.columns.tolist() == ["round", "client", *RECORDED]
    assert found["round"].unique().tolist() == [0, 2, 4, 6, 8, 9]
    rows = pd.read_parquet(tmp_path / plan.runs[0].folder / "rounds.parquet").set_index("round")
    means = found.groupby("round").mean()
    for column in ("personal_loss", "personal_accuracy"):
        np.testing.assert_allclose(means[column], rows[column][means.index], rtol=1e-12)
    sizes = plan.runs[0].federation.views.evaluation.shards.sizes(np.arange(13), "test")
    shared = found.loc[found["round"] == 9, "accuracy"].to_numpy()
    scored = np.average(shared[sizes > 0], weights=sizes[sizes > 0])
    assert scored == pytest.approx(rows["accuracy"][9])
    last, weights = found[found["round"] == 9], plan.runs[0].federation.views.evaluation.shards.mass
    mass = weights(np.arange(13))
    assert np.average(last["loss"], weights=mass) == pytest.approx(rows["loss"][9])
    assert (last["loss"] != last["personal_loss"]).any()


def test_distances_are_those_of_the_kept_models(mixed, tmp_path):
    plan = prepared(mixed)
    drive(plan, tmp_path).execute()
    folder = tmp_path / plan.runs[0].folder
    x = np.load(folder / "model.npz")["x"]
    _, pieces = Records(folder, thinning=plan.runs[0].thinning).load()
    found = pd.read_parquet(folder / "personal.parquet").set_index(["round", "client"])
    held = {
        client: own for rows in pieces for client, own in zip(rows["ids"], rows["v"], strict=True)
    }
    assert len(held) > 4
    for client, own in held.items():
        assert found.distance[9, client] == pytest.approx(np.linalg.norm(own - x), rel=1e-6)
    assert (found.distance[0] == 0).all()  # all begin at the first model


def test_without_a_global_model_there_is_no_distance(mixed, tmp_path):
    plan = prepared(mixed, algorithms=[{"name": "local-only", "local": LOCAL}], rounds=2)
    drive(plan, tmp_path).execute()
    found = table(plan, tmp_path)
    assert found.distance.isna().all()
    np.testing.assert_array_equal(found.personal_loss, found.loss)


def test_a_shared_model_alone_leaves_no_table(mixed, tmp_path):
    plan = prepared(mixed, algorithms=[{"name": "fedavg", "local": LOCAL}], rounds=1)
    drive(plan, tmp_path).execute()
    assert not (tmp_path / plan.runs[0].folder / "personal.parquet").exists()


def test_of_too_many_clients_nothing_is_kept_and_the_columns_stay(mixed, tmp_path, monkeypatch):
    plan = prepared(mixed, rounds=2, evaluate={"measures": ["fairness"]})
    drive(plan, tmp_path / "kept").execute()
    monkeypatch.setattr(evaluation, "MOST_CLIENTS", 12)
    drive(plan, tmp_path / "not").execute()
    kept, bare = (tmp_path / name / plan.runs[0].folder for name in ("kept", "not"))
    assert not (bare / "personal.parquet").exists()
    pd.testing.assert_frame_equal(
        pd.read_parquet(kept / "rounds.parquet"), pd.read_parquet(bare / "rounds.parquet")
    )


@pytest.mark.guard
def test_a_thinned_table_is_the_same_after_every_stop(mixed, tmp_path, monkeypatch, assert_same):
    monkeypatch.setattr(evaluation, "MOST_ROWS", 13 * 4)
    plan = prepared(mixed)
    drive(plan, tmp_path / "calm").execute()
    assert table(plan, tmp_path / "calm")["round"].unique().tolist() == [0, 4, 8, 9]
    stops = 0
    while True:
        driver = drive(plan, tmp_path / "stopped")
        ended = driver.execute(resume=True, report=lambda progress: driver.stop())  # noqa: B023
        if ended != STOPPED:
            break
        stops += 1
    assert stops == 8
    assert_same(tmp_path / "calm", tmp_path / "stopped")
    drive(plan, tmp_path / "stopped").execute(resume=True)  # compacted once more
    assert_same(tmp_path / "calm", tmp_path / "stopped")
