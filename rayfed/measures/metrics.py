"""Metrics of predictions, over all scored rows and per client."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from math import prod
from pathlib import Path
from typing import Any, ClassVar, Literal, Self, TypeAlias
from warnings import catch_warnings, simplefilter

import numpy as np

from rayfed.core import plugins
from rayfed.core.arrays import Array, Floats
from rayfed.core.columns import Better, Column
from rayfed.core.errors import LibraryMissing, ScenarioError, clipped, unknown
from rayfed.core.extras import install
from rayfed.core.needs import ROWS, Terms
from rayfed.core.targets import IGNORED, Targets
from rayfed.datasets.shards import Shards
from rayfed.measures.base import Measure, MeasureView, Predictions
from rayfed.messages import State
from rayfed.population import Population
from rayfed.population.availability.base import Availability
from rayfed.problems.base import Problem
from rayfed.problems.layers import Layer
from rayfed.problems.objective import Objective

Kind: TypeAlias = Literal["classes", "labels", "numbers", "own"]
"""Predictions: a class (scores of each), several labels (a score of each), numbers, or neither."""
Formula: TypeAlias = Callable[[Array, Floats], float]
"""Maps targets and outputs of rows to a number.

Of classes y (n,) and scores z (n, C), where every position of a mask or a sequence is a row; of
labels y and z (n, L); of numbers y and z (n, m); else the target and the outputs, flat.
"""
_SHOWN = {
    "classes": "predicts classes", "labels": "predicts several labels",
    "numbers": "predicts numbers", "own": "predicts neither classes nor numbers",
}  # fmt: skip
_CLIENTS = ("_client_mean", "_client_worst_decile")


@dataclass(frozen=True)
class Metric:
    """One metric.

    Parameters
    ----------
    name : str
    kinds : tuple of Kind
        What it is defined for.
    better : "higher", "lower" or None
    about : str
    formula : callable
    function : str
        The function of scikit-learn that computes it; empty if none does.
    """

    name: str
    kinds: tuple[Kind, ...]
    better: Better | None
    about: str
    formula: Formula
    function: str = ""

    def of(self, y: Array, z: Floats) -> float:
        """Return the metric of some rows; NaN without rows and where it is not defined."""
        if not len(y) or not np.isfinite(z).all():
            return float("nan")
        with catch_warnings():
            simplefilter("ignore")  # of classes that are missing
            try:
                return float(self.formula(y, z))
            except ValueError:
                if self.function:
                    return float("nan")
                raise


def _learn(function: str, **settings: Any) -> Callable[..., Any]:
    """Return a function of `sklearn.metrics`, which is imported when it is called."""

    def call(y: Array, z: Array, **more: Any) -> Any:
        from sklearn import metrics

        return getattr(metrics, function)(y, z, **settings | more)

    return call


def _hard(z: Floats, y: Array) -> Array:
    """Return predicted classes (n,), or labels (n, L)."""
    return z.argmax(axis=1) if y.ndim == 1 else (z > 0).astype(np.int64)


def _predicted(function: Callable[..., Any]) -> Formula:
    return lambda y, z: function(y, _hard(z, y))


def _f1(number: int, y: Array, z: Floats) -> float:
    found: Floats = _learn("f1_score", average=None, labels=[number])(y, _hard(z, y))
    return float(found[0])


def _auc(y: Array, z: Floats) -> float:
    if y.ndim > 1:
        return float(_learn("roc_auc_score")(y, z))
    if z.shape[1] == 2:
        return float(_learn("roc_auc_score")(y, z[:, 1] - z[:, 0]))
    labels = np.arange(z.shape[1])
    return float(_learn("roc_auc_score", multi_class="ovr", labels=labels)(y, np.exp(_log(z))))


def _top(k: int, y: Array, z: Floats) -> float:
    labels = np.arange(z.shape[1])
    scores = z
    if len(labels) == 2:  # scikit-learn takes scores that all lie in [0, 1] for probabilities
        scores = np.where(z[:, 1] > z[:, 0], 1.0, -1.0)
    return float(_learn("top_k_accuracy_score", k=k, labels=labels)(y, scores))


def _log(z: Floats) -> Floats:
    """Return the logarithms of the probabilities of classes (n, C)."""
    from scipy.special import log_softmax

    return np.asarray(log_softmax(z, axis=1))


def _perplexity(y: Array, z: Floats) -> float:
    """Return exp of the mean negative log-likelihood of targets (n,)."""
    return float(np.exp(-np.mean(np.take_along_axis(_log(z), y[:, None], axis=1))))


def concordance(y: Array, z: Floats) -> float:
    """Return Harrell's concordance index.

    The share of comparable pairs that the outputs order rightly, ties of outputs counting half. Of
    times and events (n, 2) with risks (n, 1) a pair is comparable if the shorter time is an event,
    or if times are equal and one of them is; the higher risk should have the event. Of numbers
    (n, 1) all pairs are comparable whose numbers differ.

    Harrell, Califf, Pryor, Lee, Rosati, "Evaluating the yield of medical tests", JAMA 1982. Ties as
    in ``concordance_index_censored`` of scikit-survival.

    Examples
    --------
    >>> concordance(np.array([[1.0, 1], [2, 1], [3, 0]]), np.array([[0.9], [0.1], [0.5]]))
    0.6666666666666666
    """
    if z.shape[1] != 1:
        raise ValueError(f"concordance needs one output for each row, not {z.shape[1]}")
    time = y[:, 0]
    event, risk = (y[:, 1] > 0, z[:, 0]) if y.shape[1] == 2 else (np.ones(len(y), bool), -z[:, 0])
    right = pairs = 0.0
    for i in np.flatnonzero(event):
        after = (time > time[i]) | ((time == time[i]) & ~event)
        right += np.sum(risk[after] < risk[i]) + 0.5 * np.sum(risk[after] == risk[i])
        pairs += np.sum(after)
    return float(right / pairs) if pairs else float("nan")


_ALL: tuple[Metric, ...] = (
    Metric(
        "balanced_accuracy", ("classes",), "higher", "Mean over classes of the share recalled.",
        _predicted(_learn("balanced_accuracy_score")), "balanced_accuracy_score",
    ),
    Metric(
        "macro_f1", ("classes", "labels"), "higher", "Mean over classes of F1.",
        _predicted(_learn("f1_score", average="macro")), "f1_score",
    ),
    Metric(
        "auc", ("classes", "labels"), "higher",
        "Area under the ROC curve; of more than two classes the mean of each against the rest.",
        _auc, "roc_auc_score",
    ),
    Metric(
        "perplexity", ("classes",), "lower",
        "exp of the mean cross-entropy of all targets, ignored positions left out.", _perplexity,
    ),
    Metric(
        "rmse", ("numbers",), "lower", "Root of the mean squared error.",
        _learn("root_mean_squared_error"), "root_mean_squared_error",
    ),
    Metric(
        "mae", ("numbers",), "lower", "Mean absolute error.",
        _learn("mean_absolute_error"), "mean_absolute_error",
    ),
    Metric(
        "r2", ("numbers",), "higher", "Coefficient of determination.",
        _learn("r2_score"), "r2_score",
    ),
    Metric(
        "concordance", ("numbers", "own"), "higher",
        "Share of comparable pairs of rows in the right order (Harrell's index).", concordance,
    ),
)  # fmt: skip
METRICS: Mapping[str, Metric] = {metric.name: metric for metric in _ALL}
"""Metrics by name; `f1_<class>`, `top_<k>` and `quantile_<q>` are further ones."""
_PATTERNS = ("f1_2", "top_3", "quantile_0.9")


def metric(asked: Any) -> Metric:
    """Return a metric by its name, or that of a function.

    Raises
    ------
    ScenarioError
        If there is none.
    """
    if callable(asked):
        name = getattr(asked, "__name__", type(asked).__name__)
        if not name.isidentifier():
            raise ScenarioError("of", f"found a function called '{name}'; name it as its column")
        every: tuple[Kind, ...] = ("classes", "labels", "numbers", "own")
        return Metric(name, every, None, "A metric of the user's own.", asked)
    name = str(asked)
    if name in METRICS:
        return METRICS[name]
    if ":" in name:
        return metric(plugins.load_function(name))
    found = re.fullmatch(r"(f1|top|quantile)_(\d+|0?\.\d+)", name)
    kind, number = found.groups() if found else ("", "0")
    if kind == "f1" and number.isdigit():
        text = f"F1 of class {number}."
        return Metric(
            name, ("classes", "labels"), "higher", text, partial(_f1, int(number)), "f1_score"
        )
    if kind == "top" and number.isdigit() and int(number):
        text = f"Share of rows whose class is among the {number} with the highest scores."
        formula = partial(_top, int(number))
        return Metric(name, ("classes",), "higher", text, formula, "top_k_accuracy_score")
    if kind == "quantile" and 0 < float(number) < 1:
        text = f"Mean pinball loss of the quantile {number}."
        pinball = _learn("mean_pinball_loss", alpha=float(number))
        return Metric(name, ("numbers",), "lower", text, pinball, "mean_pinball_loss")
    text = unknown("metric", clipped(name, 40), [*METRICS, *_PATTERNS])
    raise ScenarioError("of", f"{text} (or package.module:function)")


@dataclass(frozen=True, kw_only=True)
class Metrics(Measure):
    """Metrics of predictions, over all rows that accuracy is measured on, and per client.

    Those of scikit-learn are computed by it (extra ``metrics``). A metric is NaN where it is not
    defined: without rows, of one class for `auc`, of one row for `r2`.

    Parameters
    ----------
    of : list of str
        ``balanced_accuracy``, ``macro_f1``, ``f1_2`` (of class 2), ``auc``, ``top_3``,
        ``perplexity``, ``rmse``, ``mae``, ``r2``, ``quantile_0.9`` (pinball loss), ``concordance``,
        or ``package.module:function``, in Python also a function, of targets and outputs.
    per_client : bool
        Whether there are also the mean over clients and the mean of the worst tenth of them.

    Examples
    --------
    >>> [column.name for column in Metrics(of=["macro_f1", "top_3"]).columns_of(None)]
    ['macro_f1', 'top_3']
    """

    name: ClassVar[str] = "metrics"
    needs: ClassVar[Terms] = frozenset({ROWS})
    columns: ClassVar[tuple[Column, ...]] = (
        Column("*", about="Each metric of `of`, over all rows that accuracy is measured on."),
        Column("*_client_mean", about="Mean of the metric over clients, if `per_client`."),
        Column(
            "*_client_worst_decile",
            about="Its mean over the worst tenth of the clients, rounded up, if `per_client`.",
        ),
    )  # fmt: skip

    of: tuple[Any, ...]
    per_client: bool = False

    def __post_init__(self) -> None:
        names = [each.name for each in self.metrics]
        twice = [name for name in names if names.count(name) > 1]
        if twice or not names:
            found = f"found '{twice[0]}' twice" if twice else "found no metric"
            raise ScenarioError("of", f"{found}; name each metric once")

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """The metrics."""
        return tuple(map(metric, self.of))

    def columns_of(
        self, availability: Availability | None, layers: Sequence[Layer] = ()
    ) -> tuple[Column, ...]:
        """Return the columns of the metrics."""
        ends = ("", *_CLIENTS) if self.per_client else ("",)
        return tuple(
            Column(each.name + end, better=each.better, about=each.about)
            for each in self.metrics for end in ends
        )  # fmt: skip

    def bound(self, shards: Shards, population: Population, objective: Objective) -> Self:
        """Return the measure itself, after checks.

        Raises
        ------
        ScenarioError
            If a metric is not defined for it, or needs scikit-learn, which is not there.
        """
        problem, target = objective.problem, shards.target
        kind = kind_of(problem, target)
        for each in self.metrics:
            if each.function and find_spec("sklearn") is None:
                text = f"'{each.name}' needs scikit-learn; install it with: {install('metrics')}"
                raise LibraryMissing("of", text)
            values = shards.classes
            if target is not None:
                values = prod(target.shape) if kind == "labels" else target.values
            number = each.name.removeprefix("f1_")
            if number.isdigit() and int(number) >= values > 0:
                raise ScenarioError("of", f"found '{each.name}' of {values} {kind}; leave it out")
            survival = target is not None and target.shape == (2,) and kind == "own"
            pairs = survival or (kind == "numbers" and target is None)
            if kind not in each.kinds or (each.formula is concordance and not pairs):
                text = f"'{each.name}' is not defined where '{problem.name}' {_SHOWN[kind]}"
                raise ScenarioError("of", f"{text}; leave it out")
        return self

    @classmethod
    def example(cls, folder: Path) -> Self:
        """Return a metric that needs no library, for the checks of plug-ins."""
        return cls(of=("perplexity",), per_client=True)

    def measure(self, view: MeasureView, known: State) -> tuple[Mapping[str, float], State]:
        """Return the metrics over all rows, and those of clients."""
        client, y, z = by_kind(
            view.predictions(), kind_of(view.data.objective.problem, view.data.shards.target)
        )
        row: dict[str, float] = {}
        starts = np.flatnonzero(np.diff(client, prepend=-1))
        parts = list(zip(np.split(y, starts[1:]), np.split(z, starts[1:]), strict=True))
        for each in self.metrics:
            row[each.name] = each.of(y, z)
            if self.per_client:
                found = np.array([each.of(*part) for part in parts])
                found = np.sort(found[np.isfinite(found)])
                worst = found[::-1] if each.better == "lower" else found
                few = worst[: -(-len(worst) // 10)]
                for end, some in zip(_CLIENTS, (found, few), strict=True):
                    row[each.name + end] = float(some.mean()) if len(some) else float("nan")
        return row, known


def kind_of(problem: Problem, target: Targets | None) -> Kind:
    """Return the kind of predictions of a problem."""
    kinds: Mapping[str, Kind] = {
        "multiclass": "classes", "binary": "classes" if target is None else "labels",
        "regression": "numbers", "own": "own",
    }  # fmt: skip
    return kinds[problem.task]


def by_kind(rows: Predictions, kind: Kind) -> tuple[Array, Array, Floats]:
    """Return clients (n,), targets and outputs of predictions as formulas take them."""
    client, y, z = rows.client, rows.y, rows.z
    if kind in ("classes", "labels"):
        y = y.astype(np.int64)
    if kind == "classes":
        client = np.repeat(client, y.shape[1])
        counted = y.ravel() != IGNORED
        client, y, z = (
            client[counted],
            y.ravel()[counted],
            z.reshape(y.size, z.size // max(1, y.size))[counted],
        )
    return client, y, z
