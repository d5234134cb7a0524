"""Make the overlays of the study `marfoq_2020_overlays` from maps of networks.

The maps are the GML files of O. Marfoq, C. Xu, G. Neglia, R. Vidal, "Throughput-Optimal Topology
Design for Cross-Silo Federated Learning", NeurIPS 2020 (omarfoq/communication-in-cross-silo-fl,
``graph_utils/data``), whose links have a distance in km. Two silos send to each other along the
shortest path: with 4 ms and 0.0085 ms/km of latency, and 1 Gbit/s divided by the number of its
links. The star has the silo of largest load centrality in its middle, the tree is the minimum
spanning tree of message times, and the ring is Christofides' tour, of arcs.

The study's model is one number of 64 bits where theirs has 44,961,717, so that all bandwidths are
smaller by that factor.

Run as: python scripts/overlays.py gaia.gml ebone.gml
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import networkx as nx

FOLDER = Path(__file__).parents[1] / "scenarios"
SCALE = 64 / 44_961_717
ACCESS_MBPS = 10_000.0
BITS = 44_961_717


def connections(underlay: nx.Graph) -> nx.Graph:
    """Return the complete graph of silos with the latency (s) and rate (Mbit/s) of each path."""
    silos = nx.Graph()
    silos.add_nodes_from(underlay)
    for one, (far, paths) in nx.all_pairs_dijkstra(underlay, weight="distance"):
        for other, path in paths.items():
            if other != one:
                latency_s, mbps = (4 + 0.0085 * far[other]) / 1e3, 1e3 / (len(path) - 1)
                silos.add_edge(one, other, latency_s=latency_s, mbps=mbps)
    return silos


def tree(silos: nx.Graph) -> list[tuple[str, str]]:
    """Return the links of the minimum spanning tree of message times."""
    for _, _, way in silos.edges(data=True):
        way["weight"] = way["latency_s"] + BITS / (1e6 * way["mbps"])
    return list(nx.minimum_spanning_tree(silos).edges)


def ring(silos: nx.Graph) -> list[tuple[str, str]]:
    """Return the arcs of Christofides' tour of message times."""
    for _, _, way in silos.edges(data=True):
        way["weight"] = way["latency_s"] + BITS / (1e6 * min(way["mbps"], ACCESS_MBPS))
    tour = nx.approximation.christofides(silos)
    return list(pairwise(tour))


def centre(silos: nx.Graph) -> str:
    """Return the silo in the middle of the star."""
    load = nx.load_centrality(silos, weight="latency_s")
    return max(load, key=load.__getitem__)


def main(maps: Sequence[str]) -> None:
    """Write a star, a tree and a ring for each map."""
    for map_ in maps:
        underlay, name = nx.read_gml(map_), f"marfoq_2020_overlays.{Path(map_).stem}"
        silos, place = connections(underlay), {silo: k for k, silo in enumerate(underlay)}
        middle = centre(silos)
        star = [(middle, silo) for silo in silos if silo != middle]
        for kind, ends in (("star", star), ("tree", tree(silos)), ("ring", ring(silos))):
            rows = [
                (place[u], place[v], silos[u][v]["latency_s"], SCALE * silos[u][v]["mbps"])
                for u, v in ends
            ]
            with (FOLDER / f"{name}-{kind}.csv").open("w", newline="", encoding="utf-8") as file:
                head = ("u", "v", "latency_s", "mbps")
                csv.writer(file, lineterminator="\n").writerows([head, *rows])


if __name__ == "__main__":
    main(sys.argv[1:])
