"""The part of 96 of the slow tests that a commit runs: all of them within 96 commits."""

import shutil
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "part.sh"
PARTS = [f"{k}/96" for k in range(1, 97)]
pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="needs git")


def run(*command, folder):
    done = subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def commit(folder, text):
    who = ("-c", "user.name=a", "-c", "user.email=a@b.c", "-c", "commit.gpgsign=false")
    run("git", *who, "commit", "--quiet", "--allow-empty", "-m", text, folder=folder)


@pytest.fixture
def repository(tmp_path, monkeypatch):
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    for name in ("GIT_AUTHOR_DATE", "GIT_COMMITTER_DATE"):  # digests are the same every time
        monkeypatch.setenv(name, "2026-01-01T00:00:00Z")
    for name in ("GIT_DIR", "GIT_WORK_TREE"):  # set where a hook runs the tests
        monkeypatch.delenv(name, raising=False)
    folder = tmp_path / "repository"
    folder.mkdir()
    run("git", "init", "--quiet", folder=folder)
    return folder


def test_as_many_commits_as_parts_run_every_part(repository):
    seen = []
    for number in range(len(PARTS)):
        commit(repository, f"change {number}")
        seen.append(run("sh", SCRIPT, folder=repository))
    assert seen == [*PARTS[1:], PARTS[0]]


def test_shallow_clones_of_different_commits_run_different_parts(repository, tmp_path):
    seen = set()
    for number in range(12):
        commit(repository, f"change {number}")
        clone = tmp_path / str(number)
        source = repository.as_uri()
        run("git", "clone", "--quiet", "--depth", "1", source, str(clone), folder=tmp_path)
        told = run("sh", SCRIPT, folder=clone)
        assert told == run("sh", SCRIPT, folder=clone)
        seen.add(told)
    assert seen <= set(PARTS)
    assert len(seen) > 4


def test_without_git_there_is_a_part_all_the_same(tmp_path, monkeypatch):
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert run("sh", SCRIPT, folder=tmp_path) in PARTS
