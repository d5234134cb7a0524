"""What `rayfed run` imports, in processes of its own: a small study begins within a second."""

import subprocess
import sys

import pytest
import yaml

SMALL = {
    "name": "small",
    "rounds": 3,
    "problem": {"name": "softmax-regression", "dataset": {"name": "synthetic", "features": 3}},
    "clients": {"count": 4},
    "participation": {"cohort": 2},
    "algorithms": [{"name": "fedavg", "local": {"steps": 2, "lr": 0.1}}],
    "executor": "serial",
}
HEAVY = """{
    "fsspec", "jinja2", "matplotlib", "networkx", "optuna", "pandas", "plotly", "ray",
    "scipy.linalg", "scipy.optimize", "scipy.sparse", "scipy.stats", "torch",
}"""


@pytest.fixture
def told(tmp_path):
    """Runs a command after some lines of Python, and returns what it prints."""
    (tmp_path / "s.yaml").write_text(yaml.safe_dump(SMALL))

    def run(lines: str, *command: str) -> list[str]:
        script = "\n".join(
            [
                "import atexit, os, sys",
                "from rayfed.cli import main",
                "from rayfed.runs import progress",
                f"HEAVY = {HEAVY}",
                lines,
                f"sys.argv[1:] = {list(command)}",
                "main.main()",
            ]
        )
        done = subprocess.run(
            [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=120,
            cwd=tmp_path,
        )  # fmt: skip
        return done.stdout.splitlines()

    return run


def test_a_serial_run_ends_without_what_only_pages_need(told):
    """The display is told of every round, the first included, and of the end of the run."""
    lines = (
        "def runs(self, progress, outcome):\n"
        "    print(*[far.round for far in progress.values()], HEAVY & {*sys.modules})\n"
        "    if outcome:\n"
        "        print(outcome, flush=True)\n"
        "        os._exit(0)\n"
        "progress.LogLines.runs = runs"
    )
    _, *rounds, end = told(lines, "run", "s.yaml")
    assert end == "{'fedavg-seed0': 'finished'}"
    assert rounds == ["1 set()", "2 set()", "3 set()", "set()"]


@pytest.mark.parametrize("command", [["--help"], ["check", "s.yaml"]], ids=lambda c: c[0])
def test_other_commands_import_no_more(told, command):
    out = told("atexit.register(lambda: print('has', HEAVY & {*sys.modules}))", *command)
    assert len(out) > 3
    assert out[-1] == "has set()"
