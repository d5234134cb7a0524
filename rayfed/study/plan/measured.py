"""The measures of a study, each bound once for runs with equal settings and data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rayfed.measures import Measure
from rayfed.study.plan.identity import identity

if TYPE_CHECKING:
    from rayfed.population import Population
    from rayfed.study.plan.views import Views


class BoundMeasures:
    """Binds measures to clients: some read all rows for it, so equal ones share what is found.

    Parameters
    ----------
    tables : dict of str to Rows
        The tables that the runs' shards travel without.
    """

    def __init__(self, tables: dict[str, Any]) -> None:
        self.tables = tables
        self._bound: dict[Any, Measure] = {}

    def bound(self, measure: Measure, views: Views, clients: Population) -> Measure:
        """Return a measure for the clients of a run; raises as `Measure.bound` does."""
        if type(measure).bound is Measure.bound:
            return measure
        key = identity((measure, views.shards, views.data["clients"], views.objective, clients))
        if key not in self._bound:
            self._bound[key] = measure.bound(views.whole(self.tables), clients, views.objective)
        return self._bound[key]
