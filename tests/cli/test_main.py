"""The commands as a shell sees them: what they print, their status, and what a signal does."""

import contextlib
import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from importlib import metadata
from itertools import pairwise
from pathlib import Path

import jsonschema
import pandas as pd
import pytest
import yaml
from rich.console import Console

import rayfed
from rayfed.cli import main as cli
from rayfed.core.plugins import KINDS, find
from rayfed.study.forecast.cost import (
    ACTOR_BYTES,
    HERE_BYTES,
    OWN_BYTES,
    RUNNER_BYTES,
)

FILES = sorted((Path(__file__).parents[2] / "scenarios").glob("*.yaml"))
SCENARIOS = [path for path in FILES if not path.name.endswith(".claims.yaml")]
SMALL = """
name: small [bold]
seeds: [0, 1]
rounds: 2
problem:
  name: least-squares
  dataset: {name: linear, features: 2, samples: 5}
  test: 0.2
clients: {count: 6}
participation: {cohort: 2}
algorithms:
  - {name: fedavg, label: "fedavg [x]"}
  - fedexp
executor: {name: serial}
"""


@pytest.fixture
def shell(tmp_path, command):
    """Return a function that runs a command beside small.yaml: status, output, errors."""
    (tmp_path / "small.yaml").write_text(SMALL)
    return command


class TestRun:
    def test_prints_what_runs_the_comparison_and_the_page(self, shell, tmp_path):
        status, out, err = shell("run", "small.yaml", "--out", "out")
        assert (status, err) == (0, "")
        lines = out.splitlines()
        assert lines[0] == (
            "small [bold]: 4 runs (2 algorithms, 2 seeds), 6 clients, 2 rounds; serial"
        )
        assert any(line.startswith("fedavg [x]") for line in lines)
        assert any(line.startswith("fedexp") for line in lines)
        assert lines[-1] == "page: out/report.html"
        assert (tmp_path / "out" / "report.html").is_file()

    def test_overrides(self, shell, tmp_path):
        changes = ["--set", "seeds=[7]", "--set", "algorithms=[fedavg]", "--set", "rounds=1"]
        status, out, _ = shell("run", "small.yaml", "--out", "out", *changes)
        assert status == 0
        assert "1 run (1 algorithm, 1 seed), 6 clients, 1 round;" in out
        assert (tmp_path / "out" / "fedavg-seed7" / "model.npz").is_file()

    def test_resume_and_report_of_what_is_finished(self, shell, tmp_path):
        changes = ["--set", "seeds=[7]", "--set", "algorithms=[fedavg]"]
        unseen = "no page; write it by: rayfed report out"
        status, out, _ = shell("run", "small.yaml", "--out", "out", "--no-page", *changes)
        assert (status, out.splitlines()[-1]) == (0, unseen)
        assert not (tmp_path / "out" / "report.html").exists()
        status, out, _ = shell("resume", "out", "--no-page")
        assert (status, out.splitlines()[-1]) == (0, unseen)
        status, out, _ = shell("resume", "out")
        assert status == 0
        assert out.startswith("small [bold]: 0 of 1 run to resume\n")
        assert (tmp_path / "out" / "report.html").is_file()
        (tmp_path / "out" / "summary.csv").unlink()
        status, out, _ = shell("report", "out")
        assert (status, out) == (0, "page: out/report.html\n")
        assert (tmp_path / "out" / "summary.csv").is_file()
        assert shell("report", "out", "--target", "test_loss=0.5")[0] == 0
        row = pd.read_csv(tmp_path / "out" / "summary.csv").iloc[0]
        assert (row["target_column"], row["target"]) == ("test_loss", 0.5)
        assert "test loss 0.5" in (tmp_path / "out" / "report.html").read_text("utf-8")
        status, _, err = shell("report", "out", "--target", "0.5")
        assert status == 2
        assert "--target: found '0.5'; give a column and a number" in err


