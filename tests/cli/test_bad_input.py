"""Bad input ends in one line that says where, what was found and what to change, and status 2."""

import json
import subprocess
import sys

import pytest

from rayfed.cli import main as cli

SCENARIO = """
name: small
rounds: 2
problem: {name: least-squares, dataset: own.csv, l2: 0.1}
clients: {delay: {name: constant, mean_s: 1.0}}
algorithms:
  - {name: fedavg, local: {steps: 2, batch: full, lr: 0.1}}
  - {name: local-only, local: {steps: 2, batch: full, lr: 0.1}}
executor: {name: ray, clients_per_actor: 1}
"""
OWN = """client,a,b,y
0,1.0,2.0,1.0
0,2.0,1.0,0.5
1,0.5,1.5,2.0
1,1.5,0.5,1.0
2,1.0,1.0,1.0
"""
FILES = {
    "own.csv": OWN,
    "text.csv": OWN.replace("0.5,1.5,2.0", "oops,1.5,2.0"),
    "nan.csv": OWN.replace("0.5,1.5,2.0", "NaN,1.5,2.0"),
    "empty.csv": OWN.replace("0.5,1.5,2.0", ",1.5,2.0"),
    "infinite.csv": OWN.replace("0.5,1.5,2.0", "inf,1.5,2.0"),
    "no_target.csv": OWN.replace("1.5,2.0", "1.5,nan"),
    "nobody.csv": OWN.replace("1,0.5,1.5", ",0.5,1.5"),
    "header.csv": "client,a,y\n",
    "nothing.csv": "",
    "contacts.csv": "time,u,v\n0,0,1\n0,1,2\n",
    "stranger.csv": "time,u,v\n0,0,1\n0,1,3\n",
    "shared.csv": "a,y\n1,0\n2,1\n3,0\n4,1\n5,0\n6,1\n",
}
PICKLED = '!!python/object/apply:os.system ["touch pwned"]'
SHARED = ("problem.name=logistic-regression", "problem.dataset=shared.csv")
DRAWN = "problem.dataset={name: linear, features: 2, samples: 5}"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Return a folder with a scenario and its data files, which is where we are."""
    (tmp_path / "small.yaml").write_text(SCENARIO)
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def refused(folder, monkeypatch, capsys):
    """Return a function that runs a command and returns the one line that it ends in."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setitem(sys.modules, "ray", None)  # to import it would be an error
    monkeypatch.setitem(sys.modules, "rayfed.runs.ray.backend", None)

    def go(*arguments):
        monkeypatch.setattr(sys, "argv", ["rayfed", *map(str, arguments)])
        with pytest.raises(SystemExit) as end:
            cli.main()
        said = capsys.readouterr()
        assert end.value.code == 2, said.err
        assert said.out == ""
        assert said.err.startswith("rayfed: ")
        assert said.err.count("\n") == 1, said.err
        assert said.err.endswith("\n")
        return said.err.removeprefix("rayfed: ").rstrip("\n")

    return go


