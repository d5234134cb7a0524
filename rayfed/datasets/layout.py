"""Layouts of folders: properties of rows from the paths of their files."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote

from rayfed.core.errors import ScenarioError, listed

SPLITS = {
    "train": "train", "training": "train", "test": "test", "testing": "test",
    "val": "validation", "valid": "validation", "validation": "validation",
}  # fmt: skip
"""Names of splits, in lower case, and the part of a client's rows that each one is."""

_SHARD = re.compile(r"(^|[/_.-])(part[-_.]?\d+[^/]*|\d{5}-of-\d{5}(-[0-9a-f]+)?)$")
"""End of the names of files that are pieces of one table, as Spark, Dask and the Hub write them."""
_BETWEEN = "/_-. "
_WORD = re.compile(r"([/_\-. ]*)([^/_\-. ]+)")
_HIVE = re.compile(r"([^/=]+)=([^/]*)")


@dataclass(frozen=True)
class Place:
    """Properties of rows that a file's path gives.

    Parameters
    ----------
    client : str
        Name of the client; empty if all files are of one table.
    part : str
        One of `rayfed.datasets.shards.PARTS`.
    columns : mapping of str to str
        Values of the folders ``column=value`` on the path.
    """

    client: str = ""
    part: str = "train"
    columns: Mapping[str, str] = field(default_factory=dict)


def places(names: Sequence[str], folder: str) -> list[Place]:
    """Return the properties of rows that paths of files give.

    Parameters
    ----------
    names : sequence of str
        Paths relative to the folder, with slashes and without the suffixes of the files.
    folder : str
        Their folder, for errors.

    Returns
    -------
    list of Place
        Clients are called by the words in which the paths differ: a folder if there are several,
        the file else. Files of one table, such as ``part-0`` and ``train-00000-of-00002``, say
        nothing of clients.

    Raises
    ------
    ScenarioError
        If some files name their split and others do not, or folders ``column=value`` differ in
        their columns.

    Examples
    --------
    >>> [place.client for place in places(["hospital_a", "hospital_b"], "data")]
    ['a', 'b']
    >>> [(p.client, p.part) for p in places(["a/train", "a/test", "b/train"], "data")]
    [('a', 'train'), ('a', 'test'), ('b', 'train')]
    >>> [dict(place.columns) for place in places(["year=2024/part-0"], "data")]
    [{'year': '2024'}]
    """
    columns = [{key: unquote(value) for key, value in _HIVE.findall(name)} for name in names]
    _check_alike(names, [tuple(sorted(each)) for each in columns], folder)
    words = [_words(name) for name in names]
    parts = _parts(names, words, columns, folder)
    if parts is None:
        parts = ["train"] * len(names)
    else:
        words = [_without_split(each) for each in words]
    clients = [""] * len(names) if any(columns) else _clients(words)
    for each in columns:
        each.pop("split", None)
    return [Place(*each) for each in zip(clients, parts, columns, strict=True)]


def _words(name: str) -> list[str]:
    """Return the words of a path, each with its prefix; shards have none."""
    joined = _SHARD.sub("", "/".join(part for part in name.split("/") if "=" not in part))
    return ["".join(found) for found in _WORD.findall(joined)]


def _is_split(word: str) -> bool:
    return word.lstrip(_BETWEEN).casefold() in SPLITS


def _without_split(words: list[str]) -> list[str]:
    """Return words without those of splits; the next one then begins the name of a file."""
    joined, begins = [], ""
    for word in words:
        if _is_split(word):
            begins = "/" if word.startswith("/") else begins
            continue
        joined.append(begins + word.lstrip(_BETWEEN) if begins else word)
        begins = ""
    return joined


def _parts(
    names: Sequence[str],
    words: Sequence[list[str]],
    columns: Sequence[Mapping[str, str]],
    folder: str,
) -> list[str] | None:
    """Return the part that each file is of, or None if the files name no splits."""
    called = [
        [word.lstrip(_BETWEEN) for word in (*each, held.get("split", "")) if _is_split(word)]
        for each, held in zip(words, columns, strict=True)
    ]
    found = [{SPLITS[word.casefold()] for word in each} for each in called]
    known = set().union(*found)
    if not known or (all(found) and len(known) == 1):
        return None  # all are of one split, whichever it is
    for name, each in zip(names, found, strict=True):
        if len(each) != 1:
            other = names[next(k for k, parts in enumerate(found) if parts)]
            text = f"names {listed(sorted(each))}" if each else f"names no split, '{other}' does"
            remedy = "name one of train, validation and test in the path of every file, or of none"
            raise ScenarioError(folder, f"'{name}' {text}; {remedy}")
    if "train" not in known:
        text = f"has files of {listed(sorted(known))} and none to train with"
        raise ScenarioError(folder, f"{text}; call them train")
    return [each.pop() for each in found]


