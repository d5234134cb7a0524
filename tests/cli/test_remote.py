"""Commands on result folders at URLs: each tasks, or says in a line why not."""

import sys
from pathlib import Path

import pytest

import rayfed
from rayfed.core.errors import ScenarioError
from rayfed.runs.remote import objects as owners
from rayfed.runs.remote.objects import Objects
from tests.cli.test_results_commands import STUDY

URL = "memory://store/study"


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """A study at `URL`, whose copy is in a cache folder that no test has."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(owners, "SETTLE_S", 0.0)
        patch.setattr(rayfed.Result, "report", lambda result, **_: None)  # it takes long
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        rayfed.run(STUDY, out=URL)
    objects = Objects(URL)
    yield objects
    objects.delete(objects.list())


@pytest.fixture
def remote(stored, command, monkeypatch, tmp_path):
    """Return a function that runs a command, and the objects that it makes or replaces."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))

    def go(*words):
        before = stored.list()
        result = command(*words)
        after = stored.list()
        return *result, {name for name in after if before.get(name) != after[name]}

    return go


def test_commands_that_write_beside_the_runs_upload_it(remote):
    for words, made in [
        (("report", URL), {"report.html", "summary.csv"}),
        (("best", URL), {"best.csv", "best.yaml"}),
        (("figures", URL, "--what", "table-finals"), {"paper/table-finals.tex"}),
    ]:
        status, out, err, uploaded = remote(*words)
        assert (status, err.strip(), uploaded) == (0, "", made), words
        assert f"uploaded to {URL}" in out


def test_commands_that_write_here_upload_nothing(remote, tmp_path, monkeypatch):
    monkeypatch.setattr("rayfed.report.page.report.page", lambda results, **_: "")  # it takes long
    monkeypatch.setattr(rayfed.Result, "report", lambda result, **_: None)
    rayfed.run(STUDY, out="here", overrides={"problem.l2": 0.5})
    for words in [
        ("export", URL, "--run", "fedavg-seed0", "--to", "model.npz"),
        ("export", URL, "--csv", "--to", "csv"),
        ("compare", URL, "here"),
    ]:
        status, _, err, uploaded = remote(*words)
        assert (status, uploaded) == (0, set()), err
    assert {"model.npz", "csv", "compare.html"} <= {path.name for path in tmp_path.iterdir()}


def test_a_page_that_cannot_be_uploaded_is_kept_and_named(remote, monkeypatch):
    def refused(self, source, target, **how):
        raise PermissionError("Access Denied")

    monkeypatch.setattr("fsspec.implementations.memory.MemoryFileSystem.put_file", refused)
    monkeypatch.setattr("rayfed.report.page.report.page", lambda *shown: "")  # it takes long
    status, _, err, uploaded = remote("report", URL)
    assert (status, uploaded) == (1, set())
    assert err.startswith(
        f"rayfed: {URL}: cannot be written (Access Denied); what was written is in"
    )


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (("run", "s.yaml", "--out", "xyz://a/b"), "xyz://a/b: unknown protocol 'xyz'; known: "),
        (
            ("run", "s.yaml", "--out", "gs://a/b"),
            "gs://a/b: needs the extra gs: pip install 'gcsfs>=2024.6'",
        ),
        (("resume", "memory://a/b"), "memory://a/b: is no result folder"),
        (("export", "x", "--to", URL), f"{URL}: is a URL; give a path of this machine"),
        (("figures", "x", "--out", URL), f"{URL}: is a URL"),
        (("compare", "x", "y", "--out", URL), f"{URL}: is a URL"),
        (("reproduce", "x", "--out", URL), f"{URL}: is a URL"),
    ],
)
def test_what_does_not_work_is_a_line(remote, words, line, monkeypatch):
    monkeypatch.setitem(sys.modules, "gcsfs", None)
    status, _, err, _ = remote(*words)
    assert status == 2
    assert err.startswith(f"rayfed: {line}")
    assert err.count("\n") == 1


def test_a_url_as_a_path_is_refused(tmp_path):
    with pytest.raises(ScenarioError, match="a URL must be a str: a Path drops one of its slashes"):
        rayfed.load(Path("s3://bucket/study"))
