"""What clients' own models give them: better is higher for accuracies, lower for losses."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from rayfed.report.read import personal


def run(own, shared, accuracy):
    """A run of one evaluation: a client for each value."""
    kind = "accuracy" if accuracy else "loss"
    rows = pd.DataFrame({"round": 5, "client": range(len(own)), "distance": 1.0})
    for name in ("personal_accuracy", "personal_loss", "accuracy", "loss"):
        rows[name] = np.nan
    rows[f"personal_{kind}"], rows[kind] = own, shared
    return SimpleNamespace(personal=rows, called=list, usage=SimpleNamespace(asked=pd.DataFrame()))


@pytest.mark.parametrize(("accuracy", "worst"), [(True, [2, 0, 1]), (False, [1, 0, 2])])
def test_the_worst_served_come_first(accuracy, worst):
    made = run([0.5, 0.9, 0.1], [0.5, 0.5, 0.5], accuracy)
    assert personal.ends(made).index.tolist() == worst
