"""What an installation weighs: ``python -m scripts.weight [EXTRA...]``.

Counted are the files of rayfed's requirements in this environment, and of theirs, without what was
compiled later; EXTRA is one of pyproject.toml, such as torch.
"""

from __future__ import annotations

import sys
from collections.abc import Collection
from importlib.metadata import Distribution, distribution

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from rayfed.core.extras import DISTRIBUTION


def weights(name: str, extras: Collection[str] = ()) -> dict[str, int]:
    """Return the bytes of a distribution and of all that it requires, by name."""
    found: dict[str, int] = {}
    waiting = [(name, frozenset(extras))]
    while waiting:
        wanted, asked = waiting.pop()
        held = distribution(wanted)
        found[canonicalize_name(wanted)] = _size(held)
        for requirement in map(Requirement, held.requires or ()):
            if _applies(requirement, asked) and canonicalize_name(requirement.name) not in found:
                waiting.append((requirement.name, frozenset(requirement.extras)))
    return found


def _size(held: Distribution) -> int:
    paths = (held.locate_file(path) for path in held.files or () if path.suffix != ".pyc")
    return sum(path.stat().st_size for path in paths if path.is_file())


def _applies(requirement: Requirement, extras: Collection[str]) -> bool:
    marker = requirement.marker
    return marker is None or any(marker.evaluate({"extra": extra}) for extra in ("", *extras))


def main() -> None:
    """Print the distributions of at least ten megabytes, the largest first, and the sum."""
    found = weights(DISTRIBUTION, sys.argv[1:])
    for name, size in sorted(found.items(), key=lambda pair: -pair[1]):
        if size >= 10e6:
            print(f"{size / 1e6:6.0f} MB  {name}")
    print(f"{sum(found.values()) / 1e6:6.0f} MB  in all, {len(found)} distributions")


if __name__ == "__main__":
    main()
