"""Digest what small scenarios record, so that two commits can be compared value by value.

A change that should leave every result as it was is checked so::

    PYTHONPATH=path/of/the/old/commit python scripts/digests.py > before.txt
    PYTHONPATH=path/of/the/new/commit python scripts/digests.py --against before.txt

Each run has one line: ``scenario/way/run``, then a digest for each of its tables and arrays. The
digests are of values, not of files: the order of columns, compression, the encoding of texts and
metadata do not enter. What is in a table does, names and types of columns included. No column
depends on wall-clock time.

The scenarios are in ``digests.yaml``. Some also run on Ray, and one is killed with signal 9 in
every run and resumed; these must agree with the serial run that nothing disturbed. Only the public
interface is used: `rayfed.run`, the command ``rayfed`` and the files of a result folder.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import yaml

import rayfed

TABLES = ("rounds", "events", "clients", "away", "personal")
ARRAYS = ("model", "walk", "fit")
SCENARIOS = Path(__file__).with_suffix(".yaml")
WAYS: dict[str, Any] = {
    "serial": "serial",
    "ray-1": {"name": "ray", "clients_per_actor": 1},
    "ray-auto": {"name": "ray", "clients_per_actor": "auto"},
    "resumed": "serial",
}
"""The executor of each way to run a scenario."""
_DIGITS = 16
_CPUS = 2
_KILL_AFTER = 3  # parts of the rounds' table
_PATIENCE_S = 120.0


# -- digests -------------------------------------------------------------------------------


def digest_table(frame: pd.DataFrame) -> str:
    """Return the digest of a table's columns, sorted by name; rows keep their order."""
    whole = hashlib.sha256()
    for name in sorted(map(str, frame.columns)):
        _add(whole, name, _plain(frame[name]))
    return whole.hexdigest()


def digest_arrays(arrays: Mapping[str, np.ndarray]) -> str:
    """Return the digest of named arrays: names, types, shapes and bytes."""
    whole = hashlib.sha256()
    for name in sorted(arrays):
        _add(whole, name, np.asarray(arrays[name]))
    return whole.hexdigest()


def _plain(column: pd.Series) -> np.ndarray:
    """Return a column as an array of numbers, or of JSON texts if it holds anything else."""
    if pd.api.types.is_numeric_dtype(column.dtype):
        return column.to_numpy()
    values = column.astype(object)
    return np.array([json.dumps(None if pd.isna(v) else v, default=str) for v in values], dtype="U")


def _add(whole: Any, name: str, values: np.ndarray) -> None:
    """Add a name, a type, a shape and values; all bit patterns of NaN count as one."""
    if values.dtype.kind == "f":
        values = np.where(np.isnan(values), values.dtype.type(np.nan), values)
    kind = "text" if values.dtype.kind == "U" else values.dtype.str
    data = "\n".join(values.ravel()).encode() if kind == "text" else values.tobytes()
    for part in (name.encode(), kind.encode(), repr(values.shape).encode(), data):
        whole.update(len(part).to_bytes(8, "little") + part)


def digest_run(folder: Path) -> dict[str, str]:
    """Return the digest of each table and array that the folder of a run holds."""
    found = {}
    for name in TABLES:
        path = folder / f"{name}.parquet"
        if path.exists():
            found[name] = digest_table(pd.read_parquet(path))
    for name in ARRAYS:
        path = folder / f"{name}.npz"
        if path.exists():
            with np.load(path, allow_pickle=False) as arrays:
                found[name] = digest_arrays(dict(arrays))
    return found


def digest_study(folder: Path) -> Iterator[str]:
    """Yield a line for each run of a result folder, in the order of their names."""
    for told in sorted(folder.glob("*/run.json")):
        status = json.loads(told.read_text(encoding="utf-8"))["status"]
        found = digest_run(told.parent)
        digests = (f"{name}={value[:_DIGITS]}" for name, value in found.items())
        yield " ".join([told.parent.name, status, *digests])


# -- running -------------------------------------------------------------------------------


def lines(
    scenarios: Mapping[str, Mapping[str, Any]], ways: Sequence[tuple[str, str]], out: Path
) -> Iterator[str]:
    """Run scenarios and yield a line for each of their runs.

    Parameters
    ----------
    scenarios : mapping of str to mapping
        What a scenario file holds, by name.
    ways : list of (str, str)
        Which scenario runs in which way of `WAYS`.
    out : Path
        A folder for the result folders.
    """
    for name, way in ways:
        began = time.monotonic()
        folder = out / f"{name}-{way}"
        file = folder.with_suffix(".yaml")
        scenario = {"name": name, **scenarios[name], "executor": WAYS[way]}
        file.write_text(yaml.safe_dump(scenario), encoding="utf-8")
        if way == "resumed":
            run_with_kills(file, folder)
        else:
            rayfed.run(file, out=folder)
        _say(f"{name}/{way}: {time.monotonic() - began:.1f} s")
        yield from (f"{name}/{way}/{line}" for line in digest_study(folder))


