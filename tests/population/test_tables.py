"""Where traces are looked for."""

import pytest

from rayfed import api
from rayfed.core.errors import DataMissing

TABLE = "compute_s\n0.5\n"


def made(folder):
    path = folder / "scenario.yaml"
    path.write_text(
        "rounds: 1\n"
        "problem: {name: quadratic, dataset: {name: quadratic, clients: 2}}\n"
        "clients: {count: 2, delay: {name: trace, file: phones/speeds.csv}}\n"
        "algorithms: [fedavg]\nexecutor: serial\n"
    )
    return path


def file_of(path):
    return api.read(path).clients.delay.file


def test_a_trace_is_beside_its_scenario_or_else_in_rayfed_data(tmp_path, monkeypatch):
    home = tmp_path / "home"
    (home / "phones").mkdir(parents=True)
    (home / "phones" / "speeds.csv").write_text(TABLE)
    monkeypatch.setenv("RAYFED_DATA", str(home))
    assert file_of(made(tmp_path)) == str(home / "phones" / "speeds.csv")
    (tmp_path / "phones").mkdir()
    (tmp_path / "phones" / "speeds.csv").write_text(TABLE)
    assert file_of(made(tmp_path)) == str(tmp_path / "phones" / "speeds.csv")


@pytest.mark.parametrize("home", [None, "empty"])
def test_a_missing_trace_is_missing_data(tmp_path, monkeypatch, home):
    monkeypatch.delenv("RAYFED_DATA", raising=False)
    if home:
        monkeypatch.setenv("RAYFED_DATA", str(tmp_path / home))
    study = api.read(made(tmp_path))
    with pytest.raises(
        DataMissing, match=r"^clients\.delay\.file: speeds\.csv: cannot be read: No such file"
    ):
        api.prepare(study)
