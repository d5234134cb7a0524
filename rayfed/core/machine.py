"""Resources of this machine: memory, as far as this process may use it, and scratch space."""

from __future__ import annotations

import ctypes
import os
import tempfile
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

SCRATCH = "RAYFED_SCRATCH"
"""Environment variable with the folder for scratch files."""

_LONGEST = 103
"""Bytes of a Unix socket's path; some systems allow 103, others 107."""
_CGROUPS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")
_CGROUP = Path("/sys/fs/cgroup")
_QUOTAS = (("cpu.max",), ("cpu/cpu.cfs_quota_us", "cpu/cpu.cfs_period_us"))
"""Files with the microseconds of CPUs in a period, and the period: of versions 2 and 1."""
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
_UNKNOWN = 2**33  # bytes, if the system does not say how much memory it has
_CPUS = Path("/sys/devices/system/cpu")
_FACTS = ("level", "type", "size", "shared_cpu_map")
_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8  # of malloc.h
_RETAINED = 2**28  # bytes, of each process
_RETAINED_BEFORE = 2**25  # the most that older ones take for an array, 2.34 among them


class Caches(NamedTuple):
    """Bytes of the caches that one core computes in.

    Parameters
    ----------
    own : int
        Of the second level, which belongs to a core.
    share : int
        The core's part of the last level, at least `own`.
    """

    own: int = 2**20
    share: int = 2**23


def memory_bytes() -> int:
    """Return the bytes of memory of this machine, or of the container that this process is in."""
    found = []
    with suppress(AttributeError, ValueError, OSError):  # not on Windows
        found.append(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    for path in _CGROUPS:
        with suppress(OSError, ValueError):  # "max" is no number
            found.append(int(Path(path).read_text(encoding="ascii")))
    return min(found, default=_UNKNOWN)


def cpus(cgroup: Path = _CGROUP) -> int:
    """Return the number of CPUs available to this process, at least 1.

    Of those that it is tied to (``taskset``, batch systems), as many as the container that it is
    in may keep busy.
    """
    tied = hasattr(os, "sched_getaffinity")
    found = len(os.sched_getaffinity(0)) if tied else os.cpu_count() or 1
    for names in _QUOTAS:
        with suppress(OSError, ValueError):  # no container, or "max"
            texts = [(cgroup / name).read_text(encoding="ascii") for name in names]
            quota, period = (int(number) for text in texts for number in text.split())
            found = min(found, max(1, quota // period)) if quota > 0 else found
    return found


@lru_cache(maxsize=1)
def caches(cpus: Path = _CPUS) -> Caches:
    """Return the caches of this machine; a usual size where the system does not say.

    Linux lists each cache by itself. `os.sysconf` adds up those of the last level on some systems,
    so it is not asked.
    """
    found: dict[int, tuple[int, int]] = {}
    with suppress(OSError, ValueError):  # not on Linux, or not for guests
        cpu = min(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 0
        for folder in (cpus / f"cpu{cpu}" / "cache").glob("index*"):
            facts = {name: (folder / name).read_text(encoding="ascii").strip() for name in _FACTS}
            if facts["type"] != "Instruction":
                sharing = facts["shared_cpu_map"].replace(",", "")
                size = int(facts["size"].removesuffix("K")) * 1024
                found[int(facts["level"])] = size, int(sharing, 16).bit_count()
    if 2 not in found:
        return Caches()
    size, cores = found[max(found)]
    return Caches(found[2][0], max(found[2][0], size // max(1, cores)))


def keep_freed_memory(*, own: bool = False) -> None:
    """Let glibc keep up to 256 MiB that are freed, for the next arrays.

    Otherwise it gives arrays beyond 32 MiB back at once, and the next ones of this size begin with
    a fault for each page. Older versions, 2.34 among them, do so all the same, and keep smaller
    arrays only. Nothing happens with other C libraries.

    Parameters
    ----------
    own : bool
        Whether the process is ours alone: then all threads share what is kept.
    """
    with suppress(AttributeError, OSError, TypeError):  # not glibc
        mallopt = ctypes.CDLL(None).mallopt
        # Once one threshold is set glibc raises neither by itself: alone it would do harm.
        if any(mallopt(_MMAP_THRESHOLD, most) for most in (_RETAINED, _RETAINED_BEFORE)):
            mallopt(_TRIM_THRESHOLD, _RETAINED)
        if own:
            mallopt(_ARENA_MAX, 1)


def available_bytes() -> int:
    """Return the bytes of memory that are free now, as far as this process may use them."""
    import psutil  # imported late: client actors do not ask

    free: int = psutil.virtual_memory().available
    return min(free, memory_bytes())


def in_words(size: float) -> str:
    """Return a number of bytes in the unit that suits it.

    Examples
    --------
    >>> [in_words(size) for size in (0, 900, 2**20 / 3, 7.26 * 2**20, 429.4 * 2**20, 2**44)]
    ['0 B', '900 B', '341 KiB', '7.3 MiB', '429 MiB', '16.0 TiB']
    """
    power = 0
    while size >= 1023.5 and power < len(_UNITS) - 1:  # which is 1024 when it is rounded
        size, power = size / 1024, power + 1
    digits = 1 if power and size < 99.95 else 0
    return f"{size:.{digits}f} {_UNITS[power]}"


def scratch_folder() -> Path:
    """Return the folder for scratch files: `SCRATCH` if it is set, else the system's."""
    return Path(os.environ.get(SCRATCH) or tempfile.gettempdir())


def private_folder(inside: str) -> Path:
    """Make a temporary folder that this user alone may enter, for a socket.

    Parameters
    ----------
    inside : str
        The socket's longest path below the folder: the whole path of a socket is limited, so the
        folder is in ``/tmp`` where the system's temporary folder has too long a path.
    """
    temporary = tempfile.gettempdir()
    longest = os.fsencode(f"{temporary}/rayfed-12345678/{inside}")
    home = temporary if len(longest) <= _LONGEST else "/tmp"
    return Path(tempfile.mkdtemp(prefix="rayfed-", dir=home))


def private_file(path: Path, content: bytes) -> None:
    """Make a file that this user alone reads, unless it is there.

    Of two processes that make it one is first: the file gets its name when it is whole.
    """
    if path.exists():
        return
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=path.parent) as made:  # its mode is 0600
        made.write(content)
        made.flush()
        os.fsync(made.fileno())
        with suppress(FileExistsError):
            os.link(made.name, path)
