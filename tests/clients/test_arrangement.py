"""Stacks of an Ask: who shares one."""

from dataclasses import replace

import numpy as np
import pytest

from tests.clients.toy_host import host_with, request


@pytest.mark.parametrize("block", [1, 2, 100])
def test_clients_with_rows_of_different_widths_are_stacked_apart(block):
    host, _ = host_with([2, 5, 2, 2, 9], block)
    part = host.exchange("run", request([0, 1, 2, 4]), {"x": np.ones(2)})
    assert part.branches[0][2]["vector"].tolist() == [7.0, 7.0]
    assert part.each["scalar"].tolist() == [0.0, 1.0, 2.0, 4.0]


@pytest.mark.parametrize(("block", "crowds"), [(2, [2, 1, 2]), (3, [3, 3, 3])])
def test_few_clients_are_one_stack_whatever_classes_they_are_added_up_in(block, crowds):
    host, _ = host_with([2] * 7, block)
    asked = replace(request([6, 1, 2], "crowd"), classes=[(2, 4), (1, 4), (0, 4)])
    part = host.exchange("run", asked, {"x": np.ones(2)})
    assert part.each["scalar"].tolist() == crowds
    found = [(r, m, sums["vector"].tolist()) for r, m, sums in part.branches]
    assert found == [(2, 4, [8.0, 8.0]), (1, 4, [1.0, 1.0])]
