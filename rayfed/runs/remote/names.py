"""How the files of a result folder are called in a store, and which of them count.

An object has the name of its file. What a checkpoint lists (parts of tables, arrays) must not
change under it, and a store cannot rename: new content for such a name gets the digest into its
name at first, and replaces the other when nothing refers to that any more.
"""

from __future__ import annotations

import re
from pathlib import PurePosixPath

from rayfed.core.announced import PARTS

OWNER = ".owner.json"
"""Object that says who writes the folder."""
RUN = "run.json"
MANIFESTS = ("checkpoint/manifest.json", "checkpoint/previous.json")
"""Files of a run that say which of the others count."""
LEADING = (RUN, PARTS, *MANIFESTS)
"""Files of a run that list others."""
_SEALED = re.compile(r"(^|/)(\w+\.parquet/part-[^/]+|checkpoint/[^/]+\.npz)$")
_STAND_IN = re.compile(r"^(?P<stem>.*)\.(?P<digest>[0-9a-f]{32})(?P<suffix>\.\w+)$")
_PASSING = re.compile(r"(^|/)(\.[^/]*|\w+\.(new|old))(/|$)")
_NO_FILE = re.compile(r"^$|^/|//|/$|\\")


def is_sealed(name: str) -> bool:
    """Return whether a file is never changed, only made and deleted.

    Examples
    --------
    >>> is_sealed("a-seed0/rounds.parquet/part-0.parquet"), is_sealed("a-seed0/clients.parquet")
    (True, False)
    """
    return bool(_SEALED.search(name))


def is_passing(name: str) -> bool:
    """Return whether a name is none of the results: a draft, a lock, a table being replaced.

    Neither is what would not be inside of a folder.

    Examples
    --------
    >>> is_passing("a/.lock"), is_passing("a/rounds.new/part-0"), is_passing("a/run.json")
    (True, True, False)
    >>> is_passing("../run.json"), is_passing("/run.json"), is_passing("a//run.json")
    (True, True, True)
    """
    return bool(_PASSING.search(name) or _NO_FILE.search(name))


def stand_in(name: str, digest: str) -> str:
    """Return the name of an object that holds new content for a name in use.

    Examples
    --------
    >>> stand_in("rounds.parquet/part-0.parquet", "0" * 32)
    'rounds.parquet/part-0.00000000000000000000000000000000.parquet'
    """
    path = PurePosixPath(name)
    return str(path.with_name(f"{path.stem}.{digest}{path.suffix}"))


def file_of(name: str) -> tuple[str, str | None]:
    """Return the file of an object, and its digest if it is a stand-in.

    Examples
    --------
    >>> file_of(stand_in("a/b.npz", "0" * 32))[0], file_of("a/b.npz")
    ('a/b.npz', ('a/b.npz', None))
    """
    found = _STAND_IN.match(name)
    return (found["stem"] + found["suffix"], found["digest"]) if found else (name, None)
