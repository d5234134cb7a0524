"""Runs in this process whose rows a loop of the user's gets as they are made."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from rayfed.core.arrays import Array
from rayfed.core.threads import one_thread
from rayfed.runs.driver import Driver, Moment
from rayfed.runs.serial import interruptible


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

    def __init__(self, driver: Driver, moment: Moment) -> None:
        run = driver.run
        super().__init__(moment.closed, setting=run.setting)
        self._driver, self._moment = driver, moment

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
        """End the run with this row; its ``run.json`` says ``"stopped_by": "loop"``."""
        self._driver.end()


def rows_of(driver: Driver) -> Generator[Row, None, str]:
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
                yield Row(driver, moment)
    finally:
        with one_thread():
            moments.close()
