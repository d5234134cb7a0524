"""What the server of the dashboard sends."""

import asyncio
import io
import json
import os
import shutil

import pandas as pd
import pytest

pytest.importorskip("starlette", reason="starlette is not installed")

from starlette.testclient import TestClient

import rayfed
from rayfed.core.entries import sealed
from rayfed.core.leases import LOCK, lease
from rayfed.core.notes import FILE, Notes
from rayfed.dashboard.catalogue import Catalogue
from rayfed.dashboard.server import REST, REST_S, Dashboard, Watch
from rayfed.dashboard.views import VIEWS
from rayfed.report.panels import timeline
from rayfed.report.panels.base import Section, find
from rayfed.testing.studies import mixed
from tests.fakes.pages import data_of


@pytest.fixture
def client(folder):
    return client_of(folder)


def client_of(folder, control=False):
    app = Dashboard(Catalogue([folder]), find(), control).app("127.0.0.1", 8270, "token")
    headers = {"Authorization": "Bearer token"}
    return TestClient(
        app, base_url="http://127.0.0.1:8270", raise_server_exceptions=True, headers=headers
    )


def test_every_section_of_the_page_is_in_a_view():
    assert {each for sections in VIEWS.values() for each in sections} == set(Section)


def test_the_overview_lists_every_run(client):
    text = client.get("/").text
    assert "3 runs in 2 studies: 3 finished" in text
    assert '<td data-head="runs">2\u00a0finished</td>' in text  # no line ends between them
    assert text.count("<tr data-run=") == 3
    assert '<a href="/compare?study=results/deep/second">' in text


def test_what_runs_are_called_is_escaped(client, folder):
    path = folder / "first" / "fedavg-seed3" / "run.json"
    evil = "<script>alert(1)</script>"
    held = json.loads(path.read_text()) | {"label": evil, "status": "failed", "reason": evil}
    path.write_text(json.dumps(sealed(held)))
    for address in ("/", "/compare?study=results/first", "/settings?study=results/first"):
        text = client.get(address).text
        assert evil not in text
        assert "&lt;script&gt;alert(1)" in text


def test_columns_groups_and_axes_are_in_the_address(client):
    address = "column=rounds&group=rounds&x=rounds&y=best+accuracy"
    for text in (client.get(f"/?{address}").text, client.get(f"/overview.json?{address}").text):
        assert "best accuracy over rounds" in text
    text = client.get(f"/?{address}").text
    assert '<tbody data-group="12">' in text
    assert '<td data-key="12.0">12</td>' in text
    found = client.get(f"/overview.json?{address}").json()["scatter"]["figure"]
    assert [(trace["x"], len(trace["customdata"])) for trace in found["data"]] == [
        ([4.0], 1), ([12.0, 12.0], 2)
    ]  # fmt: skip
    evil = client.get("/?group=%3Cscript%3E&x=%3Cscript%3E&column=%3Cscript%3E")
    assert evil.status_code == 200
    assert "&lt;script&gt;" not in evil.text


def test_notes_are_on_the_overview_and_on_the_page_escaped(client, folder):
    evil = "<script>alert(1)</script>"
    Notes(evil, ("<b>",)).write(folder / "first")
    client.get("/")
    for address in ("/", "/compare?study=results/first", "/save/compare?study=results/first"):
        text = client.get(address).text
        assert evil not in text
        assert "&lt;script&gt;alert(1)" in text
        assert "&lt;b&gt;" in text
    (folder / "first" / FILE).write_text("{")
    assert "notes.json: cannot be read" in client.get("/").text
    assert "alert(1)" not in client.get("/compare?study=results/first").text


@pytest.mark.parametrize("view", [*VIEWS, "log"])
def test_every_view_has_an_address_and_what_it_shows_now(client, view):
    address = "study=results/first"
    page = client.get(f"/{view}?{address}")
    assert page.status_code == 200
    assert f'<a href="/{view}?study=results%2Ffirst" aria-current="page">' in page.text
    now = client.get(f"/{view}.json?{address}").json()
    assert now["main"].strip() in page.text
    assert now["data"] is None or now["data"]["live"]


