"""LAMB (You et al. 2020) for a stack of members, and the slow weights that the model is evaluated with (Section A.3).

All parameters of all members live in one flat tensor, of which the network's parameters are views, and so do their
gradients: an optimiser step is a few passes over it, however many parameters there are. Parameters of equal size lie
side by side as one block (count, K, size), so that their norms are taken together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import groupby
from typing import Any

import torch
from torch import Tensor, nn

MAX_WEIGHT_NORM = 10.0  # the weight norm enters the trust ratio clamped to [0, 10]


def _flatten(parameters: Sequence[nn.Parameter]) -> Tensor:
    """Move parameters into one flat tensor that they become views of."""
    flat = torch.cat([p.detach().flatten() for p in parameters])
    for p, view in zip(parameters, torch.split(flat, [p.numel() for p in parameters]), strict=True):
        p.data = view.view(p.shape)
    return flat


class Lamb(torch.optim.Optimizer):
    """LAMB on parameters (K, ...) of members, with an exponential moving average of them in the parameters `slow`.

    The paper describes the average as Lookahead without synchronisation, alpha = `slow_rate`, k = 1. Gradients are
    clipped to a norm of `max_gradient_norm`, or number by number to `max_gradient`, and every parameter has a trust
    ratio of its own; all of it for each member by itself. A step consumes the gradients.
    """

    def __init__(
        self,
        parameters: Iterable[nn.Parameter],
        slow: Iterable[nn.Parameter],
        *,
        lr: float = 1e-3,
        slow_rate: float = 0.005,
        weight_decay: float = 0.1,
        betas: tuple[float, float] = (0.9, 0.999),
        epsilon: float = 1e-6,
        max_gradient_norm: float | None = 1.0,
        max_gradient: float | None = None,
    ) -> None:
        self._parameters, self._slow = (sorted(of, key=lambda p: p.numel()) for of in (parameters, slow))
        defaults = {
            "lr": lr,
            "slow_rate": slow_rate,
            "weight_decay": weight_decay,
            "betas": betas,
            "epsilon": epsilon,
            "max_gradient_norm": max_gradient_norm,
            "max_gradient": max_gradient,
        }
        flat = _flatten(self._parameters)
        super().__init__([flat], defaults)
        self.state[flat] = {
            "step": torch.zeros((), device=flat.device),
            "first": torch.zeros_like(flat),
            "second": torch.zeros_like(flat),
            "slow": _flatten(self._slow),
        }
        self._lay_out()

    @property
    def flat(self) -> Tensor:
        """Return the weights."""
        flat: Tensor = self.param_groups[0]["params"][0]
        return flat

    @property
    def slow(self) -> Tensor:
        """Return the slow weights."""
        slow: Tensor = self.state[self.flat]["slow"]
        return slow

    def _lay_out(self) -> None:
        """Make room for the flat gradient and the direction, and cut both, and the weights, into blocks."""
        self.flat.grad, self._direction = torch.zeros_like(self.flat), torch.empty_like(self.flat)
        self._blocks = [self._cut(x) for x in (self.flat, self.flat.grad, self._direction)]
        self.zero_grad()

    def _cut(self, flat: Tensor) -> list[Tensor]:
        """Return views (count, K, size) of the parameters of each size."""
        members, sizes = len(self._parameters[0]), [p.numel() for p in self._parameters]
        counts = [(size, len(list(same))) for size, same in groupby(sizes)]
        pieces = torch.split(flat, [size * count for size, count in counts])
        return [piece.view(count, members, -1) for piece, (_, count) in zip(pieces, counts, strict=True)]

    def _take_gradients(self) -> Tensor:
        """Copy all gradients into the flat one: autograd begins new ones faster than it adds to those of before."""
        flat = self.flat.grad
        assert flat is not None
        gradients = [torch.zeros_like(p) if p.grad is None else p.grad for p in self._parameters]
        torch.cat([gradient.flatten() for gradient in gradients], out=flat)
        self.zero_grad()
        return flat

    def _descend(self, group: dict[str, Any]) -> None:
        """Update both moments; write the direction of descent -(m_hat / (sqrt(v_hat) + eps) + decay w).

        Adam's fused kernel adds its step, at a rate of 1, to what stands for the weights: the decay alone.
        """
        state, gradient, out = self.state[self.flat], self._take_gradients(), self._direction
        if group["max_gradient"] is not None:
            gradient.clamp_(-group["max_gradient"], group["max_gradient"])
        if group["max_gradient_norm"] is not None:
            blocks = self._blocks[1]
            norms = torch.linalg.vector_norm(torch.cat(_norms(blocks)), dim=0)
            excess = (norms / group["max_gradient_norm"]).clamp_(min=1.0)
            if (excess > 1).any():
                for block in blocks:
                    block.div_(excess[:, None])
        state["step"] += 1
        torch.mul(self.flat, -group["weight_decay"], out=out)
        torch._fused_adam_(
            [out],
            [gradient],
            [state["first"]],
            [state["second"]],
            [],
            [state["step"]],
            lr=1.0,
            beta1=group["betas"][0],
            beta2=group["betas"][1],
            weight_decay=0.0,
            eps=group["epsilon"],
            amsgrad=False,
            maximize=False,
        )

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget gradients."""
        for p in self._parameters:
            p.grad = None if set_to_none or p.grad is None else p.grad.zero_()

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Clip the gradients, descend, and let the slow weights follow; return the loss of `closure`, if given."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        group = self.param_groups[0]
        self._descend(group)
        weights, _, directions = self._blocks
        for weight, towards, ratio in zip(weights, directions, trust_ratios(weights, directions), strict=True):
            weight.addcmul_(towards, ratio[..., None], value=group["lr"])
        self._follow(group)
        return loss

    def _follow(self, group: dict[str, Any]) -> None:
        self.slow.lerp_(self.flat, group["slow_rate"])

    def select(self, members: Sequence[int]) -> None:
        """Go on with some of the members, which are all that the parameters now hold."""
        places, state = list(members), self.state.pop(self.flat)
        shapes = [p.shape[1:] for p in self._parameters]
        members_before = state["first"].numel() // sum(shape.numel() for shape in shapes)
        sizes = [members_before * shape.numel() for shape in shapes]
        moments = {}
        for name in ("first", "second"):
            pieces = torch.split(state[name], sizes)
            moments[name] = torch.cat([piece.view(members_before, -1)[places].flatten() for piece in pieces])
        flat = _flatten(self._parameters)
        self.param_groups[0]["params"] = [flat]
        self.state[flat] = {"step": state["step"], **moments, "slow": _flatten(self._slow)}
        self._lay_out()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on from `state_dict()` of an optimiser of the same parameters; the weights themselves are not in it."""
        (saved,) = state_dict["state"].values()
        for name, value in self.state[self.flat].items():
            value.copy_(saved[name])
        self.param_groups[0].update({k: v for k, v in state_dict["param_groups"][0].items() if k != "params"})


def _norms(blocks: Sequence[Tensor]) -> list[Tensor]:
    """Return the norms (count, K) of parameters in blocks (count, K, size)."""
    return [torch.linalg.vector_norm(block, dim=-1) for block in blocks]


def trust_ratios(weights: Sequence[Tensor], directions: Sequence[Tensor]) -> Sequence[Tensor]:
    """Return LAMB's rate of each parameter: its clamped norm over its direction's norm, 1 where either is 0."""
    of_weight, of_direction = (torch.cat(_norms(blocks)) for blocks in (weights, directions))
    ratio = of_weight.clamp(max=MAX_WEIGHT_NORM) / of_direction
    ratio = torch.where((of_weight > 0) & (of_direction > 0), ratio, 1.0)
    return torch.split(ratio, [len(block) for block in weights])


class Lookahead(Lamb):
    """LAMB inside Lookahead (Zhang et al. 2019), which brings slow and fast weights together every `k` steps.

    The slow weights go the share `alpha` of the way to the fast ones, which start again from there with their moments.
    """

    def __init__(
        self,
        parameters: Iterable[nn.Parameter],
        slow: Iterable[nn.Parameter],
        *,
        alpha: float = 0.5,
        k: int = 6,
        **options: Any,
    ) -> None:
        super().__init__(parameters, slow, slow_rate=alpha, **options)
        self.k = k

    def _follow(self, group: dict[str, Any]) -> None:
        if int(self.state[self.flat]["step"]) % self.k == 0:
            super()._follow(group)
            self.flat.copy_(self.slow)
