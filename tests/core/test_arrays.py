"""Arrays of NumPy and of PyTorch are handled alike."""

import numpy as np
import pytest

from rayfed.core.arrays import inner, to_numpy, unique_inverse


@pytest.mark.parametrize("library", ["numpy", "torch"])
@pytest.mark.parametrize("p", [1, 7, 64, 477, 5003])
def test_inner_products_of_a_row_do_not_depend_on_the_rows_beside_it(library, p):
    rows = np.random.default_rng(p).normal(size=(3, p)).astype(np.float32)
    if library == "torch":
        rows = pytest.importorskip("torch").from_numpy(rows)
    together = to_numpy(inner(rows, rows))
    alone = [to_numpy(inner(rows[k : k + 1], rows[k : k + 1]))[0] for k in range(3)]
    assert together.tolist() == alone
    exact = (to_numpy(rows).astype(np.float64) ** 2).sum(axis=1)
    np.testing.assert_allclose(together, exact, rtol=1e-5)


@pytest.mark.parametrize(
    ("count", "most"), [(0, 1), (1, 1), (1, 10**12), (7, 3), (50, 100), (50, 10**9), (3000, 40)]
)
def test_distinct_ids_are_numpys_however_far_apart_they_are(count, most):
    ids = np.random.default_rng(count).integers(0, most, count)
    expected, found = np.unique(ids, return_inverse=True), unique_inverse(ids)
    for array, wanted in zip(found, expected, strict=True):
        assert array.dtype == wanted.dtype
        assert array.tolist() == wanted.tolist()
