"""Commands for what users write themselves: `test` checks it, `init` begins it."""

from __future__ import annotations

import keyword
import shlex
import sys
import tempfile
import traceback
from collections.abc import Mapping
from pathlib import Path
from string import Template
from typing import Annotated, Any, TypeAlias

import typer

from rayfed.cli.console import err, say
from rayfed.core.errors import RayfedError, ScenarioError, clipped
from rayfed.core.plugins import ALL_KINDS, base, find, load, places

_OUR_OWN = ("check_paper", "check_documented")
"""Checks of how plug-ins of rayfed are written; of a user's they are advice."""
_STARTERS = Path(__file__).parent / "starters"
_ROWS = {
    "labels": (
        "Rows of two classes",
        "        return Table(X, (score > 0).astype(np.int64), classes=2)",
    ),
    "numbers": ("Rows with numbers to predict", "        return Table(X, score)"),
}
_PARTITION = (
    "# How the rows go to clients: few clients hold most of a class if alpha is small.\n"
    "partition: {name: dirichlet, alpha: 0.3}\n\n"
)
_DELAY = "{name: lognormal, mean_s: 1.0, sigma: 0.5}"
_UPLINK = "# What uploads go through, in place of travelling as they are.\nuplink: [CODEC]\n\n"
_FAULTS = "\n  faults: [{name: FAULT, count: 2}]     # who sends something else"
_IID = "# How the rows go to clients.\npartition: iid\n\n"
_QUICK = '["check_bits", "check_state"]'  # the others take a minute
_ALL = '[n for n in checks("$kinds") if n not in ("check_paper", "check_documented")]'
Name: TypeAlias = str | None


def test(
    plugin: Annotated[
        str,
        typer.Argument(
            metavar="MODULE:CLASS", help="A class of yours, such as mine:SignAvg in mine.py."
        ),
    ],
) -> None:
    """Check an algorithm, a problem, a delay or another plug-in of your own.

    These are the checks that rayfed's own plug-ins pass: an algorithm runs on small problems in
    stacks of 1 and 7 clients with the same bits, is stopped and resumed, learns, changes nothing
    in place and sends what it declares; gradients of a problem agree with differences; draws depend
    on the seed alone.

    Exit status: 0 if all pass, 1 if one does not, 2 if there is no such class.
    """
    from rayfed.testing.checks import Skipped, checks

    cls = load(plugin)
    kind = _kind(plugin, cls)
    failed = 0
    for name, check in checks(kind).items():
        words = name.removeprefix("check_").replace("_", " ")
        about = clipped((check.__doc__ or "").partition("\n")[0].removeprefix("Check "), 90)
        with tempfile.TemporaryDirectory() as folder:
            try:
                check(cls, Path(folder))
            except Skipped as reason:
                say(f"  left out  {words}: {reason}")
            except Exception as error:
                advice = name in _OUR_OWN
                say(f"  {'advice ' if advice else 'FAILED '}   {words}: {about}")
                say(f"            {_reason(error)}", err, style="yellow" if advice else "red")
                failed += not advice
            else:
                say(f"  ok        {words}: {about}")
    say(f"{plugin}: {failed} checks failed" if failed else f"{plugin}: all checks passed")
    raise typer.Exit(1 if failed else 0)


def _kind(plugin: str, cls: Any) -> str:
    """Return the kind of a plug-in class."""
    kinds = [kind for kind in ALL_KINDS if isinstance(cls, type) and issubclass(cls, base(kind))]
    if not kinds:
        bases = ", ".join(base(kind).__name__ for kind in ALL_KINDS)
        raise ScenarioError(plugin, f"is no subclass of one of {bases}")
    return kinds[0]


def _reason(error: Exception) -> str:
    """Return what a check found in one line, with the user's lines where their code raised."""
    if isinstance(error, (AssertionError, RayfedError)):
        return clipped(error)
    line = traceback.format_exception_only(error)[-1].strip()
    return clipped(line, 300) + places(error)


def _own(what: str) -> Any:
    return typer.Option(metavar="NAME", help=f"Also {what}.")


