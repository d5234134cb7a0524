"""Tables that the commands print."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.markup import escape
from rich.table import Column, Table
from rich.text import Text

from rayfed.core.errors import clipped, many

MOST_PROFILES = 6
"""Runs of which each has a column in the table of a profile."""
_STYLES = {
    "holds": "green", "undecided": "yellow", "fails": "bold red", "not reproduced": "yellow",
    "not checked": "red", "not run": "dim",
}  # fmt: skip


def studies(paths: Mapping[str, Path]) -> Table:
    """Return a line for every published study."""
    from rayfed.reproduce.claims import load_claims

    names = Column("study", no_wrap=True, min_width=max(map(len, paths)))  # to be copied
    source = Column("source", no_wrap=True, max_width=16)
    table = Table(names, "parts", "claims", source, box=None, pad_edge=False)
    for name, path in paths.items():
        held = load_claims(path)
        cells = (name, ", ".join(held.parts), str(len(held.claims)), held.source)
        table.add_row(*map(escape, cells))
    return table


def overview(rows: Sequence[Any]) -> Table:
    """Return a line for every study of an overview: `rayfed.dashboard.overview.StudyRow`."""
    name, here = Column("study", overflow="fold"), Path.cwd()
    table = Table(name, "runs", "started", "duration", "tags", "notes", box=None, pad_edge=False)
    for row in rows:
        notes = row.study.notes
        tags = (*notes.tags, *(["(archived)"] if notes.archived else []))
        text = clipped(notes.text, 60) if notes.text else row.study.trouble
        folder = row.study.folder
        place = folder.relative_to(here) if folder.is_relative_to(here) else folder
        cells = (str(place), row.counts, row.started, row.duration, " ".join(tags), text)
        table.add_row(*map(escape, cells))
    return table


def claims(outcome: Any) -> Table:
    """Return a line for every claim of a study that was checked."""
    heads = ("the source says", "where", "runs", "measured", "holds")
    table = Table(*heads, box=None, pad_edge=False, title_justify="left", leading=1)
    for verdict in outcome.verdicts:
        words = {"holds": "yes", "fails": "NO"}.get(verdict.status, verdict.status)
        if verdict.remark:
            words += f": {verdict.remark}"
        runs = "; ".join(filter(None, (verdict.seeds, *verdict.rests_on)))
        cells = (verdict.claim.says, verdict.claim.where, runs, verdict.result)
        holds = Text(words, style=_STYLES[verdict.status])
        table.add_row(*map(escape, cells), holds)
    return table


def survey(found: Any) -> Table:
    """Return a line for every study, and one for each of its claims that does not hold."""
    name = Column("study", no_wrap=True)
    table = Table(
        name, "seconds", "held", "undecided", "marked", "failed", "not run", "claim", "reason",
        box=None, pad_edge=False,
    )  # fmt: skip
    for study in found.studies:
        counted = ("holds",), ("undecided",), ("not reproduced",), ("fails", "not checked")
        counts = [len(study.verdicts(*states)) for states in (*counted, ("not run",))]
        table.add_row(escape(study.name), f"{study.seconds:.0f}", *map(str, counts), "", "")
        for verdict in study.verdicts("undecided", "not reproduced", "fails", "not checked"):
            says = Text(f"{verdict.status}: {verdict.claim.says}", style=_STYLES[verdict.status])
            reason = verdict.remark or verdict.measured
            table.add_row(*[""] * 7, says, escape(reason))
        for run, why in study.outcome.failed.items():
            table.add_row(*[""] * 7, Text(f"run failed: {run}"), escape(why))
    return table


def counted(outcome: Any) -> str:
    """Return the number of claims by outcome."""
    states = [verdict.status for verdict in outcome.verdicts]
    counts = (f"{states.count(state)} {state}" for state in _STYLES if state in states)
    return f"{len(states)} claims: {', '.join(counts)}"


def runs(plan: Any) -> Table:
    """Return a line for every algorithm and setting of a plan."""
    table = Table("algorithm", "setting", "seeds", "parameters", "rows", box=None, pad_edge=False)
    seen: dict[tuple[str, str], list[Any]] = {}
    for run in plan.runs:
        seen.setdefault((run.label, run.setting), []).append(run)
    for (label, setting), runs in seen.items():
        rows = runs[0].federation.views.evaluation.shards.total()
        seeds = ", ".join(str(each.seed) for each in runs)
        cells = (label, setting, seeds, f"{runs[0].training.x0.size:,}", f"{rows:,}")
        table.add_row(*map(escape, cells))
    return table


def cases(held: Mapping[str, Mapping[str, Any]]) -> Table:
    """Return a line for every key that cases give, with its values in each."""
    from rayfed.core.dotted import called, value_text

    def text(key: str, value: Any) -> str:
        return ", ".join(map(called, value)) if key == "algorithms" else value_text(value)

    table = Table("key", *map(escape, held), box=None, pad_edge=False)
    for key in dict.fromkeys(key for values in held.values() for key in values):
        cells = (text(key, values[key]) if key in values else "" for values in held.values())
        table.add_row(*(escape(clipped(cell, 60)) for cell in (key, *cells)))
    return table


def best(choice: Any, width: int) -> tuple[Table, list[str]]:
    """Return the best setting of every algorithm, with its result.

    Parameters
    ----------
    choice : Best
        See `rayfed.report.best`.
    width : int
        Characters of a line.

    Returns
    -------
    Table
        A line for each algorithm; columns that say nothing are left out.
    list of str
        The settings, where they do not fit into the table: nothing cuts them.
    """
    from rayfed.report.tables import text_width

    frame = choice.frame().drop(columns="undecided")  # shown by `choice.notes`
    lost = frame["failed"] == frame["tried"]
    frame["setting"] = frame["setting"].where(~lost, "every setting failed")
    frame["edges"] = [
        ", ".join(key.rpartition(".")[2] for key in keys.split()) for keys in frame["edges"]
    ]
    silent = [name for name in ("failed", "edges") if not frame[name].any()]
    shown = frame.drop(columns=silent).map(_best_cell)
    shown = shown.rename(columns={"rounds_to_target": "rounds", "edges": "at edge"})
    if text_width(shown) <= width:
        return _texts(shown), []
    settings = zip(frame["algorithm"], frame["setting"], strict=True)
    return _texts(shown.drop(columns="setting")), [f"{name}: {text}" for name, text in settings]


def _best_cell(value: Any) -> str:
    text = f"{value:.6g}" if isinstance(value, float) else str(value)
    return "never" if text == "nan" else text


def comparison(result: Any) -> Table:
    """Return the table that compares the algorithms of a result."""
    return _texts(result.comparison())


def compared(results: Any) -> Table:
    """Return the table that compares the algorithms of several result folders."""
    from rayfed.report.pivot import overview_table

    return _texts(overview_table(results))


def _texts(frame: Any) -> Table:
    table = Table(*[str(c) for c in frame.columns], box=None, pad_edge=False)
    for row in frame.itertuples(index=False):
        table.add_row(*[escape(str(v)) for v in row])
    return table


def profile(frame: Any) -> Table:
    """Return milliseconds of a round by step, a column for each run; see `Result.profile`.

    Where there are more than `MOST_PROFILES` runs, there is a column for each algorithm.
    """
    steps = [column for column in frame if column not in ("label", "seed", "setting")]
    named = ["label", "setting", *(["seed"] if len(frame) <= MOST_PROFILES else [])]
    means = frame.groupby(named, sort=False)[steps].mean()
    heads = [" ".join(str(part) for part in key if part != "") for key in means.index]
    table = Table("ms of a round", box=None, pad_edge=False)
    for head in heads:
        table.add_column(escape(head), justify="right")
    for step in steps:
        table.add_row(step, *(f"{ms:#.3g}".rstrip(".") for ms in means[step]))
    return table


def on_nodes(cpus: Sequence[int], combiners: int) -> str:
    """Return where client actors are, given the CPUs of each node; nothing if on one."""
    return f" on {len(cpus)} nodes, {many(combiners, 'combiner')}" if len(cpus) > 1 else ""
