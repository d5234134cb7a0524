"""A user's own plug-in under the checks of rayfed's, and a study from nothing."""

import re
import runpy
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest
import yaml

import rayfed
from rayfed import api
from rayfed.cli.own import flower_scenario
from rayfed.core.errors import ScenarioError
from rayfed.testing import answer, own_code, own_run, reply

HEAD = """
from dataclasses import dataclass
from typing import ClassVar
import numpy as np
from rayfed.algorithms.fedavg import FedAvg
from rayfed.messages import Ask, Upload
from rayfed.population import ConstantDelay
"""
SIGN = '''
@dataclass(frozen=True, kw_only=True)
class SignAvg(FedAvg):
    """FedAvg along signs."""
    name: ClassVar[str] = "sign-avg"
    def round(self, state):
        x = state["x"]
        reply = yield Ask("train", send={"x": x}, up={"delta": x.size})
        return {"x": x - 0.01 * np.sign(reply.mean["delta"])}, {}
'''
STACKED = '''
@dataclass(frozen=True, kw_only=True)
class SignAvg(FedAvg):
    """What a client sends depends on who else is in its stack."""
    name: ClassVar[str] = "stacked"
    def train(self, clients, x):
        delta = super().train(clients, x).values["delta"]
        return Upload({"delta": delta - delta.mean(axis=0)})
'''
IN_PLACE = '''
@dataclass(frozen=True, kw_only=True)
class SignAvg(FedAvg):
    """The server's model is changed in place."""
    name: ClassVar[str] = "in-place"
    def round(self, state):
        x = state["x"]
        reply = yield Ask("train", send={"x": x}, up={"delta": x.size})
        x -= reply.mean["delta"]
        return {"x": x}, {}
'''
MORE = '''
@dataclass(frozen=True, kw_only=True)
class SignAvg(FedAvg):
    """More is sent than its Ask declares."""
    name: ClassVar[str] = "more"
    def train(self, clients, x):
        delta = super().train(clients, x).values["delta"]
        return Upload({"delta": delta, "again": delta})
'''


@pytest.fixture
def tested(command, tmp_path):
    """Return a function that writes a module and tests a class in it: status, lines by check."""
    made = iter(range(9))

    def go(body, name="SignAvg"):
        module = f"own_tested_{tmp_path.name[-8:]}_{next(made)}".replace("-", "_")
        (tmp_path / f"{module}.py").write_text(HEAD + body)
        status, out, err = command("test", f"{module}:{name}")
        lines = out.splitlines()
        states = {line[12:].partition(":")[0]: line[2:11].strip() for line in lines[:-1]}
        return status, states, err, lines[-1]

    return go


@pytest.mark.slow
def test_a_sound_algorithm_passes(tested):
    status, states, _, last = tested(SIGN)
    assert status == 0
    assert last.endswith(":SignAvg: all checks passed")
    assert states["bits"] == states["learns"] == states["state"] == "ok"
    assert states["paper"] == "advice"  # it names none


@pytest.mark.slow
@pytest.mark.parametrize(
    ("body", "failing", "told"),
    [
        (STACKED, "bits", "are different"),
        (IN_PLACE, "state", "read-only"),
        (MORE, "learns", "but sends .*'again'"),
    ],
)
def test_what_is_unsound_is_found(tested, body, failing, told):
    status, states, err, last = tested(body)
    assert status == 1
    assert states[failing] == "FAILED"
    assert re.search(told, err)
    assert re.search(r"\d+ checks failed$", last)


def test_other_kinds_are_checked_too(tested):
    body = '''
@dataclass(frozen=True, kw_only=True)
class Twice(ConstantDelay):
    """Constant."""
    name: ClassVar[str] = "twice"
'''
    status, states, _, _ = tested(body, "Twice")
    assert status == 0
    assert set(states.values()) <= {"ok", "left out", "advice"}
    status, states, err, _ = tested(
        body + "    def quantile(self, u):\n        return 2 * super().quantile(u)\n", "Twice"
    )
    assert (status, states["mean"]) == (1, "FAILED")
    assert "Twice" in err


def test_what_is_no_plug_in_is_one_line(command):
    for name, told in (
        ("math:pi", "'math'"),
        ("rayfed.core.errors:RayfedError", "is no subclass of one of Algorithm, Problem"),
    ):
        status, _, err = command("test", name)
        assert (status, err.count("\n")) == (2, 1)
        assert told in err


