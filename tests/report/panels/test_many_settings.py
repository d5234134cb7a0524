"""A sweep of many settings: the best of each algorithm leads, in colours, words and target."""

import pandas as pd
import pytest

from rayfed.report.figures.palette import LIGHT
from rayfed.report.figures.style import algorithm_styles
from rayfed.report.panels import base
from rayfed.report.panels.answers import headline
from rayfed.report.panels.base import PageSource
from rayfed.report.panels.convergence import convergence
from rayfed.report.panels.timeline import TimelinePanel
from rayfed.report.panels.usage import RoundTimesPanel
from rayfed.report.read.curves import default_target, leaders
from rayfed.report.read.results import Results


@pytest.fixture(scope="module")
def results(tmp_path_factory, run_writer, rows):
    """Five step sizes of each of two algorithms, of which "a" is better with the larger ones."""
    folder = tmp_path_factory.mktemp("swept")
    for label, gain in (("a", 1.0), ("b", 0.5)):
        for lr in range(1, 6):
            loss = [8.0, 8 - gain * lr, 7 - 1.3 * gain * lr]
            accuracy = [0.1, 0.2, 0.9 - 0.1 * gain * lr]
            run_writer(
                folder, label, 0, rows(loss, label, accuracy=accuracy), folder=f"{label}{lr}",
                setting=f"lr={lr}", settings={"lr": lr}, scenario={}, algorithm=label,
            )  # fmt: skip
    return Results.read(folder)


def test_the_best_setting_of_each_algorithm_leads(results):
    assert leaders(results, "loss") == ("a (lr=5)", "b (lr=5)")
    assert leaders(results, "accuracy") == ("a (lr=1)", "b (lr=1)")


def test_the_target_separates_the_leaders_and_the_headline_tells_of_them(results):
    # a ends at 0.5 and b at 3.75; all ten would be given 6.4.
    assert default_target(results, "loss") == 3.8
    text = headline(results, PageSource(results).summary)
    assert text.startswith(
        "a (lr=5) reached loss 3.8 in 1 round, b (lr=5) in 2; undecided with one seed"
    )


def test_settings_of_one_algorithm_look_alike_and_those_that_do_not_lead_are_grey(results):
    styles = algorithm_styles(results)
    assert len({style.light for style in styles.values()}) == 2
    figure = convergence(results)
    means = {t.meta["name"]: t for t in figure.data if t.meta["part"] == "mean"}
    assert means["a (lr=5)"].line.color == styles["a (lr=5)"].light
    assert (means["a (lr=4)"].line.color, means["a (lr=4)"].line.width) == (LIGHT["strip"], 1)
    bands = {t.meta["name"]: t.visible for t in figure.data if t.meta["part"] == "band"}
    assert [name for name, shown in bands.items() if shown is None] == ["a (lr=5)", "b (lr=5)"]
    assert [label.text for label in figure.layout.annotations] == ["a (lr=5)", "b (lr=5)"]


def test_a_key_has_an_entry_for_each_algorithm(results):
    assert [text for _, _, text in PageSource(results).key()] == ["a", "b"]


def test_comparisons_further_below_are_of_the_best(results):
    shown = RoundTimesPanel(PageSource(results)).results
    assert shown.names == ("a (lr=5)", "b (lr=5)")
    assert algorithm_styles(shown).items() <= algorithm_styles(results).items()


def test_the_best_settings_of_a_case_have_the_colours_of_their_algorithms(
    tmp_path, run_writer, rows
):
    two = "seeds: [0]\nalgorithms: [{name: fedavg}, {name: fedexp}]\n"
    grid = "grid: {clients.count: [10, 20], algorithms.*.local.lr: [1, 2]}\n"
    (tmp_path / "scenario.yaml").write_text(grid + two)
    for count in (10, 20):
        for lr in (1, 2):
            for label in ("fedavg", "fedexp"):
                run_writer(tmp_path, label, 0, rows([2, 1 / lr]), folder=f"{label}-{count}-{lr}",
                           setting=f"count={count}, lr={lr}", scenario={})  # fmt: skip
    for part in PageSource(Results.read(tmp_path)).cases.values():
        shown = RoundTimesPanel(part).results
        assert shown.names == ("fedavg (lr=2)", "fedexp (lr=2)")
        assert algorithm_styles(shown).items() <= part.styles.items()


def test_the_clients_of_some_runs_are_shown_the_best_settings_first(
    tmp_path, run_writer, rows, monkeypatch
):
    monkeypatch.setattr(base, "MOST_RUNS", 3)
    event = {"ask": 0, "client": 4, "start_s": 0.0, "compute_s": 1.0, "end_s": 2.0,
             "status": "used", "loss": 1.0, "steps": 1}  # fmt: skip
    for lr in range(1, 11):
        run_writer(
            tmp_path, "a", 0, rows([8.0, 8.0 - (lr if lr < 8 else 0)], "a"), folder=f"a{lr}",
            events=pd.DataFrame([event | {"round": 1}]), setting=f"lr={lr}", settings={"lr": lr},
            scenario={}, algorithm="a",
        )  # fmt: skip
    source = PageSource(Results.read(tmp_path))
    assert sorted(run.name for run in source.runs) == ["lr=1", "lr=2", "lr=7"]
    assert source.runs[source.first_run].name == "lr=7"
    shown = " ".join(TimelinePanel(source).render().split())
    assert "the clients of 3 of 10 runs: those of the best settings" in shown


def test_few_settings_are_drawn_each_in_its_colour(tmp_path, run_writer, rows):
    for lr in (1, 2):
        run_writer(tmp_path, "a", 0, rows([2, lr]), folder=f"a{lr}", setting=f"lr={lr}")
    few = Results.read(tmp_path)
    assert not few.families
    assert leaders(few, "loss") == few.names
    assert len({style.light for style in algorithm_styles(few).values()}) == 2
