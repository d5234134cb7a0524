"""An Ask on one host: sums, scalars and single vectors."""

from dataclasses import replace

import numpy as np

from tests.clients.toy_host import host_with, request


def test_sums_are_weighted_and_scalars_keep_the_order_of_the_ids():
    host, _ = host_with([2, 5, 2, 2, 9])
    part = host.exchange("run", request([4, 0, 2], weights=[10, 1, 1]), {"x": np.array([1.0, 2.0])})
    ((residue, modulus, sums),) = part.branches
    assert (residue, modulus) == (0, 1)
    assert sums["vector"].tolist() == [42.0, 84.0]  # (10 * 4 + 0 + 2) * x
    assert part.each["scalar"].tolist() == [4.0, 0.0, 2.0]
    assert part.each["loss"].tolist() == [4.5, 0.5, 2.5]
    assert "vector" not in part.each


def test_single_vectors_come_without_sums_where_nobody_adds_them_up():
    host, _ = host_with([2, 5, 2], block=1)
    asked = replace(request([2, 0]), vectors=True, sums=False)
    part = host.exchange("run", asked, {"x": np.array([1.0, 2.0])})
    assert part.branches == [(0, 1, {})]
    assert part.each["vector"].tolist() == [[2.0, 4.0], [0.0, 0.0]]


def test_a_loss_that_is_sent_is_what_the_server_sees():
    host, _ = host_with([2] * 3)
    part = host.exchange("run", request([0, 2], "both", {"loss": 1}), {"x": np.ones(2)})
    assert part.each["loss"].tolist() == [7.0, 7.0]