def test_heterogeneity_leads_to_the_columns_that_tell_of_it(client, folder):
    evaluate = {"measures": ["skew", "heterogeneity"]}
    rayfed.run(mixed(evaluate=evaluate, rounds=3), out=folder / "unlike", page=False)
    text = client.get("/heterogeneity?study=results/unlike").text
    address = '<a href="/compare?study=results%2Funlike#y=client_drift">client drift</a>'
    assert address in text
    assert "#y=skew" in text
    assert address in client.get("/heterogeneity.json?study=results/unlike").json()["main"]
    assert "Over rounds" not in client.get("/heterogeneity?study=results/first").text


def test_ticked_runs_of_several_studies_are_one_comparison(client):
    query = "run=results/first/fedavg-seed4&run=results/deep/second/fedavg-seed3"
    data = client.get(f"/compare.json?{query}").json()["data"]
    runs = data["panels"]["convergence"]["parts"][0]["curves"]["runs"]
    assert {run["seed"] for run in runs} == {3, 4}


def test_of_a_study_single_runs_are_shown(client):
    data = client.get("/compare.json?run=results/first/fedavg-seed4").json()["data"]
    assert [run["seed"] for run in data["panels"]["convergence"]["parts"][0]["curves"]["runs"]] == [
        4
    ]


def test_a_client_tells_all_that_it_did(client, folder, monkeypatch):
    events = rayfed.load(folder / "first").events.query("seed == 4")
    who = int(events["client"].iloc[-1])
    mine = events[events["client"] == who]
    told = client.get(f"/client.json?run=results/first/fedavg-seed4&client={who}").json()
    assert told["round"] == mine["round"].to_list()
    assert told["status"] == mine["status"].astype(str).to_list()
    assert set(told["client"]) == {who}
    assert told["until"] is None
    payload = client.get("/clients.json?run=results/first/fedavg-seed4").json()["data"]
    assert payload["runs"][0]["key"] == "results/first/fedavg-seed4"
    assert payload["panels"]["timeline"]["histories"][0]["events"] is None  # it is asked for
    nobody = client.get("/client.json?run=results/first/fedavg-seed4&client=999").json()
    assert nobody == {"round": [], "client": [], "status": [], "until": None}
    run = "run=results/first/fedavg-seed4"
    for query in (
        "run=../../etc&client=1",
        f"{run}&client=x",
        f"{run}&client={'9' * 5000}",
        "client=1",
    ):
        assert client.get(f"/client.json?{query}").status_code == 404
    monkeypatch.setattr(timeline, "FIRST_EVENTS", 2)  # of one client of very many events
    first = client.get(f"/client.json?run=results/first/fedavg-seed4&client={who}").json()
    rounds = mine["round"].to_list()
    assert len(rounds) > 2
    assert (first["round"], first["until"]) == (rounds[:2], rounds[1])


def test_what_a_saved_page_lacks_of_a_view_is_nothing(client, folder):
    """The tables that are no panels are in it: processes of what goes on, and what differs."""
    path = folder / "first" / "fedavg-seed3" / "run.json"
    held = json.loads(path.read_text()) | {"status": "running"}
    both = "study=results/first&study=results/deep/second"
    assert "<h2>What differs" in client.get(f"/save/settings?{both}").text
    assert "of memory</h2>" not in client.get("/save/machine?study=results/first").text
    path.write_text(json.dumps(sealed(held)))
    with lease(folder / "first" / LOCK):
        text = client.get("/save/machine?study=results/first").text
        now = client.get("/machine.json?study=results/first").json()["main"]
    for page in (text, now):
        assert "of memory</h2>" in page
        assert f"<td>{os.getpid()}</td>" in page


def test_a_view_is_saved_as_one_page_that_opens_as_it_stood(client):
    query = {"study": "results/first", "at": "x=time_s&target=0.5"}
    answer = client.get("/save/compare", params=query)
    assert answer.headers["content-disposition"] == 'attachment; filename="compare.html"'
    assert data_of(answer.text)["opening"] == "x=time_s&target=0.5"
    assert "Plotly" in answer.text
    assert "EventSource" not in answer.text
    assert client.get("/save/log", params=query).status_code == 404


