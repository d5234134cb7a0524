"""Messages that a host keeps: sums at each receiver have the bits of a loop in the order of ids."""

import sys
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.sparse import csr_array

from rayfed.clients.near import Messages
from rayfed.topology import mixing as module
from rayfed.topology.graph import EdgeList
from rayfed.topology.mixing import mixing

COUNT = 12
EDGES = [[0, 1], [0, 7], [1, 2], [2, 9], [3, 4], [3, 9], [4, 10], [5, 9], [6, 7], [8, 10]]
W = mixing(EdgeList(COUNT, EDGES), np.arange(1.0, COUNT + 1))
V = np.random.default_rng(0).standard_normal((COUNT, 150)) * 10.0 ** np.arange(COUNT)[:, None]


def kept(ids, rows):
    messages = Messages()
    messages.begin(ids)
    messages.rows["v"] = rows[ids].copy()
    return messages


@pytest.mark.parametrize("narrow", [1, 64, 1000])
@pytest.mark.parametrize("shape", [(COUNT,), (COUNT, 150)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("hosts", [1, 2, 3, COUNT])
def test_sums_at_each_host_are_those_of_a_loop(hosts, dtype, shape, narrow, monkeypatch):
    monkeypatch.setattr(module, "_NARROW", narrow)
    monkeypatch.setattr(module, "caches", lambda: SimpleNamespace(own=0))
    v, w = V[:, :1].reshape(COUNT) if len(shape) == 1 else V, W.astype(dtype)
    v, expected = v.astype(dtype), np.zeros(shape, dtype)
    for i in range(COUNT):
        for j in range(COUNT):  # in the order of ids
            if w[i, j]:
                expected[i] += w[i, j] * v[j]
    at = [np.arange(host, COUNT, hosts) for host in range(hosts)]
    every = [kept(ids, v) for ids in at]
    needed = [np.setdiff1d(w[ids].indices, ids) for ids in at]
    guests = []
    for ids in needed:
        sent = [of.of(ids[np.isin(ids, own)]) for of, own in zip(every, at, strict=True)]
        order = np.argsort(np.concatenate([rows["ids"] for rows in sent]))
        guests.append(
            {name: np.concatenate([rows[name] for rows in sent])[order] for name in sent[0]}
        )
    for ids, messages, others in zip(at, every, guests, strict=True):
        near = messages.mixed(w[ids], others)["v"]
        assert near.dtype == dtype
        assert near.tobytes() == expected[ids].tobytes()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has such memory")
def test_shared_messages_stay_as_they_are_while_sums_are_formed():
    """Over steps of different numbers of senders, in which others read their memory."""
    at, others = np.array([0, 3, 4, 9]), np.setdiff1d(np.arange(COUNT), [0, 3, 4, 9])
    messages, last = kept(at, V), None
    for ids in (at, at[:2], at, at + 1):
        messages.begin(ids)
        rows = V[ids] + len(ids)
        if "v" in messages.rows:
            messages.rows["v"][:] = rows
        else:
            messages.rows["v"] = rows.copy()
        sent = messages.share()
        assert len(sent.places) == 1
        assert last is None or sent.places == last
        last = sent.places
        found, part = sent.rows(), replace(sent, wanted=ids[:1]).rows()
        guests = {"ids": others, "v": V[others]} if ids is at else {}
        w = W[ids] if ids is at else csr_array(np.eye(COUNT)[ids])
        every = V.copy()
        every[ids] = rows
        near = messages.mixed(w, guests)["v"]
        np.testing.assert_allclose(near, w @ every, rtol=1e-13)
        assert found["v"].tobytes() == rows.tobytes()
        assert part["v"].tobytes() == rows[:1].tobytes()
        assert part["ids"].tolist() == ids[:1].tolist()


def test_all_messages_are_sent_uncopied_if_nearly_all_are_wanted():
    ids = np.arange(40)
    rows = np.random.default_rng(3).standard_normal((40, 5))
    messages = kept(ids, rows)
    most, half = messages.of(np.delete(ids, 7)), messages.of(ids[::2])
    assert most["ids"].tolist() == ids.tolist()
    assert np.shares_memory(most["v"], messages.rows["v"])
    assert half["ids"].tolist() == ids[::2].tolist()
    assert half["v"].tolist() == rows[::2].tolist()


def test_sums_do_not_depend_on_messages_that_nobody_wants():
    expected = kept(np.arange(2), V).mixed(W[:2], {"ids": np.arange(2, COUNT), "v": V[2:]})["v"]
    wanted = np.setdiff1d(W[:2].indices, [0, 1])
    assert len(wanted) < COUNT - 2
    found = kept(np.arange(2), V).mixed(W[:2], {"ids": wanted, "v": V[wanted]})["v"]
    assert found.tobytes() == expected.tobytes()


def test_messages_share_memory_from_step_to_step_while_as_many_nodes_send():
    messages = kept(np.array([1, 4, 6]), V)
    rows = messages.rows["v"]
    messages.begin(np.array([1, 4, 8]))
    assert messages.rows["v"] is rows
    assert messages.of(np.array([4]))["v"].tolist() == V[[4]].tolist()
    messages.begin(np.array([1]))
    assert not messages.rows
