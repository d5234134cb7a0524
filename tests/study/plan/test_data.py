"""Views: every row is loaded, cast and split once, and a misfit of data and problem is refused."""

import numpy as np
import pytest

from rayfed.algorithms import Centralised, FedAvg
from rayfed.core.errors import ScenarioError
from rayfed.datasets import Linear, Mushroom, Synthetic, Tabular
from rayfed.datasets.base import Source
from rayfed.problems import LeastSquares, LogisticRegression, Network, SoftmaxRegression
from rayfed.study.plan.data import Loader, Wanted

FILES = {
    "train.csv": "client,a,b,y\n" + "".join(f"{i % 2},{i},{-i},{i % 2}\n" for i in range(8)),
    "iid.csv": "a,b,y\n" + "".join(f"{i},{-i},{i % 3}\n" for i in range(9)),
    "test.csv": "b,a,y\n5,6,1\n7,8,0\n9,10,0\n",
    "strange.csv": "a,b,y\n1,2,7\n",
}


@pytest.fixture
def wanted(tmp_path):
    """Return a function that says what a scenario wants."""
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)

    def make(**changes):
        return Wanted(
            **{
                "problem": LogisticRegression(),
                "dataset": Tabular(path="train.csv"),
                "target": None,
                "test": None,
                "validation": 0.0,
                "partition": None,
                "clients": None,
                "dtype": np.dtype("float64"),
                "source": Source(tmp_path),
            }
            | changes
        )

    return make


def refused(wanted):
    with pytest.raises(ScenarioError) as error:
        Loader().load(wanted, 0)
    return str(error.value)


class TestTables:
    def test_a_users_file_holds_nothing_out(self, wanted):
        views = Loader().load(wanted(), 0)
        assert (views.shards.total(), views.shards.total("test")) == (8, 0)
        assert views.scored == "training"

    def test_a_built_in_file_holds_out_what_it_says(self, wanted):
        views = Loader().load(wanted(dataset=Mushroom(), clients=4), 0)
        n = views.shards.total() + views.shards.total("test")
        fraction = views.shards.total("test") / n
        assert fraction == pytest.approx(Mushroom.default_test, abs=4 / n)
        assert (
            Loader().load(wanted(dataset=Mushroom(), clients=4, test=0.0), 0).scored == "training"
        )

    def test_a_fraction(self, wanted):
        views = Loader().load(wanted(test=0.25), 0)
        assert (views.shards.total(), views.shards.total("test")) == (6, 2)
        assert views.scored == "held-out"

    def test_a_test_file_is_the_servers(self, wanted):
        """Its columns are put in the order of the training file's, a before b."""
        loader = Loader()
        views = loader.load(wanted(test="test.csv"), 0)
        assert views.scored == "server"
        assert views.shards.total("test") == 0
        rows = loader.tables[views.tables["server"]]
        assert rows.X.tolist() == [[6, 5, 1], [8, 7, 1], [10, 9, 1]]
        assert rows.y.tolist() == [1, 0, 0]

    def test_seeds_and_dtypes_share_what_they_can(self, wanted, monkeypatch):
        loader, read, reads = Loader(), Tabular.read, []
        monkeypatch.setattr(Tabular, "read", lambda *given: reads.append(1) or read(*given))
        for seed in (0, 1, 2):
            loader.load(
                wanted(dataset=Tabular(path="iid.csv"), problem=SoftmaxRegression(), clients=3),
                seed,
            )
        assert len(reads) == len(loader.tables) == 1
        loader.load(
            wanted(dataset=Tabular(path="iid.csv"), problem=SoftmaxRegression(), clients=3,
                   dtype=np.dtype("float32")), 0,
        )  # fmt: skip
        assert (len(reads), len(loader.tables)) == (1, 2)

    def test_the_column_of_ones_is_the_problems(self, wanted):
        for intercept, columns in ((True, 3), (False, 2)):
            problem = LogisticRegression(intercept=intercept)
            assert Loader().load(wanted(problem=problem), 0).shards.features == columns

    def test_the_shards_travel_without_their_rows(self, wanted):
        assert Loader().load(wanted(test="test.csv"), 0).shards.table is None


class TestOnDemand:
    def test_no_table_is_made(self, wanted):
        loader = Loader()
        data = Synthetic(features=4, classes=3, samples=10)
        million = wanted(problem=SoftmaxRegression(), dataset=data, clients=10**6)
        views = loader.load(million, 0)
        assert not loader.tables
        assert views.shards.clients == 10**6

    def test_the_seed_makes_the_rows(self, wanted):
        def first(run, data=None):
            given = Linear(features=2, samples=3, seed=data)
            asked = wanted(problem=LeastSquares(), dataset=given, clients=2)
            return Loader().load(asked, run).shards.rows(np.array([0]), 1)[0].tolist()

        assert first(0) == first(0) != first(1)
        assert first(0, data=1) == first(1)  # the data's own seed goes first