class TestInit:
    SHORT = ("--set", "rounds=2", "--set", "seeds=[0]", "--out", "out")

    @pytest.fixture(autouse=True)
    def plain(self, monkeypatch):
        monkeypatch.setattr(api.Result, "report", lambda result, **_: None)

    def test_from_nothing_to_a_result(self, command, tmp_path):
        status, out, _ = command("init")
        assert (status, out.splitlines()[0]) == (0, "wrote scenario.yaml")
        assert command("run", "scenario.yaml", *self.SHORT)[0] == 0
        status, _, err = command("init")  # nothing is overwritten
        assert (status, err) == (
            2, "rayfed: scenario.yaml: already exists; choose another folder\n"
        )  # fmt: skip

    KINDS = (
        "algorithm", "problem", "dataset", "partition", "delay", "selection", "measure", "panel",
        "codec", "rule", "fault",
    )  # fmt: skip

    @pytest.mark.parametrize("kinds", [*((kind,) for kind in KINDS), KINDS, ("client",)])
    def test_plug_ins_of_ones_own_run_and_pass_their_tests_by_hand(
        self, command, tmp_path, monkeypatch, kinds
    ):
        names = {kind: f"own-{kind}-{len(kinds)}" for kind in kinds}
        options = [text for kind, name in names.items() for text in (f"--{kind}", name)]
        status, out, _ = command("init", "study", *options)
        assert status == 0
        assert out.count("wrote ") == 1 + 2 * len(kinds)
        monkeypatch.syspath_prepend(tmp_path / "study")  # as pytest does
        study = tmp_path / "study" / "scenario.yaml"
        status, out, err = command("run", study, *self.SHORT)
        assert status == 0, err
        for kind, name in names.items():
            module = name.replace("-", "_")
            made = rayfed.load(tmp_path / "out")
            named = f" {module}:" in (tmp_path / "out" / "scenario.yaml").read_text()
            assert named == (kind != "panel")  # result folders name no panels
            assert len(made.outcome) == 2
            if kind == "measure":
                assert made.rounds[f"{module}_norm"].notna().all()
            held = runpy.run_path(str(tmp_path / "study" / f"test_{module}.py"))
            by_hand = [f for n, f in held.items() if n.startswith("test_") and n != "test_is_sound"]
            assert len(by_hand) == 1
            wanted = by_hand[0].__code__.co_varnames[: by_hand[0].__code__.co_argcount]
            by_hand[0](**dict.fromkeys(wanted, tmp_path / "by_hand"))

    @pytest.mark.slow
    def test_their_checks_pass(self, command, tmp_path):
        options = [text for kind in self.KINDS for text in (f"--{kind}", f"my-{kind}")]
        assert command("init", *options)[0] == 0
        for kind in self.KINDS:
            status, out, err = command("test", f"my_{kind}:My{kind.capitalize()}")
            assert status == 0, out + err
            ended = subprocess.run(
                [sys.executable, "-m", "pytest", "-q", f"test_my_{kind}.py"],
                cwd=tmp_path, capture_output=True, text=True, check=False,
            )  # fmt: skip
            assert ended.returncode == 0, ended.stdout

    @pytest.mark.slow
    def test_own_code_passes_its_checks(self, command, tmp_path):
        assert command("init", "--client", "mine")[0] == 0
        status, out, err = command("test", "scenario.yaml")
        assert (status, out.count("  ok  ")) == (0, 4), out + err
        ended = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "test_mine.py"],
            cwd=tmp_path, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert ended.returncode == 0, ended.stdout
        code = (tmp_path / "mine.py").read_text()
        hidden = code.replace("TRAIN, TEST =", "calls = []\nTRAIN, TEST =").replace(
            "    total = 0.0", "    calls.append(1)\n    total = float(len(calls))"
        )
        (tmp_path / "hidden.py").write_text(hidden)
        scenario = (tmp_path / "scenario.yaml").read_text().replace("code: mine", "code: hidden")
        (tmp_path / "scenario.yaml").write_text(scenario)
        status, out, err = command("test", "scenario.yaml")
        assert status == 1
        assert "FAILED    again" in out
        assert "train of client 0 differs; let it depend on its arguments alone" in err

    @pytest.mark.parametrize(
        ("old", "new", "late", "told"),
        [
            ("", "", "drop", None),
            ("", "", "partial", None),
            ('model["mean"] +=', 'model = {**model, "mean": 1}; model["mean"] +=', "drop",
             "train leaves the model as it was; change the one that it is given"),
            ("context.steps", '2 * context.config["epochs"]', "drop", None),
            ("context.steps", '2 * context.config["epochs"]', "partial",
             "train does the same for 1 step as for all; take context.steps steps"),
        ],
    )  # fmt: skip
    def test_code_that_trains_nothing_or_ignores_its_steps_is_found(
        self, tmp_path, request, old, new, late, told
    ):
        name, code = f"own_{abs(hash(request.node.nodeid))}", Path(own_code.__file__).read_text()
        assert old in code
        (tmp_path / f"{name}.py").write_text(code.replace(old, new) if old else code)
        scenario = tmp_path / "scenario.yaml"
        local = {"name": "own-train", "epochs": 1, "batch": 1}
        participation = {"late": late, "deadline_s": 9} if late == "partial" else {}
        scenario.write_text(yaml.safe_dump({
            "rounds": 1, "problem": {"name": "own-code", "code": name},
            "clients": {"count": 2}, "participation": participation,
            "algorithms": [{"name": "fedavg", "local": local}],
        }))  # fmt: skip
        made = own_run.checks(str(scenario))
        assert ("check_steps" in made) == (late == "partial")
        with nullcontext() if told is None else pytest.raises(AssertionError, match=told):
            for check in ("check_trained", "check_steps"):
                made.get(check, lambda: None)()

    def test_a_step_of_the_algorithm_is_no_longer_than_fedavgs(self, command, tmp_path):
        """Where all rounds say the same, the average is what each of them says."""
        command("init", "--algorithm", "own-step")
        made = runpy.run_path(str(tmp_path / "own_step.py"))["OwnStep"](momentum=0.9)
        state = {"x": np.array([0.0]), "m": np.array([2.0])}
        after, _, _ = answer(made, state, reply({"delta": [2.0]}))
        assert after["x"] == pytest.approx(-2.0)

    @pytest.mark.parametrize(
        ("option", "name", "told"),
        [
            ("algorithm", "fedavg", "'fedavg' comes with rayfed"),
            ("problem", "random", "'random' is the name of a library"),
            ("codec", "top-k", "'top-k' comes with rayfed"),
            ("rule", "krum", "'krum' comes with rayfed"),
            ("dataset", "my rows", "found 'my rows'; give a word such as my-dataset"),
            ("dataset", "class", "found 'class'; give a word such as my-dataset"),
            ("client", "torch", "'torch' is the name of a library"),
            ("delay", "gamma", "'gamma' comes with rayfed"),
            ("panel", "headline", "'headline' comes with rayfed"),
        ],
    )
    def test_a_name_that_cannot_be_is_one_line(self, command, tmp_path, option, name, told):
        status, _, err = command("init", f"--{option}", name)
        assert status == 2
        assert told in err
        assert not list(tmp_path.iterdir())


