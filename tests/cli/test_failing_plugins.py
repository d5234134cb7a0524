"""What a user sees whose own client function fails: why, where, and how to go on."""

import importlib
import re
import sys

import numpy as np
import pytest

import rayfed
from rayfed import api
from rayfed.testing.compare import assert_same_results

SCENARIO = """
seeds: [0]
rounds: 4
problem:
  name: least-squares
  dataset: {name: linear, features: 2, samples: 5}
clients: {count: 8}
algorithms:
  - {name: 'own_half:Own', label: own, local: {steps: 2, batch: 2}}
executor: serial
"""
HEAD = """from dataclasses import dataclass
from rayfed.algorithms.fedavg import FedAvg
from rayfed.messages import Upload

@dataclass(frozen=True, kw_only=True)
class Own(FedAvg):
    name = "own"
    def train(self, clients, x):
"""
FIRST = HEAD.count("\n") + 1
FINE = "        return super().train(clients, x)\n"
BROKEN = {
    "exception": (
        "        print('at', clients.ids.max())\n"
        "        if clients.round > 2 and 6 in clients.ids:\n"
        "            raise ValueError('labels are\\nodd')\n" + FINE,
        "round 3, time 4 s, client 6, 'train' failed: "
        f"ValueError: labels are odd (own_half.py:{FIRST + 2})",
    ),
    "missing key": (
        "        return Upload({'delta': clients.state['nothing']})\n",
        "round 1, time 0 s, client 0, 'train' failed: "
        f"KeyError: 'nothing' (own_half.py:{FIRST})",
    ),
    "wrong shape": (
        "        return Upload({'delta': super().train(clients, x).values['delta'][:, :1]})\n",
        "round 1, time 0 s, client 0, 'train' failed: Own.train declares the upload "
        "{'delta': 3} but sends {'delta': 1} (numbers per client); correct `up` of its Ask "
        f"(own_half.py:{FIRST - 1})",
    ),
}  # fmt: skip


@pytest.fixture
def own(tmp_path, request, monkeypatch):
    """Return a function that writes the user's module, which is then imported anew."""
    (tmp_path / "own.yaml").write_text(SCENARIO)
    if not hasattr(request, "param"):  # the page takes longer than the run
        monkeypatch.setattr(api.Result, "report", lambda result, **_: None)

    def write(body):
        (tmp_path / "own_half.py").write_text(HEAD + body)
        sys.modules.pop("own_half", None)
        importlib.invalidate_caches()

    return write


@pytest.mark.parametrize("mistake", BROKEN)
def test_the_reason_the_line_the_log_and_the_next_command_are_said(command, own, tmp_path, mistake):
    body, reason = BROKEN[mistake]
    own(body)
    status, _, err = command("run", "own.yaml", "--out", "out")
    assert status == 1
    lines = err.splitlines()
    assert lines[:3] == [
        f"own-seed0 failed: {reason}",
        "  its log: out/own-seed0/log.txt",
        "after fixing the cause, resume with: rayfed resume --failed out (--debug for breakpoints)",
    ]
    assert reason in (tmp_path / "out/own-seed0/log.txt").read_text()


def test_prints_of_client_halves_have_run_round_and_clients_in_front(command, own):
    own(BROKEN["exception"][0])
    out = command("run", "own.yaml", "--out", "out")[1]
    told = [line for line in out.splitlines() if line.endswith("at 7")]
    assert told == [f"own-seed0, round {r}, clients 0-7: at 7" for r in (1, 2, 3)]


@pytest.mark.parametrize("own", ["with page"], indirect=True)
def test_the_page_shows_what_was_raised_line_by_line(command, own, tmp_path):
    own(BROKEN["exception"][0])
    command("run", "own.yaml", "--out", "out")
    page = (tmp_path / "out/report.html").read_text()
    raised = re.search(r"<pre tabindex=\"0\">(Traceback.*?)</pre>", page, re.S).group(1)
    assert "raise ValueError" in raised
    assert raised.count("Traceback") == 1  # not that of the stack before it as well


