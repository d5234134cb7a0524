"""What a round takes in this process."""

from rayfed import api
from rayfed.runs.placing import measure

SCENARIO = {
    "rounds": 4,
    "problem": {"name": "softmax-regression", "dataset": {"name": "synthetic", "features": 3}},
    "clients": {"count": 6},
    "participation": {"cohort": 3},
    "algorithms": [{"name": "scaffold", "local": {"steps": 2, "lr": 0.1}}],
    "executor": "serial",
}


def test_a_measured_round_is_of_the_run_and_changes_nothing(capsys):
    plan = api.prepare(api.read(SCENARIO))
    run = plan.runs[0]
    work = measure(run, plan.tables)
    assert 0 < work.clients_s < work.round_s < 60
    assert work.asks == 2  # the local work of a round, and its evaluation
    assert capsys.readouterr() == ("", "")
