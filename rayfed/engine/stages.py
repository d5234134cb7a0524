"""Stages of tasks with unknown ends, as values.

A task downloads, computes and uploads. Where clients share the server's bandwidth (`Transfers`), or
send while they go on (`Overlap`), when it ends depends on what begins later. Both say when the next
thing happens, whose replies are there then, whose tasks are lost, and which clients are free. What
becomes of a task is not decided here.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass, field, fields
from typing import NamedTuple

import numpy as np

from rayfed.core.arrays import Array, Floats, under
from rayfed.engine.clock import MOST_BREAKS, Times
from rayfed.engine.link import Link
from rayfed.engine.tasks import USED, Task, Tasks
from rayfed.population import Population, Server
from rayfed.population.server import BYTES_PER_S

_SIDES = ("down", "up")
_STAGES = ("computing", "ready", "sending", "first")


class Progress(NamedTuple):
    """Serial numbers of tasks that arrived or were lost by a moment.

    Beside the numbers of those that have arrived stands when their clients had computed. `free` are
    clients that can begin another task before theirs is over.
    """

    arrived: dict[int, float]
    lost: list[int]
    free: list[int]


@dataclass(slots=True)
class Sender:
    """A busy client on a shared link.

    Parameters
    ----------
    client, serial : int
        Who, and the number of the task.
    down, up : float
        Bytes of the download and of the upload.
    down_cap, up_cap : float
        Bytes/s of its own connection in each direction; inf if unlimited.
    latency_s, compute_s : float
        Latency of each transfer, and seconds of computing behind the download.
    computed_s : float
        When it has computed what need not wait for the download; -inf if all of it does.
    free_s : float
        When it has computed and downloaded; inf until then.
    breaks : int
        How often it has gone away.
    """

    client: int
    serial: int
    down: float
    up: float
    down_cap: float
    up_cap: float
    latency_s: float
    compute_s: float
    computed_s: float = -math.inf
    free_s: float = math.inf
    breaks: int = 0


def _table(rows: Iterable[tuple[float, ...]], width: int) -> Floats:
    """Return rows as an array, also if there are none."""
    return np.array(list(rows), dtype=np.float64).reshape(-1, width)


class Transfers:
    """Tasks with a shared server bandwidth: each downloads, computes and uploads.

    A client that comes back goes on where it stood still, if `population` is given; what it had
    on the link leaves it meanwhile.

    Parameters
    ----------
    down, up : Link
        The server's bandwidth in each direction.
    population : Population, optional
        Who goes away and comes back, where tasks stand still meanwhile. It is no part of the
        values: who reads a checkpoint sets it again.

    Attributes
    ----------
    senders : dict of int to Sender
        The unfinished tasks, by client.
    sending : list of (float, int)
        A heap: when the uploads of clients reach the server's link.
    turns : list of (float, int)
        A heap: when clients go away, or come back.
    absent : dict of int to (int, float)
        Where clients stood still: 0 while they were downloading, 1 before they sent, 2 while they
        were uploading; and the bytes, or seconds, that were left.
    """

    def __init__(self, down: Link, up: Link, population: Population | None = None) -> None:
        self.down, self.up, self.population = down, up, population
        self.senders: dict[int, Sender] = {}
        self.sending: list[tuple[float, int]] = []
        self.turns: list[tuple[float, int]] = []
        self.absent: dict[int, tuple[int, float]] = {}
        self._next_s: float | None = None  # unknown since something changed

    @classmethod
    def by(cls, server: Server, population: Population | None) -> Transfers:
        """Return a server's link, on which nothing is under way."""
        down, up = server.capacities
        return cls(Link(down), Link(up), population)

    @property
    def next_s(self) -> float:
        """When the next transfer begins or ends, or a client goes or comes; inf if nothing will."""
        if self._next_s is None:
            first = min(self.down.next_s, self.up.next_s)
            for heap in (self.sending, self.turns):
                if heap and heap[0][0] < first:
                    first = heap[0][0]
            self._next_s = first
        return self._next_s

    def begin(
        self, now_s: float, tasks: Tasks, times: Times, population: Population,
        ahead: bool = False,
    ) -> None:  # fmt: skip
        """Let clients begin tasks (K,) with their downloads.

        Parameters
        ----------
        now_s : float
        tasks : Tasks
            Those who are away when it begins are left out, unless tasks stand still.
        times : Times
            When each goes away next is looked at where tasks stand still.
        population : Population
            The clients' own links.
        ahead : bool
            Whether computing does not wait for the download.
        """
        latency, *mbps = population.links(tasks.client)
        down_caps, up_caps = (mb * BYTES_PER_S for mb in mbps)
        waits_s, computed_s = tasks.compute_s, np.full(len(tasks), -math.inf)
        if ahead:
            waits_s, computed_s = np.zeros(len(tasks)), tasks.start_s + tasks.compute_s
        columns = (tasks.client, tasks.serial, tasks.down_bytes.astype(np.float64),
                   tasks.up_bytes.astype(np.float64), down_caps, up_caps, latency, waits_s,
                   computed_s)  # fmt: skip
        senders = map(Sender, *(column.tolist() for column in columns))
        begun = []
        leaving = zip(senders, tasks.gone_s.tolist(), times.away_s.tolist(), strict=True)
        for sender, gone_s, leaves_s in leaving:
            if gone_s <= now_s:
                continue
            client = sender.client
            self.senders[client] = sender
            if self.population is not None and leaves_s <= now_s:
                back_s = float(population.next_change(np.array([client]), now_s)[0])
                if math.isfinite(back_s):
                    self.absent[client] = 0, sender.down
                    leaves_s = back_s
            else:
                begun.append((client, sender.down, sender.down_cap))
            if self.population is not None and math.isfinite(leaves_s):
                heapq.heappush(self.turns, (leaves_s, client))
        self._next_s = None
        self._compute(now_s, self.down.change(now_s, begun))

    def advance(self, now_s: float) -> Progress:
        """Move on to a time that is not after `next_s`."""
        arrived: list[int] = []
        lost: list[int] = []
        while self.next_s <= now_s:
            self._next_s = None
            self._compute(now_s, self.down.change(now_s))
            begun = []
            while self.sending and self.sending[0][0] <= now_s:
                sender = self.senders[heapq.heappop(self.sending)[1]]
                begun.append((sender.client, sender.up, sender.up_cap))
            arrived += self.up.change(now_s, begun)
            while self.turns and self.turns[0][0] <= now_s:
                client = heapq.heappop(self.turns)[1]
                if client in arrived:
                    continue
                if client in self.absent:
                    arrived += self._come_back(now_s, client)
                elif not self._stand_still(now_s, client):
                    lost.append(self.senders[client].serial)
        senders = (self.senders[client] for client in arrived)
        return Progress({sender.serial: sender.free_s for sender in senders}, lost, [])

    def leave(self, now_s: float, task: Task) -> bool:
        """Take away a task that is over, which occupies the link no longer."""
        client = task.client
        if self.senders.pop(client, None) is None:
            return True
        self._next_s = None
        if task.status != USED:
            self._take_off(now_s, client)
        self.absent.pop(client, None)
        if self.turns:
            self.turns = [entry for entry in self.turns if entry[1] != client]
            heapq.heapify(self.turns)
        return True

    def arrays(self) -> dict[str, Array]:
        """Return everything as named arrays."""
        links = {
            f"{side}.{k}": v for side in _SIDES for k, v in getattr(self, side).arrays().items()
        }
        return links | {
            "senders": _table(map(astuple, self.senders.values()), len(fields(Sender))),
            "sending": _table(self.sending, 2),
            "turns": _table(self.turns, 2),
            "absent": _table(((client, *where) for client, where in self.absent.items()), 3),
        }

    @classmethod
    def of(cls, arrays: Mapping[str, Array]) -> Transfers:
        """Return transfers from the result of `arrays`."""
        down, up = (Link.of(under(arrays, f"{side}.")) for side in _SIDES)
        made = cls(down, up)
        for row in arrays["senders"].tolist():
            sender = Sender(*row)
            sender.client, sender.serial = int(sender.client), int(sender.serial)
            made.senders[sender.client] = sender
        made.sending = [(t, int(client)) for t, client in arrays["sending"].tolist()]
        made.turns = [(t, int(client)) for t, client in arrays["turns"].tolist()]
        made.absent = {int(c): (int(at), left) for c, at, left in arrays["absent"].tolist()}
        return made

    def _compute(self, now_s: float, clients: Iterable[int]) -> None:
        """Start computing on clients after their downloads have left the server."""
        for client in clients:
            sender = self.senders[client]
            computed_s = now_s + sender.latency_s + sender.compute_s
            sender.free_s = max(computed_s, sender.computed_s)
            heapq.heappush(self.sending, (sender.free_s + sender.latency_s, client))

    def _take_off(self, now_s: float, client: int) -> tuple[int, float]:
        """Remove a client from the link or the upload queue; return its former position."""
        for at, link in ((0, self.down), (2, self.up)):
            left = link.leave(now_s, client)
            if left is not None:
                return at, left
        sends_s = next((t for t, other in self.sending if other == client), now_s)
        self.sending = [entry for entry in self.sending if entry[1] != client]
        heapq.heapify(self.sending)
        return 1, sends_s - now_s

    def _stand_still(self, now_s: float, client: int) -> bool:
        """Let a client go away; return whether it comes back to its task."""
        assert self.population is not None
        sender = self.senders[client]
        sender.breaks += 1
        back_s = float(self.population.next_change(np.array([client]), now_s)[0])
        if not math.isfinite(back_s) or sender.breaks > MOST_BREAKS:
            return False
        self.absent[client] = self._take_off(now_s, client)
        heapq.heappush(self.turns, (back_s, client))
        return True

    def _come_back(self, now_s: float, client: int) -> Sequence[int]:
        """Resume a client; return the clients with immediate replies."""
        assert self.population is not None
        leaves_s = float(self.population.next_change(np.array([client]), now_s)[0])
        if math.isfinite(leaves_s):
            heapq.heappush(self.turns, (leaves_s, client))
        (at, left), sender = self.absent.pop(client), self.senders[client]
        if at == 1:
            heapq.heappush(self.sending, (now_s + left, client))
        elif at == 2:
            return self.up.change(now_s, [(client, left, sender.up_cap)])
        else:
            self._compute(now_s, self.down.change(now_s, [(client, left, sender.down_cap)]))
        return ()


