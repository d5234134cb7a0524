"""The page of a study with cases: a table, a facet a case, and figures of the chosen case."""

import re

import pytest

from rayfed.core.errors import ScenarioError
from rayfed.report.gallery import figure
from rayfed.report.page import report
from rayfed.report.panels.base import PageSource
from rayfed.report.panels.ends import CostsPanel, FinalsPanel
from rayfed.report.panels.swept import CasesPanel, SweepPanel, critical_difference, level_of, levels
from rayfed.report.read.results import Results
from tests.fakes.pages import body_of, data_of

ENDS = {
    "0.1": {"a": [0.9, 1.1], "b": [2.9, 3.1]},
    "1.0": {"a": [1.9, 2.1], "b": [2.3, 2.1]},
    "10.0": {"a": [3.9, 4.1], "b": [0.9, 1.1]},
}


@pytest.fixture(scope="module")
def results(tmp_path_factory, case_writer):
    return Results.read(case_writer(tmp_path_factory.mktemp("cases"), ENDS))


@pytest.fixture(scope="module")
def page(results):
    text = report.page(results)
    return body_of(text), data_of(text)


def test_the_answer_is_by_case_and_the_table_stands_right_below(page):
    body, _ = page
    answer = re.search(r'id="answer">([^<]*)<', body)[1]
    assert answer.startswith("Final loss: a is best at alpha = 0.1 (1.00, b 3.00); b is best at")
    assert body.index('id="answer"') < body.index('id="pivot"') < body.index('id="convergence"')
    assert '<td class="spread best"><span>1.00</span> <span>± 0.14</span></td>' in body


def test_each_case_has_a_facet_with_its_own_target_and_answer(page):
    body, data = page
    parts = data["panels"]["convergence"]["parts"]
    assert data["view"]["targets"] == [3.1, 2.3, 4.1]  # the worst run of each, rounded
    assert [part["curves"]["columns"]["loss"]["target"] for part in parts] == [3.1, 2.3, 4.1]
    assert [[about["name"] for about in part["names"]] for part in parts] == [["a", "b"]] * 3
    assert re.findall(r"<h3[^>]*>([^<]*)</h3>", body) == ["alpha = 0.1", "alpha = 1", "alpha = 10"]
    assert "a and b reached loss 3.1 in 2\u00a0rounds each" in body


def test_an_algorithm_has_its_colour_in_every_case(results, page):
    _, data = page
    names = {about["name"]: about for about in data["names"]}
    for value in ENDS:
        assert names[f"a (alpha={value})"]["light"] == names["a"]["light"]
    assert names["a"]["light"] != names["b"]["light"]
    assert {about["family"] for about in data["names"]} == {"a", "b"}
    assert [text for _, _, text in PageSource(results).parts[1].key()] == ["a", "b"]


def test_the_colour_does_not_depend_on_who_else_is_in_a_case(tmp_path, case_writer):
    ends = {"1.0": {"a": [1], "b": [2]}, "2.0": {"b": [2], "c": [1]}}
    source = PageSource(Results.read(case_writer(tmp_path, ends)))
    first, second = source.cases.values()
    assert first.styles["b"] == second.styles["b"] == source.styles["b"]


def test_costs_stand_by_case(results):
    panel = CostsPanel(PageSource(results))
    groups = list(panel.groups)
    assert [heading for heading, _ in groups] == [
        "alpha = 0.1, target: loss 3.1", "alpha = 1, target: loss 2.3",
        "alpha = 10, target: loss 4.1",
    ]  # fmt: skip
    names, flags = panel.columns[0].texts, panel.columns[-1].best
    assert [names[place] for place in groups[0][1]] == ["a (alpha=0.1)", "b (alpha=0.1)"]
    best = [[flags[place] for place in places] for _, places in groups]
    assert best == [[True, False], [False, False], [False, True]]


def test_figures_that_compare_algorithms_are_of_each_case(results):
    payload = FinalsPanel(PageSource(results)).payload
    means = []
    for part in payload["cases"]:
        strokes = [t for t in part["figure"]["data"] if t["meta"]["part"] == "mean"]
        means.append({trace["meta"]["name"]: list(trace["x"]) for trace in strokes})
    assert means == [{"a": [1.0], "b": [3.0]}, {"a": [2.0], "b": [2.2]}, {"a": [4.0], "b": [1.0]}]


def test_the_value_against_the_level(results):
    key, level = level_of(results)
    assert key == "alpha"
    assert level == {"alpha = 0.1": 0.1, "alpha = 1": 1.0, "alpha = 10": 10.0}
    a, b = levels(results, "loss").data
    assert (a.name, a.x.tolist(), a.y.tolist()) == ("a", [0.1, 1, 10], pytest.approx([1, 2, 4]))
    assert b.error_y.array.tolist() == pytest.approx([0.02**0.5] * 3)  # of 2.9 and 3.1
    assert not SweepPanel(PageSource(results)).applies  # the same figure once


