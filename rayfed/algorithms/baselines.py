"""Baselines: all data in one place, and every client alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from rayfed.algorithms.base import Aim, Algorithm, Round
from rayfed.algorithms.fedavg import FedAvg
from rayfed.core.arrays import Array
from rayfed.core.needs import ONE_ASK, OWN_MODELS, OWN_STATISTICS, SOLVER, Terms
from rayfed.messages import Ask, State, Upload


@dataclass(frozen=True, kw_only=True)
class Centralised(FedAvg):
    """Baseline: one machine holds all rows and takes the local steps of a round on them.

    It minimises the same global objective F. It has the delay of an ordinary client, is always
    available, and nothing travels: its bytes and network time are zero.

    Parameters
    ----------
    server_lr : float
        Factor on the change of a round; 1 is plain SGD.

    Notes
    -----
    No paper: it is folklore, and so there are no deviations from one.

    Every row must weigh the same in F (the default normalisation does this; ``weighting:
    uniform`` with clients of different sizes does not, and is refused). Data made on demand
    cannot be pooled.

    Examples
    --------
    >>> Centralised().centralised
    True
    """

    name: ClassVar[str] = "centralised"
    baseline: ClassVar[bool] = True
    centralised: ClassVar[bool] = True


if TYPE_CHECKING:
    from rayfed.clients import Clients


@dataclass(frozen=True, kw_only=True)
class LocalOnly(Algorithm):
    """Baseline: every client trains a model of its own on its own rows, and sends nothing.

    The clients keep x_i (p,) as their state. There is no global model, so ``loss`` is
    sum_i w_i F_i(x_i), which can be below the optimum of F, and ``accuracy`` is that of each
    client's own model on its own held-out rows; they equal ``personal_loss`` and
    ``personal_accuracy`` up to the weights of clients.

    Notes
    -----
    No paper: it is folklore, and so there are no deviations from one.

    Clients train when the selection picks them, as in every other algorithm of the study. Where
    the server alone holds test rows there is nothing to score on them: ``accuracy`` is NaN.

    Examples
    --------
    >>> import numpy as np
    >>> list(LocalOnly().client_state(np.zeros(3)))
    ['model']
    """

    name: ClassVar[str] = "local-only"
    needs: ClassVar[Terms] = frozenset({SOLVER})
    gives: ClassVar[Terms] = frozenset({OWN_MODELS, ONE_ASK, OWN_STATISTICS})
    baseline: ClassVar[bool] = True
    aim: ClassVar[Aim] = "own"

    def client_state(self, x0: Array) -> State:
        """Return every client's first model (p,), the same as of all other algorithms."""
        return {"model": x0}

    def train(self, clients: Clients) -> Upload:
        """Client function: local steps from the client's own model (K, p)."""
        local = clients.solve(clients.state["model"])
        return Upload({}, state={"model": local.x}, loss=local.loss)

    def round(self, state: State) -> Round:
        """Server function: nothing is sent and nothing comes back."""
        yield Ask("train", send={}, up={})
        return state, {}

    def models(self, clients: Clients, x: Array) -> Array:
        """Return the clients' own models (K, p)."""
        return clients.state["model"]
