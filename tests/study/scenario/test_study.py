"""Scenarios: read and written back, swept, and refused in one line that says where."""

import dataclasses
import pickle
import textwrap
from pathlib import Path

import pytest
import yaml

import rayfed
from rayfed.algorithms import FedAvg
from rayfed.core.errors import ScenarioError
from rayfed.datasets import Mushroom, Tabular
from rayfed.population import ConstantDelay, Cyclic, Lognormal
from rayfed.problems import LogisticRegression
from rayfed.selection import Weighted
from rayfed.solvers import SGD, Solver
from rayfed.study import (
    ClientGroup,
    Clients,
    Executor,
    Participation,
    Study,
    StudyKeywords,
    apply_overrides,
    expand,
    load,
    slug,
)
from rayfed.study.scenario.files import with_lines

SCENARIO = textwrap.dedent(
    """
    name: quickstart
    description: one sentence
    seeds: [0, 1, 2]
    rounds: 100
    stop: {time_s: 3600, loss_gap: 1.0e-6, accuracy: 0.95}
    evaluate: {every: 1, clients: auto}
    checkpoint: {every_s: 5}
    clock: {name: wall, scale: 0.01}
    dtype: float64
    problem: {name: logistic-regression, dataset: mushroom, l2: 1.0e-3, test: 0.2}
    partition: {name: dirichlet, alpha: 0.3}
    clients:
      count: 20
      delay: {name: lognormal, mean_s: 1.0, sigma: 0.5}
      stragglers: {fraction: 0.2, slowdown: 8}
      network: {down_mbps: 20, up_mbps: 5}
      availability: {name: cyclic, groups: 4, rounds: 1}
      groups:
        - {name: phones, fraction: 0.5, delay: {name: exponential, mean_s: 3.0}, local: {steps: 5}}
    participation: {cohort: 5, select: {name: uniform}, over_select: 1.0, deadline_s: null}
    algorithms:
      - {name: fedavg, local: {epochs: 2, batch: full, lr: 0.1}}
      - {name: fedexp, label: "FedExP eps=1e-3", epsilon: 1.0e-3, local: {steps: 20, batch: 32}}
    executor: {name: ray, clients_per_actor: 1}
    """
)


def scenario(*overrides):
    return apply_overrides(yaml.safe_load(SCENARIO), overrides)


def lines_of(tmp_path, text, *overrides):
    """Return the lines that a scenario file ends in, without the name of its folder."""
    path = tmp_path / "s.yaml"
    path.write_text(textwrap.dedent(text))
    with pytest.raises(ScenarioError) as error:
        load(path, overrides)
    return str(error.value).replace(f"{tmp_path}/", "").splitlines()


def wrong(*overrides):
    """Return the one line that a scenario with these overrides ends in."""
    with pytest.raises(ScenarioError) as error:
        Study.parse(scenario(*overrides))
    assert "\n" not in str(error.value)
    return str(error.value)


class TestValues:
    def test_plugins_are_values(self):
        study = Study.parse(scenario())
        assert study.clients.delay == Lognormal(mean_s=1.0, sigma=0.5)
        assert study.clients.availability == Cyclic(groups=4, rounds=1)
        assert study.problem == LogisticRegression(l2=1e-3)
        assert study.data == Mushroom(test=0.2)
        assert study.algorithms[0] == FedAvg(local=SGD(epochs=2, batch="full", lr=0.1))
        assert study.labels == ("fedavg", "FedExP eps=1e-3")

    def test_what_is_left_out_has_defaults(self):
        clients = {"count": 3}
        study = Study.parse(
            {"rounds": 1, "problem": "least-squares", "clients": clients, "algorithms": ["fedavg"]}
        )
        assert study.seeds == (0,)
        assert study.participation.cohort is None
        assert study.clients.delay == ConstantDelay(mean_s=1.0)
        assert study.algorithms == (FedAvg(),)
        assert study.partition is None
        assert study.data is None
        assert study.executor.clients_per_actor == "auto"

    def test_bare_names_stand_for_their_defaults(self):
        study = Study.parse(
            scenario(
                "participation.select=weighted", "clock=virtual", "executor=serial",
                "clients.delay=constant", "problem.dataset=mushroom",
            )
        )  # fmt: skip
        assert study.participation.select == Weighted()
        assert (study.clock.name, study.executor.name) == ("virtual", "serial")
        assert study.clients.delay == ConstantDelay()

    @pytest.mark.parametrize(
        ("key", "values"),
        [
            ("server.uploads_mbps", [1.0, 2.0]),
            ("participation.deadline_s", [3.0, 4.0]),
            ("evaluate.every", [1, 2]),
            ("stop.loss", [0.1, 0.2]),
        ],
    )
    def test_keys_of_its_parts_can_be_swept(self, key, values):
        part, name = key.split(".")
        studies = [one for _, one in expand(Study.parse(scenario(f"grid={{{key}: {values}}}")))]
        assert [getattr(getattr(one, part), name) for one in studies] == values

    def test_python_passes_classes_and_values(self):
        raw = scenario()
        raw["algorithms"] = [FedAvg, FedAvg(label="slow", server_lr=0.5)]
        raw["clients"]["delay"] = ConstantDelay(mean_s=4)
        raw["problem"] = {"name": LogisticRegression, "dataset": "mushroom", "l2": 0.5}
        study = Study.parse(raw)
        assert study.algorithms == (FedAvg(), FedAvg(label="slow", server_lr=0.5))
        assert study.clients.delay == ConstantDelay(mean_s=4.0)
        assert study.problem == LogisticRegression(l2=0.5)
        assert study.data == Mushroom()

    def test_values_passed_in_are_checked_too(self):
        raw = scenario()
        raw["clients"]["delay"] = ConstantDelay(mean_s=-4.0)
        with pytest.raises(ScenarioError, match=r"^clients.delay.mean_s: found -4.0; it should"):
            Study.parse(raw)

    def test_a_class_named_by_its_module(self):
        study = Study.parse(
            scenario("clients.delay={name: rayfed.population:ConstantDelay, mean_s: 2}")
        )
        assert study.clients.delay == ConstantDelay(mean_s=2.0)

    def test_numbers_that_yaml_reads_as_text(self):
        assert yaml.safe_load("1e-3") == "1e-3"
        assert Study.parse(scenario("problem.l2=1e-3")).problem.l2 == 1e-3

    def test_it_is_frozen(self):
        with pytest.raises(ValueError, match="frozen"):
            Study.parse(scenario()).rounds = 3


