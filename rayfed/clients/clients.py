"""Clients as a client function sees them: K at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from rayfed.clients import gram
from rayfed.clients.gram import GramSteps
from rayfed.clients.request import STATISTICS
from rayfed.clients.stacks import Stacks
from rayfed.core.arrays import Array, Floats, Ints, as_matrix, namespace, to_numpy
from rayfed.core.errors import RayfedError
from rayfed.core.rng import Draw, Key, part_of
from rayfed.datasets.shards import Shards
from rayfed.problems.base import Batch, Oracle, Problem, StepKey
from rayfed.problems.objective import Objective
from rayfed.problems.own_code.functions import Context, OwnCodeError, seeds_of
from rayfed.problems.own_code.problem import BoundOwnCode
from rayfed.solvers import Local, StepOracle, sampling
from rayfed.solvers.base import OnBatch, Solver
from rayfed.solvers.own_train import OwnTrain
from rayfed.solvers.sampling import Minibatch, Sampling, Subsample

GradientFn: TypeAlias = Callable[[Array, Sequence[Batch], Ints], tuple[Array, Array]]
"""A gradient that stands for that of F_i in local steps.

Called with the models (k, p) of active clients, batches of their rows, and which of the K clients
they are (k,); returns their losses (k,) and gradients (k, p), new arrays.
"""


def once(batch: Batch) -> Batch:
    """Return the rows of a batch with weight 1 each and no l2 term."""
    return replace(batch, w=namespace(batch.w).astype(batch.w > 0, batch.w.dtype), ridge=None)


@dataclass(frozen=True)
class Clients:
    """K clients at once, as a client function sees them.

    All clients of one value share the local solver and the padded width of their rows.

    Attributes
    ----------
    ids, sizes, steps : (K,) array of int
        Client ids, training rows n_i, and the local steps allotted to each in this Ask.
    state : mapping of str to (K, ...) array
        The clients' own state as it was before this Ask.
    seed, ask : int
        Coordinates of keyed draws, with `draws`.
    round : int
        The round, from 1, which schedules go by.
    solver : Solver
        The local solver of these clients.
    draw : int or (K,) array of int, optional
        The coordinate of keyed draws that stands for the round; see `draws`.
    block : int, optional
        How many clients take local steps together at most, unless by the Gram matrix.
    left : dict of str to (K, ...) array
        State and metrics that own training code leaves behind, for the host.
    apart : int
        Number of running statistics, the last coordinates of a model, that clients upload apart.
    moved : dict of str to (K, s) array
        The running statistics after local steps, for the host, if they are uploaded apart.
    """

    problem: Problem
    objective: Objective
    shards: Shards
    solver: Solver
    ids: Ints
    sizes: Ints
    steps: Ints
    seed: int
    round: int
    ask: int
    p: int
    state: Mapping[str, Array] = field(default_factory=dict)
    stacks: Stacks = field(default_factory=Stacks)
    draw: Draw | None = None
    block: int | None = None
    left: dict[str, Array] = field(default_factory=dict)
    apart: int = 0
    moved: dict[str, Array] = field(default_factory=dict)

    @property
    def draws(self) -> Draw:
        """The coordinate that tells keyed draws of one round from those of the next.

        It is the round, or the number of each client's own tasks (K,), where clients
        do not keep step.
        """
        return self.round if self.draw is None else self.draw

    def solve(
        self,
        x: Array,
        *,
        correction: Array | None = None,
        gradient: GradientFn | None = None,
        streams: int = 1,
        after_step: Callable[[Array, Ints], None] | None = None,
        moves: bool = False,
    ) -> Local:
        """Take the local steps of these clients from x, (p,) or (K, p).

        Parameters
        ----------
        x : (p,) or (K, p) array of float
            Models at the start; not written to. With `gradient` also some coordinates of them.
        correction : (K, p) array of float, optional
            Added to every gradient.
        gradient : callable, optional
            In place of the gradient of the minibatch objective; see `GradientFn`.
        streams : int
            Independent minibatches that `gradient` is given in every step.
        after_step : callable, optional
            Called after every step with the new models (k, p) of the clients that took it, which
            it must not write to, and which of the K clients they are (k,).
        moves : bool
            Whether `gradient` returns the changes of running statistics as the problem does.
        """
        if self.apart and gradient is not None and not moves:
            text = "steps by another gradient move no running statistics"
            raise RayfedError(f"{text}; give problem.normalisation: frozen")
        if self.problem.statistics and moves:
            local = self._with_statistics(self._starts(x), correction, after_step, gradient)
        else:
            local = self._solved(x, correction, gradient, streams, after_step)
        if not self.apart:
            return local
        xp, weights = namespace(x), x.shape[-1] - self.apart
        self.moved[STATISTICS] = local.x[:, weights:]
        start = xp.broadcast_to(x, local.x.shape)[:, weights:]
        start = xp.astype(start, local.x.dtype, copy=False)
        return Local(xp.concat([local.x[:, :weights], start], axis=1), local.loss)

    def whole(self, x: Array) -> Array:
        """Return models (K, p) after local steps with the running statistics of their clients."""
        if not self.apart:
            return x
        joined: Array = namespace(x).concat([x[:, : -self.apart], self.moved[STATISTICS]], axis=1)
        return joined

    def _starts(self, x: Array) -> Array:
        """Return models (K, p) at the start, from x, (p,) or (K, p), in the type of the rows."""
        xp = namespace(x)
        shape, dtype = (len(self.ids), x.shape[-1]), getattr(xp, self.shards.dtype.name)
        starts: Array = xp.astype(xp.broadcast_to(x, shape), dtype, copy=False)
        return starts

    def _solved(
        self,
        x: Array,
        correction: Array | None = None,
        gradient: GradientFn | None = None,
        streams: int = 1,
        after_step: Callable[[Array, Ints], None] | None = None,
    ) -> Local:
        """Take local steps; see `solve`. Running statistics move with the model."""
        x = self._starts(x)
        if isinstance(self.solver, OwnTrain):
            if not (correction is None and gradient is None and after_step is None):
                text = "own code takes its steps itself, by its own gradients"
                raise OwnCodeError(f"{text}; choose a method that changes no gradients")
            return self._trained(x)
        if self.problem.statistics and gradient is None:
            return self._with_statistics(x, correction, after_step)
        added = correction
        if correction is not None:
            added = namespace(x).astype(correction, x.dtype, copy=False)
        places, clients = np.arange(len(self.ids)), self
        unequal = bool((self.steps != self.steps[0]).any())
        if unequal:
            places = np.argsort(-self.steps, kind="stable")  # those with steps left come first
            clients, x = self.chosen(places), x[places]
            added = None if added is None else added[places]
        first = 0 if gradient or after_step else clients._by_gram()
        pieces = [slice(0, first)] if first else []
        most = self.block or len(places)
        pieces += [slice(at, at + most) for at in range(first, len(places), most)]
        parts = []
        for piece in pieces:
            some = clients.chosen(piece) if len(pieces) > 1 else clients
            x0, plus, at = x[piece], None if added is None else added[piece], places[piece]
            if piece.stop <= first:
                parts.append(some._solve_by_gram(x0, plus))
                continue
            after = after_step and partial(_of_these, after_step, at)
            objectives = some._oracles(x0, gradient, streams, at)
            parts.append(
                some.solver.run(
                    objectives, x0, some.steps, round=self.round, correction=plus, after_step=after
                )
            )
        local = parts[0] if len(parts) == 1 else Local.joined(parts)
        if not unequal:
            return local
        back = np.argsort(places)
        return Local(local.x[back], local.loss[back])

    def _with_statistics(
        self,
        x: Array,
        correction: Array | None,
        after_step: Callable[[Array, Ints], None] | None,
        changed: GradientFn | None = None,
    ) -> Local:
        """Take the local steps from x (K, p) of a model that ends with running statistics (K, s).

        Minibatches move the statistics; the solver, corrections and a changed gradient everything
        else.
        """
        if after_step is not None:
            text = "steps that are looked at one by one have no running statistics"
            raise RayfedError(f"{text}; give problem.normalisation: frozen")
        xp, problem, weights = namespace(x), self.problem, x.shape[1] - self.problem.statistics
        statistics = xp.asarray(x[:, weights:], copy=True)

        def gradient(y: Array, batches: Sequence[Batch], index: Ints) -> tuple[Array, Array]:
            joined = xp.concat([y, statistics[index]], axis=1)
            if changed is None:
                loss, g = problem.value_and_gradient(joined, batches[0])
            else:
                loss, g = changed(joined, batches, index)
            statistics[index] -= g[:, weights:]
            return loss, g[:, :weights]

        plus = None if correction is None else correction[:, :weights]
        local = self._solved(x[:, :weights], plus, gradient)
        return Local(xp.concat([local.x, statistics], axis=1), local.loss)

    def _trained(self, x: Array) -> Local:
        """Run own training code from x (K, p); repeated calls continue with the state left."""
        assert isinstance(self.solver, OwnTrain)
        assert isinstance(self.problem, BoundOwnCode)
        k = len(self.ids)
        key = Key(self.seed, "own-code/train")
        seeds = seeds_of(key, self.ids, self.draws, self.ask)
        tasks = zip(self.ids.tolist(), self.steps.tolist(), seeds, strict=True)
        contexts = [Context(i, self.round, steps, seed) for i, steps, seed in tasks]
        state = {
            name: self.left.get(name, self.state.get(name, np.repeat(row[None], k, axis=0)))
            for name, row in self.solver.initial(self.shards.dtype).items()
        }
        local, after, metrics = self.solver.train(self.problem, x, contexts, self.sizes, state)
        self.left.update(after | metrics)
        return local

    def _by_gram(self) -> int:
        """Return the number of clients, from the first, with local steps by the Gram matrix.

        Steps do not increase. Sizes and solver of a client alone decide.
        """
        fewest = gram.fewest(self.solver, self.problem, self.shards, self.ids[0], self.p)
        return 0 if fewest is None else int((self.steps >= fewest).sum())

    def _solve_by_gram(self, x: Array, correction: Array | None) -> Local:
        """Take the local steps from x (K, p) in coefficients of the rows; steps do not increase."""
        assert gram.covers(self.solver, self.problem)
        products = self.stacks.grams.of(self.shards.version, self.ids, self.data.X)
        shrinks = self.data.ridge is not None or self.solver.weight_decay > 0
        steps = GramSteps(self.problem, self.data, products, x, correction, shrinks)
        local = self.solver.run(
            steps.oracles(self._row_weights()),
            steps.start,
            self.steps,
            round=self.round,
            correction=steps.correction,
            norms=steps.norms,
        )
        return Local(steps.model(local.x), local.loss)

    def _row_weights(self) -> Iterator[Array]:
        """Yield the weights (k, n) of all rows in one step after another."""
        wanted = self.solver.minibatch
        if wanted is None:
            yield from (self.data.w[:k] for k in sampling.active(self.steps))
            return
        scale, w = self.objective.per_row(self.sizes) * self.sizes, self.data.w
        yield from self._sampling(wanted).weights(w.shape[1], scale, w.dtype)

    def _sampling(self, wanted: Minibatch, stream: int = 0) -> Sampling:
        """Return the draws of the minibatches of these clients."""
        return Sampling(
            wanted, self.steps, self.ids, self.sizes, self.seed, self.draws, self.ask, stream
        )

    def _oracles(
        self, x0: Array, gradient: GradientFn | None, streams: int, places: Ints
    ) -> Iterator[StepOracle]:
        """Return the objectives of one local step after another, from x0 (K, p).

        Unless a gradient stands for them; to it these are the clients at `places` (K,).
        """
        if gradient is not None:
            return _replaced(gradient, self._streams(streams), places)
        if self.solver.minibatch is None and not self.problem.random_steps:
            return _on_all_rows(self.problem, self.data, x0, self.steps)
        return _on_batches(self.problem, self._batches())

    def _streams(self, count: int) -> Iterator[Sequence[Batch]]:
        """Yield so many batches for one step after another, for the clients that take it."""
        return zip(*(self._batches(stream) for stream in range(count)), strict=True)

    def _batches(self, stream: int = 0) -> Iterator[Batch]:
        """Yield the batch of one step after another, for the clients that take it."""
        wanted = self.solver.minibatch
        batches: Iterator[Batch]
        if wanted is None:
            batches = (self.data.head(k) for k in sampling.active(self.steps))
        else:
            batches = self._minibatches(wanted, stream)
        if not self.problem.random_steps:
            return batches
        return (
            replace(batch, key=self._step_key(len(batch.w), step, stream))
            for step, batch in enumerate(batches)
        )

    def _step_key(self, k: int, step: int, stream: int) -> StepKey:
        """Return the key of a local step of the first k clients."""
        return StepKey(
            self.ids[:k], self.seed, part_of(self.draws, slice(k)), self.ask, step, stream
        )

    def _minibatches(self, wanted: Minibatch, stream: int) -> Iterator[Batch]:
        """Yield the minibatch of one step after another, for the clients that take it."""
        clients = self
        for index, w in self._sampling(wanted, stream).minibatches():
            if len(w) < len(clients.ids):
                clients = clients.head(len(w))
            yield clients.take(index, w)

    def value(self, x: Array) -> Array:
        """Return F_i(x_i) (K,) on all rows, for x (p,) or (K, p)."""
        return self.problem.value(as_matrix(x), self.data)

    def gradient(self, x: Array) -> Array:
        """Return grad F_i(x_i) (K, p) on all rows."""
        return self.problem.gradient(as_matrix(x), self.data)

    def hessian(self, x: Array) -> Array:
        """Return the Hessians of F_i at x_i (K, p, p)."""
        return self.problem.hessian(as_matrix(x), self.data)

    def hvp(self, x: Array, v: Array) -> Array:
        """Return the Hessians of F_i at x_i times v_i (K, p)."""
        return self.problem.hvp(as_matrix(x), as_matrix(v), self.data)

    @property
    def mass(self) -> npt.NDArray[np.float64]:
        """Weights of the clients (K,) in F: n_i unless the data set gives others."""
        return self.shards.mass(self.ids)

    @property
    def relative_weights(self) -> npt.NDArray[np.float64]:
        """Weight w_i of F_i in F (K,), in units of the mean weight of all clients."""
        return self.objective.relative(self.mass)

    @cached_property
    def data(self) -> Batch:
        """All training rows, padded to the width of these clients."""
        return self.stacks.get((self.shards.version, "train", self.ids.tobytes()), self._train)

    def _held_out(self, part: str) -> Batch | None:
        sizes = self.shards.sizes(self.ids, part)
        if not sizes.any():
            return None

        def make() -> Batch:
            X, y, real = self._rows(part, sizes)
            return self.problem.batch(Batch(X, y, real.astype(X.dtype), None))

        return self.stacks.get((self.shards.version, part, self.ids.tobytes()), make)

    def part(self, part: str, subsample: Subsample | None = None) -> Batch | None:
        """Return the rows of a part, or a subsample of them; None where there are none.

        Training rows have the weights of the objective. Those of a subsample stand for all rows of
        their client. Held-out rows have weight 1 each and no l2 term.
        """
        if subsample is None or subsample.takes_all(part):
            return self.data if part == "train" else self._held_out(part)
        sizes = self.shards.sizes(self.ids, part)
        if not sizes.any():
            return None

        def make() -> Batch:
            width = int(self.shards.widths(self.ids[:1], part)[0])
            index, counts = subsample.rows(self.ids, sizes, width, part)
            real = np.arange(index.shape[1]) < counts[:, None]
            if part == "train":
                return self.take(index, real / counts[:, None])
            X, y, _ = self._rows(part, sizes)
            places = np.arange(len(self.ids))[:, None]
            return self.problem.batch(
                Batch(X[places, index], y[places, index], real.astype(X.dtype), None)
            )

        key = (self.shards.version, part, subsample.most, self.ids.tobytes())
        return self.stacks.get(key, make)

    def _train(self) -> Batch:
        X, y, real = self._rows("train", self.sizes)
        return self._batch(X, y, real * self.objective.per_row(self.sizes)[:, None])

    def _rows(self, part: str, sizes: Ints) -> tuple[Array, Array, Array]:
        width = int(self.shards.widths(self.ids[:1], part)[0])
        X, y = self.shards.rows(self.ids, width, part)
        return X, y, np.arange(width) < sizes[:, None]

    def take(self, index: Ints, w: Array) -> Batch:
        """Return the rows index (K, B) as a batch.

        Parameters
        ----------
        index : (K, B) array of int
            Row numbers below n_i.
        w : (K, B) array of float
            Share of each row in the estimate of the client's mean loss: 1/B, or 0 for padding.
        """
        X, y = self.shards.take(self.ids, index)
        per_row = self.objective.per_row(self.sizes) * self.sizes
        return self._batch(X, y, w * per_row[:, None])

    def head(self, k: int) -> Clients:
        """Return the first k of these clients."""
        return self.chosen(slice(0, k))

    def only(self, k: int) -> Clients:
        """Return client number k alone."""
        return self.chosen(slice(k, k + 1))

    def chosen(self, which: slice | Ints) -> Clients:
        """Return some of these clients, in the order asked for."""
        state = {name: rows[which] for name, rows in self.state.items()}
        return replace(
            self,
            ids=self.ids[which],
            sizes=self.sizes[which],
            steps=self.steps[which],
            state=state,
            draw=part_of(self.draw, which),
        )

    def _batch(self, X: Array, y: Array, w: Array) -> Batch:
        ridge = self.objective.ridge(self.sizes, self.p)
        dtype = X.dtype
        ridge = None if ridge is None else ridge.astype(dtype)
        return self.problem.batch(Batch(X, y, w.astype(dtype), ridge))


def loss_alone(clients: Clients, x0: Array, steps: int) -> Floats:
    """Return F_i (K,) at the models that so many local steps from x0, (p,) or (K, p), lead to.

    Draws and learning rates are those of a round before the first, so that it does not matter when
    this is asked; the clients keep nothing of it.
    """
    steps_of_all = np.full_like(clients.steps, steps)
    before = replace(clients, steps=steps_of_all, round=1, draw=0, ask=0, state={}, left={})
    return to_numpy(clients.value(before.solve(x0).x)).astype(np.float64)


def _of_these(after_step: Callable[[Array, Ints], None], places: Ints, x: Array) -> None:
    """Tell of new models (k, p) after a step, which are of the first k of these clients (K,)."""
    after_step(x, places[: len(x)])


def _on_all_rows(problem: Problem, data: Batch, x0: Array, steps: Ints) -> Iterator[StepOracle]:
    """Yield the objectives on all rows, for a solver that starts at x0 (K, p).

    Parameters
    ----------
    data : Batch
        All rows of K clients.
    steps : (K,) array of int
        Steps of each client, not increasing.
    """
    k, oracle = len(x0), problem.near(x0, data)
    for now in sampling.active(steps):
        if now < k:
            k, oracle = now, problem.near(x0[:now], data.head(now))
        yield k, oracle


def _on_batches(problem: Problem, batches: Iterable[Batch]) -> Iterator[StepOracle]:
    """Yield the objectives on the minibatches of one step after another."""
    for batch in batches:
        yield len(batch.w), OnBatch(problem, batch)


def _replaced(
    gradient: GradientFn, batches: Iterable[Sequence[Batch]], places: Ints
) -> Iterator[StepOracle]:
    """Yield the replacements of the objectives.

    Parameters
    ----------
    gradient : callable
        What stands for them.
    batches : iterable of sequence of Batch
        What it is given in one step after another.
    places : (K,) array of int
        Numbers of the clients, in the order of their rows.
    """
    for given in batches:
        yield len(given[0].w), _oracle(gradient, given, places)


def _oracle(gradient: GradientFn, batches: Sequence[Batch], places: Ints) -> Oracle:
    return lambda x: gradient(x, batches, places[: len(x)])
