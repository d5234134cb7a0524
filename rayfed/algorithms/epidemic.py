"""Epidemic Learning: local steps, then the mean of what random nodes sent.

M. de Vos, S. Farhadkhani, R. Guerraoui, A.-M. Kermarrec, R. Pires, R. Sharma, "Epidemic Learning:
Boosting Decentralized Learning with Randomized Communication", NeurIPS 2023,
https://arxiv.org/abs/2310.01972, Algorithm 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from rayfed.algorithms.dfedavg import DFedAvg
from rayfed.topology.mixing import MixingRule


@dataclass(frozen=True, kw_only=True)
class Epidemic(DFedAvg):
    """Epidemic Learning: x_i <- mean of what came and of one's own (de Vos et al. 2023).

    EL-Oracle takes ``topology: {name: regular, degree: s, every: 1}``, EL-Local ``topology: {name:
    out-degree, number: s, every: 1}``. In EL-Local receivers do not know who sends, so that every
    node waits for all others: those that do not send to it notify it of that, without bytes.

    Notes
    -----
    Deviations from the paper: none with ``weights: uniform``; under ``weights: size`` the mean is
    that by numbers of rows.

    Examples
    --------
    >>> Epidemic().mixing
    'uniform'
    """

    name: ClassVar[str] = "epidemic"
    knows_senders: ClassVar[bool] = False

    mixing: MixingRule = "uniform"