def test_its_axes_are_logarithmic_where_means_and_levels_span_a_factor_of_10(tmp_path, case_writer):
    """As of the learning curves: a deviation that reaches below zero does not count."""
    ends = {
        alpha: {"a": values, "b": [2, 2]}
        for alpha, values in (("0.1", [0.01, 0.3]), ("0.3", [1, 1]), ("1.0", [2, 2]))
    }
    layout = levels(Results.read(case_writer(tmp_path, ends)), "loss").layout
    assert (layout.xaxis.type, layout.yaxis.type) == ("log", "log")
    low, high = layout.yaxis.range
    assert 10**low < 0.155 < 2 < 10**high


def test_many_levels_are_ticked_at_1_2_and_5(tmp_path, case_writer):
    """Not at each digit, where Plotly writes 9, 10⁻¹ and 2 next to each other."""
    few, many = (
        levels(Results.read(case_writer(tmp_path / str(n), ends)), "loss").layout.xaxis
        for n in (12, 15)
        for ends in [{f"{0.1 * 1.3**k:.3g}": {"a": [1.0], "b": [2.0]} for k in range(n)}]
    )
    assert (few.dtick, len(few.tickvals)) == (None, 12)
    assert (many.type, many.dtick, many.tickvals) == ("log", "D2", None)
    low, high = many.range
    assert 10**low < 0.1 < 0.1 * 1.3**14 < 10**high


def test_cases_that_are_no_numbers_have_no_such_figure(tmp_path, run_writer, rows):
    text = "cases: {plain: {}, skewed: {partition.alpha: 1}}\nalgorithms: [{name: a}, {name: b}]\n"
    (tmp_path / "scenario.yaml").write_text(text)
    for case in ("plain", "skewed"):
        for label in "ab":
            run_writer(tmp_path, label, 0, rows([2, 1]), folder=f"{label}{case}", setting=case,
                       scenario={})  # fmt: skip
    panel = CasesPanel(PageSource(Results.read(tmp_path)))
    assert panel.applies
    assert panel.shown["levels"] is None
    assert "skewed" in panel.shown["table"]


def test_ranks_are_drawn_where_there_are_five_cases(tmp_path, case_writer):
    ends = {f"{k}.0": {"a": [1], "b": [2], "c": [3]} for k in range(6)}
    many = Results.read(case_writer(tmp_path, ends))
    drawn = critical_difference(many)
    assert {t.meta["name"]: t.x[0] for t in drawn.data if t.meta["part"] == "rank"} == {
        "a": 1.0, "b": 2.0, "c": 3.0,
    }  # fmt: skip
    # 2.343 * sqrt(3 * 4 / (6 * 6)) = 1.35: a and b, and b and c, are level.
    bars = [t.x for t in drawn.data if t.meta["part"] == "level"]
    assert bars == [(1.0, 2.0), (2.0, 3.0)]
    said = CasesPanel(PageSource(many)).shown["ranked"]
    ending = "c is worse by more than the critical difference"
    assert said == f"Over 6 cases a has the best mean rank, 1; {ending}"


def test_a_figure_of_a_case_and_of_all_side_by_side(results):
    one = figure(results, "convergence", {"case": "alpha = 10"})
    assert {trace.meta["name"] for trace in one.data} == {"a", "b"}
    every = figure(results, "convergence", {})
    assert [note.text for note in every.layout.annotations] == [
        "alpha = 0.1",
        "alpha = 1",
        "alpha = 10",
    ]
    assert {trace.xaxis for trace in every.data} == {"x", "x2", "x3"}
    ranges = [every.layout[axis].range for axis in ("yaxis", "yaxis2", "yaxis3")]
    assert len(set(ranges)) == 1
    assert [t.name for t in every.data if t.showlegend] == ["a", "b"]
    with pytest.raises(ScenarioError, match="did you mean 'alpha = 1'"):
        figure(results, "finals", {"case": "alpha = 2"})


def test_of_many_algorithms_the_best_come_first_and_the_rest_is_folded(tmp_path, run_writer, rows):
    for k in range(14):
        run_writer(tmp_path, f"m{k:02}", 0, rows([20, 19 - k]))
    panel = CostsPanel(PageSource(Results.read(tmp_path)))
    ((_, listed),) = panel.groups
    assert panel.folded
    assert [panel.columns[0].texts[place] for place in listed][:2] == ["m13", "m12"]
    assert "<summary>All 14 rows</summary>" in panel.render()


@pytest.mark.parametrize(("count", "folded"), [(6, False), (7, True)])
def test_of_many_cases_the_rows_are_folded_in_their_order(tmp_path, case_writer, count, folded):
    ends = {f"{k}.0": {"a": [2], "b": [1]} for k in range(count)}
    panel = CostsPanel(PageSource(Results.read(case_writer(tmp_path, ends))))
    assert panel.folded == folded
    page = panel.render()  # a phone folds the rows of any cases
    assert f"<summary>All {2 * count} rows</summary>" in page
    assert ('<details id="rows" class="long">' in page) == folded
    labels = [[panel.columns[0].texts[place][0] for place in places] for _, places in panel.groups]
    assert labels == [["a", "b"]] * count
