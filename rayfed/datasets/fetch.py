"""Files of data sets: published ones, downloaded once with checksums, and those of the Hub.

Published files are read from a local folder if they are there. The tests download from a local
server; the published addresses themselves are not tested.
"""

from __future__ import annotations

import gzip
import hashlib
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rayfed.core.errors import DataMissing, LibraryMissing, RayfedError, ScenarioError, clipped
from rayfed.core.extras import install
from rayfed.core.files import reading
from rayfed.core.frames import Form, of_arrow

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class File:
    """A published data file.

    Parameters
    ----------
    path : str
        Path in the folder of data sets.
    url : str
        Address of the published file.
    sha256 : str
        Checksum of the published file; downloads must match it.
    content : str, optional
        sha256 of the decompressed content, if a copy may have been recompressed.
    """

    path: str
    url: str
    sha256: str
    content: str = ""


def read(file: File, home: Path | None) -> bytes:
    """Return the content of a file, decompressed if its name ends in ``.gz``.

    An archive, ``.tar.gz``, is returned as it is.

    Parameters
    ----------
    file : File
        File to read.
    home : Path, optional
        Folder of local data sets; if the file is not in it, it is downloaded into the cache.

    Raises
    ------
    ScenarioError
        If the file cannot be downloaded, or is not the published one.
    """
    local = None if home is None else home / file.path
    path = local if local is not None and local.is_file() else _download(file)
    with reading(path, "a published file"):
        data = _unpacked(path, file)
    if hashlib.sha256(data).hexdigest() != (file.content or file.sha256):
        raise ScenarioError(
            str(path), "does not hold the published data (its checksum differs); replace the file"
        )
    return data


def available_locally(file: File, home: Path | None) -> bool:
    """Return whether `read` needs no download."""
    return (home is not None and (home / file.path).is_file()) or _cached(file).is_file()


def _unpacked(path: Path, file: File) -> bytes:
    raw = path.read_bytes()
    packed = file.path.endswith(".gz") and not file.path.endswith(".tar.gz")
    return gzip.decompress(raw) if packed else raw


def _cache() -> Path:
    import pooch  # imported late: needed only for downloads

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
            f"file '{file.path}' is not available locally and could not be downloaded "
            f"({type(error).__name__}); set RAYFED_DATA to a folder that holds it",
        ) from error


SCHEME = "hf://"
"""Of addresses on the Hugging Face Hub, such as ``hf://datasets/user/name/data/*.parquet``."""


def read_hub(url: str, texts: Collection[str], form: Form) -> tuple[list[str], list[pd.DataFrame]]:
    """Read Parquet files of a data set, in the order of their names.

    Parameters
    ----------
    url : str
        Such as ``hf://datasets/user/name/data/train-*.parquet``, or a folder.
    texts, form
        See `rayfed.core.frames.of_arrow`.

    Returns
    -------
    names : list of str
        Paths of the files, relative to the part of the address that has no wildcards.
    frames : list of DataFrame
        Their cells.

    Raises
    ------
    ScenarioError
        If the file system of the Hub is not installed, or nothing can be read there.
    """
    try:
        import fsspec
        import pyarrow.parquet as pq

        system = fsspec.filesystem(SCHEME.removesuffix("://"))
    except (ImportError, ValueError) as error:
        text = f"needs huggingface_hub; install it with: {install('hf')}"
        raise LibraryMissing(url, text) from error
    try:
        pattern = url.removeprefix(SCHEME)
        if not pattern.endswith(".parquet"):
            pattern = f"{pattern.rstrip('/')}/**/*.parquet"
        found = sorted(system.glob(pattern))
        if not found:
            raise ScenarioError(url, "holds no file of that name; look at the data set's files")
        frames = []
        for path in found:
            with system.open(path, "rb") as file:
                frames.append(of_arrow(url, pq.read_table(file), texts, form))
        fixed = pattern.partition("*")[0].rpartition("/")[0].lstrip("/")
        return [path.lstrip("/").removeprefix(f"{fixed}/") for path in found], frames
    except RayfedError:
        raise
    except Exception as error:  # of the network, of the Hub, of Arrow
        what = clipped(str(error).partition("\n")[0], 100)
        raise ScenarioError(url, f"cannot be read ({type(error).__name__}: {what})") from error
