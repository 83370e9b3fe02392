"""LAMB (You et al. 2020) and the slow weights that the model is evaluated with (Section A.3).

The update is written as pure functions over lists of tensors and runs through cache-sized buckets: at small batches an
optimiser step moves as many bytes as the matrix products it follows, so on a CPU every pass over memory counts.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

BUCKET = 1 << 16  # parameters updated together: five float32 buffers of this size fit a second-level cache
MAX_WEIGHT_NORM = 10.0  # the weight norm enters the trust ratio clamped to [0, 10]


@dataclass(frozen=True)
class LambSettings:
    """The constants of LAMB; the paper's are the defaults."""

    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-6
    weight_decay: float = 0.1
    max_gradient_norm: float = 1.0


def lamb_directions(
    weights: list[Tensor],
    gradients: list[Tensor],
    first: list[Tensor],
    second: list[Tensor],
    *,
    step: Tensor,
    gradient_scale: Tensor,
    settings: LambSettings,
) -> list[Tensor]:
    """Update both moments in place and return the directions of descent -(m_hat / (sqrt(v_hat) + eps) + decay w).

    Adam's fused kernel, given zero weights and a rate of 1, leaves just its step there. It divides the gradients by
    `gradient_scale` on the way. The gradients' storage is reused for the result.
    """
    steps = [torch.zeros_like(g) for g in gradients]
    torch._fused_adam_(  # type: ignore[attr-defined]
        steps,
        gradients,
        first,
        second,
        [],
        [step] * len(steps),
        lr=1.0,
        beta1=settings.beta1,
        beta2=settings.beta2,
        weight_decay=0.0,
        eps=settings.epsilon,
        amsgrad=False,
        maximize=False,
        grad_scale=gradient_scale,
    )
    for direction, weight, adam_step in zip(gradients, weights, steps, strict=True):
        torch.add(adam_step, weight, alpha=-settings.weight_decay, out=direction)
    return gradients


def trust_ratios(weight_norms: Tensor, direction_norms: Tensor) -> Tensor:
    """LAMB's rate per tensor: its clamped norm over its direction's norm, 1 where either is 0."""
    ratios = weight_norms.clamp(max=MAX_WEIGHT_NORM) / direction_norms
    return torch.where((weight_norms > 0) & (direction_norms > 0), ratios, 1.0)


def move(
    weights: list[Tensor], slow: list[Tensor], directions: list[Tensor], rates: list[float], slow_rate: float
) -> None:
    """Descend, then let the slow weights follow: slow += slow_rate (weights - slow)."""
    torch._foreach_mul_(directions, rates)
    torch._foreach_add_(weights, directions)
    torch._foreach_lerp_(slow, weights, slow_rate)


@dataclass(frozen=True)
class _Bucket:
    """Flat views of some parameters, or of a part of a large one, and their state."""

    tensors: list[int]  # which parameter each view belongs to
    parts: list[slice]  # and which of its elements it covers
    weights: list[Tensor]
    first: list[Tensor]
    second: list[Tensor]
    slow: list[Tensor]


def _buckets(weights: list[Tensor], slow: list[Tensor]) -> list[_Bucket]:
    buckets: list[_Bucket] = []
    room = 0
    for number, (weight, slow_weight) in enumerate(zip(weights, slow, strict=True)):
        first, second = torch.zeros_like(weight).view(-1), torch.zeros_like(weight).view(-1)
        for start in range(0, weight.numel(), BUCKET):
            part = slice(start, min(start + BUCKET, weight.numel()))
            size = part.stop - part.start
            if not buckets or size > room:
                buckets.append(_Bucket([], [], [], [], [], []))
                room = BUCKET
            room -= size
            bucket = buckets[-1]
            bucket.tensors.append(number)
            bucket.parts.append(part)
            bucket.weights.append(weight.view(-1)[part])
            bucket.slow.append(slow_weight.view(-1)[part])
            bucket.first.append(first[part])
            bucket.second.append(second[part])
    return buckets


class Lamb:
    """LAMB on a network's parameters, with an exponential moving average of them kept in a second network.

    The paper describes the average as Lookahead without synchronisation, alpha = `slow_rate`, k = 1.
    """

    def __init__(
        self, parameters: Iterable[nn.Parameter], slow: Iterable[nn.Parameter], slow_rate: float, settings: LambSettings
    ) -> None:
        self.parameters = list(parameters)
        self.settings = settings
        self.slow_rate = slow_rate
        self._step = torch.zeros((), device=self.parameters[0].device)
        self._buckets = _buckets([p.detach() for p in self.parameters], [p.detach() for p in slow])
        owners = [number for bucket in self._buckets for number in bucket.tensors]
        self._owners = torch.tensor(owners, device=self.parameters[0].device)

    def _norms(self, squares: list[Tensor]) -> Tensor:
        total = torch.zeros(len(self.parameters), device=self._owners.device)
        return total.index_add_(0, self._owners, torch.stack(squares)).sqrt_()

    @torch.no_grad()
    def step(self, learning_rate: float) -> float:
        """Consume the gradients; returns their norm before clipping."""
        gradients = [p.grad.contiguous().view(-1) for p in self.parameters if p.grad is not None]
        norm = torch.stack([torch.dot(g, g) for g in gradients]).sum().sqrt()
        scale = (norm / self.settings.max_gradient_norm).clamp(min=1.0)
        self._step += 1
        directions, weight_squares, direction_squares = [], [], []
        for bucket in self._buckets:
            grads = [gradients[number][part] for number, part in zip(bucket.tensors, bucket.parts, strict=True)]
            direction = lamb_directions(
                bucket.weights,
                grads,
                bucket.first,
                bucket.second,
                step=self._step,
                gradient_scale=scale,
                settings=self.settings,
            )
            directions.append(direction)
            weight_squares += [torch.dot(w, w) for w in bucket.weights]
            direction_squares += [torch.dot(d, d) for d in direction]
        rates = learning_rate * trust_ratios(self._norms(weight_squares), self._norms(direction_squares))
        rate = rates.tolist()
        for bucket, direction in zip(self._buckets, directions, strict=True):
            move(bucket.weights, bucket.slow, direction, [rate[number] for number in bucket.tensors], self.slow_rate)
        for p in self.parameters:
            p.grad = None
        return float(norm)
