"""The wheel in an environment of its own, which does not see the checkout it was built from.

The fresh environment finds what rayfed depends on in the environment of the tests, so that nothing
is downloaded; a path in a ``.pth`` file does not process the ``.pth`` files of that place, through
which an editable install makes the checkout importable.
"""

import hashlib
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import nbformat
import numpy as np
import pytest
from nbclient import NotebookClient

from tests.fakes.pages import data_of

ROOT = Path(__file__).parents[1]
SHORT = ["--set", "rounds=2", "--set", "seeds=[0]", "--set", "clients.count=4"]
SERIAL = [*SHORT, "--set", "executor=serial"]
ACTORS = [*SHORT, "--set", "executor={clients_per_actor: 1}"]
OVERRIDES = {"rounds": 2, "seeds": [0], "executor.name": "serial"}

pytestmark = pytest.mark.slow


def called(*command, cwd=None, **variables):
    """Run a command without what the tests' own environment sets for Python."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    kept |= {name: str(value) for name, value in variables.items()}
    return subprocess.run(
        list(map(str, command)), cwd=cwd, env=kept, capture_output=True, text=True, timeout=300
    )


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    pip = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "--no-index"]
    built = called(*pip, "--wheel-dir", folder, ROOT)
    assert built.returncode == 0, built.stderr
    (path,) = folder.glob("rayfed_sim-*.whl")
    return path


def test_what_init_writes_comes_with_the_wheel(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    assert "rayfed/cli/starters/scenario.yaml.txt" in names
    assert "rayfed/cli/starters/test_algorithm.py.txt" in names


@pytest.fixture(scope="module")
def fresh(wheel, tmp_path_factory):
    """Return the bin folder of an environment that holds the wheel and no checkout."""
    home = tmp_path_factory.mktemp("environment")
    venv.create(home, with_pip=False)
    bin_, empty = home / "bin", tmp_path_factory.mktemp("empty")
    (site,) = home.glob("lib/python*/site-packages")
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    seen = called(bin_ / "python", "-c", "import numpy, rayfed", cwd=empty)
    assert "No module named 'rayfed'" in seen.stderr
    pip = [sys.executable, "-m", "pip", "--python", bin_ / "python", "install", "--no-index"]
    installed = called(*pip, "--no-deps", wheel)
    assert installed.returncode == 0, installed.stderr
    return bin_


def built(tree, folder, **variables):
    """Build the wheel and the source distribution, and return their digests by name."""
    build = [sys.executable, "-m", "hatchling", "build", "--directory", folder]
    done = called(*build, cwd=tree, **variables)
    assert done.returncode == 0, done.stderr
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}


def test_two_builds_are_the_same_bytes(tmp_path):
    """Whenever they are made: times in the archives are those of SOURCE_DATE_EPOCH.

    They are made of a copy, since other tests may write to the checkout meanwhile.
    """
    tree, left = tmp_path / "tree", (".git", ".venv", ".*_cache", "__pycache__", "_build", "dist")
    shutil.copytree(ROOT, tree, ignore=shutil.ignore_patterns(*left))
    first = built(tree, tmp_path / "first", SOURCE_DATE_EPOCH=1_700_000_000)
    assert len(first) == 2
    os.utime(tree / "rayfed" / "py.typed")
    assert built(tree, tmp_path / "second", SOURCE_DATE_EPOCH=1_700_000_000) == first
    assert built(tree, tmp_path / "third", SOURCE_DATE_EPOCH=1_700_000_002) != first


def test_the_version_is_said_everywhere(wheel, fresh, tmp_path):
    """In the name of the wheel, on the command line and in Python."""
    said = called(fresh / "rayfed", "--version", cwd=tmp_path)
    name, version = said.stdout.split()
    assert name == "rayfed"
    assert wheel.name.startswith(f"rayfed_sim-{version}-")
    in_python = called(
        fresh / "python", "-c", "import rayfed; print(rayfed.__version__)", cwd=tmp_path
    )
    assert in_python.stdout.strip() == version


def test_it_holds_the_package_its_data_and_the_scenarios(wheel):
    held = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    package = [
        p for p in (ROOT / "rayfed").rglob("*") if p.is_file() and "__pycache__" not in p.parts
    ]
    scenarios = [
        path for end in ("yaml", "csv", "npz") for path in (ROOT / "scenarios").glob(f"*.{end}")
    ]
    assert held == {
        *(path.relative_to(ROOT).as_posix() for path in package),
        *(f"rayfed/scenarios/{path.name}" for path in scenarios),
    }
    assert {"rayfed/py.typed", "rayfed/datasets/files/agaricus-lepiota.data.xz"} <= held
    assert not any("chaos" in name for name in held)
    assert any(name.startswith("rayfed/report/page/") and name.endswith(".css") for name in held)


def test_from_an_empty_folder(fresh, tmp_path):
    done = called(fresh / "rayfed", "run", "quickstart", *SERIAL, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["results"]
    assert (tmp_path / "results" / "quickstart" / "report.html").is_file()
    where = called(fresh / "python", "-c", "import rayfed; print(rayfed.__file__)", cwd=tmp_path)
    assert Path(where.stdout.strip()).is_relative_to(fresh.parent)


def test_published_studies_are_found(fresh, tmp_path):
    listed = called(fresh / "rayfed", "reproduce", cwd=tmp_path)
    names = {
        path.name.removesuffix(".claims.yaml") for path in ROOT.glob("scenarios/*.claims.yaml")
    }
    assert names
    assert all(name in listed.stdout for name in names)
    done = called(fresh / "rayfed", "reproduce", "bergerault_2023_line", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.ray
def test_from_a_folder_with_an_analysis_and_tests_of_its_own(fresh, tmp_path):
    for name in ("analysis", "tests", "scenarios", "benchmarks"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise RuntimeError('not ours to import')\n")
    done = called(fresh / "rayfed", "run", "quickstart", *ACTORS, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "results" / "quickstart" / "report.html").is_file()


def test_in_a_notebook(fresh, tmp_path, monkeypatch):
    kernel = tmp_path / "jupyter" / "kernels" / "fresh"
    kernel.mkdir(parents=True)
    command = [str(fresh / "python"), "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    spec = {"argv": command, "display_name": "fresh", "language": "python"}
    (kernel / "kernel.json").write_text(json.dumps(spec))
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path / "jupyter"))
    monkeypatch.delenv("PYTHONPATH", raising=False)
    (tmp_path / "work" / "analysis").mkdir(parents=True)
    cells = [
        f"import rayfed\nresult = rayfed.run('quickstart', overrides={OVERRIDES})",
        "result",
        "result.figure('convergence', x='time_s', y='loss')",
        "print(rayfed.__file__)",
    ]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    client = NotebookClient(
        notebook, timeout=120, kernel_name="fresh",
        resources={"metadata": {"path": str(tmp_path / "work")}},
    )  # fmt: skip
    client.execute()
    _, table, figure, where = (cell.outputs for cell in notebook.cells)
    assert "<table" in table[0].data["text/html"]
    assert "application/vnd.plotly.v1+json" in figure[0].data
    assert Path(where[0].text.strip()).is_relative_to(fresh.parent)


OWN = """\
# what the hospitals measured
rounds: 6
seeds: [0, 1]
problem: {name: logistic-regression, dataset: $OWN/ill.csv, target: ill, test: 0.2, validation: 0.2}
clients:
  groups:
    - {name: far, ids: [hospital-03], delay: {name: constant, mean_s: 4}}
