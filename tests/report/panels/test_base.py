"""How panels get onto the page: found in their folder, in sections, with what they need."""

import re
from base64 import b64decode
from pathlib import Path

import numpy as np
import pytest
from jinja2 import UndefinedError

from rayfed.core.errors import ScenarioError
from rayfed.report import html
from rayfed.report.figures.style import canvas
from rayfed.report.page import report
from rayfed.report.panels.against import LeftOutPanel
from rayfed.report.panels.base import (
    FigurePanel,
    PageSource,
    Panel,
    RunPanel,
    Section,
    figure_json,
    find,
)
from rayfed.report.read.results import Results
from tests.fakes.pages import body_of, data_of

TEMPLATES = Path(report.__file__).parent / "templates" / "panels"
SCRIPTS = Path(report.__file__).parent / "assets" / "panels"


def test_no_template_or_script_is_left_without_its_panel():
    names = {panel.name for panel in find()}
    assert {file.stem for file in TEMPLATES.iterdir()} <= names
    assert {file.stem for file in SCRIPTS.iterdir()} <= names


class OfStudy(FigurePanel):
    """A panel that somebody adds: no template and no script."""

    name = "of-study"
    section = Section.FAIRNESS
    rank = 35
    how = "Read <it>."

    def title(self) -> str:
        """Return a title that must be escaped."""
        return "A & B took 3 s"

    def figure(self):
        """Return an empty figure."""
        return canvas(123)


def test_a_figure_of_one_case_that_draws_all_alike_is_a_sentence(
    tmp_path, run_writer, rows, case_writer
):
    class Alike(OfStudy):
        def figure(self):
            """Return two lines on each other."""
            figure = canvas(123)
            for name in self.results.names:
                figure.add_scatter(x=[0, 1], y=[0, 1], meta={"name": name})
            return figure

    for name in ("fedavg", "fedexp"):
        run_writer(tmp_path / "one", name, 0, rows([3, 2], name))
    one = Alike(PageSource.of(Results.read(tmp_path / "one")))
    assert one.brief == "A & B took 3 s: no visible difference between fedavg and fedexp."
    losses = {"fedavg": [1.0], "fedexp": [2.0]}
    case_writer(tmp_path / "two", {"0.1": losses, "1.0": losses})
    assert Alike(PageSource.of(Results.read(tmp_path / "two"))).brief == ""


class OfRun(RunPanel):
    """A panel with a figure a run."""

    name = "of-run"
    section = Section.CLIENTS
    rank = 5

    def title(self, run) -> str:
        """Return the run."""
        return f"{run.name} {run.seed}"

    def figure(self, run):
        """Return an empty figure."""
        return canvas(200, meta={"note": run.name})


class Words(Panel):
    """A panel of words alone, in a section of its own."""

    name = "words"
    section = "What do I make of it?"

    def render(self) -> str:
        """Return text, which is escaped, since nobody said that it is HTML."""
        return "1 < 2"


def page_of(results, *panels):
    text = report.page(results, panels=panels)
    return body_of(text), data_of(text)["panels"]


def test_an_added_panel_is_on_the_page_with_its_figure(tmp_path, study_writer):
    results = Results.read(study_writer(tmp_path, seeds=2, rounds=5))
    body, panels = page_of(results, OfStudy, OfRun)
    assert '<h2 id="of-study-title">A &amp; B took 3\u00a0s</h2>' in body
    assert '<p class="how">Read &lt;it&gt;.</p>' in body
    assert 'id="of-study" style="min-height:123px"' in body
    section = body[body.index("Who was left behind?") :].partition("</section>")[0]
    assert section.index('id="fairness"') < section.index('id="of-study"')
    assert panels["of-study"]["figure"]["layout"]["height"] == 123
    runs = panels["of-run"]["runs"]
    assert [run["title"] for run in runs[:2]] == ["fedavg 0", "fedavg 1"]
    assert runs[0]["figure"]["layout"]["meta"]["note"] == "fedavg"