MADE_OF = {
    "rounds": 5,
    "problem": {"name": "logistic-regression", "l2": 0.1, "dataset": "mushroom", "test": 0.2},
    "partition": {"name": "dirichlet", "alpha": 0.3},
    "clients": {
        "count": 8,
        "delay": {"name": "lognormal", "mean_s": 2.0},
        "groups": [{"count": 2, "local": {"steps": 5}}],
    },
    "participation": {"cohort": 3, "select": "weighted"},
    "algorithms": [
        {"name": "fedavg", "local": {"steps": 2, "lr": 0.3}},
        {"name": "fedexp", "participation": {"deadline_s": 4}},
    ],
}


class TestObjects:
    """A study of Python objects is that of the file, and is refused in the same words."""

    @staticmethod
    def made(**changes):
        group = ClientGroup(count=2, local={"steps": 5})
        clients = Clients(count=8, delay=Lognormal(mean_s=2.0), groups=(group,))
        algorithms = (
            rayfed.algorithms.FedAvg(local=rayfed.solvers.SGD(steps=2, lr=0.3)),
            rayfed.algorithms.FedExP(participation={"deadline_s": 4}),
        )
        return Study(
            **{
                "rounds": 5,
                "problem": LogisticRegression(l2=0.1),
                "data": Mushroom(test=0.2),
                "partition": rayfed.datasets.Dirichlet(alpha=0.3),
                "clients": clients,
                "participation": Participation(cohort=3, select=Weighted()),
                "algorithms": algorithms,
            }
            | changes
        )

    def test_it_is_the_study_of_the_file(self):
        assert self.made() == Study.parse(MADE_OF)
        assert self.made().to_yaml() == Study.parse(MADE_OF).to_yaml()

    def test_parts_may_be_mappings(self):
        made = self.made(problem=MADE_OF["problem"], data=None, algorithms=MADE_OF["algorithms"])
        assert made == self.made()
        with pytest.raises(ScenarioError, match=r"^data: found problem.dataset as well"):
            self.made(problem=MADE_OF["problem"])
        assert self.made(data="mushroom").data == Mushroom()
        assert self.made(data={"name": "linear", "features": 3}).data.features == 3

    def test_a_study_of_objects_comes_back_from_its_file(self):
        data = Mushroom(test=0.1, validation=0.2)
        made = self.made(problem=LogisticRegression(l2=0.1, init="ones"), data=data)
        again = Study.parse(yaml.safe_load(made.to_yaml()))
        assert again == made
        assert (again.data, again.problem.init) == (data, "ones")

    @pytest.mark.parametrize("settings", [{}, {"target": "price", "test": 0.1}])
    def test_a_table_of_the_users_is_recorded_as_its_path(self, settings, tmp_path):
        path = str(tmp_path / "rows.csv")
        made = self.made(data=Tabular(path=path, **settings))
        assert made.to_dict()["problem"]["dataset"] == path
        assert Study.parse(made.to_dict()) == made
        assert Study.parse(scenario(f"problem.dataset={path}")).data == Tabular(path=path, test=0.2)

    def test_a_table_with_settings_of_its_own_keeps_them(self, tmp_path):
        path = str(tmp_path / "rows.csv")
        made = self.made(data=Tabular(path=path, client="who"))
        assert made.to_dict()["problem"]["dataset"]["client"] == "who"
        assert Study.parse(made.to_dict()) == made

    def test_the_keywords_of_functions_are_those_of_a_study(self):
        assert set(StudyKeywords.__annotations__) == set(Study.model_fields)

    def test_it_records_the_same_bytes(self, tmp_path, assert_same):
        rayfed.run(MADE_OF | {"executor": "serial"}, out=tmp_path / "file", page=False)
        made = self.made(executor=Executor(name="serial"))
        rayfed.run(made, out=tmp_path / "objects", page=False)
        assert_same(tmp_path / "file", tmp_path / "objects")

    @pytest.mark.parametrize(
        ("part", "given", "line"),
        [
            (Study, {"problem": "logistic-regression", "algorithms": ["fedavg"]}, "rounds: is mis"),
            (Clients, {"count": 0}, "count: found 0; it should be at least 1"),
            (Clients, {"cont": 3}, "cont: unknown key 'cont'; did you mean 'count'?"),
            (Study, {"problem": {"l2": 1}, "algorithms": ["fedavg"]}, "problem.name: the name is"),
        ],
    )
    def test_what_is_wrong_is_one_line(self, part, given, line):
        with pytest.raises(ScenarioError) as error:
            part(**given)
        assert str(error.value).startswith(line)
        assert "\n" not in str(error.value)

    def test_all_mistakes_of_parts_are_said_together(self):
        wrong = {"count": 0, "delay": {"name": "lognormal", "mean_s": -1}}
        with pytest.raises(ScenarioError, match="3 mistakes") as error:
            self.made(clients=wrong, rounds=0)
        assert "clients.delay.mean_s: found -1" in str(error.value)


