"""Tables from a user's CSV, Parquet or LIBSVM files."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from rayfed.core.arrays import Array, Bools, Ints
from rayfed.core.errors import ScenarioError, clipped, listed, unknown
from rayfed.core.files import SUFFIXES, check_room, check_width, read_frame
from rayfed.core.frames import NO_NUMBER, PLAIN, Form, named
from rayfed.core.names import as_numbers, canonical, distinct
from rayfed.datasets.base import Table
from rayfed.datasets.checked import check_values
from rayfed.datasets.fetch import read_hub
from rayfed.datasets.gather import CLIENT, Gathered, gather, is_many, joined
from rayfed.datasets.imagecells import column_of_images, decoded
from rayfed.datasets.libsvm import LABEL, LIBSVM, is_libsvm, read_libsvm
from rayfed.datasets.pixels import Size

if TYPE_CHECKING:
    import pandas as pd

Task: TypeAlias = Literal["regression", "binary", "multiclass", "own"]

_DATASET = "dataset: {name: table, path: ...}"
_COMMA = r"[-+]?\d+,\d+"
"""A number with a decimal comma."""
_FEW_VALUES, _MOST_VALUES = 20, 256
"""Texts of a column that become categories by themselves: few, or at most, if half are repeated."""
_ROW = re.compile(r"', row (\d+)")
"""Where an error names a row."""
_COPIES = 5  # of the features that are held at once, until training rows have said what they become


def is_file(dataset: str) -> bool:
    """Return whether ``problem.dataset`` names a file.

    Examples
    --------
    >>> is_file("data/houses.csv.gz"), is_file("mnist")
    (True, False)
    """
    return dataset.endswith(SUFFIXES + LIBSVM)


@dataclass(frozen=True)
class Rules:
    """Rules for reading the columns of a file; see `rayfed.datasets.tabular.Tabular`."""

    client: str | None = None
    categorical: Literal["auto"] | tuple[str, ...] = ()
    missing: Literal["refuse", "drop", "mean"] = "refuse"
    form: Form = PLAIN
    size: Size | None = None


@dataclass(frozen=True)
class FileTable(Table):
    """Raw rows of a file, before training rows decide their encoding.

    Parameters
    ----------
    sources : tuple of (str, str or None)
        Column of each feature (d,), and the value of which the feature is the indicator;
        None if the feature is the column itself, numbers that are NaN where a cell is empty.
    images : str
        Column whose images the rows are; empty if rows are of numbers.
    """

    images: str = ""
    sources: tuple[tuple[str, str | None], ...] = ()

    @property
    def coded(self) -> Bools:
        """Features (d,) that say whether a categorical column holds a value."""
        return np.array([value is not None for _, value in self.sources])


def load_file(
    path: Path | str,
    target: str | Sequence[str] | None,
    task: Task,
    like: Table | None = None,
    rules: Rules = Rules(),
) -> FileTable:
    """Read a CSV, Parquet or LIBSVM file.

    Clients, categories and classes are texts, as they are written; features and other targets are
    numbers.

    Parameters
    ----------
    path : Path or URL
        A file that ends in ``.csv``, ``.csv.gz`` or ``.parquet``, or in ``.libsvm`` or ``.svm``,
        or Parquet files at an ``hf://`` address.
    target : str or sequence of str, optional
        The column to predict; ``y`` if None, which is what labels of LIBSVM files are called. The
        columns to predict if there are several.
    task : "regression", "binary", "multiclass" or "own"
        Task of the problem. Classes are numbered in sorted order, that of numbers if all are. A
        loss of the user's own takes numbers if any of them has a fraction, and else classes. Of
        several columns, classes are numbers 0, 1, ... in the file.
    like : Table, optional
        The training table, if the file holds test rows: its features and classes are used, and no
        ``client`` column is needed.
    rules : Rules
        The column of clients, the columns of categories, and the handling of cells
        that are empty.

    Returns
    -------
    FileTable
        Every column but the target and ``client`` is a feature. The values of ``client`` are
        numbered in sorted order; other values than 0, 1, ... are kept as names.

    Raises
    ------
    ScenarioError
        If there is no such file, it cannot be read or has no rows, the target or a feature is
        missing, a cell is text, empty or infinite, a column has too many categories, the target
        names the clients or does not fit the task.
    """
    given = [LABEL] if target is None else [target] if isinstance(target, str) else target
    columns = tuple(name.strip() for name in given)
    if len(set(columns)) < len(columns):
        raise ScenarioError("problem.target", f"found {listed(columns)}; name each column once")
    if task == "own" and like is not None:
        task = "multiclass" if like.classes else "regression"
    known = None if like is None else _sources(like)
    texts = _texts(columns, task, rules, known)
    gathered = _gathered(path, texts, rules, tuple(name for name, _ in known or ()))
    reader = _Reader(path, gathered, rules)
    if reader.client in columns and reader.client in reader.columns:
        raise reader.error(f"names clients in column '{reader.client}'; choose another target")
    images = like.images if isinstance(like, FileTable) else ""
    if known is None:
        used = reader.features(columns)
        images = column_of_images(gathered.frame, used, str(path))
    elif not images:
        used = reader.known_columns(known)
    used = (images,) if images else used
    reader.read(used, columns, texts, like, images)
    if rules.missing == "drop":
        reader.without_gaps()
    y, labels = reader.targets(columns, task, like)
    called, client = reader.clients() if like is None else reader.clients_of(like)
    table = FileTable(
        np.zeros((len(y), 0)), y, classes=len(labels), labels=labels, part=reader.part,
        files=max(1, len(gathered.names)),
    )  # fmt: skip
    if images:
        table = reader.of_images(table, images, columns, like)
    else:
        sources = reader.coded(used) if known is None else known
        names = tuple(name if value is None else f"{name}={value}" for name, value in sources)
        table = replace(table, X=reader.encoded(sources), names=names, sources=sources)
    table = replace(table, note="; ".join(reader.notes))
    _check_classes(table, path, columns[0])
    if client is None:
        return table.apart(np.ones(len(y), dtype=bool))
    return replace(table, client=client, client_names=called)


def _check_classes(table: FileTable, path: Path | str, target: str) -> None:
    """Refuse held-out rows of classes that no training row has."""
    known = np.isin(table.y, table.y[table.given("train")])
    if table.classes and not known.all():
        label = table.labels[int(table.y[~known][0])]
        text = f"target '{target}' holds {label!r}, a class that is not in the training data"
        raise ScenarioError(str(path), text)


def _sources(table: Table) -> tuple[tuple[str, str | None], ...]:
    """Return column and value of each feature of the training data."""
    if isinstance(table, FileTable):
        return table.sources
    return tuple((name, None) for name in table.names)


def _texts(
    targets: tuple[str, ...], task: Task, rules: Rules,
    known: tuple[tuple[str, str | None], ...] | None,
) -> set[str]:  # fmt: skip
    """Return the text columns: clients, classes, and those that rules or `known` name."""
    texts = {CLIENT if rules.client is None else rules.client}
    if task != "regression" and len(targets) == 1:
        texts.update(targets)
    if known is not None:
        return texts | {name for name, value in known if value is not None}
    return texts if rules.categorical == "auto" else texts.union(rules.categorical)


def _gathered(path: Path | str, texts: set[str], rules: Rules, names: tuple[str, ...]) -> Gathered:
    """Return the cells of one or several files; of LIBSVM's these features too, be they all 0."""
    if isinstance(path, str):
        return joined(path, *read_hub(path, texts, rules.form), rules.client)

    def read(path: Path) -> pd.DataFrame:
        if is_libsvm(path, SUFFIXES):
            return read_libsvm(path, names)
        return read_frame(path, texts, rules.form)

    return gather(path, rules.client, read) if is_many(str(path)) else Gathered(read(path))


