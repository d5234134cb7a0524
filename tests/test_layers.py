"""The layers of the tree are a rule: a copy of the package passes, an import upwards fails."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
CLIENTS = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import rayfed.clients.host"
UPWARDS = {
    "rayfed/core/__init__.py": ("import rayfed.messages", "rayfed.core -> rayfed.messages"),
    "rayfed/problems/__init__.py": (CLIENTS, "rayfed.problems -> rayfed.clients.host"),
    "rayfed/engine/__init__.py": ("import rayfed.api", "rayfed.engine -> rayfed.api"),
    "rayfed/report/figures/__init__.py": (
        "import rayfed.report.panels.usage",
        "rayfed.report.figures -> rayfed.report.panels.usage",
    ),
    "rayfed/report/panels/usage.py": (
        "import rayfed.report.panels.walk",
        "rayfed.report.panels.usage -> rayfed.report.panels.walk",
    ),
    "rayfed/algorithms/__init__.py": ("import ray", "rayfed.algorithms -> ray"),
}
"""By file an import that its layer may not make, and how the linter shows it."""


@pytest.fixture
def checkout(tmp_path):
    """Copy the package and the rule."""
    shutil.copytree(
        ROOT / "rayfed", tmp_path / "rayfed", ignore=shutil.ignore_patterns("__pycache__")
    )
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    return tmp_path


def linted(checkout):
    program = "from importlinter.cli import lint_imports; raise SystemExit(lint_imports())"
    return subprocess.run(
        [sys.executable, "-c", program],
        cwd=checkout,
        env=os.environ | {"PYTHONPATH": str(checkout)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_the_tree_keeps_its_layers(checkout):
    done = linted(checkout)
    assert done.returncode == 0, done.stdout
    assert "0 broken" in done.stdout


def test_imports_upwards_are_refused(checkout):
    for path, (imports, _) in UPWARDS.items():
        file = checkout / path
        file.write_text(f"{file.read_text(encoding='utf-8')}\n{imports}\n", encoding="utf-8")
    done = linted(checkout)
    assert done.returncode == 1, done.stdout
    for _, arrow in UPWARDS.values():
        assert arrow in done.stdout


def test_no_process_takes_the_current_folder_for_the_library():
    """Whatever starts ``python -m rayfed...`` says -P, or a folder of that name would run."""
    for path in (ROOT / "rayfed").rglob("*.py"):
        for line in path.read_text(encoding="utf-8").splitlines():
            if '"-m", "rayfed' in line:
                assert '"-P"' in line, path
