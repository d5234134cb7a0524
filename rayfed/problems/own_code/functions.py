"""The functions of own training code: their contexts, seeds, and checks of returned values."""

from __future__ import annotations

import inspect
import math
import random
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, ClassVar, NoReturn

import numpy as np

from rayfed.core.arrays import Array
from rayfed.core.errors import RayfedError, ScenarioError, clipped, listed
from rayfed.core.needs import NOTHING, Terms
from rayfed.core.own import Untrusted
from rayfed.core.plugins import defined_at, ends_process, load, raised
from rayfed.core.rng import Draw, Key

ARGUMENTS: Mapping[str, tuple[str, ...]] = {
    "model": (),
    "client": ("i",),
    "size": ("i", "part"),
    "train": ("model", "data", "context"),
    "evaluate": ("model", "data", "part"),
    "cost": ("i", "n", "context"),
}
"""The functions by name, and the arguments that each is called with."""
OPTIONAL = ("cost",)
STATE = "own/"
"""Prefix of the client state of own training code, which algorithms do not see."""
EXAMPLES = "examples"
"""Returned number of examples, which is compared with `size`."""


@dataclass(frozen=True)
class Context:
    """Arguments of a client's local training that are neither model nor data.

    Parameters
    ----------
    client : int
        Id of the client.
    round : int
        The round, from 1; in asynchronous runs the version of the model plus 1, for `cost` the
        number of the client's task.
    steps : int
        Local steps that the client may take: its cost, or fewer after ``late: partial``.
    seed : int
        Seed that `random`, NumPy and PyTorch were given; for further generators.
    state : dict of str to array
        Arrays that stay at the client between rounds; to be changed in place or replaced.
    config : mapping of str to object
        ``config`` of the local solver, and its ``epochs`` and ``batch``.
    device : str
        Where to compute, as PyTorch names it.
    """

    client: int
    round: int = 0
    steps: int = 0
    seed: int = 0
    state: dict[str, Array] = field(default_factory=dict)
    config: Mapping[str, Any] = field(default_factory=dict)
    device: str = "cpu"


def bytes_of(state: Mapping[str, Array]) -> tuple[bytes, ...]:
    """Return the values of a state as bytes, to compare it."""
    return tuple(array.tobytes() for array in state.values())


class OwnCodeError(RayfedError):
    """Own training code that returns something else than it should."""


