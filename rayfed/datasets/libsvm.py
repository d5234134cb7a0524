"""LIBSVM files: a label and the features that are not 0, row by row.

Chang, Lin, "LIBSVM: A library for support vector machines", ACM TIST 2011,
https://www.csie.ntu.edu.tw/~cjlin/libsvm/.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from rayfed.core.errors import ScenarioError, clipped
from rayfed.core.files import MOST_COLUMNS, check_room, reading

if TYPE_CHECKING:
    import pandas as pd

LABEL = "y"
"""What the column of labels is called."""
LIBSVM = (".libsvm", ".svm")
"""Suffixes of such files."""
_ROW = re.compile(rb"\s*[-+]?[\d.]+(e[-+]?\d+)?(\s+\d+:\S+)+\s*(#.*)?", re.IGNORECASE)
_LOOKED_AT = 2**16  # bytes


def is_libsvm(path: Path, known: tuple[str, ...]) -> bool:
    """Return whether a file is LIBSVM's, by its name or, where that is not enough, its first rows.

    The site of LIBSVM has files such as ``a9a`` and ``a9a.t``.

    Parameters
    ----------
    path : Path
    known : tuple of str
        Suffixes of other formats.
    """
    name = path.name.lower()
    if name.endswith((*LIBSVM, *known)) or not path.is_file():
        return name.endswith(LIBSVM)
    with reading(path, "a table"), path.open("rb") as file:
        lines = file.read(_LOOKED_AT).splitlines()
    rows = [line for line in lines if line.partition(b"#")[0].strip()]
    return any(map(_ROW.fullmatch, rows[:2]))


def read_libsvm(path: Path, names: Sequence[str] = ()) -> pd.DataFrame:
    """Read rows ``label feature:value feature:value ... # comment``.

    Parameters
    ----------
    path : Path
    names : sequence of str
        Features that the table has even if no row names them: those of the training file.

    Returns
    -------
    DataFrame
        A column ``y`` of labels, integers if all are, and columns "1", "2", ... up to the largest
        feature; features that a row does not name are 0.

    Raises
    ------
    ScenarioError
        If the file cannot be read, has no rows, more than `MOST_COLUMNS` features or more than the
        memory holds, or if a row is not of that form or names a feature twice.
    """
    import pandas as pd  # imported late: client actors do not need it

    cells = _Cells(path)
    with reading(path, "LIBSVM"), path.open(encoding="utf-8") as file:
        for number, line in enumerate(file, start=1):
            cells.add(number, line.partition("#")[0].split())
    X = cells.dense(max(map(int, names), default=0))
    y = np.array(cells.labels)
    integral = np.isfinite(y).all() and (y == np.rint(y)).all()
    columns = [str(j) for j in range(1, X.shape[1] + 1)]
    frame = pd.DataFrame(X, columns=columns)
    frame.insert(0, LABEL, y.astype(np.int64) if integral else y)
    return frame


class _Cells:
    """The numbers of the rows that were read so far; errors name file and line."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.labels, self.values = array("d"), array("d")
        self.rows, self.features = array("q"), array("q")

    def add(self, number: int, words: list[str]) -> None:
        """Add the row of a line, unless the line is empty."""
        if not words:
            return
        try:
            label = float(words[0])
            pairs = [(int(j), float(v)) for j, _, v in (word.partition(":") for word in words[1:])]
        except ValueError as error:
            form = "found '{}', not a number and feature:value pairs such as 1 3:0.5"
            raise self._error(number, form.format(clipped(" ".join(words), 40))) from error
        features = [j for j, _ in pairs]
        if len(set(features)) < len(features):
            raise self._error(number, "names a feature twice; leave one out")
        if features and not 1 <= min(features) <= max(features) <= MOST_COLUMNS:
            wrong = min(features) if min(features) < 1 else max(features)
            text = f"names feature {wrong}; features count from 1 to at most {MOST_COLUMNS:,}"
            raise self._error(number, text)
        self.rows.extend([len(self.labels)] * len(features))
        self.labels.append(label)
        self.features.extend(features)
        self.values.extend(v for _, v in pairs)

    def dense(self, least: int) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
        """Return the features (n, d) of all rows, d at least so many."""
        n, d = len(self.labels), max(least, max(self.features, default=0))
        check_room(8 * n * d, str(self.path), "its rows", "give fewer rows or features")
        X = np.zeros((n, d))
        X[np.array(self.rows, np.int64), np.array(self.features, np.int64) - 1] = self.values
        return X

    def _error(self, line: int, text: str) -> ScenarioError:
        return ScenarioError(str(self.path), f"line {line} {text}")
