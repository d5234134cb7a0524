"""The command `init`: a first scenario, and plug-ins of one's own to begin with."""

from __future__ import annotations

import keyword
import shlex
import sys
from pathlib import Path
from string import Template
from typing import Annotated

import typer

from rayfed.cli.console import say
from rayfed.core.errors import ScenarioError
from rayfed.core.plugins import find

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
_UPLINK = "# What uploads go through, in place of travelling as they are.\nuplink: [CODEC]\n\n"
_IID = "# How the rows go to clients.\npartition: iid\n\n"


def init(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="Where the files go; here if not given.")
    ] = Path(),
    algorithm: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Also an algorithm of your own, such as sign-avg."),
    ] = None,
    problem: Annotated[
        str | None, typer.Option(metavar="NAME", help="Also a problem of your own.")
    ] = None,
    dataset: Annotated[
        str | None, typer.Option(metavar="NAME", help="Also a data set of your own.")
    ] = None,
    codec: Annotated[
        str | None, typer.Option(metavar="NAME", help="Also a codec of uploads of your own.")
    ] = None,
) -> None:
    """Write a commented scenario, and plug-ins of your own beside it, each with a test.

    What is written runs as it is: rayfed run scenario.yaml. Files that are there are kept.
    """
    given = {"algorithm": algorithm, "problem": problem, "dataset": dataset, "codec": codec}
    names = {kind: _checked(kind, name) for kind, name in given.items() if name is not None}
    modules = [_module(name) for name in names.values()]
    if len(set(modules)) < len(modules):
        raise ScenarioError("--algorithm", "two files would have one name; give different names")
    files = {"scenario.yaml": _scenario(folder, names)}
    for kind, name in names.items():
        files |= _plugin(kind, name, numbers="problem" in names)
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
    for file in files:
        say(f"wrote {folder / file}")
    say(f"run it by: rayfed run {shlex.quote(str(folder / 'scenario.yaml'))}")
    for name in names.values():
        say(f"check yours by: rayfed test {_module(name)}:{_class(name)}  (in {folder})")


def _checked(kind: str, name: str) -> str:
    """Return a name that a file, a class and a plug-in may have."""
    module = _module(name)
    if not module.isidentifier() or keyword.iskeyword(module) or not module.isascii():
        raise ScenarioError(f"--{kind}", f"found '{name}'; give a word such as my-{kind}")
    if module in sys.stdlib_module_names or module in ("rayfed", "numpy", "pandas", "torch"):
        raise ScenarioError(f"--{kind}", f"'{module}' is the name of a library; give another one")
    if name in find("stages" if kind == "codec" else f"{kind}s"):
        raise ScenarioError(f"--{kind}", f"'{name}' comes with rayfed; give another name")
    return name


def _module(name: str) -> str:
    return name.replace("-", "_").lower()


def _class(name: str) -> str:
    return "".join(part[:1].upper() + part[1:] for part in _module(name).split("_"))


def _scenario(folder: Path, names: dict[str, str]) -> str:
    """Return the scenario, with the user's plug-ins where there are any."""
    own = {kind: f'"{_module(name)}:{_class(name)}"' for kind, name in names.items()}
    numbers = "problem" in own
    data = "{name: line, samples: 1000}" if numbers else "mushroom"
    return _filled(
        "scenario.yaml",
        study=_module(folder.resolve().name) if folder.resolve().name else "study",
        problem=own.get("problem", "logistic-regression"),
        dataset=own.get("dataset", data),
        partition=_IID if numbers else _PARTITION,
        algorithm=own.get("algorithm", "fedexp"),
        uplink=_UPLINK.replace("CODEC", own["codec"]) if "codec" in own else "",
    )


def _plugin(kind: str, name: str, *, numbers: bool) -> dict[str, str]:
    """Return a file with a plug-in and one with its test, by file name."""
    what, table = _ROWS["numbers" if numbers else "labels"]
    words = {
        "Class": _class(name), "module": _module(name), "name": name, "what": what, "table": table,
    }  # fmt: skip
    return {
        f"{_module(name)}.py": _filled(f"{kind}.py", **words),
        f"test_{_module(name)}.py": _filled(f"test_{kind}.py", **words),
    }


def _filled(starter: str, **words: str) -> str:
    text = (_STARTERS / f"{starter}.txt").read_text(encoding="utf-8")
    return Template(text).substitute(words)
