"""The best setting of an algorithm, from result folders written by hand."""

import json
import math

import numpy as np
import pandas as pd
import pytest
import yaml

from rayfed.core.errors import ScenarioError
from rayfed.report.best import Aim, Best
from rayfed.report.read.results import Results


@pytest.fixture
def study(tmp_path, run_writer, rows):
    """Return a function that writes runs of a grid over ``algorithms.*.lr`` and reads them."""

    def make(losses, grid=True, status=(), cohort=(), **columns):
        """Write ``losses[label, lr, seed]``; ``status`` and ``cohort`` say more of some runs."""
        labels = list(dict.fromkeys(label for label, *_ in losses))
        rates = list(dict.fromkeys(lr for _, lr, _ in losses))
        text = {"name": "tuned"} | ({"grid": {"algorithms.*.lr": rates}} if grid else {})
        (tmp_path / "scenario.yaml").write_text(yaml.safe_dump(text))
        for (label, lr, seed), loss in losses.items():
            setting = f"lr={lr}" if grid else ""
            own = {"name": label.split(" ")[0], "label": label, "lr": lr}
            run_writer(
                tmp_path, label, seed, rows(loss, label, seed, **columns),
                folder=f"{label}-{setting}-seed{seed}", setting=setting, settings=own,
                status=dict(status).get((label, lr, seed), "finished"),
                scenario={
                    "name": "tuned", "rounds": len(loss) - 1,
                    "participation": {"cohort": dict(cohort).get((label, lr), 5)},
                    "algorithms": [{**own, "label": name} for name in labels], "grid": {},
                },
            )  # fmt: skip
        return Results.read(tmp_path)

    return make


def winners(results, **aim):
    """Return setting and value of the winner, by algorithm."""
    wanted = {"column": None, "at": None, "target": None} | aim
    found = Best(results, Aim.of(results, **wanted))
    return {w.best.algorithm: (w.best.setting, w.best.value) for w in found.winners}


GRID = {
    ("fedavg", 0.1, 0): [9, 5, 4], ("fedavg", 0.1, 1): [9, 5, 6],
    ("fedavg", 0.2, 0): [9, 2, 1], ("fedavg", 0.2, 1): [9, 7, 7],
    ("fedexp", 0.1, 0): [9, 4, 3], ("fedexp", 0.1, 1): [9, 4, 3],
    ("fedexp", 0.2, 0): [9, 1, 8], ("fedexp", 0.2, 1): [9, 1, 8],
}  # fmt: skip


def test_the_least_mean_over_seeds_at_the_end(study):
    assert winners(study(GRID)) == {"fedavg": ("lr=0.2", 4.0), "fedexp": ("lr=0.1", 3.0)}


def test_at_a_round(study):
    assert winners(study(GRID), at=1) == {"fedavg": ("lr=0.2", 4.5), "fedexp": ("lr=0.2", 1.0)}


def test_at_a_round_that_was_not_evaluated_it_is_the_value_before(study):
    losses = {("fedavg", 0.1, 0): [9, 3, math.nan, 1], ("fedavg", 0.2, 0): [9, 4, math.nan, 0]}
    assert winners(study(losses), at=2) == {"fedavg": ("lr=0.1", 3.0)}


def test_an_accuracy_is_best_where_it_is_largest(study):
    losses = {("fedavg", 0.1, 0): [9, 3], ("fedavg", 0.2, 0): [9, 4]}
    results = study(losses, accuracy=[0.1, 0.7])
    path = results.of("lr=0.2")[0].folder / "rounds.parquet" / "part-000000.parquet"
    pd.read_parquet(path).assign(accuracy=[0.1, 0.8]).to_parquet(path, index=False)
    again = Results.read(results.folder)
    assert winners(again, column="accuracy") == {"fedavg": ("lr=0.2", 0.8)}


def validated(study, losses, validation, **columns):
    """Write a study whose runs have the given last validation loss, by key of `losses`."""
    results = study(losses, **columns)
    for run in results.runs_found:
        lr = run.info["settings"]["lr"]
        path = run.folder / "rounds.parquet" / "part-000000.parquet"
        rows = pd.read_parquet(path)
        rows["validation_loss"] = [math.nan] * (len(rows) - 1) + [validation[lr, run.seed]]
        rows["test_loss"] = 10.0 * lr + run.seed
        rows.to_parquet(path, index=False)
    return Results.read(results.folder)


