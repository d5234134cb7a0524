"""Studies in a loop of the user's: ``for row in rayfed.iterate(scenario)``."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any, Unpack

from rayfed import api
from rayfed.core.arrays import Array
from rayfed.core.dotted import Overrides
from rayfed.core.errors import ScenarioError
from rayfed.core.threads import one_thread
from rayfed.executors.serial import SerialExecutor
from rayfed.runs.backend import ProgressDisplay
from rayfed.runs.driver import Driver, Moment
from rayfed.runs.files.folder import locked
from rayfed.runs.serial import interruptible
from rayfed.study import Study, StudyKeywords, expand
from rayfed.study.plan.controller import changed
from rayfed.study.plan.plan import Plan

__all__ = ["Iteration", "Row", "iterate"]


class Row(dict[str, Any]):
    """A row of ``rounds`` by column, and the model that it is about.

    Losses and accuracies of rounds that are not evaluated are NaN.

    Examples
    --------
    >>> for row in rayfed.iterate("quickstart"):  # doctest: +SKIP
    ...     print(row["label"], row["round"], row["loss"], row.weights[:3])
    ...     if row["loss"] < 0.1:
    ...         row.stop()
    """

    def __init__(self, driver: Driver, moment: Moment, study: Study) -> None:
        super().__init__(moment.closed, setting=driver.run.setting)
        self._driver, self._moment, self._study = driver, moment, study

    @property
    def model(self) -> Any:
        """The model: of a network its ``torch.nn.Module`` in evaluation mode, or an array (p,)."""
        module = self._driver.run.training.problem.module(self.weights)
        return self.weights if module is None else module

    @property
    def weights(self) -> Array:
        """The model as an array (p,), of a network as well; it is not to be changed in place."""
        return self._moment.last.model

    def stop(self) -> None:
        """End the run with this row; its ``run.json`` has ``"stopped_by": "loop"``.

        Raises
        ------
        ScenarioError
            If the run is private; see `change`.
        """
        self._refuse_private("stop", "rounds")
        self._driver.end()

    def change(self, **settings: Any) -> None:
        """Change settings of the run from the next round on; ``run.json`` lists them.

        At the last row nothing changes. A resumed run repeats the changes.

        Parameters
        ----------
        cohort : int, optional
            Clients to a round, as ``participation.cohort``.
        deadline_s : float, optional
            Virtual seconds of a round, as ``participation.deadline_s``.
        lr : float
            Local learning rate, as ``local.lr`` of the algorithm, up to the next change.
        aggregate : str or mapping, optional
            Robust rule, as ``aggregate``; its state begins anew.
        uplink : list of str or mapping
            Stages of uploads, as ``uplink``, without memories.

        Raises
        ------
        ScenarioError
            If the row is not the newest of its run, the setting cannot change during this run, or
            a scenario with this value would be refused. If the run is private: its epsilon does not
            count decisions by columns without noise.

        Examples
        --------
        >>> for row in rayfed.iterate("quickstart"):  # doctest: +SKIP
        ...     if row["round"] == 10:
        ...         row.change(cohort=5, lr=0.05)
        """
        self._refuse_private("change", "control by round")
        driver, after = self._driver, self["round"]
        if after != driver.progress.round:
            text = f"found the row of round {after}; change settings at the newest row"
            raise ScenarioError("change", text)
        run, noted = changed(self._study, driver.latest, after, settings)
        if noted:
            driver.change(run, noted)

    def _refuse_private(self, call: str, instead: str) -> None:
        if self._driver.run.channel.privacy is not None:
            text = f"'{self['label']}' is private, and rows have no noise: epsilon would be larger"
            raise ScenarioError(call, f"{text}; give {instead}")


class Iteration(Iterator[Row]):
    """The rows of a study, which runs as far as they are asked for.

    Attributes
    ----------
    folder : Path
        The result folder.
    """

    def __init__(self, plan: Plan, folder: Path, page: bool) -> None:
        self.folder = folder
        self._rows = _rows(plan, folder, page)

    def __next__(self) -> Row:
        return next(self._rows)

    def step(self) -> Row | None:
        """Run on to the next row and return it; None when all runs have ended."""
        return next(self._rows, None)

    def close(self) -> None:
        """Stop the study with a checkpoint; `rayfed.resume` continues it."""
        self._rows.close()

    @property
    def result(self) -> api.Result:
        """The records so far."""
        return api.load(self.folder)


def iterate(
    scenario: api.Scenario | None = None,
    *,
    out: str | Path | None = None,
    overrides: Overrides = (),
    page: bool = True,
    **study: Unpack[StudyKeywords],
) -> Iteration:
    """Run a scenario in a loop of your own, which gets the rows of its runs as they are made.

    The runs follow one another in this process, whatever the executor, and record what `rayfed.run`
    records, to the byte. A loop that ends early leaves a checkpoint: `rayfed.resume` continues.

    Parameters
    ----------
    scenario, out, overrides, page, **study
        As for `rayfed.run`.

    Returns
    -------
    Iteration
        An iterator over rows, that of the state before the first round included. A `Row` is a
        mapping of columns with the ``model`` that it is about, and ``stop()`` ends its run.

    Raises
    ------
    ScenarioError
        If the scenario or its data are wrong; nothing is started then.

    Warns
    -----
    RuntimeWarning
        At the end, if a run failed. The others continue, and all records are kept.

    Examples
    --------
    >>> for row in rayfed.iterate("quickstart"):  # doctest: +SKIP
    ...     if row["loss"] < 0.3:
    ...         row.stop()
    """
    plan = api.prepare(api.without_search(api.read(scenario, overrides, **study)))
    return Iteration(plan, api.begin(plan, out), page)


def _rows(plan: Plan, folder: Path, page: bool) -> Generator[Row, None, None]:
    """Yield the rows of all runs, then write the outputs at their end."""
    outcome: dict[str, str] = {}
    silent = ProgressDisplay()
    settings = dict(expand(plan.study))
    with locked(folder, silent.note), api.uploaded(folder, silent):
        api.check_begun(plan, folder)
        for run in plan.runs:
            executor = SerialExecutor(plan.tables, plan.executor.memory_gb)
            driver = Driver(run, folder, executor)
            outcome[run.folder] = yield from _rows_of(driver, settings[run.setting])
        api.completed(plan, folder, outcome)
        if page:
            api.Result(folder, outcome).report()
    api.warn_of_failures(api.Result(folder, outcome))


def _rows_of(driver: Driver, study: Study) -> Generator[Row, None, str]:
    """Run to the end, yield the row of every round, and return "finished" or "failed".

    Whoever closes the generator before its end leaves a checkpoint; so does Ctrl-C in a round.
    """
    moments = driver.moments()
    last = -1
    try:
        while True:
            try:
                with one_thread(), interruptible(driver):
                    moment = next(moments)
            except StopIteration as end:
                outcome: str = end.value
                return outcome
            if driver.stopping:
                raise KeyboardInterrupt
            if moment.state.round > last:  # not of a replay
                last = moment.state.round
                yield Row(driver, moment, study)
    except GeneratorExit:
        if driver.ending:  # the loop left right after `stop`
            with one_thread():
                next(moments, None)
        raise
    finally:
        with one_thread():
            moments.close()
