"""The layout: who owns which client."""

import numpy as np

from rayfed.executors.layout import Layout


def test_the_layout_knows_the_owner_of_every_client():
    layout = Layout.even(13, [1] * 5)
    for actor, owned in enumerate(layout.owned):
        for client in range(13):
            lives_here = any(client % m == r for r, m in owned)
            assert lives_here == (layout.hosts(np.array([client]))[0] == actor)