def client_names(values: Sequence[str]) -> tuple[str, ...]:
    """Return the names of clients, given them in order; none if these are 0, 1, ...

    Examples
    --------
    >>> client_names(["hospital-03", "hospital-07"]), client_names(["0", "1"]), client_names(["7"])
    (('hospital-03', 'hospital-07'), (), ('7',))
    """
    if [canonical(value) for value in values] == [str(number) for number in range(len(values))]:
        return ()
    return tuple(values)


class _Reader:
    """Extracts validated columns from a frame; errors name the file.

    `read` takes the cells of what is used; from then on a column is an array (n,) of numbers, NaN
    where a cell is empty, or of texts, None there.
    """

    def __init__(self, path: Path | str, gathered: Gathered, rules: Rules) -> None:
        self.path, self.frame, self.rules = path, gathered.frame, rules
        self.part, self.gathered = gathered.part, gathered
        self.columns = [str(name) for name in self.frame.columns]
        self.client = gathered.client or rules.client or CLIENT
        self.cells: dict[str, Array] = {}
        self.kept = np.arange(len(self.frame))  # rows of the frame that `cells` are from
        self.notes: list[str] = []
        if len(self.frame) == 0:
            raise self.error("has no rows; give at least one below the header")

    def error(self, problem: str) -> ScenarioError:
        """Return an error that names the file; one of several is named with the row."""
        return ScenarioError(str(self.path), _ROW.sub(self._in_file, problem, count=1))

    def _in_file(self, row: re.Match[str]) -> str:
        held = self.gathered
        if not held.names:
            return row[0]
        number = int(row[1]) - 1
        file = int(np.searchsorted(held.starts, number, side="right")) - 1
        return f"', row {number - held.starts[file] + 1} of '{held.names[file]}'"

    def features(self, targets: tuple[str, ...]) -> tuple[str, ...]:
        """Return the columns that are features; those that the rules name must be there."""
        names = tuple(name for name in self.columns if name not in (*targets, self.client))
        if not names:
            shown = listed(map(repr, targets))
            raise self.error(f"has no feature columns other than {shown}; add at least one")
        chosen = () if self.rules.categorical == "auto" else self.rules.categorical
        for name in chosen:
            if name not in names:
                raise self.error(unknown("feature", name, names))
        if self.rules.client is not None and self.client not in self.columns:
            raise self.error(unknown("column", self.client, self.columns))
        return names

    def known_columns(self, sources: tuple[tuple[str, str | None], ...]) -> tuple[str, ...]:
        """Return the columns that hold the features of the training data."""
        names = tuple(dict.fromkeys(name for name, _ in sources))
        if not names:
            text = "cannot hold test rows, as the features of the training data have no names"
            raise self.error(f"{text}; give a fraction of their rows")
        for name in names:
            if name not in self.columns:
                raise self.error(f"has no column '{name}', a feature of the training data")
        return names

    def read(
        self, used: tuple[str, ...], targets: tuple[str, ...], texts: set[str],
        like: Table | None, images: str,
    ) -> None:  # fmt: skip
        """Take the cells of features, targets and, if wanted, clients; refuse empty ones."""
        for target in targets:
            if target not in self.columns:
                raise self.error(f"has no target column '{target}'; {self.nearest(target)}")
        owned = (like is None or like.client is not None) and self.client in self.columns
        needed = (*targets, self.client) if owned else targets
        guessed = used if like is None and self.rules.categorical == "auto" else ()
        if images:
            column = self.frame[images]
            self.cells[images] = np.asarray(column.astype(object).where(column.notna(), None))
        for name in (*(() if images else used), *needed):
            if len(targets) > 1 and name in targets:
                self.check_numbers(name)
            as_text = name in texts or name == self.client
            as_text = as_text or (name in guessed and self.is_category(name))
            self.cells[name] = self.texts(name) if as_text else self.numbers(name)
        for name in {"refuse": (*used, *needed), "mean": needed, "drop": ()}[self.rules.missing]:
            self.complete(name)

    def texts(self, name: str) -> Array:
        import pandas as pd

        column = self.frame[name]
        cells = column.astype(object).where(column.notna(), None)
        if pd.api.types.infer_dtype(cells, skipna=True) != "string":
            cells = pd.Series(named(str(self.path), name, cells), dtype=object)
        found = set(cells.dropna())
        words = sorted(found.intersection(NO_NUMBER))
        if words and as_numbers(found.difference(words)):
            text = f"in column '{name}', of numbers otherwise, '{words[0]}' is a value like others"
            self.notes.append(f"{text}; if it is none, list it in missing_values of {_DATASET}")
        return np.asarray(cells)

    def numbers(self, name: str) -> Array:
        values, bad = self.parsed(name)
        if bad.any():
            raise self.no_numbers(name, values, bad)
        infinite = np.flatnonzero(np.isinf(values))
        if len(infinite) and self.rules.missing == "refuse":
            text = f"column '{name}', row {infinite[0] + 1} is infinite; give a finite number"
            raise self.error(f"{text}, or set missing in {_DATASET}")
        return np.where(np.isinf(values), np.nan, values) if len(infinite) else values

    def parsed(self, name: str) -> tuple[npt.NDArray[np.float64], Bools]:
        """Return a column as numbers (n,), NaN where there are none, and whether a cell is none."""
        import pandas as pd

        column = self.frame[name]
        if pd.api.types.is_numeric_dtype(column):  # truth values included
            values = column.to_numpy(dtype=np.float64, na_value=np.nan)
            return values, np.zeros(len(values), dtype=bool)
        cells = column.astype(object).where(column.notna(), None)
        values = np.array([_number(cell) for cell in cells])
        return values, np.isnan(values) & ~cells.isin([None, *NO_NUMBER]).to_numpy()

    def is_category(self, name: str) -> bool:
        """Return whether a column is one of texts, by all of its cells."""
        values, bad = self.parsed(name)
        if not bad.any():
            return False
        texts = self.frame[name].dropna().astype(str)
        if bad.sum() < np.isfinite(values).sum() or self.commas(name, bad):
            raise self.no_numbers(name, values, bad)
        count, kinds = len(texts), texts.nunique()
        if kinds > _MOST_VALUES or (kinds > _FEW_VALUES and 2 * kinds > count):
            text = f"column '{name}' has {kinds:,} different texts in {count:,} rows"
            more = "too many for unlisted categories; drop it, or list it and the others"
            raise self.error(f"{text}, {more} in categorical of {_DATASET}")
        return True

    def commas(self, name: str, bad: Bools) -> bool:
        """Return whether the cells that are no numbers are some with a decimal comma."""
        return bool(self.frame[name][bad].astype(str).str.fullmatch(_COMMA).all())

    def no_numbers(self, name: str, values: Array, bad: Bools) -> ScenarioError:
        """Return the error of a column with cells that are no numbers."""
        row = int(np.argmax(bad))
        wrong, good = int(bad.sum()), int(np.isfinite(values).sum())
        text = f"column '{name}', row {row + 1} holds '{clipped(self.frame[name].iloc[row], 40)}'"
        if self.commas(name, bad):
            text += f" with a comma, as {wrong:,} of {wrong + good:,} cells; set decimal: ',' in"
            return self.error(f"{text} {_DATASET}, or leave commas of thousands out of the file")
        text += "; turn it into a number, or drop the column, or "
        if not good:
            return self.error(f"{text}name it in categorical of {_DATASET}")
        text += f"set missing_values or categorical in {_DATASET}"
        return self.error(f"{text}; {good:,} of {wrong + good:,} cells are numbers")

    def without_gaps(self) -> None:
        """Leave out rows with an empty cell in a column that is used, and make a note of them."""
        count = len(self.frame)
        gaps, worst, most = np.zeros(count, dtype=bool), "", 0
        for name, cells in self.cells.items():
            empty = _is_empty(cells)
            gaps |= empty
            if empty.sum() > most:
                worst, most = name, int(empty.sum())
        gone = int(gaps.sum())
        if not gone:
            return
        if gone == count:
            raise self.error("has an empty cell in every row; fill them, or set missing: mean")
        self.cells = {name: cells[~gaps] for name, cells in self.cells.items()}
        self.kept = np.flatnonzero(~gaps)
        self.part = None if self.part is None else self.part[~gaps]
        text = f"{gone:,} of {count:,} rows have an empty cell and are left out"
        self.notes.append(f"{text}; most are in column '{worst}', {most:,}")

    def complete(self, name: str) -> None:
        empty = np.flatnonzero(_is_empty(self.cells[name]))
        if len(empty):
            more = f", {len(empty):,} of {len(self.frame):,} rows are" if len(empty) > 1 else ""
            raise self.error(
                f"column '{name}', row {empty[0] + 1} is empty or NaN{more}; fill it or drop the "
                f"row, or set missing in {_DATASET}"
            )

    def coded(self, names: tuple[str, ...]) -> tuple[tuple[str, str | None], ...]:
        """Return the column of each feature, and of a category its value, in the order of texts."""
        values: dict[str, list[str] | list[None]] = {}
        for name in names:
            texts = self.cells[name].dtype == object
            values[name] = sorted(distinct(self.cells[name])[0]) if texts else [None]
        sources = tuple((name, value) for name in names for value in values[name])
        most = max(names, key=lambda name: len(values[name]))
        what = f"columns once categories are coded, {len(values[most]):,} of them of '{most}'"
        check_width(len(sources), str(self.path), what)
        size = _COPIES * 8 * len(self.cells[most]) * len(sources)
        check_room(size, str(self.path), f"its {len(sources):,} {what},", "drop some")
        return sources

    def encoded(self, sources: tuple[tuple[str, str | None], ...]) -> Array:
        """Return features (n, d); an unknown category has 0 in all of its columns."""
        import pandas as pd

        X = np.zeros((len(next(iter(self.cells.values()))), len(sources)))
        places: dict[str, dict[str, int]] = {}
        for j, (name, value) in enumerate(sources):
            if value is None:
                X[:, j] = self.cells[name]
            else:
                places.setdefault(name, {})[canonical(value)] = j
        for name, known in places.items():
            index, found = pd.factorize(self.cells[name])
            place = np.array([*(known.get(canonical(text), -1) for text in found.tolist()), -1])
            if len(found) and place.max() < 0:
                text = f"column '{name}' holds no value of the training data, but such as"
                raise self.error(f"{text} '{clipped(found[0], 40)}'; write values alike")
            rows = np.flatnonzero(place[index] >= 0)
            X[rows, place[index][rows]] = 1.0
        return X

    def clients(self) -> tuple[tuple[str, ...], Ints | None]:
        if self.client not in self.columns:
            return (), None
        values, index = distinct(self.cells[self.client])
        return client_names(values), index

    def clients_of(self, like: Table) -> tuple[tuple[str, ...], Ints | None]:
        """Return the clients of test rows, if training rows have some and a column names them."""
        if self.client not in self.cells:
            return (), None
        assert like.client is not None
        known = like.client_names or tuple(map(str, range(int(like.client.max()) + 1)))
        places = {canonical(name): place for place, name in enumerate(known)}
        values, index = distinct(self.cells[self.client])
        for value in values:
            if canonical(value) not in places:
                text = f"client '{value}' has test rows, but no training rows"
                raise self.error(f"{text}; {unknown('client', value, known)}")
        return like.client_names, np.array([places[canonical(value)] for value in values])[index]

    def of_images(
        self, table: FileTable, name: str, targets: tuple[str, ...], like: Table | None
    ) -> FileTable:
        """Return a table with the images of a column as its rows; other columns are left out."""
        X, scale = decoded(
            self.cells[name].tolist(), self.rules.size,
            lambda row, problem: self.error(f"column '{name}', row {self.kept[row] + 1} {problem}"),
        )  # fmt: skip
        if like is not None and (X.shape[1:], scale) != (like.shape, like.scale):
            text = f"images are {X.shape[1:]} of up to {scale:g}, those for training "
            text += f"{like.shape} of up to {like.scale:g}"
            raise self.error(f"{text}; bring them to one form")
        others = [c for c in self.columns if c not in (name, self.client, *targets)]
        if others:
            text = f"columns other than the images of '{name}' are left out: {listed(others)}"
            self.notes.append(text)
        flat = X.reshape(len(X), -1)
        return replace(table, X=flat, scale=scale, shape=X.shape[1:], images=name)

    def check_numbers(self, name: str) -> None:
        """Refuse one of several targets that holds texts."""
        _, bad = self.parsed(name)
        if bad.any():
            row = int(np.argmax(bad))
            cell = clipped(self.frame[name].iloc[row], 40)
            text = f"target '{name}', row {row + 1} holds '{cell}', and several targets are numbers"
            raise self.error(f"{text}; number its classes 0, 1, ...")

    def targets(
        self, names: tuple[str, ...], task: Task, like: Table | None
    ) -> tuple[Array, tuple[Any, ...]]:
        """Return targets (n,) and labels of classes; targets (n, T) of several columns."""
        if len(names) == 1:
            return self.target(names[0], task, like)
        y = np.stack([self.cells[name] for name in names], axis=1)
        whole = bool((y == np.floor(y)).all())
        classes = whole if task == "own" and like is None else task != "regression"
        if like is not None and task == "regression":
            classes = like.y.dtype.kind == "i"
        if not classes:
            return y, ()
        if not whole:
            row, column = np.argwhere(y != np.floor(y))[0]
            held = f"row {self.kept[row] + 1} holds {y[row, column]:g}"
            text = f"target '{names[column]}', {held}, not a class"
            raise self.error(f"{text}; number classes 0, 1, ..., or use loss: squared-error")
        if like is not None and y.max() > like.y.max():
            text = f"targets hold {y.max():g}, a class that is not in the training data"
            raise self.error(text)
        check_values(y.astype(np.int64), "", str(self.path))
        return y.astype(np.int64), ()

    def target(self, name: str, task: Task, like: Table | None) -> tuple[Array, tuple[Any, ...]]:
        if task == "regression":
            return self.cells[name], ()
        labels, y = distinct(self.cells[name])
        numbers = as_numbers(labels) if task == "own" else None
        if numbers is not None and any(number % 1 for number in numbers):
            return np.array(numbers, dtype=np.float64)[y], ()
        if like is not None:
            return self.known(name, labels, y, like.labels)
        self.fit(name, task, labels)
        return y, labels

    def nearest(self, name: str) -> str:
        near = difflib.get_close_matches(name, self.columns, n=1, cutoff=0.4)
        shown = ", ".join(self.columns[:8]) + (", ..." if len(self.columns) > 8 else "")
        if as_numbers(self.columns) is not None and not self.rules.form.columns:
            return f"the first line holds {shown}. Without a header, set columns in {_DATASET}"
        hint = f"did you mean '{near[0]}'?" if near else f"the columns are {shown}."
        return f"{hint} Set problem.target"

    def fit(self, name: str, task: Task, labels: tuple[str, ...]) -> None:
        numbers = {label: found[0] for label in labels if (found := as_numbers([label]))}
        parts = [label for label, number in numbers.items() if number != number.to_integral_value()]
        if parts and 2 * len(numbers) > len(labels):
            raise self.error(
                f"target '{name}' holds numbers such as {parts[0]}, not classes; "
                "use a regression problem"
            )
        if task == "binary" and len(labels) != 2:
            raise self.error(
                f"target '{name}' has {len(labels)} classes where the problem takes 2; "
                "use a multiclass problem such as softmax-regression"
                if len(labels) > 2
                else f"target '{name}' has 1 class where the problem takes 2; check the column"
            )
        if len(labels) < 2:
            raise self.error(f"target '{name}' has 1 class; at least 2 are needed")

    def known(
        self, name: str, labels: tuple[str, ...], y: Ints, trained: tuple[Any, ...]
    ) -> tuple[Array, tuple[Any, ...]]:
        places = {canonical(str(label)): place for place, label in enumerate(trained)}
        strange = [label for label in labels if canonical(label) not in places]
        if strange:
            raise self.error(
                f"target '{name}' holds {strange[0]!r}, a class that is not in the training data"
            )
        return np.array([places[canonical(label)] for label in labels])[y], trained


def _is_empty(cells: Array) -> Bools:
    """Return which cells (n,) of numbers or texts are empty."""
    empty: Bools = cells == np.array(None) if cells.dtype == object else np.isnan(cells)
    return empty


def _number(cell: Any) -> float:
    try:
        return float("nan" if isinstance(cell, str) and "_" in cell else cell)
    except (TypeError, ValueError):
        return float("nan")
