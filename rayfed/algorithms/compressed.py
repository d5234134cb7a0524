"""Base of methods with compressed changes of gradients."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from annotated_types import Gt

from rayfed.algorithms.base import Algorithm, Coded
from rayfed.channel.base import Codec, Draws
from rayfed.channel.codecs.sparsifiers import RandK
from rayfed.core.arrays import Array, to_numpy
from rayfed.core.errors import RunFailed, ScenarioError
from rayfed.core.needs import EVERYONE, FRESH, GRADIENTS, MEAN, Terms
from rayfed.core.rng import Key
from rayfed.messages import Ask, Reply
from rayfed.solvers.base import Solver
from rayfed.solvers.sgd import SGD

if TYPE_CHECKING:
    from rayfed.clients import Clients


@dataclass(frozen=True, kw_only=True)
class Compressed(Algorithm):
    """Base of methods that take a step along an estimate of the gradient of F in every round.

    Parameters
    ----------
    codec : Codec
        An unbiased codec without memory.
    lr : float
        Step along the estimate.
    local : Solver
        No steps of it are taken; its ``batch`` is the number of rows read in the time of a step
        that ``clients.delay`` gives, and so what a pass over all rows costs.
    """

    coded: ClassVar[Coded] = {}
    needs: ClassVar[Terms] = frozenset({MEAN, FRESH, EVERYONE, GRADIENTS})

    codec: Codec = RandK(share=0.1)
    lr: Annotated[float, Gt(0)] = 0.1
    local: Solver = field(default_factory=lambda: SGD(steps=1, batch="full"))

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.codec.unbiased or self.codec.memory is not None:
            text = f"found '{self.codec.name}'; '{self.name}' needs an unbiased codec, no memory"
            raise ScenarioError("codec", text)
        if self.codec.matrices or self.codec.by == "layer":
            raise ScenarioError("codec", "codes layers by themselves; give a codec of vectors")

    def ask(self, x: Array, function: str, send: Mapping[str, Array], full: bool) -> Ask:
        """Return the Ask for gradients, or for their coded changes.

        Parameters
        ----------
        x : (p,) array
            The model.
        full : bool
            Whether gradients are sent as they are.
        """
        bits = {} if full else {"change": self.codec.bits([(x.size,)], 8 * x.dtype.itemsize)}
        return Ask(function, send=send, up={"change": x.size}, cost=0, passes=1, bits=bits)

    def compressed(self, clients: Clients, change: Array) -> Array:
        """Return changes (K, p) as the server decodes them."""
        key = Key(clients.seed, self.name)
        draws = Draws(key, clients.ids, clients.draws, clients.ask, clients.round)
        return self.codec.coded(change, draws)

    def omega(self, p: int) -> float:
        """Return the variance omega of the codec, relative to the squared norm of a vector (p,)."""
        return self.codec.error((p,))


def gradient(clients: Clients, x: Any) -> Array:
    """Return the gradients of F_i at x (p,), (K, p)."""
    return to_numpy(clients.gradient(x))


def all_replied(reply: Reply, name: str) -> None:
    """Refuse a reply of some clients, where the method needs all.

    Raises
    ------
    RunFailed
    """
    if len(reply.ids) < reply.population:
        text = f"{len(reply.ids)} of {reply.population} clients replied, and '{name}' needs all"
        raise RunFailed(f"round {reply.round}: {text}; make all clients available and on time")
