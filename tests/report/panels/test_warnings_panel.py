"""Which runs warn, and of what."""

from rayfed.report.panels.base import PageSource
from rayfed.report.panels.warnings import WarningsPanel
from rayfed.report.read.results import Results


def panel(folder):
    return WarningsPanel(PageSource.of(Results.read(folder)))


def test_warnings_name_algorithms_and_seeds(tmp_path, run_writer, rows):
    small = "beta 3 is not above 14, as the theory asks"
    for label, seed, warnings in (
        ("fedavg", 0, ["few rows"]),
        ("RW, 3", 0, [f"RW, 3: {small}", "few rows"]),
        ("RW, 3", 1, [f"RW, 3: {small}", "few rows"]),
    ):
        run_writer(tmp_path, label, seed, rows([2, 1]), warnings=warnings)
    shown = panel(tmp_path)
    assert set(shown.warnings) == {("“RW, 3” (seeds 0 and 1)", small), ("all runs", "few rows")}
    assert shown.title == "3 of 3 runs warn"


def test_many_warnings_are_folded(tmp_path, run_writer, rows):
    for seed in range(7):
        run_writer(tmp_path, "fedavg", seed, rows([2, 1]), warnings=[f"bound {seed}"])
    shown, _, folded = panel(tmp_path).render().partition("<details><summary>2 more</summary>")
    assert "fedavg (seed 0): bound 0" in shown
    assert [f"bound {k}" in folded for k in range(7)] == [False] * 5 + [True] * 2


def test_without_warnings_there_is_no_panel(tmp_path, run_writer, rows):
    run_writer(tmp_path, "fedavg", 0, rows([2, 1]))
    assert not panel(tmp_path).applies
