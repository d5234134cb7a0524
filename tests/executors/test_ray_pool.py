"""The pool of actors: who owns which client."""

from rayfed.core.tree import classes
from rayfed.executors.ray_pool import Layout


def test_the_layout_knows_the_owner_of_every_client():
    layout = Layout(classes(13, 5))
    fine, owner = layout.owner()
    for actor, owned in enumerate(layout.owned):
        for client in range(13):
            lives_here = any(client % m == r for r, m in owned)
            assert lives_here == (owner[client % fine] == actor)
