"""What the page gets to draw any clock against any column."""

import re

import numpy as np
import pytest

from rayfed.report.panels.base import Asked, PageSource
from rayfed.report.panels.convergence import FOLD, ConvergencePanel, curve_data
from rayfed.report.read.results import Results


def test_curve_data_is_thinned_and_keeps_both_ends(tmp_path, run_writer, rows):
    run_writer(tmp_path, "fedavg", 0, rows(list(np.linspace(2, 1, 5001))))
    data = curve_data(Results.read(tmp_path), numbers=100)["runs"][0]["data"]
    assert len(data["loss"]) == 200
    assert (data["round"][0], data["round"][-1]) == (0, 5000)
    assert data["bytes_up"][-1] == 500_000


def test_curve_data_keeps_the_evaluated_rows(tmp_path, run_writer, rows):
    loss = np.full(5000, np.nan)
    loss[::50] = np.linspace(2, 1, 100)
    run_writer(tmp_path, "fedavg", 0, rows(list(loss)))
    data = curve_data(Results.read(tmp_path), numbers=100)["runs"][0]["data"]
    assert len(data["loss"]) == 100
    assert None not in data["loss"]


@pytest.mark.parametrize("count", [6, 8])
def test_more_than_six_cases_are_folded_and_made_when_they_are_opened(tmp_path, case_writer, count):
    ends = {f"{k}.0": {"a": [k, k + 0.5], "b": [3.0, 4.0]} for k in range(1, count + 1)}
    results = Results.read(case_writer(tmp_path, ends))

    def made(asked):
        panel = ConvergencePanel(PageSource.of(results, asked=asked))
        return panel.payload["parts"], panel.render()

    (every, page), (closed, shut), (opened, _) = map(
        made, (None, Asked(), Asked("accuracy", opened=frozenset({FOLD})))
    )
    assert [part["figure"] for part in closed] == [
        part["figure"] if place < 6 else None for place, part in enumerate(every)
    ]
    assert [part["figure"] for part in opened] == [part["figure"] for part in every]
    assert [part["names"] for part in closed] == [part["names"] for part in every]
    assert ("<details" in page, "data-waiting" in shut) == (count > 6, count > 6)
    assert 'id="convergence-5"' in shut
    assert 'id="convergence-6"' not in shut
    assert "data-waiting" not in page
    if count > 6:
        _, _, fold = page.partition("<details")
        assert "2 more cases: alpha = 7, alpha = 8</summary>" in fold
        assert fold.index('id="reading-6"') < fold.index('id="convergence-7"')


def test_the_figure_of_a_case_is_labelled_by_it(tmp_path, case_writer):
    results = Results.read(case_writer(tmp_path, {f"{k}.0": {"a": [k], "b": [3]} for k in (1, 2)}))
    page = ConvergencePanel(PageSource.of(results)).render()
    texts = dict(re.findall(r'id="(case[^"]*|reading[^"]*)"[^>]*>([^<]*)<', page))
    labels = re.findall(r'id="convergence[^"]*"[^>]* aria-labelledby="([^"]*)"', page)
    read = [[texts[part] for part in label.split()] for label in labels]
    assert [first for first, _ in read] == ["alpha = 1", "alpha = 2"]
    assert all(answer for _, answer in read)
