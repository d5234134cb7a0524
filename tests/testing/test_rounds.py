"""Answers to Asks: every reply is used once, and a missing or left one is an error."""

import numpy as np
import pytest

from rayfed.algorithms import Algorithm
from rayfed.messages import Ask, Wait
from rayfed.selection import Selection, SelectionView
from rayfed.testing import answer, choose, reply


class TwoAsks(Algorithm):
    """x becomes the sum of two answers."""

    def round(self, state):
        first = yield Ask("first", send={"x": state["x"]}, up={"a": 1})
        second = yield Ask("second", send={"a": first.mean["a"]}, up={"b": 1})
        return {"x": first.mean["a"] + second.mean["b"]}, {"clients": len(second.ids)}


X = {"x": np.zeros(1)}
ONE, TWO = reply({"a": [1.0]}), reply({"b": [20.0]}, ids=[3, 5, 8])


def test_the_replies_are_given_in_order():
    state, diagnostics, asks = answer(TwoAsks(), X, [ONE, TWO])
    assert (state["x"].tolist(), diagnostics) == ([21.0], {"clients": 3})
    assert [ask.function for ask in asks] == ["first", "second"]
    assert asks[1].send["a"].tolist() == [1.0]


def test_a_function_answers_every_ask():
    state, _, _ = answer(TwoAsks(), X, lambda ask: {"first": ONE, "second": TWO}[ask.function])
    assert state["x"].tolist() == [21.0]


def test_a_missing_reply_and_one_too_many_are_errors():
    with pytest.raises(AssertionError, match="no reply was given for the Ask 'second'"):
        answer(TwoAsks(), X, ONE)
    with pytest.raises(AssertionError, match="1 replies were not asked for"):
        answer(TwoAsks(), X, [ONE, TWO, TWO])


class Patient(Selection):
    """Waits, then asks, then names who answered."""

    def select(self, view, state):
        nothing = yield Wait(3.0)
        assert nothing is None
        told = yield Ask("poll", send={}, up={"loss": 1}, clients=np.arange(view.count))
        return told.ids, state


def test_a_wait_gets_no_reply():
    view = SelectionView(9, 1, 0.0, 2, 0, lambda ids: ids >= 0, np.ones_like)
    ids, state, yielded = choose(Patient(), view, replies=TWO)
    assert (ids.tolist(), state) == ([3, 5, 8], {})
    assert [type(each) for each in yielded] == [Wait, Ask]


def test_a_reply_fills_in_what_is_not_given():
    given = reply({"a": [1]}, weights=[2, 3, 4])
    assert given.ids.tolist() == [0, 1, 2]
    assert given.steps.tolist() == [1, 1, 1]
    assert given.mean["a"].dtype == np.float64