class TestPaths:
    def test_they_are_relative_to_the_scenario(self, tmp_path):
        study = Study.parse(
            scenario(
                "problem.dataset=rows.csv.gz", "problem.test=more/t.parquet", "problem.init=x.npz"
            ),
            tmp_path,
        )
        rows, held_out = tmp_path / "rows.csv.gz", tmp_path / "more" / "t.parquet"
        assert study.data == Tabular(path=str(rows), test=str(held_out))
        assert study.problem.init == str(tmp_path / "x.npz")

    def test_so_are_those_of_plugins(self, tmp_path):
        trace = "topology={name: trace, path: contacts.csv}"
        study = Study.parse(scenario(trace), tmp_path)
        assert study.topology.path == str(tmp_path / "contacts.csv")
        assert Study.parse(study.to_dict(), tmp_path / "elsewhere") == study

    @pytest.mark.parametrize("name", ["arrays", "femnist", "image-folder"])
    def test_so_are_those_of_data_sets(self, name, tmp_path):
        study = Study.parse(scenario(f"problem.dataset={{name: {name}, path: rows}}"), tmp_path)
        assert study.data.path == str(tmp_path / "rows")

    def test_names_and_numbers_are_no_paths(self):
        study = Study.parse(scenario("problem.init=zeros", "problem.test=0"))
        assert (study.problem.init, study.data.test) == ("zeros", 0.0)

    def test_a_test_set_must_be_a_table(self):
        assert wrong("problem.test=rows.txt") == (
            "problem.test: found 'rows.txt'; give a fraction, or a path ending in .csv, .parquet "
            "or .libsvm"
        )


class TestWrittenBack:
    def test_the_resolved_yaml_is_the_same_study(self):
        study = Study.parse(scenario('grid={"algorithms.*.server_lr": [1, 2.5]}'), "/data")
        assert Study.parse(yaml.safe_load(study.to_yaml())) == study

    def test_it_holds_what_was_left_out(self):
        resolved = yaml.safe_load(Study.parse(scenario()).to_yaml())
        assert resolved["algorithms"][0]["server_lr"] == 1.0
        assert resolved["algorithms"][0]["local"]["name"] == "sgd"
        assert resolved["problem"]["name"] == "logistic-regression"
        assert resolved["problem"]["weighting"] == "size"
        assert resolved["clients"]["network"]["latency_s"] == 0.0

    def test_python_values_get_their_names(self):
        raw = scenario()
        raw["algorithms"] = [FedAvg(label="mine")]
        study = Study.parse(raw)
        assert study.to_dict()["algorithms"][0]["name"] == "fedavg"
        assert Study.parse(study.to_dict()) == study


