"""Write what byzfl makes of stacks of vectors; run by the Python that `test_byzfl` is given."""

import sys
from typing import Any

import numpy as np
from byzfl import (  # type: ignore[import-not-found]
    NNM,
    CenteredClipping,
    GeometricMedian,
    Krum,
    Median,
    MultiKrum,
    TrMean,
)

with np.load(sys.argv[1]) as given:
    stacks, faulty = [given[name] for name in given if name != "f"], given["f"].tolist()
found: dict[str, Any] = {}
for k, (vectors, f) in enumerate(zip(stacks, faulty, strict=True)):
    found |= {
        f"median/{k}": Median()(vectors),
        f"trimmed-mean/{k}": TrMean(f)(vectors),
        f"krum/{k}": Krum(f)(vectors),
        f"multi-krum/{k}": MultiKrum(f)(vectors),
        f"geometric-median/{k}": GeometricMedian(nu=0.1, T=3)(vectors),
        f"nearest-neighbours/{k}": NNM(f)(vectors),
    }
    clipping = CenteredClipping(L=3, tau=2.0)
    for call in range(3):
        found[f"centred-clipping/{k}/{call}"] = clipping(vectors + call)
np.savez(sys.argv[2], **found)