def run_with_kills(file: Path, folder: Path) -> None:
    """Run a scenario whose every run is killed once, then resume to the end.

    Where a kill lands differs from time to time; what is recorded must not.

    Raises
    ------
    RuntimeError
        If a run ended before it could be killed; it needs more rounds.
    """
    command = ["run", str(file), "--out", str(folder)]
    killed: set[str] = set()
    while (victim := _kill(command, folder, killed)) is not None:
        killed.add(victim)
        command = ["resume", str(folder)]
    if killed != {told.parent.name for told in folder.glob("*/run.json")}:
        raise RuntimeError(f"{folder.name}: only {sorted(killed)} could be killed")


def _kill(command: Sequence[str], folder: Path, spared: Iterable[str]) -> str | None:
    """Start the command ``rayfed`` and kill it within a run that is not spared.

    Returns
    -------
    str or None
        The run that was killed; None if the command ended by itself.
    """
    package = str(Path(str(rayfed.__file__)).parents[1])
    paths = [package, *filter(None, [os.environ.get("PYTHONPATH")])]
    process = subprocess.Popen(
        [sys.executable, "-m", "rayfed", *command],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        stdout=subprocess.DEVNULL,
    )
    end = time.monotonic() + _PATIENCE_S
    try:
        while process.poll() is None and time.monotonic() < end:
            victim = next(_under_way(folder, spared), None)
            if victim is not None:
                return victim
            time.sleep(0.002)
    finally:
        process.kill()
        process.wait()
    if process.returncode != 0:
        raise RuntimeError(f"rayfed {' '.join(command)}: exit status {process.returncode}")
    return None


def _under_way(folder: Path, spared: Iterable[str]) -> Iterator[str]:
    """Yield the runs that have written some of their rounds and have not ended."""
    for told in folder.glob("*/run.json"):
        run = told.parent
        if run.name in spared or len(list((run / "rounds.parquet").glob("*"))) < _KILL_AFTER:
            continue
        if json.loads(told.read_text(encoding="utf-8"))["status"] == "running":
            yield run.name


# -- comparing -----------------------------------------------------------------------------


def by_run(listing: Iterable[str]) -> dict[str, str]:
    """Return what each line says of its run, by scenario, way and run."""
    return dict(line.split(" ", 1) for line in listing if "/" in line)


def differences(here: Mapping[str, str], there: Mapping[str, str]) -> list[str]:
    """Return the lines of one listing that the other lacks or has otherwise, and what differs."""
    found = []
    for name in sorted({*here, *there}):
        left, right = here.get(name), there.get(name)
        if left is None or right is None:
            found.append(f"{name}: only {'there' if left is None else 'here'}")
        elif left != right:
            parts = set(left.split()) ^ set(right.split())
            tables = sorted({part.split("=")[0] for part in parts})
            found.append(f"{name}: {', '.join(tables)}")
    return found


def disturbed(here: Mapping[str, str]) -> list[str]:
    """Return the runs on Ray or resumed that differ from the same run done serially."""
    found = []
    for name, said in here.items():
        scenario, way, run = name.split("/")
        if said != here.get(f"{scenario}/serial/{run}", said):
            found.append(f"{name}: differs from serial (way: {way})")
    return found


# -- command -------------------------------------------------------------------------------


def main(given: Sequence[str] | None = None) -> int:
    """Print the listing; return 1 if it differs from another one, or from itself."""
    options = _options(given)
    known = yaml.safe_load(SCENARIOS.read_text(encoding="utf-8"))
    if options.only is not None and options.only not in known["scenarios"]:
        _say(f"--only {options.only}: not one of {', '.join(known['scenarios'])}")
        return 2
    ways = [
        (name, way)
        for name in known["scenarios"]
        if options.only in (None, name)
        for way in ("serial", *(way for way, names in known["ways"].items() if name in names))
        if not (options.serial and way.startswith("ray"))
    ]
    _say(f"rayfed of {Path(str(rayfed.__file__)).parent}")
    printed = []
    with _ray(any(way.startswith("ray") for _, way in ways)), tempfile.TemporaryDirectory() as out:
        for line in lines(known["scenarios"], ways, Path(out)):
            print(line, flush=True)
            printed.append(line)
    print("total", hashlib.sha256("\n".join(printed).encode()).hexdigest())
    here = by_run(printed)
    wrong = disturbed(here)
    if options.against is not None:
        there = by_run(options.against.read_text(encoding="utf-8").splitlines())
        ran = {f"{name}/{way}" for name, way in ways}
        kept = {name: said for name, said in there.items() if name.rpartition("/")[0] in ran}
        wrong += differences(here, kept)
    for text in wrong:
        _say(text)
    return 1 if wrong else 0


@contextmanager
def _ray(needed: bool) -> Iterator[None]:
    """Start one Ray session for all scenarios, if any needs it."""
    if not needed:
        yield
        return
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    import ray

    ray.init(
        address="local", num_cpus=_CPUS, include_dashboard=False, log_to_driver=False,
        logging_level="ERROR",
    )  # fmt: skip
    try:
        yield
    finally:
        ray.shutdown()


def _options(given: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description="Print digests of what small scenarios record, a line for each run."
    )
    parser.add_argument("--serial", action="store_true", help="leave out what needs Ray")
    parser.add_argument("--only", metavar="NAME", help="run one scenario of digests.yaml")
    parser.add_argument(
        "--against", type=Path, metavar="FILE",
        help="compare with a listing; name the runs that differ, exit with 1 if there are any",
    )  # fmt: skip
    return parser.parse_args(given)


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
