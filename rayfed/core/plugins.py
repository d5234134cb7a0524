"""Plug-in discovery: plug-ins are found by searching their folders, not registered in a list.

A plug-in is a frozen dataclass of settings that extends the base class of its kind and has a
``name``. A file in the folder of its kind is found without registration. Scenarios refer to a
user's own class as ``package.module:Class``.
"""

from __future__ import annotations

import importlib
import inspect
import re
import signal
import sys
import traceback
from collections.abc import Callable, Iterator, Set
from dataclasses import Field, dataclass, fields
from functools import cache
from pathlib import Path
from types import FunctionType
from typing import Annotated, Any, TypeAlias, get_type_hints

from rayfed.core import own
from rayfed.core.errors import RayfedError, ScenarioError, clipped, nearest, unknown
from rayfed.core.own import is_users


@dataclass(frozen=True)
class Kind:
    """A kind of plug-in.

    Parameters
    ----------
    home : str
        Module or package that is searched.
    base : str
        Base class, as ``module:Class``.
    unnamed : str, optional
        Name of the plug-in that settings without a name configure.
    """

    home: str
    base: str
    unnamed: str | None = None


@dataclass(frozen=True)
class ScenarioPath:
    """Annotation of a setting that holds a path relative to the folder of the scenario file."""


FilePath: TypeAlias = Annotated[str, ScenarioPath()]


NAMED = (type, FunctionType, type(cache(str)))
"""Types of objects that a module defines under a name: classes, functions, and cached functions."""

PLACE = "place"
"""Metadata of a field that a scenario file sets under another key, which is its value."""


@dataclass(frozen=True)
class SomeOf:
    """Annotation of a setting that holds some of the settings of a class, by name.

    Parameters
    ----------
    of : str
        The class, as ``module:Class``; layers above may define it.
    """

    of: str


KINDS = {
    "algorithms": Kind("rayfed.algorithms", "rayfed.algorithms.base:Algorithm"),
    "problems": Kind("rayfed.problems", "rayfed.problems.base:Problem"),
    "solvers": Kind("rayfed.solvers", "rayfed.solvers.base:Solver"),
    "schedules": Kind("rayfed.solvers.schedules", "rayfed.solvers.schedules:Schedule"),
    "staleness": Kind("rayfed.algorithms.staleness", "rayfed.algorithms.staleness:Staleness"),
    "step_counts": Kind(
        "rayfed.solvers.step_counts", "rayfed.solvers.step_counts:StepCount", unnamed="uniform"
    ),
    "datasets": Kind("rayfed.datasets", "rayfed.datasets.base:Dataset"),
    "partitions": Kind("rayfed.datasets.partitions", "rayfed.datasets.partitions.base:Partition"),
    "drifts": Kind("rayfed.datasets.drift", "rayfed.datasets.drift:Drift"),
    "delays": Kind("rayfed.population.delay", "rayfed.population.delay.base:Delay"),
    "availability": Kind(
        "rayfed.population.availability", "rayfed.population.availability.base:Availability"
    ),
    "stages": Kind("rayfed.channel", "rayfed.channel.base:Stage"),
    "memories": Kind("rayfed.channel.memory", "rayfed.channel.base:Memory"),
    "aggregators": Kind("rayfed.channel.aggregators", "rayfed.channel.aggregators:Aggregator"),
    "mixers": Kind("rayfed.channel.mixers", "rayfed.channel.mixers:Mixer"),
    "faults": Kind("rayfed.channel.faults", "rayfed.channel.faults:Fault"),
    "measures": Kind("rayfed.measures", "rayfed.measures.base:Measure"),
    "selections": Kind("rayfed.selection", "rayfed.selection.base:Selection"),
    "topologies": Kind("rayfed.topology", "rayfed.topology.base:Topology"),
    "mobilities": Kind("rayfed.topology.mobility", "rayfed.topology.mobility:Mobility"),
    "walks": Kind("rayfed.topology.walks", "rayfed.topology.walks.metropolis:Walk"),
}
"""The kinds that scenarios are made of."""
ALL_KINDS = KINDS | {"panels": Kind("rayfed.report.panels", "rayfed.report.panels.base:Panel")}
"""With panels of the page, which no scenario and no result folder names."""

