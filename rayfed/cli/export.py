"""The command `export`: a final model, or what the runs recorded, for other tools."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import Annotated

import typer

from rayfed.cli.arguments import Folder, Trust, local, returned
from rayfed.cli.console import say
from rayfed.core.errors import ScenarioError


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
    """Write the final model of a run, or what the runs recorded for other tools.

    --to model.safetensors writes the parameters by name; of a network it is the state dict, which
    plain PyTorch loads. Layers that stay with the clients are as at the start. A model of a module
    is made by that module; --trust lets it run for a folder that you did not make on this machine.

    --csv, --tensorboard, --mlflow and --wandb-offline write the columns of the rounds with all
    settings, a run for each run; what these tools call relative time is simulated time where they
    take times. Several may be given.
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
