"""Neural networks as problems; torch is imported when a network meets its data."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import ClassVar, Self

from rayfed.core.errors import LibraryMissing
from rayfed.core.extras import install
from rayfed.core.rng import Key
from rayfed.core.targets import Targets
from rayfed.problems.base import Problem
from rayfed.problems.network.settings import NetworkSettings


@dataclass(frozen=True, kw_only=True)
class Network(NetworkSettings):
    """Neural network: a PyTorch module as the model.

    The model x (p,) holds the trained parameters in the order of
    ``torch.nn.utils.parameters_to_vector``. With default settings F_i is the mean over the client's
    n_i rows of the loss, and F the mean over all n rows. Local steps run the module in training
    mode where that draws random numbers (dropout), evaluations in evaluation mode. Needs the extra
    ``torch``.

    Parameters
    ----------
    model : str, mapping, class or callable
        The name of a built-in model, ``package.module:Class`` of a ``torch.nn.Module`` next to the
        scenario file, or a mapping of that ``name`` and arguments of the constructor. In Python
        also a class, or a function that returns a module. A constructor that names the arguments
        ``inputs`` and ``outputs`` gets the shape of a row and the number of outputs.
    loss : str or callable
        "cross-entropy" (a score for each class), "squared-error" (half squares),
        "binary-cross-entropy" (one score for each label 0 or 1), or ``package.module:function``, in
        Python also a function: from outputs and targets of B rows to their losses (B,), or to one
        loss of the batch. With several targets a row the named losses are means over its targets,
        without classes -100; rows without targets are targets themselves.
    predicts : "classes", "numbers" or "nothing", optional
        Meaning of the outputs under a loss of one's own: scores of classes, the target's numbers,
        or neither, such as an embedding. If None, classes or numbers as the target has them, and
        nothing where rows have several targets or none.
    label_smoothing : float
        Weight of the uniform distribution in the targets of the cross-entropy.
    shape : tuple of int
        Shape of a row as the module gets it, such as ``[1, 28, 28]``; that of the data if empty.
    frozen : tuple of str
        Names of parameters that stay as they start, outside the model x; patterns with ``*``. So
        do parameters that need no gradient (``requires_grad=False``), whatever their names.
    normalisation : "average", "local" or "frozen"
        Running statistics of BatchNorm: averaged as the parameters are; at the clients, which an
        algorithm such as FedBN has to do; or as they start, by which BatchNorm then normalises in
        training as well.
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

    def bound(
        self, shape: tuple[int, ...], classes: int, key: Key, target: Targets | None = None
    ) -> Problem:
        """Return the network on rows of a shape, which computes; see `Problem.bound`.

        Raises
        ------
        ScenarioError
            If torch is not installed, or the model does not fit the data.
        """
        need_torch()
        from rayfed.problems.network.kernels.bound import BoundNetwork

        return BoundNetwork.of(self, shape, classes, key, target)

    @classmethod
    def example(cls, folder: Path) -> Self:
        """Return a small network, for the checks of plug-ins."""
        return cls(model="rayfed.testing.modules:Small")


def need_torch() -> None:
    """Refuse to go on without torch.

    Raises
    ------
    LibraryMissing
        One line with the command of the installation.
    """
    missing = [name for name in ("torch", "array_api_compat") if find_spec(name) is None]
    if missing:
        text = f"'network' needs {missing[0]}; install it with: {install('torch')}"
        raise LibraryMissing("problem.name", text)
