"""Chains: closed forms, sparse against dense, definitions by brute force."""

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import sparse

from rayfed.topology import (
    Complete,
    EdgeList,
    Geometric,
    Graphs,
    Grid,
    Metropolis,
    Random,
    Ring,
    SmallWorld,
    Star,
    Still,
    UniformWalk,
    chain,
)
from rayfed.topology.chain import Chain


def walked(topology, count, walk, seed=0):
    return Chain(walk.matrix(Graphs(topology, count, seed).of(0)))


def given(rows):
    return Chain(sparse.csr_array(np.array(rows, dtype=np.float64)))


ODD, EVEN = 11, 12
EIGENVALUES = {
    "odd ring": (Ring(), ODD, UniformWalk(), math.cos(math.pi / ODD)),  # of cos(2 pi k / n)
    "lazy ring": (Ring(), EVEN, UniformWalk(lazy=0.5), 0.5 + 0.5 * math.cos(2 * math.pi / EVEN)),
    "even ring": (Ring(), EVEN, UniformWalk(), 1.0),
    "complete": (Complete(), 9, UniformWalk(), 1 / 8),
    "lazy complete": (Complete(), 9, UniformWalk(lazy=0.5), 0.5 - 0.5 / 8),
    "star": (Star(), 9, UniformWalk(), 1.0),
    "lazy star": (Star(), 9, UniformWalk(lazy=0.5), 0.5),
    "star, metropolis": (Star(), 9, Metropolis(), 1 - 1 / 8),
    "two clients": (Ring(), 2, UniformWalk(lazy=0.3), 0.4),
    "one client": (Ring(), 1, UniformWalk(), 0.0),
}


@pytest.mark.parametrize(
    ("topology", "count", "walk", "expected"),
    EIGENVALUES.values(),
    ids=EIGENVALUES.keys(),
)
def test_the_second_eigenvalue_in_closed_form(topology, count, walk, expected):
    assert walked(topology, count, walk).second_eigenvalue == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("walk", [UniformWalk(), Metropolis(), UniformWalk(lazy=0.5)], ids=str)
@pytest.mark.parametrize(
    ("topology", "count"),
    [(Random(p=0.2), 60), (SmallWorld(), 80), (Grid(columns=7), 77), (Ring(), 151)],
    ids=["random", "small world", "grid", "ring"],
)
def test_sparse_is_dense(topology, count, walk, monkeypatch):
    dense = walked(topology, count, walk)
    expected = dense.second_eigenvalue
    monkeypatch.setattr(chain, "DENSE", 1)
    monkeypatch.setattr(chain, "_KRYLOV", 30)
    lanczos = walked(topology, count, walk)
    assert lanczos.second_eigenvalue == pytest.approx(expected, abs=1e-9)
    np.testing.assert_allclose(lanczos.stationary, dense.stationary, atol=1e-12)
    if expected < 1:
        inverted = lanczos._inverted_eigenvalue(lanczos._symmetric())
        assert inverted == pytest.approx(expected, abs=1e-9)


def test_a_long_ring_in_closed_form():
    eigenvalue = walked(Ring(), 3000, UniformWalk(lazy=0.5)).second_eigenvalue
    assert 1 - eigenvalue == pytest.approx(0.5 - 0.5 * math.cos(2 * math.pi / 3000), rel=1e-3)


def test_the_stationary_laws():
    graph = Graphs(Random(p=0.3), 20, 0).of(0)
    degrees = graph.degrees(np.arange(20))
    uniform, even = Chain(UniformWalk().matrix(graph)), Chain(Metropolis().matrix(graph))
    np.testing.assert_allclose(uniform.stationary, degrees / degrees.sum(), atol=1e-15)
    np.testing.assert_allclose(even.stationary, 0.05, atol=1e-15)
    assert uniform.reversible
    assert even.reversible


BIASED = [[0.1, 0.7, 0.2], [0.2, 0.1, 0.7], [0.7, 0.2, 0.1]]  # round and round


@pytest.mark.parametrize("most", [500, 2], ids=["dense", "sparse"])
def test_a_chain_that_is_not_reversible(most, monkeypatch):
    rows = np.kron(np.full((2, 2), 0.5), BIASED)
    expected = np.sort(np.abs(np.linalg.eigvals(rows)))[-2]
    monkeypatch.setattr(chain, "DENSE", most)
    monkeypatch.setattr(chain, "_KRYLOV", 6)
    found = given(rows)
    assert not found.reversible
    np.testing.assert_allclose(found.stationary, 1 / 6, atol=1e-12)
    assert found.second_eigenvalue == pytest.approx(expected, abs=1e-9)
    with pytest.raises(ValueError, match="only for reversible chains"):
        found.mixing_bounds()