class TestRefused:
    def test_classes_for_a_problem_of_numbers(self, wanted):
        line = refused(wanted(problem=LeastSquares(), dataset=Mushroom(), clients=2))
        assert line.startswith("problem.name: 'least-squares' predicts numbers, but dataset 'mush")
        assert line.endswith("has 2 classes; use logistic-regression or softmax-regression")

    def test_numbers_for_a_problem_of_classes(self, wanted):
        line = refused(wanted(dataset=Linear(features=2), clients=2))
        assert line == (
            "problem.name: 'logistic-regression' predicts classes, but the target of dataset "
            "'linear' is numbers; use least-squares"
        )

    def test_three_classes_for_a_problem_of_two(self, wanted):
        line = refused(wanted(dataset=Synthetic(classes=3), clients=2))
        assert line == (
            "problem.name: 'logistic-regression' needs 2 classes, but dataset 'synthetic' has 3; "
            "use softmax-regression"
        )

    @pytest.mark.parametrize(
        ("loss", "dataset", "found", "remedy"),
        [
            ("cross-entropy", Linear(features=2), "is numbers", "squared-error"),
            ("squared-error", Synthetic(classes=3), "has 3 classes", "cross-entropy"),
            ("binary-cross-entropy", Synthetic(classes=3), "has 3", "cross-entropy"),
        ],
    )
    def test_a_network_s_loss_that_does_not_fit_the_targets(
        self, wanted, loss, dataset, found, remedy
    ):
        problem = Network(model="lenet5", loss=loss)
        line = refused(wanted(problem=problem, dataset=dataset, clients=2))
        assert line.startswith("problem.loss: 'network' ")
        assert line.endswith(f"{found}; use {remedy}")

    def test_a_generator_without_clients(self, wanted):
        given = wanted(problem=LeastSquares(), dataset=Linear())
        assert refused(given).startswith("clients.count: is missing")

    def test_a_test_file_for_a_generator(self, wanted):
        given = wanted(problem=LeastSquares(), dataset=Linear(), clients=2, test="test.csv")
        assert refused(given) == "problem.test: a generator takes a fraction, not a file"

    def test_a_test_file_for_standardised_features(self, wanted):
        given = wanted(dataset=Mushroom(standardise=True), clients=2, test="test.csv")
        assert refused(given).startswith(
            "problem.test: found a file, but the features of 'mushroom'"
        )

    def test_a_class_that_was_never_trained(self, wanted):
        assert "a class that is not in the training data" in refused(wanted(test="strange.csv"))


class TestPooled:
    @staticmethod
    def viewed(wanted, algorithm):
        """Return views, and the tables before and after."""
        loader = Loader()
        made, before = loader.load(wanted, 0), dict(loader.tables)
        return made.of(algorithm, loader.tables), before, loader.tables

    def test_one_client_has_everything(self, wanted):
        views, before, after = self.viewed(wanted(test=0.25), Centralised())
        assert views.training.shards.clients == 1
        assert (views.training.shards.total(), views.training.shards.total("test")) == (6, 2)
        assert views.evaluation.shards.clients == 2
        assert views.training.table == views.evaluation.table
        assert before.keys() == after.keys()

    def test_others_have_their_own_rows(self, wanted):
        views, *_ = self.viewed(wanted(), FedAvg())
        assert views.training is views.evaluation

    def test_rows_made_on_demand_become_a_table_of_the_baseline_alone(self, wanted):
        data = Linear(features=2, samples=5)
        given = wanted(problem=LeastSquares(), dataset=data, clients=3, test=0.2)
        views, before, after = self.viewed(given, Centralised())
        assert (views.training.shards.clients, views.training.shards.total()) == (1, 12)
        assert not before
        assert list(after) == [views.training.table]
        every = after[views.training.table].X
        own = Loader().load(given, 0).shards.rows(np.arange(3), 4)[0]
        np.testing.assert_array_equal(every[:12], own.reshape(12, 3))

    def test_more_rows_than_fit_are_refused_before_they_are_made(self, wanted):
        data = Linear(features=1000, samples=1000)
        given = wanted(problem=LeastSquares(), dataset=data, clients=10**6)
        with pytest.raises(ScenarioError, match="leave the baseline out"):
            self.viewed(given, Centralised())


def test_features_of_a_users_file_are_looked_at(wanted, tmp_path):
    (tmp_path / "large.csv").write_text("client,a,y\n0,1000,0\n0,-900,1\n1,800,0\n1,-700,1\n")
    views = Loader().load(wanted(dataset=Tabular(path="large.csv", missing="drop")), 0)
    (line,) = views.notices
    assert line.startswith("1 of 1 features are larger than 20, feature 'a' most")
