"""LAMB (You et al. 2020) and the slow weights that the model is evaluated with (Section A.3).

The update is written as pure functions and runs through pieces that fit a core's cache: at small batches an optimiser
step moves as many bytes as the matrix products it follows, so every pass over memory counts. Biases, gains and other
small parameters are gathered into one flat tensor, a large parameter is cut.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

PIECE = 1 << 17  # elements updated at once: five float32 buffers of this size fit a core's share of the cache
SMALL = 1 << 13  # parameters with fewer elements are gathered
MAX_WEIGHT_NORM = 10.0  # the weight norm enters the trust ratio clamped to [0, 10]


@dataclass(frozen=True)
class LambSettings:
    """The constants of LAMB; the paper's are the defaults."""

    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-6
    weight_decay: float = 0.1
    max_gradient_norm: float = 1.0


def lamb_direction(
    weight: Tensor,
    gradient: Tensor,
    first: Tensor,
    second: Tensor,
    out: Tensor,
    *,
    step: Tensor,
    gradient_scale: Tensor,
    settings: LambSettings,
) -> Tensor:
    """Update both moments in place; in `out` return the direction of descent -(m_hat / (sqrt(v_hat) + eps) + decay w).

    Adam's fused kernel adds its step, at a rate of 1, to what stands for the weights: the decay alone. It divides the
    gradient by `gradient_scale` on the way.
    """
    torch._fused_adam_(
        [torch.mul(weight, -settings.weight_decay, out=out)],
        [gradient],
        [first],
        [second],
        [],
        [step],
        lr=1.0,
        beta1=settings.beta1,
        beta2=settings.beta2,
        weight_decay=0.0,
        eps=settings.epsilon,
        amsgrad=False,
        maximize=False,
        grad_scale=gradient_scale,
    )
    return out


def trust_ratio(weight_norm: float, direction_norm: float) -> float:
    """LAMB's rate of a parameter: its clamped norm over its direction's norm, 1 where either is 0."""
    if weight_norm > 0 and direction_norm > 0:
        return min(weight_norm, MAX_WEIGHT_NORM) / direction_norm
    return 1.0


@dataclass(frozen=True)
class _State:
    """A flat tensor of weights, its moments and its slow weights."""

    weight: Tensor
    first: Tensor
    second: Tensor
    slow: Tensor

    @staticmethod
    def new(weight: Tensor, slow: Tensor) -> _State:
        return _State(weight, torch.zeros_like(weight), torch.zeros_like(weight), slow)

    def pieces(self) -> list[_State]:
        parts = zip(*(torch.split(t, PIECE) for t in (self.weight, self.first, self.second, self.slow)), strict=True)
        return [_State(*part) for part in parts]


def _gather(parameters: list[nn.Parameter]) -> Tensor:
    """Move parameters into one flat tensor that they become views of."""
    flat = torch.cat([p.detach().reshape(-1) for p in parameters])
    for p, view in zip(parameters, torch.split(flat, [p.numel() for p in parameters]), strict=True):
        p.data = view.view_as(p)
    return flat


