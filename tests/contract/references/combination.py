"""A method with all that can happen to what it sends: as a scenario, and as a plain loop."""

from __future__ import annotations

from collections import defaultdict
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import chain, combinations

import numpy as np

from rayfed import api, testing
from rayfed.core.errors import ScenarioError
from rayfed.core.needs import EVERYONE, LAYERS, OWN_STATISTICS, OWN_STEPS
from rayfed.core.plugins import find
from rayfed.engine.tasks import USED, Tasks
from tests.contract.references.channel import Channel, Reply
from tests.contract.references.methods import METHODS, Asynchronous
from tests.contract.references.world import OTHER, RATE, SEED, STEPS, Line, N, Net

ROUNDS, NEAR = 20, 1e-9
CODECS = {
    "none": None,
    "top-k": {"name": "top-k", "share": 0.5},
    "sign": {"name": "sign"},
    "rand-k": {"name": "rand-k", "share": 0.5},
    "rand-k biased": {"name": "rand-k", "share": 0.5, "unbiased": False},
    "rand-k shared": {"name": "rand-k", "share": 0.5, "shared": True},
    "qsgd": {"name": "qsgd", "levels": 4},
    "natural": {"name": "natural"},
    "power-sgd": {"name": "power-sgd", "rank": 1},
}
TAILS = {
    "none": (),
    "clip": ({"name": "clip", "norm": 0.2},),
    "secure-sum": ({"name": "secure-sum", "bits": 48, "range": 50.0, "threshold": 0.1},),
    "clip, secure-sum": (
        {"name": "clip", "norm": 0.2},
        {"name": "secure-sum", "bits": 48, "range": 50.0, "threshold": 0.1},
    ),
}
MEMORIES = {
    "none": None,
    "error-feedback": {"name": "error-feedback"},
    "ef21": {"name": "ef21", "start": "full"},
    "ef21 coded": {"name": "ef21", "start": "coded"},
    "ef21+": {"name": "ef21+", "start": "full"},
    "diana": {"name": "diana", "alpha": 0.4},
}
DOWNLINKS = {
    "none": (),
    "top-k": ({"name": "top-k", "share": 0.75},),
    "natural": ({"name": "natural"},),
    "rand-k ef21": (
        {"name": "rand-k", "share": 0.5, "unbiased": False, "memory": {"name": "ef21"}},
    ),
    "top-k ef21 coded": (
        {"name": "top-k", "share": 0.5, "memory": {"name": "ef21", "start": "coded"}},
    ),
}
TIES = ("sign", "natural", "qsgd")
"""Codecs of which models get coordinates of the same size; rounding decides which are the top-k."""
NEAREST = ("krum", "multi-krum", "mean of neighbours")
"""Rules that compare distances, which are the same between clipped vectors of few coordinates."""
RULES = {
    "none": None,
    "mean": {"name": "mean"},
    "median": {"name": "median"},
    "trimmed-mean": {"name": "trimmed-mean", "f": 1},
    "krum": {"name": "krum", "f": 1},
    "multi-krum": {"name": "multi-krum", "f": 1},
    "geometric-median": {"name": "geometric-median", "steps": 3, "smoothing": 0.1},
    "centred-clipping": {"name": "centred-clipping", "radius": 0.5, "steps": 2},
    "median of buckets": {"name": "median", "before": {"name": "buckets", "size": 2}},
    "mean of neighbours": {"name": "mean", "before": {"name": "nearest-neighbours", "f": 1}},
}
LATE = {
    "none": {},
    "drop": {"deadline_s": 4.0, "late": "drop"},
    "partial": {"deadline_s": 4.0, "late": "partial"},
    "stale": {"deadline_s": 4.0, "late": "stale"},
    "stale, waiting": {"deadline_s": 1.5, "late": "stale"},
    "stale, constant": {"deadline_s": 1.5, "late": "stale", "staleness": "constant"},
}
WAITING = 1.5
"""The deadline with which everybody is asked, and may be late when the next round begins.

A client's reply and its late one may then enter the same round.
"""


