"""Scenario files and result folders of other people run no code that nobody asked for.

The programs that stand ready here write a marker if they run; none does.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

import rayfed
from rayfed.core.errors import ScenarioError
from rayfed.runs.modules import MODULES

pytestmark = pytest.mark.guard

ROOT = Path(rayfed.__file__).parents[1]
EVIL = "from pathlib import Path\nPath({marker!r}).touch()\n"
PLANTED = (
    "numpy",
    "pandas",
    "plotly",
    "pydantic",
    "pyarrow",
    "ray",
    "rich",
    "scipy",
    "typer",
    "yaml",
)
PLUGINS = """
from dataclasses import dataclass
from typing import ClassVar
import own_beside
from rayfed.algorithms.fedavg import FedAvg
from rayfed.problems.least_squares import LeastSquares

@dataclass(frozen=True, kw_only=True)
class Mine(FedAvg):
    name: ClassVar[str] = "mine"

@dataclass(frozen=True, kw_only=True)
class Squares(LeastSquares):
    name: ClassVar[str] = "squares"
"""
STUDY = {
    "problem": {
        "name": "own_plugins:Squares",
        "dataset": {"name": "linear", "features": 3, "samples": 9},
    },
    "algorithms": [{"name": "own_plugins:Mine", "local": {"lr": 0.1}}],
    "clients": {"count": 3},
    "rounds": 2,
    "executor": "serial",
}


@pytest.fixture
def marker(tmp_path):
    """Return the file that code writes if it runs."""
    path = tmp_path / "it-ran"
    yield path
    assert not path.exists()


@pytest.fixture
def plant(marker):
    """Return a function that writes a module which must not run."""

    def write(folder, *names):
        folder.mkdir(exist_ok=True, parents=True)
        for name in names:
            (folder / f"{name}.py").write_text(EVIL.format(marker=str(marker)))

    return write


def own(folder, study=STUDY):
    """Write a scenario of one's own and the modules beside it."""
    folder.mkdir(exist_ok=True, parents=True)
    (folder / "own_plugins.py").write_text(PLUGINS)
    (folder / "own_beside.py").write_text("")
    (folder / "mine.yaml").write_text(yaml.safe_dump(study))
    return folder / "mine.yaml"


def rayfed_in(folder, *arguments, state=None, how=("-P", "-m", "rayfed")):
    """Run the command as a user does in a folder; the console script has a safe path, too."""
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    env |= {} if state is None else {"XDG_STATE_HOME": str(state)}
    command = [sys.executable, *how, *map(str, arguments)]
    return subprocess.run(
        command, cwd=folder, env=env, capture_output=True, text=True, check=False, timeout=300
    )


def all_in(folder, commands, state):
    """Run commands one after the other in one process, which starts once."""
    code = "import sys\nfrom rayfed.cli.main import main\nfor sys.argv in " + repr(
        [["rayfed", *map(str, words)] for words in commands]
    )
    code += ":\n try: main()\n except SystemExit as end:\n  if end.code: raise\n"
    return rayfed_in(folder, state=state, how=("-P", "-c", code))


@pytest.fixture
def here(command, monkeypatch, tmp_path):
    """Return a function that runs a command in this process: status, output, errors.

    What libraries are is settled here, so bad files of their names are no matter.
    """

    def run(*arguments, state, folder=tmp_path / "here"):
        monkeypatch.setenv("XDG_STATE_HOME", str(state))
        monkeypatch.chdir(folder)
        return command(*arguments)

    return run


def refused(ended):
    """Return the one line of a command that refused to go on."""
    status, _, told = ended
    assert (status, told.count("\n")) == (2, 1), told
    return told.strip()


# -- names that a scenario calls ---------------------------------------------------------------