class TestGroups:
    def test_local_settings_change_every_algorithm(self):
        study = Study.parse(scenario())
        assert study.group_solvers(0) == (SGD(steps=5, batch="full", lr=0.1),)
        assert study.group_solvers(1) == (SGD(steps=5, batch=32),)

    def test_a_group_without_local_keeps_the_solver(self):
        study = Study.parse(scenario("clients.groups.0.local={}"))
        assert study.group_solvers(0) == (study.algorithms[0].local,)

    def test_the_population_has_them(self):
        population = Study.parse(scenario()).clients.population(seed=4)
        assert (population.count, population.seed) == (20, 4)
        assert population.groups[0].name == "phones"
        assert population.groups[0].size == 10
        assert population.network.up_mbps == 5.0

    def test_the_number_of_clients_may_come_from_the_data(self):
        study = Study.parse(scenario("clients.count=null", "participation.cohort=15"))
        assert study.clients.population(0, 8).groups[0].size == 4
        with pytest.raises(ScenarioError, match=r"found 15, but there are 8 clients"):
            study.check_cohort(8)
        with pytest.raises(ScenarioError, match=r"^clients.count: is missing"):
            study.clients.population(0)

    @pytest.mark.parametrize(
        ("override", "line"),
        [
            ("ids=[1]", "clients.groups.0: found ids and fraction; give one of"),
            ("fraction=null", "clients.groups.0: found none of ids, count and fraction; give"),
            ("fraction=1.5", "clients.groups.0.fraction: found 1.5; it should be at most 1"),
            (
                "local.step=3",
                "clients.groups.0.local.step: unknown key 'step'; did you mean 'steps'?",
            ),
            ("local.steps=0", "clients.groups.0.local.steps: found 0; it should be at least 1"),
            ("local={steps: 1, epochs: 1}", "clients.groups.0.local: found steps and epochs"),
            ("delay=fast", "clients.groups.0.delay: unknown delay 'fast'"),
            ("delay={mean_s: -1}", "clients.groups.0.delay.mean_s: found -1; it should be"),
            ("delay={shape: 2}", "clients.groups.0.delay.shape: unknown key 'shape'"),
            ("availability={p: 2}", "clients.groups.0.availability.p: unknown key 'p'"),
        ],
    )
    def test_mistakes(self, override, line):
        assert wrong(f"clients.groups.0.{override}").startswith(line)

    def test_without_a_name_it_changes_what_the_population_has(self):
        study = Study.parse(
            scenario("clients.groups=[{ids: [3], delay: {mean_s: 5}, availability: {groups: 2}}]")
        )
        (group,) = study.clients.population(seed=4).groups
        assert group.delay == Lognormal(mean_s=5.0, sigma=0.5)
        assert group.availability == Cyclic(groups=2, rounds=1)
        assert study.to_dict()["clients"]["groups"][0]["delay"] == {"mean_s": 5.0}
        assert Study.parse(study.to_dict()) == study
        grid = {"clients.delay": [{"name": "lognormal", "sigma": 1}, {"name": "constant"}]}
        made = expand(study.given() | {"grid": grid})
        delays = [one.clients.population(seed=4).groups[0].delay for _, one in made]
        assert delays == [Lognormal(mean_s=5.0, sigma=1.0), ConstantDelay(mean_s=5.0)]

    def test_with_a_name_it_stands_by_itself(self):
        raw = scenario("clients.groups=[{ids: [3], delay: {name: lognormal, mean_s: 5}}]")
        raw["clients"]["delay"]["sigma"] = 0.9
        (group,) = Study.parse(raw).clients.population(seed=4).groups
        assert group.delay == Lognormal(mean_s=5.0)

    def test_a_path_of_a_group_is_relative_to_the_scenario(self, tmp_path):
        text = "{rounds: 1, problem: {name: circle}, algorithms: [fedavg], clients: {count: 2, "
        delay = (
            "delay: {name: trace, file: all.csv}, groups: [{count: 1, delay: {file: own.csv}}]}}"
        )
        (tmp_path / "s.yaml").write_text(text + delay)
        for name in ("all", "own"):
            (tmp_path / f"{name}.csv").write_text("compute_s\n1\n")
        (group,) = load(tmp_path / "s.yaml").clients.groups
        assert group.delay == {"file": str(tmp_path / "own.csv")}

    def test_more_than_there_are(self):
        assert wrong("clients.groups=[{count: 15}, {fraction: 0.5}]") == (
            "clients.groups: the groups have 25 clients, but clients.count is 20; give fewer"
        )

    def test_more_cyclic_groups_than_clients(self):
        assert wrong("clients.availability.groups=21") == (
            "clients.availability.groups: found 21 cyclic groups of 20 clients; give fewer groups"
        )

    def test_ids_out_of_range(self):
        assert wrong("clients.groups=[{ids: [3, 20]}]").startswith("clients.groups: found id 20; ")


