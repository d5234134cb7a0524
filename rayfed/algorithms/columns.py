"""Diagnostics that several algorithms record under one name."""

from __future__ import annotations

from collections.abc import Mapping

from rayfed.core.arrays import Floats
from rayfed.core.columns import Column

SERVER_LR = Column(
    "server_lr", "server step", about="Step size of the server in the round."
)  # fmt: skip
GRADIENT_NORM = Column(
    "gradient_norm", "norm of the gradient", better="lower",
    about="Euclidean norm of the gradient of F that the round's participants report.",
)  # fmt: skip
COMMUNICATIONS = Column(
    "communications", about="Exchanges between the server and all participants in the round."
)


CG_RESIDUAL = Column(
    "cg_residual", "residual of conjugate gradients", better="lower",
    about="Largest relative residual that conjugate gradients left in the round; 0 if none ran.",
)  # fmt: skip
CG_TOLERANCE = Column(
    "cg_tolerance", "residual that ends conjugate gradients",
    about="Relative residual at which conjugate gradients end in the round; 0 if none ran.",
)  # fmt: skip


def unsolved(label: str, reported: Mapping[str, Floats]) -> list[str]:
    """Return a warning if conjugate gradients ended above their tolerance in any round.

    Parameters
    ----------
    label : str
        Name of the algorithm.
    reported : mapping of str to (T + 1,) array
        The diagnostics of all rounds, `CG_RESIDUAL` and `CG_TOLERANCE` among them.
    """
    residual = reported[CG_RESIDUAL.name]
    short = residual[residual > reported[CG_TOLERANCE.name]]
    if not len(short):
        return []
    what = f"{label}: in {len(short)} rounds conjugate gradients ended before their tolerance"
    return [f"{what}, with a relative residual of up to {short.max():.2g}"]