NAMED = {
    "subprocess:Popen": "'subprocess' is of Python's own",
    "os:system": "'os' is of Python's own",
    "posix:system": "'posix' is of Python's own",
    "builtins:exec": "'builtins' is of Python's own",
    "importlib:import_module": "'importlib' is of Python's own",
    "runpy:run_path": "'runpy' is of Python's own",
    "pickle:loads": "'pickle' is of Python's own",
    "antigravity:geohash": "'antigravity' is of Python's own",
    "numpy:load": "'numpy' is an installed",
    "pandas:read_pickle": "'pandas' is an installed",
    "torch:load": "'torch' is an installed",
    "torch.hub:load": "'torch' is an installed",
    "torch.fx.graph_module:reduce_graph_module": "'torch' is an installed",
    "torch.nn.modules.module:warnings": "is no torch.nn.Module",
    "torch.nn.functional:relu": "that does not say `-> torch.nn.Module`",
    "rayfed.__main__:main": "is a program",
    "rayfed.core.plugins:load": "that does not say `-> torch.nn.Module`",
    "rayfed.core.plugins:importlib.import_module": "has no 'importlib.import_module'",
    "own_nets:subprocess.Popen": "has no 'subprocess.Popen'",
    "own_nets:Popen": "is no torch.nn.Module",
    "own_nets:run_path": "was only imported there, from 'runpy'",
    "own_nets:called": "is no torch.nn.Module",
    "own_nets:GraphModule": "was only imported there",
    "own_nets:reduce_graph_module": "was only imported there",
}
NETS = """
import os
import subprocess
from functools import partial
from runpy import run_path
from subprocess import Popen
from torch import nn
from torch.fx.graph_module import GraphModule, reduce_graph_module
from own_helpers import small as of_another

called = partial(os.system, "touch {marker}")

class Net(nn.Linear):
    def __init__(self, outputs=1):
        super().__init__(3, outputs)

def net():
    return nn.Linear(3, 1)

def squares(outputs, y):
    return (outputs[:, 0] - y) ** 2

entropy = nn.CrossEntropyLoss(reduction="none")
"""
CLASSES = {"model": {"name": "own_nets:Net", "outputs": 3}, "dataset": "rows.csv"}


@pytest.fixture
def network(tmp_path, marker):
    """Return a function that writes a scenario with a model or a loss."""
    (tmp_path / "evil.py").write_text(EVIL.format(marker=str(marker)))
    (tmp_path / "own_nets.py").write_text(NETS.format(marker=marker))
    text = "from torch import nn\ndef small():\n    return nn.Linear(3, 1)\n"
    (tmp_path / "own_helpers.py").write_text(text)
    rows = "".join(f"1,{k},0,{k % 3}\n" for k in range(9))
    (tmp_path / "rows.csv").write_text(f"a,b,c,y\n{rows}")
    data = {"name": "linear", "features": 3, "samples": 9}

    def write(**settings):
        problem = {"name": "network", "dataset": data, "loss": "squared-error", **settings}
        study = {"problem": problem, "algorithms": ["fedavg"], "clients": {"count": 3}}
        (tmp_path / "net.yaml").write_text(yaml.safe_dump({**study, "rounds": 1}))
        return "net.yaml"

    return write


def calling(name, marker):
    """Return a model that would do harm if its name were called."""
    arguments = {
        "Popen": {"args": ["touch", str(marker)]},
        "system": {"command": f"touch {marker}"},
        "run_path": {"path_name": str(marker.with_name("evil.py"))},
        "reduce_graph_module": {
            "body": {"_code": ""},
            "import_block": EVIL.format(marker=str(marker)),
        },
    }
    return {"name": name, **arguments.get(name.partition(":")[2], {})}


@pytest.mark.parametrize("name", NAMED)
def test_a_model_that_is_none_is_not_called(name, command, network, marker):
    status, _, err = command("check", network(model=calling(name, marker)))
    assert (status, err.count("\n")) == (2, 1), err
    assert NAMED[name] in err
    assert name in err


@pytest.mark.parametrize("name", ["subprocess:Popen", "builtins:exec", "own_nets:Popen"])
def test_run_refuses_what_check_refuses(name, command, network, marker, tmp_path):
    file = network(model={"name": name, "args": ["touch", str(marker)]})
    status, _, err = command("run", file, "--out", "out")
    assert (status, err.count("\n")) == (2, 1), err
    assert NAMED[name] in err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("os:remove", "'os' is of Python's own"),
        ("torch:save", "'torch' is an installed library"),
        ("own_nets:called", "is no function; give one"),
        ("own_nets:Popen", "is no function; give one"),
        ("own_nets:run_path", "was only imported there, from 'runpy'"),
    ],
)
def test_a_loss_that_is_none_is_not_called(name, told, command, network):
    status, _, err = command("check", network(loss=name, **CLASSES))
    assert (status, err.count("\n")) == (2, 1), err
    assert told in err


