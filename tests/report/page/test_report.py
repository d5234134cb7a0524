"""The page as a file: whole, alone, and safe whatever a study holds."""

import json
import os
import re
import time
from collections import Counter
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from rayfed.report.html import environment, keep_units
from rayfed.report.page import report
from rayfed.report.read import run as records
from tests.fakes.pages import body_of, data_of

NASTY = "</script><script>alert(1)</script> <!-- ü & \"'"


def test_the_page_answers_in_the_readers_order(tmp_path, study_writer):
    path = report.write(study_writer(tmp_path / "study", seeds=2, rounds=30))
    assert path == tmp_path / "study" / "report.html"
    text = body_of(path.read_text(encoding="utf-8"))
    order = ["answer", "Diamonds mark", "Copy as", "What did the", "Who was left", "exactly"]
    places = [text.index(part) for part in order]
    assert places == sorted(places)
    assert not list((tmp_path / "study").glob(".report*"))


def test_the_summary_is_written_at_full_precision(tmp_path, run_writer, rows):
    run_writer(tmp_path, "fedavg", 0, rows([1, 1 / 3]))
    report.write(tmp_path)
    frame = pd.read_csv(tmp_path / "summary.csv")
    assert frame.loc[0, "loss_mean"] == 1 / 3


def test_one_file_that_asks_for_nothing(tmp_path, study_writer):
    page = report.write(study_writer(tmp_path, seeds=1, rounds=5)).read_text(encoding="utf-8")
    own = page.replace(page[page.index('id="plotly"') : page.rindex("<script>")], "")
    assert not re.search(r"""(src|href)=["'](?!data:)""", own)
    assert "@import" not in own
    assert "url(" not in own


def test_what_a_user_writes_stays_text(tmp_path, run_writer, rows):
    study = {"name": NASTY, "description": NASTY}
    run_writer(
        tmp_path,
        NASTY,
        0,
        rows([3, 2, 1]),
        folder="odd",
        study=study,
        status="failed",
        reason=NASTY,
        warnings=[NASTY],
    )
    (tmp_path / "scenario.yaml").write_text(NASTY, encoding="utf-8")
    page = report.write(tmp_path).read_text(encoding="utf-8")
    assert "<script>alert" not in page.replace(page[page.index('id="plotly"') :], "")
    assert data_of(page)["names"][0]["name"] == NASTY


def test_embedded_json_cannot_end_its_element():
    text = environment().from_string("{{ value|tojson }}").render(value={"a": NASTY})
    assert "<" not in text
    assert json.loads(text) == {"a": NASTY}


def test_no_line_ends_between_a_number_and_its_unit():
    assert keep_units("23 % of 3 h 12 min and 4 rounds") == (
        "23\u00a0% of 3\u00a0h 12\u00a0min and 4\u00a0rounds"
    )
    assert keep_units("set 3 hints") == "set 3 hints"


def test_failed_runs_are_named_with_their_reason(tmp_path, run_writer, rows):
    run_writer(tmp_path, "fedavg", 0, rows([3, 2]))
    reason = "loss is not finite in round 2; lower local.lr"
    run_writer(tmp_path, "fedavg", 1, rows([3, np.inf]), status="failed", reason=reason)
    text = body_of(report.write(tmp_path).read_text(encoding="utf-8"))
    assert "1 of 2 runs failed" in text
    assert f"fedavg, seed 1, failed: {reason}" in text


def test_settings_are_shown_flat(tmp_path, run_writer, rows):
    settings = {"name": "fedavg", "label": None, "local": {"lr": 0.1, "steps": None}}
    run_writer(tmp_path, "fedavg", 0, rows([3, 2]), settings=settings)
    text = body_of(report.write(tmp_path).read_text(encoding="utf-8"))
    assert "name=fedavg, local.lr=0.1<" in text


@pytest.mark.parametrize(
    "loss", [[3.0], [3.0, 2.0], [np.nan, np.nan], [3.0, np.nan, 1.0], [-1.0, -2.0], [0.0, 0.0]]
)
def test_few_or_odd_losses_still_make_a_page(tmp_path, run_writer, rows, loss):
    run_writer(tmp_path, "fedavg", 0, rows(loss))
    assert report.write(tmp_path).stat().st_size > 0


def test_a_run_without_any_row_makes_a_page(tmp_path):
    (tmp_path / "fedavg-seed0").mkdir()
    (tmp_path / "fedavg-seed0" / "run.json").write_text('{"label": "fedavg", "status": "running"}')
    text = body_of(report.write(tmp_path).read_text(encoding="utf-8"))
    assert "No loss is recorded yet (so far: 0 of 1 run ended)." in text


def test_regression_has_no_accuracy(tmp_path, study_writer):
    page = report.write(study_writer(tmp_path, seeds=1, rounds=10, accuracy=False))
    text = body_of(page.read_text(encoding="utf-8"))
    assert "final accuracy" not in text
    assert "final loss" in text


def test_only_baselines_are_compared_with_each_other(tmp_path, run_writer, rows):
    run_writer(tmp_path, "centralised", 0, rows([3, 1]))
    run_writer(tmp_path, "local-only", 0, rows([3, 2]))
    text = body_of(report.write(tmp_path).read_text(encoding="utf-8"))
    assert "centralised and local-only reached loss 2 in 1\u00a0round each" in text


