"""What counts as a sweep, and the values at its points, on result folders made by hand."""

import math

import pytest

from rayfed.report.panels.swept import sweep_line
from rayfed.report.read import sweeps
from rayfed.report.read.results import Results


@pytest.fixture
def swept(tmp_path, run_writer, rows):
    """Return a function that writes runs (label, setting, settings, scenario, loss) and reads."""

    def write(*runs, **info):
        for number, (label, setting, settings, scenario, loss) in enumerate(runs):
            run_writer(
                tmp_path, label, 0, rows([1.0, loss], label), folder=f"run{number}",
                setting=setting, settings=settings, scenario=scenario, algorithm="fedavg", **info,
            )  # fmt: skip
        return Results.read(tmp_path)

    return write


def lr(*values):
    return [("A", f"lr={v}", {"name": "a", "local": {"lr": v}}, {}, v) for v in values]


def test_one_number_of_a_grid(swept):
    found = sweeps.find(results := swept(*lr(0.1, 1.0, 10.0)))
    assert found.keys == ("local.lr",)
    assert found.titles == ("lr",)
    assert found.series == ("A",)
    points = found.values(results, "loss").set_index("local.lr")["value"]
    assert points.to_dict() == {0.1: 0.1, 1.0: 1.0, 10.0: 10.0}


def test_two_numbers_one_of_them_of_the_scenario(swept):
    runs = [
        ("A", f"lr={a}, cohort={k}", {"lr": a}, {"participation": {"cohort": k}}, a * k)
        for a in (0.1, 1.0)
        for k in (5, 10)
    ]
    found = sweeps.find(results := swept(*runs))
    assert found.keys == ("lr", "participation.cohort")
    points = found.values(results, "loss").set_index([*found.keys])["value"]
    assert points.to_dict() == {(0.1, 5): 0.5, (0.1, 10): 1.0, (1.0, 5): 5.0, (1.0, 10): 10.0}


def test_an_algorithm_that_does_not_change_has_the_points_of_the_grid(swept):
    flat = [("B", f"lr={v}", {"lr": 7.0}, {}, 3.0) for v in (0.1, 1.0, 10.0)]
    found = sweeps.find(swept(*lr(0.1, 1.0, 10.0), *flat))
    assert found.series == ("A", "B")
    mine = found.points[found.points["series"] == "B"]
    assert mine["local.lr"].tolist() == [0.1, 1.0, 10.0]
    assert found.firsts == ("A (lr=0.1)", "B (lr=0.1)")


def test_algorithms_that_the_grid_changes_each_for_itself_keep_their_own_values(swept):
    runs = [
        (label, f"A={a}, B={b}", {"lr": own}, {}, 1.0)
        for a, b in ((1, 20), (2, 20), (4, 10))
        for label, own in (("A", a), ("B", b))
    ]
    points = sweeps.find(swept(*runs)).points
    assert points[points["series"] == "A"]["lr"].tolist() == [1, 2, 4]
    assert points[points["series"] == "B"]["lr"].tolist() == [20, 20, 10]


def test_keys_of_some_algorithms_alone_are_no_sweep_of_all(swept):
    runs = [("A", f"lr={v}", {"lr": v}, {}, 1.0) for v in (0.1, 0.2)]
    runs += [("B", f"mu={v}", {"mu": v}, {}, 1.0) for v in (1.0, 2.0)]
    assert sweeps.find(swept(*runs)) is None


def test_algorithms_of_one_kind_without_a_grid(swept):
    runs = [(f"step {v}", "", {"label": f"step {v}", "lr": v}, {}, v) for v in (1, 2, 4)]
    found = sweeps.find(swept(*runs))
    assert (found.keys, found.series) == (("lr",), ("fedavg",))
    assert found.points["name"].tolist() == ["step 1", "step 2", "step 4"]


def test_names_of_own_classes_are_no_setting(swept):
    runs = [(f"step {v}", "", {"name": f"Own{v}", "lr": v}, {}, v) for v in (1, 2, 4)]
    found = sweeps.find(swept(*runs))
    assert found.keys == ("lr",)
    assert found.points["name"].tolist() == ["step 1", "step 2", "step 4"]


def test_keys_that_change_together_are_one(swept):
    runs = [("A", f"n={n}", {}, {"clients": {"count": n}, "cohort": n}, n) for n in (2, 4, 8)]
    assert sweeps.find(swept(*runs)).keys == ("clients.count",)


@pytest.mark.parametrize(
    "values",
    [
        [{"lr": 0.1}, {"lr": 1.0}],  # two points are a comparison
        [{"lr": 0.1}, {"lr": 1.0}, {"lr": "halved"}],
        [{"lr": 0.1, "d": 1}, {"lr": 1.0, "d": 2}, {"lr": 10.0, "d": 4}, {"lr": 10.0, "d": 1}],
        [{"on": True}, {"on": False}, {"on": None}],
        [{"a": i & 1, "b": i & 2, "c": i & 4} for i in range(8)],
        [{}, {}, {}],
    ],
    ids=["two points", "a text", "no map", "yes and no", "three keys", "nothing"],
)
def test_what_is_no_sweep(swept, values):
    runs = [("A", f"setting {i}", own, {}, 1.0) for i, own in enumerate(values)]
    assert sweeps.find(swept(*runs)) is None


def test_a_point_of_which_every_run_failed_has_no_value(swept, tmp_path, run_writer, rows):
    swept(*lr(0.1, 1.0))
    run_writer(
        tmp_path, "A", 0, rows([1.0, 9.0], "A"), folder="run9", setting="lr=10.0",
        settings={"name": "a", "local": {"lr": 10.0}}, scenario={}, status="failed",
    )  # fmt: skip
    results = Results.read(tmp_path)
    last = sweeps.find(results).values(results, "loss")
    assert last["failed"].tolist() == [False, False, True]
    assert math.isnan(last["value"].iloc[2])


def test_where_a_value_ends_runs_the_rounds_until_then_count(tmp_path, run_writer, rows):
    stop = {"stop": {"loss": 0.5}}
    for number, (cohort, losses) in enumerate(
        [(5, [1, 0.9, 0.8, 0.4]), (10, [1, 0.9, 0.3]), (20, [1, 0.2]), (40, [1, 0.9])]
    ):
        run_writer(
            tmp_path, "A", 0, rows(losses, accuracy=losses), folder=f"run{number}",
            setting=f"cohort={cohort}", scenario=stop | {"participation": {"cohort": cohort}},
            stopped_by="loss" if cohort < 40 else "rounds",
        )  # fmt: skip
    results = Results.read(tmp_path)
    found = sweeps.find(results)
    taken = found.values(results, "loss").set_index("participation.cohort")["value"]
    assert taken.iloc[:3].to_dict() == {5: 3.0, 10: 2.0, 20: 1.0}
    assert math.isnan(taken[40])
    assert sweep_line(results, found, "loss").layout.yaxis.title.text == "rounds to loss 0.5"
    last = found.values(results, "accuracy")["value"]  # which ends nothing
    assert last.tolist() == [0.4, 0.3, 0.2, 0.9]
