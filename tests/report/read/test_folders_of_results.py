"""Several result folders as one: how runs are told apart, and what is said where they cannot be."""

import pytest

from rayfed.core.errors import ScenarioError
from rayfed.report.page.report import compare
from rayfed.report.panels.base import PageSource
from rayfed.report.panels.differences import ComparedPanel
from rayfed.report.panels.headline import HeadlinePanel
from rayfed.report.read.folders import joined
from rayfed.report.read.results import Results
from rayfed.report.tables import summary, text_columns


@pytest.fixture
def folder(tmp_path, run_writer, rows):
    """Return a function that writes a folder of runs and reads it."""

    def write(name, seeds=(0, 1), labels=("fedavg",), lr=0.1, setting="", **scenario):
        for label in labels:
            for seed in seeds:
                run_writer(
                    tmp_path / name, label, seed, rows([8, 4, 2 + 10 * lr + 0.1 * seed]),
                    settings={"name": label, "label": label, "local": {"lr": lr}},
                    scenario={"name": name, "problem": {"l2": 0.0}} | scenario,
                    setting=setting,
                )  # fmt: skip
        return Results.read(tmp_path / name)

    return write


def names(*parts):
    return list(joined(parts).names)


def test_settings_of_an_algorithm_that_differ_are_in_its_name(folder):
    a = folder("a", labels=("fedavg", "fedexp"))
    b = folder("b", lr=0.5)
    both = joined([a, b])
    assert both.names == ("fedavg (lr=0.1)", "fedavg (lr=0.5)", "fedexp")
    assert both.compared.table == {"fedavg: local.lr": ("0.1", "0.5")}
    assert [run.rounds.loss.iloc[-1] for run in both.of("fedavg (lr=0.5)")] == [7.0, 7.1]


def test_settings_of_the_scenario_that_differ_are_in_every_name(folder):
    a = folder("a", clients={"count": 10, "delay": {"name": "constant", "mean_s": 1.0}})
    b = folder("b", clients={"count": 20, "delay": {"name": "pareto", "alpha": 2.0}})
    both = joined([a, b])
    assert both.names == ("fedavg (count=10, delay=constant)", "fedavg (count=20, delay=pareto)")
    assert list(both.compared.table) == ["clients.count", "clients.delay.name"]


def test_other_seeds_of_the_same_are_more_seeds(folder):
    both = joined([folder("a", seeds=(0, 1)), folder("b", seeds=(2, 3))])
    assert both.names == ("fedavg",)
    assert [run.seed for run in both.of("fedavg")] == [0, 1, 2, 3]
    panel = ComparedPanel(PageSource.of(both))
    assert (panel.title, panel.rows) == (
        "The folders have the same settings and differ only in their seeds",
        [],
    )


def test_folders_that_differ_in_nothing_go_by_their_names(folder):
    assert names(folder("x/out"), folder("y/out")) == ["fedavg (x/out)", "fedavg (y/out)"]


def test_where_much_differs_the_folder_stands_for_it(folder):
    many = dict.fromkeys(("rounds", "dtype", "topology", "server"), 1)
    assert names(folder("a"), folder("b", **many)) == ["fedavg (a)", "fedavg (b)"]


def test_a_setting_of_a_grid_stays_in_the_name(folder, tmp_path, run_writer, rows):
    for k in (1, 2):
        run_writer(tmp_path / "g", "fedavg", 0, rows([8, 4]), setting=f"k={k}", folder=f"k{k}",
                   scenario={"rounds": 2, "participation": {"cohort": k}})  # fmt: skip
    grid = Results.read(tmp_path / "g")
    other = folder("o", rounds=9, problem=None)
    shown = names(grid, other)
    assert shown[:2] == ["k=1 (rounds=2)", "k=2 (rounds=2)"]
    assert shown[2].startswith("fedavg (rounds=9")


