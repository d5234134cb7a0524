"""What a round takes in this process."""

from rayfed import api
from rayfed.executors.serial import SerialExecutor
from rayfed.runs import placing

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
    work = placing.measure(run, plan.tables)
    assert 0 < work.clients_s < work.round_s < 60
    assert work.asks == 2  # the local work of a round, and its evaluation
    assert capsys.readouterr() == ("", "")


def test_short_rounds_are_measured_more_often(monkeypatch):
    """Other programs disturb them most; no run goes beyond its end."""
    asked = []
    exchange = SerialExecutor.exchange

    def counted(self, key, request, send):
        asked.append(request.round)
        return exchange(self, key, request, send)

    monkeypatch.setattr(SerialExecutor, "exchange", counted)
    for rounds, most in ((4, 4), (1000, placing._SHORT_ROUNDS)):
        asked.clear()
        plan = api.prepare(api.read(SCENARIO | {"rounds": rounds}))
        placing.measure(plan.runs[0], plan.tables)
        assert 3 <= max(asked) <= most
