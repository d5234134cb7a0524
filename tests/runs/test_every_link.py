"""Every name in a result folder is a link or a pipe in turn: none is followed or waited for."""

import json
import os
import shutil
import signal
from contextlib import suppress

import pytest

pytest.importorskip("starlette", reason="starlette is not installed")

from starlette.testclient import TestClient

import rayfed
from rayfed import api
from rayfed.core.entries import sealed
from rayfed.core.errors import RayfedError
from rayfed.core.files import read_json
from rayfed.dashboard.catalogue import Catalogue
from rayfed.dashboard.server import Dashboard
from rayfed.dashboard.views import VIEWS
from rayfed.executors.serial import SerialExecutor
from rayfed.report.best import Aim, Best
from rayfed.report.page.report import compare
from rayfed.report.panels.base import find
from rayfed.report.read import run as run_module
from rayfed.report.read.results import Results
from rayfed.runs.driver import Driver
from rayfed.runs.files.stops import STOPPED
from rayfed.testing.studies import mixed

SECRET = "what-is-only-mine"
RUN = "fedavg-seed3"
GROWING = ("history.jsonl", "resume.log", ".scenario.yaml.tmp", "notes.md", "best.csv", "csv")
GROWING_OF_A_RUN = ("log.txt", "parts.jsonl", ".lock", ".run.json.tmp", "stop", "profile.json")


def stop(driver, now):
    if now.round == 3:
        driver.stop()


@pytest.fixture(scope="module")
def states(tmp_path_factory):
    """A finished study, an interrupted one, and one whose run says that it goes on."""
    root = tmp_path_factory.mktemp("states")
    rayfed.run(mixed(rounds=4), out=root / "finished", page=True)
    plan = api.prepare(api.read(mixed(rounds=6)))
    api.begin(plan, root / "interrupted")
    (run,) = plan.runs
    driver = Driver(run, root / "interrupted", SerialExecutor(plan.tables))
    driver.records.every_s = 0
    assert driver.execute(report=lambda now: stop(driver, now)) == STOPPED
    shutil.copytree(root / "interrupted", root / "running")
    path = root / "running" / RUN / "run.json"
    held = read_json(path) | {"status": "running"}
    held.pop("files", None)
    path.write_text(json.dumps(sealed(held)))
    return root


def names(state):
    found = {str(path.relative_to(state)) for path in state.rglob("*")}
    return sorted(found | {*GROWING} | {f"{RUN}/{name}" for name in GROWING_OF_A_RUN})


def outside(root):
    """Make files and a folder of the user's."""
    (root / "docs" / "sub").mkdir(parents=True)
    for name in ("docs/a.tex", "docs/sub/deep.txt", "docs/part-000000000000.parquet", "bashrc"):
        (root / name).write_text(SECRET)
    return held(root)


def held(root):
    return {str(path): path.is_file() and path.read_bytes() for path in root.rglob("*")}


def look(folder):
    """Do with a result folder what only reads it, or writes what is told of it."""
    attempt(lambda: Results.read(folder).runs_found)
    attempt(lambda: rayfed.load(folder).report())
    attempt(lambda: rayfed.load(folder).rounds)
    attempt(lambda: best_of(folder))
    attempt(lambda: rayfed.load(folder).export_runs("csv"))
    attempt(lambda: rayfed.load(folder).weights())
    attempt(lambda: compare([folder, folder], folder.parent / "both.html"))


def attempt(act):
    """Do something that may be refused in a line."""
    with suppress(RayfedError):
        act()


def best_of(folder):
    results = Results.read(folder)
    Best(results, Aim.of(results, None, None, None)).write()


def go_on(folder):
    attempt(lambda: rayfed.extend(folder, rounds=8))
    attempt(lambda: rayfed.resume(folder, watch=False, page=False))
    attempt(lambda: rayfed.stop(folder))


def show(folder):
    app = Dashboard(Catalogue([folder.parent]), find()).app("127.0.0.1", 8270, "token")
    client = TestClient(
        app, base_url="http://127.0.0.1:8270", headers={"Authorization": "Bearer token"}
    )
    assert client.get("/").status_code == 200
    for view in (*VIEWS, "log"):
        reply = client.get(f"/{view}?study={folder.parent.name}/{folder.name}")
        assert reply.status_code in (200, 404), (view, reply.text)
        assert SECRET not in reply.text


def link_to_file(path, root):
    path.symlink_to(root / "bashrc")


def link_to_folder(path, root):
    path.symlink_to(root / "docs")


def pipe(path, root):
    os.mkfifo(path)


def replace(path, kind, root):
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
    kind(path, root)


KINDS = (link_to_file, link_to_folder, pipe)
SOME = {
    ("interrupted", link_to_file): ("scenario.yaml", f"{RUN}/.run.json.tmp"),
    ("interrupted", link_to_folder): (f"{RUN}/rounds.parquet", f"{RUN}/checkpoint"),
    ("running", pipe): (f"{RUN}/parts.jsonl", f"{RUN}/log.txt"),
}
"""Names that are tried always."""


@pytest.fixture
def limited(monkeypatch):
    """Let nothing wait for a pipe for ever, or for what is written meanwhile."""
    monkeypatch.setattr(run_module, "_PAUSE_S", 0.0)

    def waits(number, frame):
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, waits)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def check(state, name, kind, act, tmp_path):
    mine, folder = outside(tmp_path / "home"), tmp_path / "all" / "study"
    shutil.copytree(state, folder)
    replace(folder / name, kind, tmp_path / "home")
    signal.alarm(60)
    act(folder)
    assert held(tmp_path / "home") == mine
    shutil.rmtree(tmp_path / "all")
    shutil.rmtree(tmp_path / "home")


@pytest.mark.usefixtures("limited")
@pytest.mark.parametrize("act", [look, go_on, show])
@pytest.mark.parametrize(("state", "kind"), SOME)
def test_what_was_followed_or_waited_for_once(states, state, kind, act, tmp_path):
    for name in SOME[state, kind]:
        check(states / state, name, kind, act, tmp_path)


@pytest.mark.slow
@pytest.mark.usefixtures("limited")
@pytest.mark.parametrize("act", [look, go_on, show])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("state", ["finished", "interrupted", "running"])
def test_no_link_is_followed_and_no_pipe_is_waited_for(states, state, kind, act, tmp_path):
    for name in names(states / state):
        check(states / state, name, kind, act, tmp_path)
