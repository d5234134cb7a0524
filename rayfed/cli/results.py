"""The commands that read result folders: `report`, `best`, `figures`, `compare` and `export`."""

from __future__ import annotations

import shlex
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from rayfed.cli import tables
from rayfed.cli.arguments import Folder, OwnPanels, Trust, local, local_copy, returned
from rayfed.cli.console import err, out, say
from rayfed.core.errors import ScenarioError, listed, many
from rayfed.runs.files.outcome import damaged
from rayfed.runs.files.place import shown


def report(
    folder: Folder,
    panel: OwnPanels,
    target: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN=NUMBER",
            help="Target of the cost comparison, shown first on the page, for example loss=0.05.",
        ),
    ] = None,
    view: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS",
            help="Write what this address of rayfed dashboard DIR shows instead, as one page that "
            "opens as it stood.",
        ),
    ] = None,
    out_: Annotated[
        Path, typer.Option("--out", metavar="PAGE", help="With --view: the page.", parser=local)
    ] = Path("view.html"),
) -> None:
    """Write report.html and summary.csv of a result folder anew.

    Nothing that the folder names is imported; a panel that you name here is.
    """
    if view is not None:
        from rayfed.dashboard.views import save

        say(f"page: {save(view, folder, out_, panel)}")
        return
    from rayfed.api import load
    from rayfed.report.best import Aim
    from rayfed.report.read.results import Results
    from rayfed.runs.progress import watch

    result = load(folder)
    aim = None if target is None else Aim.of(Results.read(folder), None, None, target)
    with returned(folder):
        column, value = (None, None) if aim is None else (aim.column, aim.target)
        with watch(len(result.outcome), err) as display:
            page = result.report(column, value, panel, progress=display.page)
    say(f"page: {page}")
    for line in damaged(folder, result.outcome):
        say(f"warning: {line}; rayfed resume mends it", err, style="yellow")


def best(
    folder: Folder,
    by: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN",
            help="What is compared, such as accuracy. If not given, the first that was recorded of "
            "validation_loss (problem.validation), loss_gap and loss.",
        ),
    ] = None,
    at: Annotated[
        int | None, typer.Option(metavar="ROUND", min=0, help="Compared there; at the end if not.")
    ] = None,
    target: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN=NUMBER",
            help="The fewest rounds to this value are best, for example loss_gap=1e-6.",
        ),
    ] = None,
) -> None:
    """Print the best setting of every algorithm, and write them down as a scenario.

    For a study that sweeps settings by grid: or search:, or lists an algorithm several times.
    Values are means over seeds; a setting of which a run failed never wins. Settings
    that the winner is not better than, seed by seed, are undecided. Test values are printed of
    winners alone, and only where they were chosen by other rows. best.yaml, in the same folder,
    holds the winners and can be run; best.csv the table.

    Exit status: 0, or 1 if every setting of every algorithm failed.
    """
    from rayfed import api

    missing = api.unfinished(folder) if (folder / "scenario.yaml").is_file() else []
    missing = [run for run in missing if not damaged(folder, [run])]  # those have their own line
    if missing:
        again = f"rayfed resume {shlex.quote(shown(folder))}"
        text = f"{many(len(missing), 'run')} unfinished ({listed(missing)}); resume with: {again}"
        say(f"warning: this study is unfinished: {text}", err, style="yellow")
    with returned(folder):
        choice = print_best(folder, by, at, target)
    raise typer.Exit(1 if all(winner.best.failed for winner in choice.winners) else 0)


def print_best(
    folder: Path, by: str | None = None, at: int | None = None, target: str | None = None
) -> Any:
    """Print the best setting of every algorithm, write them down, and return them."""
    from rayfed.report.best import Aim, Best
    from rayfed.report.read.results import Results
    from rayfed.runs.modules import names_modules, untrusted

    results = Results.read(folder)
    for run in results.damaged:
        say(f"warning: {run.folder.name}: {run.info['reason']}", err, style="yellow")
    choice = Best(results, Aim.of(results, by, at, target))
    table, settings = tables.best(choice, out.width)
    out.print(table)
    for line in (*settings, *choice.notes):
        say(line)
    strange = untrusted(folder)
    shorten = dict if names_modules(folder) else _shortened
    for path in choice.write(strange, shorten):
        if not strange:
            say(f"run it by: rayfed run {shlex.quote(str(path))}")
    if strange:
        remedy = "to run best.yaml, copy it and the modules that you have read to a folder of yours"
        say(f"warning: {strange.partition('; read')[0]}; {remedy}", err, style="yellow")
    return choice


def _shortened(scenario: dict[str, Any]) -> dict[str, Any]:
    """Return a scenario without defaults; one that cannot be read any more stays as it is."""
    from rayfed.study.scenario.short import shortened

    with suppress(ScenarioError):
        return shortened(scenario)
    return scenario