def test_rows_that_are_held_out_to_choose_by_decide(study):
    losses = {("fedavg", lr, seed): [9, lr] for lr in (0.1, 0.2) for seed in (0, 1)}
    validation = {(0.1, 0): 5.0, (0.1, 1): 4.0, (0.2, 0): 3.0, (0.2, 1): 2.0}
    results = validated(study, losses, validation, accuracy=[0.1, 0.7])
    assert winners(results) == {"fedavg": ("lr=0.2", 2.5)}
    assert winners(results, column="loss") == {"fedavg": ("lr=0.1", 0.1)}
    found = Best(results, Aim.of(results, None, None, None))
    assert "ranked by validation_loss at the end, on rows held out for this" in found.notes[0]
    row = found.frame().iloc[0]
    assert row.test_loss == 2.5  # the mean of 2 and 3, the winner's alone
    assert row.accuracy == 0.7
    by_loss = Best(results, Aim.of(results, "loss", None, None))
    assert "although rows are held out to choose by" in by_loss.notes[0]
    assert "test_loss" not in by_loss.frame()


def test_an_accuracy_on_training_rows_is_no_test_value(study):
    losses = {("fedavg", 0.1, 0): [9, 5]}
    results = validated(study, losses, {(0.1, 0): 1.0}, accuracy=[0.1, 0.7])
    (run,) = results.runs_found
    run.info["scored"] = "training"
    found = Best(results, Aim.of(results, None, None, None))
    assert not {"test_loss", "accuracy"} & set(found.frame())


def test_settings_are_compared_with_the_best_seed_by_seed(study):
    ends = {
        0.1: [1, 2, 3],
        0.2: [3, 2, 4],  # worse by 2, 0 and 1
        0.3: [4, 5, 6.5],  # worse by 3, 3 and 3.5: t is 19, p 0.0028, of three pairs 0.0083
        0.4: [2, 2, 2.5],  # failed
    }
    losses = {
        ("fedavg", lr, seed): [9, end] for lr, of in ends.items() for seed, end in enumerate(of)
    }
    results = study(losses, status={("fedavg", 0.4, 1): "failed"})
    (winner,) = Best(results, Aim("loss")).winners
    assert (winner.best.setting, winner.undecided) == ("lr=0.1", 1)
    assert Best(results, Aim("loss")).notes[1:] == ["fedavg: undecided against 1 other setting"]
    (soonest,) = Best(results, Aim("loss", target=3.5)).winners
    assert (soonest.best.setting, soonest.undecided) == ("lr=0.1", 1)  # 0.2 with two seeds
    (soonest,) = Best(results, Aim("loss", target=4.0)).winners
    assert (soonest.best.setting, soonest.undecided) == ("lr=0.1", 2)  # 0.3 with one seed
    (highest,) = Best(results, Aim("loss", higher=True)).winners
    assert (highest.best.setting, highest.undecided) == ("lr=0.3", 0)  # 0.2 is below with each


def test_with_one_seed_nothing_is_decided(study):
    found = Best(study({("fedavg", 0.1, 0): [9, 1], ("fedavg", 0.2, 0): [9, 2]}), Aim("loss"))
    assert found.winners[0].verdict is None
    assert np.isnan(found.frame()["undecided"].iloc[0])
    assert found.notes[1:] == ["with one seed all differences are undecided; give more seeds"]


def test_the_gap_counts_where_it_is_known(study):
    gaps = {"loss_gap": [1.0, 0.5, 0.25]}
    results = study({("fedavg", 0.1, 0): [9, 5, 4]}, **gaps)
    assert winners(results) == {"fedavg": ("lr=0.1", 0.25)}


def test_fewest_rounds_to_a_target_that_every_seed_reaches(study):
    """Fedavg's 0.2 is there after 1 round with seed 0 and never with seed 1."""
    results = study(GRID)
    found = Best(results, Aim.of(results, None, None, "loss=5"))
    assert [(w.best.setting, w.best.score) for w in found.winners] == [
        ("lr=0.1", 1.0), ("lr=0.1", 1.0),  # fedexp's 0.2 is as fast, and ends higher
    ]  # fmt: skip


def test_rounds_to_a_target_are_known_to_within_evaluated_rows(study):
    """Rows 10 rounds apart: a lead of one row with three seeds, as the headline has it."""
    soon, late = (
        [9] + [np.nan] * 9 + [8] + [np.nan] * 9 + [y] + [np.nan] * 9 + [4] for y in (4, 8)
    )
    results = study(
        {("fedavg", lr, s): f for lr, f in ((0.1, soon), (0.2, late)) for s in range(3)}
    )
    (winner,) = Best(results, Aim.of(results, None, None, "loss=5")).winners
    assert (winner.best.setting, winner.best.score, winner.undecided) == ("lr=0.1", 20.0, 0)
    assert winner.verdict.comparisons[0].word == "better with every seed"
    assert not winner.verdict.clear


def test_where_none_reaches_the_target_the_end_decides(study):
    results = study(GRID)
    found = Best(results, Aim.of(results, None, None, "loss=3"))
    assert [(w.best.setting, w.best.score) for w in found.winners] == [
        ("lr=0.2", math.inf), ("lr=0.2", 1.0),
    ]  # fmt: skip
    assert found.frame().rounds_to_target.isna().tolist() == [True, False]


