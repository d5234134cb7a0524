"""What clients' own models give them: dots or a curve at the end, a map over the rounds."""

import numpy as np
import pandas as pd
import pytest

from rayfed.report.figures.palette import LIGHT
from rayfed.report.page.report import page
from rayfed.report.panels.personal import (
    SINGLE,
    never_asked,
    personal,
    personal_how,
    personal_over_rounds,
)
from rayfed.report.read.results import Results


@pytest.fixture
def results(tmp_path, run_writer, personal_writer, rows):
    """Return a function that writes one run of clients with models of their own."""

    def write(rounds, asked=(0, 1, 2), info=None, **columns):
        events = pd.DataFrame(
            {
                "round": 1, "ask": 0, "client": list(asked), "start_s": 0.0, "compute_s": 1.0,
                "end_s": 1.0, "status": "used", "loss": 1.0, "steps": 1,
            }
        )  # fmt: skip
        losses = [1.0] * (max(rounds) + 1)
        folder = run_writer(tmp_path, "b", 0, rows(losses), events, **(info or {}))
        personal_writer(folder, rounds, **columns)
        return Results.read(tmp_path)

    return write


QUESTION = "What do models of their own give the clients?"


def part(figure, name):
    return next(trace for trace in figure.data if trace.meta["part"] == name)


THREE = {
    "distance": 1.0,
    "personal_accuracy": [[0.1, 0.2, 0.3], [0.9, 0.5, 0.7]],
    "accuracy": [[0.1, 0.2, 0.3], [0.4, 0.6, 0.7]],
}


def test_two_joined_dots_a_client_the_worst_served_first(results):
    figure = personal(results([0, 4], **THREE), "b", 0)
    assert figure.layout.xaxis.ticktext == ("1", "2", "0")
    assert part(figure, "own").y == (0.5, 0.7, 0.9)
    assert part(figure, "shared").y == (0.6, 0.7, 0.4)
    gap = np.nan
    changes = [0.5, 0.6, gap, 0.7, 0.7, gap, 0.9, 0.4, gap]
    np.testing.assert_array_equal(part(figure, "change").y, changes)
    assert [list(about) for about in part(figure, "own").customdata] == [
        [1, 0.5, 0.6, ""], [2, 0.7, 0.7, ""], [0, 0.9, 0.4, ""],
    ]  # fmt: skip


def test_the_global_model_as_a_whole_is_a_level_line(tmp_path, run_writer, personal_writer, rows):
    folder = run_writer(tmp_path, "b", 0, rows([2, 1], "b", accuracy=[0.1, 0.55]))
    personal_writer(folder, [0, 1], distance=1.0, personal_accuracy=[[0.1, 0.2], [0.9, 0.8]],
                    accuracy=0.5)  # fmt: skip
    run = Results.read(tmp_path).run("b", 0)
    level = part(personal(Results.read(tmp_path), "b", 0), "global")
    assert set(level.y) == {0.55}
    assert (level.x[0], level.x[-1]) == (-0.7, 1.7)
    assert "Dashed is the global model's accuracy, 0.55." in personal_how(run)


def test_what_one_sees_in_words(results):
    (run,) = results([0, 4], **THREE).runs_found
    assert never_asked(run) == ""


def test_who_was_never_asked_is_grey_and_counted(results):
    found = results([0, 4], asked=(0, 1), **THREE)
    dots = part(personal(found, "b", 0), "own")
    assert [colour == LIGHT["muted"] for colour in dots.marker.color] == [False, True, False]
    assert dots.customdata[1][3] == "<br>never asked"
    assert never_asked(found.runs_found[0]) == "1 of 3 clients were never asked."