@dataclass(frozen=True, kw_only=True)
class ClientCode:
    """Own training code: a model, the clients' data, and functions that train and evaluate.

    Each is a function, or its name as ``module:function``. The code imports nothing of rayfed, and
    its results are the same under every placement if the functions depend on their arguments alone:
    `random`, NumPy and PyTorch are seeded before each call.

    Parameters
    ----------
    model : callable
        ``model()`` returns a ``torch.nn.Module`` or a dict of named arrays of floats.
    client : callable
        ``client(i)`` returns the data of client i: any object.
    size : callable
        ``size(i, part)`` returns the number of examples of client i in "train", "test" or, where
        the problem asks for it, "val".
    train : callable
        ``train(model, data, context)`` trains the model in place, and returns the mean loss over
        the local steps as ``{"loss": ...}`` with the metrics of the solver; see `Context`.
    evaluate : callable
        ``evaluate(model, data, part)`` returns the mean loss over the examples of a part, with
        their ``accuracy`` if there is one, and the metrics of the problem. It is not called for
        parts without examples.
    cost : callable, optional
        ``cost(i, n, context)`` returns the local steps of client i with n training examples;
        ``steps`` or ``epochs`` of the solver if None.

    Raises
    ------
    ScenarioError
        If a function is not found, or cannot be called so; the place is its name.
    """

    needs: ClassVar[Terms] = NOTHING
    """Terms that other parts of a run must not remove, from `rayfed.core.needs`."""

    model: Any
    client: Any
    size: Any
    train: Any
    evaluate: Any
    cost: Any = None

    def __post_init__(self) -> None:
        for name in ARGUMENTS:
            function = getattr(self, name)
            if isinstance(function, str):
                function = _loaded(name, function)
                object.__setattr__(self, name, function)
            if function is not None or name not in OPTIONAL:
                check_function(name, function)

    @classmethod
    def of(cls, given: Any) -> ClientCode:
        """Return the code that a scenario gives.

        Parameters
        ----------
        given : str, mapping or ClientCode
            The name of a module that defines the functions, or functions by name.

        Raises
        ------
        ScenarioError
            If it is anything else, or a function is not found or missing.
        """
        if isinstance(given, ClientCode):
            return given
        if isinstance(given, str):
            given = _of_module(given)
        if not isinstance(given, Mapping):
            raise ScenarioError("", f"found {clipped(repr(given), 60)}; give the name of a module")
        odd = sorted(map(str, given.keys() - ARGUMENTS.keys()))
        odd += [name for name in ARGUMENTS if name not in (*given, *OPTIONAL)]
        if odd:
            text = f"'{clipped(odd[0], 40)}' is {'missing' if odd[0] in ARGUMENTS else 'unknown'}"
            needed = ", ".join(name for name in ARGUMENTS if name not in OPTIONAL)
            raise ScenarioError("", f"{text}; give {needed}, and cost if there is one")
        return cls(**given)

    @property
    def modules(self) -> tuple[str, ...]:
        """Modules of the user's beyond those that define the functions."""
        return ()

    @property
    def training_metrics(self) -> tuple[str, ...]:
        """Metrics that ``train`` returns beyond those that the solver declares."""
        return ()

    @property
    def training_loss(self) -> bool:
        """Whether ``train`` returns a loss; if not, it is NaN."""
        return True

    @property
    def first_state(self) -> Mapping[str, Array]:
        """First values of client state beyond that of the solver, by name."""
        return {}

    def evaluated(self, model: Any, data: Any, part: str, context: Context) -> Any:
        """Evaluate a client; the context has its id, the round and its state."""
        return self.evaluate(model, data, part)

    def seeded(self, seed: int) -> ClientCode:
        """Return the code with the values that a seed decides before `model` is called."""
        return self

    def settings_of(self, config: Mapping[str, Any], solver: Mapping[str, Any]) -> dict[str, Any]:
        """Return ``config`` of a context: that of the scenario, and settings of the solver."""
        return {**solver, **config}


def _of_module(module: str) -> dict[str, str]:
    """Return the names of the functions of a module."""
    named = {name: f"{module}:{name}" for name in ARGUMENTS}
    if not all(part.isidentifier() for part in module.split(".")):
        raise ScenarioError("", f"found '{clipped(module, 60)}'; give the name of a module")
    load(named["model"])
    defined = vars(sys.modules[module])
    return {name: path for name, path in named.items() if name not in OPTIONAL or name in defined}


def _loaded(name: str, path: str) -> Any:
    """Return a function by its name, ``module:function``."""
    try:
        return load(path)
    except Untrusted:
        raise
    except ScenarioError as error:
        raise ScenarioError(name, str(error)) from error


def check_function(name: str, function: Any) -> None:
    """Refuse a function that cannot be called with its arguments.

    Raises
    ------
    ScenarioError
        With the name of the function as the place.
    """
    if not callable(function):
        raise ScenarioError(name, f"found {clipped(function, 60)}; give a function")
    arguments = ARGUMENTS[name]
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # of some functions that are compiled
        return
    try:
        signature.bind(*arguments)
    except TypeError:
        at = defined_at(function)
        text = f"takes {signature}" + (f" ({at})" if at else "")
        raise ScenarioError(name, f"{text}; write {name}({', '.join(arguments)})") from None


def check_metrics(names: Iterable[str], taken: Sequence[str]) -> None:
    """Refuse names of metrics that cannot be columns, or that others have taken.

    Raises
    ------
    ScenarioError
        With the place ``metrics``.
    """
    for name in names:
        if not name.isidentifier() or name in taken:
            text = f"found '{clipped(name, 40)}'; give a name of letters, digits and _"
            raise ScenarioError("metrics", f"{text} other than {listed(taken)}")


def refuse(function: Callable[..., Any], text: str) -> NoReturn:
    """Raise an error about the return value of a function."""
    at = defined_at(function)
    name = getattr(function, "__name__", type(function).__name__)
    raise OwnCodeError(f"{name}{f' ({at})' if at else ''} {text}")


