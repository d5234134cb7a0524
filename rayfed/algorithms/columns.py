"""Diagnostics that several algorithms record under one name."""

from __future__ import annotations

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