def figures(
    folder: Folder,
    for_: Annotated[
        Literal["paper"],
        typer.Option("--for", help="Where they go; sizes and fonts are made for it."),
    ] = "paper",
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", metavar="FOLDER", help="Where to; DIR/paper if not given.", parser=local
        ),
    ] = None,
    what: Annotated[
        list[str] | None,
        typer.Option(
            "--what",
            metavar="FIGURE[:OPTION=VALUE,...]",
            help="A figure, such as convergence:x=time_s,y=accuracy or timeline:name=FedAvg,seed=1,"
            " or table-costs or table-finals. Figures joined by ' + ' are panels of one figure with"
            " one legend. May be repeated. Without, all that the study has.",
        ),
    ] = None,
    font: Annotated[
        str | None,
        typer.Option(
            "--font",
            metavar="FAMILY[:POINTS]",
            help="The font of all figures, such as 'Times New Roman:9'; 8 pt if not given.",
        ),
    ] = None,
) -> None:
    """Write the figures and tables of a result folder for a paper.

    Figures are those of the page, always light, as PDF and SVG: FIGURE-column is 3.3 in wide, for
    a column, and FIGURE-full 7 in, for a page. Texts have the same size in both, so include them
    without scaling. Tables are .tex files for the LaTeX package booktabs: table-costs (what it took
    to reach the target) and table-finals (the values in the end).

    Needs kaleido and Chromium or Chrome; if one is missing, the error gives the command that
    installs it. Nothing is downloaded.
    """
    from rayfed.api import load

    result = load(folder)
    place = folder / for_ if out is None else out
    with (
        returned(folder) if out is None else nullcontext(),
        err.status("drawing; half a second a file"),
    ):
        paths = result.save_figures(place, what or (), font)
    for path in paths:
        say(str(path))


def compare(
    folders: Annotated[
        list[str],
        typer.Argument(metavar="DIR DIR...", help="Result folders or their URLs, two or more."),
    ],
    panel: OwnPanels,
    page: Annotated[
        Path,
        typer.Option("--out", metavar="PAGE", help="The page, such as page.html.", parser=local),
    ] = Path("compare.html"),
) -> None:
    """Write one page over several result folders, and print the comparison.

    The page is that of a study. Runs are labelled by the settings that differ between the folders,
    such as "FedAvg (lr=0.1)", or by the folders' names where many differ; a table at the end lists
    all differences. Runs that differ only in the seed are merged as seeds of one algorithm. If the
    folders differ in data or environment, the page warns and names no winner. Of a sweep the best
    trial of each algorithm is shown.
    """
    from rayfed.report.page.report import compare as write
    from rayfed.report.panels.base import PageSource

    results = write([local_copy(folder) for folder in folders], page, panel)
    out.print(tables.compared(results))
    if results.unlike:
        say(f"warning: {results.unlike}", err, style="yellow")
    else:
        say(PageSource.of(results).answer)
    say(f"page: {page}")


def export(
    folder: Folder,
    to: Annotated[
        Path | None,
        typer.Option(
            "--to",
            metavar="PATH",
            parser=local,
            help="Of a model a file that ends in .safetensors, .npz or .pt. Of the others a folder;"
            " DIR/csv, DIR/tensorboard and so on if not given.",
        ),
    ] = None,
    run_: Annotated[
        str | None,
        typer.Option(
            "--run",
            metavar="RUN",
            help="The run, such as fedavg-seed0. Of a model it is needed if there are several; the "
            "others write all runs without it.",
        ),
    ] = None,
    csv: Annotated[bool, typer.Option("--csv", help="Tables as CSV files.")] = False,
    tensorboard: Annotated[
        bool, typer.Option("--tensorboard", help="Event files; needs the extra tensorboard.")
    ] = False,
    mlflow: Annotated[
        bool, typer.Option("--mlflow", help="A database mlflow.db; needs the extra mlflow.")
    ] = False,
    wandb_offline: Annotated[
        bool,
        typer.Option("--wandb-offline", help="Offline runs for wandb sync; needs the extra wandb."),
    ] = False,
    trust: Trust = False,
) -> None:
    """Write the final model of a run, or the records of the runs for other tools.

    --to model.safetensors writes the parameters by name; of a network it is the state dict, which
    plain PyTorch loads. Layers that stay with the clients are as at the start. A model of a module
    is made by that module; --trust lets it run for a folder that you did not make on this machine.

    --csv, --tensorboard, --mlflow and --wandb-offline write the columns of the rounds with all
    settings, a run for each run; their relative time is simulated time where they accept times.
    Several may be given.
    """
    from rayfed.api import load

    given = {"csv": csv, "tensorboard": tensorboard, "mlflow": mlflow}
    asked = [name for name, wanted in (given | {"wandb-offline": wandb_offline}).items() if wanted]
    if to is None and not asked:
        text = "say what: --to model.safetensors, --csv, --tensorboard, --mlflow or --wandb-offline"
        raise ScenarioError("", text)
    if to is not None and len(asked) > 1:
        raise ScenarioError("--to", "is for one of them; give it once for each, or leave it out")
    result = load(folder)
    if not asked and to is not None:
        result.export(to, run_, trust=trust)
        say(f"model: {to}")
    with returned(folder) if to is None else nullcontext():
        for name in asked:
            place = folder / name if to is None else to
            then = result.export_runs(name, place, run_)
            say(f"{name}: {place}")
            say(f"  {then}")