class TestMistakes:
    @pytest.mark.parametrize(
        ("override", "line"),
        [
            ("clients.dela=constant", "clients.dela: unknown key 'dela'; did you mean 'delay'?"),
            (
                "clients.delay.mean=1",
                "clients.delay.mean: unknown key 'mean'; did you mean 'mean_s'?",
            ),
            (
                "clients.delay.mean_s=-1",
                "clients.delay.mean_s: found -1; it should be greater than 0",
            ),
            (
                "clients.delay.mean_s=.inf",
                "clients.delay.mean_s: found inf; it should be a finite number",
            ),
            (
                "clients.delay.mean_s=soon",
                "clients.delay.mean_s: found 'soon'; it should be a number",
            ),
            (
                "clients.delay.name=lognorml",
                "clients.delay.name: unknown delay 'lognorml'; did you mean 'lognormal'?",
            ),
            (
                "clients.delay=[1]",
                "clients.delay: found [1]; give a name, or a mapping with a name and its settings",
            ),
            (
                "clients.delay={mean_s: 1}",
                "clients.delay.name: the name is missing; give one of: bimodal, constant, ",
            ),
            (
                "clients.delay.name=7",
                "clients.delay.name: found 7; give one of: bimodal, constant, ",
            ),
            (
                "clients.delay.name=no_such:Delay",
                "clients.delay.name: no_such:Delay: no module 'no_such'",
            ),
            (
                "clients.delay.name=rayfed.selection:All",
                "clients.delay.name: rayfed.selection:All: is not a",
            ),
            ("clients.count=0", "clients.count: found 0; it should be at least 1"),
            (
                "clients.network.up_mbps=0",
                "clients.network.up_mbps: found 0; it should be greater than 0",
            ),
            (
                "clients.network=fast",
                "clients.network: found 'fast'; give a mapping of down_mbps, up_mbps, latency_s",
            ),
            (
                "clients.stragglers.fraction=2",
                "clients.stragglers.fraction: found 2; it should be at most 1",
            ),
            (
                "clients.availability.period_s=3",
                "clients.availability: both rounds and period_s are given; keep one",
            ),
            ("clients=null", "clients: found nothing; it should be a mapping of keys and values"),
            (
                "participation.cohort=21",
                "participation.cohort: found 21, but there are 20 clients; give at most 20",
            ),
            (
                "participation.cohort=five",
                "participation.cohort: found 'five'; it should be a whole number",
            ),
            (
                "participation.cohort=2.5",
                "participation.cohort: found 2.5; it should be a whole number",
            ),
            (
                "participation.select=all",
                "participation.cohort: found 5, but select takes all; leave cohort out",
            ),
            (
                "participation.over_select=0.5",
                "participation.over_select: found 0.5; it should be at least 1",
            ),
            (
                "participation.if_fewer=leave",
                "participation.if_fewer: found 'leave'; it should be 'wait' or 'skip'",
            ),
            ("rounds=true", "rounds: found true; give a value, not yes or no"),
            ("seeds=[1, 2, 1]", "seeds: found [1, 2, 1]; give each seed once"),
            ("seeds=[]", "seeds: found []; it should be a list of at least 1"),
            ("seeds=3", "seeds: found 3; give a list, such as [0, 1, 2]"),
            ("seeds=5", "seeds: found 5; give a list, such as [0, 1, 2, 3, 4]"),
            ("seeds=-2", "seeds: found -2; give a list, such as [0, 1, 2]"),
            (
                "evaluate.clients=some",
                "evaluate.clients: found 'some'; it should be 'all' or 'auto' or a whole number",
            ),
            ("dtype=float16", "dtype: found 'float16'; it should be 'float32' or 'float64'"),
            ("clock=fast", "clock: found 'fast'; it should be 'virtual' or 'wall'"),
            (
                "executor.name=rey",
                "executor.name: found 'rey'; it should be 'auto', 'serial', 'workers'",
            ),
            ("problem.datset=x", "problem.datset: unknown key 'datset'; did you mean 'dataset'?"),
            (
                "problem.dataset=mushrom",
                "problem.dataset: unknown dataset 'mushrom'; did you mean 'mushroom'?",
            ),
            (
                "problem.dataset={name: mushroom, test: 0.2}",
                "problem.dataset.test: unknown key 'test'; write it as problem.test",
            ),
            ("problem.dataset=null", "problem.dataset: is missing; name a data set or a file"),
            ("data=mushroom", "data: unknown key 'data'; write it as problem.dataset"),
            ("problem.l2=-1", "problem.l2: found -1; it should be at least 0"),
            ("problem.test=1.0", "problem.test: found 1.0; it should be less than 1"),
            ("problem=null", "problem: found nothing; give a name, or a mapping with a name"),
            ("algorithms=[]", "algorithms: found []; it should be a list of at least 1"),
            (
                "algorithms.1.label=fedavg",
                "algorithms.1.label: 'fedavg' is taken by algorithms.0; set label",
            ),
            (
                "algorithms.0.local.steps=3",
                "algorithms.0.local: found steps and epochs; give one of them",
            ),
            (
                "algorithms.0.local.batch=ful",
                "algorithms.0.local.batch: found 'ful'; it should be a whole",
            ),
            (
                "algorithms.0.local.lr=1e400",
                "algorithms.0.local.lr: found inf; it should be a finite number",
            ),
            ("algorithms.0.name='{keys}'", "algorithms.0.name: unknown algorithm '{keys}'; known"),
            (
                "algorithms.0.local.lr=fast",
                "algorithms.0.local.lr: found 'fast'; it should be a number",
            ),
            (
                "algorithms.0.local.lr={name: cosin}",
                "algorithms.0.local.lr.name: unknown schedule 'cosin'; did you mean 'cosine'?",
            ),
            (
                "algorithms.0.aggregate=medin",
                "algorithms.0.aggregate: unknown aggregator 'medin'; did you mean 'median'?",
            ),
            (
                "algorithms.0.uplink=[{name: top-k, k: 0}]",
                "algorithms.0.uplink.0.k: found 0; it should be at least 1",
            ),
            (
                "algorithms.0.server_lr=0",
                "algorithms.0.server_lr: found 0; it should be greater than 0",
            ),
        ],
    )
    def test_one_line_with_its_place(self, override, line):
        assert wrong(override).startswith(line)

    def test_all_are_told_at_once(self):
        with pytest.raises(ScenarioError) as error:
            Study.parse(scenario("rounds=-1", "dtype=int8", "seeds=x", "rund=2"))
        assert str(error.value).splitlines() == [
            "4 mistakes",
            "  seeds: found 'x'; it should be a list",
            "  rounds: found -1; it should be at least 1",
            "  dtype: found 'int8'; it should be 'float32' or 'float64'",
            "  rund: unknown key 'rund'; did you mean 'rounds'?",
        ]

    def test_all_of_one_plugin_are_told_at_once(self):
        with pytest.raises(ScenarioError) as error:
            Study.parse(scenario("problem.l2=-1", "problem.tset=0.5", "problem.intercept=3"))
        assert {each.place for each in error.value.errors} == {
            "problem.l2", "problem.tset", "problem.intercept",
        }  # fmt: skip

    def test_mistakes_between_the_parts_are_told_at_once(self):
        with pytest.raises(ScenarioError) as error:
            Study.parse(scenario("seeds=[1, 1]", "algorithms.1.label=fedavg", "grid={grid: [1]}"))
        assert [each.place for each in error.value.errors] == [
            "seeds", "grid.grid", "algorithms.1.label",
        ]  # fmt: skip

    def test_twenty_are_printed(self):
        raw = scenario() | {f"key{k}": 1 for k in range(30)}
        with pytest.raises(ScenarioError) as error:
            Study.parse(raw)
        lines = str(error.value).splitlines()
        assert len(lines) == 22
        assert lines[0] == "30 mistakes"
        assert lines[-1] == "  and 10 more"

    def test_they_survive_pickling(self):
        with pytest.raises(ScenarioError) as error:
            Study.parse(scenario("rounds=-1", "dtype=int8"))
        again = pickle.loads(pickle.dumps(error.value))
        assert str(again) == str(error.value)
        assert again.place == "rounds"

    @pytest.mark.parametrize(
        ("override", "line"),
        [
            ("algorithms.0.mu=1", "algorithms.0.mu: unknown key 'mu'; write it as local.mu"),
            ("algorithms.0.lr=1", "algorithms.0.lr: unknown key 'lr'; write it as local.lr"),
            (
                "algorithms.0.learning_rate=1",
                "algorithms.0.learning_rate: unknown key 'learning_rate'; write it as local.lr",
            ),
            (
                "algorithms.0.local.learning_rate=1",
                "algorithms.0.local.learning_rate: unknown key 'learning_rate'; it is 'lr' here",
            ),
            (
                "algorithms.0.optimizer=adam",
                "algorithms.0.optimizer: unknown key 'optimizer'; the "
                "local solver is chosen by local.name, see rayfed list solvers",
            ),
            (
                "evaluate.fairness=true",
                "evaluate.fairness: unknown key 'fairness'; write it as measures: [fairness]",
            ),
            (
                "evaluate.appeal=5",
                "evaluate.appeal: unknown key 'appeal'; write it as measures: [appeal]",
            ),
            (
                "evaluate.skew_draws=5",
                "evaluate.skew_draws: unknown key 'skew_draws'; write it as measures: [{name: "
                "skew, draws: ...}]",
            ),
            (
                "algorithms.0.local.lr_decay=0.9",
                "algorithms.0.local.lr_decay: unknown key 'lr_decay'; write it as lr: {name: "
                "exponential, start: ..., factor: ...}",
            ),
            (
                "clients.groups.0.local.lr_decay=0.9",
                "clients.groups.0.local.lr_decay: unknown key 'lr_decay'; write it as lr: {name: "
                "exponential, start: ..., factor: ...} (local of 'fedavg')",
            ),
            (
                "algorithms.0.select=all",
                "algorithms.0.select: unknown key 'select'; write it as participation.select",
            ),
            (
                "participation.too_few=skip",
                "participation.too_few: unknown key 'too_few'; it is 'if_fewer' here",
            ),
            ("num_rounds=3", "num_rounds: unknown key 'num_rounds'; it is 'rounds' here"),
            ("num_clients=3", "num_clients: unknown key 'num_clients'; write it as clients.count"),
            ("cohort=3", "cohort: unknown key 'cohort'; write it as participation.cohort"),
            ("count=3", "count: unknown key 'count'; write it as clients.count"),
            (
                "epochs=3",
                "epochs: unknown key 'epochs'; write it as local: {epochs: ...} in an algorithm",
            ),
            (
                "batch=3",
                "batch: unknown key 'batch'; write it as local: {batch: ...} in an algorithm",
            ),
            (
                "stepsize=1",
                "stepsize: unknown key 'stepsize'; write it as local: {lr: ...} in an algorithm",
            ),
            ("local=3", "local: unknown key 'local'; write it as local: {...} in an algorithm"),
            ("trials=3", "trials: unknown key 'trials'; write it as sweep.trials"),
            ("loss_gap=3", "loss_gap: unknown key 'loss_gap'; write it as stop.loss_gap"),
        ],
    )
    def test_a_key_of_a_part_is_pointed_to_its_place(self, override, line):
        assert wrong(override) == line

    def test_a_missing_part(self):
        raw = scenario()
        del raw["problem"]
        with pytest.raises(ScenarioError, match=r"^problem: is missing; give it$"):
            Study.parse(raw)

    def test_a_run_without_an_end(self):
        assert wrong("rounds=null", "stop={}") == (
            "rounds: is missing; give rounds, or a rule under stop"
        )
        assert Study.parse(scenario("rounds=null", "stop={loss: 0.1}")).rounds is None

    def test_labels_that_make_one_folder(self):
        raw = scenario()
        raw["algorithms"] = [FedAvg(label="a b"), FedAvg(label="A/b")]
        with pytest.raises(ScenarioError, match=r"^algorithms.1.label: 'A/b' is taken"):
            Study.parse(raw)

    def test_no_mapping(self):
        with pytest.raises(ScenarioError, match="a scenario is a mapping"):
            Study.parse([1, 2])


