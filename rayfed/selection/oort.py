"""Oort: clients with large losses that are fast take part, and some that are not known yet.

Lai, Zhu, Madhyastha, Chowdhury, "Oort: Efficient Federated Learning via Guided Participant
Selection", OSDI 2021, https://www.usenix.org/conference/osdi21/presentation/lai, Algorithm 1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from annotated_types import Ge, Interval

from rayfed.core.arrays import Bools, Floats, Ints
from rayfed.core.rng import Key
from rayfed.core.shares import at_most
from rayfed.messages import Reply, State
from rayfed.selection.base import Choice, Selection, SelectionView
from rayfed.selection.draws import chunks

_UNHEARD = -1.0  # no loss, no duration
_LEAST = 1e-9  # score of the worst client, so that everybody can be drawn


@dataclass(frozen=True, kw_only=True)
class Oort(Selection):
    """Guided participant selection (Lai et al. 2021).

    The utility of a client that has replied is n_i |loss_i|, with the mean loss of its last local
    steps, cut at a quantile of all utilities and scaled to [0, 1], plus sqrt(0.1 ln R / r_i) in
    round R if it last replied in round r_i. It is multiplied by (T / t_i)^penalty if its last task
    took t_i > T seconds. T is a percentile of all t_i, which rises when the sum of the replying
    clients' utilities over `window` rounds is less than over the `window` rounds before.

    A share of the cohort is drawn uniformly from those that were never chosen: `explore` in round
    1, and `explore_decay` times less in each later round, down to `explore_least`. The others are
    drawn in proportion to their utilities from those whose utility is at least `cut_off` times that
    of the last one that would be taken by rank.

    Parameters
    ----------
    explore, explore_decay, explore_least : float
        Share of clients that are new.
    penalty : float
        Exponent of slow clients; 0 disregards time.
    percentile : float
        First percentile of the durations that is not too slow; 100 disregards time.
    percentile_step : float
        By how much it rises.
    window : int
        Rounds that the sums of utilities go over.
    cut_off : float
        Utility that is needed, relative to that of the last one by rank.
    clip : float
        Quantile at which utilities are cut.

    Notes
    -----
    The defaults of exploration, penalty, cut-off and clipping are the paper's. Scaled utilities and
    T as a percentile are those of the authors' code (30 %, steps of 5 %, 20 rounds); the paper
    has T in seconds. The authors' code does otherwise in this: `explore` decays once before the
    first round; T rises where the mean utility of those drawn by utility has changed by at most a
    tenth, and falls where it has changed by five times or more; T is one of the durations of all
    registered clients, here it is interpolated between those of clients that have replied; and
    utilities are scaled by their range before the cut, here by that after it.

    Deviations from the paper: the loss is the mean over the local steps, where the paper has the
    root of the mean square over rows. New clients are drawn uniformly, not by their speed, which
    is unknown. Clients that were chosen and never replied are chosen last. No client is excluded
    for having been chosen often.

    The server remembers four numbers of every client that was ever chosen.
    """

    name: ClassVar[str] = "oort"
    size_weighted: ClassVar[bool] = True
    listens: ClassVar[bool] = True

    explore: Annotated[float, Interval(ge=0, le=1)] = 0.9
    explore_decay: Annotated[float, Interval(gt=0, le=1)] = 0.98
    explore_least: Annotated[float, Interval(ge=0, le=1)] = 0.2
    penalty: Annotated[float, Ge(0)] = 2.0
    percentile: Annotated[float, Interval(ge=0, le=100)] = 30.0
    percentile_step: Annotated[float, Ge(0)] = 5.0
    window: Annotated[int, Ge(1)] = 20
    cut_off: Annotated[float, Interval(gt=0, le=1)] = 0.95
    clip: Annotated[float, Interval(gt=0, le=1)] = 0.95

    def init(self, count: int) -> State:
        """Return empty tables, and the first percentile."""
        return {
            "client": np.empty(0, dtype=np.int64),
            "mass": np.empty(0),
            "loss": np.empty(0),
            "seconds": np.empty(0),
            "last": np.empty(0, dtype=np.int64),
            "rounds": np.empty(0, dtype=np.int64),  # the newest 2 `window` with replies
            "gained": np.empty(0),  # sums of n_i |loss_i| in them
            "percentile": np.array(self.percentile),
            "paced": np.array(0),  # round of the last look at the sums
        }

    def select(self, view: SelectionView, state: State) -> Choice:
        """Draw known clients by utility and new ones uniformly; return their ids, ascending."""
        yield from ()
        state = self._paced(state, view.round)
        here = view.available(state["client"])
        known = here & (state["loss"] >= 0)
        share = max(self.explore_least, self.explore * self.explore_decay ** (view.round - 1))
        wanted = at_most(1.0 - share, view.wanted)
        scores = self.scores(state, known, view.round)
        drawn = self._by_utility(view, state["client"][known], scores, wanted)
        new = self._new(view, state["client"], view.wanted - len(drawn))
        missing = view.wanted - len(drawn) - len(new)
        if missing:  # too few are new
            drawn = self._by_utility(view, state["client"][known], scores, len(drawn) + missing)
            missing = view.wanted - len(drawn) - len(new)
        silent = state["client"][here & ~known][:missing]
        ids = np.sort(np.concatenate([drawn, new, silent]))
        state = _with_new(state, new)
        mass = state["mass"].copy()
        mass[np.searchsorted(state["client"], ids)] = view.mass(ids)
        return ids, {**state, "mass": mass}

    def scores(self, state: State, known: Bools, round: int) -> Floats:
        """Return the utilities (K,) of the clients of the tables that are chosen by `known`."""
        if not known.any():
            return np.empty(0)
        seconds = state["seconds"][known]
        worth = state["mass"][known] * state["loss"][known]
        worth = np.minimum(worth, np.quantile(worth, self.clip))
        span = float(np.ptp(worth))
        scaled = (worth - worth.min()) / span if span else np.ones(len(worth))
        scaled = scaled + np.sqrt(0.1 * math.log(round) / state["last"][known])
        if float(state["percentile"]) < 100.0:
            observed = state["seconds"][state["seconds"] >= 0]
            limit_s = float(np.percentile(observed, float(state["percentile"])))
            slow = seconds > limit_s
            scaled[slow] *= (limit_s / seconds[slow]) ** self.penalty
        return np.asarray(scaled)

    def learn(self, state: State, reply: Reply) -> State:
        """Return the tables with the losses and durations of replies."""
        loss = np.abs(reply.each["loss"].astype(np.float64))
        at = np.searchsorted(state["client"], reply.ids)
        changed = {name: state[name].copy() for name in ("loss", "seconds", "last")}
        changed["loss"][at] = loss
        changed["seconds"][at] = reply.seconds
        changed["last"][at] = reply.round
        gain = float((state["mass"][at] * loss).sum())
        rounds = np.append(state["rounds"], reply.round)  # several of one, if late replies are used
        gained, kept = np.append(state["gained"], gain), rounds > rounds.max() - 2 * self.window
        return {**state, **changed, "rounds": rounds[kept], "gained": gained[kept]}

    def _paced(self, state: State, round: int) -> State:
        """Return the state after the look at the sums, if one is due before a round."""
        if round - 1 < int(state["paced"]) + self.window or round - 1 < 2 * self.window:
            return state
        new = state["rounds"] >= round - self.window
        old = ~new & (state["rounds"] >= round - 2 * self.window)
        percentile = float(state["percentile"])
        if state["gained"][new].sum() < state["gained"][old].sum():
            percentile = min(100.0, percentile + self.percentile_step)
        return {**state, "percentile": np.array(percentile), "paced": np.array(round - 1)}

    def _by_utility(self, view: SelectionView, ids: Ints, scores: Floats, count: int) -> Ints:
        """Draw so many of some clients by their scores, without replacement, by exponential waits.

        Only those take part in the draw whose score is near that of the last by rank.
        """
        count = min(count, len(ids))
        if not count:
            return ids[:0]
        least = self.cut_off * float(np.partition(scores, len(ids) - count)[len(ids) - count])
        ids, scores = ids[scores >= least], scores[scores >= least]
        u = Key(view.seed, "cohort/oort").uniforms(ids, round=view.round)
        waits = -np.log(u) / np.maximum(scores, _LEAST)
        return np.asarray(ids[np.argsort(waits, kind="stable")[:count]])

    def _new(self, view: SelectionView, chosen: Ints, count: int) -> Ints:
        """Draw so many available clients that were never chosen, fewer where there are fewer."""
        found = [np.empty(0, dtype=np.int64)]
        if len(chosen) == view.count or not count:
            return found[0]
        walk = Key(view.seed, "cohort").permutation(view.count, round=view.round)
        for positions in chunks(view.count, max(64, count)):
            ids = walk(positions)
            ids = ids[~np.isin(ids, chosen)]
            found.append(ids[view.available(ids)][:count])
            count -= len(found[-1])
            if count <= 0:
                break
        return np.concatenate(found)


def _with_new(state: State, new: Ints) -> State:
    """Return the state with rows for clients that are chosen for the first time."""
    if not len(new):
        return state
    nothing = np.full(len(new), _UNHEARD)
    rows = {
        "client": new, "mass": nothing, "loss": nothing, "seconds": nothing,
        "last": np.zeros_like(new),
    }  # fmt: skip
    joined = {name: np.concatenate([state[name], column]) for name, column in rows.items()}
    order = np.argsort(joined["client"])
    return {**state, **{name: column[order] for name, column in joined.items()}}
