"""Every test runs somewhere: what tests are skipped without is installed, or listed here."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DATA = "where RAYFED_DATA names the folder of the data, as .ci/run sets it"
BROWSER = "in CI and in `make test`: scripts/browser.sh installs both"
CASE = "nowhere: a combination of parameters that means nothing"
ELSEWHERE = {
    "needs the real data sets: set RAYFED_DATA to their folder": DATA,
    "needs the folder device-traces in RAYFED_DATA": DATA,
    "needs mushrooms.libsvm": DATA,
    "needs MNIST": DATA,
    "needs Boston housing": DATA,
    "needs the mushrooms": DATA,
    "needs chromium": BROWSER,
    "needs chromium and chromedriver": BROWSER,
    "needs torchvision": "by hand, where it is installed",
    "needs git": "wherever the project is checked out",
    "needs glibc 2.36, which keeps arrays beyond 32 MiB": "Debian 12 and newer",
    "only Linux has such memory": "on Linux",
    "no IPv6 on this machine": "where the loopback has an IPv6 address",
    "no network namespaces here: {error}": "as root on Linux",
    "no GPU: kernels on one were not run": "by hand, on a machine with one",
    "this pyarrow writes no such column": "with pyarrow 21 or newer",
    "kernels for x86-64": "x86-64",
    "argpartition takes others of equal coordinates on this processor": "with AVX-512",
    "libraries start one thread here: with one CPU, or a BLAS that is not known": "two CPUs",
    "one memory for two clients that differ is FedAvg": CASE,
    "the other run has no such file": CASE,
    "str(refused)": CASE,  # changes of settings that a method does not take
    "str(reason)": CASE,  # contracts that do not concern a plug-in
    "done.stdout.strip()": "on the processor on which scripts/golden.json was written",
}
"""Where tests run that are not skipped for a library, by the reason that they give."""


def skips():
    """Return file, reason and library of every skip in the tests; the library may be none."""
    for path in sorted((ROOT / "tests").rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        if not re.search(r"\b(skip|skipif|importorskip)\(", text):
            continue
        for node in ast.walk(ast.parse(text)):
            called = ast.unparse(node.func).rpartition(".")[2] if isinstance(node, ast.Call) else ""
            if called == "importorskip":
                yield path.name, "", ast.literal_eval(node.args[0])
            elif called == "skip":
                yield path.name, said(node.args[0]), None
            elif called == "skipif":
                (reason,) = (k.value for k in node.keywords if k.arg == "reason")
                yield path.name, said(reason), None


def said(reason):
    """Return a reason as it is written."""
    return ast.unparse(reason).removeprefix("f").strip("'\"")


LIBRARIES = {
    "needs byzfl": "byzfl", "needs torch": "torch", "needs dp-accounting": "dp_accounting",
    "needs scikit-learn": "sklearn",
}  # fmt: skip
"""Libraries that tests look for in other ways than by `importorskip`."""


def installed():
    """Return the distributions that ``make test`` and ``make slow`` install, by name."""
    lists = [*sorted(ROOT.glob("requirements*.txt")), ROOT / "Makefile"]
    text = "\n".join(each.read_text(encoding="utf-8") for each in lists)
    return {name(found) for found in re.findall(r"([\w.-]+)==\d", text)}


def name(distribution):
    return re.sub(r"[-_.]+", "-", distribution).lower()


@pytest.fixture(scope="module")
def found():
    return list(skips())


def test_what_tests_are_skipped_without_is_installed(found):
    wanted = {library.partition(".")[0] for *_, library in found if library}
    wanted |= set(LIBRARIES.values())
    called = {"mlflow": "mlflow-skinny", "sklearn": "scikit-learn", "PIL": "pillow"}
    names = {name(called.get(module, module)) for module in wanted}
    assert names - installed() == set()


def test_every_other_reason_is_one_that_holds_somewhere(found):
    reasons = {reason for _, reason, library in found if library is None}
    assert reasons == set(ELSEWHERE) | set(LIBRARIES)
