"""Progress: bars in a terminal, a plain line every ten seconds elsewhere, numbers by hand."""

import io

import pytest
from rich.console import Console

from rayfed.engine.run import ENDLESS
from rayfed.runs import progress
from rayfed.runs.backend import ProgressDisplay, RunProgress
from rayfed.runs.progress import Bars, LogLines, watch

NAN = float("nan")


@pytest.fixture
def clock(monkeypatch):
    """Return a function that moves the wall clock on."""
    now = [100.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])

    def move(seconds):
        now[0] += seconds

    return move


@pytest.fixture
def lines(clock):
    """Return a watch of four runs without a terminal, and what it has printed."""
    said = io.StringIO()
    return LogLines(4, Console(file=said, width=20)), lambda: said.getvalue().splitlines()


class TestLines:
    def test_what_is_done_for_the_page(self, lines, clock):
        looks, said = lines
        looks.page(3, 300, "reading runs")  # nothing yet
        clock(11)
        looks.page(150, 300, "reading runs")
        looks.page(151, 300, "reading runs")
        clock(11)
        looks.page(1, 33, "drawing sweep")
        assert said() == ["page: reading runs, 150/300", "page: drawing sweep, 1/33"]

    def test_a_line_every_ten_seconds(self, lines, clock):
        looks, said = lines
        with looks:
            for second in range(1, 35):
                clock(1)
                looks.runs({"a": RunProgress(second, 100, 0.0, NAN)}, {})
        assert len(said()) == 3
        assert [line.split("round ")[1].split("/")[0] for line in said()] == ["10", "20", "30"]

    def test_what_a_line_says(self, lines, clock):
        """After 20 s: one run of four ended and half of another is 1.5; 2.5 more take 33 s."""
        looks, said = lines
        clock(20)
        looks.runs({"b-seed0": RunProgress(50, 100, 1234.5, 0.123456)}, {"a-seed0": "finished"})
        assert said() == [
            "1/4 runs, about 33 s left; b-seed0: round 50/100, 1234 s simulated, loss 0.1235"
        ]

    def test_the_rounds_of_a_checkpoint_took_no_time(self, lines, clock):
        """In 20 s a quarter of a run, 3.25 more take 260 s; then three halves in 60 s, 2 in 80."""
        looks, said = lines
        looks.runs({"a": RunProgress(50, 100, 0.0, NAN, first=50)}, {})
        clock(20)
        looks.runs({"a": RunProgress(75, 100, 0.0, NAN, first=50)}, {})
        clock(40)
        looks.runs({}, {"a": "finished", "b": "finished"})
        assert [line.split(";")[0] for line in said()] == [
            "0/4 runs, about 260 s left", "2/4 runs, about 80 s left"
        ]  # fmt: skip

    def test_a_run_of_no_rounds_is_no_fraction(self, lines, clock):
        looks, said = lines
        clock(11)
        looks.runs({"a": RunProgress(0, 0, 0.0, NAN)}, {})
        assert said() == ["0/4 runs; a: round 0/0, 0 s simulated"]

    def test_nothing_is_known_before_anything_is_done(self, lines, clock):
        looks, said = lines
        clock(11)
        looks.runs({"a": RunProgress(0, 100, 0.0, NAN)}, {})
        assert said() == ["0/4 runs; a: round 0/100, 0 s simulated"]

    def test_a_run_that_a_rule_ends_has_no_last_round(self, lines, clock):
        looks, said = lines
        clock(11)
        looks.runs({"a": RunProgress(7, ENDLESS, 1.0, NAN)}, {})
        assert said() == ["0/4 runs; a: round 7, 1 s simulated"]  # and nobody knows what is left

    def test_short_studies_say_nothing(self, lines, clock):
        looks, said = lines
        clock(9.9)
        looks.runs({"a": RunProgress(99, 100, 1.0, 1.0)}, {})
        assert said() == []

    def test_actors_are_told_when_all_have_started(self, lines, clock):
        looks, said = lines
        looks.actors(1, 2)
        clock(1.25)
        looks.actors(2, 2)
        assert said() == ["2 client actors started in 1.2 s"]


class TestBars:
    @pytest.fixture
    def bars(self):
        console = Console(file=io.StringIO(), force_terminal=True, width=120)
        return Bars(2, console)

    @staticmethod
    def shown(bars):
        return {task.description: task for task in bars.bars.tasks}

    def test_a_bar_for_the_study_and_one_for_each_run_that_goes_on(self, bars):
        with bars:
            bars.runs({"a": RunProgress(25, 100, 3.0, 0.5), "b": RunProgress(1, 4, 9.0, NAN)}, {})
            tasks = self.shown(bars)
        assert set(tasks) == {"[bold]study", "a", "b"}
        assert (tasks["a"].completed, tasks["a"].total) == (25, 100)
        assert tasks["a"].fields["text"] == "round 25/100, 3 s simulated, loss 0.5"
        assert tasks["b"].fields["text"] == "round 1/4, 9 s simulated"
        assert tasks["[bold]study"].completed == pytest.approx(0.5)
        assert tasks["[bold]study"].total == 2

    def test_a_run_that_ended_has_no_bar(self, bars):
        with bars:
            bars.runs({"a": RunProgress(25, 100, 3.0, 0.5)}, {})
            bars.runs({"b": RunProgress(1, 4, 9.0, NAN)}, {"a": "finished"})
            tasks = self.shown(bars)
        assert set(tasks) == {"[bold]study", "b"}
        assert tasks["[bold]study"].completed == pytest.approx(1.25)
        assert tasks["[bold]study"].fields["text"] == "1/2 runs"

    def test_the_last_progress_of_a_run_that_ended_is_not_counted_twice(self, bars):
        with bars:
            bars.runs({"a": RunProgress(100, 100, 3.0, 0.5)}, {"a": "finished"})
            study = self.shown(bars)["[bold]study"]
        assert study.completed == pytest.approx(1.0)

    def test_actors_have_a_bar_until_all_have_started(self, bars):
        with bars:
            bars.actors(1, 3)
            assert self.shown(bars)["client actors"].fields["text"] == "1/3"
            bars.actors(3, 3)
            assert not self.shown(bars)


def test_the_console_decides():
    assert isinstance(watch(1, Console(file=io.StringIO(), force_terminal=True)), Bars)
    assert isinstance(watch(1, Console(file=io.StringIO())), LogLines)


def test_silent_says_nothing(capsys):
    with ProgressDisplay() as looks:
        looks.actors(1, 1)
        looks.runs({"a": RunProgress(1, 2, 0.0, NAN)}, {})
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("terminal", "notebook", "widgets", "kind"),
    [
        (True, False, False, Bars),
        (False, True, True, Bars),
        (False, True, False, LogLines),
        (False, False, True, ProgressDisplay),  # a script that imports what notebooks import
    ],
)
def test_bars_from_python_where_they_are_seen(monkeypatch, terminal, notebook, widgets, kind):
    def console(**settings):
        forced = {"force_jupyter": notebook, "force_terminal": terminal or None}
        return Console(file=io.StringIO(), **forced, **settings)

    monkeypatch.setattr(progress, "Console", console)
    monkeypatch.setattr(progress, "find_spec", lambda name: object() if widgets else None)
    assert type(progress.display(3)) is kind
