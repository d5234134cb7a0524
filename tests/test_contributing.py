"""The worked example of CONTRIBUTING.md is a file that works."""

import re
from pathlib import Path

import yaml

import rayfed
from rayfed.reproduce.claims import Claims

GUIDE = Path(__file__).parents[1] / "CONTRIBUTING.md"


def test_the_example_is_one_file_and_runs(mixed, tmp_path, monkeypatch):
    (code,) = re.findall(r"```python\n(.*?)```", GUIDE.read_text(encoding="utf-8"), re.S)
    (tmp_path / "heavyball.py").write_text(code)
    monkeypatch.syspath_prepend(str(tmp_path))
    local = {"steps": 5, "batch": 4, "lr": 0.02}
    heavy = {"name": "heavyball:HeavyBall", "local": local}
    without = heavy | {"label": "no momentum", "momentum": 0.0}
    plain = {"name": "fedavg", "local": local}
    made = mixed(algorithms=[heavy, without, plain])
    rows = rayfed.run(made, out=tmp_path / "out").rounds.set_index("label")
    assert (rows.loc["heavyball"].momentum_norm.iloc[1:] > 0).all()
    assert rows.loc["no momentum"].loss.tolist() == rows.loc["fedavg"].loss.tolist()
    assert rows.loc["heavyball"].loss.iloc[-1] != rows.loc["fedavg"].loss.iloc[-1]


def test_the_example_of_claims_is_valid():
    (text,) = re.findall(r"```yaml\n(.*?)```", GUIDE.read_text(encoding="utf-8"), re.S)
    claims = Claims.model_validate(yaml.safe_load(text))
    assert list(claims.parts) == ["main", "sweep"]
