"""A writer of small result folders, made by hand in the format that a study leaves behind."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rayfed.core.parquet import schema
from rayfed.engine.columns import catalogue

DECLARED = schema(
    {entry.column.name: entry.column for entry in catalogue() if entry.table == "rounds"}.values()
)
LABELS = ("fedavg", "FedExP eps=1e-3", "centralised", "local-only")
VERSIONS = {"rayfed": "0.1.0", "python": "3.11.7", "numpy": "2.4.6"}


def write_run(
    folder_of_study: Path,
    label: str,
    seed: int,
    rounds: pd.DataFrame,
    events: pd.DataFrame | None = None,
    clients: pd.DataFrame | None = None,
    parts: int = 1,
    **info: Any,
) -> Path:
    """Write one run folder; `info` overrides what run.json says."""
    run = folder_of_study / info.pop("folder", f"{label}-seed{seed}".replace("/", "_"))
    run.mkdir(parents=True)
    about = {
        "label": label,
        "algorithm": label.split(" ")[0],
        "baseline": label in {"centralised", "local-only"},
        "setting": "",
        "seed": seed,
        "status": "finished",
        "stopped_by": "rounds",
        "reason": None,
        "rounds": len(rounds) - 1,
        "started": "2026-11-20T15:00:00+00:00",
        "ended": "2026-11-20T15:00:09+00:00",
        "wall_s": 9.0,
        "versions": VERSIONS,
        "host": "bench",
        "scenario": {"name": "hand-made", "algorithms": [{"name": name} for name in LABELS]},
        "study": {"name": "hand-made", "description": "A study written by hand."},
    } | info
    (run / "run.json").write_text(json.dumps(about), encoding="utf-8")
    _write_parts(run / "rounds.parquet", rounds, parts)
    if events is not None:
        _write_parts(run / "events.parquet", events, parts)
    if clients is not None:
        clients.to_parquet(run / "clients.parquet", index=False)
    return run


def _write_parts(folder: Path, frame: pd.DataFrame, parts: int) -> None:
    folder.mkdir()
    for number, rows in enumerate(np.array_split(np.arange(len(frame)), parts)):
        write_part(frame.iloc[rows], folder / f"part-{number:06d}.parquet")


def write_part(frame: pd.DataFrame, path: Path) -> None:
    """Write rows with what the columns of ``rounds`` declare about themselves, as a run does."""
    table = pa.Table.from_pandas(frame, preserve_index=False)
    described = [
        field.with_metadata(DECLARED.field(field.name).metadata)
        if field.name in DECLARED.names
        else field
        for field in table.schema
    ]
    pq.write_table(table.cast(pa.schema(described)), path)


def round_rows(
    loss: Sequence[float], label: str = "fedavg", seed: int = 0, **columns: Any
) -> pd.DataFrame:
    """Rows of 2 s, 100 bytes up and 5 participants a round, with the given losses."""
    n = len(loss)
    worked = (np.arange(n) > 0).astype(np.int64)
    rows = {
        "algorithm": [label] * n,
        "label": [label] * n,
        "seed": [seed] * n,
        "round": np.arange(n),
        "time_s": 2.0 * np.arange(n),
        "loss": np.asarray(loss, float),
        "test_loss": np.full(n, np.nan),
        "accuracy": np.full(n, np.nan),
        "loss_gap": np.full(n, np.nan),
        "participants": 5 * worked,
        "dropped": 0 * worked,
        "late": 0 * worked,
        "bytes_down": 400 * worked,
        "bytes_up": 100 * worked,
        "local_steps": 50 * worked,
    }
    return pd.DataFrame(rows | columns)


# name, rate of descent, floor of the loss, accuracy at the end, time of a step against the others'
BEHAVIOUR = {
    "fedavg": (0.035, 0.030, 0.955, 1.0),
    "FedExP eps=1e-3": (0.085, 0.022, 0.972, 1.0),
    "centralised": (0.200, 0.012, 0.990, 1.0),
    "local-only": (0.300, 0.160, 0.900, 1.0),
}


def write_study(
    study: Path,
    labels: Sequence[str] = tuple(BEHAVIOUR),
    seeds: int = 3,
    rounds: int = 100,
    clients: int = 20,
    cohort: int = 5,
    accuracy: bool = True,
    cases: Sequence[float] = (),
) -> Path:
    """Write a study with stragglers, cyclic groups and noise that looks like a real one.

    With `cases` it has all runs at each of these values of ``partition.alpha``.
    """
    study.mkdir(parents=True, exist_ok=True)
    text = f"name: hand-made\nseeds: {list(range(seeds))}\nrounds: {rounds}\n"
    text += f"grid:\n  partition.alpha: {list(cases)}\n" if cases else ""
    (study / "scenario.yaml").write_text(text, encoding="utf-8")
    for seed in range(seeds):
        world = _World(seed, rounds, clients, cohort)
        for number, label in enumerate(labels):
            frames = world.run(label, number, accuracy)
            for case in cases or (None,):
                write_run(study, label, seed, *frames, parts=3, **_of_case(label, case, seed))
    return study


def _of_case(label: str, case: float | None, seed: int) -> dict[str, Any]:
    if case is None:
        return {}
    folder, scenario = f"{label}-{case}-seed{seed}", {"partition": {"alpha": case}}
    return {"folder": folder, "setting": f"alpha={case}", "scenario": scenario}


class _World:
    """What all algorithms of one seed share: data sizes, speeds, who takes part when."""

    def __init__(self, seed: int, rounds: int, clients: int, cohort: int) -> None:
        rng = np.random.default_rng(seed)
        self.seed, self.rounds, self.clients, self.cohort = seed, rounds, clients, cohort
        self.samples = rng.integers(60, 600, clients)
        self.speed = rng.lognormal(-3.0, 0.4, clients)
        self.speed[rng.permutation(clients)[: clients // 5]] *= 8
        self.draws = rng.random((rounds, clients))
        self.jitter = rng.lognormal(0.0, 0.3, (rounds, clients))
        self.noise = rng.normal(0.0, 0.05, (rounds + 1, 32))

    def cohort_of(self, number: int) -> np.ndarray:
        groups = 4
        mine = np.arange(self.clients) * groups // self.clients == (number - 1) % groups
        ids = np.flatnonzero(mine)
        return ids[np.argsort(self.draws[number - 1][ids])][: self.cohort]

    def events(self) -> pd.DataFrame:
        frames, clock = [], 0.0
        for number in range(1, self.rounds + 1):
            ids = self.cohort_of(number)
            compute = 20 * self.speed[ids] * self.jitter[number - 1][ids]
            length = np.minimum(compute + 0.6, 12.0)
            status = np.where(compute + 0.6 > 12.0, "late", "used").astype(object)
            status[(self.draws[number - 1][ids] > 0.93) & (status == "used")] = "dropped"
            frames.append(
                pd.DataFrame(
                    {
                        "round": number,
                        "ask": 0,
                        "client": ids,
                        "start_s": clock,
                        "compute_s": compute,
                        "end_s": clock + np.where(status == "dropped", length / 2, compute + 0.6),
                        "status": status,
                        "loss": 0.5 * np.exp(-0.03 * number),
                        "steps": 20,
                    }
                )
            )
            clock += float(length.max())
            frames[-1].attrs["clock"] = clock
        self.clock = np.array([0.0, *(frame.attrs.pop("clock") for frame in frames)])
        return pd.concat(frames, ignore_index=True)

    def run(
        self, label: str, number: int, accuracy: bool
    ) -> tuple[pd.DataFrame, pd.DataFrame | None, pd.DataFrame]:
        rate, floor, best, _ = BEHAVIOUR.get(label, (0.03 + 0.01 * number, 0.03, 0.95, 1.0))
        events = self.events()
        t = np.arange(self.rounds + 1)
        wobble = np.exp(self.noise[:, number % 32] * np.minimum(t, 10) / 10)
        loss = (floor + (np.log(2) - floor) * np.exp(-rate * t)) * wobble
        frame = self._rounds(label, loss, events)
        if accuracy:
            frame["accuracy"] = best - (best - 0.5) * np.exp(-rate * t) * wobble
        if "ExP" in label:
            frame["server_lr"] = np.r_[np.nan, 1 + 3 * np.exp(-0.02 * t[1:])]
        baseline = label in {"centralised", "local-only"}
        if baseline:
            frame[["bytes_up", "bytes_down"]] = 0
        return frame, None if baseline else events, self._clients(best, events, accuracy)

    def _rounds(self, label: str, loss: np.ndarray, events: pd.DataFrame) -> pd.DataFrame:
        count = events.pivot_table(index="round", columns="status", aggfunc="size", fill_value=0)
        count = count.reindex(range(self.rounds + 1), fill_value=0)
        frame = round_rows(list(loss), label, self.seed)
        frame["time_s"] = self.clock
        for column, status in (("participants", "used"), ("late", "late"), ("dropped", "dropped")):
            frame[column] = count[status].to_numpy() if status in count else 0
        frame["bytes_up"] = 960 * frame["participants"]
        return frame

    def _clients(self, best: float, events: pd.DataFrame, accuracy: bool) -> pd.DataFrame:
        ids = np.arange(self.clients)
        used = events[events["status"] == "used"].groupby("client").size().reindex(ids).fillna(0)
        spread = np.random.default_rng(self.seed + 100).beta(2, 6, self.clients)
        return pd.DataFrame(
            {
                "client": ids,
                "samples": self.samples,
                "test_samples": self.samples // 5,
                "speed_s": self.speed,
                "group": "",
                "selected": events.groupby("client").size().reindex(ids).fillna(0).astype(int),
                "used": used.astype(int),
                "loss": 0.1 + spread,
                "accuracy": (best - 0.5 * spread**1.5) if accuracy else np.nan,
            }
        )


def write_walk(
    run: Path, positions: Sequence[int], graphs: Sequence[Sequence[tuple[int, int]]], **more: Any
) -> None:
    """Let the server of a written run walk: one place a round, graphs in turns.

    Of `more`, ``clients`` is for graphs that tell of some clients alone, ``law`` is of each graph,
    ``lambda_2`` and ``places`` too, and ``graph`` says which graph held in which round.
    """
    for part in sorted((run / "rounds.parquet").glob("*.parquet")):
        frame = pd.read_parquet(part)
        place = dict(enumerate(positions, 1))
        frame["position"] = [float(place.get(number, -1)) for number in frame["round"]]
        write_part(frame, part)
    count = len(graphs)
    clients = np.array(more.get("clients", range(1 + max(map(max, graphs[0])))))
    held = {
        "round": np.arange(1, len(positions) + 1),
        "graph": np.arange(len(positions)) % count,
        "epoch": np.arange(count),
        "clients": clients,
        "links": np.array([link for links in graphs for link in links]),
        "starts": np.cumsum([0, *map(len, graphs)]),
        "places": np.empty((0, len(clients), 2)),
        "lambda_2": np.full(count, 0.9),
        "law": np.full((count, len(clients)), 1 / len(clients)),
    }
    np.savez(
        run / "walk.npz", allow_pickle=False, **held | {k: np.array(v) for k, v in more.items()}
    )


def write_personal(run: Path, rounds: Sequence[int], **columns: Any) -> None:
    """Let the clients of a written run have models of their own.

    Each column is an array (rounds, clients), or something that broadcasts to one; those that are
    not given are NaN.
    """
    names = ("distance", "personal_loss", "personal_accuracy", "loss", "accuracy")
    given = np.broadcast_arrays(*(np.asarray(value, float) for value in columns.values()))
    shape = given[0].shape
    held = dict(zip(columns, given, strict=True))
    frame = pd.DataFrame({"round": np.repeat(rounds, shape[1])})
    frame["client"] = np.tile(np.arange(shape[1]), shape[0])
    for name in names:
        frame[name] = held.get(name, np.full(shape, np.nan)).ravel()
    _write_parts(run / "personal.parquet", frame, 1)


@pytest.fixture(scope="session")
def personal_writer() -> Callable[..., None]:
    return write_personal


@pytest.fixture(scope="session")
def walk_writer() -> Callable[..., None]:
    return write_walk


@pytest.fixture(scope="session")
def run_writer() -> Callable[..., Path]:
    return write_run


@pytest.fixture(scope="session")
def rows() -> Callable[..., pd.DataFrame]:
    return round_rows


@pytest.fixture(scope="session")
def study_writer() -> Callable[..., Path]:
    return write_study


def write_cases(
    study: Path, ends: dict[str, dict[str, Sequence[float]]], key: str = "partition.alpha"
) -> Path:
    """Write a study with a grid over `key`: of each case and algorithm the last losses of seeds.

    Every run begins at loss 8 and has a half of the way behind it after its first round of two.
    Accuracies are 1 / (1 + loss).
    """
    labels = list(dict.fromkeys(label for held in ends.values() for label in held))
    text = f"name: hand-made\nseeds: [0]\ngrid:\n  {key}: [{', '.join(ends)}]\nalgorithms:\n"
    text += "".join(f"- {{name: {label}}}\n" for label in labels)
    study.mkdir(parents=True, exist_ok=True)
    (study / "scenario.yaml").write_text(text, encoding="utf-8")
    head = key.rpartition(".")[2]
    for value, held in ends.items():
        for label, losses in held.items():
            for seed, end in enumerate(losses):
                losses_of = [8, (8 + end) / 2, end]
                accuracy = [1 / (1 + loss) for loss in losses_of]
                write_run(
                    study, label, seed, round_rows(losses_of, label, seed, accuracy=accuracy),
                    folder=f"{label}-{value}-seed{seed}", setting=f"{head}={value}",
                    scenario={"partition": {"alpha": float(value)}},
                )  # fmt: skip
    return study


@pytest.fixture(scope="session")
def case_writer() -> Callable[..., Path]:
    return write_cases
