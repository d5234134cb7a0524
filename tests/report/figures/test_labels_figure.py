"""Labels at line ends keep apart and stay inside."""

import pytest

from rayfed.report.figures.labels import plain, spread


def test_labels_far_apart_stay_where_they_are():
    assert spread({"a": 10.0, "b": 200.0}, 17, 400) == {"a": 10.0, "b": 200.0}


def test_a_cluster_is_spread_around_its_middle():
    assert spread({"a": 100.0, "b": 100.0, "c": 103.0}, 20, 400) == pytest.approx(
        {"a": 81.0, "b": 101.0, "c": 121.0}
    )


def test_blocks_that_meet_are_joined():
    found = spread({"a": 100.0, "b": 101.0, "c": 115.0}, 20, 400)
    assert found["b"] - found["a"] == pytest.approx(20)
    assert found["c"] - found["b"] == pytest.approx(20)


def test_labels_stay_inside():
    found = spread({"a": 0.0, "b": 1.0, "c": 400.0, "d": 400.0}, 20, 400)
    assert found == pytest.approx({"a": 0, "b": 20, "c": 380, "d": 400})


def test_a_users_text_is_cut_and_never_markup():
    assert plain("<b>x</b> & y") == "&lt;b>x&lt;/b> &amp; y"
    assert plain("fedavg (clients.stragglers.fraction=0.2)") == "fedavg (clien….fraction=0.2)"
    assert len(plain("x" * 99)) == 28