def test_different_problems_have_no_winner(folder):
    three = {"seeds": (0, 1, 2)}
    both = joined([folder("a", **three), folder("b", lr=0.5, problem={"l2": 0.1}, **three)])
    assert both.unlike.startswith(
        "These folders do not minimise the same function of the same rows: problem.l2 is 0 in a, "
        "0.1 in b."
    )
    panel = HeadlinePanel(PageSource.of(both))
    assert panel.answer.endswith("no algorithm is the best of all.")
    assert not any(any(c.best) for c in text_columns(both, summary(both)))
    alike = joined([folder("c", **three), folder("d", lr=0.5, **three)])
    assert alike.unlike == ""
    assert any(any(c.best) for c in text_columns(alike, summary(alike)))


def test_grids_over_circumstances_have_no_winner_across_their_settings(tmp_path, run_writer, rows):
    for name, lr in (("a", 0.1), ("b", 0.5)):
        for alpha in (0.1, 10.0):
            for seed in range(3):
                run_writer(
                    tmp_path / name, "fedavg", seed, rows([8, alpha + lr]),
                    settings={"name": "fedavg", "local": {"lr": lr}}, setting=f"alpha={alpha}",
                    scenario={"partition": {"alpha": alpha}}, folder=f"{alpha}-{seed}",
                )  # fmt: skip
    both = joined([Results.read(tmp_path / name) for name in "ab"])
    assert "circumstances: partition.alpha is 0.1 or 10 in a and b. Which" in both.unlike
    assert not any(any(c.best) for c in text_columns(both, summary(both)))


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (
            {"problem": {"l2": 0.0, "test": 0.4}},
            "same rows: problem.test is not given in a, 0.4 in b.",
        ),
        (
            {"problem": {"l2": 0.0, "validation": 0.25}},
            "same rows: problem.validation is not given in a, 0.25 in b.",
        ),
        (
            {"clients": {"availability": {"name": "cyclic"}}},
            "circumstances: clients.availability.name is not given in a, cyclic in b. Which "
            "algorithm is better cannot be told from them.",
        ),
        ({"partition": {"name": "iid"}}, "partition.name is not given in a, iid in b."),
        ({"problem": {"l2": 0.0, "init": "zeros"}}, ""),
        ({"participation": {"cohort": 9}}, ""),
        ({"rounds": 9}, ""),
    ],
)
def test_other_rows_and_other_circumstances_have_no_winner(folder, given, told):
    seeds = {"seeds": (0, 1, 2)}
    both = joined([folder("a", **seeds), folder("b", lr=0.5, **seeds, **given)])
    assert told in both.unlike
    assert bool(both.unlike) == bool(told)
    answer = HeadlinePanel(PageSource.of(both)).answer
    assert answer.endswith("no algorithm is the best of all.") == bool(told)
    assert any(any(c.best) for c in text_columns(both, summary(both))) != bool(told)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (["a"], "give two result folders or more; a single one is for rayfed report"),
        (["a", "a"], "a: is given twice"),
        (["a", "none"], "none: holds no run; give the folder of a study's results"),
    ],
)
def test_what_cannot_be_compared_is_one_line(folder, tmp_path, monkeypatch, given, told):
    folder("a")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ScenarioError) as error:
        compare(given, tmp_path / "page.html")
    assert str(error.value) == told
    assert not (tmp_path / "page.html").exists()


def test_the_page_shows_all_runs_and_what_differs(folder, tmp_path):
    folders = [folder("a").folder, folder("b", lr=0.5, problem={"l2": 0.1}).folder]
    (folders[0] / "claims.json").write_text('{"claims": [{}]}')  # of one folder alone
    page = tmp_path / "new" / "page.html"
    compare(folders, page)
    text = page.read_text("utf-8")
    assert "<h1>hand-made: a and b</h1>" in text
    assert "The runs of 2 result folders: a and b." in text
    assert "2 settings differ between the folders" in text
    assert "<td>problem.<wbr>l2</td><td>0</td><td>0.1</td>" in text
    assert text.count("These folders do not minimise the same function") == 1
    assert "claims of the source" not in text
