"""Outputs of modules: one tensor, or several in a tuple or dict, held side by side."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any, Self

import torch
from torch import Tensor

from rayfed.core.errors import ScenarioError


@dataclass(frozen=True)
class Outputs:
    """Several outputs of a module for each row.

    Parameters
    ----------
    shapes : tuple of tuple of int
        Shape of each output for one row, in the module's order.
    names : tuple of str, optional
        Keys of a dict; None for a tuple.
    """

    shapes: tuple[tuple[int, ...], ...]
    names: tuple[Any, ...] | None = None

    @classmethod
    def of(cls, returned: Any) -> Self | None:
        """Describe the outputs of a module; None for one tensor."""
        parts = parts_of(returned)
        if parts is None:
            return None
        names = tuple(returned) if isinstance(returned, Mapping) else None
        return cls(tuple(tuple(part.shape[1:]) for part in parts), names)

    def __str__(self) -> str:
        """Return the shapes for messages, such as ``{'mean': (B, 2), 'scale': (B, 1)}``."""
        shapes = [f"({', '.join(('B', *map(str, shape)))})" for shape in self.shapes]
        if self.names is None:
            return f"({', '.join(shapes)})"
        named = (f"{n!r}: {shape}" for n, shape in zip(self.names, shapes, strict=True))
        return f"{{{', '.join(named)}}}"

    def joined(self, returned: Any) -> Tensor:
        """Return the outputs (B, ...) of a module side by side (B, m).

        Raises
        ------
        ScenarioError
            If they are not those of the check before the run, in another mode of the module or for
            other rows.
        """
        found = Outputs.of(returned)
        if found != self:
            text = f"the module returns {found or 'one tensor'} after {self}"
            raise ScenarioError("problem.model", f"{text}; return the same outputs for all rows")
        joined: Tensor = tensor_of(returned)
        return joined

    def split(self, joined: Tensor) -> tuple[Tensor, ...] | dict[Any, Tensor]:
        """Return the outputs (B, ...) as the module returns them, given them side by side."""
        flat = torch.split(joined, [prod(shape) for shape in self.shapes], dim=1)
        parts = tuple(
            part.reshape(-1, *shape) for part, shape in zip(flat, self.shapes, strict=True)
        )
        return parts if self.names is None else dict(zip(self.names, parts, strict=True))

    def first(self, joined: Tensor) -> Tensor:
        """Return the first output (B, ...), given all side by side."""
        shape = self.shapes[0]
        return joined[:, : prod(shape)].reshape(-1, *shape)


def parts_of(returned: Any) -> tuple[Tensor, ...] | None:
    """Return the tensors of a tuple, a list or a dict with a row each; None for anything else."""
    if hasattr(returned, "logits") or not isinstance(returned, (tuple, list, Mapping)):
        return None
    parts = tuple(returned.values() if isinstance(returned, Mapping) else returned)
    if not parts or not all(
        isinstance(p, Tensor) and p.ndim and p.is_floating_point() for p in parts
    ):
        return None
    return parts if len({len(part) for part in parts}) == 1 else None


def tensor_of(returned: Any) -> Any:
    """Return the outputs of a module as one tensor: side by side, or its ``logits``."""
    parts = parts_of(returned)
    if parts is not None:
        return torch.cat([part.flatten(1) if part.ndim > 1 else part[:, None] for part in parts], 1)
    return getattr(returned, "logits", returned)