_SINGULAR = {
    "availability": "availability",
    "memories": "memory",
    "mobilities": "mobility",
    "staleness": "staleness",
    "topologies": "topology",
}
OTHER_NAMES = {
    ("algorithms", "fedopt"): "fedadam, fedyogi, fedadagrad and fedavgm are of this family",
    ("algorithms", "fedsgd"): "it is fedavg with local: {steps: 1, batch: full}",
    ("algorithms", "localsgd"): "it is fedavg",
    ("algorithms", "powd"): "it is participation.select: power-of-d",
    ("algorithms", "powerofchoice"): "it is participation.select: power-of-d",
    ("partitions", "lda"): "it is dirichlet",
    ("partitions", "noniid"): "give dirichlet, labels or shards",
    ("partitions", "pathological"): "it is shards",
    ("selections", "powd"): "it is power-of-d",
    ("selections", "powerofchoice"): "it is power-of-d",
    ("selections", "random"): "it is uniform",
}
"""What the literature calls what has another name here, by kind, in letters and digits alone."""
_DECLARED = re.compile(r'^class (?P<cls>\w+)|^    name: ClassVar\[str\] = "(?P<name>[^"]+)"', re.M)
_NAMELESS: dict[str, tuple[Any, ...]] = {}
"""Classes and functions that no import finds, by the names that studies have for them."""
_MODELS = "rayfed.problems.network.models"
"""Folder of the networks that the problem ``network`` names; they are no plug-ins."""


def load(path: str) -> Any:
    """Return the object that ``package.module:Name`` names.

    Raises
    ------
    ScenarioError
        If scenarios may not name the module (`rayfed.core.own`), it or the name does not exist, or
        the import raises an error; the message names the lines of the user's files.
    """
    module, _, name = path.partition(":")
    if "<" in name:  # of a lambda, or of what a function defined
        known = _NAMELESS.get(path, ())
        if len(known) == 1:
            return known[0]
        text = "cannot be found by its name; define it at the top of a module or notebook"
        raise ScenarioError(clipped(path, 60), text)
    own.admit(path)
    try:
        return getattr(importlib.import_module(module), name)
    except ModuleNotFoundError as error:
        text = f"no module '{error.name}'{places(error)}; is it on the path?"
        raise ScenarioError(path, text) from error
    except AttributeError as error:
        if module in sys.modules:  # the module was imported, so the name is missing
            text = f"module '{module}' has no '{name}'{_others(module, name)}"
            if module == "__main__":
                text = f"'{name}' was of a script or notebook; define it again, or use a module"
            raise ScenarioError(path, text) from error
        raise ScenarioError(path, f"cannot be imported: {raised(error)}") from error
    except (Exception, SystemExit) as error:  # user code may raise anything
        raise ScenarioError(path, f"cannot be imported: {raised(error)}") from error


def load_function(path: str) -> Any:
    """Return the function that ``package.module:name`` names; other objects are not called.

    Raises
    ------
    ScenarioError
        If there is none, or the module has only imported it.
    """
    found = load(path)
    if not isinstance(found, FunctionType):
        raise ScenarioError(clipped(path, 60), "is no function; give one of outputs and targets")
    if not own.is_defined(path, found) or path.startswith("rayfed."):
        text = f"was only imported there, from '{found.__module__}'"
        raise ScenarioError(clipped(path, 60), f"{text}; define a function of outputs and targets")
    return found


def raised(error: BaseException) -> str:
    """Return an exception from user code as one line, with the lines of the user's files."""
    kind = "" if isinstance(error, RayfedError) else f"{type(error).__name__}: "
    line = clipped(f"{kind}{error}".rstrip(": "), 140)
    hint = advice(error)
    if isinstance(error, SyntaxError) and error.filename:
        line = clipped(f"SyntaxError: {error.msg}", 140)
        return f"{line} ({_at(error.filename, error.lineno)})"
    return f"{line}{hint}{places(error)}"


def ends_process(error: BaseException) -> bool:
    """Return whether an error ends the process, and is no failure of the code that it comes from.

    So do Ctrl-C, the end of a generator, and what a handler of a signal raises, as those of Ray and
    of batch jobs raise SystemExit. Another SystemExit is a mistake of the code that was called.
    """
    if isinstance(error, Exception):
        return False
    handlers = (signal.getsignal(number) for number in signal.valid_signals())
    codes = [code for code in (getattr(each, "__code__", None) for each in handlers) if code]
    frames = (frame for frame, _ in traceback.walk_tb(error.__traceback__))
    return isinstance(error, KeyboardInterrupt | GeneratorExit) or any(
        frame.f_code in codes for frame in frames
    )


