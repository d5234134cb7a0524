"""Provenance of results: data, the length of runs, rayfed itself and the machine."""

from __future__ import annotations

import hashlib
import platform
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from rayfed.core.arrays import Array
from rayfed.core.dotted import value_text
from rayfed.runs.files.run_json import versions
from rayfed.study import Study
from rayfed.study.plan.plan import Plan

_DIGEST_BYTES = 16
_NAMED = ("rounds", "problem")  # first parts of keys that `shortened` compares


def fingerprint(plan: Plan) -> dict[str, Any]:
    """Return the name, rows and digest of the data that a plan loaded.

    The digest is BLAKE2b of the features and targets of every table, in the order of their names;
    it is empty where rows are made on demand.
    """
    dataset = plan.study.to_dict()["problem"]["dataset"]
    digest = hashlib.blake2b(digest_size=_DIGEST_BYTES)
    for _, table in sorted(plan.tables.items()):
        _add(digest, table.X)
        _add(digest, table.y)
    return {
        "dataset": dataset["name"] if isinstance(dataset, dict) else dataset,
        "rows": sum(len(table.y) for table in plan.tables.values()),
        "digest": digest.hexdigest() if plan.tables else "",
    }


def _add(digest: Any, array: Array) -> None:
    digest.update(f"{array.dtype.str} {array.shape}".encode())
    digest.update(np.ascontiguousarray(array).data)


def here() -> dict[str, Any]:
    """Return versions, the commit of rayfed, and the processor of this machine."""
    return {"versions": versions(), "commit": commit(), "processor": processor()}


def commit(package: Path = Path(__file__).parents[1]) -> str:
    """Return the commit of the checkout that rayfed runs from, with "+" if files are changed.

    It is empty for an installed package.
    """
    if not (package.parent / ".git").exists():
        return ""

    def git(*words: str) -> str:
        done = subprocess.run(
            ["git", "-C", str(package.parent), *words], capture_output=True, text=True, check=False
        )
        return done.stdout.strip() if done.returncode == 0 else ""

    changed = git("status", "--porcelain", "--untracked-files=no")
    return git("rev-parse", "HEAD") + ("+" if changed else "")


def processor() -> str:
    """Return the name of the processor."""
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
    except OSError:
        lines = []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor() or platform.machine())


def shortened(full: Mapping[str, Any], short: Study, long: Study) -> list[str]:
    """Return the differences of a short part from the source: rounds, data and model.

    Parameters
    ----------
    full : mapping
        The dotted keys that change for the full length.
    short, long : Study
        The study in both lengths.
    """
    words = []
    for key in full:
        if key.split(".")[0] in _NAMED:
            now, then = (_at(study.to_dict(), key) for study in (short, long))
            words += _missing(key.removeprefix("problem."), now, then)
    return words


def _at(node: Any, key: str) -> Any:
    for part in key.split("."):
        node = node.get(part) if isinstance(node, Mapping) else None
    return node


def _missing(key: str, now: Any, then: Any) -> list[str]:
    """Return the differences of a value, or of the values in it, in words."""
    if now == then:
        return []
    if isinstance(now, Mapping) and isinstance(then, Mapping) and now["name"] == then["name"]:
        return [word for k in now for word in _missing(f"{key}.{k}", now[k], then[k])]
    if key == "rounds":
        return [f"{now:,} of {then:,} rounds"]
    if isinstance(now, Mapping):
        now, then = now["name"], then["name"]
    return [f"{key} {value_text(now)}" + (f" in place of {value_text(then)}" if then else "")]