class TestCheck:
    def test_says_what_will_run_and_writes_nothing(self, shell, tmp_path):
        status, out, err = shell("check", "small.yaml")
        assert (status, err) == (0, "")
        lines = [line.split() for line in out.splitlines()]
        assert ["algorithm", "setting", "seeds", "parameters", "rows"] in lines
        # Two features and the intercept; 6 clients train on 4 of their 5 rows.
        assert ["fedavg", "[x]", "0,", "1", "3", "24"] in lines
        assert ["fedexp", "0,", "1", "3", "24"] in lines
        memory = f"{HERE_BYTES // 2**20} MiB"
        assert f"0 client actors, 0 driver actors; about {memory} of memory" in out
        assert [path.name for path in tmp_path.iterdir()] == ["small.yaml"]

    def test_counts_actors_without_starting_any(self, shell, monkeypatch):
        monkeypatch.setitem(sys.modules, "ray", None)
        monkeypatch.setattr(rayfed.cli.plans, "cpus", lambda: 2)
        placed = "executor={name: ray, clients_per_actor: 4}"
        status, out, _ = shell("check", "small.yaml", "--set", placed)
        assert status == 0
        # 6 clients by fours are 2 actors; 2 CPUs are for 2 drivers, and then there is this process.
        processes = HERE_BYTES + OWN_BYTES + 2 * ACTOR_BYTES + 2 * RUNNER_BYTES
        memory = f"{processes / 2**30:.1f} GiB"
        assert f"2 client actors, 2 driver actors; about {memory} of memory" in out
        assert f"2 rounds; 2 client actors (about {memory} in all)" in out

    def test_settings_of_a_grid_are_lines(self, shell):
        grid = "grid={participation.cohort: [1, 3, 5]}"
        _, out, _ = shell("check", "small.yaml", "--set", grid, "--set", "algorithms=[fedavg]")
        assert "6 runs" in out
        assert re.findall(r"cohort=\d", out)[:3] == ["cohort=1", "cohort=3", "cohort=5"]
        assert "first 2 rounds (fedavg (cohort=3)): 3 replies used" in " ".join(out.split())

    def test_of_several_files_what_differs_is_a_table(self, shell, tmp_path):
        (tmp_path / "wide.yaml").write_text("base: small.yaml\nparticipation: {cohort: 4}\n")
        status, out, _ = shell("check", "small.yaml", "wide.yaml")
        assert status == 0
        assert out.startswith("small+wide: 8 runs (2 algorithms, 2 seeds), ")
        lines = [line.split() for line in out.splitlines()]
        assert ["key", "small", "wide"] in lines
        assert ["participation.cohort", "2", "4"] in lines

    def test_a_mistake_in_one_of_several_files_has_its_line(self, shell, tmp_path):
        for name, share in (("wide", 0.4), ("wrong", 0.0001)):
            text = f"base: small.yaml\nproblem:\n  validation: {share}\n"
            (tmp_path / f"{name}.yaml").write_text(text)
        status, _, err = shell("check", "small.yaml", "wide.yaml", "wrong.yaml")
        assert status == 2
        assert err.startswith("rayfed: wrong.yaml:3: problem.validation: found 0.0001, but ")

    def test_in_a_sentence_never_wrapped(self, shell, monkeypatch):
        monkeypatch.setenv("COLUMNS", "30")
        out = shell("check", "small.yaml")[1]
        assert out.splitlines()[0].endswith("2 rounds; serial")

    def test_counts_the_cpus_of_a_cluster(self, shell, monkeypatch):
        nodes = {"head:6379": [5], "big:6379": [2, 1, 2]}
        monkeypatch.setattr(rayfed.api, "cluster_cpus", nodes.__getitem__)
        ray = "executor={name: ray}"
        out = shell("check", "small.yaml", "--set", ray, "--address", "head:6379")[1]
        told = "4 client actors, 4 driver actors, which host clients, too; about "  # 4 runs
        assert told in out
        assert "; 4 client actors and the driver (about " in out.splitlines()[0]
        out = shell("check", "small.yaml", "--set", ray, "--address", "big:6379")[1]
        assert "4 client actors on 3 nodes, 1 combiner, 4 driver" in out

    def test_forecasts_the_first_rounds_and_warns_of_empty_ones(self, shell):
        out, err = shell("check", "small.yaml")[1:]
        assert "first 2 rounds (fedavg [x], fedexp): 2 replies used and 10 s simulated each" in out
        assert err == ""
        late = "participation={cohort: 2, deadline_s: 0.5}"
        out, err = shell("check", "small.yaml", "--set", late)[1:]
        assert "first 2 rounds (fedavg [x], fedexp): 0 replies used and 0.5 s simulated" in out
        assert err.startswith("warning: 2 of the first 2 rounds (fedavg [x], fedexp) stay empty")

    def test_says_which_point_methods_aim_at_that_is_not_that_of_f(self, shell):
        data = "problem={name: least-squares, dataset: line, weighting: uniform}"
        unequal = "partition={name: sizes, law: lognormal}"
        status, _, err = shell("check", "small.yaml", "--set", data, "--set", unequal)
        assert status == 0
        assert " ".join(err.split()) == (
            "warning: fedavg [x], fedexp: the minimised objective is the mean of the F_i by size, "
            "not F: updates weigh clients by size, F weighs them equally; give weights: uniform to "
            "minimise F"
        )

    def test_times_a_round_of_each_algorithm_if_asked(self, shell):
        assert "with --time a round" in shell("check", "small.yaml")[1]
        out = shell("check", "small.yaml", "--time")[1]
        number = r"[\d.e+]+ (ms|s)"
        assert re.search(
            rf"a round here takes: fedavg \[x\] {number}, fedexp {number}; all runs one after the "
            rf"other about {number}, without records",
            out,
        )

    def test_says_who_will_listen(self, shell, monkeypatch):
        placed = "executor={name: ray}"
        lines = shell("check", "small.yaml", "--set", placed)[1].splitlines()
        told = "Ray will listen on the loopback address of this machine only, behind a token"
        assert told in lines
        cluster = "executor={name: ray, address: 'head:6379'}"
        lines = shell("check", "small.yaml", "--set", cluster)[1].splitlines()
        told = "the Ray cluster at head:6379 listens on the network of its nodes, as it was started"
        assert told in lines
        assert "Ray" not in shell("check", "small.yaml")[1]


