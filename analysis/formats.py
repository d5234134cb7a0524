"""A table as Markdown, LaTeX or CSV text, to be pasted into a paper."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Sequence

from analysis.tables import Column

_LATEX = {
    "\\": r"\textbackslash{}",
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "_": r"\_",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "±": r"$\pm$",
    "∞": r"$\infty$",
}


def markdown(columns: Sequence[Column]) -> str:
    """Return a table in GitHub's Markdown, the best values in bold."""
    heads = [_cell(column.title) for column in columns]
    rule = ["---"] + ["---:"] * (len(columns) - 1)
    return "".join(f"| {' | '.join(row)} |\n" for row in [heads, rule, *_rows(columns, _bold)])


def latex(columns: Sequence[Column]) -> str:
    """Return a LaTeX tabular (it needs the booktabs package), the best values in bold."""
    heads = " & ".join(escape_latex(column.title) for column in columns)
    body = [" & ".join(row) + r" \\" for row in _rows(columns, _textbf)]
    head = [rf"\begin{{tabular}}{{l{'r' * (len(columns) - 1)}}}", r"\toprule", heads + r" \\"]
    return "\n".join([*head, r"\midrule", *body, r"\bottomrule", r"\end{tabular}", ""])


def csv_text(columns: Sequence[Column]) -> str:
    """Return the table as CSV, as it is shown."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([column.title for column in columns])
    writer.writerows(zip(*(column.texts for column in columns), strict=True))
    return out.getvalue()


def escape_latex(text: str) -> str:
    r"""Return a user's text as LaTeX prints it.

    Examples
    --------
    >>> print(escape_latex("a_b & 50 %"))
    a\_b \& 50 \%
    """
    return "".join(_LATEX.get(sign, sign) for sign in text)


def _rows(columns: Sequence[Column], mark: Callable[[str, bool], str]) -> list[list[str]]:
    return [
        [mark(column.texts[row], column.best[row]) for column in columns]
        for row in range(len(columns[0].texts))
    ]


def _bold(text: str, best: bool) -> str:
    return f"**{_cell(text)}**" if best else _cell(text)


def _textbf(text: str, best: bool) -> str:
    return rf"\textbf{{{escape_latex(text)}}}" if best else escape_latex(text)


def _cell(text: str) -> str:
    safe = "".join("\\" + sign if sign in "\\|*_`<>" else sign for sign in text)
    return " ".join(safe.split())