@dataclass
class Overlap:
    """The unfinished tasks: each downloads, computes, and uploads while the next one begins.

    A client is free when it has computed and its upload before has left. So it has one task at a
    time that is not sent, and one at most that is. Then it sends; if it begins another task at the
    same moment, the link determines the order. A full-duplex link carries both. A half-duplex one
    carries the download first, since computing waits for it, and then the upload; a download that
    is asked for while an upload is under way waits for it.

    Parameters
    ----------
    computing : dict of int to (int, float, float)
        The task of a client that is not sent: its serial number, when the client has computed it,
        and the seconds of its upload.
    ready : dict of int to (int, float)
        Tasks that may be sent from now on: serial number and seconds of the upload.
    sending : dict of int to (int, float)
        Tasks that are being sent: serial number, and when they arrive.
    first : dict of int to (int, float)
        On half-duplex links the task whose transfer came first of two, and when it leaves the link;
        if it is given up before, the other one has the link from then on.
    """

    computing: dict[int, tuple[int, float, float]] = field(default_factory=dict)
    ready: dict[int, tuple[int, float]] = field(default_factory=dict)
    sending: dict[int, tuple[int, float]] = field(default_factory=dict)
    first: dict[int, tuple[int, float]] = field(default_factory=dict)

    @property
    def next_s(self) -> float:
        """When the next reply arrives or the next client is free; inf if nothing is under way."""
        arrive_s = min((end_s for _, end_s in self.sending.values()), default=math.inf)
        free_s = min((self._free_s(client) for client in self.computing), default=math.inf)
        return min(arrive_s, free_s)

    def advance(self, now_s: float) -> Progress:
        """Let replies arrive until now, and free the clients that have computed."""
        over = [client for client, (_, end_s) in self.sending.items() if end_s <= now_s]
        arrived = [self.sending.pop(client)[0] for client in over]
        free = sorted(client for client in self.computing if self._free_s(client) <= now_s)
        for client in free:
            serial, _, up_s = self.computing.pop(client)
            if up_s:
                self.ready[client] = serial, up_s
            else:  # it arrives before anybody begins anew
                arrived.append(serial)
        return Progress(dict.fromkeys(arrived, math.inf), [], free)

    def begin(self, now_s: float, tasks: Tasks, times: Times, population: Population) -> None:
        """Let free clients begin tasks (K,), as `Transfers.begin` does."""
        duration, half = times.duration, population.half_duplex(tasks.client)
        columns = (tasks.client, tasks.serial, half, duration.down_s, duration.compute_s,
                   duration.up_s)  # fmt: skip
        rows = zip(*(column.tolist() for column in columns), strict=True)
        for client, serial, waits, down_s, compute_s, up_s in rows:
            start_s = now_s
            if waits and client in self.sending:
                self.first[client] = self.sending[client]
                start_s = self.sending[client][1]
            got_s = start_s + down_s
            self.computing[client] = serial, got_s + compute_s, up_s
            if waits and client in self.ready:
                sent, seconds = self.ready.pop(client)
                self.sending[client] = sent, got_s + seconds
                self.first[client] = serial, got_s

    def send(self, now_s: float) -> None:
        """Start all ready transfers; their clients start nothing else before them."""
        for client, (serial, up_s) in self.ready.items():
            self.sending[client] = serial, now_s + up_s
        self.ready.clear()

    def leave(self, now_s: float, task: Task) -> bool:
        """Take away a task that is over; return whether it was not yet sent."""
        client, serial = task.client, task.serial
        first, until_s = self.first.get(client, (0, now_s))
        if first == serial and now_s < until_s:
            self._hasten(client, serial, until_s - now_s)
        if client in self.computing and self.computing[client][0] == serial:
            del self.computing[client]
            return True
        for stage in (self.ready, self.sending):
            if client in stage and stage[client][0] == serial:
                del stage[client]
        return False

    def _hasten(self, client: int, given_up: int, by_s: float) -> None:
        """Let the other transfer of a client begin earlier than behind that of a task."""
        if client in self.computing and self.computing[client][0] != given_up:
            serial, computed_s, up_s = self.computing[client]
            self.computing[client] = serial, computed_s - by_s, up_s
        elif client in self.sending:
            serial, end_s = self.sending[client]
            self.sending[client] = serial, end_s - by_s
        del self.first[client]

    def holds(self, task: Task) -> bool:
        """Whether a task holds its place, or did until this moment: it is not being sent."""
        return any(
            task.client in stage and stage[task.client][0] == task.serial
            for stage in (self.computing, self.ready)
        )

    def _free_s(self, client: int) -> float:
        """Return when a client has computed, and its upload before has left."""
        return max(self.computing[client][1], self.sending.get(client, (0, -math.inf))[1])

    def arrays(self) -> dict[str, Array]:
        """Return everything as named arrays."""
        return {
            name: np.array([(k, *v) for k, v in getattr(self, name).items()], dtype=np.float64)
            for name in _STAGES
        }

    @classmethod
    def of(cls, arrays: Mapping[str, Array]) -> Overlap:
        """Return stages from the result of `arrays`."""
        return cls(*(
            {int(client): (int(serial), *times) for client, serial, *times in arrays[name].tolist()}
            for name in _STAGES
            if name in arrays  # earlier checkpoints have no `first`
        ))  # fmt: skip
