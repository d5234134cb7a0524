"""What results rest on: fingerprints of data, the commit, and what a short part lacks."""

import hashlib
import subprocess

import numpy as np
import pytest

from rayfed import api
from rayfed.reproduce.provenance import commit, fingerprint, shortened
from rayfed.study import Study

RAW = {
    "name": "own",
    "rounds": 2,
    "problem": {"name": "least-squares", "intercept": False, "test": 0},
    "clients": {"count": 2},
    "algorithms": ["fedavg"],
}


def plan(values, targets):
    data = {"name": "arrays", "data": {"X": np.asarray(values), "y": np.asarray(targets)}}
    return api.prepare(Study.parse(RAW | {"problem": RAW["problem"] | {"dataset": data}}))


def test_a_fingerprint_is_that_of_features_and_targets():
    X, y = np.array([[1.0], [2.0], [3.0]]), np.array([0.5, 1.5, 2.5])
    known = hashlib.blake2b(digest_size=16)
    known.update(b"<f8 (3, 1)" + X.tobytes() + b"<f8 (3,)" + y.tobytes())
    held = fingerprint(plan(X, y))
    assert (held["rows"], held["digest"]) == (3, known.hexdigest())
    assert fingerprint(plan(X, [0.5, 1.5, 2.6]))["digest"] != held["digest"]
    assert fingerprint(plan([[1.0], [2.0], [3.5]], y))["digest"] != held["digest"]


def test_the_commit_of_a_checkout_says_whether_files_are_changed(tmp_path):
    package = tmp_path / "rayfed"
    package.mkdir()
    assert commit(package) == ""  # installed
    (package / "a.py").write_text("1")

    def git(*words):
        who = ("-c", "user.name=a", "-c", "user.email=a@example.org")
        done = ["git", "-C", str(tmp_path), *who, *words]
        return subprocess.run(done, check=True, capture_output=True, text=True).stdout.strip()

    git("init")
    git("add", ".")
    git("commit", "-m", "one")
    head = git("rev-parse", "HEAD")
    (tmp_path / "results").write_text("untracked")
    assert commit(package) == head
    (package / "a.py").write_text("2")
    assert commit(package) == f"{head}+"


@pytest.mark.parametrize(
    ("full", "words"),
    [
        ({"rounds": 500}, ["2 of 500 rounds"]),
        ({"rounds": 2}, []),
        ({"problem.l2": 0.1}, ["l2 0.0 in place of 0.1"]),
        (
            {"problem.dataset": {"name": "line", "samples": 60}},
            ["dataset.samples 5 in place of 60"],
        ),
        (
            {"problem.dataset": {"name": "linear", "samples": 5}},
            ["dataset line in place of linear"],
        ),
        ({"algorithms.0.local.lr": 0.5, "evaluate.every": 7}, []),  # no less of anything
    ],
)
def test_what_a_short_part_has_in_place_of_the_source(full, words):
    data = {"name": "line", "samples": 5}
    raw = RAW | {"problem": RAW["problem"] | {"dataset": data}}
    short = Study.parse(raw)
    long = Study.parse(api.apply_overrides(raw, full))
    assert shortened(full, short, long) == words
