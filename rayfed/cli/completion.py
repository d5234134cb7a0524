"""Shell completion: plug-ins, scenarios, studies, keys of a scenario.

A shell waits for this at every TAB, so nothing that computes is imported: names of plug-ins are
read from the sources, keys from the text of the scenario file.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from rayfed.core.plugins import ALL_KINDS, KINDS, declared
from rayfed.core.shipped import scenarios, studies

LISTED = (*ALL_KINDS, "columns")
"""What `rayfed list` takes for a kind."""
_NO_KEYS = {"base", "cases", "grid", "label", "search"}
"""Parts of a scenario file that `--set` cannot change one by one, or hardly ever."""


def of_list(ctx: Any, incomplete: str) -> list[str]:
    """Complete the first word after `list`: kinds, and the names of all plug-ins."""
    names = {name for kind in KINDS for name in declared(kind)}
    return _starting([*LISTED, *sorted(names - set(LISTED))], incomplete)


def of_kind(ctx: Any, incomplete: str) -> list[str]:
    """Complete the second word after `list`: names of that kind."""
    kind = ctx.params.get("kind")
    return _starting(declared(kind), incomplete) if kind in ALL_KINDS else []


def of_scenarios(incomplete: str) -> list[str]:
    """Complete a scenario: files and folders of this folder, and scenarios that come with rayfed.

    With a folder in front there are no names, and the shell completes files.
    """
    if "/" in incomplete:
        return []
    here = [_entry(path) for path in sorted(Path().iterdir()) if not path.name.startswith(".")]
    return _starting([*filter(None, here), *scenarios()], incomplete)


def of_studies(incomplete: str) -> list[str]:
    """Complete the name of a published study."""
    return _starting(studies(), incomplete)


def of_keys(ctx: Any, incomplete: str) -> list[str]:
    """Complete `--set`: the dotted keys that stand in the scenario files, up to the equals sign.

    The files are still among the arguments, since an option without its value cannot be parsed.
    """
    keys = {key for given in ctx.args for key in _keys(_held(_path(given)))}
    return _starting((f"{key}=" for key in sorted(keys)), incomplete)


def _starting(words: Iterable[str], begin: str) -> list[str]:
    return [word for word in words if word.startswith(begin)]


def _entry(path: Path) -> str | None:
    if path.is_dir():
        return f"{path.name}/"
    return path.name if path.suffix in (".yaml", ".yml") else None


def _path(given: str) -> Path:
    return scenarios().get(given, Path(given))


def _held(path: Path) -> Any:
    """Return the content of a scenario file; empty if it cannot be read."""
    import yaml

    try:
        return yaml.safe_load(path.read_text(encoding="utf-8")) if path.is_file() else None
    except (OSError, ValueError, RecursionError, yaml.YAMLError):
        return None


def _keys(held: Any, front: str = "") -> Iterator[str]:
    """Yield the dotted keys of values; entries of lists go by their labels or names."""
    if isinstance(held, Mapping):
        for key in held.keys() - _NO_KEYS:
            yield from _keys(held[key], f"{front}{key}.")
    elif isinstance(held, list) and all(isinstance(entry, Mapping) for entry in held):
        for entry in held:
            label = entry.get("label") or entry.get("name")
            yield from _keys(entry, f"{front}{label}.")
    elif front and " " not in front:  # which a shell would take for two words
        yield front.removesuffix(".")