algorithms:
  - {name: fedavg, local: {steps: 5, batch: 8, lr: 0.1}}
  - {name: "calm_avg:CalmAvg", label: CalmAvg, local: {steps: 5, batch: 8, lr: 0.1}}
executor: serial
"""
SEARCH = """\
base: own.yaml
seeds: [0]
search: {algorithms.*.local.lr: {log: [0.01, 1]}}
sweep: {trials: 3}
executor: workers
"""
LOADED = """
import rayfed
result = rayfed.load("results/own")
last = result.rounds.groupby("label").validation_loss.last()
assert sorted(last.index) == ["CalmAvg", "fedavg"], last
names = result.clients.name.unique().tolist()
assert names == ["hospital-01", "hospital-02", "hospital-03"], names
result.figure("convergence", x="time_s", y="loss")
print(result)
"""


def hospitals(folder):
    """Write rows of three hospitals: who is older is ill more often."""
    rng = np.random.default_rng(0)
    rows = ["client,age,pressure,ill"]
    for hospital in (1, 2, 3):
        for age, pressure in rng.normal([hospital - 2, 0], 1, (40, 2)):
            rows.append(f"hospital-0{hospital},{age:.3f},{pressure:.3f},{int(age > 0.3)}")
    (folder / "ill.csv").write_text("\n".join(rows) + "\n")


class Journey:
    """A user in a fresh environment: what is typed, and what is answered.

    Parameters
    ----------
    bin_ : Path
        Of the environment.
    home : Path
        The user's folder, where the commands run.
    """

    def __init__(self, bin_, home):
        self.bin_, self.home = bin_, home

    def rayfed(self, *words, status=0):
        """Type a command, and return what is printed."""
        done = called(self.bin_ / "rayfed", *words, cwd=self.home, OWN=self.home / "data")
        said = done.stdout + done.stderr
        assert done.returncode == status, said
        assert "Traceback" not in said
        return said

    def edit(self, file, before, after):
        """Change a file by hand."""
        text = (self.home / file).read_text()
        assert before in text
        (self.home / file).write_text(text.replace(before, after))


def test_the_whole_journey(fresh, tmp_path):
    """From an empty folder to a figure in a paper, with mistakes on the way."""
    user = Journey(fresh, tmp_path)

    # a beginning, and data of one's own
    said = user.rayfed("init", "--algorithm", "calm-avg")
    assert "check yours by: rayfed test calm_avg:CalmAvg" in said
    (tmp_path / "data").mkdir()
    hospitals(tmp_path / "data")
    (tmp_path / "own.yaml").write_text(OWN)

    # mistakes in the scenario, all at once and with their lines
    user.edit("own.yaml", "ids: [hospital-03]", "ids: [hospital-3]")
    user.edit(
        "own.yaml", "steps: 5, batch: 8, lr: 0.1}}\nexec", "stepz: 5, batch: 8, lr: 0}}\nexec"
    )
    said = user.rayfed("check", "own.yaml", status=2)
    assert said.splitlines() == [
        "rayfed: 2 mistakes",
        "  own.yaml:10: algorithms.1.local.lr: found 0; it should be greater than 0",
        "  own.yaml:10: algorithms.1.local.stepz: unknown key 'stepz'; did you mean 'steps'?",
    ]
    user.edit("own.yaml", "stepz: 5, batch: 8, lr: 0}", "steps: 5, batch: 8, lr: 0.1}")
    said = user.rayfed("check", "own.yaml", status=2)
    assert said == (
        "rayfed: own.yaml:7: clients.groups.0.ids: unknown client 'hospital-3'; did you mean "
        "'hospital-03'?\n"
    )
    user.edit("own.yaml", "hospital-3", "hospital-03")
    assert "4 runs (2 algorithms, 2 seeds), 3 clients, 6 rounds" in user.rayfed("check", "own.yaml")

    # a mistake in the algorithm, found in round 3, mended, and gone on with
    half = "        local = clients.solve(x)\n"
    bug = "        if clients.round == 3:\n            raise ValueError('nobody is ill')\n"
    user.edit("calm_avg.py", half, half + bug)
    said = user.rayfed("run", "own.yaml", "--quiet", status=1)
    line = 1 + (tmp_path / "calm_avg.py").read_text().split("raise Value")[0].count("\n")
    assert (
        f"client hospital-01, 'train' failed: ValueError: nobody is ill (calm_avg.py:{line})"
        in said
    )
    assert "its log: results/own/CalmAvg-seed0/log.txt" in said
    assert "resume with: rayfed resume --failed results/own" in said
    finished = (tmp_path / "results/own/fedavg-seed0/model.npz").stat().st_mtime_ns
    user.edit("calm_avg.py", bug, "")
    assert "2 of 4 runs to resume" in user.rayfed("resume", "--failed", "results/own")
    assert (tmp_path / "results/own/fedavg-seed0/model.npz").stat().st_mtime_ns == finished

    # the algorithm is checked as rayfed's own are
    assert "calm_avg:CalmAvg: all checks passed" in user.rayfed("test", "calm_avg:CalmAvg")

    # tuned by rows that are neither trained nor tested on
    (tmp_path / "tuned.yaml").write_text(SEARCH)
    said = user.rayfed("sweep", "tuned.yaml")
    assert "ranked by validation_loss at the end, on rows held out for this; test values" in said
    best = tmp_path / "results/tuned/best.yaml"
    assert "run it by: rayfed run results/tuned/best.yaml" in said
    user.rayfed("run", best, "--set", "rounds=2", "--set", "executor=serial", "--out", "best")

    # in Python
    done = called(fresh / "python", "-c", LOADED, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "own (4 finished) in results/own" in done.stdout

    # two folders on one page, and a figure for a paper
    user.rayfed("compare", "results/own", "best", "--out", "compared.html")
    page = (tmp_path / "compared.html").read_text("utf-8")
    assert "hospital-03" in json.dumps(data_of(page))
    if shutil.which("chromium") or shutil.which("google-chrome"):
        user.rayfed("figures", "results/own", "--what", "convergence", "--out", "paper")
        figures = sorted((tmp_path / "paper").glob("*.pdf"))
        assert figures
        assert all(path.read_bytes().startswith(b"%PDF") for path in figures)
