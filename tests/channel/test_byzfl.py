"""Rules against byzfl, which is in an environment of its own: `RAYFED_BYZFL` names its Python."""

import os
import subprocess
from pathlib import Path

import numpy as np
import pytest

from rayfed.channel.aggregators import (
    CentredClipping,
    GeometricMedian,
    Krum,
    Median,
    MultiKrum,
    TrimmedMean,
)
from rayfed.channel.mixers import NearestNeighbours

PYTHON = os.environ.get("RAYFED_BYZFL")
STACKS = 200


@pytest.fixture(scope="module")
def compared(tmp_path_factory):
    if PYTHON is None:
        pytest.skip("needs byzfl: set RAYFED_BYZFL to a Python that has it")
    folder = tmp_path_factory.mktemp("byzfl")
    rng = np.random.default_rng(0)
    shapes = [(int(rng.integers(3, 30)), int(rng.integers(1, 60))) for _ in range(STACKS)]
    scales = 10.0 ** rng.uniform(-2, 2, STACKS)
    stacks = [
        scale * rng.standard_normal(shape) for scale, shape in zip(scales, shapes, strict=True)
    ]
    faulty = [int(rng.integers(0, (K - 1) // 2 + 1)) for K, _ in shapes]
    np.savez(folder / "given.npz", f=faulty, **{f"{k:03}": v for k, v in enumerate(stacks)})
    script = Path(__file__).parents[3] / "benchmarks" / "byzfl_outcomes.py"
    command = [PYTHON, str(script), str(folder / "given.npz"), str(folder / "found.npz")]
    subprocess.run(command, check=True)
    with np.load(folder / "found.npz") as found:
        return list(zip(stacks, faulty, strict=True)), dict(found)


def close(found, expected):
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12 * np.abs(expected).max())


@pytest.mark.parametrize("cls", [Median, TrimmedMean, Krum, MultiKrum, GeometricMedian])
def test_rules(compared, cls):
    stacks, theirs = compared
    for k, (vectors, f) in enumerate(stacks):
        rule = cls(f=f) if "f" in cls.__dataclass_fields__ else cls()
        found = rule.aggregate(vectors, np.ones(len(vectors)), {})[0]
        close(found, theirs[f"{rule.name}/{k}"])


def test_nearest_neighbours(compared):
    stacks, theirs = compared
    for k, (vectors, f) in enumerate(stacks):
        close(NearestNeighbours(f=f).mixed(vectors), theirs[f"nearest-neighbours/{k}"])


def test_centred_clipping_with_its_memory(compared):
    stacks, theirs = compared
    rule = CentredClipping(radius=2.0, steps=3)
    for k, (vectors, _) in enumerate(stacks):
        state = rule.init(vectors.shape[1])
        for call in range(3):
            found, state = rule.aggregate(vectors + call, np.ones(len(vectors)), state)
            close(found, theirs[f"centred-clipping/{k}/{call}"])