def test_the_rows_of_a_view_are_given_as_csv_and_parquet(client, folder):
    recorded = rayfed.load(folder / "first")
    text = client.get("/data/compare.csv?study=results/first").text
    rounds = pd.read_csv(io.StringIO(text))
    assert rounds["loss"].to_list() == recorded.rounds["loss"].to_list()
    held = client.get("/data/clients.parquet?run=results/first/fedavg-seed4").content
    clients = pd.read_parquet(io.BytesIO(held))
    assert clients["client"].to_list() == recorded.clients.query("seed == 4")["client"].to_list()
    assert client.get("/data/compare.pickle?study=results/first").status_code == 404


@pytest.mark.parametrize(
    ("address", "text"),
    [
        ("/compare", "no run is chosen; tick some in the overview"),
        ("/compare?study=results/third", "is no study here"),
        ("/compare?study=../../etc", "no study"),
        ("/compare?run=results/first/../../../etc/passwd", "no study"),
        ("/compare?run=results/first/fedavg-seed9", "is no run of this study"),
        ("/log?study=/etc", "no study"),
        ("/etc/passwd", ""),
        ("/nothing", "found no such view"),
    ],
)
def test_nothing_outside_the_folders_can_be_asked_for(client, address, text):
    answer = client.get(address)
    assert answer.status_code == 404
    assert text in answer.text
    assert "root:" not in answer.text


ACTIONS = ("stop", "resume", "extend", "note", "archive", "restore", "delete")


@pytest.mark.parametrize("action", ACTIONS)
def test_without_control_nothing_is_changed(client, folder, action):
    client.get("/?token=token")
    body = {"study": "results/first", "text": "", "tags": "", "name": "first"}
    assert client.post(f"/control/{action}", json=body).status_code in (404, 405)
    assert "data-do=" not in client.get("/").text
    assert (folder / "first" / "scenario.yaml").is_file()
    assert not (folder / "first" / FILE).exists()


@pytest.mark.parametrize("action", ACTIONS)
@pytest.mark.parametrize(
    "headers", [{"Authorization": "Bearer other"}, {"Origin": "http://elsewhere.example"}]
)
def test_nobody_else_changes_studies(folder, action, headers):
    """Without the token, and for the pages of other servers."""
    body = {"study": "results/first", "text": "", "tags": "", "name": "first"}
    client = client_of(folder, control=True)
    client.get("/")
    assert client.post(f"/control/{action}", json=body, headers=headers).status_code == 403
    assert (folder / "first" / "scenario.yaml").is_file()
    assert not (folder / "first" / FILE).exists()


def test_a_study_is_noted_archived_and_deleted(folder):
    client = client_of(folder, control=True)
    assert "data-do=" in client.get("/").text
    study = {"study": "results/first"}
    answer = client.post("/control/note", json=study | {"text": "Steep.", "tags": "a"}).json()
    assert answer == {"done": "notes of results/first are saved"}
    assert "Steep." in client.get("/").text
    assert client.post("/control/archive", json=study).status_code == 200
    assert "1 run in 1 study" in client.get("/").text
    assert "Steep." in client.get("/?archived=1").text
    refused = client.post("/control/delete", json=study | {"name": "second"})
    assert (refused.status_code, refused.json()) == (
        200, {"error": "delete: found another name; type 'first' to delete it"},
    )  # fmt: skip
    assert client.post("/control/delete", json=study | {"name": "first"}).status_code == 200
    assert not (folder / "first").exists()


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 400), (b"{", 400), (b"\xff", 400), (b"[" * 100_000, 400),
        (b"[1]", 200), (b"3", 200), (b"null", 200), (b'{"study": "none"}', 200),
    ],
)  # fmt: skip
def test_bodies_that_name_no_study_are_refused_in_a_line(folder, body, status):
    answer = client_of(folder, control=True).post("/control/stop", content=body)
    assert answer.status_code == status
    assert "\n" not in answer.json()["error"]


def test_a_panel_that_fails_is_said_and_the_rest_stays(client, folder):
    (folder / "first" / "fedavg-seed3" / "rounds.parquet").rename(folder / "first" / "gone")
    assert client.get("/compare?study=results/first").status_code == 200
    assert client.get("/").status_code == 200


def test_listeners_are_told_what_has_changed(folder):
    async def listened():
        watch = Watch(Catalogue([folder]))
        await watch.look()
        stream = watch.stream()
        assert await anext(stream) == "retry: 2000\n\n"
        await asyncio.to_thread(rayfed.run, mixed(), out=folder / "third", page=False)
        await watch.look()
        event = await anext(stream)
        await stream.aclose()
        return event, watch.listeners

    event, listeners = asyncio.run(listened())
    assert event == 'data: ["results/third"]\n\n'
    assert not listeners


