"""Print the boxes at the top of ``rayfed/`` and the import arrows between them.

::

    python -m scripts.boxes

A box is a package or module directly in ``rayfed/``; an arrow is at least one import, imports for
type checkers included. Floors are counted from boxes without imports. An arrow up or a cycle would
leave boxes without a floor; they are named, and the exit status is 1.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping

import grimp
import networkx as nx


def arrows(package: str = "rayfed") -> Mapping[str, set[str]]:
    """Return the boxes that each box imports, by name."""
    graph = grimp.build_graph(package, exclude_type_checking_imports=False)
    found: dict[str, set[str]] = {_box(child): set() for child in graph.find_children(package)}
    for importer in graph.modules - {package}:
        targets = graph.find_modules_directly_imported_by(importer) - {package}
        found[_box(importer)] |= {_box(target) for target in targets} - {_box(importer)}
    return found


def _box(module: str) -> str:
    return module.split(".")[1]


def report(found: Mapping[str, set[str]]) -> tuple[str, bool]:
    """Return the floors as text, and whether there is a cycle."""
    graph = nx.DiGraph((box, target) for box, targets in found.items() for target in targets)
    graph.add_nodes_from(found)
    head = f"{len(graph)} boxes, {graph.number_of_edges()} arrows"
    if not nx.is_directed_acyclic_graph(graph):
        ring = " -> ".join(box for box, _ in nx.find_cycle(graph))
        return f"{head}; a cycle: {ring}", True
    floors = list(nx.topological_generations(graph.reverse()))
    lines = [f"{number:3}  {', '.join(sorted(floor))}" for number, floor in enumerate(floors)]
    return "\n".join([f"{head}, {len(floors)} floors, none up", *reversed(lines)]), False


def main() -> None:
    """Print the boxes; exit with status 1 if there is a cycle."""
    text, cycle = report(arrows())
    print(text)
    sys.exit(cycle)


if __name__ == "__main__":
    main()
