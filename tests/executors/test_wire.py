"""Wires, with both ends in this process."""

import os
import socket
import stat
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from rayfed.executors import ray_host, wire
from rayfed.executors.wire import Lost, Socket, Wire, send_all, wait

LARGE = 3 * 2**20  # bytes, many times what a socket takes at once


@pytest.fixture
def connected():
    """Return a function that connects with an actor that answers by a function."""
    made = []

    def connect(answer, alone=None):
        made.append(Wire(Socket(answer, alone or threading.Lock()).start().address))
        return made[-1]

    yield connect
    for end in made:
        end.close()


def values_of(*replies):
    wait(replies)
    return [reply.value() for reply in replies]


@pytest.mark.parametrize("size", [1, 511, 512, 513, LARGE // 8])
def test_arrays_arrive_as_they_were_sent(connected, size):
    end = connected(lambda rows, names: ({"twice": 2 * rows["x"], "T": rows["T"]}, names))
    sent = {"x": np.arange(size, dtype=np.float64), "T": np.arange(6 * size).reshape(-1, 3).T}
    ((got, names),) = values_of(end.send(sent, ["a", "b"]))
    np.testing.assert_array_equal(got["twice"], 2 * sent["x"])
    np.testing.assert_array_equal(got["T"], sent["T"])
    assert names == ["a", "b"]
    got["twice"][:] = 0  # arrays are the receiver's own
    assert sent["x"][-1] == size - 1


def test_nobody_waits_for_the_other_in_the_middle_of_large_messages(connected):
    """An actor that sends a large answer takes nothing meanwhile."""
    end = connected(lambda x: x + 1)
    replies = [end.send(np.full(LARGE, k, np.uint8)) for k in range(4)]
    for k, values in enumerate(values_of(*replies)):
        assert (values == k + 1).all()


def test_actors_answer_at_the_same_time_and_replies_nobody_wants_are_dropped(connected):
    ends = [connected(lambda x, k=k: (k, x)) for k in range(3)]
    for end in ends:
        end.send("dropped")
    assert values_of(*[end.send("kept") for end in ends]) == [(k, "kept") for k in range(3)]


def test_an_error_is_raised_where_the_answer_is_wanted(connected):
    class StaysHere(Exception):
        """Cannot be pickled."""

    def answer(x):
        if x == 1:
            raise StaysHere("one")
        return 1 / x

    end = connected(answer)
    failed, other, fine = (end.send(x) for x in (0, 1, 4))
    wait([failed, other])
    with pytest.raises(ZeroDivisionError) as error:
        failed.value()
    assert "in answer" in str(error.value.__cause__)
    with pytest.raises(RuntimeError, match="StaysHere: one"):
        other.value()
    assert values_of(fine) == [0.25]


def test_an_actor_that_ends_is_noticed_at_once(connected, monkeypatch):
    def end_here(x):
        raise SystemExit

    monkeypatch.setattr(threading, "excepthook", lambda error: None)
    slow = connected(lambda x: time.sleep(5))
    before = set(threading.enumerate())
    dead = connected(end_here)
    (thread,) = set(threading.enumerate()) - before
    began = time.monotonic()
    replies = [slow.send(1), dead.send(1)]
    with pytest.raises(Lost):
        wait(replies)
    assert time.monotonic() - began < 3
    with pytest.raises(Lost):
        wait([dead.send(2)])
    thread.join(5)


def test_what_was_not_begun_when_a_driver_hangs_up_is_dropped(connected):
    """Its run may have been opened anew: an old request would change the state of clients."""
    answered, alone, before = [], threading.Lock(), set(threading.enumerate())
    end = connected(answered.append, alone)
    (thread,) = set(threading.enumerate()) - before
    with alone:
        end.send("first")
        end.send("second")
        time.sleep(0.05)  # the first waits for its turn
        end.close()
    thread.join(5)
    assert not thread.is_alive()
    assert answered == []


def test_the_socket_is_private_needs_the_key_and_goes_away():
    at = Socket(lambda x: x, threading.Lock()).start()
    path, key = at.address
    folder = Path(path).parent
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    with socket.socket(socket.AF_UNIX) as stranger:
        stranger.connect(path)
        stranger.sendall(bytes(len(key)))
        assert stranger.recv(1) == b""  # hung up on
    end = Wire(at.address)
    assert values_of(end.send(5)) == [5]
    assert not folder.exists()
    with pytest.raises(FileNotFoundError):
        Wire(at.address)
    end.close()


def test_a_driver_that_never_connects_leaves_nothing(monkeypatch):
    monkeypatch.setattr(wire, "_CONNECT_S", 0.05)
    at = Socket(lambda x: x, threading.Lock()).start()
    folder = Path(at.address[0]).parent
    deadline = time.monotonic() + 5
    while folder.exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not folder.exists()


def test_a_long_path_of_temporary_files_is_avoided(monkeypatch, tmp_path):
    long = tmp_path / ("x" * 120)
    long.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(long))
    at = Socket(lambda x: x, threading.Lock())
    assert len(os.fsencode(at.address[0])) <= 100
    end = Wire(at.start().address)
    assert values_of(end.send(7)) == [7]
    end.close()


def test_drivers_elsewhere_and_systems_without_such_sockets_get_no_address(monkeypatch, tmp_path):
    monkeypatch.setattr(ray_host, "this_node", lambda: "here")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    actor = ray_host.HostActor.__new__(ray_host.HostActor)  # it would end with this process
    actor.alone = threading.Lock()
    assert actor.listen("there") is None
    monkeypatch.delattr(socket, "AF_UNIX")
    assert actor.listen("here") is None
    assert not list(tmp_path.iterdir())


def test_all_of_a_large_message_leaves_before_the_sender_does_something_else(connected):
    """The actor begins though nobody waits for its answer."""
    begun = threading.Event()
    end = connected(lambda x: begun.set() or len(x))
    reply = end.send(np.zeros(LARGE, np.uint8))
    end.move(receive=False)
    assert end.sends  # a socket takes only a part at once
    send_all([end])
    assert not end.sends
    assert begun.wait(5)
    assert values_of(reply) == [LARGE]


def test_nothing_is_sent_to_an_actor_that_has_ended(connected):
    wall = threading.Lock()
    with wall:
        end = connected(lambda x: x, wall)
        end.send(1)
        end.move()
        replies = [end.send(np.zeros(LARGE, np.uint8)) for _ in range(2)]
        end.close()
        send_all([end])
        with pytest.raises(Lost):
            wait(replies)
