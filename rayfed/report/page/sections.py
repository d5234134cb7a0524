"""The sections of the page in the order of the reader's questions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from rayfed.report.figures.convergence import shows_seeds
from rayfed.report.figures.fit import HOW
from rayfed.report.figures.style import study_inks
from rayfed.report.page import markup, words
from rayfed.report.page.payload import has_client_values
from rayfed.report.panels import claims, mixing_section, personal_section, walk_section
from rayfed.report.read import sweeps, units
from rayfed.report.read.results import Results, Run
from rayfed.report.read.series import clocks, stopped_at
from rayfed.report.read.settings import flat
from rayfed.report.tables import TextColumn

Data = Mapping[str, Any]
_HISTORY = '<div class="history" aria-live="polite"></div>'


def body(results: Results, answer: str, columns: Sequence[TextColumn], data: Data) -> str:
    """Return everything under the study's name.

    Parameters
    ----------
    results : Results
        A result folder.
    answer : str
        The headline.
    columns : sequence of Column
        The table.
    data : mapping
        What `payload.payload` returned.
    """
    return "\n".join(
        part
        for part in (
            f'<h2 class="answer" id="answer">{markup.sentence(answer)}</h2>',
            _failures(results),
            _convergence(results, data),
            _table(results, columns),
            _sweep(results, data),
            _claims(results),
            _clients(results, data),
            walk_section.section(data),
            personal_section.section(data),
            _left_behind(results, data),
            _learned(results, data),
            _what_was_run(results),
        )
        if part
    )


def _convergence(results: Results, data: Data) -> str:
    if not data["convergence"]:
        return ""
    view, about = data["view"], data["convergence"]
    ys = [(column, entry["title"]) for column, entry in about["columns"].items()]
    log = data["figures"]["convergence"]["layout"]["yaxis"]["type"] == "log"
    controls = (
        '<div class="controls">'
        + markup.choice(
            "x", "over", [(x, axis.title) for x, axis in clocks(results).items()], view["x"]
        )
        + markup.choice("scale", "scale", [("linear", "linear"), ("log", "log")], _scale(log))
        + markup.choice("y", "show", ys, view["y"])
        + '<div id="target"><label for="target-value">target</label>'
        '<input type="text" inputmode="decimal" id="target-value" autocomplete="off">'
        '<input type="range" id="target-slider" min="0" max="1000" aria-label="target"></div></div>'
    )
    seeds = max(len(results.usable(name)) for name in results.names)
    what = f"Lines are means over {seeds} seeds, bands one standard deviation"
    what += ", no further than the seeds themselves"
    what += "; faint lines are single seeds." if shows_seeds(results) else "."
    what = what if seeds > 1 else ""
    how = (
        f"{what} Diamonds mark where each run reached the target; move the dotted line to set "
        f"another one. {markup.term('simulated time', 'Simulated time')} and "
        f"{markup.term('client updates')} are totals since the start."
    )
    if about["thinned"]:
        how += f" Of each run at most {about['thinned']:,} rounds are drawn."
    # The answer above is the figure's title; the reading speaks up when the reader changes it.
    height = data["figures"]["convergence"]["layout"]["height"]
    return (
        f'<section><figure><p class="how">{how}</p>{controls}'
        '<p class="reading" id="reading" aria-live="polite"></p>'
        f"{markup.key(study_inks(results))}"
        f"{markup.plot('convergence', height, 'answer reading')}{markup.saves('convergence')}"
        "</figure></section>"
    )


def _scale(log: bool) -> str:
    return "log" if log else "linear"


def _table(results: Results, columns: Sequence[TextColumn]) -> str:
    seeds = max(len(results.usable(name)) for name in results.names)
    over = f", mean and standard deviation over {seeds} seeds" if seeds > 1 else ""
    to_target = any(column.title.startswith("rounds to") for column in columns)
    title = (
        "What it took to reach the target, and the final values" if to_target else "Final values"
    )
    how = (
        "Costs are means over the seeds and given where every seed reached the target. " * to_target
    )
    how += "The best is bold; baselines are grey and do not compete. Press a heading to sort."
    copies = (("markdown", "Markdown"), ("csv", "CSV"), ("latex", "LaTeX"))
    buttons = "".join(
        f'<button type="button" data-copy="{kind}">{text}</button>' for kind, text in copies
    )
    return (
        f'<section><h2 id="table-title">{title}{over}</h2><p class="how">{how}</p>'
        f"{markup.results_table(columns, study_inks(results), results.baselines)}"
        f'<p class="actions"><span>Copy as</span>{buttons}'
        '<span id="copied" role="status"></span></p></section>'
    )


def _sweep(results: Results, data: Data) -> str:
    inside = _swept(results, data) + mixing_section.section(results, data)
    return markup.section("What do the settings do?", inside) if inside else ""


def _swept(results: Results, data: Data) -> str:
    found = sweeps.find(results)
    if found is None or not data["sweep"]:
        return ""
    made = data["sweep"][data["view"]["y"]]
    maps = len(found.keys) == 2
    how = "Values at the end, means over seeds, of what is chosen to be shown above."
    if any(stopped_at(results, column) is not None for column in data["sweep"]):
        how += " Of what ends a run, the rounds until then."
    how += " The stronger the colour of a cell, the better." if maps else ""
    look = study_inks(results)
    places = {name: place for place, name in enumerate(look)}
    inside = ""
    if not maps and len(found.series) > 1:
        inside += markup.lines(
            (places[name], look[name], series)
            for series, name in zip(found.series, found.firsts, strict=True)
        )
    for index, figure in enumerate(made["figures"]):
        name = f"sweep-{index}"
        several = maps and len(found.series) > 1
        head = f'<p class="note">{escape(found.series[index])}</p>' if several else ""
        plot = markup.plot(name, figure["layout"]["height"], "sweep-title")
        inside += f"{head}{plot}{markup.saves(name)}"
    title = f'<h2 id="sweep-title">{escape(made["title"])}</h2>'
    return f'<figure>{title}<p class="how">{how}</p>{inside}</figure>'


def _claims(results: Results) -> str:
    told = claims.read(results.folder)
    return markup.section("Is it what the source says?", claims.section(told)) if told else ""


def _clients(results: Results, data: Data) -> str:
    if not data["runs"]:
        return ""
    run = data["runs"][data["view"]["run"]]
    place = results.names.index(run["name"])
    names = list(dict.fromkeys(one["name"] for one in data["runs"]))
    seeds = list(dict.fromkeys(str(one["seed"]) for one in data["runs"]))
    controls = '<div class="controls">' + markup.choice(
        "name", "algorithm", [(name, name) for name in names], run["name"]
    )
    if len(seeds) > 1:
        pairs = [(seed, seed) for seed in seeds]
        controls += markup.choice("seed", "seed", pairs, str(run["seed"]))
    controls += markup.choice(
        "span", "rounds", [("first", "the first"), ("whole", "all drawn")], "first", "span"
    )
    above = f"{controls}</div>" + markup.statuses(
        (
            (f'class="computing" style="background:var(--a{place})"', "computing"),
            ('style="background:var(--waiting)"', "waiting (there, not computing)"),
            ('class="late"', "late"),
            ('class="dropped"', "dropped"),
            ('class="away"', run["timeline"]["layout"]["meta"]["blank"]),
        )
    )
    how = (
        f"A row a client, the {markup.term('stragglers')} at the bottom; the strip on top is the "
        f"server's rounds, each asking its {markup.term('cohort')}. Drag to zoom, double-click to "
        "reset, click a bar for that client's history."
    )
    below = (
        f'<p class="note" id="timeline-note"></p>{_left_out(data)}<p class="client">'
        '<label for="client-number">What did client</label>'
        '<input type="number" id="client-number" min="0" step="1"> do?</p>'
        f"{_HISTORY}"
    )
    inside = markup.figure(
        "timeline", run["titles"]["timeline"], how, above, run["timeline"], below
    )
    return markup.section("What did the clients do?", inside)


def _left_out(data: Data) -> str:
    """Say which runs have no figures of their clients on the page."""
    shown, having = len(data["runs"]), data["runs_having"]
    if shown == having:
        return ""
    return (
        f'<p class="note">The clients of {shown} of {having} runs are on this page, the first '
        "seeds of each algorithm, so that it stays small.</p>"
    )


def _left_behind(results: Results, data: Data) -> str:
    figures = []
    if data["runs"]:
        run = data["runs"][data["view"]["run"]]
        how = (
            "A dot a client; open circles are the slowest fifth. On the dashed line a client "
            "counts as much as its data, below it less. Shows the run chosen above."
        )
        note = f'<p class="note" id="participation-note"></p>{_HISTORY}'
        title = run["titles"]["participation"]
        figures.append(markup.figure("participation", title, how, "", run["participation"], note))
        title = run["titles"]["rounds"]
        how = "Rows are clients, the fastest at the top; a filled cell took part in those rounds."
        note = '<p class="note" id="rounds-note"></p>'
        figures.append(markup.figure("rounds", title, how, "", run["rounds"], note))
    if has_client_values(results):
        how = (
            f"Clients in order of how well the model serves them, mean over seeds; the "
            f"{markup.term('worst-served tenth')} is shaded."
        )
        if "personal_accuracy" in results.rounds:
            how += " Clients that keep a model of their own are served by that."
        above = markup.key(study_inks(results))
        title = words.fairness_title(results)
        figures.append(markup.figure("fairness", title, how, above, data["figures"]["fairness"]))
    return markup.section("Who was left behind?", "".join(figures)) if figures else ""


def _learned(results: Results, data: Data) -> str:
    """Return the fit of the chosen run; a run without one leaves the place of its figure empty."""
    drawn = next((run["fit"] for run in data["runs"] if run["fit"]), None)
    kind = next((run.fit.kind for run in results.runs_found if run.fit), "")
    if drawn is None:
        return ""
    title = data["runs"][data["view"]["run"]]["titles"]["fit"]
    how = f"{HOW[kind]}. At most 2,000 are drawn. Shows the run chosen above."
    return markup.section("What was learned?", markup.figure("fit", title, how, "", drawn))


def _failures(results: Results) -> str:
    failed = [run for run in results.runs_found if run.status == "failed"]
    if not failed:
        return ""
    count = f"{len(failed)} of {len(results.runs_found)} runs failed"
    return f'<p class="warning">{count}; the reasons are at the end of the page.</p>'


def _what_was_run(results: Results) -> str:
    runs = results.runs_found
    states = [run.status for run in runs]
    counts = [f"{states.count(s)} {s}" for s in ("finished", "running", "failed") if s in states]
    title = f"{len(runs)} run{'s' if len(runs) > 1 else ''}: {', '.join(counts)}"
    failed = "".join(
        f'<p class="warning">{escape(_who(run))} failed: '
        f"{escape(str(run.info.get('reason') or 'no reason is recorded'))}</p>"
        for run in runs
        if run.status == "failed"
    )
    warnings = "".join(
        f'<p class="warning">{escape(text)}</p>'
        for text in dict.fromkeys(str(w) for run in runs for w in run.info.get("warnings") or [])
    )
    heads = ("algorithm", "seed", "status", "stopped by", "rounds", "simulated", "computed in")
    table = markup.plain_table(heads, [_run_row(run) for run in runs])
    scenario = (
        f"<details><summary>scenario.yaml</summary><pre>{escape(results.scenario)}</pre></details>"
        if results.scenario
        else ""
    )
    inside = (
        f"<h2>{title}</h2>{failed}{warnings}{_facts(results)}"
        f"{_settings(results)}"
        f"<details><summary>Every run</summary>{table}</details>{scenario}"
    )
    return markup.section("What exactly was run?", inside)


def _settings(results: Results) -> str:
    """Return the resolved settings of each algorithm, those that are not set left out."""
    infos = {name: results.of(name)[0].info for name in results.names}
    rows = [
        (name, ", ".join(_flat(info["settings"])))
        for name, info in infos.items()
        if isinstance(info.get("settings"), dict)
    ]
    if not rows:
        return ""
    table = markup.plain_table(("algorithm", "settings"), rows)
    return f"<details><summary>Settings of each algorithm</summary>{table}</details>"


def _flat(settings: Mapping[str, Any]) -> list[str]:
    """Return nested settings as ``local.lr=0.1``."""
    held = flat(settings).items()
    return [f"{k}={v}" for k, v in held if v is not None and k.rpartition(".")[2] != "label"]


def _who(run: Run) -> str:
    return f"{run.name}, seed {run.seed},"


def _run_row(run: Run) -> list[str]:
    last = run.rounds.iloc[-1] if len(run.rounds) else None
    return [
        run.name,
        str(run.seed),
        run.status,
        str(run.info.get("stopped_by") or ""),
        units.count(float(last["round"])) if last is not None else units.MISSING,
        units.duration(float(last["time_s"])) if last is not None else units.MISSING,
        units.duration(float(run.info.get("wall_s") or float("nan"))),
    ]


def _facts(results: Results) -> str:
    infos = [run.info for run in results.runs_found]
    versions = dict.fromkeys(
        f"{name} {version}"
        for info in infos
        for name, version in (info.get("versions") or {}).items()
    )
    started = [str(info["started"]) for info in infos if info.get("started")]
    wall = sum(float(info.get("wall_s") or 0) for info in infos)
    hosts = dict.fromkeys(str(info["host"]) for info in infos if info.get("host"))
    has = "accuracy" in results.rounds and results.rounds["accuracy"].notna().any()
    scored = {str(info["scored"]) for info in infos if info.get("scored")} if has else set()
    counts = {int(info["clients"]) for info in infos if isinstance(info.get("clients"), int)}
    facts = {
        "clients": " or ".join(f"{count:,}" for count in sorted(counts)),
        "accuracy": f"on {' or '.join(sorted(scored))} rows" if scored else "",
        "started": min(started)[:16].replace("T", " ") if started else "",
        "computing": f"{units.duration(wall)} of wall-clock time, all runs together"
        if wall
        else "",
        "host": ", ".join(hosts),
        "versions": ", ".join(versions),
    }
    rows = "".join(
        f"<dt>{name}</dt><dd>{escape(text)}</dd>" for name, text in facts.items() if text
    )
    return f"<dl>{rows}</dl>"
