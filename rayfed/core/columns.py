"""Columns of result tables: names, titles, units, and which direction is better.

Each column is declared once, by the table or the plug-in that it belongs to. Tables are written
from the declarations, and so are all labels and descriptions of columns.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

Dtype: TypeAlias = Literal["float64", "int64", "bool", "string", "category"]
Better: TypeAlias = Literal["lower", "higher"]


@dataclass(frozen=True)
class Column:
    """One column of a result table.

    Parameters
    ----------
    name : str
        Name in the file.
    title : str, optional
        Short title for axes and tables. Default: the name with spaces for underscores.
    unit : str, optional
        A symbol such as "s" or "B"; empty for pure numbers.
    better : "lower" or "higher", optional
        Direction of improvement; None if there is none.
    about : str, optional
        One-sentence description.
    dtype : str
        "float64", "int64", "bool", "string" or "category" (a string from a small set).
        Diagnostics of plug-ins are always "float64": rows without a value hold NaN.

    Raises
    ------
    ValueError
        If the name is empty, or `better` or `dtype` is not one of the values above.

    Examples
    --------
    >>> Column("momentum_norm").title
    'momentum norm'
    >>> Column("wait_s", "longest wait", unit="s", better="lower").label
    'longest wait (s)'
    """

    name: str
    title: str = ""
    unit: str = ""
    better: Better | None = None
    about: str = ""
    dtype: Dtype = "float64"

    def __post_init__(self) -> None:
        if not self.name:
            raise ValueError("a column needs a name")
        if self.better not in (None, *get_args(Better)):
            raise ValueError(f"{self.name}: better is 'lower', 'higher' or None, not {self.better}")
        if self.dtype not in get_args(Dtype):
            known = ", ".join(get_args(Dtype))
            raise ValueError(f"{self.name}: dtype is one of {known}, not {self.dtype}")
        if not self.title:
            object.__setattr__(self, "title", self.name.replace("_", " "))

    @property
    def label(self) -> str:
        """The title with the unit, as on an axis."""
        return f"{self.title} ({self.unit})" if self.unit else self.title


def names(columns: Iterable[Column]) -> tuple[str, ...]:
    """Return the names of columns, in order.

    Raises
    ------
    TypeError
        If an item is not a `Column`, for example a string.

    Examples
    --------
    >>> names([Column("loss"), Column("accuracy")])
    ('loss', 'accuracy')
    """
    return tuple(_checked(column).name for column in columns)


def by_name(columns: Iterable[Column]) -> dict[str, Column]:
    """Return columns keyed by name; the first of duplicates is kept."""
    columns_by_name: dict[str, Column] = {}
    for column in columns:
        columns_by_name.setdefault(_checked(column).name, column)
    return columns_by_name


def _checked(column: Column) -> Column:
    if not isinstance(column, Column):
        raise TypeError(f"{column!r} is not a Column; declare it as Column({str(column)!r})")
    return column
