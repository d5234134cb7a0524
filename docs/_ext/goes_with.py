"""The page of what goes with what, from the declarations of plug-ins."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import md
from sphinx.application import Sphinx

from rayfed.channel.privacy import Privacy, Tree
from rayfed.core.needs import (
    BY_DATA,
    BY_PROBLEMS,
    BY_SOLVERS,
    GIVEN,
    LABELS,
    OPTIMUM,
    TERMS,
    Terms,
    where,
)
from rayfed.core.plugins import find
from rayfed.study.forecast.parts import SETTINGS
from rayfed.testing.own_parts import verdicts

HEAD = """# What goes with what

A part of a study declares what it needs, and what it removes, so that others cannot have it
(`rayfed.core.needs`). Before a run starts, one function compares all parts: where one needs what
another removes, the study is refused, and the message names both. For example, FedVARP needs
replies of the current round alone, and `late: stale` uses replies of earlier rounds. What follows
from the first Ask of an algorithm, from settings, from numbers or from shapes is checked as well,
and not listed here; [](../howto/compress.md) has the codecs and rules that each algorithm takes."""
KINDS = (
    "stages", "memories", "aggregators", "mixers", "faults", "selections", "measures", "partitions",
    "drifts", "problems", "datasets", "solvers",
)  # fmt: skip
GIVERS = {"problems": BY_PROBLEMS, "datasets": BY_DATA, "solvers": BY_SOLVERS}
"""Kinds of parts that remove the terms that they do not give."""


def page() -> str:
    """Return the page."""
    parts = list(_parts())
    return "\n\n".join([HEAD, _algorithms(), _own_code(), _terms(parts)]) + "\n"


def _algorithms() -> str:
    rows = [
        (f"`{name}`", _names(cls.needs), _names(cls.gives))
        for name, cls in find("algorithms").items()
    ]
    head = ("algorithm", "needs", "gives")
    return f"## Algorithms\n\n{md.table(head, rows)}"


def _own_code() -> str:
    """Return which parts run with own training code, each of which is tried."""
    with TemporaryDirectory() as folder:
        tried = list(verdicts(Path(folder)))
    rows = []
    for kind in dict.fromkeys(kind for kind, _, _ in tried):
        of_kind = [(f"`{name}`", why) for each, name, why in tried if each == kind]
        works = ", ".join(name for name, why in of_kind if not why)
        refused = "; ".join(
            f"{name}: {md.escaped(why.partition('; ')[0])}" for name, why in of_kind if why
        )
        rows.append((kind, works, refused))
    text = (
        "Each part in a study of [own training code](../howto/own-code.md) with client state: it "
        "runs, or it is refused before the run. FedBN runs with a module that has normalisation "
        "layers. Faults, rules, codecs and memories are those of FedAvg."
    )
    return f"## Own training code\n\n{text}\n\n{md.table(('parts', 'run', 'refused'), rows)}"


def _terms(parts: Sequence[tuple[str, Terms, Terms]]) -> str:
    rows = [
        (
            f"`{name}`",
            md.escaped(term.needed),
            ", ".join(f"`{part}`" for part, needs, _ in parts if term in needs),
            ", ".join(f"`{part}`" for part, _, removes in parts if term in removes),
        )
        for name, term in TERMS.items()
    ]
    head = ("term", "meaning", "needed by", "removed by")
    text = (
        "Algorithms are in the table above. Where a cell is empty, algorithms, the first Ask, the "
        "settings of a part, the clients or the server need or remove the term."
    )
    return f"## Terms\n\n{text}\n\n{md.table(head, rows)}"


def _parts() -> Iterator[tuple[str, Terms, Terms]]:
    """Yield the parts that are no algorithms: name, needs, and removed terms."""
    for kind in KINDS:
        for name, cls in find(kind).items():
            removes = _declared(cls, "removes")
            if kind in GIVERS:
                removes = GIVERS[kind] - cls.gives
            if kind == "problems":
                numbers, unknown = cls.task == "regression", not cls.convex
                removes |= where({LABELS: numbers, OPTIMUM: unknown})
            shown = f"dataset: {name}" if kind == "datasets" else name
            yield shown, _declared(cls, "needs"), removes
    for each in SETTINGS:
        name = f"{each.key}: {each.value}" if each.value else each.key
        yield name, frozenset(each.needs), frozenset(each.removes)
    for private in (Privacy(noise=1.0, delta=1e-5), Tree(noise=1.0, delta=1e-5, separation=1)):
        name = "privacy" if private.sampled else "privacy: tree"
        yield name, private.needs, private.removes


def _declared(cls: type[Any], key: str) -> Terms:
    """Return a declaration, or nothing; one that depends on settings, for their defaults."""
    found = getattr(cls, key, frozenset())
    declared: Terms = found.fget(cls) if isinstance(found, property) else found
    return declared


def _names(terms: Terms) -> str:
    found = [name for name, term in TERMS.items() if term in terms]
    return ", ".join(f"`{name}`" for name in sorted(found, key=lambda n: (TERMS[n] in GIVEN, n)))


def _generate(app: Sphinx) -> None:
    md.write(Path(app.srcdir), "combinations.md", page())


def setup(app: Sphinx) -> dict[str, bool]:
    """Write the page before Sphinx reads its sources."""
    app.connect("builder-inited", _generate)
    return {"parallel_read_safe": True}
