"""Checks of faults of clients."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from rayfed.channel.base import Draws
from rayfed.channel.faults import Collusion, Fault, Knowledge, UploadFault
from rayfed.core.needs import VECTORS
from rayfed.core.rng import Key
from rayfed.testing.checks.common import frozen_copies, require, require_equal

_K, _P = 4, 6


def check_uploads(fault: UploadFault) -> None:
    """Check that an upload keeps size and type, and has the same bits alone and with others."""
    rng = np.random.default_rng(3)
    v = rng.standard_normal((_K, _P)).astype(np.float32)
    memory = np.full_like(v, np.nan) if fault.keeps else v[:, :0]
    draws = Draws(Key(1, "fault"), np.arange(_K), 2)
    frozen_copies({"v": v, "memory": memory})
    found, after = fault.sent(v, draws, memory, fault.start)
    same = found.shape == v.shape and found.dtype == v.dtype
    require(same, f"{fault}: {found.dtype} {found.shape} is sent for {v.dtype} {v.shape}")
    require(after.shape == memory.shape, f"{fault}: keeps {after.shape}, not {memory.shape}")
    for k in range(_K):
        one = np.array([k])
        alone, _ = fault.sent(v[one], draws.part(one), memory[one], fault.start)
        require_equal(alone[0], found[k], f"{fault}: row {k} alone and with others")


def check_collusion(fault: Collusion) -> None:
    """Check that colluding clients upload one vector, and the state keeps its names."""
    v = np.random.default_rng(4).standard_normal((_K, _P))
    v.flags.writeable = False  # as in a run, where they are the vectors that the server gets
    state = dict(fault.init(_P, Key(1, "fault").uniforms([0], _P)[0]))
    ids, rows = np.arange(3, 3 + _K), v if VECTORS in fault.needs else None
    known = Knowledge(v.mean(0), (v * v).mean(0), _K, 2, rows, ids)
    before = frozen_copies(state)
    found, after = fault.sent(known, state)
    require(found.shape == (_P,), f"{fault}: {found.shape} is sent, not one vector")
    require(set(after) == set(state), f"{fault}: {set(after)} is remembered, not {set(state)}")
    for name, rows in state.items():
        require_equal(rows, before[name], f"{fault} changes '{name}' in place")


def check_kind(cls: type[Fault], folder: Path) -> None:
    """Check that a fault affects one thing: uploads, alone or together, rows, or silence."""
    ways = (issubclass(cls, UploadFault), issubclass(cls, Collusion), cls.rows, cls.silent)
    require(sum(ways) == 1, f"{cls.__name__} is none, or several, of the kinds of faults")
