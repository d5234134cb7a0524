"""What an installation weighs: ``python -m scripts.weight [PYTHON]``, megabytes by distribution.

Counted are the files that each distribution of the environment installed, with the bytecode beside
them; PYTHON is the interpreter of another environment.
"""

from __future__ import annotations

import json
import subprocess
import sys

_COUNT = """
import json
from importlib.metadata import distributions
from pathlib import Path
found = {}
for each in distributions():
    paths = (Path(each.locate_file(path)) for path in each.files or ())
    found[each.metadata["Name"]] = sum(path.stat().st_size for path in paths if path.is_file())
print(json.dumps(found))
"""


def weights(python: str) -> dict[str, int]:
    """Return the bytes of every distribution in the environment of an interpreter."""
    counted = subprocess.run([python, "-c", _COUNT], capture_output=True, text=True, check=True)
    found: dict[str, int] = json.loads(counted.stdout)
    return found


def main() -> None:
    """Print the distributions of at least a megabyte, the largest first, and the sum of all."""
    found = weights(sys.argv[1] if len(sys.argv) > 1 else sys.executable)
    for name, size in sorted(found.items(), key=lambda pair: -pair[1]):
        if size >= 1e6:
            print(f"{size / 1e6:7.1f} MB  {name}")
    print(f"{sum(found.values()) / 1e6:7.1f} MB  in all, {len(found)} distributions")


if __name__ == "__main__":
    main()