def init(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="Where the files go; here if not given.")
    ] = Path(),
    algorithm: Annotated[Name, _own("an algorithm of your own, such as averaged")] = None,
    problem: Annotated[Name, _own("a problem of your own")] = None,
    dataset: Annotated[Name, _own("a data set of your own")] = None,
    partition: Annotated[Name, _own("a partition of rows of your own")] = None,
    delay: Annotated[Name, _own("a distribution of delays of your own")] = None,
    selection: Annotated[Name, _own("a selection of cohorts of your own")] = None,
    measure: Annotated[Name, _own("a measure of your own")] = None,
    panel: Annotated[Name, _own("a panel of the page of your own")] = None,
    codec: Annotated[Name, _own("a codec of uploads of your own")] = None,
    rule: Annotated[Name, _own("a rule in place of means of your own")] = None,
    fault: Annotated[Name, _own("a fault of clients of your own")] = None,
) -> None:
    """Write a commented scenario, and plug-ins of your own beside it, each with a test.

    What is written runs as it is: rayfed run scenario.yaml. Files that are there are kept.
    """
    given = {
        "algorithm": algorithm, "problem": problem, "dataset": dataset, "partition": partition,
        "delay": delay, "selection": selection, "measure": measure, "panel": panel, "codec": codec,
        "rule": rule, "fault": fault,
    }  # fmt: skip
    names = {kind: _checked(kind, name) for kind, name in given.items() if name is not None}
    modules = [_module(name) for name in names.values()]
    if len(set(modules)) < len(modules):
        first = next(kind for kind in names if modules.count(_module(names[kind])) > 1)
        raise ScenarioError(f"--{first}", "two files would have one name; give different names")
    files = {"scenario.yaml": _scenario(folder, names)}
    for kind, name in names.items():
        files |= _plugin(kind, name, numbers="problem" in names)
    _write(folder, files)
    for file in files:
        say(f"wrote {folder / file}")
    say(f"run it by: rayfed run {shlex.quote(str(folder / 'scenario.yaml'))}")
    for name in names.values():
        say(f"check yours by: rayfed test {_named(name)}  (in {folder})")
    if "panel" in names:
        say(f"see yours by: rayfed report DIR --panel {_named(names['panel'])}  (in {folder})")


def _write(folder: Path, files: Mapping[str, str]) -> None:
    """Write files, unless one of them is there."""
    for file in files:
        if (folder / file).exists():
            raise ScenarioError(str(folder / file), "is there already; name another folder")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for file, text in files.items():
            (folder / file).write_text(text, encoding="utf-8")
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        raise ScenarioError(str(folder), f"cannot be written ({why})") from error


def _checked(kind: str, name: str) -> str:
    """Return a name that a file, a class and a plug-in may have."""
    module = _module(name)
    if not module.isidentifier() or keyword.iskeyword(module) or not module.isascii():
        raise ScenarioError(f"--{kind}", f"found '{name}'; give a word such as my-{kind}")
    if module in sys.stdlib_module_names or module in ("rayfed", "numpy", "pandas", "torch"):
        raise ScenarioError(f"--{kind}", f"'{module}' is the name of a library; give another one")
    if name in find(_kinds(kind)):
        raise ScenarioError(f"--{kind}", f"'{name}' comes with rayfed; give another name")
    return name


def _kinds(kind: str) -> str:
    """Return what a kind is called among those of plug-ins."""
    return {"codec": "stages", "rule": "aggregators"}.get(kind, f"{kind}s")


def _module(name: str) -> str:
    return name.replace("-", "_").lower()


def _class(name: str) -> str:
    return "".join(part[:1].upper() + part[1:] for part in _module(name).split("_"))


def _named(name: str) -> str:
    """Return what scenarios and commands call a plug-in."""
    return f"{_module(name)}:{_class(name)}"


def _scenario(folder: Path, names: dict[str, str]) -> str:
    """Return the scenario, with the user's plug-ins where there are any."""
    own = {kind: f'"{_named(name)}"' for kind, name in names.items()}
    numbers = "problem" in own
    partition = _IID if numbers else _PARTITION
    if "partition" in own:
        partition = f"# How the rows go to clients.\npartition: {own['partition']}\n\n"
    selection, measure = own.get("selection"), own.get("measure")
    delay = f"{{name: {own['delay']}, mean_s: 1.0}}" if "delay" in own else _DELAY
    data = "{name: line, samples: 1000}" if numbers else "mushroom"
    return _filled(
        "scenario.yaml",
        study=_module(folder.resolve().name) if folder.resolve().name else "study",
        problem=own.get("problem", "logistic-regression"),
        dataset=own.get("dataset", data),
        partition=partition,
        delay=delay,
        select=f"\n  select: {selection}" if selection else "",
        measures=f"# What evaluated rows say.\nevaluate:\n  measures: [{measure}]\n\n"
        if measure
        else "",
        algorithm=own.get("algorithm", "fedexp"),
        rule=f"weights: uniform, aggregate: {own['rule']}, " if "rule" in own else "",
        faults=_FAULTS.replace("FAULT", own["fault"]) if "fault" in own else "",
        uplink=_UPLINK.replace("CODEC", own["codec"]) if "codec" in own else "",
    )


def _plugin(kind: str, name: str, *, numbers: bool) -> dict[str, str]:
    """Return a file with a plug-in and one with its test, by file name."""
    what, table = _ROWS["numbers" if numbers else "labels"]
    words = {
        "Class": _class(name), "module": _module(name), "name": name, "what": what, "table": table,
    }  # fmt: skip
    kinds = _kinds(kind)
    checked = _QUICK if kind == "algorithm" else Template(_ALL).substitute(kinds=kinds)
    sound = _filled("sound.py", Class=_class(name), kinds=kinds, checked=checked)
    return {
        f"{_module(name)}.py": _filled(f"{kind}.py", **words),
        f"test_{_module(name)}.py": _filled(f"test_{kind}.py", **words) + "\n\n" + sound,
    }


def _filled(starter: str, **words: str) -> str:
    text = (_STARTERS / f"{starter}.txt").read_text(encoding="utf-8")
    return Template(text).substitute(words)
