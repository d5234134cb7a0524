"""The benchmark of Ray nodes with a slow network between them: its links, router and forecast."""

import os
import socket
import subprocess
from contextlib import contextmanager
from threading import Thread
from time import monotonic

import pytest

from benchmarks import nodes
from benchmarks.nodes import Links
from tests.fakes.namespaces import Forbidden

A, B = b"\x0a\x00\x00\x01", b"\x0a\x00\x00\x02"


def arrivals(links):
    """Return when packets arrive, in order, with targets and lengths."""
    found = []
    while (at := links.next_s) is not None:
        found += [(round(at, 9), target, len(packet)) for target, packet in links.due(at)]
    return found


def test_a_packet_passes_both_links_and_the_delay():
    links = Links(rate=8000.0, delay_s=5.0, queue_s=10.0)  # 1000 bytes a second
    links.send(1.0, 0, 1, bytes(500))
    assert arrivals(links) == [(1 + 0.5 + 5 + 0.5, 1, 500)]


def test_packets_of_one_node_wait_for_its_link_and_others_do_not():
    links = Links(rate=8000.0, delay_s=5.0, queue_s=10.0)
    links.send(0.0, 0, 1, bytes(1000))
    links.send(0.0, 0, 2, bytes(1000))
    links.send(0.0, 3, 0, bytes(500))
    assert arrivals(links) == [(6.0, 0, 500), (7.0, 1, 1000), (8.0, 2, 1000)]


def test_packets_to_one_node_wait_for_its_link_in_the_order_of_their_coming():
    links = Links(rate=8000.0, delay_s=5.0, queue_s=10.0)
    links.send(0.0, 0, 2, bytes(2000))  # comes at 7
    links.send(0.0, 1, 2, bytes(1000))  # comes at 6
    assert arrivals(links) == [(7.0, 2, 1000), (9.0, 2, 2000)]


def test_a_packet_that_would_wait_too_long_is_dropped():
    links = Links(rate=8000.0, delay_s=0.0, queue_s=1.0)
    for size in (1000, 1001, 1002, 1003):  # waits of 0, 1.0, 2.001 and 2.001 seconds
        links.send(0.0, 0, 1, bytes(size))
    assert [size for *_, size in arrivals(links)] == [1000, 1001]
    for source in (0, 1, 3):  # and at the link of the target
        links.send(10.0, source, 2, bytes(1500))
    assert len(arrivals(links)) == 1


def packet(target, text):
    """Return an IPv4 packet, as far as the router reads it."""
    return b"\x45" + bytes(15) + target + text


def test_the_router_carries_packets_by_address_and_no_others():
    (a, end_a), (b, end_b) = (socket.socketpair(type=socket.SOCK_SEQPACKET) for _ in range(2))
    links = Links(rate=1e9, delay_s=0.02, queue_s=1.0)
    ends = {A: end_a.fileno(), B: end_b.fileno()}
    router = Thread(target=nodes.forward, args=(ends, links))
    router.start()
    began = monotonic()
    a.send(b"\x60" + bytes(15) + B)  # IPv6
    a.send(packet(b"\x0a\x00\x00\x09", b"nobody has this address"))
    a.send(packet(B, b"one"))
    a.send(packet(B, b"two"))
    b.settimeout(10)
    assert [b.recv(100)[20:] for _ in range(2)] == [b"one", b"two"]
    assert monotonic() - began >= 0.02
    b.send(packet(A, b"back"))
    assert a.recv(100)[20:] == b"back"
    a.close()
    router.join(10)
    assert not router.is_alive()
    for each in (b, end_a, end_b):
        each.close()


def test_the_forecast_counts_models_through_the_link_of_the_driver():
    # 3 down and 3 up of 40 MB at 12.5 MB/s; without combiners 6 up
    assert nodes.forecast(4, 40, True) == pytest.approx(6 * 3.2)
    assert nodes.forecast(4, 40, False) == pytest.approx(9 * 3.2)
    assert nodes.forecast(1, 40, True) == 0


class Here:
    """This machine, as one of the network."""

    def started(self, *command, **variables):
        output = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
        return subprocess.Popen(command, env=os.environ | {"PYTHONPATH": "."}, **output)


def test_a_function_is_called_on_a_node():
    assert nodes.here(Here(), "forecast", 4, 40, True) == pytest.approx(6 * 3.2)
    with pytest.raises(RuntimeError, match=r"forecast: exit status 1\n(.*\n)*TypeError"):
        nodes.here(Here(), "forecast", 4)


def test_without_rights_one_line_says_so(capsys, monkeypatch):
    @contextmanager
    def network(folder):
        raise Forbidden("/dev/net/tun: Operation not permitted")
        yield

    monkeypatch.setattr(nodes, "network", network)
    assert nodes.main([]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    assert "Operation not permitted; run as root" in line


def test_a_device_that_may_not_be_made_is_forbidden(monkeypatch):
    def refuse(*given):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(Forbidden, match="/dev/net/tun: Operation not permitted"):
        nodes.tun("rf0")


@pytest.mark.slow
def test_the_network_has_its_delay_and_its_rate(tmp_path):
    try:
        with nodes.network(tmp_path) as (machines, _):
            back_ms, rate = nodes.measured(machines[1], machines[0])
    except Forbidden as error:
        pytest.skip(f"no network namespaces here: {error}")
    assert back_ms >= 10.0
    assert rate <= 100.0
