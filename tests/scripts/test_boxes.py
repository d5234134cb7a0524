"""The boxes at the top of the tree are few and form no cycle."""

import pytest

pytest.importorskip("grimp", reason="needs grimp")

from scripts import boxes


def test_the_tree_has_at_most_30_boxes_and_no_cycle():
    found = boxes.arrows()
    text, cycle = boxes.report(found)
    assert not cycle
    assert len(found) <= 30, text
    assert "engine" in found["runs"]


def test_floors_and_cycles_are_reported():
    text, cycle = boxes.report({"a": {"b"}, "b": {"c"}, "c": set()})
    assert not cycle
    assert text.splitlines() == [
        "3 boxes, 2 arrows, 3 floors, none up",
        "  2  a",
        "  1  b",
        "  0  c",
    ]
    text, cycle = boxes.report({"a": {"b"}, "b": {"a"}})
    assert cycle
    assert text.startswith("2 boxes, 2 arrows; a cycle: ")
