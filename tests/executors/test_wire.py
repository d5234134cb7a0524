"""Wires, with both ends in this process."""

import os
import pickle
import shutil
import socket
import stat
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import psutil
import pytest

from rayfed.executors import ray_host, wire
from rayfed.executors.wire import Lost, Wire, answers, listen

LARGE = 3 * 2**20  # bytes, many times what a socket takes at once


@pytest.fixture
def connected():
    """Return a function that connects with an actor that answers by a function."""
    made = []

    def connect(answer, lock=None):
        made.append(Wire(listen(answer, lock or threading.Lock())))
        return made[-1]

    yield connect
    for end in made:
        end.close()


def answered(end, *message):
    """Return the answer to a request."""
    end.send(*message)
    return answers([end])[end]


@pytest.mark.parametrize("size", [1, 511, 512, 513, LARGE // 8])
def test_arrays_arrive_as_they_were_sent(connected, size):
    end = connected(lambda rows, names: ({"twice": 2 * rows["x"], "T": rows["T"]}, names))
    sent = {"x": np.arange(size, dtype=np.float64), "T": np.arange(6 * size).reshape(-1, 3).T}
    got, names = answered(end, sent, ["a", "b"])
    np.testing.assert_array_equal(got["twice"], 2 * sent["x"])
    np.testing.assert_array_equal(got["T"], sent["T"])
    assert names == ["a", "b"]
    got["twice"][:] = 0  # arrays are the receiver's own
    assert sent["x"][-1] == size - 1


def test_large_messages_arrive_whole(connected):
    end = connected(lambda x: x + 1)
    for k in range(3):
        assert (answered(end, np.full(LARGE, k, np.uint8)) == k + 1).all()


def test_actors_answer_at_the_same_time(connected):
    together = threading.Barrier(3, timeout=5)
    ends = [connected(lambda x, k=k: (together.wait() >= 0, k, x)) for k in range(3)]
    for end in ends:
        end.send("x")
    assert [*answers(ends[::-1]).values()].count((True, 1, "x")) == 1
    assert answers([]) == {}


def test_an_error_is_raised_where_the_answer_is_wanted(connected):
    class StaysHere(Exception):
        """Cannot be pickled."""

    def answer(x):
        if x == 1:
            raise StaysHere("one")
        return 1 / x

    end, other = connected(answer), connected(answer)
    end.send(0)
    other.send(4)
    with pytest.raises(ZeroDivisionError) as error:
        answers([end, other])
    assert "in answer" in str(error.value.__cause__)
    with pytest.raises(RuntimeError, match="StaysHere: one"):
        answered(end, 1)
    assert [answered(each, 4) for each in (end, other)] == [0.25, 0.25]  # no answer is left


def test_an_actor_that_ends_is_noticed_at_once(connected, monkeypatch):
    def end_here(x):
        raise SystemExit

    monkeypatch.setattr(threading, "excepthook", lambda error: None)
    slow = connected(lambda x: time.sleep(5))
    before = set(threading.enumerate())
    dead = connected(end_here)
    (thread,) = set(threading.enumerate()) - before
    began = time.monotonic()
    slow.send(1)
    dead.send(1)
    with pytest.raises(Lost):
        answers([slow, dead])
    assert time.monotonic() - began < 3
    thread.join(5)
    with pytest.raises(Lost):
        answered(dead, 2)


@pytest.mark.parametrize("length", [5, LARGE])
def test_an_actor_that_ends_within_an_answer_is_lost(length):
    """As by kill -9: a pickle that is cut short, between values or in an array."""
    whole = pickle.dumps({"x": np.ones(LARGE, np.uint8)}, 5)
    end = Wire.__new__(Wire)
    end._socket, there = socket.socketpair()
    end._file = end._socket.makefile("rwb")
    sender = threading.Thread(target=lambda: there.sendall(whole[:length]) or there.close())
    sender.start()
    with pytest.raises(Lost):
        answers([end])
    sender.join(5)
    end.close()


def test_what_was_not_begun_when_a_driver_hangs_up_is_dropped(connected):
    """Its run may have been opened anew: an old request would change the state of clients."""
    begun, alone, before = [], threading.Lock(), set(threading.enumerate())
    end = connected(begun.append, alone)
    (thread,) = set(threading.enumerate()) - before
    with alone:
        end.send("first")
        time.sleep(0.05)  # it waits for its turn
        end.close()
    thread.join(5)
    assert not thread.is_alive()
    assert begun == []


WHOLE, ARRAY = pickle.dumps(("x",), 5), pickle.dumps((np.zeros(LARGE, np.uint8),), 5)


@pytest.mark.parametrize(
    "sent",
    [b"", WHOLE, WHOLE[:-3], ARRAY[:LARGE], b"\xff" * 10],
    ids=["nothing", "a request", "a part of one", "a part of an array", "no pickle"],
)
def test_a_driver_that_hangs_up_leaves_nothing_at_the_actor(sent):
    """While the actor waits for a request, receives it, or sends an answer."""
    process, before = psutil.Process(), set(threading.enumerate())
    files = process.num_fds()
    begun = threading.Event()

    def answer(x):
        begun.set()
        return np.zeros(LARGE, np.uint8)

    end = Wire(listen(answer, threading.Lock()))
    (thread,) = set(threading.enumerate()) - before
    end._socket.sendall(sent)
    assert sent != WHOLE or begun.wait(5)
    end.close()
    thread.join(5)
    assert not thread.is_alive()
    assert process.num_fds() <= files


def test_the_socket_is_private_needs_the_key_and_goes_away():
    address = path, key = listen(lambda x: x, threading.Lock())
    folder = Path(path).parent
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    with socket.socket(socket.AF_UNIX) as stranger:
        stranger.connect(path)
        stranger.sendall(bytes(len(key) // 2))
        assert stranger.recv(1) == b""  # hung up on
    end = Wire(address)
    assert answered(end, 5) == 5
    assert not folder.exists()
    with pytest.raises(FileNotFoundError):
        Wire(address)
    end.close()


def given_up(monkeypatch):
    """Return the address of an actor that no longer waits for its driver."""
    monkeypatch.setattr(wire, "_CONNECT_S", 0.05)
    path, key = listen(lambda x: x, threading.Lock())
    deadline = time.monotonic() + 5
    while Path(path).parent.exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not Path(path).parent.exists()
    return path, key


def test_a_stranger_in_the_place_of_an_actor_that_gave_up_is_not_heard(monkeypatch):
    """Any user may make a folder of the same name then; a driver would run what it unpickles."""
    path, key = given_up(monkeypatch)
    folder = Path(path).parent
    folder.mkdir()
    got = []

    def pretend(stranger):
        end, _ = stranger.accept()
        with end:
            got.append(end.recv(1000))
            end.sendall(got[0] + pickle.dumps("anything"))

    try:
        with socket.socket(socket.AF_UNIX) as stranger:
            stranger.bind(path)
            stranger.listen()
            with pytest.raises(TimeoutError):  # nobody answers
                Wire((path, key))
            monkeypatch.setattr(wire, "_CONNECT_S", 5.0)
            thread = threading.Thread(target=pretend, args=(stranger,))
            stranger.accept()[0].close()
            thread.start()
            with pytest.raises(ConnectionRefusedError):
                Wire((path, key))
            thread.join(5)
    finally:
        shutil.rmtree(folder)
    assert got == [key[: len(key) // 2]]


def test_a_driver_that_never_connects_leaves_nothing(monkeypatch):
    given_up(monkeypatch)


def test_a_long_path_of_temporary_files_is_avoided(monkeypatch, tmp_path):
    long = tmp_path / ("x" * 120)
    long.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(long))
    address = listen(lambda x: x, threading.Lock())
    assert len(os.fsencode(address[0])) <= 100
    end = Wire(address)
    assert answered(end, 7) == 7
    end.close()


def test_drivers_elsewhere_and_systems_without_such_sockets_get_no_address(monkeypatch, tmp_path):
    monkeypatch.setattr(ray_host, "this_node", lambda: "here")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    actor = ray_host.HostActor.__new__(ray_host.HostActor)  # it would end with this process
    actor.lock = threading.Lock()
    assert actor.listen("there") is None
    monkeypatch.delattr(socket, "AF_UNIX")
    assert actor.listen("here") is None
    assert not list(tmp_path.iterdir())
