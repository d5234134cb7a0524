"""Commands for users' plug-ins: `test` checks one, `init` starts one."""

from __future__ import annotations

import json
import keyword
import shlex
import sys
import tempfile
import traceback
from collections.abc import Callable, Mapping
from functools import partial, update_wrapper, wraps
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import typer

from rayfed.cli.console import err, say
from rayfed.core.errors import RayfedError, ScenarioError, clipped, under
from rayfed.core.plugins import ALL_KINDS, base, find, load, places

_ADVISORY = ("check_paper", "check_documented")
"""Checks of how plug-ins of rayfed are written; of a user's they are advice."""
Name: TypeAlias = str | None


def test(
    plugin: Annotated[
        str,
        typer.Argument(
            metavar="MODULE:CLASS",
            help="A class of yours, such as mine:SignAvg in mine.py; or own training code, as a "
            "module or a scenario file.",
        ),
    ],
) -> None:
    """Check an algorithm, a problem, a delay or another plug-in of your own.

    These are the checks that rayfed's own plug-ins pass: an algorithm runs on small problems in
    stacks of 1 and 7 clients with the same bits, is stopped and resumed, learns, changes nothing
    in place and sends what it declares; gradients of a problem agree with differences; draws depend
    on the seed alone. Of own training code the functions of three clients are called twice, in
    another order, and in a fresh process: they must return the same bytes.

    Exit status: 0 if all pass, 1 if one does not, 2 if there is no such class.
    """
    from rayfed.testing.checks import Skipped

    failed = 0
    for name, check in _checks(plugin).items():
        words = name.removeprefix("check_").replace("_", " ")
        about = clipped((check.__doc__ or "").partition("\n")[0].removeprefix("Check "), 90)
        with tempfile.TemporaryDirectory() as folder:
            try:
                check(Path(folder))
            except Skipped as reason:
                say(f"  left out  {words}: {reason}")
            except Exception as error:
                advice = name in _ADVISORY
                say(f"  {'advice ' if advice else 'FAILED '}   {words}: {about}")
                say(f"            {_reason(error)}", err, style="yellow" if advice else "red")
                failed += not advice
            else:
                say(f"  ok        {words}: {about}")
    say(f"{plugin}: {failed} checks failed" if failed else f"{plugin}: all checks passed")
    raise typer.Exit(1 if failed else 0)


def _checks(plugin: str) -> Mapping[str, Callable[[Path], None]]:
    """Return the checks of a plug-in class, or of own training code, as functions of a folder."""
    if ":" not in plugin:
        from rayfed.testing import own_run

        return {name: _without_folder(check) for name, check in own_run.checks(plugin).items()}
    from rayfed.testing.checks import checks

    cls = load(plugin)
    found = checks(_kind(plugin, cls))
    return {name: update_wrapper(partial(check, cls), check) for name, check in found.items()}


def _without_folder(check: Callable[[], None]) -> Callable[[Path], None]:
    """Return a check that ignores its folder."""
    return wraps(check)(lambda folder: check())


def _kind(plugin: str, cls: Any) -> str:
    """Return the kind of a plug-in class."""
    kinds = [kind for kind in ALL_KINDS if isinstance(cls, type) and issubclass(cls, base(kind))]
    if not kinds:
        bases = ", ".join(base(kind).__name__ for kind in ALL_KINDS)
        raise ScenarioError(plugin, f"is no subclass of one of {bases}")
    return kinds[0]


def _reason(error: Exception) -> str:
    """Return the result of a check in one line, with the user's lines of a traceback."""
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
    client: Annotated[Name, _own("training code of your own, in PyTorch")] = None,
) -> None:
    """Write a commented scenario, and custom plug-ins next to it, each with a test.

    The files run as they are: rayfed run scenario.yaml. Existing files are not overwritten.
    """
    given = {
        "algorithm": algorithm, "problem": problem, "dataset": dataset, "partition": partition,
        "delay": delay, "selection": selection, "measure": measure, "panel": panel, "codec": codec,
        "rule": rule, "fault": fault, "client": client,
    }  # fmt: skip
    names = {kind: _checked(kind, name) for kind, name in given.items() if name is not None}
    modules = [_module(name) for name in names.values()]
    if len(set(modules)) < len(modules):
        first = next(kind for kind in names if modules.count(_module(names[kind])) > 1)
        raise ScenarioError(f"--{first}", "two files would have one name; give different names")
    replaced = {"problem", "dataset", "partition"} & names.keys()
    if client is not None and replaced:
        text = f"brings a model and data of its own; leave --{min(replaced)} out"
        raise ScenarioError("--client", text)
    files = _files(folder, names)
    _write(folder, files)
    for file in files:
        say(f"wrote {folder / file}")
    say(f"run it by: rayfed run {shlex.quote(str(folder / 'scenario.yaml'))}")
    for kind, name in names.items():
        tested = "scenario.yaml" if kind == "client" else _named(name)
        say(f"check yours by: rayfed test {tested}  (in {folder})")
    if "panel" in names:
        say(f"see yours by: rayfed report DIR --panel {_named(names['panel'])}  (in {folder})")