WRONG = {
    "unknown key": (["round=3"], "round: unknown key 'round'; did you mean 'rounds'?"),
    "unknown key in a part": (
        ["clients.delay.mean=2"],
        "clients.delay.mean: unknown key 'mean'; did you mean 'mean_s'?",
    ),
    "unknown key of an algorithm": (
        ["algorithms.0.sever_lr=2"],
        "algorithms.0.sever_lr: unknown key 'sever_lr'; did you mean 'server_lr'?",
    ),
    "text for a number": (["rounds=many"], "rounds: found 'many'"),
    "part of a round": (["rounds=2.5"], "rounds: found 2.5"),
    "yes for a number": (["rounds=true"], "rounds: found true; give a value, not yes or no"),
    "number for a mapping": (["clients=3"], "clients: found 3"),
    "number for a list": (["seeds=3"], "seeds: found 3; give a list, such as [0, 1, 2]"),
    "unknown algorithm": (
        ["algorithms.0.name=fedavgg"],
        "algorithms.0.name: unknown algorithm 'fedavgg'; did you mean 'fedavg'?",
    ),
    "unknown problem": (
        ["problem.name=least-square"],
        "problem.name: unknown problem 'least-square'; did you mean 'least-squares'?",
    ),
    "unknown dataset": (
        ["problem.dataset=mushrom"],
        "problem.dataset: unknown dataset 'mushrom'; did you mean 'mushroom'?",
    ),
    "unknown partition": (
        ["partition=dirichlett"],
        "partition: unknown partition 'dirichlett'; did you mean 'dirichlet'?",
    ),
    "unknown delay": (
        ["clients.delay.name=konstant"],
        "clients.delay.name: unknown delay 'konstant'; did you mean 'constant'?",
    ),
    "unknown availability": (
        ["clients.availability=cyclik"],
        "clients.availability: unknown availability 'cyclik'; did you mean 'cyclic'?",
    ),
    "unknown selection": (
        ["participation.select=unifrom"],
        "participation.select: unknown selection 'unifrom'; did you mean 'uniform'?",
    ),
    "neither true nor false": (
        ["evaluate.gap=maybe"],
        "evaluate.gap: found 'maybe'; it should be true or false",
    ),
    "two names as near": (
        ["participation.select=opow-d"],
        "participation.select: unknown selection 'opow-d'; known: adapow-d, all, cpow-d, "
        "oort, poisson, power-of-d, rpow-d, uniform, walk, weighted",
    ),
    "unknown executor": (
        ["executor.name=dask"],
        "executor.name: found 'dask'; it should be 'auto', 'serial', 'workers' or 'ray'",
    ),
    "no module of the user's": (
        ["algorithms.0.name=own_things:Mine"],
        "algorithms.0.name: own_things:Mine: no module 'own_things'; is it on the path?",
    ),
    "negative delay": (
        ["clients.delay.mean_s=-1"],
        "clients.delay.mean_s: found -1",
    ),
    "negative step": (
        ["algorithms.1.local.lr=-1"],
        "algorithms.1.local.lr: found -1; it should be greater than 0",
    ),
    "two lengths of local work": (
        ["algorithms.1.local.epochs=3"],
        "algorithms.1.local: found steps and epochs; give one of them",
    ),
    "cohort larger than the file's population": (
        ["participation.cohort=4"],
        "participation.cohort: found 4, but there are 3 clients; give at most 3",
    ),
    "cohort larger than the population given": (
        [DRAWN, "clients.count=7", "participation.cohort=8"],
        "participation.cohort: found 8, but there are 7 clients; give at most 7",
    ),
    "other population than the file's": (
        ["clients.count=5"],
        "clients.count: is 5 but the data has 3 clients; leave it out",
    ),
    "no population": ([DRAWN], "clients.count: is missing; give the number of clients"),
    "client that does not exist": (
        ["clients.groups=[{ids: [7], local: {steps: 3}}]"],
        "clients.groups: found id 7",
    ),
    "missing data file": (
        ["problem.dataset=missing.csv"],
        "missing.csv: cannot be read: No such file",
    ),
    "missing test file": (["problem.test=missing.csv"], "missing.csv: cannot be read: No such"),
    "missing model": (
        ["problem.init=missing.npz"],
        "problem.init: 'missing.npz' cannot be read: No such file or directory; give zeros, normal",
    ),
    "text cell": (
        ["problem.dataset=text.csv"],
        "text.csv: column 'a', row 3 holds 'oops'; turn it into a number, or drop the column",
    ),
    "NaN cell": (
        ["problem.dataset=nan.csv"],
        "nan.csv: column 'a', row 3 is empty or NaN; fill it or drop the row",
    ),
    "empty cell": (
        ["problem.dataset=empty.csv"],
        "empty.csv: column 'a', row 3",
    ),
    "infinite cell": (
        ["problem.dataset=infinite.csv"],
        "infinite.csv: column 'a', row 3 is infinite; give a finite number",
    ),
    "NaN target": (
        ["problem.dataset=no_target.csv"],
        "no_target.csv: column 'y', row 3",
    ),
    "row of no client": (
        ["problem.dataset=nobody.csv"],
        "nobody.csv: column 'client', row 3",
    ),
    "file without rows": (
        ["problem.dataset=header.csv"],
        "header.csv: has no rows; give at least one below the header",
    ),
    "empty file": (["problem.dataset=nothing.csv"], "nothing.csv: cannot be read as CSV"),
    "unknown target": (
        ["problem.target=z"],
        "own.csv: has no target column 'z'; the columns are client, a, b, y. Set problem.target",
    ),
    "numbers for classes": (
        ["problem.name=logistic-regression"],
        "own.csv: target 'y' holds numbers such as 0.5, not classes; use a regression problem",
    ),
    "client without samples": (
        [*SHARED, "clients.count=5", "partition={name: dirichlet, alpha: 0.01, min_size: 0}"],
        "has no rows; use fewer clients or a larger alpha",
    ),
    "no draw without an empty client": (
        [*SHARED, "clients.count=6", "partition={name: dirichlet, alpha: 0.001}"],
        "partition: none of 1000 draws gave every client 1 rows; use fewer clients or a larger",
    ),
    "more clients than rows": (
        [*SHARED, "clients.count=7"],
        "clients.count: 7 clients cannot share 6 rows; use fewer",
    ),
    "partition of data that are split": (
        ["partition=iid"],
        "partition: the data assigns rows to clients; leave the partition out",
    ),
    "seed twice": (["seeds=[0, 3, 0]"], "seeds: found [0, 3, 0]; give each seed once"),
    "duplicate labels": (
        ["algorithms.1.label=fedavg"],
        "algorithms.1.label: 'fedavg' is taken by algorithms.0; set label to tell them apart",
    ),
    "pooling rows that weigh differently": (
        ["problem.weighting=uniform", "algorithms=[centralised]"],
        "problem.weighting: 'uniform' with divide_by 'samples' weights the rows of clients",
    ),
    "gap to an unknown optimum": (
        [*SHARED, "clients.count=2", "problem.name=mlp", "evaluate.gap=true"],
        "evaluate.gap: gap: true needs a known optimum, but 'mlp' leaves the optimum unknown",
    ),
    "key of a grid": (
        ["grid={participation.cohrt: [1, 2]}"],
        "grid.participation.cohrt: unknown key 'cohrt'; did you mean 'cohort'?",
    ),
    "value of a grid": (
        ["grid={clients.delay.mean_s: [1, -2]}"],
        "grid.clients.delay.mean_s: found -2",
    ),
    "override without a value": (["rounds"], "--set rounds: found no key=value"),
    "override of an algorithm that is not": (
        ["algorithms.3.local.lr=1"],
        "algorithms.3.local.lr: found index 3 in a list of 2; count from 0",
    ),
    "unknown topology": (
        ["topology=rnig"],
        "topology: unknown topology 'rnig'; did you mean 'ring'?",
    ),
    "unknown mobility": (
        ["topology={name: geometric, range_m: 9, mobility: waypiont}"],
        "topology.mobility: unknown mobility 'waypiont'; did you mean 'waypoint'?",
    ),
    "negative range": (
        ["topology={name: geometric, range_m: -5}"],
        "topology.range_m: found -5; it should be greater than 0",
    ),
    "flat area": (
        ["topology={name: geometric, range_m: 5, area_m: [10, 0]}"],
        "topology.area_m.1: found 0; it should be greater than 0",
    ),
    "client without links": (
        ["topology={name: trace, path: contacts.csv, loss: 0.999}"],
        "topology: client 0 has no link in graph 0; link more clients, or set disconnected to",
    ),
    "link of a client that does not exist": (
        ["topology={name: trace, path: stranger.csv}"],
        "stranger.csv: row 2: v is '3'",
    ),
    "missing trace": (
        ["topology={name: trace, path: missing.csv}"],
        "missing.csv: cannot be read: No such file or directory",
    ),
    "redraw of what is not drawn": (
        ["topology={name: ring, disconnected: redraw}"],
        "topology.disconnected: found redraw, but every draw of this graph is the same; give",
    ),
    "more memory than there is": (
        [DRAWN, "clients.count=100000"],
        "executor: needs about",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("overrides", "line"), WRONG.values(), ids=WRONG.keys())
def test_a_wrong_scenario_ends_in_one_line(overrides, line, refused, folder):
    changes = [part for override in overrides for part in ("--set", override)]
    assert line in refused("run", "small.yaml", "--out", "out", *changes)
    assert not (folder / "out").exists()


def test_memory_is_compared_with_what_there_is(refused):
    line = refused("check", "small.yaml", "--set", DRAWN, "--set", "clients.count=100000")
    assert "(100000 actors)" in line
    assert "GiB are available; use a larger executor.clients_per_actor" in line


def test_the_scenario_itself_is_right(folder, monkeypatch, capsys):
    """Otherwise every line above could be about something else."""
    monkeypatch.setattr(sys, "argv", ["rayfed", "check", "small.yaml"])
    with pytest.raises(SystemExit) as end:
        cli.main()
    assert end.value.code == 0
    assert "2 runs" in capsys.readouterr().out


FILE = {
    "nothing": (
        "nowhere.yaml",
        None,
        "nowhere.yaml: cannot be read: No such file or directory; looked in",
    ),
    "a folder": (".", None, ".: cannot be read: Is a directory"),
    "a Python object": (
        "bad.yaml",
        f"name: {PICKLED}\nrounds: 2\n",
        "bad.yaml:1: holds a value that is not plain YAML (a Python object?); remove its tag",
    ),
    "no YAML": (
        "bad.yaml",
        "rounds: 2\nname: [open\nseeds: [0]\n",
        "bad.yaml:3: is not valid YAML",
    ),
    "a list": ("bad.yaml", "- a\n- b\n", "bad.yaml: holds no mapping; write keys such as"),
    "no text": ("bad.yaml", b"\xff\xfe\x00name", "bad.yaml: is not text in UTF-8"),
    "no problem": (
        "bad.yaml",
        "rounds: 2\nclients: {count: 3}\nalgorithms: [fedavg]\n",
        "bad.yaml: problem: is missing; give it",
    ),
}


@pytest.mark.parametrize(("name", "text", "line"), FILE.values(), ids=FILE.keys())
@pytest.mark.parametrize("command", ["run", "check"])
def test_a_file_that_is_no_scenario(command, name, text, line, refused, folder):
    if text is not None:
        (folder / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    assert line in refused(command, name)
    assert not (folder / "pwned").exists()


def test_the_data_file_is_looked_for_beside_the_scenario(refused, folder, monkeypatch, tmp_path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "missing.csv").write_text(OWN)
    monkeypatch.chdir(elsewhere)
    line = refused("check", folder / "small.yaml", "--set", "problem.dataset=missing.csv")
    assert line.startswith(f"{folder / 'missing.csv'}: cannot be read: No such file")


OUT = {
    "below a file": ("own.csv/x", "--out own.csv/x: cannot be written (not a directory)"),
    "a file": ("own.csv", "--out own.csv: cannot be written (file exists)"),
    "other files": ("data", "--out data: holds files that are no results"),
    "where we are": (".", "--out .: is where we are"),
}


@pytest.mark.parametrize(("where", "line"), OUT.values(), ids=OUT.keys())
def test_an_output_folder_that_cannot_be(where, line, refused, folder):
    (folder / "data").mkdir()
    (folder / "data" / "own.csv").write_text(OWN)
    said = refused("run", "small.yaml", "--out", where, "--set", "executor=serial")
    assert line in said
    assert said.endswith("choose another folder")
    assert (folder / "own.csv").read_text() == OWN


FOLDER = {
    "resume nothing": ("resume", "nowhere", "nowhere: is no result folder; it has no scenario"),
    "resume a folder of other files": ("resume", ".", ".: is no result folder"),
    "report nothing": ("report", "nowhere", "nowhere: is no result folder; it holds no runs"),
    "report a folder of other files": ("report", ".", ".: is no result folder"),
    "list nothing": ("list", "xyzzy", "unknown kind 'xyzzy'; known: aggregators, algorithms, "),
    "list almost": ("list", "dataset", "unknown kind 'dataset'; did you mean 'datasets'?"),
}


@pytest.mark.parametrize(("command", "where", "line"), FOLDER.values(), ids=FOLDER.keys())
def test_other_commands(command, where, line, refused):
    assert line in refused(command, where)


def test_list_names_the_nearest(refused):
    line = refused("list", "algorithms", "fedexpp")
    assert line == "unknown algorithm 'fedexpp'; did you mean 'fedexp'?"


def test_a_module_that_raises_an_interrupt_is_named(folder, monkeypatch, capsys):
    (folder / "stops.py").write_text("x = 1\nraise KeyboardInterrupt\n")
    command = ["rayfed", "run", "small.yaml", "--set", "algorithms.0.name=stops:X"]
    monkeypatch.setattr(sys, "argv", command)
    with pytest.raises(SystemExit) as end:
        cli.main()
    assert end.value.code == 130
    told = "rayfed: interrupted, nothing was started: KeyboardInterrupt (stops.py:2)\n"
    assert capsys.readouterr().err == told


def test_a_process_of_its_own_never_imports_ray(folder):
    """A real process: the status that a shell sees, and what was imported by then."""
    script = (
        "import sys, atexit\n"
        "atexit.register(lambda: print('ray' in sys.modules))\n"
        "from rayfed.cli.main import main\n"
        "sys.argv[1:] = ['run', 'small.yaml', '--set', 'participation.cohort=9']\n"
        "main()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 2
    assert done.stderr == (
        "rayfed: participation.cohort: found 9, but there are 3 clients; give at most 3\n"
    )
    assert done.stdout == "False\n"
    assert not (folder / "results").exists()


class TestDivergence:
    CHANGES = (
        "executor=serial",
        "rounds=60",
        "algorithms=[{name: fedavg, label: wild, local: {steps: 5, batch: full, lr: 1.0e6}}, "
        "{name: fedavg, label: tame, local: {steps: 5, batch: full, lr: 0.1}}]",
    )

    @pytest.fixture
    def told(self, folder, monkeypatch, capsys):
        """Run, and return what was said and what each run folder tells."""
        changes = [part for change in self.CHANGES for part in ("--set", change)]
        monkeypatch.setattr(sys, "argv", ["rayfed", "run", "small.yaml", "--out", "out", *changes])
        with pytest.raises(SystemExit) as end:
            cli.main()
        assert end.value.code == 1
        runs = {
            path.parent.name: json.loads(path.read_text()) for path in folder.glob("out/*/run.json")
        }
        return capsys.readouterr(), runs

    def test_ends_its_run_and_no_other(self, told, folder):
        said, runs = told
        wild = runs["wild-seed0"]
        assert wild["status"] == "failed"
        assert wild["stopped_by"] is None
        # Each step multiplies x by about 1e6, so 5 of them by 1e30; the loss, a square, passes
        # 1e308 when x passes 1e154: in round 6 at the latest.
        assert wild["reason"].startswith(("round 5: ", "round 6: "))
        assert wild["reason"].endswith("not finite; likely the step is too large (local lr 1e+06)")
        failed = [line for line in said.err.splitlines() if " failed: " in line]
        assert failed == [f"wild-seed0 failed: {wild['reason']}"]
        assert runs["tame-seed0"]["status"] == "finished"
        assert runs["tame-seed0"]["stopped_by"] == "rounds"
        assert (folder / "out" / "tame-seed0" / "model.npz").is_file()
        # What was recorded is kept, and the page shows it.
        assert list((folder / "out" / "wild-seed0" / "rounds.parquet").glob("*.parquet"))
        assert (folder / "out" / "report.html").stat().st_size > 10_000