def test_a_move_without_a_way_back_is_not_reversible():
    assert not given([[0.5, 0.5, 0], [0, 0.5, 0.5], [0.5, 0, 0.5]]).reversible


@pytest.mark.parametrize(
    ("rows", "period"),
    [
        ([[0, 1, 0], [0, 0, 1], [1, 0, 0]], 3),
        ([[0, 1], [1, 0]], 2),
        ([[0.1, 0.9], [1, 0]], 1),
        ([[0, 1, 0, 0], [0.5, 0, 0.5, 0], [0, 0, 0, 1], [1, 0, 0, 0]], 2),
        ([[1]], 1),
    ],
)
def test_periods(rows, period):
    assert given(rows).period == period


def test_the_period_is_that_of_the_largest_part():
    assert given([[0, 1, 0, 0], [0.5, 0, 0.5, 0], [0, 1, 0, 0], [0, 0, 0, 1]]).period == 2


def test_a_chain_in_parts_never_mixes():
    parts = given([[1, 0], [0, 1]])
    assert not parts.irreducible
    assert parts.second_eigenvalue == 1.0
    assert parts.mixing_time() == math.inf
    assert parts.mixing_bounds() == (math.inf, math.inf)
    with pytest.raises(ValueError, match="no unique stationary law"):
        _ = parts.stationary


def lazy(rows):
    """Return half of each move in exact numbers, and the other half stays."""
    return [[(p + (i == j)) / 2 for j, p in enumerate(row)] for i, row in enumerate(rows)]


def complete(n):
    return [[Fraction(i != j, n - 1) for j in range(n)] for i in range(n)]


def ring(n):
    return [[Fraction((i - j) % n in (1, n - 1), 2) for j in range(n)] for i in range(n)]


def star(n):  # by Metropolis: over each link with 1/(n - 1)
    ends = [[Fraction(j == 0, n - 1) if i != j else Fraction(n - 2, n - 1) for j in range(n)]
            for i in range(1, n)]  # fmt: skip
    return [[Fraction(j > 0, n - 1) for j in range(n)], *ends]


def exact_distances(rows, steps):
    """Return the distances of a symmetric chain from the uniform law after 0, 1, ... steps."""
    n = len(rows)
    laws = [[Fraction(i == j) for j in range(n)] for i in range(n)]
    found = []
    for _ in range(steps):
        found.append(max(sum(abs(p - Fraction(1, n)) for p in law) for law in laws) / 2)
        laws = [[sum(law[k] * rows[k][j] for k in range(n)) for j in range(n)] for law in laws]
    return found


EXACT = {
    "complete 4": (Complete(), Metropolis(lazy=0.5), lazy(complete(4))),
    "complete 7": (Complete(), Metropolis(), complete(7)),
    "complete 10": (Complete(), UniformWalk(lazy=0.5), lazy(complete(10))),
    "ring 5": (Ring(), UniformWalk(), ring(5)),
    "ring 8": (Ring(), Metropolis(lazy=0.5), lazy(ring(8))),
    "star 6": (Star(), Metropolis(lazy=0.5), lazy(star(6))),
}


@pytest.mark.parametrize(("topology", "walk", "rows"), EXACT.values(), ids=EXACT.keys())
def test_a_distance_of_exactly_delta_is_near(topology, walk, rows):
    """Each distance of the chain in exact numbers is taken for delta, at which it has arrived."""
    distances = exact_distances(rows, 7)
    found = walked(topology, len(rows), walk)
    np.testing.assert_allclose(found.matrix.toarray(), np.array(rows, float), atol=1e-15)
    for distance in distances:
        assert found.mixing_time(float(distance)) == distances.index(distance)
        below = next(k for k, each in enumerate([*distances, 0]) if each < distance)
        if below < len(distances):
            between = float(distance) * (1 - 1e-6)
            assert found.mixing_time(between) == below


@pytest.mark.parametrize("delta", [0.25, 0.01])
@pytest.mark.parametrize(
    ("topology", "count", "walk"),
    [
        (Ring(), 15, UniformWalk()),
        (Complete(), 6, UniformWalk()),
        (Grid(), 12, Metropolis()),
        (Random(p=0.4), 14, UniformWalk(lazy=0.2)),
    ],
)
def test_the_mixing_time_is_the_first_step_that_is_near(topology, count, walk, delta):
    found = walked(topology, count, walk)
    law, step = np.eye(count), 0
    while np.abs(law - found.stationary).sum(axis=1).max() / 2 > delta:
        law, step = law @ found.matrix.toarray(), step + 1
    assert found.mixing_time(delta) == step
    low, high = found.mixing_bounds(delta)
    assert low <= step <= high


