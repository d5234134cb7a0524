"""Tests in environments of their own, of packages that those of the other tests exclude."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["flower", "jax"])
def test_its_tests_pass_in_that_environment(name):
    env = os.environ | {"BIN": str(Path(sys.executable).parent)}
    done = subprocess.run(
        ["sh", f"scripts/{name}.sh", "-q"], cwd=ROOT, env=env, capture_output=True, text=True
    )
    assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]
    assert "skipped" not in done.stdout
