"""Run tests once under each way of computing that this processor has.

Last bits depend on the processor: OpenBLAS multiplies matrices by kernels of their own for each
family of processors, NumPy computes functions such as tanh with the widest instructions that there
are, and the C library takes fused multiplications where it can. What tests expect must not hang on
any of it. All of this can be chosen when a process starts, so one processor stands for the others::

    python -m scripts.kernels --list
    python -m scripts.kernels                          # every test but the slow ones, under each
    python -m scripts.kernels --only Haswell,lowest -- tests/algorithms -n 2
    python -m scripts.kernels --first 2 -- tests/numerics

Arguments after ``--`` are pytest's. The exit status is 1 if a test failed under any of them. Logs
are kept in a folder that is named where tests fail.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from numpy._core._multiarray_umath import __cpu_dispatch__ as dispatched

NATIVE = "as it is"
KERNELS = (
    "Haswell", "Sandybridge", "Nehalem", "SkylakeX",
    "Zen", "Cooperlake", "SapphireRapids", "Bulldozer",
)  # fmt: skip
"""Kernels of OpenBLAS for x86-64; most builds have some of them, which stand for the others.

Prescott and Core2 are for processors without SSE4.2, on which NumPy does not start. Under them a
client's bits depend on the clients beside it.
"""
_NO_FUSED = "glibc.cpu.hwcaps=-FMA,-FMA4,-AVX2"
LOWEST = {
    "OPENBLAS_CORETYPE": "Nehalem",
    "NPY_DISABLE_CPU_FEATURES": " ".join(dispatched),
    "GLIBC_TUNABLES": _NO_FUSED,
}
"""What every x86-64 processor that NumPy supports can do, and no more."""
_WIDE = " ".join(name for name in dispatched if "512" in name or name == "X86_V4")
_TESTS = ("-m", "not slow", "--numprocesses=auto", "--maxprocesses=4")
_PROBE = """
import json, math, hashlib, numpy, scipy.linalg, threadpoolctl
from numpy._core._multiarray_umath import __cpu_features__ as has, __cpu_dispatch__ as dispatched
x = numpy.linspace(0.1, 3, 90000).reshape(300, 300)
scipy.linalg.cholesky(x.T @ x + numpy.eye(300))
functions = numpy.array([math.exp(v) for v in x.ravel()])
pools = [p for p in threadpoolctl.threadpool_info() if p["internal_api"] == "openblas"]
print(json.dumps({
    "kernel": "/".join(sorted({p["architecture"] for p in pools})),
    "numpy": " ".join(name for name in dispatched if has[name]) or "baseline",
    "libm": hashlib.sha256(functions.tobytes()).hexdigest()[:8],
}))
"""


@dataclass(frozen=True)
class Way:
    """A way of computing: its name, the environment that chooses it, and what is in effect."""

    name: str
    environment: Mapping[str, str]
    effect: tuple[str, str, str]

    @property
    def text(self) -> str:
        """Say what is in effect."""
        kernel, instructions, libm = self.effect
        return f"OpenBLAS {kernel}, NumPy {instructions}, libm {libm}"


def candidates() -> Iterator[tuple[str, Mapping[str, str]]]:
    """Yield names and environments, those that differ most from usual processors first."""
    yield NATIVE, {}
    yield "lowest", LOWEST
    for name in KERNELS:
        yield name, {"OPENBLAS_CORETYPE": name}
    yield "NumPy without 512 bits", {"NPY_DISABLE_CPU_FEATURES": _WIDE}
    yield "NumPy baseline", {"NPY_DISABLE_CPU_FEATURES": " ".join(dispatched)}
    yield "libm without FMA", {"GLIBC_TUNABLES": _NO_FUSED}


def effect(environment: Mapping[str, str]) -> tuple[str, str, str] | None:
    """Return OpenBLAS's kernel, NumPy's instructions and a digest of libm's; None if it crashed."""
    done = subprocess.run(
        [sys.executable, "-c", _PROBE],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
    )
    if done.returncode != 0:
        return None
    found = json.loads(done.stdout)
    return found["kernel"], found["numpy"], found["libm"]


