"""One BLAS thread: sums over more of them have other last bits, and processes share the CPUs."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from threading import Lock

from threadpoolctl import ThreadpoolController, threadpool_limits

ONE_THREAD = {
    f"{name}_THREADS": "1" for name in ("OMP_NUM", "OPENBLAS_NUM", "MKL_NUM", "VECLIB_MAXIMUM")
}
"""What libraries read when they are loaded; some start threads then, which spin for a while."""

_changing = Lock()
_inside = 0
_undo = ExitStack()
_found: tuple[int, ThreadpoolController] | None = None


@contextmanager
def one_thread() -> Iterator[None]:
    """Let libraries compute with one thread, also those that are loaded in here.

    SciPy has a BLAS of its own, which some of its modules load when they are first used. Afterwards
    what was loaded meanwhile has as many threads as the others had. It holds for the process: where
    several threads are in here, from the first that comes to the last that leaves.

    Examples
    --------
    >>> with one_thread():
    ...     from scipy.linalg import cholesky
    """
    global _inside
    with _changing:
        if not _inside:
            _undo.enter_context(_limited())
        _inside += 1
    try:
        yield
    finally:
        with _changing:
            _inside -= 1
            if not _inside:
                _undo.close()


@contextmanager
def _limited() -> Iterator[None]:
    before = _libraries()
    known = {library.filepath for library in before.lib_controllers}
    most = max((library.num_threads or 1 for library in before.lib_controllers), default=1)
    said = {name: os.environ.get(name) for name in ONE_THREAD}
    os.environ.update(ONE_THREAD)
    try:
        with before.limit(limits=1):
            try:
                yield
            finally:  # within the limit: OpenBLAS obeys one thread alone until it ends
                for library in _libraries().lib_controllers:
                    if library.filepath not in known:
                        library.set_num_threads(most)
    finally:
        for name, value in said.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _libraries() -> ThreadpoolController:
    """Return what is loaded; to look takes a millisecond, and only imports change it."""
    global _found
    if _found is None or _found[0] != len(sys.modules):
        _found = len(sys.modules), ThreadpoolController()
    return _found[1]


def keep_one_thread() -> None:
    """Let libraries compute with one thread from now on, in a process of our own."""
    os.environ.update(ONE_THREAD)
    threadpool_limits(1)