class TestSweep:
    SEARCH = ("--set", "search={algorithms.fedexp.local.lr: {log: [2^-9, 2^-3]}}")

    def test_prints_the_best_settings_the_trials_and_the_page(self, shell, tmp_path):
        asked = ("--trials", "3", "--sampler", "random", "--out", "out", "--set", "seeds=[4]")
        status, out, err = shell("sweep", "small.yaml", *self.SEARCH, *asked)
        assert (status, err) == (0, "")
        lines = out.splitlines()
        assert lines[0] == (
            "small [bold]: 4 runs (trials: fedavg [x] 1, fedexp 3; 1 seed), random in batches of "
            "3, by loss; serial"
        )
        assert re.match(r"fedavg \[x\] +1 +\S+ +1 *$", lines[2])
        assert re.match(r"fedexp +lr=\S+ +1 +\S+ +3 *$", lines[3])
        assert lines[-2:] == ["trials: out/trials.csv", "page: out/report.html"]
        trials = (tmp_path / "out" / "trials.csv").read_text().splitlines()
        assert len(trials) == 5
        status, again, _ = shell("resume", "out")
        assert status == 0
        assert again.splitlines()[0] == lines[0]
        assert (tmp_path / "out" / "trials.csv").read_text().splitlines() == trials
        status, _, err = shell("best", "out")
        assert (status, err) == (0, "")  # nothing is missing
        status, _, err = shell("resume", "out", "--failed")
        assert status == 2
        assert "--failed: a failed trial counts as the worst" in err

    def test_where_every_trial_failed_the_status_is_1(self, shell, monkeypatch):
        monkeypatch.setattr(rayfed.Result, "report", lambda result, **_: None)  # it takes long
        search = ("--set", "search={algorithms.fedexp.local.lr: {log: [1e20, 1e21]}}")
        more = ("--trials", "1", "--out", "out", "--set", "rounds=40")
        status, out, err = shell("sweep", "small.yaml", *search, *more)
        assert status == 1
        assert "every" in out  # setting failed, where it fits
        assert re.search(r"^2 of 4 runs failed, the first fedexp-trial-1-lr=\S+: ", err, re.M)

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (("run", *SEARCH), "search: is for rayfed sweep; run that, or leave it out"),
            (("sweep",), "search: is missing; give distributions, such as"),
            (("sweep", *SEARCH, "--sampler", "grid"), "sweep.sampler: found 'grid'; it should be"),
            (("sweep", *SEARCH, "--trials", "0"), "Invalid value for '--trials'"),
            (("sweep", "--set", "search={rounds: {log: [2, 1]}}"), "search: rounds.log: found"),
            (("check", "--set", "search={roundz: {int: [1, 2]}}"), "search.roundz: "),
        ],
    )
    def test_what_cannot_be_searched_is_one_line(self, shell, tmp_path, arguments, message):
        command, *rest = arguments
        status, _, err = shell(command, "small.yaml", *rest)
        assert status == 2
        assert err.count("\n") == 1
        assert message in err
        assert not (tmp_path / "results").exists()


