"""The worked examples of CONTRIBUTING.md are files that task, and that `make lint` accepts."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest
import yaml

from rayfed.reproduce.claims import Claims

ROOT = Path(__file__).parents[1]
GUIDE = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
RUN = """
from pathlib import Path
import rayfed
from rayfed.testing import tiny_run

assert Path(rayfed.__file__).is_relative_to(Path.cwd()), rayfed.__file__
still = {"name": "heavyball", "label": "still", "momentum": 0.0}
rows = tiny_run("out", "heavyball", still, "fedavg", rounds=4).rounds.set_index("label")
losses = lambda label: rows.loc[label].loss.dropna().tolist()
assert (rows.loc["heavyball"].momentum_norm.iloc[1:] > 0).all()
assert losses("still") == losses("fedavg")
assert losses("heavyball")[-1] != losses("fedavg")[-1]
"""


def blocks(language):
    """Return the code blocks of a language, those in lists too."""
    found = re.findall(rf"^ *```{language}\n(.*?)^ *```", GUIDE, re.S | re.M)
    return [dedent(text) for text in found]


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    """Copy the package, with the example dropped into it."""
    copy = tmp_path_factory.mktemp("checkout")
    ignored = shutil.ignore_patterns("__pycache__", "_build")
    shutil.copytree(ROOT / "rayfed", copy / "rayfed", ignore=ignored)
    shutil.copy(ROOT / "pyproject.toml", copy)
    algorithm, test = blocks("python")
    (copy / "rayfed" / "algorithms" / "heavyball.py").write_text(algorithm)
    (copy / "tests").mkdir()
    (copy / "tests" / "test_heavyball.py").write_text(test)
    return copy


def called(checkout, *command):
    """Run a command in the copy, on the copy."""
    return subprocess.run(
        [sys.executable, *command],
        cwd=checkout,
        env=os.environ | {"PYTHONPATH": str(checkout)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def succeeds(checkout, *command):
    done = called(checkout, *command)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_example_runs_and_without_momentum_it_is_fedavg(checkout):
    succeeds(checkout, "-c", RUN)


def test_the_test_of_the_example_passes_and_so_does_the_doctest(checkout):
    places = ("tests/test_heavyball.py", "rayfed/algorithms/heavyball.py")
    succeeds(checkout, "-m", "pytest", "-q", "-p", "no:cacheprovider", *places)


def test_ruff_accepts_the_example(checkout):
    examples = ("rayfed/algorithms/heavyball.py", "tests/test_heavyball.py")
    succeeds(checkout, "-m", "ruff", "check", "--no-cache", *examples)
    succeeds(checkout, "-m", "ruff", "format", "--no-cache", "--check", *examples)


@pytest.mark.slow
def test_mypy_accepts_the_example(checkout):
    succeeds(checkout, "-m", "mypy", "--strict", "rayfed/algorithms/heavyball.py")


@pytest.mark.slow
def test_the_contracts_of_algorithms_hold_for_the_example(checkout):
    code = """
    import tempfile
    from pathlib import Path
    from rayfed.core.plugins import find
    from rayfed.testing.checks import checks
    for name, check in checks("algorithms").items():
        with tempfile.TemporaryDirectory() as folder:
            check(find("algorithms")["heavyball"], Path(folder))
    """
    succeeds(checkout, "-c", dedent(code))


def test_the_example_of_claims_is_valid():
    (text,) = blocks("yaml")
    claims = Claims.model_validate(yaml.safe_load(text))
    assert list(claims.parts) == ["main", "sweep"]