def test_without_accuracy_losses_are_compared(results):
    found = results([0], personal_loss=[[0.1, 4.0, 1.0]], loss=[[0.2, 2.0, 1.0]], distance=1.0)
    figure = personal(found, "b", 0)
    assert part(figure, "own").y == (4.0, 1.0, 0.1)
    assert (figure.layout.yaxis.title.text, figure.layout.yaxis.type) == (
        "loss of the client", "log",
    )  # fmt: skip
    cells = personal_over_rounds(found, "b", 0).data[0]
    assert [row[0] for row in cells.z] == pytest.approx([np.log10(4), 0, -1], abs=1e-3)
    assert [row[0] for row in cells.text] == [4.0, 1.0, 0.1]
    assert cells.colorbar.ticktext == ("0.1", "1")


def test_without_a_shared_model_there_is_one_dot(results):
    columns = THREE | {"distance": np.nan, "accuracy": THREE["personal_accuracy"]}
    found = results([0, 4], **columns)
    assert np.isnan(part(personal(found, "b", 0), "shared").y).all()
    assert "shared" not in part(personal(found, "b", 0), "own").hovertemplate


def test_clients_without_rows_to_score_are_left_out(results):
    columns = {"personal_accuracy": [[0.5, np.nan, 0.75]], "accuracy": [[0.25, np.nan, 0.5]]}
    found = results([0], distance=1.0, **columns)
    assert part(personal(found, "b", 0), "own").y == (0.5, 0.75)
    assert len(personal_over_rounds(found, "b", 0).data[0].z) == 2


def test_of_many_clients_the_own_models_are_a_line_and_the_shared_one_a_band(results):
    count = 200
    shared = np.where(np.arange(count) % 2, 0.2, 0.4)
    own = np.arange(count)[::-1] / count
    found = results([0], distance=1.0, personal_accuracy=own[None], accuracy=shared[None])
    figure = personal(found, "b", 0)
    assert count > SINGLE
    assert part(figure, "own").y == tuple(np.sort(own))
    assert set(part(figure, "low").y) == {0.2}
    assert set(part(figure, "high").y) == {0.4}
    assert part(figure, "shared").y == pytest.approx([0.3] * 21)
    # the lowest twenty of 200 evenly spaced values, and of those of the shared model


def test_a_map_has_a_row_a_client_and_a_column_a_round(results):
    cells = personal_over_rounds(results([0, 4], **THREE), "b", 0).data[0]
    assert cells.x == (0, 4)
    assert [list(row) for row in cells.z] == [[0.2, 0.5], [0.3, 0.7], [0.1, 0.9]]
    assert [row[0] for row in cells.customdata] == [1, 2, 0]


def test_of_many_rounds_evenly_spaced_ones_are_drawn(results):
    values = np.linspace(0, 1, 21)[:, None] * np.ones(3)
    found = results(range(21), distance=1.0, personal_accuracy=values, accuracy=values)
    assert personal_over_rounds(found, "b", 0, columns=5).data[0].x == (0, 5, 10, 15, 20)


def test_the_page_tells_whose_rows_accuracies_are_on(results):
    found = results([0, 4], info={"scored": "server"}, **THREE)
    assert "Accuracies are on the clients&#39; training rows." in page(found)


@pytest.mark.parametrize("status", ["failed", "running"])
def test_models_of_a_run_that_failed_are_not_shown(results, status):
    diverged = {"distance": np.inf, "personal_loss": [[np.inf, np.nan, 1.0]], "loss": np.nan}
    found = results([1], info={"status": status}, **diverged)
    assert (QUESTION in page(found)) == (status == "running")


def test_models_without_any_score_are_not_shown(results):
    assert QUESTION not in page(results([1], distance=[[1.0, 1.0, 1.0]]))


def test_a_run_without_own_models_has_no_figure_and_no_section(tmp_path, run_writer, rows):
    run_writer(tmp_path, "b", 0, rows([2, 1]))
    found = Results.read(tmp_path)
    assert QUESTION not in page(found)
    with pytest.raises(ValueError, match="no models of the clients' own"):
        personal(found, "b", 0)