class TestBest:
    GRID = (
        "--set", "algorithms=[{name: gradient-descent}]",
        "--set", "grid={algorithms.*.lr: [2^-10, 2^-4, 2^12]}", "--set", "rounds=200", "--no-page",
    )  # fmt: skip

    def test_prints_the_best_settings_and_writes_a_scenario_that_runs(self, shell, tmp_path):
        """A step of 2^12 diverges."""
        assert shell("run", "small.yaml", "--out", "out", *self.GRID)[0] == 1
        status, out, err = shell("best", "out")
        assert (status, err) == (0, "")
        lines = out.splitlines()
        assert lines[0].split() == [
            "algorithm", "setting", "seeds", "loss", "tried", "failed",
        ]  # fmt: skip
        assert re.match(r"gradient-descent +lr=0\.0625 +2 +\S+ +3 +1 *$", lines[1])
        assert lines[2].startswith("ranked by loss at the end; no rows are held out")
        assert lines[3] == "run it by: rayfed run out/best.yaml"
        _, out, _ = shell("best", "out", "--target", "loss=0")
        assert re.search(r"^gradient-descent +lr=0\.0625 +2 +\S+ +never +3 +1", out, re.M)
        _, out, _ = shell("best", "out", "--target", "loss=1e9")
        assert re.search(r"^gradient-descent +lr=0\.0625 +2 +\S+ +0 +3 +1", out, re.M)
        status, _, err = shell("best", "out", "--by", "lose")
        assert (status, err) == (2, "rayfed: --by: unknown score 'lose'; did you mean 'loss'?\n")
        best = tmp_path / "out" / "best.yaml"
        assert yaml.safe_load(best.read_text("utf-8")) == {
            "name": "small [bold]-best", "seeds": [2, 3, 4], "rounds": 200,
            "problem": {
                "name": "least-squares", "test": 0.2,
                "dataset": {"name": "linear", "features": 2, "samples": 5},
            },
            "clients": {"count": 6}, "participation": {"cohort": 2},
            "executor": {"name": "serial"},
            "algorithms": [{"name": "gradient-descent", "lr": 0.0625}],
        }  # fmt: skip
        again = ("--set", "seeds=[0, 1]", "--out", "again", "--no-page")
        status, out, _ = shell("run", "out/best.yaml", *again)
        assert status == 0
        assert out.startswith("small [bold]-best: 2 runs (1 algorithm, 2 seeds)")
        first, again = (tmp_path / path for path in ("out", "again"))
        before = rayfed.load(first).rounds
        after = rayfed.load(again).rounds
        same = before[before.setting == "lr=0.0625"].loss.tolist()
        assert after.loss.tolist() == same

    def test_of_an_unfinished_study_what_is_missing_is_said(self, shell, tmp_path):
        assert shell("run", "small.yaml", "--out", "out", *self.GRID)[0] == 1
        (folder,) = (tmp_path / "out").glob("*lr=0.0625*-seed1")
        shutil.rmtree(folder)
        status, out, err = shell("best", "out")
        assert status == 0
        assert err == (
            f"warning: this study is unfinished: 1 run unfinished ({folder.name}); resume "
            "with: rayfed resume out\n"
        )
        assert re.search(r"^gradient-descent +lr=0\.0625 +1 ", out, re.M)  # of one seed

    def test_where_everything_failed(self, shell):
        changes = ("--set", "algorithms=[{name: gradient-descent, lr: 2^12}]")
        short = ("--set", "rounds=200", "--no-page")
        assert shell("run", "small.yaml", "--out", "out", *short, *changes)[0] == 1
        status, out, _ = shell("best", "out")
        assert status == 1
        assert "every setting failed" in out


