"""The quick ones of the FedHybrid reproducibility study's tasks stand as their claims say."""

from pathlib import Path

import pytest

from rayfed import api
from rayfed.reproduce import studies as reproduce
from rayfed.runs.backend import ProgressDisplay

pytestmark = pytest.mark.guard

SCENARIOS = Path(__file__).parents[2] / "scenarios"


@pytest.mark.parametrize("task", ["line", pytest.param("circle", marks=pytest.mark.slow)])
def test_every_claim_stands(task, tmp_path, monkeypatch):
    monkeypatch.setattr(
        api.Result, "report", lambda result, **_: None
    )  # the pages are tested elsewhere
    path = SCENARIOS / f"bergerault_2023_{task}.claims.yaml"
    study = reproduce.find(str(path), out=tmp_path / "o")
    for part in study.claims.parts:
        plan, kept = reproduce.begin(study, part)
        reproduce.execute(study, part, plan, kept, ProgressDisplay())
    outcome = reproduce.conclude(study, {})
    assert outcome.holds(), [(v.claim.says, v.measured) for v in outcome.verdicts if not v.expected]