def test_a_setting_of_which_a_seed_failed_never_wins(study):
    results = study(GRID, status={("fedavg", 0.2, 1): "failed"})
    assert winners(results)["fedavg"] == ("lr=0.1", 5.0)
    fedavg, fedexp = Best(results, Aim("loss")).winners
    assert (fedavg.tried, fedavg.failed) == (2, 1)
    assert (fedexp.tried, fedexp.failed) == (2, 0)


def test_where_every_setting_failed_there_is_none(study):
    failed = {key: "failed" for key in GRID if key[0] == "fedavg"}
    results = study(GRID, status=failed)
    found = Best(results, Aim("loss"))
    (path,) = found.write()
    assert found.winners[0].best.failed
    assert [a["label"] for a in yaml.safe_load(path.read_text())["algorithms"]] == ["fedexp"]
    assert found.frame().failed.tolist() == [2, 0]
    lost = Results(results.folder, tuple(results.of("fedavg (lr=0.1)")))
    assert Best(lost, Aim("loss")).write() == []
    assert not path.exists()


def test_the_winners_are_a_scenario(study):
    found = Best(study(GRID), Aim("loss"))
    (path,) = found.write()
    scenario = yaml.safe_load(path.read_text())
    assert path.name == "best.yaml"
    assert scenario["name"] == "hand-made-best"
    assert scenario["seeds"] == [2, 3, 4]
    assert "# They were chosen with seeds 0, 1; these seeds are new." in path.read_text()
    assert scenario["rounds"] == 2
    assert [(a["label"], a["lr"]) for a in scenario["algorithms"]] == [
        ("fedavg", 0.2), ("fedexp", 0.1),
    ]  # fmt: skip
    assert "grid" not in scenario
    table = pd.read_csv(path.with_name("best.csv"))
    assert table.setting.tolist() == ["lr=0.2", "lr=0.1"]


def test_winners_that_differ_in_more_get_a_scenario_each(study):
    results = study(GRID, cohort={("fedavg", 0.2): 7})
    paths = Best(results, Aim("loss")).write()
    assert [p.name for p in paths] == ["best-fedavg-lr=0.2.yaml", "best-fedexp-lr=0.1.yaml"]
    cohorts = [yaml.safe_load(p.read_text())["participation"]["cohort"] for p in paths]
    assert cohorts == [7, 5]
    assert not (results.folder / "best.yaml").exists()


def test_the_edge_of_a_grid_is_told(study):
    losses = {("fedavg", lr, 0): [9, lr] for lr in (1, 2, 3)}
    losses |= {("fedexp", lr, 0): [9, abs(lr - 2)] for lr in (1, 2, 3)}
    fedavg, fedexp = Best(study(losses), Aim("loss")).winners
    assert fedavg.edges == ("algorithms.*.lr",)
    assert fedexp.edges == ()


def test_keys_of_other_algorithms_are_no_settings_of_this(study):
    results = study(GRID)
    scenario = {"grid": {"algorithms.1.lr": [0.1, 0.2]}}
    for run in results.runs_found:  # the grid changes fedexp alone
        told = json.loads((run.folder / "run.json").read_text())
        if run.label == "fedavg":
            told["settings"]["lr"] = 0.3
        (run.folder / "run.json").write_text(json.dumps(told))
    (results.folder / "scenario.yaml").write_text(yaml.safe_dump(scenario))
    fedavg, fedexp = Best(Results.read(results.folder), Aim("loss")).winners
    assert (fedavg.best.setting, fedavg.tried) == ("", 1)
    assert (fedexp.best.setting, fedexp.tried) == ("lr=0.1", 2)


def test_without_a_grid_the_entries_of_an_algorithm_compete(study):
    losses = {("fedavg a", 1, 0): [9, 2], ("fedavg b", 2, 0): [9, 1], ("fedexp", 1, 0): [9, 3]}
    expected = {"fedavg": ("fedavg b", 1.0), "fedexp": ("fedexp", 3.0)}
    assert winners(study(losses, grid=False)) == expected


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("los", None, None), r"^--by: unknown score 'los'; did you mean 'loss'\?"),
        (("bytes_up", None, None), "^--by: unknown score 'bytes_up'; known: loss"),
        (("accuracy", None, None), "^--by: unknown score 'accuracy'; known: loss"),
        ((None, None, "loss"), "^--target: found 'loss'; give a column and a number"),
        ((None, None, "gap=1"), "^--target: unknown score 'gap'"),
        (("loss", None, "loss=1"), "^--target: excludes --by and --at; leave them out"),
        ((None, 3, "loss=1"), "^--target: excludes"),
    ],
)
def test_options_that_make_no_sense_are_one_line(study, options, message):
    with pytest.raises(ScenarioError, match=message):
        Aim.of(study({("fedavg", 0.1, 0): np.ones(3)}), *options)
