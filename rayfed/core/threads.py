"""One BLAS thread: sums over more of them have other last bits, and processes share the CPUs."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from threading import Lock
from typing import Any

from threadpoolctl import ThreadpoolController, threadpool_limits

from rayfed.core.machine import keep_freed_memory

ONE_THREAD = {
    f"{name}_THREADS": "1" for name in ("OMP_NUM", "OPENBLAS_NUM", "MKL_NUM", "VECLIB_MAXIMUM")
}
"""What libraries read when they are loaded; some start threads then, which spin for a while."""
_OPENBLAS = "OPENBLAS_NUM_THREADS"
"""What SciPy's BLAS reads. What OpenMP and MKL read would hold for the user's own code later."""

_changing = Lock()
_inside = 0
_undo = ExitStack()
_found: tuple[int, ThreadpoolController] | None = None


@contextmanager
def one_thread() -> Iterator[None]:
    """Let libraries compute with one thread, also those that are loaded in here.

    SciPy has a BLAS of its own, which some of its modules load when they are first used. Afterwards
    what was loaded meanwhile has as many threads as the others had. For BLAS it holds for the
    process: where several threads are in here, from the first that comes to the last that leaves.
    OpenMP counts threads for each thread; a library that loads it inside sets its own number.

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
        here = _libraries()
    try:
        with here.limit(limits=1, user_api="openmp"):
            yield
    finally:
        with _changing:
            _inside -= 1
            if not _inside:
                _undo.close()


@contextmanager
def _limited() -> Iterator[None]:
    before = _libraries()
    known = {library.filepath for library in _blas(before)}
    most = max((library.num_threads or 1 for library in _blas(before)), default=1)
    setting = os.environ.get(_OPENBLAS)
    os.environ[_OPENBLAS] = "1"
    try:
        with before.limit(limits=1, user_api="blas"):
            try:
                yield
            finally:  # within the limit: OpenBLAS obeys one thread alone until it ends
                for library in _blas(_libraries()):
                    if library.filepath not in known:
                        library.set_num_threads(most)
    finally:
        if setting is None:
            os.environ.pop(_OPENBLAS, None)
        else:
            os.environ[_OPENBLAS] = setting


def _blas(libraries: ThreadpoolController) -> list[Any]:
    return list(libraries.select(user_api="blas").lib_controllers)


def _libraries() -> ThreadpoolController:
    """Return the loaded libraries; a look takes a millisecond, and only imports change them."""
    global _found
    if _found is None or _found[0] != len(sys.modules):
        _found = len(sys.modules), ThreadpoolController()
    return _found[1]


def own_process() -> None:
    """Let libraries compute with one thread from now on and keep memory, in a process of ours."""
    os.environ.update(ONE_THREAD)
    threadpool_limits(1)
    keep_freed_memory(own=True)
