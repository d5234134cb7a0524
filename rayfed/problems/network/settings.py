"""Settings of neural networks, which need no torch."""

from __future__ import annotations

import pkgutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, TypeAlias

from annotated_types import Ge, Lt

from rayfed.core.errors import ScenarioError, clipped, unknown
from rayfed.core.needs import ADAPTERS, HESSIANS, REPRESENTATIONS, Terms
from rayfed.core.own import Untrusted, admit
from rayfed.problems.base import Problem, Start
from rayfed.problems.layers import Normalisation

Predicted: TypeAlias = Literal["regression", "binary", "multiclass", "own"]
LOSSES: Mapping[str, Predicted] = {
    "cross-entropy": "multiclass",
    "squared-error": "regression",
    "binary-cross-entropy": "binary",
}
"""The losses that have a name, and what they predict."""
_PREDICTED: Mapping[str, Predicted] = {
    "classes": "multiclass", "numbers": "regression", "nothing": "own",
}  # fmt: skip
MODELS = "rayfed.problems.network.models"
"""Package of the built-in models, one a file."""


@dataclass(frozen=True, kw_only=True)
class Augment:
    """Augmentation of images in local steps, drawn by client, round and step.

    Parameters
    ----------
    crop : int
        Pixels by which an image may be shifted in each direction; zeros come in at the edge.
    flip : bool
        Whether half of the images are mirrored, left to right.
    """

    crop: Annotated[int, Ge(0)] = 0
    flip: bool = False


@dataclass(frozen=True, kw_only=True)
class NetworkSettings(Problem):
    """Settings of a neural network and their checks; see `Network`."""

    convex: ClassVar[bool] = False
    several: ClassVar[bool] = True
    gives: ClassVar[Terms] = Problem.gives - {HESSIANS} | {ADAPTERS, REPRESENTATIONS}
    libraries: ClassVar[tuple[str, ...]] = ("torch",)
    default_init: ClassVar[Start] = "torch"
    starts: ClassVar[tuple[Start, ...]] = ("torch",)
    named_losses: ClassVar[Mapping[str, str]] = LOSSES

    model: Any
    loss: Any = "cross-entropy"
    predicts: Literal["classes", "numbers", "nothing"] | None = None
    label_smoothing: Annotated[float, Ge(0), Lt(1)] = 0.0
    shape: tuple[Annotated[int, Ge(1)], ...] = ()
    frozen: tuple[str, ...] = ()
    normalisation: Normalisation = "average"
    init_layers: tuple[str, ...] = ()
    augment: Augment | None = None
    precision: Literal["full", "bfloat16"] = "full"
    intercept: bool = False

    def __post_init__(self) -> None:
        if self.intercept:
            text = "a network has biases of its own; leave it out"
            raise ScenarioError("intercept", text)
        if not (callable(self.loss) or self.loss in LOSSES or ":" in str(self.loss)):
            text = f"{unknown('loss', str(self.loss), LOSSES)} (or package.module:function)"
            raise ScenarioError("loss", text)
        if self.label_smoothing and self.loss != "cross-entropy":
            text = f"found {self.label_smoothing:g} with another loss than cross-entropy"
            raise ScenarioError("label_smoothing", f"{text}; leave it out")
        if self.predicts is not None and not self.own_loss:
            text = f"found {self.predicts}, but the loss '{self.loss}' is of another kind"
            raise ScenarioError("predicts", f"{text}; it is for a loss of your own")
        self._check_model()
        self._check_modules()

    def _check_model(self) -> None:
        """Refuse values that cannot name a model."""
        name, _ = self.choice
        if isinstance(name, str) and ":" not in name and name not in built_in():
            text = f"{unknown('model', name, built_in())} (or package.module:Class)"
            raise ScenarioError("model", text)
        if not (isinstance(name, str) or callable(name)):
            found = f"found {clipped(name, 60)}"
            raise ScenarioError("model", f"{found}; give a name, package.module:Class or a class")

    def _check_modules(self) -> None:
        """Refuse modules that scenarios may not name, before the data are read."""
        for key, name in (("model", self.choice[0]), ("loss", self.loss)):
            if isinstance(name, str) and ":" in name:
                try:
                    admit(name)
                except Untrusted:
                    raise
                except ScenarioError as error:
                    raise ScenarioError(key, str(error)) from error

    @property
    def choice(self) -> tuple[Any, dict[str, Any]]:
        """The name, class or function of the model, and arguments of its constructor."""
        if not isinstance(self.model, Mapping):
            return self.model, {}
        settings = dict(self.model)
        if "name" not in settings:
            text = "the name is missing; give a name and arguments of the constructor"
            raise ScenarioError("model", text)
        return settings.pop("name"), settings

    @property
    def own_loss(self) -> bool:
        """Whether the loss is a function of the user's."""
        return not (isinstance(self.loss, str) and self.loss in LOSSES)

    @property
    def task(self) -> Predicted:  # type: ignore[override]
        """The target, which the loss decides; that of a function of the user's is "own"."""
        if not self.own_loss:
            return LOSSES[self.loss]
        return "own" if self.predicts is None else _PREDICTED[self.predicts]


def built_in() -> list[str]:
    """Return the names of the built-in models; nothing is imported."""
    folder = Path(__file__).parent / "models"
    return sorted(e.name for e in pkgutil.iter_modules([str(folder)]) if e.name != "base")