WEIGHTS = {
    "none": {},
    "uniform": {"weights": "uniform"},
    "size": {"weights": "size"},
    "drawn by size": {"participation": {"select": "weighted"}},
}
RATES = {"none": 1.0, "decay": 0.9}
"""Factors of learning rates from round to round."""
NORMED = {
    "name": "network", "model": "rayfed.testing.modules:Normed", "test": 0,
    "dataset": {"name": "synthetic", "features": 5, "classes": 3, "samples": 12},
}  # fmt: skip
"""A problem with layers that normalise."""


@dataclass(frozen=True)
class Combination:
    """Names of what goes together."""

    method: str
    codec: str = "none"
    memory: str = "none"
    tail: str = "none"
    downlink: str = "none"
    rule: str = "none"
    late: str = "none"
    weights: str = "none"
    rate: str = "none"

    def __str__(self):
        return " + ".join([self.method, *(f"{part} {getattr(self, part)}" for part in self.parts)])

    @property
    def parts(self):
        """Names of the parts that are there."""
        return [part for part, name in vars(self).items() if name != "none" and part != "method"]

    @property
    def reference(self):
        """The plain method; None if there is none."""
        return METHODS.get(self.method)

    @property
    def world(self):
        """The clients' rows: of a model with layers where something needs them."""
        layered = self.codec == "power-sgd" or getattr(self.reference, "world", Line) is Net
        return Net if layered else Line

    def simplified(self):
        """Return the combination without what means nothing, or hangs on last bits."""
        less = {}
        if self.codec == "none":
            less["memory"] = "none"
        if self.codec in TIES and "top-k" in self.downlink:
            less["downlink"] = "none"
        if self.rule in NEAREST and "clip" in self.tail:
            less["tail"] = "none"
        return replace(self, **less)

    @property
    def uplink(self):
        codec = CODECS[self.codec]
        first = [] if codec is None else [{**codec, "memory": MEMORIES[self.memory]}]
        return [*first, *TAILS[self.tail]]

    @property
    def by_size(self):
        """Whether clients count by their size, in the mean or in draws."""
        if self.weights != "none":
            return self.weights != "uniform"
        return self.rule == "none" and self.reference.by_size

    def rate_from(self, lr):
        """Return the learning rate that starts at a value."""
        if self.rate == "none":
            return lr
        return {"name": "exponential", "start": lr, "factor": RATES[self.rate]}

    def scenario(self):
        """Return the scenario."""
        method, settings = self.reference, {"name": self.method}
        if method is not None:
            settings = dict(method.settings)
        cls = find("algorithms")[settings["name"]]
        local = {"batch": "full", "lr": self.rate_from(RATE), **settings.pop("local", {})}
        if OWN_STEPS not in cls.gives:
            local["steps"] = STEPS
        settings["local"] = local
        settings |= WEIGHTS[self.weights]
        if self.rule != "none" and self.weights == "none":
            settings["weights"] = "uniform"
        others = {} if OWN_STEPS in cls.gives else OTHER
        groups = [
            {"ids": [i], "local": {"steps": n, "lr": self.rate_from(lr)}}
            for i, (n, lr) in others.items()
        ]
        late = LATE[self.late]
        waiting = late.get("deadline_s") == WAITING
        few = not (EVERYONE in cls.needs or cls.asynchronous or waiting)
        # a step takes a second, and two at client 4; or one in the mean
        pace = {"name": "exponential" if waiting else "constant", "mean_s": 1.0}
        groups.append({"ids": [4], "delay": {**pace, "mean_s": 2.0}})
        normed = OWN_STATISTICS in cls.gives and LAYERS in cls.needs
        return {
            "name": "combination", "rounds": ROUNDS, "seeds": [SEED], "dtype": "float64",
            "problem": NORMED if normed else self.world.scenario(),
            "clients": {
                "count": N, "delay": pace, "groups": groups,
            },
            "participation": {**({"cohort": 3} if few else {}), **late},
            "uplink": self.uplink, "downlink": list(DOWNLINKS[self.downlink]),
            "aggregate": RULES[self.rule], "evaluate": {"every": ROUNDS},
            "algorithms": [settings], "executor": "serial",
        }  # fmt: skip

    def without(self, refused):
        """Return the combination without what a refusal is about; None if that is not in it.

        Parameters
        ----------
        refused : ScenarioError
        """
        place = refused.place
        parts = {
            "uplink": ("memory", "tail", "codec"), "downlink": ("downlink",),
            "aggregate": ("rule",), "participation": ("late", "weights"),
            # weights, which a rule wants, the solver, and a model that has layers
            "algorithms": ("weights", "rule", "rate", "codec"),
        }  # fmt: skip
        for part in parts.get(place.split(".")[0], ()):
            if getattr(self, part) != "none":
                less = {"memory": "none"} if part == "codec" else {}
                return replace(self, **{part: "none"}, **less)
        return None

    def plan(self):
        """Return the plan.

        Raises
        ------
        ScenarioError
            If it is refused.
        """
        return api.prepare(api.read(self.scenario()))