def test_a_flower_app_gets_a_scenario_once(tmp_path):
    place = tmp_path / "pyproject.toml"
    place.write_text(
        '[tool.flwr.app.components]\nclientapp = "mine.client:app"\n'
        "[tool.flwr.app.config]\nnum-server-rounds = 7\nlocal-epochs = 2\nbatch-size = 16\n"
    )
    path = flower_scenario(tmp_path)
    held = yaml.safe_load(path.read_text())
    assert held["problem"] == {"name": "flower", "app": "mine.client:app"}
    local = {"name": "own-train", "epochs": 2, "batch": 16}
    assert (held["rounds"], held["algorithms"]) == (7, [{"name": "fedavg", "local": local}])
    path.write_text("name: changed\n")
    assert flower_scenario(tmp_path).read_text() == "name: changed\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "--flower: .* has no pyproject.toml; give the folder of an app"),
        ("[project]\nname = 'a'\n", "names no clientapp under .*; give the folder of an app"),
        ("= 3", "--flower.*: .*pyproject.toml cannot be read: .*; correct it"),
    ],
)
def test_a_folder_without_a_flower_app_is_refused(tmp_path, text, message):
    if text is not None:
        (tmp_path / "pyproject.toml").write_text(text)
    with pytest.raises(ScenarioError, match=message):
        flower_scenario(tmp_path)
    assert not (tmp_path / "scenario.yaml").exists()