def test_hitting_times_in_closed_form():
    complete = walked(Complete(), 7, UniformWalk()).hitting_times()
    np.testing.assert_allclose(complete, 6 * (1 - np.eye(7)), atol=1e-10)
    ring = walked(Ring(), 9, UniformWalk()).hitting_times()
    gap = np.arange(9)
    np.testing.assert_allclose(ring[0], gap * (9 - gap), atol=1e-9)
    star = walked(Star(), 6, UniformWalk()).hitting_times()  # 2 (n - 1) - 1 from the centre
    np.testing.assert_allclose(star[0, 1:], 9.0)
    np.testing.assert_allclose(star[1:, 0], 1.0)
    np.testing.assert_allclose(walked(Ring(), 9, UniformWalk(lazy=0.5)).hitting_times(), 2 * ring)


def test_hitting_times_of_one_are_those_of_all():
    found = walked(Random(p=0.3), 20, Metropolis())
    np.testing.assert_allclose(found.hitting_times_of(7), found.hitting_times()[:, 7], atol=1e-9)


def test_the_longest_hitting_time_of_a_large_graph_is_found_from_below(monkeypatch):
    for seed in range(3):
        graphs = Graphs(Geometric(range_m=150.0, mobility=Still()), 150, seed)
        exact = Chain(UniformWalk(lazy=0.3).matrix(graphs.of(0)))
        longest = exact.hitting_times().max()
        assert exact.longest_hitting() == longest
        with monkeypatch.context() as patch:
            patch.setattr(chain, "DENSE", 10)
            found = exact.longest_hitting()
        assert 0.8 * longest < found <= longest * (1 + 1e-9)


def tree(*ends):
    """Return the uniform walk on a tree, by who comes before each client but the first."""
    links = np.stack([ends, np.arange(1, len(ends) + 1)], axis=1)
    return Chain(UniformWalk().matrix(EdgeList(len(ends) + 1, links)))


@pytest.mark.parametrize(
    ("sweeps", "ends", "longest"),
    [
        (1, range(9), 81),  # a path: to its end, where one comes most seldom, 9^2
        # Legs of 1, 3 and 6 links: from the end of 3 to that of 6, by 2 k + 1 moves for each link
        # with k behind it, 1 + 3 + 5 and 9 + 11 + 13 + 15 + 17 + 19; to the first leg at most 55.
        (2, (0, 1, 2, 3, 1, 5, 6, 7, 8, 9), 93),
    ],
    ids=["where one seldom comes", "from there to the farthest"],
)
def test_the_longest_hitting_time_is_looked_for(sweeps, ends, longest, monkeypatch):
    for name, value in {"DENSE": 2, "_TARGETS": 1, "_SWEEPS": sweeps}.items():
        monkeypatch.setattr(chain, name, value)
    assert tree(*ends).longest_hitting() == pytest.approx(longest)


def test_cover_times_lie_within_their_bounds():
    """(n - 1)(1 + ... + 1/(n - 1)) for a complete graph, n (n - 1) / 2 for a ring."""
    low, high = walked(Complete(), 6, UniformWalk()).cover_bounds()
    assert low == pytest.approx(5 * (1 + 1 / 2 + 1 / 3 + 1 / 4 + 1 / 5))
    assert high == pytest.approx(low)
    low, high = walked(Ring(), 9, UniformWalk()).cover_bounds()
    assert low < 36 < high


def test_large_chains_are_not_handled_whole(monkeypatch):
    monkeypatch.setattr(chain, "DENSE", 3)
    found = walked(Ring(), 5, UniformWalk())
    with pytest.raises(ValueError, match="the mixing time is computed for up to 3"):
        found.mixing_time()
    with pytest.raises(ValueError, match="all pairs are computed for up to 3"):
        found.hitting_times()


def test_of_many_clients_in_range_a_lazy_walk_mixes_half_as_fast():
    topology = Geometric(range_m=60.0, mobility=Still(), seed=1)
    plain = walked(topology, 2000, Metropolis())
    lazy = walked(topology, 2000, Metropolis(lazy=0.5))
    assert 1 - lazy.second_eigenvalue == pytest.approx((1 - plain.second_eigenvalue) / 2, rel=1e-4)