class TestLines:
    """Every mistake has the line of the file on which it stands."""

    TEXT = """\
        rounds: 0
        problem:
          name: least-squares
          dataset: {name: linear,
                    featurs: 3}
        clients:
          count: 3
          delay: {name: lognormal, mean_s: 1,
                  sigma: -1}
          groups:
            - {ids: [1], local: {steps: 2}}
            - ids: [2]
              name: 7
        algorithms:
          - fedavg
          - name: fedavgg
    """

    def test_of_every_mistake(self, tmp_path):
        assert lines_of(tmp_path, self.TEXT) == [
            "5 mistakes",
            "  s.yaml:1: rounds: found 0; it should be at least 1",
            "  s.yaml:5: problem.dataset.featurs: unknown key 'featurs'; did you mean 'features'?",
            "  s.yaml:9: clients.delay.sigma: found -1; it should be at least 0",
            "  s.yaml:13: clients.groups.1.name: found 7; it should be a text",
            "  s.yaml:16: algorithms.1.name: unknown algorithm 'fedavgg'; did you mean 'fedavg'?",
        ]

    def test_of_what_is_missing_is_that_of_its_part(self, tmp_path):
        text = "rounds: 1\nproblem: least-squares\nclients:\n  groups:\n    - {name: a}\n"
        assert lines_of(tmp_path, text) == [
            "2 mistakes",
            "  s.yaml:5: clients.groups.0: found none of ids, count and fraction; give one of ids, "
            "count and fraction",
            "  s.yaml: algorithms: is missing; give it",
        ]

    def test_an_override_has_none(self, tmp_path):
        text = "rounds: 1\nproblem: least-squares\nclients: {count: 3}\nalgorithms: [fedavg]\n"
        assert lines_of(tmp_path, text, "rounds=0") == ["rounds: found 0; it should be at least 1"]
        assert lines_of(tmp_path, text, "algorithms.fedavg.local.lr=0", "seeds=[]") == [
            "2 mistakes",
            "  seeds: found []; it should be a list of at least 1",
            "  algorithms.0.local.lr: found 0; it should be greater than 0",
        ]

    def test_a_mistake_that_the_data_show_is_located_too(self, tmp_path):
        path = tmp_path / "s.yaml"
        path.write_text("rounds: 1\nparticipation: {cohort: 9}\n")
        error = ScenarioError("participation.cohort", "found 9")
        assert str(with_lines(error, path)) == f"{path}:2: participation.cohort: found 9"
        assert str(with_lines(error, path, ["participation.cohort=9"])) == str(error)
        assert str(with_lines(error, tmp_path / "gone.yaml")) == str(error)


