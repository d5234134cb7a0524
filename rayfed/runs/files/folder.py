"""Result folders: made anew, kept from other processes, earlier results moved aside.

Two locks keep a result folder from being written twice. The process that runs a study holds that of
the folder. A driver in a process of its own holds that of its run: it may outlive who started it.
"""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from rayfed.core.errors import ScenarioError, many
from rayfed.core.inside import NotRegular, check_folder
from rayfed.core.leases import LOCK, Leased, is_own_lease
from rayfed.runs.files import store
from rayfed.runs.files.place import shown

_OWN = (
    "this program is running the study, or has left a loop over its rows; end that first, by "
    "close() of what rayfed.iterate returned"
)
_NO_LOCKS = (errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOLCK)
WAIT_S = 60.0
"""For drivers that an earlier process left; Ray ends them within seconds."""

Tell = Callable[[str], None]


def create(folder: Path, tell: Tell = lambda line: None) -> None:
    """Make a result folder; earlier results there are moved aside, never deleted.

    Parameters
    ----------
    folder : Path
    tell : callable
        Is given a line for the user where this has to wait.

    Raises
    ------
    ScenarioError
        If the folder cannot be written, holds other files, or is in use.
    """
    try:
        if store.names(folder):
            _move_aside(folder, tell)
        store.make_folder(folder)
        store.append_text(folder / LOCK, "")
    except OSError as error:
        raise _unusable(f"--out {folder}", error) from error


@contextmanager
def usable(folder: Path) -> Iterator[None]:
    """Turn a system error about a result folder into one line."""
    try:
        yield
    except OSError as error:
        raise _unusable(shown(folder), error) from error


def _unusable(place: str, error: OSError) -> ScenarioError:
    if isinstance(error, NotRegular):
        return ScenarioError(error.filename or place, str(error.strerror))
    why = (error.strerror or str(error)).lower()
    if error.errno in _NO_LOCKS:
        text = f"is on a file system without locks ({why}), so that two processes could write there"
        return ScenarioError(place, f"{text} at once; choose another, or mount it with flock")
    return ScenarioError(place, f"cannot be written ({why}); choose another folder")


@contextmanager
def locked(folder: Path, tell: Tell = lambda line: None) -> Iterator[None]:
    """Keep other processes from running the study of a folder; see `create`.

    Raises
    ------
    ScenarioError
        If another process holds the lock, or drivers that one left do not end.
    """
    text = "another process is running this study; wait for it or choose another folder"
    with ExitStack() as held:
        with usable(folder):
            try:
                held.enter_context(store.lease(folder / LOCK))
            except Leased as error:
                if is_own_lease(folder / LOCK):
                    text = _OWN
                raise ScenarioError(shown(folder), text) from error
            _wait_for_drivers(folder, tell)
        yield


@contextmanager
def writing(run: Path) -> Iterator[None]:
    """Keep other processes from writing the folder of a run; waits for one that still does.

    Raises
    ------
    BlockingIOError
        If it still does after `WAIT_S`.
    """
    store.make_folder(run)
    text = f"another process has been writing this run for {WAIT_S:g} s"
    with store.lease(run / LOCK, WAIT_S, BlockingIOError(text)):
        yield


def _wait_for_drivers(folder: Path, tell: Tell) -> None:
    """Wait until no driver writes a run of a folder."""
    locks = [folder / name / LOCK for name in store.names(folder)]
    left = [lock for lock in locks if lock.is_file() and store.is_leased(lock)]
    if not left:
        return
    written = f"{many(len(left), 'run')} of {shown(folder)}"
    tell(f"an earlier process's drivers still write {written}; waiting at most {WAIT_S:g} s")
    end = time.monotonic() + WAIT_S
    for lock in left:
        text = f"a driver of an earlier process still writes {lock.parent.name}"
        refusal = ScenarioError(shown(folder), f"{text}; end it, or wait for it")
        with store.lease(lock, max(0.0, end - time.monotonic()), refusal):
            pass


def delete(folder: Path) -> None:
    """Delete a result folder with all it holds; of links in it, only the links.

    Raises
    ------
    ScenarioError
        If it is a link, no result folder or the current folder, a process runs its study, or it
        cannot be deleted.
    """
    place = shown(folder)
    with usable(folder):
        check_folder(folder)
    _check_results(folder, place)
    for inside, _, files in os.walk(folder):  # which follows no links
        if "scenario.yaml" in files and (found := Path(inside).relative_to(folder)).parts:
            raise ScenarioError(place, f"holds another study, {found}; move that first")
    with locked(folder), usable(folder):
        # Under another name first, so that nobody starts its study meanwhile.
        gone = free_name(folder.with_name(f".{folder.name}.deleted"))
        store.move(folder, gone)
        store.remove(gone)


def _check_results(folder: Path, place: str) -> None:
    """Raise ScenarioError if a folder is no result folder, or the current one is in it."""
    here = Path.cwd()
    if folder.resolve() in (here, *here.parents):
        raise ScenarioError(place, "is where we are; choose another folder")
    if not all((folder / name).is_file() for name in ("scenario.yaml", LOCK)):
        raise ScenarioError(place, "holds files that are no results; choose another folder")


def _move_aside(folder: Path, tell: Tell) -> None:
    _check_results(folder, f"--out {folder}")
    with locked(folder, tell):
        aside = free_name(folder)
        store.move(folder, aside)
    tell(f"earlier results moved aside to {aside}")


def free_name(folder: Path) -> Path:
    """Return the first name beside a folder, of those with a number, that nothing has."""
    number = 1
    while folder.with_name(f"{folder.name}.{number}").exists():
        number += 1
    return folder.with_name(f"{folder.name}.{number}")