@pytest.mark.parametrize(
    "model",
    [
        "own_nets:Net",
        "own_nets:net",
        "own_nets:of_another",
        {"name": "own_nets:Net", "outputs": 1},
        {"name": "torch.nn:Linear", "in_features": 3, "out_features": 1},
    ],
)
def test_models_of_ones_own_and_layers_of_pytorch_are_made(model, command, network):
    assert command("check", network(model=model))[0] == 0


@pytest.mark.parametrize("loss", ["own_nets:squares", "own_nets:entropy"])
def test_losses_of_ones_own_are_taken(loss, command, network):
    assert command("check", network(loss=loss, **CLASSES))[::2] == (0, "")


# -- files with the names of libraries ---------------------------------------------------------


@pytest.mark.parametrize(
    ("how", "last"),
    [
        pytest.param(("-P", "-m", "rayfed"), ("best", "out"), id="safe"),
        pytest.param(("-m", "rayfed"), ("list", "algorithms"), id="here"),
    ],
)
def test_a_file_that_has_the_name_of_a_library_is_not_taken_for_it(how, last, plant, tmp_path):
    """Neither one beside the scenario nor one where the command is run."""
    scenario = own(tmp_path / "beside")
    for where in ("beside", "here"):
        plant(tmp_path / where, *PLANTED)
    for arguments in (
        ("run", scenario, "--out", "out", "--set", "executor=workers", "--set", "seeds=[0, 1]"),
        last,
    ):
        ended = rayfed_in(tmp_path / "here", *arguments, how=how)
        assert (ended.returncode, ended.stderr) == (0, ""), arguments


def test_a_module_of_ones_own_that_has_the_name_of_a_library_is_said(plant, command, tmp_path):
    plant(tmp_path, "pandas")
    scenario = own(tmp_path, STUDY | {"algorithms": ["pandas:Mine"]})
    line = refused(command("check", scenario))
    assert "'pandas' is an installed" in line
    assert f"{tmp_path / 'pandas.py'} is not taken for it, give it another name" in line


@pytest.mark.slow
@pytest.mark.ray
def test_client_actors_take_libraries_from_where_they_are_installed(plant, tmp_path):
    scenario = own(tmp_path / "beside")
    plant(tmp_path / "here", *PLANTED)
    plant(tmp_path / "beside", *PLANTED)
    ended = rayfed_in(tmp_path / "here", "run", scenario, "--set", "executor=ray", "--no-page")
    assert ended.returncode == 0, ended.stderr


