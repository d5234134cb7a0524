"""A cluster in this process: nodes with client actors and combiners that are called at once.

Arguments and answers travel as pickles, as between processes; object references stay references.
So what is sent can be counted, and nodes can come and go, without Ray.
"""

from __future__ import annotations

import io
import pickle
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import cache, partial
from types import SimpleNamespace
from typing import Any
from unittest import mock

from ray.exceptions import RayActorError

from rayfed.clients.host import Host
from rayfed.clients.prints import Prints
from rayfed.executors.combiner import Combiner
from rayfed.executors.ray_host import HostActor
from rayfed.executors.ray_pool import Pool


class Stored:
    """An object reference: a value in the object store, or what a call came to."""

    def __init__(self, value: Any, error: Exception | None = None) -> None:
        self.value, self.error = value, error

    def settle(self) -> None:
        """Wait for it."""


class Late(Stored):
    """A reference to what a call comes to, which is not run before somebody waits for it."""

    def __init__(self, call: Callable[[], Stored]) -> None:
        super().__init__(None)
        self.call = cache(call)

    def settle(self) -> None:
        """Run the call, the first time."""
        self.value, self.error = self.call().value, self.call().error


class _Pickler(pickle.Pickler):
    """Leaves out what references refer to."""

    def __init__(self, file: io.BytesIO, known: dict[str, Stored]) -> None:
        super().__init__(file, protocol=5)
        self.known = known

    def persistent_id(self, obj: Any) -> str | None:
        if not isinstance(obj, Stored):
            return None
        self.known[str(id(obj))] = obj
        return str(id(obj))


class _Unpickler(pickle.Unpickler):
    def __init__(self, file: io.BytesIO, known: Mapping[str, Stored]) -> None:
        super().__init__(file)
        self.known = known

    def persistent_load(self, name: str) -> Stored:
        return self.known[name]


def _copied(value: Any) -> tuple[Any, int]:
    """Return a value as another process gets it, and its bytes on the way."""
    known: dict[str, Stored] = {}
    file = io.BytesIO()
    _Pickler(file, known).dump(value)
    size = file.tell()
    file.seek(0)
    return _Unpickler(file, known).load(), size


class Handle:
    """The handle of an actor: ``handle.method.remote(...)`` returns a reference.

    Parameters
    ----------
    actor : object
    late : sequence of str
        Methods that do not begin before somebody waits for them, as may happen in an actor that
        does several things at once.

    Attributes
    ----------
    calls : list of (str, int, int)
        The methods that were called, the bytes of their arguments and of what they returned.
    got : Counter
        How often the actor got each stored value, by its id.
    answered : list of str
        The methods of the messages that it answered, those by wire included.
    waiting : list of Late
        The calls that began late, or have not begun.
    """

    def __init__(self, actor: Any, late: Sequence[str] = ()) -> None:
        self.actor, self.late, self.alive = actor, late, True
        self.calls: list[tuple[str, int, int]] = []
        self.got: Counter[int] = Counter()
        self.answered: list[str] = []
        self.waiting: list[Late] = []
        whole = actor.answer

        def answer(method: str, *message: Any) -> Any:
            self.answered.append(method)
            return whole(method, *message)

        actor.answer = answer

    def __getattr__(self, method: str) -> SimpleNamespace:
        return SimpleNamespace(remote=lambda *given: self._called(method, given))

    def _called(self, method: str, given: Sequence[Any]) -> Stored:
        if method in self.late:
            self.waiting.append(Late(partial(self._call, method, given)))
            return self.waiting[-1]
        return self._call(method, given)

    def _call(self, method: str, given: Sequence[Any]) -> Stored:
        if not self.alive:
            return Stored(None, RayActorError())
        arguments, down = _copied(tuple(given))
        _callers.append(self)
        try:  # references among the arguments themselves arrive as values
            found = [_get(one) if isinstance(one, Stored) else one for one in arguments]
            answer, up = _copied(getattr(self.actor, method)(*found))
        except Exception as error:
            return Stored(None, error)
        finally:
            _callers.pop()
        self.calls.append((method, down, up))
        return Stored(answer)


_callers: list[Handle] = []
"""The actors whose methods are running, one inside the other."""


class _HostHere(HostActor):
    def __init__(self, memory: int | None) -> None:
        self._hold(Host(memory))


class _CombinerHere(Combiner):
    def __init__(self, actors: Sequence[Any], clients: int) -> None:
        self._combine(actors, clients)


class Node:
    """A node with client actors, and a combiner if there are several.

    Parameters
    ----------
    actors : int
        How many.
    clients : int
        Number N of clients of the study.
    combines : bool
        Whether there is a combiner if there are several actors.
    memory : int, optional
        Bytes that client state may take at each actor.
    late : sequence of str
        As for the `Handle` of the combiner.
    """

    def __init__(
        self,
        actors: int,
        clients: int,
        *,
        combines: bool = True,
        memory: int | None = None,
        late: Sequence[str] = (),
    ) -> None:
        self.clients, self.memory = clients, memory
        self.actors = [Handle(_HostHere(memory)) for _ in range(actors)]
        self.combiner: Handle | None = None
        if combines and actors > 1:
            self.combiner = Handle(_CombinerHere(self.actors, clients), late)

    @property
    def hosts(self) -> list[Handle]:
        """Whom drivers call."""
        return self.actors if self.combiner is None else [self.combiner]

    def restart(self, number: int) -> None:
        """Start an actor anew, or the combiner where there are fewer: it has forgotten all."""
        if number < len(self.actors):
            self.actors[number].actor = _HostHere(self.memory)
        elif self.combiner is not None:
            self.combiner.actor = _CombinerHere(self.actors, self.clients)

    def go(self) -> None:
        """Be lost, with all that is there."""
        for handle in (*self.actors, *self.hosts):
            handle.alive = False


def pool(nodes: Sequence[Node]) -> Pool:
    """Return the pool of some nodes."""
    hosts = [(host, len(node.actors) // len(node.hosts)) for node in nodes for host in node.hosts]
    return Pool([host for host, _ in hosts], [size for _, size in hosts])


def stored(tables: Mapping[str, Any]) -> dict[str, Stored]:
    """Return references to tables."""
    return {name: Stored(table) for name, table in tables.items()}


@contextmanager
def no_ray(*, wires: bool = False) -> Iterator[None]:
    """Let calls, references and waiting be those of this module.

    Parameters
    ----------
    wires : bool
        Whether all hosts are taken for those of the driver's node, which are reached by wire.
    """
    with ExitStack() as patched:
        name = "" if wires else "elsewhere"
        patched.enter_context(mock.patch("rayfed.executors.calls.this_node", return_value=name))
        if wires:  # in threads, which share one stdout
            patched.enter_context(mock.patch("rayfed.executors.ray_host.Captured", Prints))
        patched.enter_context(mock.patch.multiple("ray", get=_get, put=Stored, wait=_wait))
        yield


def _get(refs: Any) -> Any:
    if isinstance(refs, list):
        return [_get(ref) for ref in refs]
    refs.settle()
    if refs.error is not None:
        raise refs.error
    if _callers:
        _callers[-1].got[id(refs.value)] += 1
    return refs.value


def _wait(refs: list[Stored], **_: Any) -> tuple[list[Stored], list[Stored]]:
    for ref in refs:
        ref.settle()
    return refs, []
