"""Libraries compute with one thread, those that are loaded late included."""

import os
import subprocess
import sys
from ast import literal_eval

import pytest

from rayfed.core.threads import ONE_THREAD

THREADS = """
import os, threading, numpy
from threadpoolctl import threadpool_info
from rayfed.core.threads import ONE_THREAD, own_process, one_thread

def threads():
    print(sorted({pool["num_threads"] for pool in threadpool_info()}))
"""


def alone(code, *given, **told):
    """Run code in a process that was told nothing of threads, and return what it prints."""
    environment = {name: value for name, value in os.environ.items() if name not in ONE_THREAD}
    ended = subprocess.run(
        [sys.executable, "-c", THREADS + code, *map(str, given)],
        env=environment | told, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    return [literal_eval(line) for line in ended.stdout.splitlines()]


@pytest.fixture(scope="module", autouse=True)
def several():
    (found,) = alone("threads()")
    if max(found, default=1) == 1:
        pytest.skip("libraries start one thread here: with one CPU, or a BLAS that is not known")
    return found


def test_a_library_that_is_loaded_inside_has_one_thread_and_those_of_the_others_afterwards(several):
    inside, nested, after, environment = alone(
        """
with one_thread():
    with one_thread():
        import scipy.linalg
        threads()
    threads()
threads()
print({name: os.environ.get(name) for name in ONE_THREAD})
""",
        OPENBLAS_NUM_THREADS=str(several[0]),
    )
    assert inside == nested == [1]
    assert after == several
    expected = dict.fromkeys(ONE_THREAD) | {"OPENBLAS_NUM_THREADS": str(several[0])}
    assert environment == expected


def test_another_thread_has_one_thread_after_a_library_was_loaded(several):
    """OpenBLAS obeys the first thread that says how many, until that one lets go."""
    inside, after = alone("""
with one_thread():
    import scipy.linalg

def again():
    with one_thread():
        threads()

other = threading.Thread(target=again)
other.start()
other.join()
threads()
""")
    assert inside == [1]
    assert after == several


def test_two_threads_leave_nothing_behind(several):
    first, second, after, environment = alone("""
came, go = threading.Event(), threading.Event()

def early():
    with one_thread():
        came.set()
        go.wait()

other = threading.Thread(target=early)
other.start()
came.wait()
with one_thread():
    threads()
    go.set()
    other.join()
    threads()
threads()
print([name for name in ONE_THREAD if name in os.environ])
""")
    assert first == second == [1]
    assert after == several
    assert environment == []


OPENMP = """
import importlib.util
if importlib.util.find_spec("torch") is None:
    print(None)
    raise SystemExit

def here_and_elsewhere():
    import torch
    found = [torch.get_num_threads()]
    other = threading.Thread(target=lambda: found.append(torch.get_num_threads()))
    other.start()
    other.join()
    return found
"""


@pytest.mark.parametrize(
    "told", [{}, pytest.param({"OPENBLAS_NUM_THREADS": "1"}, marks=pytest.mark.slow)]
)
def test_what_loads_openmp_inside_keeps_its_threads(told):
    (normal,) = alone(f"{OPENMP}\nprint(here_and_elsewhere())", **told)
    if normal is None:
        pytest.skip("needs torch")
    (after,) = alone(
        f"{OPENMP}\nwith one_thread():\n    import torch\nprint(here_and_elsewhere())", **told
    )
    assert after == normal
    assert max(normal) > 1


def test_openmp_counts_for_each_thread():
    """The second comes before the first leaves, and both are as they were afterwards."""
    found = alone(f"""
{OPENMP}
import torch
came, go, seen = threading.Event(), threading.Event(), []

def early():
    with one_thread():
        came.set()
        go.wait()
        seen.append(torch.get_num_threads())
    seen.append(torch.get_num_threads())

most = torch.get_num_threads()
other = threading.Thread(target=early)
other.start()
came.wait()
with one_thread():
    go.set()
    other.join()
    print([torch.get_num_threads(), *seen, most])
print([torch.get_num_threads()])
""")
    if found[0] is None:
        pytest.skip("needs torch")
    (inside, inside_other, after_other, most), (after,) = found
    assert (inside, inside_other) == (1, 1)
    assert after == after_other == most > 1


def test_an_error_inside_ends_it(several):
    after, said = alone("""
try:
    with one_thread():
        raise ValueError
except ValueError:
    threads()
    print([os.environ.get("OPENBLAS_NUM_THREADS")])
""")
    assert after == several
    assert said == [None]


def test_a_process_of_our_own_keeps_one_thread():
    first, second = alone("""
own_process()
threads()
import scipy.linalg
threads()
""")
    assert first == second == [1]


def test_the_first_run_of_a_process_has_the_bytes_of_the_second(tmp_path):
    # the first loads SciPy's BLAS while it runs; a matrix of this size is factored by all threads
    (same,) = alone(
        """
import sys
import numpy as np, rayfed
rows = np.random.default_rng(0)
X = rows.standard_normal((400, 700))
data = {"name": "arrays", "data": {"X": X, "y": (X[:, 0] > 0).astype(int)}}
study = {
    "name": "newton",
    "problem": {"name": "logistic-regression", "dataset": data, "l2": 0.01, "test": 0.0},
    "clients": {"count": 4}, "algorithms": [{"name": "fedhybrid", "newton": "all"}],
    "rounds": 2, "executor": "serial",
}
models = [
    rayfed.run(study, out=f"{sys.argv[1]}/{k}", page=False).model() for k in range(2)
]
print([np.array_equal(*models), bool(np.abs(models[0]).max() > 0)])
""",
        tmp_path,
    )
    assert same == [True, True]
