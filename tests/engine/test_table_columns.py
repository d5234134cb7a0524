"""The declared columns are those that a run writes, all of them described."""

from dataclasses import dataclass
from typing import ClassVar

import pandas as pd
import pyarrow.parquet as pq
import pytest
from pandas.api.types import is_bool_dtype, is_string_dtype

import rayfed
from rayfed.algorithms import FedAvg, LocalOnly
from rayfed.core.columns import Column, names
from rayfed.core.errors import RayfedError
from rayfed.core.parquet import columns_in
from rayfed.core.plugins import find
from rayfed.engine import columns
from rayfed.engine.columns import catalogue, diagnostics
from rayfed.measures.evaluation import evaluated
from rayfed.selection import UniformSelection

TABLES = {
    "rounds": columns.ROUNDS["every run"], "events": columns.EVENTS, "clients": columns.CLIENTS,
    "away": columns.AWAY, "personal": columns.OWN_MODELS,
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Moody(FedAvg):
    """Declares what a test gives it."""

    name: ClassVar[str] = "moody"


def moody(*declared):
    return type("Moody", (Moody,), {"diagnostics": declared})()


def test_every_column_says_what_it_is():
    for entry in catalogue():
        assert entry.column.about.endswith("."), entry
        assert entry.declared_by


def test_a_name_in_a_table_means_one_thing():
    seen = [(entry.table, entry.column.name) for entry in catalogue()]
    assert len(seen) == len(set(seen))


def test_every_measure_that_can_be_asked_for_is_declared():
    known = names(column for group in columns.ROUNDS.values() for column in group)
    assert set(evaluated(LocalOnly(), classes=26, validation=True)) <= set(known)


def test_plug_ins_own_columns_are_in_the_catalogue():
    listed = {(who, e.column.name) for e in catalogue() for who in e.declared_by}
    assert ("algorithm fedexp", "server_lr") in listed
    assert ("algorithm giant", "server_lr") in listed
    assert ("selection walk", "position") in listed
    assert ("algorithm rwsadmm", "stationarity_best") in listed


@pytest.mark.parametrize("kind", ["algorithms", "selections"])
def test_plug_ins_declare_columns(kind):
    for plugin in find(kind).values():
        assert all(isinstance(column, Column) for column in plugin.diagnostics)


def test_a_run_writes_the_columns_that_are_declared(mixed, tmp_path):
    ditto = {"name": "ditto", "local": {"steps": 2, "batch": 4, "lr": 0.1}}
    rayfed.run(mixed(algorithms=[ditto]), out=tmp_path / "out", page=False)
    run = next((tmp_path / "out").glob("*/run.json")).parent
    for name, declared in TABLES.items():
        table = pq.read_table(run / f"{name}.parquet")
        found = columns_in(table.schema)
        assert tuple(found) == tuple(table.column_names)  # none that nothing describes
        assert tuple(found.values())[: len(declared)] == declared


def test_own_columns_come_beside_the_tables(mixed):
    wait = Column("wait_s", "longest wait", "s")
    assert diagnostics(moody(wait), UniformSelection()) == (wait,)
    assert names(diagnostics(moody(wait), find("selections")["walk"]())) == (
        "position", "connected", "repaired", "wait_s",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("declared", "error", "said"),
    [
        (Column("time_s"), RayfedError, "'time_s' is a column of rayfed's own; rename"),
        (Column("steps", dtype="int64"), RayfedError, "'steps': found int64; use float64"),
        ("mood", TypeError, r"Column\('mood'\)"),
    ],
)
def test_what_cannot_be_a_diagnostic_is_refused(declared, error, said):
    with pytest.raises(error, match=said):
        diagnostics(moody(declared), UniformSelection())


def test_frames_have_the_types_that_are_declared(mixed, tmp_path):
    rayfed.run(mixed(), out=tmp_path / "out", page=False)
    run = next((tmp_path / "out").glob("*/run.json")).parent
    kinds = {
        "string": is_string_dtype, "category": lambda dtype: dtype == "category",
        "bool": is_bool_dtype, "int64": lambda dtype: dtype == "int64",
        "float64": lambda dtype: dtype == "float64",
    }  # fmt: skip
    for name in ("rounds", "events", "clients"):
        frame = pd.read_parquet(run / f"{name}.parquet")
        for column in TABLES[name]:
            assert kinds[column.dtype](frame[column.name].dtype), column