class TestTopology:
    def test_a_line_for_each_graph_and_walk(self, shell):
        status, out, err = shell("topology", "small.yaml", "--set", "topology=ring")
        assert (status, err) == (0, "")
        lines = out.splitlines()
        assert lines[0] == "topology ring: 6 links at first, 2 to a client, 1 part"
        # an even ring has a period, so the walks are made lazy: (1 + cos 60 degrees) / 2
        assert re.search(r"^1 +0 +6 +2 \(2-2\) +1 +no *$", out, re.M)
        assert re.search(r"^1 +metropolis +0.5 +0.750000 +\d+ ", out, re.M)
        assert re.search(r"^ +uniform +0.5 +0.750000 +\d+ ", out, re.M)
        assert len(lines) == 6

    def test_the_walks_of_the_scenario_come_too(self, shell):
        walk = (
            "algorithms.0.participation.select={name: walk, rule: {name: metropolis, lazy: 0.25}}"
        )
        out = shell("topology", "small.yaml", "--set", "topology=complete", "--set", walk)[1]
        found = re.findall(r"^1? +(\w+) +([\d.]+) +0\.\d{6} ", out, re.M)
        assert found == [("metropolis", "0.25"), ("metropolis", "0"), ("uniform", "0")]

    def test_graphs_over_time(self, shell):
        moving = "topology={name: geometric, range_m: 600}"
        asked = ["--frames", "3", "--until", "200"]
        out = shell("topology", "small.yaml", "--set", moving, *asked)[1]
        assert re.findall(r"^\d +(\d+) ", out, re.M) == ["0", "100", "200"]

    def test_repairs_are_counted(self, shell):
        sparse = "topology={name: geometric, range_m: 200}"
        asked = ["--frames", "3", "--until", "200"]
        out = shell("topology", "small.yaml", "--set", sparse, *asked)[1]
        counted = r"; links are added to connect \d+ of the first 20 graphs, until second 20 \(dis"
        assert re.search(counted, out.replace("\n", " "))
        assert len(re.findall(r"^\d .* 1 +yes *$", out, re.M)) == 3
        whole = "topology={name: geometric, range_m: 2000}"
        out = shell("topology", "small.yaml", "--set", whole, *asked)[1]
        assert "links are added" not in out
        assert len(re.findall(r"^\d .* 1 +no *$", out, re.M)) == 3

    def test_check_has_it_in_a_line(self, shell):
        walk = ("--set", "algorithms.0.participation.select=walk")
        out = shell("check", "small.yaml", "--set", "topology=star", *walk)[1]
        line = "topology star: 5 links at first, 1.67 to a client, 1 part"
        assert line in out.splitlines()

    def test_one_that_nothing_uses_is_refused_with_its_line(self, shell, tmp_path):
        text = (tmp_path / "small.yaml").read_text()
        (tmp_path / "unused.yaml").write_text(f"{text}topology: star\n")
        number = text.count("\n") + 1
        for asked in (("check",), ("run", "--out", "out")):
            status, _, err = shell(asked[0], "unused.yaml", *asked[1:])
            assert status == 2
            assert err.startswith(f"rayfed: unused.yaml:{number}: topology: found 'star', but")
        assert shell("topology", "unused.yaml")[0] == 0

    @pytest.mark.parametrize("asked", [("check",), ("run", "--out", "out")])
    def test_one_that_nothing_uses_is_refused(self, shell, asked, tmp_path):
        name, *options = asked
        status, _, err = shell(name, "small.yaml", "--set", "topology=star", *options)
        assert status == 2
        assert err == (
            "rayfed: topology: found 'star', but nothing uses it; leave it out, walk on it "
            "(participation.select: walk) or choose a gossip method\n"
        )
        assert not (tmp_path / "out").exists()

    def test_check_tells_a_walk_as_it_is_walked(self, shell):
        # of the walks on an even ring the first would have a period
        walks = [
            f"algorithms.{k}.participation.select={{name: walk, rule: {rule}}}"
            for k, rule in enumerate(("uniform", "{name: uniform, lazy: 0.2}"))
        ]
        changes = ["topology=ring", *walks]
        out = shell("check", "small.yaml", *(w for c in changes for w in ("--set", c)))[1]
        assert out.splitlines()[-2:] == ["walk uniform, lazy 0.5", "walk uniform, lazy 0.2"]

    def test_a_scenario_without_one(self, shell):
        status, out, err = shell("topology", "small.yaml")
        assert (status, out) == (2, "")
        assert err == (
            "rayfed: topology: is missing; give a graph of clients, for example topology: ring\n"
        )