def test_twelve_algorithms(tmp_path, study_writer):
    labels = [f"algorithm {i}" for i in range(12)]
    folder = study_writer(tmp_path, labels, seeds=3, rounds=20)
    page = report.write(folder).read_text(encoding="utf-8")
    runs = data_of(page)["runs"]
    assert {run["name"] for run in runs} == set(labels)
    assert len(runs) == 24  # two of three seeds each
    assert len(page) < 4_000_000
    assert "This page has the clients of 24 of 36 runs" in body_of(page)


def test_a_study_is_shown_whole_where_it_can_be(tmp_path, study_writer):
    text = body_of(report.write(study_writer(tmp_path, seeds=1, rounds=5)).read_text("utf-8"))
    assert "This page has the clients" not in text
    assert "rounds are drawn" not in text


def test_thinned_rounds_are_said(tmp_path, run_writer, rows):
    run_writer(tmp_path, "fedavg", 0, rows(list(np.linspace(2, 1, 2501))))
    text = body_of(report.write(tmp_path).read_text(encoding="utf-8"))
    assert "At most 2,000 rounds of each run are drawn." in text


def test_accuracy_is_no_fact_of_a_study_without_it(tmp_path, run_writer, rows):
    run_writer(tmp_path / "a", "fedavg", 0, rows([3, 2]), scored="held-out")
    assert "held-out" not in body_of(report.write(tmp_path / "a").read_text("utf-8"))
    run_writer(tmp_path / "b", "fedavg", 0, rows([3, 2], accuracy=[0.5, 0.6]), scored="held-out")
    assert "on held-out rows" in body_of(report.write(tmp_path / "b").read_text("utf-8"))


def test_the_page_opens_with_the_clients_of_a_rival(tmp_path, study_writer):
    labels = ("centralised", "fedavg")
    text = report.write(study_writer(tmp_path, labels, seeds=1, rounds=5)).read_text("utf-8")
    data = data_of(text)
    assert data["runs"][data["view"]["run"]]["name"] == "fedavg"


def test_a_hundred_thousand_clients(tmp_path, run_writer, rows):
    rng, n = np.random.default_rng(0), 100_000
    clients = pd.DataFrame(
        {
            "client": np.arange(n),
            "samples": rng.integers(10, 100, n),
            "speed_s": rng.lognormal(0, 1, n),
            "selected": 1,
            "used": rng.integers(0, 2, n),
            "loss": rng.random(n),
            "accuracy": rng.random(n),
        }
    )
    events = pd.DataFrame(
        {
            "round": np.repeat(np.arange(1, 101), 1000),
            "ask": 0,
            "client": np.arange(n),
            "start_s": np.repeat(2.0 * np.arange(100), 1000),
            "compute_s": 1.0,
            "end_s": np.repeat(2.0 * np.arange(100), 1000) + 1.5,
            "status": "used",
            "loss": 1.0,
            "steps": 5,
        }
    )
    run_writer(tmp_path, "fedavg", 0, rows(list(np.linspace(2, 1, 101))), events, clients)
    started = time.perf_counter()
    page = report.write(tmp_path)
    assert time.perf_counter() - started < 15
    assert page.stat().st_size < 4_000_000
    notes = json.dumps(data_of(page.read_text(encoding="utf-8"))["panels"])
    assert "100,000 clients are taken together in tenths" in notes


def test_it_is_told_what_is_done_for_the_page(tmp_path, study_writer):
    said = []
    folder = study_writer(tmp_path, seeds=1, rounds=5)
    report.write(folder, progress=lambda *step: said.append(step))
    assert said[:4] == [(k, 4, "reading runs") for k in range(1, 5)]
    drawn = said[4:]
    assert [done for done, _, _ in drawn] == list(range(len(drawn)))
    assert {total for _, total, _ in drawn} == {len(drawn)}
    assert drawn[0][2] == "drawing headline"


def test_no_file_is_read_twice_and_the_clients_of_a_run_are_ordered_once(
    tmp_path, study_writer, monkeypatch
):
    """Each of ten figures ordered the clients of each run anew."""
    folder = study_writer(tmp_path / "study", seeds=1, rounds=5)
    runs = len(list(folder.glob("*/run.json")))
    called = Counter()

    def counted(holder, name, key):
        whole = getattr(holder, name)

        def counting(first, *given, **options):
            called[key(first)] += 1
            return whole(first, *given, **options)

        monkeypatch.setattr(holder, name, counting)

    counted(records, "by_speed", lambda clients: "ordered")
    counted(records, "Usage", lambda rounds: "usage")
    counted(os, "open", str)  # how files of result folders are opened
    counted(Path, "read_text", str)
    report.write(folder)
    assert 0 < called.pop("ordered") <= runs
    assert 0 < called.pop("usage") <= runs
    read = {path: times for path, times in called.items() if path.startswith(str(folder))}
    assert len(read) > 3 * runs
    assert set(read.values()) == {1}, {k: v for k, v in read.items() if v > 1}
