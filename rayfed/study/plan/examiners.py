"""The examiners of a study, each bound once for runs with equal settings and data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rayfed.algorithms.examiner import Examiner
from rayfed.study.plan.identity import identity

if TYPE_CHECKING:
    from rayfed.population import Population
    from rayfed.study.plan.views import Views


class Examiners:
    """Binds examiners to clients: some read all rows for it, so equal ones share what is found.

    Parameters
    ----------
    tables : dict of str to Rows
        The tables that the runs' shards travel without.
    """

    def __init__(self, tables: dict[str, Any]) -> None:
        self.tables = tables
        self._bound: dict[Any, Examiner] = {}

    def bound(self, examiner: Examiner, views: Views, clients: Population) -> Examiner:
        """Return an examiner for the clients of a run; raises as `Examiner.bound` does."""
        key = identity((examiner, views.shards, views.data["clients"], views.objective, clients))
        if key not in self._bound:
            self._bound[key] = examiner.bound(views.whole(self.tables), clients, views.objective)
        return self._bound[key]