def ways(
    names: Sequence[str] | None = None, most: int | None = None
) -> tuple[list[Way], list[str]]:
    """Return the ways that differ in effect on this processor, and why others are left out.

    Parameters
    ----------
    names : list of str, optional
        Those that are looked at; all if None.
    most : int, optional
        After so many ways no other is looked at, which takes a process each.
    """
    found: list[Way] = []
    left_out = []
    for name, environment in candidates():
        if len(found) == most:
            break
        if names is not None and name not in names:
            continue
        seen = effect(environment)
        same = next((way.name for way in found if way.effect == seen), None)
        if seen is None:
            left_out.append(f"{name}: this processor cannot run it")
        elif same is not None:
            left_out.append(f"{name}: computes like '{same}' here")
        else:
            found.append(Way(name, environment, seen))
    return found, left_out


@dataclass(frozen=True)
class Outcome:
    """What a run of the tests said: passed and failed tests, seconds, and the exit status."""

    passed: int
    failed: int
    seconds: float
    status: int


def run(way: Way, arguments: Sequence[str], log: Path) -> Outcome:
    """Run tests in one way; pytest writes to a log."""
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *arguments]
    began = time.monotonic()
    with log.open("w", encoding="utf-8") as out:
        status = subprocess.run(
            command, env={**os.environ, **way.environment}, stdout=out, stderr=subprocess.STDOUT
        ).returncode
    counts = counted(log.read_text(encoding="utf-8"))
    failed = counts.get("failed", 0) + counts.get("error", 0) + counts.get("errors", 0)
    return Outcome(counts.get("passed", 0), failed, time.monotonic() - began, status)


def counted(log: str) -> dict[str, int]:
    r"""Return the counts of pytest's last line.

    Examples
    --------
    >>> counted("...\n1 failed, 12 passed, 3 errors in 4.05s\n")
    {'failed': 1, 'passed': 12, 'errors': 3}
    """
    last = log.strip().splitlines()[-1:]
    found = re.findall(r"(\d+) (passed|failed|errors?)\b", "".join(last))
    return {word: int(number) for number, word in found}


def table(outcomes: Mapping[str, Outcome]) -> str:
    """Return what every way's tests said.

    Examples
    --------
    >>> print(table({"as it is": Outcome(12, 0, 3.2, 0)}))
    computing               passed  failed  seconds
    as it is                    12       0        3
    """
    lines = [f"{'computing':22}{'passed':>8}{'failed':>8}{'seconds':>9}"]
    for name, one in outcomes.items():
        broken = "" if one.status in (0, 1) else f"  pytest ended with {one.status}"
        lines.append(f"{name:22}{one.passed:8}{one.failed:8}{one.seconds:9.0f}{broken}")
    return "\n".join(lines)


def main(given: Sequence[str] | None = None) -> int:
    """Run tests in every way, print the table; return 1 if any test failed."""
    options = _options(given)
    unknown = set(options.only or ()) - {name for name, _ in candidates()}
    if unknown:
        print(f"--only {', '.join(sorted(unknown))}: see --list", file=sys.stderr)
        return 2
    first = options.first
    found, left_out = ways(options.only, None if first is None else 1 + first)
    chosen = found if first is None else found[1:]
    print(f"{platform.machine()}, {os.cpu_count()} processors")
    lines = [f"{way.name}: {way.text}" for way in chosen]
    print("\n".join(lines + [f"not run: {reason}" for reason in left_out]), flush=True)
    return 0 if options.list else _run_all(chosen, options.pytest or _TESTS)


def _run_all(chosen: Sequence[Way], arguments: Sequence[str]) -> int:
    folder = Path(tempfile.mkdtemp(prefix="kernels-"))
    outcomes = {}
    for way in chosen:
        log = folder / f"{way.name.replace(' ', '-')}.log"
        outcomes[way.name] = one = run(way, arguments, log)
        print(f"\n{way.name}: {one.passed} passed, {one.failed} failed, {one.seconds:.0f} s; {log}")
        for line in log.read_text(encoding="utf-8").splitlines():
            if line.startswith(("FAILED", "ERROR")):
                print(f"  {line}", flush=True)
    print(f"\n{table(outcomes)}")
    return int(any(one.status for one in outcomes.values()))


def _options(given: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m scripts.kernels",
        description="Run tests once under each way of computing that this processor has.",
    )
    parser.add_argument("--list", action="store_true", help="say which there are; run nothing")
    parser.add_argument(
        "--only", type=lambda names: names.split(","), metavar="NAMES",
        help="those with these names, with commas between",
    )  # fmt: skip
    parser.add_argument(
        "--first", type=int, metavar="N", help=f"the first N of them besides '{NATIVE}'"
    )
    parser.add_argument("pytest", nargs="*", help="arguments for pytest, after --")
    return parser.parse_args(given)


if __name__ == "__main__":
    sys.exit(main())