@pytest.mark.parametrize(("other", "folded"), [([2, 1], True), ([2, 0.5], False)])
def test_a_figure_of_equal_lines_is_one_sentence(tmp_path, run_writer, rows, other, folded):
    for label, losses in (("a", [2, 1]), ("b", [2, 1]), ("c", [2, 1]), ("d", [2, 1]), ("e", other)):
        run_writer(tmp_path, label, 0, rows(losses, label, left_out=losses))
    panel = LeftOutPanel(PageSource.of(Results.read(tmp_path)))
    html = panel.render()
    sentence = "Error memories of the codecs: no visible difference between a, b, c and 2 others."
    assert (f"<details><summary>{sentence}</summary>" in html) == folded
    note = f"a, b, c and {'2 others' if folded else '1 other'} coincide."
    assert panel.payload["figure"]["layout"]["meta"]["note"] == note  # it can be opened
    assert f'id="left-out-note">{note}</p>' in html


def test_a_section_of_ones_own_stands_before_what_was_run(tmp_path, run_writer, rows):
    run_writer(tmp_path, "a", 0, rows([2, 1]))
    body, panels = page_of(Results.read(tmp_path), Words)
    own = body.index("What do I make of it?")
    assert body.index('id="results"') < own < body.index("What exactly was run?")
    assert "1 &lt; 2" in body[own:].partition("</section>")[0]
    assert panels["words"] is None


def of(**members):
    return type("Other", (FigurePanel,), {"__module__": "somewhere"} | members)


def fail(self):
    """Fail as a mistake of the user's does."""
    return 1 / 0


@pytest.mark.parametrize(
    ("panel", "words"),
    [
        (of(name="waste"), "there is a panel 'waste' already"),
        (of(name="Big Name"), "is no panel with a name"),
        (of(), "is no panel with a name"),
        (dict, "is no panel with a name"),
        ("waste", "write module:Class"),
        ("pathlib:Path", "Python's own"),
        (of(name="answer", title=lambda self: "", figure=lambda self: canvas(99)), "rename it"),
        (of(name="mine", title=fail, figure=fail), "cannot be drawn: ZeroDivisionError"),
        (of(name="mine", payload={"a": float("nan")}), "cannot be drawn: ValueError"),
        (of(name="mine"), "cannot be drawn: NotImplementedError"),
    ],
)
def test_a_panel_that_cannot_be_shown_is_named(tmp_path, run_writer, rows, panel, words):
    run_writer(tmp_path, "a", 0, rows([2, 1]))
    with pytest.raises(ScenarioError) as error:
        report.page(Results.read(tmp_path), panels=[panel])
    assert words in str(error.value)
    assert len(str(error.value).splitlines()) == 1


def test_the_ids_of_the_page_are_of_one_element_each(tmp_path, study_writer):
    body, _ = page_of(Results.read(study_writer(tmp_path, seeds=2, rounds=5)))
    ids = re.findall(r'\bid="([^"]+)"', body)
    assert len(ids) == len(set(ids)) > 20


def test_panels_with_nothing_to_show_are_left_out(tmp_path, run_writer, rows):
    run_writer(tmp_path, "a", 0, rows([2, 1]))
    text = report.page(Results.read(tmp_path))
    assert set(data_of(text)["panels"]) == {
        "headline",
        "convergence",
        "costs",
        "endings",
        "settings",
    }


@pytest.mark.parametrize(
    ("values", "dtype"),
    [([0.1, 2**24], "f4"), ([0.1, 2**24 + 1], "f8"), ([np.nan, -np.inf], "f4"), ([1e300], "f8")],
)
def test_figures_hold_single_precision_where_no_client_is_mistaken_for_another(values, dtype):
    figure = canvas(99).add_scatter(x=np.array(values))
    packed = figure_json(figure)["data"][0]["x"]
    assert packed["dtype"] == dtype
    held = np.frombuffer(b64decode(packed["bdata"]), dtype)
    assert held == pytest.approx(np.array(values), rel=1e-7, nan_ok=True)


def test_an_unknown_name_in_a_template_is_an_error():
    with pytest.raises(UndefinedError, match="nothing_here"):
        html.environment().from_string("{{ nothing_here }}").render()
