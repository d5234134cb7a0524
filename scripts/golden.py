"""Compare what small scenarios record, bit for bit, with a list that is kept with the code.

The scenarios are those of ``digests.yaml`` that need neither Ray nor PyTorch::

    python -m scripts.golden            # exit status 1 if bits changed
    python -m scripts.golden --write    # after a change of results on purpose: make digests

Last bits depend on the processor and on libraries. So everything is computed by the lowest of
`scripts.kernels`: instructions that every x86-64 processor has which NumPy supports. The list says
what it was computed with, and how some thousand functions, draws and products of matrices were
rounded. Where any of that differs nothing can be compared; that is said, with exit status 3.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import os
import platform
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import scipy
import scipy.linalg
import yaml
from numpy._core._multiarray_umath import __cpu_dispatch__, __cpu_features__
from scipy import special
from threadpoolctl import threadpool_info

from rayfed.core.threads import one_thread
from scripts import digests
from scripts.kernels import LOWEST

LIST = Path(__file__).with_name("golden.json")
CHANGED, INCOMPARABLE = 1, 3
ADVICE = (
    "if results were to change: say which in CHANGELOG.md, and write the list anew with "
    "`make digests`"
)


def main(given: Sequence[str] | None = None) -> int:
    """Compare with the list, or write it; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m scripts.golden", description=ADVICE)
    parser.add_argument("--write", action="store_true", help="write the list anew")
    parser.add_argument("--only", metavar="NAMES", help="scenarios, with commas between")
    options = parser.parse_args(given)
    known = scenarios()
    names = set(options.only.split(",")) if options.only else set(known)
    if unknown := names - set(known):
        parser.error(
            f"--only: found {', '.join(sorted(map(repr, unknown)))}; choose from {', '.join(known)}"
        )
    if any(os.environ.get(name) != value for name, value in LOWEST.items()):
        _begin_anew(sys.argv[1:] if given is None else given)
    here, listed = circumstances(), {} if options.write else json.loads(LIST.read_text("utf-8"))
    if options.write:
        text = json.dumps({"with": here, "digests": computed(known)}, indent=1)
        LIST.write_text(text + "\n", encoding="utf-8")
        return 0
    unlike = [f"{name}: {here[name]}, not {value}" for name, value in listed["with"].items()
              if name != "C library" and here[name] != value]  # fmt: skip
    if unlike:
        print("not compared with", LIST.name, "since bits may differ here:", "; ".join(unlike))
        return INCOMPARABLE
    wanted = {run: said for run, said in listed["digests"].items() if run.split("/")[0] in names}
    changed = digests.differences(computed({name: known[name] for name in names}), wanted)
    print("\n".join([*changed, f"{len(wanted)} runs, {len(changed)} differ from {LIST.name}"]))
    if changed:
        print(
            ADVICE, f"(C library: {here['C library']}, of the list {listed['with']['C library']})"
        )
    return CHANGED if changed else 0


def _begin_anew(given: Sequence[str]) -> None:
    """Replace this process by one that computes by the lowest means; libraries look once."""
    os.execve(sys.executable, [sys.executable, "-m", "scripts.golden", *given], os.environ | LOWEST)


def scenarios() -> dict[str, Mapping[str, object]]:
    """Return the scenarios by name, but for networks: PyTorch chooses instructions by itself."""
    known = yaml.safe_load(digests.SCENARIOS.read_text(encoding="utf-8"))["scenarios"]
    return {name: each for name, each in known.items() if each["problem"]["name"] != "network"}


def computed(chosen: Mapping[str, Mapping[str, object]]) -> dict[str, str]:
    """Run scenarios in this process; return what each of their runs recorded, by name."""
    with tempfile.TemporaryDirectory() as out:
        ways = [(name, "serial") for name in sorted(chosen)]
        return digests.by_run(digests.lines(chosen, ways, Path(out)))


def circumstances() -> dict[str, str]:
    """Return what decides the last bits of results."""
    pools = [p for p in threadpool_info() if p["internal_api"] == "openblas"]
    return {
        "machine": platform.machine(),
        "Python": ".".join(platform.python_version_tuple()[:2]),
        "NumPy": np.__version__,
        "SciPy": scipy.__version__,
        "OpenBLAS": ", ".join(sorted(f"{p['architecture']} {p['version']}" for p in pools)),
        "instructions": " ".join(x for x in __cpu_dispatch__ if __cpu_features__[x]) or "baseline",
        "C library": " ".join(platform.libc_ver()),
        "rounding": _rounding(),
    }


@one_thread()
def _rounding() -> str:
    """Return a digest of functions, draws and products of matrices as they are rounded here."""
    draws = np.random.Generator(np.random.Philox(1))
    x = draws.standard_normal((120, 90))
    positive = np.abs(x) + 0.01
    square = x.T @ x + np.eye(90)
    values = [
        x, np.exp(x), np.tanh(x), np.log(positive), np.log1p(positive), np.expm1(x), np.sin(x),
        np.cos(x), np.sqrt(positive), positive**x, special.expit(x), special.logsumexp(x, axis=1),
        special.ndtri(special.expit(x)), np.exp(x.astype("f4")), np.tanh(x.astype("f4")),
        [[f(v) for v in positive.ravel()] for f in (math.exp, math.log, math.sinh, math.lgamma)],
        draws.gamma(0.4, size=500), draws.exponential(size=500), draws.lognormal(size=500),
        draws.dirichlet(np.full(5, 0.3), size=100), draws.poisson(9, size=500),
        square, x.astype("f4").T @ x.astype("f4"), np.linalg.eigh(square)[0], x.sum(axis=0),
        np.linalg.solve(square, x.T), scipy.linalg.cholesky(square), np.einsum("ij,kj->ik", x, x),
    ]  # fmt: skip
    digest = hashlib.sha256()
    for each in values:
        digest.update(np.ascontiguousarray(each).tobytes())
    return digest.hexdigest()[:16]


if __name__ == "__main__":
    sys.exit(main())