class Ran:
    """What rayfed makes of a plan.

    Attributes
    ----------
    models : list of (p,) array
        After each round.
    tasks : list of Work
        Of all rounds, those under way at the end included.
    row : mapping
        The last one.
    """

    def __init__(self, plan):
        (run,) = plan.runs
        loop = testing.loop(plan, run)
        state, _ = loop.start()
        self.start, self.models, self.used, self.tasks = state.state["x"], [], [], []
        for _ in range(ROUNDS):
            state, self.row, ended = loop.step(state)
            rows = [each.tasks for each in ended]
            rows = [w.rows() if isinstance(w, Tasks) else w for w in rows]
            self.tasks += chain(*rows)
            used = [work for work in chain(*rows) if work.status == USED]
            self.used.append(sorted(used, key=lambda w: (w.start_s, w.client)))
            self.models.append(state.state["x"])
        if state.timeline is not None:
            self.tasks += [*state.timeline.open.values(), *state.timeline.waiting]


class Plain:
    """A plain loop over what was recorded: who was asked, who was used when, in how many steps."""

    def __init__(self, combination, ran):
        method = combination.reference
        self.ran, self.late = ran, LATE[combination.late]
        drawn = combination.weights == "drawn by size"
        self.method = method(combination.world(ran.start), combination.by_size, drawn)
        self.method.world.decay = RATES[combination.rate]
        self.asynchronous = issubclass(method, Asynchronous)
        self.channel = Channel(
            method.coded, combination.uplink, DOWNLINKS[combination.downlink],
            RULES[combination.rule], combination.by_size, Net.shapes, self.asynchronous,
        )  # fmt: skip
        self.sent, self.replied = {}, defaultdict(lambda: ROUNDS + 1)
        for row, used in enumerate(ran.used, 1):
            for work in used:
                self.replied[work.client] = min(self.replied[work.client], row)

    def models(self):
        """Yield the model after each round."""
        if self.asynchronous:
            self.sent[0] = self.channel.down(self.method.sends(), 1, 0)
        for row, used in enumerate(self.ran.used, 1):
            if self.asynchronous:
                mean, replies = self.replies("train", used, row, 0, [])
                self.method.world.round = row
                self.method.step(mean, replies)
                self.sent[row] = self.channel.down(self.method.sends(), row + 1, 0)
            else:
                self.round(row, used)
            yield self.method.x

    def round(self, row, used):
        """Let the server function ask until it is done, or nobody replies."""
        asks, answer, ask = self.method.round(row), None, 0
        while True:
            try:
                work, sent = asks.send(answer)
            except StopIteration:
                return
            fresh = [w for w in self.ran.tasks if w.version == row - 1 and w.ask == ask]
            if not fresh:
                return
            self.sent[row - 1] = self.channel.down(sent, row, ask)
            mine = [w for w in used if (w.ask == ask if w.version == row - 1 else not ask)]
            if not mine:
                return
            asked = sorted({w.client for w in fresh})
            answer = self.replies(work, mine, row, ask, asked)
            self.method.world.round = row
            ask += 1

    def replies(self, function, tasks, row, ask, asked):
        """Return the means of what clients send, and the replies."""
        replies = []
        for w in tasks:
            sent, self.method.world.round = self.sent[w.version], w.version + 1
            client = getattr(self.method, function)(w.client, w.steps, **sent)
            first = self.replied[w.client] > w.version
            upload = next(client)
            got = self.channel.up(upload, w.client, (w.draw, w.ask, w.version + 1), first)
            with suppress(StopIteration):
                client.send(got)
            age = row - 1 - w.version
            replies.append(Reply(w.client, w.weight, self.discount(age), got, sent))

        def place(k):  # late ones come last
            w = tasks[k]
            return w.client if self.asynchronous else (w.version < row - 1, w.version, w.client)

        order = [replies[k] for k in sorted(range(len(tasks)), key=place)]
        return self.channel.mean(order, function, asked, row, ask), replies

    def discount(self, age):
        """Return the factor of a reply that is so many updates old."""
        if self.asynchronous:
            return self.method.discount(age)
        return 1.0 if "staleness" in self.late else (1 + age) ** -0.5


