"""Rounds of four Ray nodes with a slow network between them: ``python -m benchmarks.nodes``.

Each node is a network namespace of this machine with a TUN device. One process routes the packets
between the devices: 100 Mbit/s up and down for each node, 5 ms one way between two nodes. The
network is measured before the rounds. Without root and iproute2 one line gives the reason.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import multiprocessing
import os
import shutil
import socket
import struct
import sys
import sysconfig
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from heapq import heappop, heappush
from itertools import count
from pathlib import Path
from select import select
from time import monotonic, perf_counter
from typing import Any

import numpy as np
import psutil

import rayfed
from benchmarks.placing import scenario
from rayfed.runs.ray.actors import StudyActors
from tests.fakes.namespaces import Forbidden, Machine

ROOT = Path(__file__).parents[1]
NODES, ACTORS = 4, 2
"""Ray nodes, and client actors of each; the first one has the driver."""
RATE, DELAY_S, QUEUE_S = 100e6, 0.005, 0.1
"""Bits a second of each node and direction, one way between two nodes, longest wait at a link."""
MTU, PORT = 9000, 6379
SIZES_MB = (1, 40)
MANY = 64
"""Nodes of the forecast."""
TUNSETIFF, IFF_TUN, IFF_NO_PI = 0x400454CA, 0x0001, 0x1000
VARIABLES = {
    "PYTHONPATH": str(ROOT),
    "RAY_AUTH_MODE": "disabled",  # nothing else reaches these networks
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": None,
    "RAY_worker_niceness": "0",
}


class Links:
    """Links of all nodes to a switch, each with a rate up and down, and a delay between two.

    Parameters
    ----------
    rate : float
        Bits a second.
    delay_s, queue_s : float
        From link to link; a packet that would wait longer at a link is dropped.
    """

    def __init__(self, rate: float, delay_s: float, queue_s: float) -> None:
        self.rate, self.delay_s, self.queue_s = rate, delay_s, queue_s
        self._free = dict[tuple[str, int], float]()
        self._going: list[tuple[float, int, bool, int, bytes]] = []
        self._numbers = count()

    @property
    def next_s(self) -> float | None:
        """Time of the next event; None without packets under way."""
        return self._going[0][0] if self._going else None

    def send(self, now: float, source: int, target: int, packet: bytes) -> None:
        """Take a packet of a node to another."""
        if (ends := self._passed(("up", source), now, packet)) is not None:
            self._push(ends + self.delay_s, False, target, packet)

    def due(self, now: float) -> Iterator[tuple[int, bytes]]:
        """Yield the packets that have arrived, with their targets."""
        while self._going and self._going[0][0] <= now:
            at, _, down, target, packet = heappop(self._going)
            if down:
                yield target, packet
            elif (ends := self._passed(("down", target), at, packet)) is not None:
                self._push(ends, True, target, packet)

    def _passed(self, link: tuple[str, int], now: float, packet: bytes) -> float | None:
        """Return the time at which a link has passed a packet; None if it drops it."""
        begins = max(now, self._free.get(link, 0.0))
        if begins - now > self.queue_s:
            return None
        self._free[link] = begins + 8 * len(packet) / self.rate
        return self._free[link]

    def _push(self, at: float, down: bool, target: int, packet: bytes) -> None:
        heappush(self._going, (at, next(self._numbers), down, target, packet))


def forward(ends: Mapping[bytes, int], links: Links) -> None:
    """Carry IPv4 packets between files until one of them is closed.

    Parameters
    ----------
    ends : mapping of bytes to int
        The file of each address; one read is one packet.
    links : Links
    """
    nodes = {end: node for node, end in enumerate(ends.values())}
    files, targets = list(nodes), {address: nodes[end] for address, end in ends.items()}
    while True:
        wait = None if links.next_s is None else max(0.0, links.next_s - monotonic())
        for end in select(files, [], [], wait)[0]:
            packet = os.read(end, 65536)
            if not packet:
                return
            target = targets.get(packet[16:20]) if packet[0] >> 4 == 4 else None
            if target is not None:
                links.send(monotonic(), nodes[end], target, packet)
        for target, packet in links.due(monotonic()):
            os.write(files[target], packet)


def tun(name: str) -> int:
    """Make a TUN device and return its file.

    Raises
    ------
    Forbidden
        If this user may not.
    """
    try:
        end = os.open("/dev/net/tun", os.O_RDWR)
        fcntl.ioctl(end, TUNSETIFF, struct.pack("16sH22x", name.encode(), IFF_TUN | IFF_NO_PI))
    except OSError as error:
        raise Forbidden(f"/dev/net/tun: {error.strerror}") from error
    return end


@contextmanager
def network(folder: Path) -> Iterator[tuple[list[Machine], psutil.Process]]:
    """Make the nodes and the process between them; at the end remove both and all within.

    Raises
    ------
    Forbidden
        If this user may not, or iproute2 is missing.
    """
    own = f"rf{os.getpid()}"
    machines, ends = [], {}
    with ExitStack() as stack:
        for node in range(NODES):
            machine = Machine(f"{own}-{node}", f"10.214.7.{node + 1}/24", folder / str(node))
            end = ends[socket.inet_aton(machine.address)] = tun(f"{own}n{node}")
            stack.callback(os.close, end)
            stack.callback(machine.end)
            machine.make(f"{own}n{node}")
            machine.called("ip", "link", "set", machine.cable, "mtu", str(MTU))
            machines.append(machine)
        links = Links(RATE, DELAY_S, QUEUE_S)
        process = multiprocessing.get_context("fork").Process(target=forward, args=(ends, links))
        process.start()
        stack.callback(process.join)
        stack.callback(process.terminate)
        yield machines, psutil.Process(process.pid)


def here(machine: Machine, function: str, *given: Any) -> Any:
    """Call a function of this module on a node, and return its result, which is plain.

    Raises
    ------
    RuntimeError
        If it fails.
    """
    code = f"import benchmarks.nodes as b; b.print_json(b.{function}(*{given!r}))"
    with machine.started(sys.executable, "-c", code, **VARIABLES) as process:
        printed, _ = process.communicate()  # `Machine.called` ends after five minutes
    if process.returncode:
        raise RuntimeError(f"{function}: exit status {process.returncode}\n{printed}")
    return json.loads(printed.splitlines()[-1])


def print_json(result: Any) -> None:
    """Print a result as the last line."""
    print(json.dumps(result), flush=True)


def answer(address: str, messages: int) -> None:
    """Send back single bytes, then take bytes to their end, and send one."""
    with socket.create_server((address, PORT)) as server:
        print("ready", flush=True)
        peer, _ = server.accept()
        with peer:
            peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for _ in range(messages):
                peer.sendall(peer.recv(1))
            while peer.recv(1 << 20):
                pass
            peer.sendall(b"e")


def probe(address: str, messages: int, size: int) -> tuple[float, float]:
    """Return the median milliseconds of a byte there and back, and Mbit/s of a transfer."""
    with socket.create_connection((address, PORT)) as peer:
        peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        times = []
        for _ in range(messages):
            began = perf_counter()
            peer.sendall(b"a")
            peer.recv(1)
            times.append(perf_counter() - began)
        began = perf_counter()
        peer.sendall(bytes(size))
        peer.shutdown(socket.SHUT_WR)
        peer.recv(1)
        return float(np.median(times)) * 1e3, 8e-6 * size / (perf_counter() - began)


def measured(source: Machine, target: Machine) -> tuple[float, float]:
    """Measure the network between two nodes; see `probe`."""
    code = f"import benchmarks.nodes as b; b.answer({target.address!r}, 50)"
    with target.started(sys.executable, "-c", code, **VARIABLES) as server:
        assert server.stdout is not None
        server.stdout.readline()
        found = here(source, "probe", target.address, 50, 25_000_000)
    return found[0], found[1]


def start_ray(machines: Sequence[Machine], folder: Path) -> None:
    """Start a Ray node on each machine, the head on the first.

    Raises
    ------
    RuntimeError
        If one does not start.
    """
    ray, head = Path(sysconfig.get_path("scripts")) / "ray", machines[0]
    for machine in machines:
        joins = [f"--address={head.address}:{PORT}"]
        leads = ["--head", f"--port={PORT}", f"--temp-dir={folder}", "--include-dashboard=false"]
        done = machine.called(
            ray, "start", *(leads if machine is head else joins), f"--num-cpus={ACTORS}",
            f"--node-ip-address={machine.address}", f"--object-store-memory={10**9}",
            "--disable-usage-stats", **VARIABLES,
        )  # fmt: skip
        if done.returncode:
            raise RuntimeError(f"ray start on {machine.address}: {done.stdout}")


def study(address: str, megabytes: int, rounds: int, combined: bool) -> float:
    """Return the median seconds of a round with all clients, one at each actor."""
    if not combined:
        StudyActors._start_combiner = lambda *_: None  # type: ignore[method-assign]
    way = {"name": "ray", "clients_per_actor": 1, "driver_hosts": False}
    given = {**scenario(megabytes * 250_000, rounds, NODES * ACTORS, way), "seeds": [0]}
    given["checkpoint"] = {"every_s": 3600}
    with tempfile.TemporaryDirectory() as place:
        rayfed.run(given, out=Path(place) / "out", address=address, page=False)
        asked = rayfed.load(Path(place) / "out").rounds.asked_s.dropna()
    return float(np.median(np.diff(asked)))


def forecast(nodes: int, megabytes: float, combined: bool) -> float:
    """Return the seconds that the link of the driver's node takes for the models of a round.

    The model goes to each other node once. One sum comes back from each with combiners, and the
    upload of each actor without.
    """
    models = (nodes - 1) * (1 + (1 if combined else ACTORS))
    return models * megabytes * 8e6 / RATE


def main(given: Sequence[str] | None = None) -> int:
    """Measure the network and the rounds, and print them next to the forecast."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.nodes", description=__doc__)
    parser.add_argument("--rounds", type=int, default=4, help="of 40 MB (4); of 1 MB 5 times")
    asked = parser.parse_args(given)
    folder = Path(tempfile.mkdtemp(prefix="rf-", dir="/tmp"))  # paths of sockets must be short
    try:
        with network(folder) as (machines, between):
            _measure(machines, between, folder, asked.rounds)
    except Forbidden as error:
        print(f"benchmarks.nodes: {error}; run as root, with iproute2 and /dev/net/tun")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return 0


def _measure(
    machines: Sequence[Machine], between: psutil.Process, folder: Path, rounds: int
) -> None:
    back_ms, rate = measured(machines[1], machines[0])
    print(f"network: {back_ms:.1f} ms there and back, {rate:.0f} Mbit/s", flush=True)
    start_ray(machines, folder / "ray")
    print(f"| model | combiners | s a round | links alone | {MANY} nodes, links alone | router |")
    print("|---|---|---:|---:|---:|---:|", flush=True)
    address = f"{machines[0].address}:{PORT}"
    for megabytes in SIZES_MB:
        for combined in (True, False):
            began, used = monotonic(), sum(between.cpu_times()[:2])
            many = rounds if megabytes > 1 else 5 * rounds
            took = here(machines[0], "study", address, megabytes, many, combined)
            busy = (sum(between.cpu_times()[:2]) - used) / (monotonic() - began)
            few, most = (forecast(n, megabytes, combined) for n in (NODES, MANY))
            print(
                f"| {megabytes} MB | {'yes' if combined else 'no'} | {took:.2f} | {few:.2f} "
                f"| {most:.1f} | {100 * busy:.0f} % |",
                flush=True,
            )


if __name__ == "__main__":
    raise SystemExit(main())