class Lamb:
    """LAMB on a network's parameters, with an exponential moving average of them kept in a second network.

    The paper describes the average as Lookahead without synchronisation, alpha = `slow_rate`, k = 1.
    """

    def __init__(
        self, parameters: Iterable[nn.Parameter], slow: Iterable[nn.Parameter], slow_rate: float, settings: LambSettings
    ) -> None:
        pairs = list(zip(parameters, slow, strict=True))
        small = [pair for pair in pairs if pair[0].numel() < SMALL]
        self._large = [p for p, _ in pairs if p.numel() >= SMALL]
        self._small = [p for p, _ in small]
        self._states = [
            _State.new(p.detach().view(-1), s.detach().view(-1)).pieces() for p, s in pairs if p.numel() >= SMALL
        ]
        device = pairs[0][0].device
        if small:
            self._flat = _State.new(_gather(self._small), _gather([s for _, s in small]))
            sizes = torch.tensor([p.numel() for p in self._small], device=device)
            self._owner = torch.repeat_interleave(torch.arange(len(small), device=device), sizes)
        self.slow_rate = slow_rate
        self.settings = settings
        self._step = torch.zeros((), device=device)
        buffer = torch.empty(max((p.numel() for p in self._large), default=0), device=device)
        self._directions = [torch.split(buffer[: p.numel()], PIECE) for p in self._large]

    def _small_norms(self, x: Tensor) -> list[float]:
        squares = torch.zeros(len(self._small), device=x.device).index_add_(0, self._owner, x.square())
        return squares.sqrt_().tolist()

    @torch.no_grad()
    def step(self, learning_rate: float) -> None:
        """Consume the gradients: clip them together, descend, and let the slow weights follow."""
        gradients = [_gradient(p).reshape(-1) for p in self._large]
        if self._small:
            gradients.append(torch.cat([_gradient(p).reshape(-1) for p in self._small]))
        norm = torch.stack([torch.dot(g, g) for g in gradients]).sum().sqrt()
        scale = (norm / self.settings.max_gradient_norm).clamp(min=1.0)
        self._step += 1

        def direct(state: _State, gradient: Tensor, out: Tensor) -> Tensor:
            return lamb_direction(
                state.weight,
                gradient,
                state.first,
                state.second,
                out,
                step=self._step,
                gradient_scale=scale,
                settings=self.settings,
            )

        for pieces, gradient, directions in zip(self._states, gradients, self._directions, strict=False):
            squares = []
            parts = torch.split(gradient, PIECE) if len(pieces) > 1 else (gradient,)
            for state, part, direction in zip(pieces, parts, directions, strict=True):
                direct(state, part, direction)
                squares += [torch.dot(state.weight, state.weight), torch.dot(direction, direction)]
            of_pieces = torch.stack(squares).tolist()
            rate = learning_rate * trust_ratio(math.sqrt(sum(of_pieces[::2])), math.sqrt(sum(of_pieces[1::2])))
            for state, direction in zip(pieces, directions, strict=True):  # at once, while all is in the cache
                state.weight.add_(direction, alpha=rate)
                if self.slow_rate > 0:
                    state.slow.lerp_(state.weight, self.slow_rate)
        if self._small:
            state = self._flat
            part = direct(state, gradients[-1], torch.empty_like(state.weight))
            norms = zip(self._small_norms(state.weight), self._small_norms(part), strict=True)
            ratio = torch.tensor([trust_ratio(*pair) for pair in norms], device=part.device)
            state.weight.addcmul_(part, ratio[self._owner], value=learning_rate)
            state.slow.lerp_(state.weight, self.slow_rate)
        for p in (*self._large, *self._small):
            p.grad = None


class Lookahead(Lamb):
    """LAMB inside Lookahead (Zhang et al. 2019), which brings slow and fast weights together every `k` steps.

    The slow weights go the share `alpha` of the way to the fast ones, which start again from there with their moments.
    """

    def __init__(
        self,
        parameters: Iterable[nn.Parameter],
        slow: Iterable[nn.Parameter],
        settings: LambSettings,
        alpha: float = 0.5,
        k: int = 6,
    ) -> None:
        super().__init__(parameters, slow, 0.0, settings)
        self.alpha, self.k, self._since = alpha, k, 0

    @torch.no_grad()
    def step(self, learning_rate: float) -> None:
        super().step(learning_rate)
        self._since += 1
        if self._since < self.k:
            return
        self._since = 0
        flat = [self._flat] if self._small else []
        for state in (*(piece for pieces in self._states for piece in pieces), *flat):
            state.slow.lerp_(state.weight, self.alpha)
            state.weight.copy_(state.slow)


def _gradient(parameter: nn.Parameter) -> Tensor:
    return torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