def numbers(
    function: Callable[..., Any], returned: Any, declared: Sequence[str], place: str, size: int
) -> dict[str, float]:
    """Return the numbers that a function returned: a loss and the declared metrics.

    Parameters
    ----------
    function : callable
    returned : object
        A mapping of names to numbers.
    declared : sequence of str
        Names of the metrics.
    place : str
        Key of the scenario that declares metrics.
    size : int
        Number of examples by `size`.

    Raises
    ------
    OwnCodeError
        If one is missing, not declared or no number, if a metric is NaN, or ``examples`` is another
        number than `size`.
    """
    if not isinstance(returned, Mapping) or "loss" not in returned:
        found = listed(map(str, returned)) if isinstance(returned, Mapping) else repr(returned)
        refuse(function, f'returns {clipped(found, 60)}; return {{"loss": ...}}')
    unknown = [str(name) for name in returned if name not in ("loss", EXAMPLES, *declared)]
    if unknown:
        text = f"returns '{clipped(unknown[0], 40)}', which is not declared"
        refuse(function, f"{text}; add it to {place}, with higher, lower or null")
    missing = [name for name in declared if name not in returned]
    if missing:
        refuse(function, f"returns no '{missing[0]}', which {place} declares; return it")
    values = {str(name): _number(function, str(name), value) for name, value in returned.items()}
    for name in declared:
        if math.isnan(values[name]):
            refuse(function, f"returns NaN for '{name}'; return a number")
    examples = values.pop(EXAMPLES, size)
    if examples != size:
        refuse(function, f"saw {examples:g} examples, but size returns {size}; correct size")
    return values


def check_loss(function: Callable[..., Any], loss: float, *models: Array) -> None:
    """Refuse a loss that is not finite, if the models (p,) it comes from are.

    Raises
    ------
    OwnCodeError
    """
    if not math.isfinite(loss) and all(np.isfinite(x).all() for x in models):
        text = f"returns the loss {loss:g}, which is not finite, of a finite model"
        refuse(function, f"{text}; return a number, or take smaller steps")


def _number(function: Callable[..., Any], name: str, value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError, RuntimeError):
        refuse(function, f"returns {clipped(repr(value), 40)} for '{name}'; return a number")


def seeds_of(key: Key, ids: Sequence[int] | Array, draw: Draw = 0, ask: int = 0) -> list[int]:
    """Draw a seed below 2**63 for each client (K,)."""
    words = key.bits(ids, 2, round=draw, ask=ask)
    return [int(seed) for seed in (words[:, 0] << np.uint64(31)) ^ words[:, 1]]


@lru_cache(maxsize=2**14)
def seed_of(key: Key, client: int = 0) -> int:
    """Return the seed of a client that is the same in all rounds."""
    return seeds_of(key, [client])[0]


def seed_all(seed: int) -> None:
    """Seed the generators of `random`, NumPy and, where it is imported, PyTorch."""
    random.seed(seed)
    np.random.seed(seed % 2**32)  # noqa: NPY002 -- it is the user's
    if (torch := sys.modules.get("torch")) is not None:
        torch.default_generator.manual_seed(seed)
        if torch.cuda.is_initialized():  # else `torch.manual_seed` queues each call with its stack
            torch.cuda.manual_seed_all(seed)


@contextmanager
def preserved() -> Iterator[None]:
    """Restore the generators that `seed_all` seeds, and let PyTorch compute with one thread.

    Raises
    ------
    OwnCodeError
        If PyTorch is imported meanwhile: its first draws would depend on earlier ones. If a
        function raises what is no `Exception`, such as SystemExit, which would end all runs of the
        process.
    """
    torch = sys.modules.get("torch")
    states = random.getstate(), np.random.get_state()  # noqa: NPY002
    threads, drawn = (torch.get_num_threads(), torch.get_rng_state()) if torch else (1, None)
    if torch:  # also where OpenMP has one: MKL counts its own
        torch.set_num_threads(1)
    try:
        yield
        if torch is None and "torch" in sys.modules:
            text = "torch is imported inside a function"
            raise OwnCodeError(f"{text}; import it at the top of the module, where it is seeded")
    except BaseException as error:
        if isinstance(error, Exception) or ends_process(error):
            raise
        raise OwnCodeError(f"{raised(error)}; raise an Exception in its place") from error
    finally:
        random.setstate(states[0])
        np.random.set_state(states[1])  # noqa: NPY002
        if torch:
            torch.set_rng_state(drawn)
            torch.set_num_threads(threads)