def advice(error: BaseException) -> str:
    """Return the remedy of a common error of user code, ``; do this``, or ""."""
    text = str(error)
    if "non-frozen dataclass" in text:
        return "; add frozen=True to its @dataclass"
    if isinstance(error, ValueError) and "read-only" in text:
        return "; states and what clients are sent are not changed in place: write x = x + step"
    return ""


def places(error: BaseException) -> str:
    """Return the last lines of the user's files in a traceback, `` (a.py:3 <- b.py:1)``, or ""."""
    where = " <- ".join(_at(f.filename, f.lineno) for f in reversed(users_frames(error)[-3:]))
    return f" ({where})" if where else ""


def users_frames(error: BaseException) -> list[traceback.FrameSummary]:
    """Return the frames of a traceback that lie in the user's files."""
    frames = traceback.extract_tb(error.__traceback__)
    return [frame for frame in frames if is_users(frame.filename)]


def defined_at(function: Any) -> str:
    """Return the file and line of a function or method of the user's; empty if it is not theirs."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    if code is None or not is_users(code.co_filename):
        return ""
    return _at(code.co_filename, code.co_firstlineno)


def _at(filename: str, line: int | None) -> str:
    return clipped(f"{Path(filename).name}:{line}", 60)


def _others(module: str, name: str, parent: type[Any] | None = None) -> str:
    """Return a hint at the classes that a module defines and that extend `parent`.

    Without a parent all of its classes and functions.
    """
    defined = [
        key
        for key, item in vars(sys.modules[module]).items()
        if isinstance(item, (type, FunctionType)) and item.__module__ == module
        and (parent is None or (isinstance(item, type) and issubclass(item, parent)))
    ]  # fmt: skip
    return f"; {nearest(name, defined)}" if defined else ""


def base(kind: str) -> type[Any]:
    """Return the base class of a kind."""
    cls: type[Any] = load(ALL_KINDS[kind].base)
    return cls


def declared(kind: str) -> tuple[str, ...]:
    """Return the names of the plug-ins of a kind, sorted, without importing anything.

    Examples
    --------
    >>> declared("availability")[:2]
    ('always', 'bernoulli')
    """
    return tuple(_definitions(kind))


@cache
def classes(kind: str) -> dict[str, str]:
    """Return the modules of the classes of a kind, its base class included, by the class's name.

    They are read from the sources, without importing anything.

    Examples
    --------
    >>> classes("partitions")["Dirichlet"]
    'rayfed.datasets.partitions.classes'
    """
    module, _, parent = ALL_KINDS[kind].base.partition(":")
    return dict(sorted([*_definitions(kind).values(), (parent, module)]))


def packaged(package: str) -> dict[str, str]:
    """Return the modules of all plug-in classes of a package of rayfed, by class name.

    Examples
    --------
    >>> packaged("rayfed.population")["Cyclic"]
    'rayfed.population.availability.cyclic'
    """
    kinds = (kind for kind in ALL_KINDS if f"{ALL_KINDS[kind].home}.".startswith(f"{package}."))
    return {cls: module for kind in kinds for cls, module in classes(kind).items()}


def lazy(package: str) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return ``__getattr__`` and ``__dir__`` of a package, which import its plug-ins on first use.

    New files in the folders of the kinds are included.
    """
    held = vars(sys.modules[package])

    def get(name: str) -> Any:
        if name[:1].isupper() and name in (found := packaged(package)):
            return getattr(importlib.import_module(found[name]), name)
        raise AttributeError(unknown(f"class of {package}", name, packaged(package)))

    return get, lambda: sorted({*packaged(package), *held.get("__all__", ())})


