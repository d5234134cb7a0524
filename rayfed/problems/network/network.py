"""The settings of a neural network; torch is imported when a network meets its data."""

from __future__ import annotations

import pkgutil
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self, TypeAlias

from annotated_types import Ge, Lt

from rayfed.core.errors import LibraryMissing, ScenarioError, clipped, unknown
from rayfed.core.own import Untrusted, admit
from rayfed.core.rng import Key
from rayfed.problems.base import Problem, Start

Predicted: TypeAlias = Literal["regression", "binary", "multiclass", "own"]
LOSSES: Mapping[str, Predicted] = {
    "cross-entropy": "multiclass",
    "squared-error": "regression",
    "binary-cross-entropy": "binary",
}
"""The losses that have a name, and what they predict."""
_PREDICTED: Mapping[str, Predicted] = {"classes": "multiclass", "numbers": "regression"}
MODELS = "rayfed.problems.network.models"
"""Package of the built-in models, one a file."""


@dataclass(frozen=True, kw_only=True)
class Augment:
    """How images are changed in local steps, drawn by client, round and step.

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
class Network(Problem):
    """Neural network: a PyTorch module as the model.

    The model x (p,) holds the trained parameters in the order of
    ``torch.nn.utils.parameters_to_vector``. With default settings F_i is the mean over the client's
    n_i rows of the loss, and F the mean over all n rows. Local steps run the module in training
    mode where that draws random numbers (dropout), evaluations in evaluation mode. Needs the extra
    ``rayfed[torch]``.

    Parameters
    ----------
    model : str, mapping, class or callable
        The name of a built-in model, ``package.module:Class`` of a ``torch.nn.Module`` beside the
        scenario file, or a mapping of that ``name`` and arguments of the constructor. In Python
        also a class, or a function that returns a module. A constructor that names the arguments
        ``inputs`` and ``outputs`` gets the shape of a row and the number of outputs.
    loss : str or callable
        "cross-entropy" (a score for each class), "squared-error" (half squares, one number),
        "binary-cross-entropy" (one score, classes 0 and 1), or ``package.module:function``, in
        Python also a function: from outputs and targets of B rows to their losses (B,). The target
        of such a loss decides what is predicted: a number if any value has a fraction, which one
        output predicts, and else a class.
    predicts : "classes" or "numbers", optional
        What a loss of one's own predicts, where the target does not show it (whole numbers).
    label_smoothing : float
        Weight of the uniform distribution in the targets of the cross-entropy.
    shape : tuple of int
        Shape of a row as the module gets it, such as ``[1, 28, 28]``; that of the data if empty.
    frozen : tuple of str
        Names of parameters that stay as they start, outside the model x; patterns with ``*``. So
        do parameters that need no gradient (``requires_grad=False``), whatever their names.
    init_layers : tuple of str
        Names of the parameters and buffers that a file under ``init`` gives, as patterns; the
        others start as under ``init: torch``. Empty for all.
    augment : mapping, optional
        How images are changed in local steps: ``{crop: 4, flip: true}``.
    precision : "full" or "bfloat16"
        Type of numbers in the forward pass; gradients and models keep the type of the study.
    intercept : bool
        Must be False: a module has biases of its own.

    Notes
    -----
    ``init: torch``, the default, is the module's own initialisation under the seed of the run. A
    file under ``init`` is a ``model.npz``, a ``.safetensors`` file, or a state dict (``.pt``).

    Examples
    --------
    >>> Network(model="lenet5", label_smoothing=0.1).task
    'multiclass'
    """

    name: ClassVar[str] = "network"
    convex: ClassVar[bool] = False
    has_hessian: ClassVar[bool] = False
    has_representation: ClassVar[bool] = True
    has_products: ClassVar[bool] = True
    libraries: ClassVar[tuple[str, ...]] = ("torch",)
    default_init: ClassVar[Start] = "torch"
    starts: ClassVar[tuple[Start, ...]] = ("torch",)
    named_losses: ClassVar[Mapping[str, str]] = LOSSES

    model: Any
    loss: Any = "cross-entropy"
    predicts: Literal["classes", "numbers"] | None = None
    label_smoothing: Annotated[float, Ge(0), Lt(1)] = 0.0
    shape: tuple[Annotated[int, Ge(1)], ...] = ()
    frozen: tuple[str, ...] = ()
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
        if self.predicts is not None and self.task != _PREDICTED[self.predicts]:
            text = f"found {self.predicts}, but the loss '{self.loss}' is of another kind"
            raise ScenarioError("predicts", f"{text}; it is for a loss of your own")
        self._check_model()
        self._check_modules()

    def _check_model(self) -> None:
        """Refuse what cannot name a model."""
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
    def task(self) -> Predicted:  # type: ignore[override]
        """The target, which the loss decides; that of a function of the user's is "own"."""
        if isinstance(self.loss, str) and self.loss in LOSSES:
            return LOSSES[self.loss]
        return "own" if self.predicts is None else _PREDICTED[self.predicts]

    def bound(
        self, shape: tuple[int, ...], classes: int, key: Key, init: Path | None = None
    ) -> Problem:
        """Return the network on rows of a shape, which computes; see `Problem.bound`.

        Raises
        ------
        ScenarioError
            If torch is not installed, or the model does not fit the data.
        """
        need_torch()
        from rayfed.problems.network.kernels.bound import BoundNetwork

        return BoundNetwork.of(self, shape, classes, key, init)

    @classmethod
    def example(cls, folder: Path) -> Self:
        """Return a small network, for the checks of plug-ins."""
        return cls(model="rayfed.testing.modules:Small")


def built_in() -> list[str]:
    """Return the names of the built-in models; nothing is imported."""
    folder = Path(__file__).parent / "models"
    return sorted(e.name for e in pkgutil.iter_modules([str(folder)]) if e.name != "base")


def need_torch() -> None:
    """Refuse to go on without torch.

    Raises
    ------
    LibraryMissing
        One line that says what to install.
    """
    missing = [name for name in ("torch", "array_api_compat") if find_spec(name) is None]
    if missing:
        text = f"'network' needs {missing[0]}; install it with: pip install 'rayfed[torch]'"
        raise LibraryMissing("problem.name", text)
