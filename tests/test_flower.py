"""Flower apps in an environment of their own, whose packages exclude those of the other tests."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.mark.slow
def test_flower_apps_pass_their_tests_in_that_environment():
    env = os.environ | {"BIN": str(Path(sys.executable).parent)}
    done = subprocess.run(
        ["sh", "scripts/flower.sh", "-q"], cwd=ROOT, env=env, capture_output=True, text=True
    )
    assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]
    assert "skipped" not in done.stdout