class TestGrid:
    def test_every_combination_is_a_setting(self):
        grid = {"participation.cohort": [2, 5], "algorithms.*.local.lr": [0.1, "1e-2"]}
        settings = expand(scenario() | {"grid": grid})
        assert [name for name, _ in settings] == [
            "cohort=2, lr=0.1", "cohort=2, lr=1e-2", "cohort=5, lr=0.1", "cohort=5, lr=1e-2",
        ]  # fmt: skip
        _, third = settings[2]
        assert third.participation.cohort == 5
        assert [a.local.lr for a in settings[1][1].algorithms] == [0.01, 0.01]
        assert third.grid == {}

    def test_a_study_is_swept_like_its_file(self):
        raw = scenario() | {"grid": {"algorithms.0.local.lr": [0.1, 0.2]}}
        assert expand(Study.parse(raw)) == expand(raw)

    def test_one_length_replaces_the_other_by_hand(self):
        grid = {"algorithms.0.local": [{"steps": 3}, {"epochs": 1}]}
        locals_ = [study.algorithms[0].local for _, study in expand(scenario() | {"grid": grid})]
        assert locals_ == [SGD(steps=3), SGD(epochs=1.0)]

    def test_without_a_grid_there_is_one_setting(self):
        assert expand(scenario()) == [("", Study.parse(scenario()))]

    @pytest.mark.parametrize(
        ("grid", "line"),
        [
            ({"participation.cohrt": [1]}, "grid.participation.cohrt: unknown key 'cohrt'; did"),
            ({"participaton.cohort": [1]}, "grid.participaton.cohort: unknown key 'participaton'"),
            ({"algorithms.7.local.lr": [1]}, "grid.algorithms.7.local.lr: found index 7 in a list"),
            ({"algorithms.*.lr": [1]}, "grid.algorithms.*.lr: unknown key 'lr'"),
            ({"participation.cohort": [5, 50]}, "grid.participation.cohort: found 50, but there"),
            (
                {"participation.cohort": []},
                "grid.participation.cohort: found []; it should be a list",
            ),
            (
                {"participation.cohort": 5},
                "grid.participation.cohort: found 5; it should be a list",
            ),
        ],
    )
    def test_mistakes(self, grid, line):
        with pytest.raises(ScenarioError) as error:
            expand(scenario() | {"grid": grid})
        assert str(error.value).startswith(line)


