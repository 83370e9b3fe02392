"""Members: networks of one shape that are trained and read together, as one more dimension of every tensor.

Every parameter and activation begins with a dimension of K members. Activations end with the rows, (K, units, rows), so
that a linear map is one batched product, the networks of a module are a view of its units, and elementwise work runs
along the rows. Nothing is computed across members: what a member learns does not depend on those beside it.
"""

from __future__ import annotations

import copy
import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

EPSILON = 1e-5  # of normalisations
NARROW = 32  # inputs of a linear map below which rounding takes longer than the product saves


class Memory:
    """Holds what `Network.store` makes of training rows; networks that read none of them need nothing more."""


class Network(nn.Module, ABC):
    """K members of one shape: the contract that training and prediction rely on.

    Every tensor of `state_dict()` has the members as its first dimension.
    """

    target: int  # place of the attribute to predict
    reads_rows = True  # whether predictions need the training rows

    def store(self, rows: Tensor, absent: Tensor | None = None) -> Memory:
        """Prepare training rows (K, d, n), target included; `absent` (K, n) marks what only fills members up."""
        return Memory()

    @abstractmethod
    def predict(self, rows: Tensor, memory: Memory) -> Tensor:
        """Predict the target of rows (K, d, b): class logits or numbers (K, width, b)."""

    def round_products(self) -> None:
        """Take the products of linear maps in bfloat16 from now on, but those of maps too narrow to gain by it."""
        for module in self.modules():
            if isinstance(module, Linear):
                module.rounds = module.weight.shape[2] >= NARROW

    def select(self, members: Sequence[int]) -> None:
        """Go on with some of the members, in this order; no graph of an earlier pass may be left."""
        places = list(members)
        for name, tensor in self.state_dict().items():
            path, _, leaf = name.rpartition(".")
            module, chosen = self.get_submodule(path), tensor[places]
            if isinstance(getattr(module, leaf), nn.Parameter):
                getattr(module, leaf).data = chosen
                getattr(module, leaf).grad = None
            else:
                setattr(module, leaf, chosen)


def pick(network: Network, members: Sequence[int]) -> Network:
    """Return a copy of some of the members."""
    chosen = copy.deepcopy(network)
    chosen.select(members)
    return chosen


def generator_states(generators: Sequence[torch.Generator]) -> Tensor:
    """Return the states of generators, one below the other."""
    return torch.stack([generator.get_state() for generator in generators])


def restore_generators(generators: Sequence[torch.Generator], states: Tensor) -> None:
    """Put generators into states that `generator_states` has returned."""
    for generator, state in zip(generators, states, strict=True):
        generator.set_state(state.clone())


class Draw:
    """Initial parameters of K members, each drawn from a generator of its own."""

    def __init__(self, seeds: Sequence[int]) -> None:
        self._generators = [torch.Generator().manual_seed(seed) for seed in seeds]

    @property
    def count(self) -> int:
        return len(self._generators)

    def uniform(self, *shape: int, bound: float | Tensor) -> nn.Parameter:
        """Draw uniformly from [-bound, bound]: (K, *shape)."""
        drawn = [torch.empty(*shape).uniform_(-1, 1, generator=generator) for generator in self._generators]
        return nn.Parameter(torch.stack(drawn) * bound)

    def normal(self, *shape: int, scale: float) -> Tensor:
        """Draw from a normal distribution around 0: (K, *shape)."""
        return torch.stack([torch.randn(*shape, generator=generator) for generator in self._generators]) * scale

    def constant(self, *shape: int, value: float) -> nn.Parameter:
        return nn.Parameter(torch.full((self.count, *shape), value))


class Linear(nn.Module):
    """A linear map of its own for each member: (K, inputs, rows) -> (K, outputs, rows)."""

    def __init__(self, draw: Draw, inputs: int, outputs: int) -> None:
        super().__init__()
        bound = 1 / math.sqrt(inputs)
        self.weight = draw.uniform(outputs, inputs, bound=bound)
        self.bias = draw.uniform(outputs, 1, bound=bound)
        self.rounds = False  # whether products are taken in bfloat16; all else is float32

    def forward(self, x: Tensor) -> Tensor:
        if self.rounds:
            (y,) = map_together(x, [self])
            return y
        return torch.baddbmm(self.bias, self.weight, x)