class TestList:
    @pytest.mark.parametrize("kind", KINDS)
    def test_every_plug_in_has_a_line(self, shell, kind):
        status, out, _ = shell("list", kind)
        assert status == 0
        lines = out.splitlines()
        for name in find(kind):
            assert any(re.match(rf"{name} +\S", line) for line in lines), name

    @pytest.mark.parametrize(("kind", "name"), [(k, name) for k in KINDS for name in find(k)])
    def test_every_plug_in_has_details(self, shell, kind, name):
        status, out, err = shell("list", kind, name)
        assert (status, err) == (0, "")
        assert out.splitlines()[0].strip()
        assert re.search(r"^setting +type +default +meaning", out, re.M)

    def test_without_a_kind_all_names(self, shell):
        status, out, _ = shell("list")
        assert status == 0
        assert re.search(r"^delays +.*\blognormal\b", out, re.M)
        assert all(re.search(rf"^{kind} ", out, re.M) for kind in KINDS)

    def test_of_an_algorithm_the_paper_and_the_settings(self, shell):
        out = shell("list", "algorithms", "fedexp")[1]
        assert "https://arxiv.org/abs/2301.09604" in out
        assert re.search(r"^epsilon +float +0.001 +Added to the squared norm", out, re.M)

    def test_of_what_is_found_only(self, shell):
        assert shell("list", "delays", "pareta")[0] == 2


@pytest.fixture(scope="module")
def schema():
    with contextlib.redirect_stdout(io.StringIO()) as out:
        cli.schema()
    return json.loads(out.getvalue())


class TestSchema:
    def test_is_printed(self, shell, schema):
        status, out, err = shell("schema")
        assert (status, err) == (0, "")
        assert json.loads(out) == schema

    @pytest.mark.parametrize(
        "part", [0, *(pytest.param(k, marks=pytest.mark.slow) for k in (1, 2))]
    )
    def test_accepts_the_scenarios(self, schema, part):
        assert SCENARIOS
        judge = jsonschema.validators.validator_for(schema)(schema)
        for path in SCENARIOS[part::3]:
            judge.validate(yaml.safe_load(path.read_text("utf-8")))

    @pytest.mark.parametrize(
        "change",
        [
            {"round": 3},
            {"rounds": "many"},
            {"seeds": []},
            {"clients": {"count": 6, "delay": {"name": "constant", "mean": 1}}},
            {"clients": {"count": 6, "delay": {"name": "constant", "mean_s": -1}}},
            {"algorithms": [{"name": "fedavgg"}]},
            {"algorithms": [{"name": "fedavg", "epsilon": 1}]},
            {"participation": {"over_select": 0.5}},
        ],
        ids=str,
    )
    def test_refuses_what_is_refused(self, schema, change):
        judge = jsonschema.validators.validator_for(schema)(schema)
        assert judge.is_valid(yaml.safe_load(SMALL))
        assert not judge.is_valid(yaml.safe_load(SMALL) | change)


