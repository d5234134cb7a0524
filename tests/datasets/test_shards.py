import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from rayfed.datasets.shards import on_grid


def test_widths_on_the_grid_by_hand():
    sizes = np.array([0, 1, 8, 9, 12, 13, 16, 17, 24, 25, 33, 1000, 1025])
    widths = [0, 8, 8, 12, 12, 16, 16, 24, 24, 32, 48, 1024, 1536]
    assert on_grid(sizes).tolist() == widths


@given(st.integers(9, 10**9))
def test_padding_wastes_less_than_a_third(n):
    width = int(on_grid(np.array([n]))[0])
    assert n <= width < 1.5 * n
    assert width % 3 == 0 or width & (width - 1) == 0