@cache
def _definitions(kind: str) -> dict[str, tuple[str, str]]:
    """Return class and module of the plug-ins of a kind by name, as their sources declare them.

    Nothing is imported for it: the files of a kind take up to half a second together.
    """
    root = Path(__file__).resolve().parents[2]
    homes = {each.home: root / each.home.replace(".", "/") for each in ALL_KINDS.values()}
    others = {root / _MODELS.replace(".", "/"), *homes.values()}
    home = homes[ALL_KINDS[kind].home]
    found = {}
    file = home.with_suffix(".py")  # a folder next to it may be left by a checkout
    for path in [file] if file.is_file() else _sources(home, others):
        module = ".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__")
        cls = ""
        for match in _DECLARED.finditer(path.read_text(encoding="utf-8")):
            cls = match["cls"] or cls
            if match["name"]:
                found[match["name"]] = cls, module
    return dict(sorted(found.items()))


def _sources(folder: Path, others: Set[Path]) -> Iterator[Path]:
    """Yield the Python files of a folder and of those in it, but of the other ones."""
    for path in sorted(folder.iterdir()):
        if path.with_suffix("") in others:
            continue
        if path.is_dir():
            yield from _sources(path, others)
        elif path.suffix == ".py":
            yield path


def settings(plugin: Any) -> list[Field[Any]]:
    """Return the fields of a plug-in class or value that scenario files set under its name."""
    return [field for field in fields(plugin) if field.init and PLACE not in field.metadata]


@cache
def find(kind: str) -> dict[str, type[Any]]:
    """Return every plug-in of a kind by name, sorted.

    Examples
    --------
    >>> list(find("availability"))[:2]
    ['always', 'bernoulli']
    """
    return {name: resolve(kind, name) for name in declared(kind)}


def resolve(kind: str, name: str) -> type[Any]:
    """Return the plug-in class for a name or for ``package.module:Class``.

    Raises
    ------
    ScenarioError
        If there is none; the message names the most similar one.
    """
    if ":" in name:
        item = load(name)
        if not (isinstance(item, type) and issubclass(item, base(kind))):
            module, _, wanted = name.partition(":")
            others = _others(module, wanted, base(kind))
            raise ScenarioError(name, f"is not a subclass of {base(kind).__name__}{others}")
        _check_decorated(name, item)
        return item
    if name not in _definitions(kind):
        raise ScenarioError("", _unknown(kind, name))
    cls, module = _definitions(kind)[name]
    found: type[Any] = getattr(importlib.import_module(module), cls)
    return found


def _unknown(kind: str, name: str) -> str:
    """Return the message for a name that a kind lacks; it may be of another kind."""
    what = f"unknown {singular(kind)} '{clipped(name, 40)}'"
    plain = "".join(filter(str.isalnum, name.lower()))
    if (kind, plain) in OTHER_NAMES:
        return f"{what}; {OTHER_NAMES[kind, plain]}"
    others = [other for other in KINDS if other != kind and name in declared(other)]
    if others:
        return f"{what}; it is of another kind: {', '.join(map(singular, others))}"
    return unknown(singular(kind), name, declared(kind))


def singular(kind: str) -> str:
    """Return the singular name of a kind."""
    return _SINGULAR.get(kind, kind[:-1]).replace("_", " ")


def _check_decorated(name: str, cls: type[Any]) -> None:
    """Refuse settings that are ignored, since the class is no dataclass, or have no type."""
    annotations = inspect.get_annotations(cls)
    settings = [key for key, hint in annotations.items() if "ClassVar" not in str(hint)]
    if settings and "__dataclass_fields__" not in vars(cls):
        text = f"has the setting '{settings[0]}' but is no dataclass"
        raise ScenarioError(name, f"{text}; add @dataclass(frozen=True, kw_only=True)")
    try:
        get_type_hints(cls)
    except (NameError, AttributeError, SyntaxError) as error:
        text = f"a setting has a type that cannot be found: {error}"
        raise ScenarioError(name, f"{text}; import it in {cls.__module__}") from error


def name_of(plugin: Any) -> str:
    """Return the name that `resolve` maps to a plug-in, given as a class or an instance.

    A function has the name that `load` maps to it, if it is not in a function itself: such ones
    are found again in this process, as long as there is one of a name.
    """
    cls: Any = plugin if isinstance(plugin, NAMED) else type(plugin)
    if isinstance(cls, type) and cls.__module__.startswith("rayfed."):
        return str(plugin.name)
    path = f"{cls.__module__}:{cls.__qualname__}"
    if "<" in path:
        _NAMELESS[path] = tuple({*_NAMELESS.get(path, ()), cls})
    return path
