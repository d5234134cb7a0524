"""Which Ray is started with what a study on one machine needs alone."""

import sys

from rayfed.runs.ray import known as ray_known


def test_a_ray_that_is_not_known_starts_as_it_does(monkeypatch):
    monkeypatch.setattr(ray_known, "version", lambda _: "2.60.0")
    monkeypatch.setattr(sys, "platform", "linux")
    assert ray_known.is_known()
    with monkeypatch.context() as other:
        other.setattr(ray_known, "version", lambda _: "3.1.0")
        assert not ray_known.is_known()
    with monkeypatch.context() as other:
        other.setenv("RAY_RUNTIME_ENV_HOOK", "mine.hook")
        assert not ray_known.is_known()
    monkeypatch.setattr(sys, "platform", "darwin")
    assert not ray_known.is_known()