def map_together(x: Tensor, maps: Sequence[Linear]) -> list[Tensor]:
    """Apply several linear maps to the same rows (K, inputs, rows); in bfloat16 this is one product."""
    if not maps[0].rounds:
        return [one(x) for one in maps]
    apply: Any = _RoundedProduct.apply
    y = apply(x, *(one.weight for one in maps))
    sizes = [one.weight.shape[1] for one in maps]
    return [part + one.bias for part, one in zip(y.split(sizes, dim=1), maps, strict=True)]


class _RoundedProduct(torch.autograd.Function):
    """Products with weights (K, outputs, inputs), one below the other, whose factors are rounded to bfloat16."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, *weights: Tensor) -> Tensor:
        x_rounded = x.bfloat16()
        weight = torch.cat([w.bfloat16() for w in weights], dim=1) if len(weights) > 1 else weights[0].bfloat16()
        ctx.save_for_backward(x_rounded, weight)
        ctx.sizes = [w.shape[1] for w in weights]
        return torch.bmm(weight, x_rounded)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, ...]:
        x_rounded, weight = ctx.saved_tensors
        d_weights = torch.split(torch.bmm(gradient, x_rounded.mT).float(), ctx.sizes, dim=1)
        return torch.bmm(weight.mT, gradient).float(), *d_weights


class Norm(nn.Module):
    """LayerNorm over the units, with gain and shift: (K, units, rows) -> (K, units, rows)."""

    def __init__(self, draw: Draw, units: int, epsilon: float = EPSILON) -> None:
        super().__init__()
        self.epsilon = epsilon
        self.gain = draw.constant(units, 1, value=1.0)
        self.shift = draw.constant(units, 1, value=0.0)

    def forward(self, x: Tensor) -> Tensor:
        apply: Any = _ScaledNorm.apply
        y: Tensor = apply(x, self.gain, self.shift, self.epsilon)
        return y


def normalise(x: Tensor, epsilon: float = EPSILON) -> Tensor:
    """Give every column of the last but one dimension mean 0 and variance 1."""
    apply: Any = _Normalise.apply
    normalised: Tensor = apply(x, epsilon)
    return normalised


def _standardise(x: Tensor, epsilon: float) -> tuple[Tensor, Tensor]:
    """Return x with mean 0 and variance 1 over its last but one dimension, and what its centred values are times."""
    centred = x - x.mean(-2, keepdim=True)
    scale = centred.square().mean(-2, keepdim=True).add_(epsilon).rsqrt_()
    return centred.mul_(scale), scale


class _Normalise(torch.autograd.Function):
    """LayerNorm over the last but one dimension, for which torch has no kernel."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, epsilon: float) -> Tensor:
        normalised, scale = _standardise(x, epsilon)
        ctx.save_for_backward(normalised, scale)
        return normalised

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        normalised, scale = ctx.saved_tensors
        along = (gradient * normalised).mean(-2, keepdim=True)
        out = gradient - gradient.mean(-2, keepdim=True)
        return out.addcmul_(normalised, along, value=-1).mul_(scale), None


class _ScaledNorm(torch.autograd.Function):
    """The same with gain and shift (K, units, 1), in one pass fewer than by itself."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, gain: Tensor, shift: Tensor, epsilon: float) -> Tensor:
        normalised, scale = _standardise(x, epsilon)
        ctx.save_for_backward(normalised, scale, gain)
        return torch.addcmul(shift, normalised, gain)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        normalised, scale, gain = ctx.saved_tensors
        along = gradient * normalised
        mean_map = gain.mT / gain.shape[1]
        d_gain, d_shift = along.sum(-1, keepdim=True), gradient.sum(-1, keepdim=True)
        mean_along, mean = torch.bmm(mean_map, along), torch.bmm(mean_map, gradient)
        out = torch.mul(gradient, gain, out=along).sub_(mean)
        return out.addcmul_(normalised, mean_along, value=-1).mul_(scale), d_gain, d_shift, None
