"""Methods with own training code: they work, or are refused before a run with the reason."""

import pytest

from rayfed.core.plugins import find
from rayfed.testing import loop
from rayfed.testing.own_parts import KINDS, refusal, study

REFUSED = {
    "algorithms": {
        "apfl": "must know how a local solver adds up gradients",
        "centralised": "needs rows of features and targets",
        "dasha": "needs gradients",
        "diging": "needs gradients",
        "disco": "needs",
        "ditto": "needs gradients",
        "exact-diffusion": "needs gradients",
        "extra": "needs gradients",
        "fedbn": "has no normalisation layers",
        "feddyn": "needs local steps with corrected gradients",
        "federated-dropout": "needs gradients",
        "fedhybrid": "needs gradients",
        "fednova": "give a kind of SGD",
        "fedprox": "needs a proximal term",
        "fedrep": "needs gradients",
        "fedrolex": "needs gradients",
        "giant": "needs",
        "gradient-descent": "needs gradients",
        "heterofl": "needs gradients",
        "hetlora": "needs",
        "marina": "needs gradients",
        "moon": "needs local steps with corrected gradients",
        "per-fedavg": "needs gradients",
        "pfedme": "needs gradients",
        "proxskip": "plain steps of sgd",
        "rwsadmm": "brings its own",
        "scaffold": "must know how a local solver adds up gradients",
    },
    "selections": {"cpow-d": "needs rows"},
    "faults": {"label-flip": "needs class labels"},
    "measures": {
        "distance": "needs a known optimum",
        "gradient": "needs gradients",
        "heterogeneity": "needs gradients",
        "metrics": "needs rows",
    },
    "partitions": dict.fromkeys(find("partitions"), "needs"),
    "drifts": dict.fromkeys(find("drifts"), "needs"),
}
"""Parts that need gradients, rows or more of the solver, and a part of the reason."""


@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind in KINDS for name in find(kind)])
def test_a_part_runs_or_is_refused(tmp_path, kind, name):
    given = study(kind, name, tmp_path)
    if (reason := REFUSED.get(kind, {}).get(name)) is not None:
        assert reason in refusal(given)
        return
    made = loop(given)
    now, _ = made.start()
    for _ in range(2):
        now, row, _ = made.step(now)
    assert row["participants"] > 0
