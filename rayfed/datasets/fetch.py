"""Files of known data sets: from a folder at hand, or downloaded once, checked either way.

The published addresses could not be tried where this was written, since there was no network; the
download itself is tested against a server on the same machine.
"""

from __future__ import annotations

import gzip
import hashlib
from dataclasses import dataclass
from pathlib import Path

from rayfed.core.errors import DataMissing, ScenarioError


@dataclass(frozen=True)
class File:
    """A published file.

    Parameters
    ----------
    path : str
        Where it lies in the folder of data sets.
    url : str
        Where it is published.
    sha256 : str
        Of the published file, which a download must have.
    content : str, optional
        sha256 of what a gzipped file holds: a copy may have been compressed anew.
    """

    path: str
    url: str
    sha256: str
    content: str = ""


def read(file: File, home: Path | None) -> bytes:
    """Return what a file holds, unpacked if its name ends in ``.gz``.

    Parameters
    ----------
    file : File
        What to read.
    home : Path, optional
        Folder of data sets at hand; without the file there, it is downloaded into the cache.

    Raises
    ------
    ScenarioError
        If the file cannot be had, or is not the published one.
    """
    local = None if home is None else home / file.path
    found = local if local is not None and local.is_file() else _download(file)
    try:
        data = _unpacked(found, file)
    except (OSError, EOFError) as error:
        raise ScenarioError(str(found), f"cannot be read ({error}); replace the file") from error
    if hashlib.sha256(data).hexdigest() != (file.content or file.sha256):
        raise ScenarioError(
            str(found), "does not hold the published data (its checksum differs); replace the file"
        )
    return data


def at_hand(file: File, home: Path | None) -> bool:
    """Return whether `read` would need no download."""
    return (home is not None and (home / file.path).is_file()) or _cached(file).is_file()


def _unpacked(path: Path, file: File) -> bytes:
    raw = path.read_bytes()
    return gzip.decompress(raw) if file.path.endswith(".gz") else raw


def _cache() -> Path:
    import pooch  # here: nothing else in the package needs it

    return Path(pooch.os_cache("rayfed"))


def _cached(file: File) -> Path:
    return _cache() / file.path


def _download(file: File) -> Path:
    import pooch

    target = _cached(file)
    try:
        return Path(
            pooch.retrieve(
                file.url, known_hash=f"sha256:{file.sha256}", fname=target.name, path=target.parent
            )
        )
    except (OSError, ValueError) as error:  # requests' errors are OSError, a wrong hash ValueError
        raise DataMissing(
            "problem.dataset",
            f"file '{file.path}' is not at hand and could not be downloaded "
            f"({type(error).__name__}); set RAYFED_DATA to a folder that holds it",
        ) from error
