"""A matrix of the user's: read, checked, and held back where links are missing."""

import numpy as np
import pytest
from scipy import sparse

from rayfed.core.errors import ScenarioError
from rayfed.topology import EdgeList, Graphs, Matrix, Random, Ring

P = np.array(
    [[0.1, 0.5, 0.0, 0.4], [0.5, 0.2, 0.3, 0.0], [0.0, 0.3, 0.3, 0.4], [0.4, 0.0, 0.4, 0.2]]
)


@pytest.fixture(params=["csv", "npz"])
def saved(request, tmp_path):
    """Return a function that saves a matrix and names it."""

    def save(matrix):
        path = tmp_path / f"moves.{request.param}"
        if request.param == "csv":
            np.savetxt(path, matrix, delimiter=",")
        else:
            sparse.save_npz(path, sparse.csr_array(matrix))
        return Matrix(path=str(path))

    return save


def test_its_moves_are_its_rows(saved):
    walk = saved(P).resolved(Graphs(Ring(), 4, 0))
    graph = Graphs(Ring(), 4, 0).at(1)
    np.testing.assert_allclose(walk.matrix(graph).toarray(), P, atol=1e-15)
    ids, chances = walk.moves(graph, 3)
    assert ids.tolist() == [0, 2, 3]
    np.testing.assert_allclose(chances, [0.4, 0.4, 0.2])


def test_a_move_over_a_missing_link_is_not_made(saved):
    graph = EdgeList(4, [[0, 1], [1, 2]])
    found = saved(P).matrix(graph).toarray()
    expected = [[0.5, 0.5, 0, 0], [0.5, 0.2, 0.3, 0], [0, 0.3, 0.7, 0], [0, 0, 0, 1]]
    np.testing.assert_allclose(found, expected, atol=1e-15)
    np.testing.assert_allclose(np.ones(4) @ found, 1.0)  # P is symmetric: still uniform


def changed(i, j, value):
    matrix = P.copy()
    matrix[i, j] = value
    return matrix


def absorbing(client):
    """Nobody leaves this client."""
    return np.where(np.arange(4)[:, None] == client, np.eye(4), P)


@pytest.mark.parametrize(
    ("matrix", "line"),
    [
        (changed(2, 3, 0.3), "the row of client 2 sums to 0.9; make it sum to 1"),
        (changed(1, 0, -0.5), "the row of client 1 holds -0.5; probabilities are 0 to 1"),
        (changed(1, 0, np.nan), "the row of client 1 holds nan; probabilities are 0 to 1"),
        (P[:3], "is 3 by 4, but there are 4 clients; give a row and a column for each"),
        (np.eye(5), "is 5 by 5, but there are 4 clients; give a row and a column for each"),
        (np.eye(4), "no moves lead from client 0 to 1; add some, or set disconnected to allow"),
        (absorbing(2), "no moves lead from client 2 to 0; add some, or set disconnected to allow"),
        (P[[1, 0, 3, 2]], "client 0 moves to 2, but no link joins them; set the entry to 0"),
    ],
)
def test_what_is_no_matrix_of_moves_is_refused(saved, matrix, line):
    walk = saved(matrix)
    with pytest.raises(ScenarioError) as refused:
        walk.resolved(Graphs(Ring(), 4, 0))
    assert str(refused.value).startswith(f"{walk.path}: {line}")


def test_a_server_may_stay_where_parts_are_allowed(saved):
    walk = saved(np.eye(4))
    assert walk.resolved(Graphs(Ring(disconnected="allow"), 4, 0)) is walk


def test_where_links_change_any_move_may_be_possible_some_time(saved):
    everywhere = np.full((4, 4), 0.25)
    assert saved(everywhere).resolved(Graphs(Random(p=0.6, every=1), 4, 0)).name == "matrix"


@pytest.mark.parametrize(
    ("name", "text", "line"),
    [
        (
            "moves.csv",
            b"1,x\n0,1\n",
            "cannot be read as a matrix (could not convert string 'x' to float64",
        ),
        (
            "moves.csv",
            b"1,0\n1\n",
            "cannot be read as a matrix (the number of columns changed from 2 to 1",
        ),
        ("moves.csv", b"\n", "cannot be read as a matrix (it is empty); give numbers alone"),
        ("moves.npz", b"nothing", "cannot be read as a matrix ("),
        ("missing.csv", None, "cannot be read: No such file or directory"),
        ("missing.npz", None, "cannot be read: No such file or directory"),
    ],
)
def test_a_file_that_holds_none(tmp_path, name, text, line):
    path = tmp_path / name
    if text is not None:
        path.write_bytes(text)
    with pytest.raises(ScenarioError) as refused:
        Matrix(path=str(path)).resolved(Graphs(Ring(), 4, 0))
    assert str(refused.value).startswith(f"{path}: {line}")
    assert "\n" not in str(refused.value)
