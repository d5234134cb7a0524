"""Checks find what they are for: plug-ins with one mistake each, and what is said of them."""

import itertools
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
import pytest
from annotated_types import Gt

from rayfed.algorithms import FedAvg
from rayfed.population import Bernoulli, Cyclic, Exponential, Lognormal
from rayfed.problems import LeastSquares
from rayfed.selection import UniformSelection
from rayfed.solvers import SGD
from rayfed.testing.checks import (
    Skipped,
    checks,
    common,
    datasets,
)
from rayfed.testing.examples import example, examples
from rayfed.topology import Metropolis, Ring

COUNTER = itertools.count()


class WrongMean(Lognormal):
    """States the median."""

    def mean(self):
        return self.mean_s * 0.8


class Falling(Exponential):
    """Gives the survival function's inverse."""

    def quantile(self, u):
        return -self.mean_s * np.log(u)


class Neighbourly(Exponential):
    """Divides by the longest wait that is asked for."""

    def quantile(self, u):
        seconds = super().quantile(u)
        return seconds / seconds.max()


class Forgetful(Bernoulli):
    """Answers by how often it was asked."""

    def available(self, ids, t, round, population):
        return super().available(ids, t, next(COUNTER), population)


class Late(Cyclic):
    """Says that its group changes half a period too late."""

    def next_change(self, ids, t, population):
        return super().next_change(ids, t, population) + (self.period_s or 0) / 2


class Never(Bernoulli):
    """Leaves out the last client."""

    def available(self, ids, t, round, population):
        return super().available(ids, t, round, population) & (
            np.asarray(ids) < population.count - 1
        )


class WrongGradient(LeastSquares):
    """Forgets a factor."""

    def data_value_and_gradient(self, x, batch):
        value, gradient = super().data_value_and_gradient(x, batch)
        return value, 0.5 * gradient


class Averaging(LeastSquares):
    """Adds the mean over the stack to a value."""

    def data_value(self, x, batch):
        value = super().data_value(x, batch)
        return value + 1e-9 * value.mean()


class Impatient(SGD):
    """Gives nobody a step who has few rows."""

    def step_counts(self, sizes, seconds_per_step=None, **coordinates):
        return super().step_counts(sizes, seconds_per_step, **coordinates) * (sizes > 2)


class Uphill(SGD):
    """Goes the wrong way."""

    def direction(self, g, pull, kept, step):
        return -super().direction(g, pull, kept, step)


class Signs(SGD):
    """Says of signs that they are sums of gradients."""

    linear = True

    def direction(self, g, pull, kept, step):
        return np.sign(g)


class InPlace(FedAvg):
    """Writes to the state that it is given."""

    def round(self, state):
        after, diagnostics = yield from super().round(state)
        state["x"][...] = after["x"]
        return after, diagnostics


class Stacked(FedAvg):
    """Uploads what depends on the stack."""

    def train(self, clients, x):
        upload = super().train(clients, x)
        upload.values["delta"][...] += 1e-3 * len(clients.ids)
        return upload


class Fixed(UniformSelection):
    """Always names the first clients, who may be away."""

    def select(self, view, state):
        yield from ()
        return np.arange(view.wanted), state


class Loop(Ring):
    """Draws another ring whenever it is asked."""

    def series(self, count, seed):
        made = super().series(count, seed)
        draw = made.draw
        made.draw = lambda epoch, attempt: draw(epoch, attempt).without(
            lambda low, high: low == next(COUNTER) % count
        )
        return made


class Generous(Metropolis):
    """Moves more surely than surely."""

    def chances(self, graph, here, there):
        return 1.5 * super().chances(graph, here, there) + 0.3


MISTAKES = [
    ("delays", "check_mean", WrongMean, "states the mean 0.8 s, but .* integrates to"),
    ("delays", "check_quantile", Falling, "the quantile falls"),
    ("delays", "check_pure", Neighbourly, "waits differently"),
    ("availability", "check_pure", Forgetful, "another answer to the same question"),
    ("availability", "check_next_change", Late, "changes before"),
    ("availability", "check_reachable", Never, r"clients \[11\] are never available"),
    ("problems", "check_gradient", WrongGradient, "gradient is off by"),
    ("problems", "check_stacks", Averaging, "value of client 0"),
    ("solvers", "check_budget", Impatient, "a client gets 0 steps"),
    ("solvers", "check_descent", Uphill, "the objectives went from"),
    ("solvers", "check_wide", Signs, "610 numbers end elsewhere"),
    ("algorithms", "check_state", InPlace, "read-only"),
    ("algorithms", "check_bits", Stacked, "differ"),
    ("algorithms", "check_paper", Stacked, "shows no example"),
    ("selections", "check_cohorts", Fixed, "are not available"),
    ("topologies", "check_pure", Loop, "another process, another graph"),
    ("walks", "check_probabilities", Generous, "does not sum to 1"),
]


@pytest.mark.parametrize(
    ("kind", "check", "cls", "said"), MISTAKES, ids=lambda value: getattr(value, "__name__", "")
)
def test_a_mistake_is_found(kind, check, cls, said, tmp_path):
    with pytest.raises((AssertionError, ValueError), match=said):
        checks(kind)[check](cls, tmp_path)


def test_what_is_no_frozen_dataclass_is_refused(tmp_path):
    class Plain:
        """No dataclass."""

    with pytest.raises(AssertionError, match="is no dataclass; add"):
        common.check_frozen(Plain, tmp_path)


def test_a_module_that_draws_without_a_seed_is_refused(tmp_path, monkeypatch):
    (tmp_path / "mine.py").write_text(
        '"""A delay."""\nimport numpy as np\n\n\nclass Mine:\n'
        '    """Waits at random."""\n\n    rng = np.random.default_rng()\n'
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    from mine import Mine

    with pytest.raises(AssertionError, match="mine draws without a seed"):
        common.check_source(Mine, tmp_path)


@dataclass(frozen=True, kw_only=True)
class Needy:
    """Needs what nobody can guess."""

    law: np.ndarray
    scale: Annotated[float, Gt(0)] = 1.0


@dataclass(frozen=True, kw_only=True)
class Helpful(Needy):
    """Says itself what it needs."""

    @classmethod
    def example(cls, folder):
        return cls(law=np.ones(3))


def test_a_setting_that_cannot_be_guessed_is_named():
    with pytest.raises(AssertionError, match="Needy can be made: its setting law has no plain"):
        example(Needy, Path())
    assert example(Helpful, Path()).law.tolist() == [1, 1, 1]


def test_examples_try_every_listed_value(tmp_path):
    made = examples(Cyclic, tmp_path)
    assert {value.by for value in made} == {"id", "label"}
    assert {value.period_s for value in made} == {None, 0.5}
    assert {value.rounds for value in made} == {None, 2}


def test_files_that_are_not_at_hand_skip_a_data_set(tmp_path, monkeypatch):
    monkeypatch.setenv("RAYFED_DATA", str(tmp_path))
    monkeypatch.setattr("rayfed.datasets.fetch._cache", lambda: tmp_path / "cache")
    from rayfed.datasets import Boston

    with pytest.raises(Skipped, match=r"file 'boston/.*' is not available locally"):
        datasets.check_table(Boston, tmp_path)


@pytest.mark.parametrize("kind", ["problems", "walks"])
def test_every_check_says_what_it_checks(kind):
    for check in checks(kind).values():
        assert check.__doc__.startswith("Check that ")
