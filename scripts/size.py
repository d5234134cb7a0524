"""Count lines of code: lines that hold a token, without documents, comments and blanks.

::

    python scripts/size.py                # rayfed/ and each of its folders
    python scripts/size.py tests --deep 2 # two levels of folders

A document is a string that stands by itself, as docstrings do. A line counts once, however many
tokens it holds; a statement over five lines counts five.
"""

from __future__ import annotations

import argparse
import ast
import io
import tokenize
from collections import Counter
from pathlib import Path

_EMPTY = {
    tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT,
    tokenize.ENCODING, tokenize.ENDMARKER,
}  # fmt: skip


def size(source: str) -> int:
    """Return the lines of code of a Python file's text."""
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in _EMPTY:
            lines.update(range(token.start[0], token.end[0] + 1))
    return len(lines - _documents(source))


def _documents(source: str) -> set[int]:
    """Return the lines of strings that stand by themselves."""
    lines: set[int] = set()
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Expr(value=ast.Constant(value=str())):
                lines.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return lines


def sizes(root: Path, deep: int = 1) -> Counter[str]:
    """Return the lines of code below a folder, by its subfolders down to a depth; files are '.'."""
    counts: Counter[str] = Counter()
    for path in sorted(root.rglob("*.py")):
        inside = path.relative_to(root).parts[:-1][:deep]
        counts["/".join(inside) or "."] += size(path.read_text(encoding="utf-8"))
    return counts


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description="Count lines of code by folder.")
    parser.add_argument("root", type=Path, nargs="?", default=Path("rayfed"))
    parser.add_argument("--deep", type=int, default=1, metavar="N", help="levels of folders")
    given = parser.parse_args()
    counts = sizes(given.root, given.deep)
    files = sum(1 for _ in given.root.rglob("*.py"))
    for name, lines in sorted(counts.items(), key=lambda item: -item[1]):
        print(f"{lines:7,}  {name}")
    print(f"{sum(counts.values()):7,}  in all, {files} files")


if __name__ == "__main__":
    main()