def accepted(combination):
    """Return as much of a combination as is accepted, with its plan.

    Raises
    ------
    AssertionError
        If a refusal takes more than a line, or is about nothing that is in the combination.
    """
    while True:
        try:
            return combination, combination.plan()
        except ScenarioError as error:
            refused, less = error, combination.without(error)
        if less is None or "\n" in str(refused):
            raise AssertionError(f"it is refused: {refused}")
        combination = less


def apart(combination, ran):
    """Return how a run differs from the plain loop; None if it does not, or there is none.

    Models of all rounds are compared, and in the end the losses of the clients' own models.
    """
    if combination.reference is None:
        return None
    plain = Plain(combination, ran)
    with np.errstate(all="ignore"):
        for row, (found, wanted) in enumerate(zip(ran.models, plain.models(), strict=True), 1):
            far = np.abs(found - wanted).max() / max(1.0, np.abs(wanted).max())
            if not far < NEAR:
                return f"the model of round {row} is {far:.2g} apart"
        method = plain.method
        wanted = np.mean([method.world.value(i, x) for i, x in enumerate(method.scored())])
        far = abs(ran.row.get("personal_loss", wanted) - wanted) / max(1.0, wanted)
        return None if far < NEAR else f"the personal loss is {far:.2g} apart"


PARTS = {
    "codec": CODECS, "memory": MEMORIES, "tail": TAILS, "downlink": DOWNLINKS, "rule": RULES,
    "late": LATE, "weights": WEIGHTS, "rate": RATES,
}  # fmt: skip


def drawn(methods, count, seed):
    """Return so many combinations of each method, so that many pairs of names are there.

    Each is the one of a few random ones that has the most pairs that no other has.
    """
    rng, seen, found = np.random.default_rng(seed), set(), []
    for _ in range(count):
        for method in methods:
            few = [
                Combination(method, **{k: str(rng.choice(list(v))) for k, v in PARTS.items()})
                for _ in range(20)
            ]
            best = max(few, key=lambda each: len(pairs(each) - seen))
            seen |= pairs(best)
            found.append(best.simplified())
    return found


def pairs(combination):
    """Return the pairs of names of parts that are there."""
    return set(combinations(vars(combination).items(), 2))