LONG = yaml.safe_load(SMALL) | {
    "seeds": [0],
    "rounds": 12,
    "checkpoint": {"every_s": 0},
    "algorithms": ["fedexp", {"name": "local-only", "local": {"steps": 1}}],
}
# A round of ten steps of 1 s lasts 100 ms, so that there is time to disturb the first run.
SLOW = {"clock": {"name": "wall", "scale": 0.01}}


def started(folder, process):
    """Wait until the first run has a few rounds behind it."""
    manifest = folder / "fedexp-seed0" / "checkpoint" / "manifest.json"
    end = time.monotonic() + 60
    while time.monotonic() < end and process.poll() is None:
        if manifest.is_file() and json.loads(manifest.read_text())["round"] >= 3:
            return
        time.sleep(0.005)
    pytest.fail("the run never started, or was over at once")


@pytest.mark.guard
@pytest.mark.parametrize(
    ("blow", "status"),
    [
        pytest.param(signal.SIGINT, 130, marks=pytest.mark.slow),
        pytest.param(signal.SIGTERM, 130, marks=pytest.mark.slow),
        (signal.SIGKILL, -signal.SIGKILL),
    ],
    ids=str,
)
def test_a_study_that_was_stopped_goes_on_to_the_same_bytes(blow, status, tmp_path, assert_same):
    (tmp_path / "long.yaml").write_text(yaml.safe_dump(LONG | SLOW))
    command = [sys.executable, "-m", "rayfed", "run", "long.yaml", "--out", "stopped"]
    with subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        started(tmp_path / "stopped", process)
        os.kill(process.pid, blow)
        said = process.communicate(timeout=60)[1]
    assert process.returncode == status
    told = json.loads((tmp_path / "stopped" / "fedexp-seed0" / "run.json").read_text())
    assert told["status"] == "running"
    assert not (tmp_path / "stopped" / "local-only-seed0").exists()
    if blow != signal.SIGKILL:
        assert said.splitlines()[-1].endswith("resume with: rayfed resume stopped")
        assert "Traceback" not in said
    calm = rayfed.run(LONG, out=tmp_path / "calm", page=False)
    resumed = rayfed.resume(tmp_path / "stopped", page=False)
    assert resumed.outcome == calm.outcome
    assert_same(calm.folder, resumed.folder)


def test_the_version_is_that_of_the_package(shell):
    assert shell("--version") == (0, f"rayfed {metadata.version('rayfed-sim')}\n", "")


@pytest.mark.parametrize("callback", [c.callback for c in cli.app.registered_commands])
def test_help_has_all_words_and_fills_the_lines_of_a_narrow_terminal(callback, shell, monkeypatch):
    monkeypatch.setenv("COLUMNS", "70")
    given = {c.callback: c.name for c in cli.app.registered_commands}[callback]
    status, out, _ = shell(given or callback.__name__.strip("_"), "--help")
    assert status == 0
    words = [word for word in callback.__doc__.split() if word != "```"]
    above = out.partition("╭")[0]
    assert above.split()[-len(words) :] == words
    if "```" not in callback.__doc__:
        lines = [line.rstrip() for line in above.splitlines()]
        for line, following in pairwise(lines):
            if line and following:
                assert len(f"{line} {following.split()[0]}") > 69


def test_without_a_command_there_is_help(shell):
    status, out, _ = shell()
    assert status == 0
    assert "rayfed run quickstart" in out
    assert "--version" in out


def test_a_wish_to_end_is_heard_where_ctrl_c_is_ignored():
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # as in a shell's background
    try:
        with pytest.raises(KeyboardInterrupt):
            cli._terminated(signal.SIGTERM, None)
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_terminal_of_30_columns_gets_an_error_on_one_line(shell, monkeypatch):
    monkeypatch.setattr(cli, "err", Console(file=(said := io.StringIO()), width=30))
    assert shell("check", "no" * 30 + ".yaml")[0] == 2
    assert said.getvalue().count("\n") == 1
