"""Rules against byzfl, another implementation of them."""

import sys
from importlib.util import find_spec
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

from rayfed.channel import (
    CentredClipping,
    GeometricMedian,
    Krum,
    Median,
    MultiKrum,
    NearestNeighbours,
    TrimmedMean,
)

STACKS = 200


@pytest.fixture(scope="module")
def byzfl():
    """Import its rules alone: the package itself asks for torchvision and drawing libraries."""
    found = find_spec("byzfl")
    if found is None:
        pytest.skip("needs byzfl")
    package = ModuleType("byzfl")
    package.__path__ = list(found.submodule_search_locations)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "byzfl", package)
        from byzfl import aggregators

        yield SimpleNamespace(**vars(aggregators))


@pytest.fixture(scope="module")
def stacks():
    """Stacks of vectors and how many of them are faulty."""
    rng = np.random.default_rng(0)
    shapes = [(int(rng.integers(3, 30)), int(rng.integers(1, 60))) for _ in range(STACKS)]
    scales = 10.0 ** rng.uniform(-2, 2, STACKS)
    return [
        (scale * rng.standard_normal((K, p)), int(rng.integers(0, (K - 1) // 2 + 1)))
        for scale, (K, p) in zip(scales, shapes, strict=True)
    ]


def close(found, expected, vectors):
    """Vectors that cancel leave the rounding of the largest."""
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12 * np.abs(vectors).max())


@pytest.mark.parametrize(
    ("cls", "theirs"),
    [
        (Median, lambda byzfl, f: byzfl.Median()),
        (TrimmedMean, lambda byzfl, f: byzfl.TrMean(f)),
        (Krum, lambda byzfl, f: byzfl.Krum(f)),
        (MultiKrum, lambda byzfl, f: byzfl.MultiKrum(f)),
        (GeometricMedian, lambda byzfl, f: byzfl.GeometricMedian(nu=0.1, T=3)),
    ],
)
def test_rules(byzfl, stacks, cls, theirs):
    for vectors, f in stacks:
        rule = cls(f=f) if "f" in cls.__dataclass_fields__ else cls()
        found = rule.aggregate(vectors, np.ones(len(vectors)), {})[0]
        close(found, theirs(byzfl, f)(vectors), vectors)


def test_nearest_neighbours(byzfl, stacks):
    for vectors, f in stacks:
        close(NearestNeighbours(f=f).mixed(vectors), byzfl.NNM(f)(vectors), vectors)


def test_centred_clipping_with_its_memory(byzfl, stacks):
    rule = CentredClipping(radius=2.0, steps=3)
    for vectors, _ in stacks:
        theirs, state = byzfl.CenteredClipping(L=3, tau=2.0), rule.init(vectors.shape[1])
        for call in range(3):
            found, state = rule.aggregate(vectors + call, np.ones(len(vectors)), state)
            close(found, theirs(vectors + call), vectors + call)
