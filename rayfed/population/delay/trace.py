"""Delays of measured devices: a table of computing speeds and bandwidths."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Annotated, ClassVar

import numpy as np
from annotated_types import Gt, Interval

from rayfed.core.arrays import Floats, Ints
from rayfed.core.errors import ScenarioError
from rayfed.core.plugins import FilePath
from rayfed.core.rng import Draw
from rayfed.core.tables import MBPS, SECONDS, TraceFile, bound, clients
from rayfed.population.delay.base import Delay

_TRAINING = 3.0  # FedScale's factor of training over inference
_WATTS = "watts"


@dataclass(frozen=True, kw_only=True)
class DelayTrace(Delay):
    """Every client has a device of a table, drawn by the seed, with its speed and its bandwidths.

    The file has a row for each device and the columns ``compute_s``, seconds of computing for one
    sample, and if known ``down_mbps`` and ``up_mbps``, which apply where ``clients.network`` gives
    no bandwidth, and ``watts``, the power of the device while it computes. The columns may also be
    ``compute_ms``, ``down_kbps`` and ``up_kbps``. With a column
    ``client`` of ids, or of names that the data give, these clients have the devices of their rows,
    and all others draw one. The columns of FedScale's device capacities are recognised, with the
    meaning that FedScale gives them: ``computation``, milliseconds of inference for a sample, of
    which training takes three times as many, and ``communication``, kilobits per second in either
    direction (Lai et al., "FedScale: Benchmarking Model and System Performance of Federated
    Learning at Scale", ICML 2022, https://arxiv.org/abs/2105.11367).

    A local step takes ``compute_s`` times its batch, or all rows of the client where the batch is
    full.

    Parameters
    ----------
    file : str
        A CSV or Parquet file, relative to the scenario.
    mean_s : float, optional
        Mean seconds of one local step over the devices: speeds are scaled to it, and the batch
        does not count. If None, the seconds of the file are taken, for each sample.
    correlation : float
        Always 1: a client keeps its device.
    """

    name: ClassVar[str] = "trace"
    linked: ClassVar[bool] = True

    file: FilePath
    mean_s: Annotated[float, Gt(0)] | None = None
    correlation: Annotated[float, Interval(ge=1, le=1)] = 1.0

    _names: tuple[str, ...] | None = field(default=None, init=False, repr=False)

    def named(self, names: Sequence[str]) -> DelayTrace:
        """Return the delay of clients with these names; see `Delay.named`."""
        if self._own is None:
            return self  # the file names no clients, and is read once for all seeds
        made = bound(self, names)
        _ = made._own  # a name that is no client's is refused here
        return made

    @classmethod
    def example(cls, folder: Path) -> DelayTrace:
        """Return a trace of four devices, for checks; see `rayfed.testing.examples`."""
        rows = ["compute_s,down_mbps,up_mbps", "0.5,8,4", "0.25,20,5", "2,4,1", "0.25,50,10"]
        file = folder / "devices.csv"
        file.write_text("\n".join(rows), encoding="utf-8")
        return cls(file=str(file))

    @property
    def by_sample(self) -> bool:
        """Whether the seconds are those of one sample: unless `mean_s` is given."""
        return self.mean_s is None

    def quantile(self, u: Floats) -> Floats:
        """Return the seconds of the device at u, the devices being ordered by speed."""
        return np.asarray(self._seconds[self._device(u)])

    def mean(self) -> float:
        """Return the mean over the devices."""
        return float(np.mean(self._seconds))

    def mbps(self, u: Floats) -> tuple[Floats, Floats]:
        """Return the bandwidths of the devices."""
        device = self._device(u)
        return self._devices[1][device], self._devices[2][device]

    def watts(self, u: Floats) -> Floats | None:
        """Return the power of the devices; None if the file has no column ``watts``."""
        watts = self._devices[3]
        return None if watts is None else watts[self._device(u)]

    def uniforms(self, ids: Ints, draw: Draw, ask: int, *, seed: int) -> Floats:
        """Return u (K,) of the clients' devices, which the file gives or the seed draws."""
        drawn = super().uniforms(ids, draw, ask, seed=seed)
        if self._own is None:
            return drawn
        listed, of_listed = self._own
        at = np.minimum(np.searchsorted(listed, ids), len(listed) - 1)
        return np.where(listed[at] == ids, of_listed[at], drawn)

    def check(self) -> None:
        """Read the file."""
        _ = self._devices

    def check_clients(self, count: int) -> None:
        """Refuse devices of clients that there are not."""
        if self._own is not None and self._own[0][-1] >= count:
            text = f"found client {self._own[0][-1]}; ids go from 0 to {count - 1}"
            raise ScenarioError("file", f"{Path(self.file).name}: {text}")

    def _device(self, u: Floats) -> Ints:
        count = len(self._devices[0])
        return np.minimum((u * count).astype(np.int64), count - 1)

    @cached_property
    def _seconds(self) -> Floats:
        seconds = self._devices[0]
        return seconds if self.mean_s is None else seconds * (self.mean_s / float(seconds.mean()))

    @property
    def _own(self) -> tuple[Ints, Floats] | None:
        """The clients (C,) that the file gives a device, ascending, and u (C,) of each."""
        return self._devices[4]

    @cached_property
    def _devices(
        self,
    ) -> tuple[Floats, Floats, Floats, Floats | None, tuple[Ints, Floats] | None]:
        """Seconds a sample, bandwidths, power if known, the fastest first; and `_own`."""
        table = TraceFile(self.file, "file")
        seconds = table.scaled("compute", SECONDS, above=True)
        if seconds is None and "computation" in table:
            seconds = table.numbers("computation", above=True) * (_TRAINING * 1e-3)
        if seconds is None:
            raise table.missing("compute_s, and down_mbps and up_mbps if they are known")
        rates = [f"{way}_{unit}" for way in ("down", "up") for unit in MBPS]
        if "communication" in table:  # FedScale's table has further rates, which are not read
            rates = []
        table.check_spelling("client", *rates, _WATTS)
        down, up = (self._bandwidth(table, way) for way in ("down", "up"))
        watts = table.numbers(_WATTS) if _WATTS in table else None
        order = np.lexsort((*(() if watts is None else (watts,)), up, down, seconds))
        power = None if watts is None else watts[order]
        own = self._of_clients(table, order) if "client" in table else None
        return seconds[order], down[order], up[order], power, own

    def _of_clients(self, table: TraceFile, order: Ints) -> tuple[Ints, Floats]:
        """Return `_own`, given the order of the rows by speed."""
        ids = clients(table, self._names)
        listed = np.sort(ids)
        for row in np.flatnonzero(np.diff(listed) == 0)[:1]:
            raise table.error(f"client {listed[row]} has two rows; give each client one")
        place = np.argsort(order)  # of each row among the devices
        return listed, (place[np.argsort(ids)] + 0.5) / len(ids)

    def _bandwidth(self, table: TraceFile, way: str) -> Floats:
        """Return a column of bandwidths in megabits per second; infinite where there is none."""
        rates = table.scaled(way, MBPS, above=True)
        if rates is not None:
            return rates
        if "communication" in table:
            return table.numbers("communication", above=True) * 1e-3
        return np.full(len(table.frame), np.inf)
