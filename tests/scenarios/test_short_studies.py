"""Short versions of four published studies: every claim stands as its file expects.

They are slow tests, of which continuous integration takes a part in turn.
"""

import os

import pytest

from rayfed.reproduce.studies import begin, conclude, execute, find
from rayfed.runs.backend import ProgressDisplay

STUDIES = (
    "bergerault_2023_line",
    "jhunjhunwala_2023_synthetic",
    "niu_2021_fedhybrid_setup2",
    "wang_2020_fednova_quadratic",
)


@pytest.mark.slow
@pytest.mark.parametrize("name", STUDIES)
def test_every_claim_of_a_short_study_stands(name, tmp_path, monkeypatch):
    if name == "niu_2021_fedhybrid_setup2" and "RAYFED_DATA" not in os.environ:
        pytest.skip("needs Boston housing")
    monkeypatch.setattr("rayfed.api.Result.report", lambda result, **_: None)
    study = find(name, out=tmp_path / name)
    for part in study.claims.parts:
        plan, kept = begin(study, part)
        execute(study, part, plan, kept, ProgressDisplay())
    outcome = conclude(study, {})
    assert not outcome.failed
    unexpected = [(v.claim.says, v.measured) for v in outcome.verdicts if not v.expected]
    assert not unexpected
