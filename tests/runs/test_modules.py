"""The user's modules are found again by who resumes or exports."""

import json
import os
import shutil
import subprocess
import sys
from importlib import import_module
from zipfile import ZipFile

import pytest

import rayfed.algorithms.fedexp
from rayfed.core import own
from rayfed.core.errors import ScenarioError
from rayfed.core.plugins import load
from rayfed.runs.modules import MODULES, note_modules, noted_runs, of_study

pytestmark = pytest.mark.guard

PLUGINS = '''
from dataclasses import dataclass
from typing import ClassVar
from rayfed.algorithms.fedavg import FedAvg
from rayfed.problems.least_squares import LeastSquares

@dataclass(frozen=True, kw_only=True)
class Mine(FedAvg):
    """FedAvg."""

    name: ClassVar[str] = "mine"

@dataclass(frozen=True, kw_only=True)
class Squares(LeastSquares):
    """Least squares."""

    name: ClassVar[str] = "squares"
'''
SCENARIO = """
problem: {name: "own.plugins:Squares", dataset: {name: linear, features: 3, samples: 9}}
algorithms: ["own.plugins:Mine"]
clients: {count: 3}
rounds: 2
executor: serial
"""


@pytest.fixture
def begun(tmp_path):
    """A study of which one seed has ended, run from another folder than its scenario's."""
    home = tmp_path / "home"
    (home / "own").mkdir(parents=True)
    (home / "own" / "__init__.py").write_text("")
    (home / "own" / "plugins.py").write_text(PLUGINS)
    (home / "mine.yaml").write_text(SCENARIO)
    (tmp_path / "elsewhere").mkdir()
    python(tmp_path, "rayfed.run('home/mine.yaml', out='out', page=False)")
    return tmp_path / "out"


def python(folder, code):
    """Run code in a folder, in a process that knows nothing of the study."""
    command = [sys.executable, "-c", f"import rayfed, rayfed.api\nfrom pathlib import Path\n{code}"]
    ended = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout.split()


def test_a_study_is_resumed_and_exported_from_another_folder(begun, tmp_path):
    noted = json.loads((begun / MODULES).read_text())
    assert (len(noted.pop("seal")), noted) == (
        64,
        {"modules": {"own.plugins": str(tmp_path / "home")}, "runs": ["mine-seed0"]},
    )
    elsewhere = tmp_path / "elsewhere"
    run = begun / "mine-seed0"
    (run / "run.json").unlink()  # as if it had not ended
    code = f"print(rayfed.api.unfinished(Path({str(begun)!r})))"
    code += f"\nrayfed.resume({str(begun)!r}, page=False)"
    assert python(elsewhere, code)[0] == "['mine-seed0']"
    assert json.loads((run / "run.json").read_text())["status"] == "finished"
    python(elsewhere, f"rayfed.load({str(begun)!r}).export('model.npz')")
    assert (elsewhere / "model.npz").is_file()


def test_another_module_of_that_name_where_it_is_resumed_is_not_taken(begun, tmp_path):
    (begun / "mine-seed0" / "run.json").unlink()
    other = tmp_path / "elsewhere" / "own"
    other.mkdir()
    for name in ("__init__", "plugins"):
        (other / f"{name}.py").write_text("raise RuntimeError('another one')\n")
    for order in ("", "import sys; sys.path[:] = sys.path[1:]"):  # as a command has it
        code = f"{order}\nrayfed.resume({str(begun)!r}, page=False)"
        python(tmp_path / "elsewhere", code)
    assert json.loads((begun / "mine-seed0" / "run.json").read_text())["status"] == "finished"


def test_what_is_installed_leaves_no_file(tmp_path):
    ours = {"name": f"{rayfed.algorithms.fedexp.__name__}:FedExP"}
    scenario = {"algorithms": ["fedavg", ours], "problem": {"model": "json:JSONDecoder"}}
    assert {"rayfed.algorithms.fedexp", "json"} <= sys.modules.keys()
    note_modules(tmp_path, scenario, [])
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "text",
    ["", "[1]", "{", '{"modules": "/"}', '{"modules": {"a": 1, "b": "/nowhere/at", "c": ""}}'],
)
def test_a_damaged_note_changes_nothing(text, tmp_path):
    (tmp_path / MODULES).write_text(text)
    before = list(sys.path)
    for folder in (tmp_path, tmp_path / "none"):
        with of_study(folder), pytest.raises(ScenarioError, match="would run the module 'a'"):
            own.admit("a:B")
        assert noted_runs(folder, {"algorithms": ["a:B"]}) == []
    assert sys.path == before


def test_a_scenario_that_is_no_file_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "scenario.yaml")
    with of_study(tmp_path), pytest.raises(ScenarioError, match="would run the module 'a'"):
        own.admit("a:B")


@pytest.fixture
def apart(tmp_path, monkeypatch):
    """Two folders with a module of one name, and a result folder that notes the second."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "own_apart.py").write_text(f"home = {name!r}\n")
    sys.path.append(str(tmp_path / "two"))
    import_module("own_apart")
    note_modules(tmp_path, {"algorithms": ["own_apart:Mine"]}, ["mine-seed0"])
    sys.path.remove(str(tmp_path / "two"))
    del sys.modules["own_apart"]
    yield tmp_path
    sys.modules.pop("own_apart", None)


def test_the_noted_module_comes_before_another_of_its_name(apart):
    sys.path.insert(0, str(apart / "one"))
    with of_study(apart):
        assert load("own_apart:home") == "two"
        assert load("own_apart:home") == "two"  # it is the one that is wanted
    assert import_module("own_apart").home == "two"
    assert sys.path[0] == str(apart / "one")
    assert sys.path[-1] == str(apart / "two")


def test_a_module_of_another_folder_that_was_imported_is_refused(apart):
    sys.path.insert(0, str(apart / "one"))
    assert import_module("own_apart").home == "one"
    refused = pytest.raises(ScenarioError, match=r"'own_apart' was imported from ")
    with of_study(apart), refused:
        load("own_apart:home")
    shutil.rmtree(apart / "one")
    with of_study(apart), refused:
        load("own_apart:home")


@pytest.mark.parametrize("how", ["link", "zip"])
def test_modules_behind_links_and_in_zip_files_are_found(tmp_path, monkeypatch, how):
    monkeypatch.setattr(sys, "path", list(sys.path))
    home = tmp_path / "home"
    home.mkdir()
    (tmp_path / "elsewhere.py").write_text("class Mine: pass\n")
    if how == "link":
        (home / "own_found.py").symlink_to(tmp_path / "elsewhere.py")
    else:
        home = home / "all.zip"
        with ZipFile(home, "w") as file:
            file.write(tmp_path / "elsewhere.py", "own_found.py")
    sys.path.insert(0, str(home))
    import_module("own_found")
    note_modules(tmp_path, {"algorithms": ["own_found:Mine"]}, [])
    del sys.modules["own_found"]
    sys.path.remove(str(home))
    with of_study(tmp_path):
        assert load("own_found:Mine").__name__ == "Mine"
    del sys.modules["own_found"]