def test_resume_goes_on_with_what_failed_only_if_asked(command, own, tmp_path):
    own(BROKEN["exception"][0])
    command("run", "own.yaml", "--out", "out", "--set", "checkpoint.every_s=0")
    own(FINE)
    status, out, err = command("resume", "out")
    assert (status, out) == (2, "")
    assert "own-seed0: modules.own_half was digest" in err
    status, out, _ = command("resume", "out", "--failed")
    assert (status, out.splitlines()[0]) == (0, "own: 1 of 1 run to resume")
    assert "trace" not in (tmp_path / "out/own-seed0/run.json").read_text()
    command("run", "own.yaml", "--out", "calm", "--set", "checkpoint.every_s=0")
    assert_same_results(tmp_path / "calm", tmp_path / "out")
    assert np.isfinite(rayfed.load(tmp_path / "out").rounds.loss).all()


def test_breakpoints_work_with_debug_whatever_the_executor(command, own, tmp_path, monkeypatch):
    own("        breakpoint()\n" + BROKEN["missing key"][0])
    seen = []
    monkeypatch.setitem(sys.modules, "ray", None)
    monkeypatch.setattr(sys, "breakpointhook", lambda: seen.append(sys.stdout))
    stdout = sys.stdout
    status, _, err = command("run", "own.yaml", "--out", "out", "--debug", "--set", "executor=ray")
    assert status == 1
    assert seen
    assert all(stream is stdout for stream in seen)
    raised = '  File "' + str(tmp_path / "own_half.py")
    assert raised in err  # the traceback on the terminal
    assert "its log" not in err


CLASS = "from dataclasses import dataclass\nfrom rayfed.algorithms.fedavg import FedAvg\n"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (CLASS + "@dataclass\nclass Own(FedAvg):\n    k: int = 1\n",
         "own_half:Own: cannot be imported: TypeError: cannot inherit non-frozen dataclass from a "
         "frozen one; add frozen=True to its @dataclass (own_half.py:3)"),
        (CLASS + "class Own(FedAvg)\n    k = 1\n",
         "own_half:Own: cannot be imported: SyntaxError: expected ':' (own_half.py:3)"),
        (CLASS + "class Own(FedAvg):\n    k: int = 1\n",
         "own_half:Own: has the setting 'k' but is no dataclass; add @dataclass(frozen=True, "
         "kw_only=True)"),
        (CLASS + "@dataclass(frozen=True)\nclass Own(FedAvg):\n    k: 'Flot' = 1\n",
         "own_half:Own: a setting has a type that cannot be found: name 'Flot' is not defined; "
         "import it in own_half"),
        ("import own_other\n", None),
    ],
)  # fmt: skip
def test_a_module_that_cannot_be_used_is_one_line(command, own, tmp_path, text, told):
    own("")
    (tmp_path / "own_half.py").write_text(text)
    (tmp_path / "own_other.py").write_text("def go():\n    return 1 / 0\ngo()\n")
    status, out, err = command("check", "own.yaml")
    assert (status, out, err.count("\n")) == (2, "", 1)
    if told is None:  # every frame of the user's, the innermost first
        told = (
            "own_half:Own: cannot be imported: ZeroDivisionError: division by zero "
            "(own_other.py:2 <- own_other.py:3 <- own_half.py:1)"
        )
    assert err.endswith(f": {told}\n")
    assert err.startswith("rayfed: own.yaml:9: algorithms.0")


def test_class_variables_need_no_decorator(command, own, tmp_path):
    own("")
    body = "from typing import ClassVar\nclass Own(FedAvg):\n    k: ClassVar[int] = 1\n"
    (tmp_path / "own_half.py").write_text(CLASS + body)
    assert command("check", "own.yaml")[0] == 0
