"""Centralised: all data in one place, the baseline that federated learning gives up."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from rayfed.algorithms.fedavg import FedAvg


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