def test_nobody_looks_at_the_folders_while_nobody_listens(folder, monkeypatch):
    monkeypatch.setattr("rayfed.dashboard.server.LOOK_S", 0.001)
    looks = []

    async def unheard():
        watch = Watch(Catalogue([folder]))
        monkeypatch.setattr(watch.catalogue, "look", lambda: looks.append(1) or frozenset())
        task = asyncio.create_task(watch.run())
        await asyncio.sleep(0.02)
        alone = len(looks)
        stream = watch.stream()
        await anext(stream)
        await asyncio.sleep(0.05)
        task.cancel()
        await stream.aclose()
        return alone

    assert asyncio.run(unheard()) == 0
    assert looks


@pytest.mark.parametrize("view", ["compare", "compare.json"])
def test_a_browser_keeps_a_view_until_a_file_changes(client, folder, view):
    address = f"/{view}?study=results/first"
    first = client.get(address)
    assert 0 < float(first.headers[REST]) <= REST_S
    again = client.get(address, headers={"If-None-Match": first.headers["ETag"]})
    assert (again.status_code, again.content) == (304, b"")
    assert client.get(address).content == first.content
    os.utime(folder / "first" / "fedavg-seed3" / "run.json")
    third = client.get(address, headers={"If-None-Match": first.headers["ETag"]})
    assert third.status_code == 200
    assert third.headers["ETag"] != first.headers["ETag"]


def test_the_log_is_read_each_time(client, folder):
    answers = [client.get("/log?study=results/first")]
    (folder / "first" / "fedavg-seed3" / "log.txt").write_text("one more line")
    answers.append(client.get("/log?study=results/first"))
    assert ["one more line" in answer.text for answer in answers] == [False, True]
    assert not any("ETag" in answer.headers for answer in answers)


def test_a_view_shows_the_runs_that_are_left_and_names_those_that_are_not(client):
    there = "run=results/first/fedavg-seed3"
    gone = "study=results/third&run=results/first/fedavg-seed9"
    lines = ["results/third: is no study here", "fedavg-seed9: is no run of this study"]
    for view in ("compare", "log"):
        answers = [client.get(f"/{view}{kind}?{there}&{gone}") for kind in ("", ".json")]
        for answer, text in zip(answers, (answers[0].text, answers[1].json()["main"]), strict=True):
            assert answer.status_code == 200
            assert all(f"{line}; it may have been moved or deleted" in text for line in lines)
        assert '?run=results%2Ffirst%2Ffedavg-seed3"' in answers[0].text  # links to other views
    assert client.get(f"/compare?{gone}").status_code == 404
    assert "may have been moved" not in client.get(f"/compare?{there}").text


def test_a_study_that_is_deleted_meanwhile_is_a_line(client, folder):
    assert client.get("/compare?study=results/first").status_code == 200
    shutil.rmtree(folder / "first")
    answer = client.get("/compare.json?study=results/first")
    assert answer.status_code == 404
    assert "it may have been moved or deleted" in answer.json()["error"]
    assert "1 run in 1 study: 1 finished" in client.get("/").text
    shutil.rmtree(folder)
    assert "There is no study here yet" in client.get("/").text


def test_twenty_tabs_are_told_and_forgotten(folder):
    async def listened():
        watch = Watch(Catalogue([folder]))
        await watch.look()
        streams = [watch.stream() for _ in range(20)]
        for stream in streams:
            await anext(stream)
        (folder / "first").rename(folder / "moved")
        await watch.look()
        events = {await anext(stream) for stream in streams}
        for stream in streams:
            await stream.aclose()
        return events, len(watch.listeners)

    assert asyncio.run(listened()) == ({'data: ["results/first", "results/moved"]\n\n'}, 0)


def test_a_record_that_is_damaged_is_a_failed_run_among_the_others(client, folder):
    (folder / "first" / "fedavg-seed3" / "run.json").write_text("{")
    text = client.get("/").text
    assert "failed: damaged: run.json" in text
    assert 'aria-label="compare fedavg  seed 3 of results/first"' in text