# -- result folders of somebody else -----------------------------------------------------------


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Return a folder that holds a study of ours: its modules, its results, our state."""
    home = tmp_path_factory.mktemp("made")
    words = ("run", own(home / "ours"), "--out", "out", "--no-page")
    ended = rayfed_in(home, *words, state=home / "state")
    assert ended.returncode == 0, ended.stderr
    return home


@pytest.fixture
def sent(made, tmp_path, plant):
    """Return the results as somebody else gets them, who has bad modules of these names."""
    shutil.copytree(made / "out", tmp_path / "sent")
    plant(tmp_path / "sent", "own_plugins", *PLANTED)
    plant(tmp_path / "here", "own_plugins", *PLANTED)
    return tmp_path / "sent"


def unended(folder):
    """Let a study look as if it had been killed before its run began."""
    (run,) = (path.parent for path in folder.glob("*/run.json"))
    shutil.rmtree(run)
    return run


def test_who_reads_results_imports_nothing(sent, tmp_path):
    note = json.loads((sent / MODULES).read_text())
    note["modules"] = {name: str(sent) for name in note["modules"]}
    (sent / MODULES).write_text(json.dumps(note))
    shutil.copytree(sent, f"{sent}-too")
    readers = [
        ("report", sent),
        ("compare", sent, f"{sent}-too"),
        ("export", sent, "--csv"),
        ("best", sent),
    ]
    ended = all_in(tmp_path / "here", readers, tmp_path / "state")
    assert ended.returncode == 0, ended.stderr
    assert (sent / "report.html").is_file()
    assert (sent / "best.yaml").is_file()


def test_from_python_too(sent):
    result = rayfed.load(sent)
    assert len(result.rounds) == 3
    assert len(result.summary()) == 1
    assert result.weights().shape == (4,)


def test_best_says_which_runs_have_not_ended(sent, here, tmp_path):
    run = unended(sent)
    (sent / run.name).mkdir()
    _, _, told = here("best", sent, state=tmp_path / "state")
    assert f"1 run unfinished ({run.name})" in told


def test_best_of_somebody_else_says_what_its_scenario_would_run(sent, made, here, tmp_path):
    _, shown, told = here("best", sent, state=tmp_path / "state")
    assert f"not made by you here, and would run {made / 'ours' / 'own_plugins.py'}" in told
    assert "run it by" not in shown
    head = (sent / "best.yaml").read_text().splitlines()[0]
    assert head.startswith("# ")
    assert "not made by you here" in head
    _, shown, told = here("best", made / "out", state=made / "state")
    assert (told, "run it by: rayfed run" in shown) == ("", True)
    assert "not made by you" not in (made / "out" / "best.yaml").read_text()


@pytest.mark.parametrize(
    "words",
    [("resume", "{}", "--no-page"), ("export", "{}", "--to", "model.npz")],
    ids=["resume", "export"],
)
def test_what_would_run_is_said_and_needs_trust(words, sent, made, here, tmp_path):
    """The module that the note names is ours here; on another machine it is looked for."""
    words = [word.format(sent) for word in words]
    line = refused(here(*words, state=tmp_path / "state"))
    file = made / "ours" / "own_plugins.py"
    assert line.count(str(file)) == 1
    assert f"{sent}: not made by you here, and would run {file}; read that" in line
    assert "--trust" in line
    ended = rayfed_in(tmp_path / "here", *words, "--trust", state=tmp_path / "state")
    assert ended.returncode == 0, ended.stderr


def test_a_module_where_one_is_would_run_too(sent, here, tmp_path):
    (sent / MODULES).unlink()
    line = refused(here("resume", sent, state=tmp_path / "state"))
    assert f"would run {tmp_path / 'here' / 'own_plugins.py'}; read that" in line


def test_python_says_trust(sent, made, monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    refused = pytest.raises(ScenarioError, match=r"own_plugins.py; read that, .*\(trust=True\)$")
    with refused:
        rayfed.resume(sent)
    with refused:
        rayfed.load(sent).export(tmp_path / "model.npz")


def changed_note(folder, evil):
    note = json.loads((folder / MODULES).read_text())
    note["modules"] = {name: str(evil) for name in note["modules"]}
    (folder / MODULES).write_text(json.dumps(note))


def changed_scenario(folder, evil):
    path = folder / "scenario.yaml"
    path.write_text(path.read_text().replace("own_plugins:Mine", "own_evil:Mine"))
    note = json.loads((folder / MODULES).read_text())
    note["modules"]["own_evil"] = str(evil)
    (folder / MODULES).write_text(json.dumps(note))


def named_besides(folder, evil):
    path = folder / "scenario.yaml"
    path.write_text(path.read_text().replace("own_plugins:Mine", "own_evil:Mine"))


@pytest.fixture
def moved(made, plant, tmp_path):
    """Return our folder, moved or restored from a backup, with bad modules near it."""
    shutil.copytree(made / "out", tmp_path / "out")
    unended(tmp_path / "out")
    plant(tmp_path / "evil", "own_plugins", "own_evil")
    plant(tmp_path / "here", "own_evil")
    return tmp_path / "out"


@pytest.mark.parametrize("change", [changed_note, changed_scenario, named_besides])
def test_our_own_folder_does_not_go_on_if_modules_were_changed(change, moved, made, here, tmp_path):
    change(moved, tmp_path / "evil")
    line = refused(here("resume", moved, state=made / "state"))
    assert "would run" in line
    assert "--trust" in line


def test_our_own_folder_goes_on_by_itself(moved, made, tmp_path):
    commands = [("resume", "../out", "--no-page"), ("export", "../out", "--to", "model.npz")]
    ended = all_in(tmp_path / "here", commands, made / "state")
    assert ended.returncode == 0, ended.stderr
    assert (tmp_path / "here" / "model.npz").is_file()


def test_without_a_place_for_the_key_trust_is_needed(here, tmp_path):
    (tmp_path / "file").write_text("")
    where = {"state": tmp_path / "file", "folder": tmp_path}  # no folder can be made in a file
    words = ("run", own(tmp_path), "--out", "out", "--no-page")
    ended = rayfed_in(tmp_path, *words, state=where["state"])
    assert ended.returncode == 0, ended.stderr
    unended(tmp_path / "out")
    resume = ("resume", "out", "--no-page")
    assert "--trust" in refused(here(*resume, **where))
    assert here(*resume, "--trust", **where)[0] == 0
