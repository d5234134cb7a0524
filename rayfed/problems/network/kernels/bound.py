"""A network on its data: the kernels of a PyTorch module."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from math import prod
from pathlib import Path
from typing import Any, Self, TypeAlias

import numpy as np
import torch
from torch import Tensor, nn

from rayfed.core.arrays import Array, Floats, to_numpy
from rayfed.core.errors import ScenarioError, clipped
from rayfed.core.needs import REPRESENTATIONS, ROW_LOSSES, Terms, where
from rayfed.core.rng import Key
from rayfed.core.targets import IGNORED, Targets
from rayfed.problems.base import Batch, RowsLoss, Start, StepKey
from rayfed.problems.layers import Layer
from rayfed.problems.network.kernels.augment import augmented, drawn
from rayfed.problems.network.kernels.flat import Flat, layers_of, vector
from rayfed.problems.network.kernels.losses import Loss, classes_second, loss_of, of_batches
from rayfed.problems.network.kernels.module import (
    check_rows,
    check_writes,
    generator_of,
    loaded,
    make,
    preserved,
    takes_integers,
)
from rayfed.problems.network.kernels.outputs import Outputs, tensor_of
from rayfed.problems.network.kernels.stacked import device_of, stacked
from rayfed.problems.network.kernels.weights import with_file
from rayfed.problems.network.settings import NetworkSettings, Predicted
from rayfed.problems.picture import Picture

Tensors: TypeAlias = Any
"""A tensor where the base class has NumPy arrays."""
_CHANNELS = (1, 2, 3, 4)
ROWS = 512
"""Rows that go through a module at once; a constant, since sums depend on it."""


@dataclass(frozen=True, kw_only=True)
class BoundNetwork(NetworkSettings):
    """A network that knows the rows, which it needs to make its module.

    Parameters
    ----------
    rows : tuple of int
        Shape of a row as the module gets it.
    classes : int
        Number of classes, 0 for regression.
    target : Targets, optional
        Targets that are not one label or number a row.
    parts : Outputs, optional
        Description of several outputs. The first has the scores of classes, where there are some.
    whole : bool
        Whether the loss is one number for all rows of a batch.
    random : bool
        Whether the module draws random numbers in training.
    writes : bool
        Whether the module writes to its own parameters as it computes.
    integers : bool
        Whether the module gets rows as integers (int64): it takes no floats, as embeddings do.
    device : str
        Where it computes, as torch names it.
    fixed : mapping of str to array
        Parameters that are frozen, and buffers, by name.
    """

    name = "network"  # of the plug-in, which is in network.py

    rows: tuple[int, ...]
    classes: int
    target: Targets | None = None
    parts: Outputs | None = None
    whole: bool = False
    random: bool = False
    writes: bool = False
    integers: bool = False
    device: str = "cpu"
    fixed: Mapping[str, Array] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def of(
        cls,
        network: NetworkSettings,
        shape: tuple[int, ...],
        classes: int,
        key: Key,
        target: Targets | None = None,
    ) -> Self:
        """Return a network on rows of a shape; see `Problem.bound`."""
        settings = {f.name: getattr(network, f.name) for f in fields(NetworkSettings)}
        settings["model"] = loaded(network)
        bound = cls(**settings, rows=_shape(network, shape), classes=classes, target=target)
        bound._check_targets()
        module = make(bound, bound.rows, bound.outputs, key).to(torch.get_default_dtype())
        bound = replace(bound, integers=takes_integers(bound, module, bound.rows))
        if bound.augment is not None and len(bound.rows) != 3:
            text = f"changes images (C, H, W), but a row has shape {bound.rows}; leave it out"
            raise ScenarioError("problem.augment", text)
        if bound.augment is not None and target is not None and len(target.shape) > 1:
            text = f"moves images, but not {target}, which may belong to pixels; leave it out"
            raise ScenarioError("problem.augment", text)
        random, scores, parts = check_rows(bound, module, bound.rows, bound._needed)
        bound = replace(bound, parts=parts)
        form = str(parts or tuple(scores.shape))
        whole = bound.own_loss and of_batches(bound._loss, scores, bound._example(), form)
        trained = {layer.name for layer in layers_of(module, network.frozen)}
        values = bound._values(key, network.init_file)
        fixed = {name: v.numpy() for name, v in values.items() if name not in trained}
        return cls(
            **settings,
            rows=bound.rows,
            classes=classes,
            target=target,
            parts=parts,
            whole=whole,
            random=random,
            writes=check_writes(bound, module, bound.rows),
            integers=bound.integers,
            fixed=fixed,
        )

    @property
    def task(self) -> Predicted:  # type: ignore[override]
        """The target: of a loss of the user's own classes if the data have them, or numbers.

        It is "own" if nothing is predicted.
        """
        task = super().task
        if task != "own" or self.predicts == "nothing" or self.target is not None:
            return task
        return "multiclass" if self.classes else "regression"

    @cached_property
    def statistics(self) -> int:
        """Number of running statistics, the last coordinates of a model."""
        return sum(layer.size for layer in self._layers if layer.kind == "statistics")

    @property
    def outputs(self) -> int:
        """Number of outputs that a constructor is offered: the classes, or the target's numbers."""
        if self.target is None:
            return self.classes if self.task in ("multiclass", "own") and self.classes else 1
        return self.target.values if self.task == "multiclass" else prod(self._numbers)

    @property
    def _numbers(self) -> tuple[int, ...]:
        """The shape of a row's target; that of the row itself if it has none."""
        if self.target is None:
            return ()
        return self.rows if self.target.none else self.target.shape

    def _check_targets(self) -> None:
        """Refuse a named loss that targets of several values do not fit."""
        target = self.target
        if target is None or self.task == "own":
            return
        fits = {
            "multiclass": target.values > 0,
            "binary": 0 < target.values <= 2 and not target.ignores,
            "regression": not target.values,
        }
        if not fits[self.task]:
            loss = clipped(self.loss, 40) if isinstance(self.loss, str) else "the loss"
            remedy = "another loss, or float numbers in place of classes"
            raise ScenarioError("problem.loss", f"{loss} does not fit {target}; give {remedy}")

    def _needed(self, found: tuple[int, ...], rows: int) -> str:
        """Return the shape that outputs need in place of a shape; empty if that fits."""
        if self.task == "own":
            return "" if found[:1] == (rows,) else f"({rows}, ...)"
        if self.target is None:
            one = (rows, self.outputs)
            return "" if found == one or (self.outputs == 1 and found == (rows,)) else str(one)
        y = (rows, *self._numbers)
        if self.task != "multiclass":
            flat = (rows, prod(self._numbers))
            fits = found == flat or [n for n in found if n > 1] == [n for n in y if n > 1]
            return "" if fits and found[:1] == (rows,) else f"{y} or {flat}"
        second, last = (rows, self.outputs, *y[1:]), (*y, self.outputs)
        axes = [
            axis for axis in {1, len(found) - 1} - {0}
            if found[:axis] + found[axis + 1 :] == y and found[axis] >= self.outputs
        ]  # fmt: skip
        if len(axes) > 1:
            return "one axis alone that may be the classes; change the length of the targets"
        return "" if axes else f"{second} or {last}"

    def _example(self) -> Tensor:
        """Return targets (2, ...) of zeros."""
        y = self.target
        whole = self.integers if y is not None and y.none else self.classes or (y and y.values)
        dtype = torch.int64 if whole else torch.get_default_dtype()
        return torch.zeros(2, *self._numbers, dtype=dtype)

    @property
    def random_steps(self) -> bool:
        """Whether local steps draw random numbers, or the module has BatchNorm."""
        return self.random or self.augment is not None or self.statistics > 0

    @property
    def gives(self) -> Terms:  # type: ignore[override]
        """Terms that it gives: representations if the last layer, a module, has them as input.

        A loss of whole batches is none of each row.
        """
        missing = where({REPRESENTATIONS: not self._head, ROW_LOSSES: self.whole})
        return NetworkSettings.gives - missing

    @property
    def exact(self) -> str:
        """Level of numerical reproducibility, for ``run.json``."""
        if self.device == "cpu":
            return super().exact
        return f"what deterministic kernels give on '{self.device}'; bits may depend on the stack"

    def on_device(self, device: str) -> Self:
        """Return the network on a device; see `Problem.on_device`."""
        if device_of(device) is None:
            text = f"found '{device}', which torch does not find here; use cpu"
            raise ScenarioError("executor.device", text)
        return replace(self, device=device)

    def size(self, features: int, classes: int) -> int:
        """Return the number of trained parameters."""
        return self._layers[-1].stop

    def layers(self, features: int, classes: int) -> tuple[Layer, ...]:
        """Return the trained parameters, as the module names them."""
        return self._layers

    def initial(self, kind: Start, features: int, classes: int, key: Key) -> Floats:
        """Return the initial model (p,): the module's own initialisation under the key."""
        return vector(self._values(key, None), self._layers).double().numpy()

    def read_initial(self, path: Path, key: Key) -> Floats:
        """Return the initial model (p,) of a file; see `Problem.read_initial`."""
        return vector(self._values(key, path), self._layers).double().numpy()

    def module(self, x: Array | None = None) -> nn.Module:
        """Return a module of its own with the weights of a model (p,), in evaluation mode.

        Parameters
        ----------
        x : (p,) array, optional
            The trained parameters; those of the initialisation under seed 0 if None.
        """
        if x is None:
            return self._made(torch.get_default_dtype()).eval()
        flat = torch.from_numpy(np.array(x))
        module = self._made(flat.dtype)
        named = module.state_dict()
        with torch.no_grad():
            for layer in self._layers:
                named[layer.name].copy_(flat[layer.slice].view(named[layer.name].shape))
        return module.eval()

    def named(self, x: Array, features: int, classes: int) -> Mapping[str, Array]:
        """Return the state dict of `module`."""
        return {name: value.numpy() for name, value in self.module(x).state_dict().items()}

    def arrays(self, values: Mapping[str, Array]) -> Mapping[str, Array]:
        """Return floats by name as tensors; other types stay unchanged."""
        return {
            name: self._tensor(array) if array.dtype.kind == "f" else array
            for name, array in values.items()
        }

    def batch(self, rows: Batch) -> Batch:
        """Return a batch of tensors."""
        ridge = None if rows.ridge is None else self._tensor(rows.ridge)
        X, y, w = (self._tensor(array) for array in (rows.X, rows.y, rows.w))
        return Batch(X, y, w, ridge, rows.key)

    def predict(self, x: Tensors, X: Tensors) -> Tensors:
        """Return classes (int64), or values for regression, (K, B) for rows (K, B, d).

        (K, B, ...) for several targets, and the outputs where nothing is predicted.
        """
        loaded = zip(X, self._loaded(x, len(X)), strict=True)
        return torch.stack([self._predicted(flat, X_k) for X_k, flat in loaded])

    def scores(self, x: Tensors, X: Tensors) -> Tensors | None:
        """Return the outputs of the module (K, B, c) for rows (K, B, d), under several classes."""
        if self.task != "multiclass" or self.target is not None:
            return None
        loaded = zip(X, self._loaded(x, len(X)), strict=True)
        return torch.stack([self._outputs(flat, X_k) for X_k, flat in loaded])

    def measured(self, x: Tensors, X: Tensors) -> Tensors:
        """Return scores (K, B, ..., C), the target's numbers, or plain outputs.

        Of a score for each label 0 or 1 that score; with one label a row the scores 0 and it.
        """
        loaded = zip(X, self._loaded(x, len(X)), strict=True)
        z = torch.stack([self._outputs(flat, X_k) for X_k, flat in loaded])
        if self.task == "own":
            return z
        if self.task == "multiclass":
            scores = classes_second(z.flatten(0, 1), self._numbers).movedim(1, -1)
            return scores.reshape(*z.shape[:2], *scores.shape[1:])
        z = z.reshape(*z.shape[:2], *self._numbers)
        if self.task == "binary" and self.target is None:
            return torch.stack([torch.zeros_like(z), z], dim=-1)
        return z

    def right(self, x: Tensors, batch: Batch) -> Floats:
        """Return the right predictions (K,); of several targets a row their share in it counts."""
        if self.task in ("own", "regression"):
            return np.full(len(batch.w), np.nan)
        if self.target is None:
            return super().right(x, batch)
        counted = (batch.y != IGNORED).flatten(2)
        hits = (self.predict(x, batch.X) == batch.y).flatten(2) & counted
        shares = to_numpy(hits.sum(2)) / np.maximum(to_numpy(counted.sum(2)), 1)
        return np.asarray(np.sum(shares * (to_numpy(batch.w) > 0), axis=1))

    def picture(self, x: Array, X: Array, y: Array) -> Picture | None:
        """Return a picture of a model (p,) with rows (n, d) and targets (n,), or None."""
        several = self.target is not None or self.task == "own"
        return None if several else super().picture(x, X, y)

    def representation(self, x: Tensors, X: Tensors, key: StepKey | None = None) -> Tensors:
        """Return the inputs (K, B, r) of the last layer for rows (K, B, d), with augmentation."""
        made = []
        for X_k, flat in zip(self._images(X, key), self._loaded(x, len(X)), strict=True):
            with flat.tapped(self._head) as seen:
                self._outputs(flat, X_k)
            made.append(torch.cat(seen).to(x.dtype))
        return torch.stack(made)

    def data_value(self, x: Tensors, batch: Batch) -> Tensors:
        """Return ``sum_b w_b loss_b`` (K,)."""
        value = x.new_zeros(len(batch.X))
        with torch.no_grad():
            for k, flat in enumerate(self._loaded(x, len(batch.X), batch.key)):
                for part in self._values_of(flat, batch, k):
                    value[k] += part
        return value

    def data_value_and_gradient(self, x: Tensors, batch: Batch) -> tuple[Tensors, Tensors]:
        """Return ``sum_b w_b loss_b`` (K,) and its gradient (K, p)."""
        if self._vmapped(batch):
            return self._stacked_value_and_gradient(x, batch)
        value = x.new_zeros(len(batch.X))
        gradient = x.new_empty((len(batch.X), x.shape[1]))
        for k, flat in enumerate(self._loaded(x, len(batch.X), batch.key)):
            for block, part in enumerate(self._values_of(flat, batch, k)):
                value[k] += part.detach()
                if block == 0:
                    flat.gradient(part, gradient[k])
                else:
                    gradient[k] += flat.gradient(part, torch.empty_like(flat.x))
            if flat.module.training:
                flat.add_moved_statistics(x[min(k, len(x) - 1)], gradient[k])
        return value, gradient

    def descend(self, x: Tensors, batch: Batch, lr: float) -> Tensors | None:
        """Subtract lr times the gradient from x (K, p) in place, on a CPU without l2.

        The gradient as one vector would be written and read again for nothing. What is subtracted
        is the same to the bit.
        """
        few = batch.X.shape[1] <= ROWS
        if self.device != "cpu" or batch.ridge is not None or self.statistics or not few:
            return None
        value = x.new_zeros(len(x))
        for k, flat in enumerate(self._loaded(x, len(x), batch.key)):
            (part,) = self._values_of(flat, batch, k)
            value[k] += part.detach()
            flat.descend(part, x[k], lr)
        return value

    def data_value_and_gradient_with(
        self, x: Tensors, batch: Batch, term: RowsLoss
    ) -> tuple[Tensors, Tensors]:
        """Return ``sum_b w_b loss_b`` (K,) plus a term, and the gradient (K, p)."""
        value = x.new_zeros(len(batch.X))
        gradient = x.new_empty((len(batch.X), x.shape[1]))
        for k, flat in enumerate(self._loaded(x, len(batch.X), batch.key)):
            with flat.tapped(self._head) as seen:
                parts = torch.stack(list(self._values_of(flat, batch, k))).sum()
            z = torch.cat(seen).to(x.dtype)
            if len(z) < batch.w.shape[1]:  # without padding
                real = torch.as_tensor(batch.w[k]) > 0
                z = z.new_zeros((len(real), z.shape[1])).index_put((real,), z)
            seen_rows: Tensors = z.detach()[None]
            added, slope = term(seen_rows, slice(k, k + 1))
            flat.gradient(parts + (z * slope[0]).sum(), gradient[k])
            if self.statistics and flat.module.training:
                flat.add_moved_statistics(x[min(k, len(x) - 1)], gradient[k])
            value[k] = parts.detach() + added[0]
        return value, gradient

    def data_hvp(self, x: Tensors, v: Tensors, batch: Batch) -> Tensors:
        """Return the Hessian of the data term times v (K, p), by differentiating twice."""
        product = x.new_zeros((len(batch.X), x.shape[1]))
        for k, flat in enumerate(self._loaded(x, len(batch.X), batch.key)):
            for part in self._values_of(flat, batch, k):
                product[k] += flat.hvp(part, v[k if len(v) > 1 else 0])
        return product

    def _vmapped(self, batch: Batch) -> bool:
        """Whether clients are computed together: where they are looped over on a CPU, it is slower.

        Clients that draw random numbers in the module, or that have BatchNorm or a loss of the
        user's own, are looped over everywhere.
        """
        calm = not (self.random or self.statistics)
        return self.device != "cpu" and (batch.key is None or calm) and not self.own_loss

    def _stacked_value_and_gradient(self, x: Tensors, batch: Batch) -> tuple[Tensors, Tensors]:
        """Return values (K,) and gradients (K, p) of K clients at once, block by block of rows."""
        flat = self._flat(x.dtype)
        run = stacked(flat.module, self._layers, self._loss, lambda rows: rows)
        X, y, w = (torch.as_tensor(rows) for rows in (batch.X, batch.y, batch.w))
        images = self._images(X, batch.key)
        y = images if self.target is not None and self.target.none else y
        gradient, value = x.new_zeros((len(X), x.shape[1])), x.new_zeros(len(X))
        for start in range(0, X.shape[1], ROWS):
            block = slice(start, start + ROWS)
            with self._precise(), self._deterministic():
                more = run(x, images[:, block], y[:, block], w[:, block])
            gradient += more[0]
            value += more[1]
        return value, gradient

    def _images(self, X: Tensor, key: StepKey | None) -> Tensor:
        """Return rows (K, B, d) as the module gets them, (K, B, *shape)."""
        images = X.reshape(*X.shape[:2], *self.rows)
        if self.integers:
            return images.long()
        if key is None or self.augment is None:
            return images
        draws = drawn(self.augment, key, X.shape[1])
        return torch.stack(
            [augmented(i, self.augment, d) for i, d in zip(images, draws, strict=True)]
        )

    def _precise(self) -> torch.autocast:
        """Return the context of a forward pass."""
        return torch.autocast(
            torch.device(self.device).type, torch.bfloat16, enabled=self.precision == "bfloat16"
        )

    def _scores(self, flat: Flat, X: Tensor) -> Tensor:
        """Return the outputs for rows (B, d) of a module (B, ...), in its parameters' type."""
        rows = self._shaped(X, flat.layout)
        joined = tensor_of if self.parts is None else self.parts.joined
        if self.precision == "full":
            scores: Tensor = joined(flat.module(rows))
            return scores
        with self._precise():
            scores = joined(flat.module(rows))
        return scores.to(flat.x.dtype)

    def _values_of(self, flat: Flat, batch: Batch, k: int) -> Iterator[Tensor]:
        """Yield ``sum_b w_b loss_b`` of the rows of client number k, block by block.

        No `torch.dot`: its bits depend on where in memory the weights lie.
        """
        X, y, w = (torch.as_tensor(rows[k]) for rows in (batch.X, batch.y, batch.w))
        if batch.key is not None and self.augment is not None:
            draws = drawn(self.augment, batch.key.only(k), len(X))[0]
            X = augmented(X.reshape(len(X), *self.rows), self.augment, draws)
        if self.statistics and flat.module.training:  # padding is no row of a batch
            X, y, w = X[w > 0], y[w > 0], w[w > 0]
        if self.target is not None and self.target.none:
            y = X.reshape(len(X), *self.rows)
            y = y.long() if self.integers else y
        most = max(1, len(X)) if self.whole else ROWS
        for start in range(0, len(X), most):
            block = slice(start, start + most)
            yield self._total(self._scores(flat, X[block]), y[block], w[block])

    def _total(self, scores: Tensor, y: Tensor, w: Tensor) -> Tensor:
        """Return ``sum_b w_b loss_b``, or the loss of a batch times ``sum_b w_b``.

        Losses of the user's own see no padding.
        """
        if not self.own_loss:
            return (w * self._loss(scores, y)).sum()
        real = w > 0
        if not real.all():
            scores, y, w = scores[real], y[real], w[real]
        if not len(w):
            return scores.sum()
        losses = self._loss(scores, y)
        return w.sum() * losses if self.whole else (w * losses).sum()

    def _predicted(self, flat: Flat, X: Tensor) -> Tensor:
        """Return the predictions for rows (B, d) of one client (B, ...)."""
        z = self._outputs(flat, X)
        if self.task == "own":
            return z
        if self.task == "multiclass":
            return classes_second(z, self._numbers).argmax(dim=1)
        z = z.reshape(len(X), *self._numbers)
        return z if self.task == "regression" else (z > 0).to(torch.int64)

    def _outputs(self, flat: Flat, X: Tensor) -> Tensor:
        """Return the outputs of the module (B, outputs) for rows (B, d) of one client."""
        with torch.no_grad():
            starts = range(0, len(X), ROWS)
            z = torch.cat([self._scores(flat, X[i : i + ROWS]) for i in starts])
        return z if self.parts is None or self.task != "multiclass" else self.parts.first(z)

    def _shaped(self, X: Tensor, layout: torch.memory_format) -> Tensor:
        """Return rows (B, d) as the module gets them, images in a layout, in a place of their own.

        Images of one channel lie in both layouts; they are copied too, since bits depend on where
        rows begin.
        """
        images = X.reshape(len(X), *self.rows)
        if self.integers:
            return images.long()
        return images.clone(memory_format=layout if images.ndim == 4 else torch.contiguous_format)

    def _loaded(self, models: Tensor, clients: int, key: StepKey | None = None) -> Iterator[Flat]:
        """Yield the module of one client after another, from models (K, p) or (1, p)."""
        training = key is not None and (self.random or self.statistics > 0)
        flat = self._flat(models.dtype, training)
        seeds = key.seeds().tolist() if key is not None and training else [None] * clients
        generator = generator_of(torch.device(self.device))
        drawing = preserved(generator if training else None)
        with _one_thread(), self._deterministic(), flat.released(), drawing:
            for k, seed in enumerate(seeds):
                if k < len(models):
                    with torch.no_grad():
                        flat.load(models[k], keep=self.writes or self.statistics > 0)
                if seed is not None:
                    generator.manual_seed(seed)
                if training:
                    flat.take_statistics(models[min(k, len(models) - 1)])
                yield flat

    def _values(self, key: Key, init: Path | None) -> dict[str, Tensor]:
        """Return all parameters and buffers by name, of the initialisation or of a file."""
        module = make(self, self.rows, self.outputs, key)
        values = {name: tensor.detach() for name, tensor in module.state_dict().items()}
        if init is None:
            return values
        return with_file(values, init, layers_of(module, self.frozen), self.init_layers)

    def _tensor(self, array: Array) -> Tensors:
        """Return an array as a tensor, without a copy where it may be written to."""
        tensor = torch.from_numpy(array if array.flags.writeable else array.copy())
        return tensor.to(self.device)

    def _deterministic(self) -> AbstractContextManager[None]:
        """Let convolutions on a GPU use kernels that give the same bits each time."""
        if self.device == "cpu":
            return nullcontext()
        return torch.backends.cudnn.flags(deterministic=True, benchmark=False)

    def _made(self, dtype: torch.dtype) -> nn.Module:
        """Return a new module of a dtype with its fixed parameters and buffers in place."""
        module = make(self, self.rows, self.outputs, Key(0, "init")).to(dtype)
        fixed = {name: torch.from_numpy(np.array(value)) for name, value in self.fixed.items()}
        module.load_state_dict(fixed, strict=False)
        return module

    def _flat(self, dtype: torch.dtype, training: bool = False) -> Flat:
        """Return the module that computes in a dtype, one a process, in a mode."""
        held = self._flats
        if dtype not in held:
            held[dtype] = Flat(self._made(dtype), self._layers, dtype, torch.device(self.device))
            held[dtype].module.eval()
        flat = held[dtype]
        if flat.module.training != training:  # walking over a module takes time in small steps
            flat.module.train(training)
        return flat

    @cached_property
    def _flats(self) -> dict[torch.dtype, Flat]:
        return {}

    @cached_property
    def _head(self) -> str:
        """The name of the module that has the last parameters, frozen or not."""
        module = make(self, self.rows, self.outputs, Key(0, "init"))
        *_, (name, _) = module.named_parameters()
        return name.rpartition(".")[0]

    @cached_property
    def _loss(self) -> Loss:
        loss, parts = loss_of(self), self.parts
        if parts is None or not self.own_loss:
            return loss
        return lambda joined, y: loss(parts.split(joined), y)

    @cached_property
    def _layers(self) -> tuple[Layer, ...]:
        return layers_of(make(self, self.rows, self.outputs, Key(0, "init")), self.frozen)

    def __getstate__(self) -> dict[str, Any]:
        """Leave modules behind: another process makes its own."""
        return {f.name: getattr(self, f.name) for f in fields(self)}


def _shape(network: NetworkSettings, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape of a row as the module gets it.

    Raises
    ------
    ScenarioError
        If the shape that is given does not fit, or channels come last and no shape declares it.
    """
    last = len(shape) == 3 and shape[2] in _CHANNELS and min(shape[:2]) > _CHANNELS[-1]
    if last and not network.shape:
        text = f"rows look like (H, W, C) = {shape}, and PyTorch's modules take (C, H, W)"
        remedy = "transpose them, or set problem.shape to keep them"
        raise ScenarioError("problem.dataset", f"{text}; {remedy}")
    if not network.shape or prod(network.shape) == prod(shape):
        return network.shape or shape
    text = f"found {list(network.shape)} for rows of {prod(shape)} features"
    raise ScenarioError("problem.shape", f"{text}; give a shape with as many")


@contextmanager
def _one_thread() -> Iterator[None]:
    """Compute with one thread: with more, bits would depend on the machine."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
