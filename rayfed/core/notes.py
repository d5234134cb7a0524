"""Notes of a study: text and tags of its readers, and whether it is archived, in its folder."""

from __future__ import annotations

import json
import re
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rayfed.core.errors import ScenarioError, clipped
from rayfed.core.files import read_json
from rayfed.core.inside import check, check_place, replacing

FILE = "notes.json"
"""File of a result folder with its notes; a study without any has none."""
LONGEST = 10_000
"""Largest number of characters of a text."""
MOST_TAGS = 20
_LARGEST = 100_000  # bytes of the file
_TAG = re.compile(r"[^\s,]{1,40}")


@dataclass(frozen=True)
class Notes:
    """Notes of a study.

    Parameters
    ----------
    text : str
        At most `LONGEST` characters.
    tags : tuple of str
        Sorted words without commas, at most `MOST_TAGS`.
    archived : bool
        Whether lists of studies leave it out.

    Raises
    ------
    ScenarioError
        If a text or a tag is too long, not printable, or there are too many.
    """

    text: str = ""
    tags: tuple[str, ...] = ()
    archived: bool = False

    def __post_init__(self) -> None:
        if len(self.text) > LONGEST:
            found = f"found {len(self.text):,} characters; give at most {LONGEST:,}"
            raise ScenarioError("notes", found)
        if not all(c.isprintable() or c in "\n\t" for c in self.text):
            raise ScenarioError("notes", "found control characters; give plain text")
        for tag in self.tags:
            if not (_TAG.fullmatch(tag) and tag.isprintable()):
                text = f"found '{clipped(tag, 40)}'; give words of at most 40 characters"
                raise ScenarioError("tags", text)
        if len(self.tags) > MOST_TAGS:
            raise ScenarioError("tags", f"found {len(self.tags)}; give at most {MOST_TAGS}")

    @classmethod
    def of(cls, text: Any, tags: Any, archived: Any = False) -> Notes:
        """Return notes of values from a file or a form.

        Parameters
        ----------
        text : str
        tags : list of str or str
            Or one text, with commas or spaces between the tags.
        archived : bool

        Raises
        ------
        ScenarioError
            If a value is of another type, or is refused as by `Notes`.
        """
        words = re.split(r"[\s,]+", tags) if isinstance(tags, str) else tags
        if not isinstance(words, list) or not all(isinstance(each, str) for each in (text, *words)):
            raise ScenarioError("notes", "found other values than texts; give a text and tags")
        lines = text.replace("\r\n", "\n").strip()
        return cls(lines, tuple(sorted({tag for tag in words if tag})), archived is True)

    @classmethod
    def read(cls, folder: Path) -> Notes:
        """Return the notes in a result folder; empty ones if it has none.

        Raises
        ------
        ScenarioError
            If the file is a link or cannot be read.
        """
        path = folder / FILE
        try:
            if path.lstat().st_size > _LARGEST:
                raise ValueError(f"it has more than {_LARGEST:,} bytes")
            held: Any = read_json(path, results=True)
            if not isinstance(held, dict):
                raise ValueError("it is no mapping")
            return cls.of(held.get("text", ""), held.get("tags", []), held.get("archived"))
        except FileNotFoundError:
            return cls()
        except (OSError, ValueError, ScenarioError) as error:
            why = clipped(getattr(error, "strerror", None) or error, 120)
            raise ScenarioError(FILE, f"cannot be read ({why}); remove it") from error

    def write(self, folder: Path) -> None:
        """Replace the notes in a result folder.

        Raises
        ------
        OSError
            If the file, or a folder on the way to it, is a link, or cannot be written.
        """
        path = folder / FILE
        check_place(path)
        with suppress(FileNotFoundError):
            check(path)
        with replacing(path) as file:
            file.write(f"{json.dumps(asdict(self), indent=1)}\n".encode())
