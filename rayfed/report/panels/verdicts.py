"""What is said of algorithms by case: who ends best where, by how much, and what is noise."""

from __future__ import annotations

from collections.abc import Sequence

from rayfed.report.panels.phrases import MOST_NAMED, joined, listed, quoted
from rayfed.report.pivot import SIGNIFICANCE, Ranks, Standing, standings
from rayfed.report.read import units
from rayfed.report.read.results import Results

_MOST_TOLD = 4  # cases beyond which they are counted


def verdict(results: Results, column: str) -> str:
    """Return which algorithm ends best in which case beyond noise, and where none does.

    Parameters
    ----------
    results : Results
        A result folder with `Results.cases`.
    column : str
        A column of the rounds.
    """
    title, found = results.column(column).title, standings(results, column)
    if results.column(column).better is None or not found:
        return f"The final {title} of each algorithm, by case"
    won: dict[str, list[str]] = {}
    level: dict[tuple[str, ...], list[str]] = {}
    for case, one in found.items():
        if len(one.level) == 1:
            won.setdefault(one.level[0], []).append(case)
        else:
            level.setdefault(one.level, []).append(case)
    tell = _told if len(found) <= _MOST_TOLD else _counted
    text = tell(title, found, won, level)
    seeds = max(len(results.usable(name)) for name in results.names)
    return text if seeds > 1 else f"{text}; with one seed it is not known what is noise"


def _told(
    title: str,
    found: dict[str, Standing],
    won: dict[str, list[str]],
    level: dict[tuple[str, ...], list[str]],
) -> str:
    """Return who is best in each case, by how much."""
    parts: list[str] = []
    head = f"{title} "
    for name, cases in won.items():
        verb = f"{quoted(name)} ends best" if not parts else quoted(name)
        where = []
        for case in cases:
            where.append(f"{at([case])} ({head}{_margin(found[case])})")
            head = ""
        parts.append(f"{verb} {listed(where)}")
    equal = [
        _level(names, at(cases), len(found[cases[0]].ranking)) for names, cases in level.items()
    ]
    if not won:
        return f"By the final {title} no algorithm is best beyond noise: {'; '.join(equal)}"
    return "; ".join([", ".join(parts), *equal])


def _margin(standing: Standing) -> str:
    """Return the best value and the next one, with whose it is."""
    first, second = standing.ranking[:2]
    ends = units.telling([standing.ends[name].mean for name in (first, second)], least=3)
    return f"{ends[0]}, {quoted(second)} {ends[1]}"


def _level(names: tuple[str, ...], where: str, rivals: int) -> str:
    if not names:
        return f"{where} nothing is to be compared"
    who = "all" if len(names) == rivals > 2 else joined([quoted(name) for name in names])
    return f"{where} {who} are level, within noise"


def _counted(
    title: str,
    found: dict[str, Standing],
    won: dict[str, list[str]],
    level: dict[tuple[str, ...], list[str]],
) -> str:
    """Return in how many cases each algorithm is best."""
    order = sorted(won, key=lambda name: -len(won[name]))[:MOST_NAMED]
    parts: list[str] = []
    for name in order:
        verb, of = ("", "") if parts else (f" ends at the best {title}", f" of {len(found)} cases")
        named = f" ({'; '.join(won[name])})" if len(won[name]) <= MOST_NAMED else ""
        parts.append(f"{quoted(name)}{verb} in {len(won[name])}{of}{named}")
    rest = sum(map(len, level.values()))
    equal = f"in {rest} of {len(found)} the best are level, within noise" if rest else ""
    best = f"Beyond noise {', '.join(parts)}" if parts else ""
    return "; ".join(filter(None, [best, equal]))


def at(cases: Sequence[str]) -> str:
    """Return where something is so: at numbers, or in cases with names.

    Examples
    --------
    >>> at(["alpha = 1", "alpha = 10"]), at(["skewed"])
    ('at alpha = 1 and 10', 'in skewed')
    """
    keys = {case.partition(" = ")[0] for case in cases}
    if len(keys) == 1 and all(case.count(" = ") == 1 for case in cases):
        return f"at {keys.pop()} = {listed([case.partition(' = ')[2] for case in cases])}"
    return f"in {listed([quoted(case) for case in cases])}"


def of_ranks(ranks: Ranks) -> str:
    """Return who has the best mean rank, and who is worse beyond the critical difference."""
    best, *others = ranks.means
    least = ranks.means[best]
    text = f"Over {ranks.cases} cases {quoted(best)} has the best mean rank, {units.number(least)}"
    if ranks.p >= SIGNIFICANCE:
        return f"{text}, but chance alone may make such ranks (Friedman's test, p = {ranks.p:.2g})"
    worse = [name for name in others if ranks.means[name] - least >= ranks.critical]
    if not worse:
        return f"{text}, but no algorithm is worse beyond the critical difference"
    told = joined([quoted(name) for name in worse])
    return f"{text}; {told} {'is' if len(worse) == 1 else 'are'} worse beyond noise"
