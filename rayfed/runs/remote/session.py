"""Remote result folders as the rest of rayfed uses them: begin one, bring one here, write one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from uuid import uuid4

from rayfed.core.errors import RayfedError, ScenarioError
from rayfed.core.leases import LOCK
from rayfed.runs.files import store
from rayfed.runs.files.folder import free_name
from rayfed.runs.remote.mirror import Mirror
from rayfed.runs.remote.objects import Objects, StoreError
from rayfed.runs.remote.owner import OWNER, Owner
from rayfed.runs.remote.owner import read as read_owner
from rayfed.runs.remote.staging import Staging, Stamp, fetch, stamp

Tell = Callable[[str], None]
_FETCH_S = 600.0
"""Seconds for which another process of this machine that brings the same folder is waited for."""


def begin(url: str, tell: Tell) -> Path:
    """Return the local folder for the results of a new study; what it held is moved aside.

    Raises
    ------
    ScenarioError
        If the URL cannot be written, or something is there.
    """
    objects = Objects(url)
    staging = Staging.of(objects.url)
    with _refused(objects.url):
        if any(name != OWNER for name in objects.list()):
            text = "is not empty; go on with a study there by rayfed resume, or give another --out"
            raise ScenarioError(objects.url, text)
        probe = f".{uuid4().hex}"
        objects.write(probe, b"")  # may it be written at all?
        objects.delete([probe])
        last = read_owner(objects)
    if _is_written_here(staging):
        raise ScenarioError(objects.url, "another process of this machine is running a study there")
    if store.names(staging.folder):
        _move_aside(staging, "an earlier copy", tell)
    session = str(last.get("session", ""))
    staging.write_note(session=session, mine=True, sent=False, new=True, held={})
    return staging.folder


def bring(url: str, tell: Tell) -> Path:
    """Return the local copy of a remote folder, brought to what is remote.

    Where a process of this machine wrote the folder last, the copy is as it left it.

    Raises
    ------
    ScenarioError
        If nothing is there, or it cannot be read.
    """
    objects = Objects(url)
    staging = Staging.of(objects.url)
    with _refused(objects.url), _alone(staging):
        if not _is_written_here(staging):
            _bring(staging, objects, str(read_owner(objects).get("session", "")), tell)
    return staging.folder


@contextmanager
def owned(folder: Path, tell: Tell) -> Iterator[None]:
    """Mirror the local copy of a remote folder meanwhile; nothing happens for other folders.

    Parameters
    ----------
    folder : Path
        Which nobody else in this machine writes.
    tell : callable
        Is given lines for the user.

    Raises
    ------
    ScenarioError
        If another process writes the remote folder.
    RayfedError
        In the end, if not everything could be uploaded.
    """
    staging = Staging.holding(folder)
    if staging is None:
        yield
        return
    with ExitStack() as stack:
        mirror = _started(staging, tell)
        stack.push(lambda *raised: _close(mirror, tell, raised[1]))
        yield


def _started(staging: Staging, tell: Tell) -> Mirror:
    """Become the owner of a remote folder, and begin to mirror."""
    objects = Objects(staging.url)
    owner, before = Owner(objects, uuid4().hex), staging.note()
    with _refused(staging.url), _alone(staging):
        last = owner.take(before.session if before.mine else "", tell)
        try:
            if before.new and last != before.session:
                raise ScenarioError(staging.url, "another process has begun a study there")
            if not before.new:
                _bring(staging, objects, last, tell)
            known = staging.known(objects)
        except BaseException:
            with suppress(StoreError):
                owner.leave()
            raise
        changes = {"session": owner.session, "mine": True, "sent": False, "new": False}
        staging.write_note(**changes, held={})
    mirror = Mirror(staging, objects, owner, known, tell)
    mirror.start()
    return mirror


@contextmanager
def _alone(staging: Staging) -> Iterator[None]:
    """Keep other processes of this machine from bringing the same folder."""
    store.make_folder(staging.home)
    try:
        with store.lease(staging.home / LOCK, _FETCH_S):
            yield
    except store.Leased as error:
        text = f"another process has been bringing it here for {_FETCH_S:g} s"
        raise ScenarioError(staging.url, text) from error


def _close(mirror: Mirror, tell: Tell, raised: BaseException | None) -> None:
    """Upload the rest; what the study itself raised is not hidden by what that raises."""
    try:
        mirror.close()
    except RayfedError as error:
        if raised is None:
            raise
        tell(str(error))


def _bring(staging: Staging, objects: Objects, last: str, tell: Tell) -> None:
    """Bring a folder here unless the copy holds at least what is remote.

    Parameters
    ----------
    last : str
        The session that wrote it last; empty if that is not known.
    """
    note = staging.note()
    if note.mine and note.session == last and store.names(staging.folder):
        return
    if note.mine and not note.sent and store.names(staging.folder):
        _move_aside(staging, "what was recorded here and not uploaded", tell)
        staging.write_note(held={})
    fetch(staging, objects)
    staging.write_note(session=last)


def _move_aside(staging: Staging, what: str, tell: Tell) -> None:
    aside = free_name(staging.folder)
    store.move(staging.folder, aside)
    tell(f"{what} was moved aside to {aside}")


def _is_written_here(staging: Staging) -> bool:
    """Return whether a process of this machine is writing the copy."""
    lock = staging.folder / LOCK
    return lock.is_file() and store.is_leased(lock)


@contextmanager
def returned(folder: Path) -> Iterator[None]:
    """Upload what a command writes beside the runs of a local copy, such as the page.

    Raises
    ------
    RayfedError
        If that fails; it says where the files are.
    """
    staging = Staging.holding(folder)
    if staging is None:
        yield
        return
    before = _stamps(staging)
    yield
    changed = [name for name, stamp in _stamps(staging).items() if before.get(name) != stamp]
    try:
        Objects(staging.url).put({name: folder / name for name in changed})
    except StoreError as error:
        text = f"{staging.url}: {error}; what was written is in {folder}"
        raise RayfedError(text) from error


def _stamps(staging: Staging) -> dict[str, Stamp]:
    """Return the stamps of the files outside of runs."""
    runs = {path.parent.name for path in staging.folder.glob("*/run.json")}
    return {name: stamp(staging.folder / name) for name in staging.names(without=runs)}


@contextmanager
def _refused(url: str) -> Iterator[None]:
    """Turn what a store raises before anything starts into a line about the URL."""
    try:
        yield
    except StoreError as error:
        raise ScenarioError(url, str(error)) from error
