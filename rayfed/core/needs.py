"""Needs of the parts of a study, and one function that finds parts that do not go together.

A part is an algorithm, a problem, a solver, a stage, a measure, a setting of participation, and so
on. It declares terms that it needs, and terms that it removes, which others then cannot have. All
refusals are written from the phrases of a term.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from rayfed.core.errors import ScenarioError

Refusals: TypeAlias = Iterator[tuple[str, str]]
"""Dotted keys, and the reason why each is refused; an empty reason refuses nothing."""


@dataclass(frozen=True, order=True)
class Term:
    """One thing that parts of a run need, give or remove.

    Parameters
    ----------
    needed : str
        Object of "needs ...".
    removed : str
        Predicate of a part that does not leave it to others.
    remedy : str
        Remedy, where it is the same for all parts; otherwise that of one of the parts.
    """

    needed: str
    removed: str
    remedy: str = ""


Terms: TypeAlias = frozenset[Term]
NOTHING: Terms = frozenset()


def where(conditions: Mapping[Term, object]) -> Terms:
    """Return the terms whose condition holds."""
    return frozenset(term for term, holds in conditions.items() if holds)


# Needs of algorithms, which settings may remove.
MEAN = Term("the exact weighted mean of uploads", "replaces that mean by an estimate")
FRESH = Term("replies of the current round alone", "uses replies of earlier rounds")
ALL_STEPS = Term("all local steps of a client", "cuts local steps short")
EVERYONE = Term("all clients in every round", "leaves clients out")
VECTORS = Term("the vector of each client", "hides single vectors")
EXACT_UPLOADS = Term("its uploads as they are", "changes uploads")
EXACT_DOWNLOADS = Term("exactly what the server sends at its clients", "changes downloads")
OWN_PART = Term("zeros in what a client does not train", "may send anything there")
REPLIED = Term("the vector of each client in a reply", "passes one vector on")
SOLVER = Term("local steps of a solver", "takes no local steps")
LAYERS = Term("a model of several layers", "has one layer")

# What problems, data sets and solvers give.
GRADIENTS = Term("gradients of the objective", "gives no gradients")
CORRECTIONS = Term("local steps with corrected gradients", "does not correct local steps")
PROXIMAL = Term("a proximal term (`mu`) in local steps", "has no proximal term")
HESSIANS = Term(
    "Hessians",
    "gives no Hessians",
    "choose a first-order method, products alone (newton_solver: cg; preconditioner: none with a "
    "tolerance), or another problem",
)
PRODUCTS = Term(
    "products of Hessians with vectors",
    "gives no such products",
    "choose a first-order method or variant, or another problem",
)
REPRESENTATIONS = Term(
    "representations of rows",
    "gives no representations",
    "choose a model with layers, such as mlp",
)
ADAPTERS = Term(
    "low-rank adapters",
    "has no adapters",
    "choose a network that trains matrices lora_A and lora_B alone",
)
OPTIMUM = Term("a known optimum", "leaves the optimum unknown")
ROW_LOSSES = Term("the loss of each row", "has one loss for all rows of a batch")
ROWS = Term("rows of features and targets", "gives no rows")
LABELS = Term(
    "class labels",
    "has no class labels",
    "leave it out, or choose a problem that predicts classes",
)
ONE_TARGET = Term("one target for each row", "has several for each row, or none")
TABLE = Term("all rows in a table", "makes the rows of each client itself")
FIXED_ROWS = Term("rows that stay the same in all rounds", "changes rows over rounds")

# What algorithms give, which settings may need.
MODEL = Term("a global model", "has no global model")
OWN_MODELS = Term("models of the clients' own", "has no models of the clients' own")
ONE_ASK = Term("one Ask in a round", "asks several times")
OWN_STATISTICS = Term("running statistics that stay at the clients", "averages them")
GLOBAL_STEPS = Term(
    "plain local steps of the global model once a round, to average running statistics",
    "takes no such steps",
)
PLAIN_MEANS = Term(
    "plain means of running statistics", "allows none (a client's statistics are unbounded)"
)
AVERAGED = Term(
    "a mean of clients' models as the next one, so that running variances stay in their range",
    "moves the model otherwise",
)
OWN_STEPS = Term("step counts of the method's own", "takes those of the solver")
SERVER = Term("a server", "learns without one")
ROUNDS = Term("rounds", "is asynchronous and has no rounds")

# What follows from the first Ask of an algorithm.
LOCAL = Term("local steps of the client's solver", "does not ask for local steps")
SENT = Term("vectors in the first Ask of a round", "uploads no vectors then")
ONE_MEAN = Term("one mean over all clients", "needs one of each group")
WEIGHTED = Term("weighted means alone", "adds up vectors without weights")
NO_SCALARS = Term(
    "uploads of vectors alone",
    "makes clients upload scalars, in the clear",
)
IN_TURN = Term("clients that send after they compute", "computes while it sends")

# What channel, participation and clients leave to others.
SUMS = Term("sums over the clients' vectors", "uses no sums")
READABLE = Term("sums that the server can read", "hides sums")
SEVERAL = Term("several replies to a sum", "updates after a single reply")
ONE_SIZE = Term("uploads of one size", "sends first vectors as they are")
THIS_ROUND = Term("vectors of the round alone", "adds up what all clients sent")
MEMORYLESS = Term("clients without memory", "keeps state between rounds")
COUNT_ONCE = Term("clients that count alike", "weighs clients differently")
VECTORS_ALIKE = Term("vectors that count alike", "weighs vectors differently")
UNAFFECTED = Term("clients that do not affect one another", "lets clients affect one another")
COHORT = Term("a cohort of a given size", "decides itself which clients take part")
ONE_MORE = Term("a selection that can draw one more client", "draws whole cohorts")
CHANCES = Term("a known probability of taking part", "makes the probability of taking part unknown")
TIMES = Term(
    "transfer times that are known in advance",
    "shares its bandwidth among transfers",
)
STEADY = Term(
    "bandwidths that do not change",
    "changes them over time",
    "leave one out, or give down_mbps and up_mbps",
)
UNBROKEN = Term("tasks that do not pause", "lets them pause", "use interrupted: drop")
RESTARTS = Term("clients that start one by one", "starts its clients together, when all have sent")
NUMBERED = Term(
    "rounds, or tasks that are numbered for each client", "numbers the visits of all nodes"
)
SIZES = Term("clients of constant size", "changes the sizes of clients")
GRAPHS = Term(
    "a graph of clients",
    "is missing",
    "give a graph of clients, for example topology: ring",
)
BOTH_WAYS = Term(
    "links in both directions",
    "has arcs",
    "use sgp, epidemic, a method with mixing: uniform, or a topology of links",
)
BY_CLOCK = Term(
    "availability by the clock", "goes by the number of the round", "give it a period_s"
)
ALIKE_LINKS = Term(
    "links without a latency or bandwidth of their own",
    "gives them one",
    "leave latency_s and mbps out, or use multi-walk or a gossip method",
)
FIXED_GRAPH = Term(
    "a graph that stays the same", "changes over time", "give one that never changes"
)
BLIND = Term(
    "cohorts that depend on no data",
    "depends on the clients' data or draws clients twice",
    "give a selection and an availability that do not",
)
COINS = Term(
    "clients that take part with one probability",
    "draws no coins",
    "give participation.select: poisson",
)
KNOWN_SIZE = Term(
    "cohorts of a known size",
    "draws a coin for each client",
    "give participation.select: uniform, or privacy at the server by coins",
)
HONEST = Term(
    "noise of every client",
    "leaves its noise out",
    "leave clients.faults or at: clients out",
)
BOUNDED = Term(
    "uploads that a clip bounds, since a secure sum may wrap around",
    "sends others",
    "leave clients.faults or secure-sum out",
)
FIXED_NORM = Term("a norm that does not change", "follows a quantile", "give a number as norm")
UNCLIPPED = Term("uploads that are not clipped", "clips them")
SAME_CLIENTS = Term("the clients that were asked first", "replaces them", "use retry: same")
STAYING = Term(
    "clients that stay for all Asks of a round",
    "may lose one between two Asks",
    "let none be away, crash, fail to reply or be silent, or choose other settings of the method",
)
WALK = Term("a server that visits clients", "visits no client", "use select: walk")
ALL_ROWS = Term("the loss of all rows", "looks at some rows alone")
APART = Term("rows that stay with their clients", "has all rows in one place")

GIVEN: Terms = frozenset(
    {AVERAGED, GLOBAL_STEPS, MODEL, OWN_MODELS, ONE_ASK, OWN_STATISTICS, OWN_STEPS}
)
"""Terms that an algorithm removes unless it gives them."""
BY_PROBLEMS: Terms = frozenset(
    {
        GRADIENTS,
        CORRECTIONS,
        PROXIMAL,
        HESSIANS,
        PRODUCTS,
        REPRESENTATIONS,
        ADAPTERS,
        ROW_LOSSES,
        ROWS,
        LABELS,
    }
)
"""Terms that a problem removes unless it gives them."""
BY_SOLVERS: Terms = frozenset({CORRECTIONS, PROXIMAL})
"""Terms that a local solver removes unless it gives them."""
BY_DATA: Terms = frozenset({ROWS, LABELS, TABLE})
"""Terms that a data set removes unless it gives them."""
TERMS: Mapping[str, Term] = {
    name: term for name, term in list(vars().items()) if isinstance(term, Term)
}
"""All terms by the names of their constants."""


@dataclass(frozen=True)
class Part:
    """A part of a run.

    Parameters
    ----------
    place : str
        Dotted key that a user changes; "" for algorithm and problem, which are never to blame.
    shown : str
        Its name in messages.
    needs, removes : frozenset of Term
    instead : str
        Remedy, if this part is to change.
    """

    place: str
    shown: str
    needs: Terms = NOTHING
    removes: Terms = NOTHING
    instead: str = ""


def clashes(parts: Iterable[Part]) -> Refusals:
    """Yield the place and text of each need of a part that another part removes.

    The part with a place is to blame; of two such parts, the one with the need.

    Examples
    --------
    >>> fedvarp = Part("", "'fedvarp'", needs=frozenset({FRESH}))
    >>> late = Part("late", "late: stale", removes=frozenset({FRESH}), instead="use drop")
    >>> place, text = next(clashes([fedvarp, late]))
    >>> text.split(", but ")[1]
    'late: stale uses replies of earlier rounds; use drop'
    """
    parts = list(parts)
    for part in parts:
        for other in parts:
            for term in sorted(part.needs & other.removes):
                if other is not part:
                    text = f"{part.shown} needs {term.needed}, but {other.shown} {term.removed}"
                    remedy = term.remedy or part.instead or other.instead
                    remedy = remedy or "leave one of them out"
                    yield part.place or other.place or "algorithm", f"{text}; {remedy}"


def refuse_flags(cls: type[object], instead: Mapping[str, str]) -> None:
    """Refuse flags that a class of a user still declares in place of terms.

    Parameters
    ----------
    cls : type
    instead : mapping of str to str
        The declaration that replaces each flag.

    Raises
    ------
    ScenarioError
        With the class as the place.
    """
    for flag, declaration in instead.items():
        if isinstance(vars(cls).get(flag), bool):
            text = f"declares '{flag}', which is replaced; write {declaration}"
            raise ScenarioError(cls.__qualname__, f"{text} (from rayfed.core.needs)")


def refuse_renamed(cls: type[object], names: Mapping[str, str]) -> None:
    """Refuse hooks that a class of a user still defines under their old names.

    Parameters
    ----------
    cls : type
    names : mapping of str to str
        The new name of each hook.

    Raises
    ------
    ScenarioError
        With the class as the place.
    """
    for old in names.keys() & vars(cls).keys():
        raise ScenarioError(cls.__qualname__, f"defines '{old}'; rename it to '{names[old]}'")