def _check_alike(names: Sequence[str], keys: Sequence[tuple[str, ...]], folder: str) -> None:
    for name, each in zip(names, keys, strict=True):
        if each != keys[0]:
            text = f"'{name}' lies in folders of {listed(each) or 'no columns'}, '{names[0]}' in "
            text += f"folders of {listed(keys[0]) or 'no columns'}"
            raise ScenarioError(folder, f"{text}; give all files the same ones")


def _clients(words: Sequence[list[str]]) -> list[str]:
    """Return the words of each path that are not those of all; "" if all paths are alike.

    Where files lie in several folders, these are the clients.
    """
    folders = [_folder_words(each) for each in words]
    if len({tuple(each) for each in folders}) > 1:
        words = [held or each for held, each in zip(folders, words, strict=True)]
    if len({tuple(each) for each in words}) == 1:
        return [""] * len(words)
    shortest = min(map(len, words))
    first = _common(words, shortest - 1)
    last = _common([each[::-1] for each in words], shortest - 1 - first)
    found = ["".join(each[first : len(each) - last]) for each in words]
    bare = [name.lstrip(_BETWEEN) for name in found]
    return bare if len({*bare}) == len({*found}) else found  # site_1 and site-1 are two


def _folder_words(words: list[str]) -> list[str]:
    """Return the words before the last that begins the name of a file."""
    ends = [k for k, word in enumerate(words) if word.startswith("/")]
    return words[: ends[-1]] if ends else []


def _common(words: Sequence[list[str]], most: int) -> int:
    """Return the number of common first words of all paths, up to a limit."""
    same = 0
    while same < most and len({each[same] for each in words}) == 1:
        same += 1
    return same


def split_folders(folder: Path) -> dict[str, Path] | None:
    """Return the folders of the splits by part, if a folder holds these alone; None else.

    Raises
    ------
    ScenarioError
        If two of them are of one part, none is to train with, or other folders lie next to them.
    """
    inner = folders(folder)
    found = [(SPLITS[path.name.casefold()], path) for path in inner if _is_split(path.name)]
    parts = {part for part, _ in found}
    if (len(parts) < 2 and len(found) < len(inner)) or not found:
        return None
    if len(found) < len(inner):
        other = next(path.name for path in inner if not _is_split(path.name))
        text = f"holds '{other}' next to {listed(path.name for _, path in found)}"
        raise ScenarioError(str(folder), f"{text}; move it elsewhere")
    if len(parts) < len(found):
        text = f"holds {listed(path.name for _, path in found)}, two of one split"
        raise ScenarioError(str(folder), f"{text}; put them together")
    if "train" not in parts:
        text = f"holds {listed(path.name for _, path in found)} and no 'train'"
        raise ScenarioError(str(folder), f"{text}; give it rows to train with, or leave it out")
    return dict(found)


def folders(folder: Path) -> list[Path]:
    """Return the folders in a folder, sorted, links to folders included; hidden ones left out."""
    return [path for path in entries(folder) if path.is_dir()]


def files(folder: Path, suffixes: tuple[str, ...]) -> Iterator[Path]:
    """Yield the files of these suffixes in a folder and below it, sorted; hidden ones left out.

    Links are followed, unless they lead to a folder that they lie in.

    Raises
    ------
    ScenarioError
        If a folder cannot be read.
    """
    for path in entries(folder):
        if path.is_dir():
            if not folder.resolve().is_relative_to(path.resolve()):
                yield from files(path, suffixes)
        elif path.name.lower().endswith(suffixes):
            yield path


def entries(folder: Path) -> list[Path]:
    """Return the content of a folder, sorted, without hidden and temporary files."""
    try:
        return sorted(path for path in folder.iterdir() if not is_hidden(path.name))
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        raise ScenarioError(str(folder), f"cannot be read ({why})") from error


def is_hidden(name: str) -> bool:
    """Return whether a file or folder is one that programs leave next to data.

    Examples
    --------
    >>> [is_hidden(name) for name in (".DS_Store", "__MACOSX", "@eaDir", "_other")]
    [True, True, True, False]
    """
    return name.startswith(".") or name in ("__MACOSX", "@eaDir")
