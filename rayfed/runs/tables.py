"""The tables of a study in one file, which every process maps: they are in memory once."""

from __future__ import annotations

import mmap
import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_ALIGN = 64  # bytes; arrays begin at multiples of it, as they do in memory


def write_tables(path: Path, tables: Mapping[str, Any]) -> None:
    """Write tables so that `read_tables` maps their arrays."""
    buffers: list[pickle.PickleBuffer] = []
    head = pickle.dumps(dict(tables), protocol=5, buffer_callback=buffers.append)
    sizes = [len(buffer.raw()) for buffer in buffers]
    with path.open("wb") as file:
        pickle.dump((head, sizes), file)
        for buffer in buffers:
            file.write(b"\0" * (-file.tell() % _ALIGN))
            file.write(buffer.raw())


def read_tables(path: Path) -> dict[str, Any]:
    """Return the tables of a file, whose arrays are mapped and cannot be written."""
    with path.open("rb") as file:
        head, sizes = pickle.load(file)
        place = file.tell()
        held = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    whole, buffers = memoryview(held), []
    for size in sizes:
        place += -place % _ALIGN
        buffers.append(whole[place : place + size])
        place += size
    tables: dict[str, Any] = pickle.loads(head, buffers=buffers)
    return tables
