"""What a walk's mixing costs: which points tell, and the power of the relaxation time."""

import numpy as np
import pandas as pd
import pytest

from rayfed.report.figures.marks import NothingToDraw
from rayfed.report.page.report import page
from rayfed.report.panels.base import PageSource
from rayfed.report.panels.mixing import MixingPanel, find, fit
from rayfed.report.read.results import Results

QUESTION = "What do the settings do?"


def points(relaxation, rounds, groups=""):
    return pd.DataFrame({"relaxation": relaxation, "rounds": rounds, "group": groups})


def test_an_exact_power_is_found_whatever_the_sizes():
    x = np.array([1.0, 4.0, 16.0, 1.0, 9.0, 25.0])
    scale = np.repeat([10.0, 70.0], 3)
    found = fit(points(x, scale * x**0.5, ["small"] * 3 + ["large"] * 3))
    assert (found.value, found.low, found.high) == pytest.approx((0.5, 0.5, 0.5))
    assert found.rounds == pytest.approx({"small": 10, "large": 70})


def test_the_interval_is_students():
    # Logs to base 10: x -1, 0, 1 and y 0, 1, 0, so the slope is 0 and -1/3, 2/3, -1/3 are left: its
    # error is sqrt((6/9) / 1 / 2), and t(0.975) of one degree of freedom is 12.706.
    found = fit(points([0.1, 1.0, 10.0], [1.0, 10.0, 1.0]))
    assert found.value == pytest.approx(0, abs=1e-12)
    assert found.high == pytest.approx(12.7062 * (1 / 3) ** 0.5, rel=1e-5)
    assert found.low == pytest.approx(-found.high)


@pytest.mark.parametrize(
    "few",
    [
        points([1.0, 9.0], [1.0, 3.0]),  # nothing is left to tell the error from
        points([1.0, 2.0, 4.0, 8.0], [1.0, 2.0, 3.0, 4.0], list("abcd")),  # sizes differ as well
        points([1.0, 1.2, 1.4], [1.0, 2.0, 3.0]),  # walks hardly differ
        points([], []),
    ],
    ids=["two", "all of other sizes", "alike", "none"],
)
def test_what_tells_nothing(few):
    assert fit(few) is None


# topology, clients, lambda_2 and rounds: with the power 0.5 of 1 / (1 - lambda_2)
WALKS = [
    ("complete", 10, 0.0, 10), ("grid", 10, 0.75, 20), ("ring", 10, 0.9375, 40),
    ("complete", 20, 0.0, 20), ("ring", 20, 0.9375, 80),
]  # fmt: skip


@pytest.fixture
def walked(tmp_path, run_writer, walk_writer, rows):
    """Return a function that writes a run for each walk, which ends at a loss, and reads them."""

    def write(walks=WALKS, labels=("A",), stop=True, seeds=(0,)):
        for label in labels:
            for seed in seeds:
                for topology, count, eigenvalue, taken in walks:
                    losses = np.linspace(1, 0.5, taken + 1)
                    folder = run_writer(
                        tmp_path, label, seed, rows(losses, label, seed),
                        folder=f"{label}-{topology}-{count}-{seed}", clients=None,
                        setting=f"topology={topology}, count={count}", algorithm="walker",
                        stopped_by="loss" if stop else "rounds",
                        scenario={
                            "stop": {"loss": 0.5} if stop else {},
                            "topology": {"name": topology}, "clients": {"count": count},
                        },
                    )  # fmt: skip
                    walk_writer(folder, [0] * taken, [[(0, 1)]], lambda_2=[eigenvalue])
        return Results.read(tmp_path)

    return write


def test_points_that_differ_in_their_walk_alone_share_a_line(walked):
    found = find(walked())
    assert (found.column.name, found.goal) == ("loss", 0.5)
    told = found.points[["group", "walk", "relaxation", "rounds"]].to_numpy().tolist()
    assert sorted(told) == [
        ["10 clients", "complete", 1, 10], ["10 clients", "grid", 4, 20],
        ["10 clients", "ring", 16, 40],
        ["20 clients", "complete", 1, 20], ["20 clients", "ring", 16, 80],
    ]  # fmt: skip
    assert found.powers["A"].value == pytest.approx(0.5)


def test_each_algorithm_has_a_power_of_its_own(walked):
    results = walked(labels=("A", "B"))
    assert list(find(results).powers) == ["A", "B"]
    powers = "0.50 for A (0.50 to 0.50) and 0.50 for B (0.50 to 0.50)"
    assert MixingPanel(PageSource(results)).powers == powers


def test_a_point_that_did_not_get_there_is_counted_by_no_line(walked, tmp_path, run_writer, rows):
    walked()
    walked_far = tmp_path / "A-grid-10-0"
    for part in (walked_far / "rounds.parquet").glob("*.parquet"):
        frame = pd.read_parquet(part)
        frame.assign(loss=frame["loss"] + 0.1).to_parquet(part, index=False)
    found = find(Results.read(tmp_path))
    missed = found.points[~found.points["reached"]]
    assert missed[["walk", "rounds"]].to_numpy().tolist() == [["grid", 20]]
    assert found.powers["A"].value == pytest.approx(0.5)
    caption = MixingPanel(PageSource(Results.read(tmp_path))).render()
    assert "Open triangles did not reach the target" in caption


def test_a_point_is_reached_by_all_of_its_seeds_or_not(walked, tmp_path):
    walked(seeds=(0, 1))
    for part in (tmp_path / "A-grid-10-1" / "rounds.parquet").glob("*.parquet"):
        frame = pd.read_parquet(part)
        frame.assign(loss=frame["loss"] + 0.1).to_parquet(part, index=False)
    points = find(Results.read(tmp_path)).points
    assert points.loc[~points["reached"], "walk"].tolist() == ["grid"]


def test_lambda_2_is_the_mean_over_recorded_rounds_and_seeds(walked, tmp_path, walk_writer):
    walked(seeds=(0, 1))
    walk_writer(
        tmp_path / "A-complete-10-0", [0] * 4, [[(0, 1)]] * 2, graph=[0, 0, 0, 1],
        lambda_2=[0.0, 1.0],  # for a quarter of the time it fell apart
    )  # fmt: skip
    points = find(Results.read(tmp_path)).points.set_index("name")
    row = points[(points["walk"] == "complete") & (points["group"] == "10 clients")]
    assert row["relaxation"].item() == pytest.approx(1 / (1 - (0.25 + 0) / 2))


def test_a_walk_of_unknown_speed_is_no_point(walked, tmp_path, walk_writer):
    walked()
    walk_writer(tmp_path / "A-complete-10-0", [0], [[(0, 1)]], lambda_2=[np.nan])
    assert len(find(Results.read(tmp_path)).points) == len(WALKS) - 1


def test_whether_rounds_grow_can_stay_unclear(walked):
    results = walked([("a", 9, 0.0, 10), ("b", 9, 0.9, 40), ("c", 9, 0.99, 10)])
    assert MixingPanel(PageSource(results)).powers == "0.00 for A (-4.42 to 4.42)"


def test_the_page_shows_it_where_runs_end_at_a_goal(walked):
    shown = page(walked())
    assert QUESTION in shown
    assert "with its 95 % confidence interval, is 0.50 for A (0.50 to 0.50)." in shown
    assert "Open triangles" not in shown


def test_the_page_shows_nothing_where_runs_do_not(walked):
    found = walked(stop=False)
    with pytest.raises(NothingToDraw, match="no walks that differ"):
        find(found)
    assert QUESTION not in page(found)