def _write(folder: Path, files: Mapping[str, str]) -> None:
    """Write files, unless one of them exists."""
    for file in files:
        if (folder / file).exists():
            raise ScenarioError(str(folder / file), "already exists; choose another folder")
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
    """Return the names of a kind among those of plug-ins."""
    return {"codec": "stages", "rule": "aggregators", "client": "problems"}.get(kind, f"{kind}s")


def _module(name: str) -> str:
    return name.replace("-", "_").lower()


def _class(name: str) -> str:
    return "".join(part[:1].upper() + part[1:] for part in _module(name).split("_"))


def _named(name: str) -> str:
    """Return the name of a plug-in in scenarios and commands."""
    return f"{_module(name)}:{_class(name)}"


def _filled(starter: str, **words: Any) -> str:
    """Return a starter with words in their places."""
    from jinja2 import Environment, PackageLoader

    starters = Environment(
        loader=PackageLoader("rayfed.cli", "starters"),
        keep_trailing_newline=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return starters.get_template(f"{starter}.txt").render(words)


def _files(folder: Path, names: Mapping[str, str]) -> dict[str, str]:
    """Return a scenario, and for each plug-in of the user's a file and one with its test."""
    study = _module(folder.resolve().name) if folder.resolve().name else "study"
    own = {kind: f'"{_named(name)}"' for kind, name in names.items() if kind != "client"}
    own |= {kind: _module(name) for kind, name in names.items() if kind == "client"}
    files = {"scenario.yaml": _filled("scenario.yaml", study=study, **own)}
    for kind, name in names.items():
        module, numbers = _module(name), "problem" in names
        words = {"name": name, "module": module, "Class": _class(name), "numbers": numbers}
        words["kinds"] = _kinds(kind)
        files[f"{module}.py"] = _filled(f"{kind}.py", **words)
        sound = "" if kind == "client" else "\n\n" + _filled("sound.py", **words)
        files[f"test_{module}.py"] = _filled(f"test_{kind}.py", **words) + sound
    return files


def flower_scenario(folder: Path) -> Path:
    """Return the scenario of a Flower app, which is written if its folder has none.

    Parameters
    ----------
    folder : Path
        With the pyproject.toml of the app.

    Raises
    ------
    ScenarioError
        If it is not the folder of an app.
    """
    from rayfed.problems.flower.problem import read_project

    path, place = folder / "scenario.yaml", "--flower"
    if path.exists():
        return path
    if not (folder / "pyproject.toml").is_file():
        raise ScenarioError(place, f"{folder} has no pyproject.toml; give the folder of an app")
    with under(place):
        project = read_project(folder / "pyproject.toml")
    components, config = project.get("components"), project.get("config")
    app = components.get("clientapp") if isinstance(components, Mapping) else None
    if not isinstance(app, str):
        text = "pyproject.toml names no clientapp under [tool.flwr.app.components]"
        raise ScenarioError(place, f"{text}; give the folder of an app")

    def setting(name: str, usual: int) -> int:
        value = config.get(name) if isinstance(config, Mapping) else None
        return value if isinstance(value, int) and value > 0 else usual

    words = {
        "file": path.name, "name": json.dumps(_module(folder.resolve().name) or "flower"),
        "app": json.dumps(app), "rounds": setting("num-server-rounds", 10),
        "epochs": setting("local-epochs", 1), "batch": setting("batch-size", 32),
    }  # fmt: skip
    _write(folder, {path.name: _filled("flower.yaml", **words)})
    say(f"wrote {path}; check its numbers of clients and steps")
    return path
