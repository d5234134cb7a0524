"""What tests of algorithms share: a round without an engine, and two clients on a line.

The two clients have F_i(x) = (x - m_i)^2 / 2 with m = 0 and 4: their gradients are x and x - 4.
"""

import numpy as np
import pandas as pd
import pytest

from rayfed import api
from rayfed.algorithms.base import Reply
from rayfed.executors.serial import SerialStudy

MINIMA = (0.0, 4.0)


@pytest.fixture
def one_round():
    """Answer the one Ask of a round; return it, and what the round returns."""

    def answer(algorithm, state, mean, population=0, weights=(1.0, 1.0), steps=(1, 1)):
        round = algorithm.round(state)
        ask = next(round)
        with pytest.raises(StopIteration) as end:
            round.send(
                Reply(
                    np.arange(len(weights)), np.array(weights),
                    {name: np.asarray(rows, dtype=float) for name, rows in mean.items()},
                    {}, np.array(steps), population,
                )
            )  # fmt: skip
        return ask, *end.value.value

    return answer


@pytest.fixture
def line(tmp_path):
    """Run algorithms on the two clients, and return their rows by label."""

    def run(*algorithms, rows=(1, 1), rounds=1, x0=10.0, weighting="size", **keys):
        frame = pd.DataFrame(
            {
                "client": np.repeat([0, 1], rows),
                "a": 1.0,
                "y": np.repeat(MINIMA, rows),
            }
        )
        frame.to_csv(tmp_path / "line.csv", index=False)
        np.save(tmp_path / "first.npy", np.array([x0]))
        scenario = {
            "rounds": rounds,
            "problem": {
                "name": "least-squares", "intercept": False, "dataset": str(tmp_path / "line.csv"),
                "init": str(tmp_path / "first.npy"), "weighting": weighting,
            },
            "clients": {},
            "participation": {"select": "all"},
            "evaluate": {"every": rounds},
            "algorithms": list(algorithms),
            "executor": "serial",
        } | keys  # fmt: skip
        plan = api.prepare(api.read(scenario))
        out = tmp_path / f"out{len(list(tmp_path.glob('out*')))}"
        outcome = SerialStudy(out).execute(plan.runs, plan.tables, False, lambda *_: None)
        assert set(outcome.values()) == {"finished"}
        result = api.Result(out, outcome)
        return {run.rsplit("-seed", 1)[0]: result.model(run).item() for run in outcome}

    return run