class TestFile:
    def read(self, tmp_path: Path, text: str | bytes, *overrides: str) -> Study:
        path = tmp_path / "my study.yaml"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return load(path, overrides)

    def test_it_is_read_with_overrides(self, tmp_path):
        study = self.read(tmp_path, SCENARIO, "participation.cohort=7", "algorithms.*.local.lr=0.5")
        assert study == Study.parse(scenario("participation.cohort=7", "algorithms.*.local.lr=0.5"))

    def test_it_is_named_after_its_file(self, tmp_path):
        text = SCENARIO.replace("name: quickstart\n", "")
        assert self.read(tmp_path, text).name == "my study"

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            (
                "name: !!python/object/apply:os.getcwd []\n",
                "yaml:1: holds a value that is not plain",
            ),
            ("name: x\nrounds: [1, 2\n", "yaml:3: is not valid YAML: did not find expected"),
            ("name: x\n\tbad: y\n", "yaml:2: is not valid YAML: found a tab"),
            ("", "yaml: holds no mapping"),
            ("- 1\n", "yaml: holds no mapping"),
            (b"name: \xff\xfe\n", "yaml: is not text in UTF-8"),
            ("name: \x00\n", "yaml: is not valid YAML"),
        ],
    )
    def test_unreadable(self, tmp_path, text, message):
        with pytest.raises(ScenarioError) as error:
            self.read(tmp_path, text)
        assert "\n" not in str(error.value)
        assert message in str(error.value)

    def test_missing(self, tmp_path):
        with pytest.raises(ScenarioError, match="cannot be read: No such file"):
            load(tmp_path / "none.yaml")
        with pytest.raises(ScenarioError, match="cannot be read: Is a directory"):
            load(tmp_path)

    def test_a_python_tag_runs_nothing(self, tmp_path):
        target = tmp_path / "touched"
        text = f"name: !!python/object/apply:pathlib.Path.touch [{target}]\n"
        with pytest.raises(ScenarioError):
            self.read(tmp_path, text)
        assert not target.exists()


@pytest.mark.parametrize(
    ("label", "name"),
    [
        ("FedExP eps=1e-3", "FedExP-eps=1e-3"),
        ("a/b\\c:d", "a-b-c-d"),
        ("../..", "unnamed"),
        ("η = 0.1", "η-=-0.1"),
        ("x" * 100, "x" * 100),
    ],
)
def test_slug(label, name):
    assert slug(label) == name


@dataclasses.dataclass(frozen=True, kw_only=True)
class Heavy(FedAvg):
    """An algorithm with a local solver of its own."""

    name = "heavy"
    local: SGD = dataclasses.field(default_factory=lambda: SGD(momentum=0.9, steps=2))


class TestLocal:
    def test_settings_without_a_name_change_the_default_of_the_algorithm(self):
        raw = scenario() | {"algorithms": [{"name": Heavy, "local": {"lr": 0.3, "epochs": 1}}]}
        local = Study.parse(raw).algorithms[0].local
        assert local == SGD(momentum=0.9, lr=0.3, epochs=1.0)

    def test_naming_the_same_solver_changes_nothing(self):
        raw = scenario() | {"algorithms": [{"name": Heavy, "local": {"name": "sgd", "lr": 0.3}}]}
        assert Study.parse(raw).algorithms[0].local == SGD(momentum=0.9, steps=2, lr=0.3)

    def test_a_solver_that_the_algorithm_cannot_use(self):
        @dataclasses.dataclass(frozen=True, kw_only=True)
        class Other(Solver):
            name = "other"

        raw = scenario() | {"algorithms": [{"name": Heavy, "local": Other}]}
        with pytest.raises(ScenarioError, match=r"^algorithms.0.local: .*give a kind of SGD"):
            Study.parse(raw)


def test_a_key_that_is_given_twice_is_refused(tmp_path):
    file = tmp_path / "s.yaml"
    file.write_text("name: a\nclients:\n  count: 3\n  count: 4\n")
    with pytest.raises(ScenarioError, match=r"s\.yaml:4: .*'count' is given twice; remove one"):
        load(file)


@pytest.mark.parametrize(
    "override", ["seeds=[-1]", "algorithms=[{name: fedavg, server_lr: -1}]", "algorithms=[nope]"]
)
def test_the_only_entry_of_a_list_is_one_mistake(override):
    assert "more)" not in wrong(override)
