"""A result as Python sees it: frames, tables and figures of one result folder."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from html import escape
from pathlib import Path
from shutil import get_terminal_size
from textwrap import wrap
from typing import TYPE_CHECKING, Any, Literal

from rayfed.core.errors import ScenarioError, clipped, listed, unknown

if TYPE_CHECKING:
    import pandas as pd
    import plotly.graph_objects as go

    from rayfed.report.panels.base import Panel
    from rayfed.report.read.results import Progress, Results

_MOST_LINES = 8  # below the table of a result
_NUMBER = re.compile(r"(?<![\w.'])\d[\d,.]*(e[+-]?\d+)?")


@dataclass(frozen=True)
class RecordedResult:
    """Recorded results of a study, without its models.

    It shows itself as a table that compares the algorithms. Frames are read when they are first
    asked for; to see what a running study has recorded since, `load` its folder again.

    Parameters
    ----------
    folder : Path
        The result folder.
    outcome : dict of str to str
        "finished", "failed" or "running" for every run folder.

    Examples
    --------
    >>> result = rayfed.load("results/quickstart")  # doctest: +SKIP
    >>> result.rounds.groupby("label").loss.last()  # doctest: +SKIP
    >>> result.figure("convergence", x="time_s", y="loss")  # doctest: +SKIP
    """

    folder: Path
    outcome: Mapping[str, str]

    @cached_property
    def rounds(self) -> pd.DataFrame:
        """One row for each round of every run; round 0 is the state before the first.

        Examples
        --------
        >>> last = result.rounds.groupby(["label", "seed"]).last()  # doctest: +SKIP
        >>> last[["time_s", "loss"]]  # doctest: +SKIP
        """
        return self._frame("rounds")

    @cached_property
    def events(self) -> pd.DataFrame:
        """One row for each client and request of every run: when it began, computed, answered.

        Examples
        --------
        >>> used = result.events[result.events.status == "used"]  # doctest: +SKIP
        >>> used.groupby("client").compute_s.mean()  # doctest: +SKIP
        """
        return self._frame("events")

    @cached_property
    def clients(self) -> pd.DataFrame:
        """One row for each client that took part or was evaluated, of every run that finished.

        Examples
        --------
        >>> result.clients.groupby(["label", "straggler"]).used.mean()  # doctest: +SKIP
        """
        return self._frame("clients")

    @cached_property
    def personal(self) -> pd.DataFrame:
        """One row for each client and evaluation, if clients have models of their own.

        Examples
        --------
        >>> last = result.personal.groupby(["label", "client"]).last()  # doctest: +SKIP
        >>> last.personal_accuracy.unstack("label").describe()  # doctest: +SKIP
        """
        return self._frame("personal")

    @cached_property
    def activity(self) -> pd.DataFrame:
        """Use of simulated time by each asked client of every run, one row each.

        ``computing``, ``communicating``, ``finished`` (it has answered and waits for its round to
        end), ``idle`` (available and not asked) and ``away`` are seconds that add up to the
        simulated time of the run; ``away`` is NaN where it is not recorded and then part of
        ``idle``. Baselines have no rows.

        Examples
        --------
        >>> states = result.activity.groupby("label")[["computing", "idle"]]  # doctest: +SKIP
        >>> states.mean()  # doctest: +SKIP
        """
        return self._frame("activity")

    @cached_property
    def profile(self) -> pd.DataFrame:
        """One row for each run that was profiled: wall-clock milliseconds of a round, by step.

        ``round`` is the whole; ``computing`` is that of the slowest host. Empty without
        ``rayfed run --profile``.

        Examples
        --------
        >>> result.profile.groupby("label").computing.mean()  # doctest: +SKIP
        """
        return self._frame("profile")

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings for readers, such as rounds without used replies.

        Of lines that differ in the label and in numbers alone the first stands for all, with the
        number of runs that have one, or of other lines where that is one run.

        Examples
        --------
        >>> result.warnings  # doctest: +SKIP
        ("'cifar10' is a subset here, 1,000 of 50,000 training and 500 of 10,000 test rows",)
        """
        runs = self._results.runs_found
        alike: dict[str, dict[tuple[str, Path], None]] = {}
        for run in runs:
            for text in map(str, run.info.get("warnings") or ()):
                kind = _NUMBER.sub("0", text.removeprefix(f"{run.label}: "))
                alike.setdefault(kind, {})[text, run.folder] = None
        lines = []
        for first, *others in alike.values():
            warned = len({folder for _, folder in (first, *others)})
            which = f"all {warned}" if warned == len(runs) else f"{warned} of {len(runs)}"
            count = f" (in {which} runs)" if warned > 1 else ""
            count = count or (f" (and {len(others)} more like it)" if others else "")
            lines.append(f"{first[0]}{count}")
        return tuple(lines)

    def summary(
        self,
        by: Literal["run", "setting"] = "setting",
        y: str | None = None,
        target: float | None = None,
    ) -> pd.DataFrame:
        """Return final values and costs to a target as numbers, in tidy form.

        Parameters
        ----------
        by : "setting" or "run"
            A row for each setting of an algorithm, with means and sample standard deviations over
            seeds, as in ``summary.csv`` (`rayfed.report.tables.summary`); or a row for each run
            (`rayfed.report.summary.by_run`). Both have a column for each dotted key of the grid.
        y : str, optional
            The column that the target is set for. If None: the one that comes first on the page.
        target : float, optional
            If None: the value that ended runs or, without one, that of the worst run at its end.

        Raises
        ------
        ScenarioError
            If there is no such table or column; it names the nearest.

        Examples
        --------
        >>> result.summary()[["name", "loss_mean", "loss_sd"]]  # doctest: +SKIP
        >>> runs = result.summary(by="run")  # doctest: +SKIP
        >>> runs.pivot(index="seed", columns="name", values="loss")  # doctest: +SKIP
        """
        from rayfed.report.summary import by_run, by_setting

        tables = {"run": by_run, "setting": by_setting}
        if by not in tables:
            raise ScenarioError("", unknown("table", by, tables))
        self._results.check_column(y)
        return tables[by](self._results, y, target)

    @property
    def figures(self) -> tuple[str, ...]:
        """The names of the figures that `figure` draws."""
        from rayfed.report.gallery import kinds

        return tuple(sorted(kinds()))

    def figure(self, kind: str = "convergence", /, **options: Any) -> go.Figure:
        """Draw a figure; a notebook shows it inline.

        Parameters
        ----------
        kind : str
            One of `figures`.
        **options
            Its arguments, such as ``x``, ``y``, ``log`` and ``target`` of "convergence", ``column``
            of "sweep", ``name`` (the algorithm) and ``seed`` of what shows one run. Without them
            it is the first run that has what the figure shows.

        Returns
        -------
        plotly.graph_objects.Figure
            Any part of it may be changed, for example by ``update_layout(width=500)``.

        Raises
        ------
        ScenarioError
            If the figure, an option, a column, an algorithm or a seed is not known, with the
            nearest that is; or if no run has what the figure shows.

        Examples
        --------
        >>> result.figure("convergence", x="time_s", y="loss")  # doctest: +SKIP
        >>> result.figure("timeline", name="FedAvg", seed=1)  # doctest: +SKIP
        """
        from rayfed.report.gallery import figure

        return figure(self._results, kind, options)

    def save_figures(
        self, folder: str | Path, what: Iterable[str] = (), font: str | None = None
    ) -> list[Path]:
        """Write figures for a paper as PDF and SVG, and tables as LaTeX.

        Parameters
        ----------
        folder : path
            Where to; it is made.
        what : iterable of str
            Figures with their options, such as ``"convergence:x=time_s,y=loss"``, and the tables
            ``"table-costs"`` and ``"table-finals"``. Figures joined by ``" + "`` are panels (a),
            (b), ... of one figure with one legend. If empty: all for which the results have
            something.
        font : str, optional
            The font of all figures as ``"family:points"``, such as ``"Times New Roman:9"``. If
            None: a sans-serif of 8 pt.

        Returns
        -------
        list of Path
            The files: of each figure ``<figure>-column``, 3.3 in wide, and ``<figure>-full``, 7 in;
            of each table a ``tabular`` for the package booktabs.

        Raises
        ------
        ScenarioError
            If something that is asked for is not known, or the results do not have it.
        RayfedError
            If kaleido or a browser is missing, or files cannot be written.

        Examples
        --------
        >>> result.save_figures("paper", ["convergence:x=time_s", "table-costs"])  # doctest: +SKIP
        """
        from rayfed.report.paper.sheets import DEFAULT, Font
        from rayfed.report.paper.write import write

        drawn_in = DEFAULT if font is None else Font.parse(font)
        return write(self._results, Path(folder), what, drawn_in)

    def export_runs(self, to: str, folder: str | Path | None = None, run: str | None = None) -> str:
        """Write the records of the runs for another tool.

        Parameters
        ----------
        to : str
            "csv", "tensorboard", "mlflow" or "wandb-offline".
        folder : path, optional
            Where to; a folder of the tool's name in the result folder if None.
        run : str, optional
            A run folder such as ``"fedavg-seed0"``; all runs if None.

        Returns
        -------
        str
            What to do with it, in a line.

        Raises
        ------
        ScenarioError
            If there is no such tool or run.
        RayfedError
            If its library is missing, or files cannot be written.

        Examples
        --------
        >>> result.export_runs("csv")  # doctest: +SKIP
        "read it by: pandas.read_csv('results/quickstart/csv/rounds.csv')"
        """
        from rayfed.report.export import write

        return write(self._results, to, None if folder is None else Path(folder), run)

    def comparison(self, width: int | None = 80) -> pd.DataFrame:
        """Return the table that compares the algorithms, as text.

        Of a study with cases it is the table of final values of algorithms by cases.

        Parameters
        ----------
        width : int, optional
            Characters of a line; where that is too few, deviations, bytes and time are left out,
            and long names are cut. All are given if None.
        """
        from rayfed.report.pivot import overview_table

        return overview_table(self._results, width)

    @property
    def answer(self) -> str:
        """The sentences on top of the page: the winner, its verdict, and the target.

        Examples
        --------
        >>> rayfed.load("results/quickstart").answer  # doctest: +SKIP
        'FedExP reached loss 0.078 in 29 rounds, FedAvg in 46; better over 3 seeds. Target: loss
        0.078, reached by 6 of 6 runs.'
        """
        from rayfed.report.best import best_of
        from rayfed.report.panels.answers import headline, of_target
        from rayfed.report.tables import summary

        shown = best_of(self._results)
        frame = summary(shown)
        return f"{headline(shown, frame)} {of_target(shown, frame)}".rstrip()

    def report(
        self,
        y: str | None = None,
        target: float | None = None,
        panels: Sequence[str | type[Panel]] = (),
        progress: Progress | None = None,
    ) -> Path:
        """Write ``report.html`` and ``summary.csv`` and return the path of the page.

        Parameters
        ----------
        y, target : optional
            The column that the page shows first and the value of it to be reached, as in `summary`.
        panels : sequence of str or type, optional
            Additional panels of your own: subclasses of `rayfed.report.panels.base.Panel`, or their
            names such as ``"mine:Panel"``, imported from their modules.
        progress : callable, optional
            Is called with how many steps are done, of how many, and what is done.

        Raises
        ------
        ScenarioError
            If there is no such column; it names the nearest. If a panel cannot be found or drawn.
        """
        from rayfed.report.page.report import write

        self._results.check_column(y)
        return write(self.folder, y, target, panels, progress)

    def __repr__(self) -> str:
        if not self.outcome:
            return f"{self.folder}: no run has begun"
        width = get_terminal_size().columns
        frame = self._table(width)
        table = frame.set_index(frame.columns[0]).rename_axis(None)
        # Where the columns still do not fit, the rest stands below, with the names again.
        text = table.to_string(line_width=width)
        return "\n".join([self._title(), text, *wrap(self.answer, width), *self._beware()])

    def _repr_html_(self) -> str:
        if not self.outcome:
            return f"<p>{escape(repr(self))}</p>"
        table = self._table(None).to_html(index=False, border=0)
        lines = "".join(f"\n<p>{escape(line)}</p>" for line in (self.answer, *self._beware()))
        return f"<p>{escape(self._title())}</p>\n{table}{lines}"

    def _table(self, width: int | None) -> pd.DataFrame:
        """Return the table of the algorithms; of a search that of its best trials."""
        from rayfed.report.best import best_of
        from rayfed.report.pivot import overview_table

        return overview_table(best_of(self._results), width)

    def _title(self) -> str:
        states = list(self.outcome.values())
        counts = (f"{states.count(state)} {state}" for state in dict.fromkeys(sorted(states)))
        return f"{self._results.study} ({', '.join(counts)}) in {self.folder}"

    def _beware(self) -> list[str]:
        """Return a line for every reason of runs that failed, and for the first warnings."""
        failed: dict[str, list[str]] = {}
        for run in self._results.runs_found:
            if run.info.get("status") == "failed":
                reason = clipped(run.info.get("reason") or "see its log.txt")
                failed.setdefault(reason, []).append(run.folder.name)
        lines = [f"{listed(runs, 60)} failed: {reason}" for reason, runs in failed.items()]
        lines += [f"warning: {line}" for line in self.warnings]
        more = len(lines) - _MOST_LINES
        return lines if more <= 0 else [*lines[:_MOST_LINES], f"and {more} more lines on the page"]

    @cached_property
    def _results(self) -> Results:
        from rayfed.report.read.results import Results

        return Results.read(self.folder)

    def _frame(self, what: str) -> pd.DataFrame:
        from rayfed.report.summary import frame

        return frame(self._results, what)
