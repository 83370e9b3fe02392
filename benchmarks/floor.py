"""The floor under a training step: its matrix products alone, at the same shapes, with plain torch.

Every block has weights and activations of its own and products run in the order of a step. What a step has to keep is
kept: results of the forward pass until the backward pass is through, gradients of weights until the end. Associations
are materialised, as a bare product does.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor

Product = Callable[[], Tensor]


@dataclass(frozen=True)
class Shape:
    """A full-batch training step: n rows, d attributes, L blocks, M networks, embedding dimension e."""

    n: int
    d: int
    L: int
    M: int
    e: int = 32

    def __str__(self) -> str:
        return f"({self.n}, {self.d}, {self.L}, {self.M})"


@dataclass(frozen=True)
class Products:
    """Matrix products of a part of the step; results of `kept` ones stay until the step ends."""

    forward: list[Product] = field(default_factory=list)
    backward: list[tuple[Product, bool]] = field(default_factory=list)  # and whether the result is kept


def _projection(rows: int, width: int) -> Products:
    """One linear map: its product forward; backward the gradients of its input and, kept, its weight."""
    x, dy, w = torch.randn(rows, width), torch.randn(rows, width), torch.randn(width, width)
    return Products([lambda: x @ w.T], [(lambda: dy @ w, False), (lambda: dy.T @ x, True)])


def _association(groups: int, rows: int, h: int) -> Products:
    """Scores and retrieval forward; backward the gradients of values, weights, queries and keys."""
    q, k, v, dy = (torch.randn(groups, rows, h) for _ in range(4))
    p = torch.rand(groups, rows, rows)
    backward = [lambda: p.mT @ dy, lambda: dy @ v.mT, lambda: p @ k, lambda: p.mT @ q]
    return Products([lambda: q @ k.mT, lambda: p @ v], [(product, False) for product in backward])


def floor_step(shape: Shape, values: str) -> Callable[[], None]:
    """Return a function that runs all matrix products of one training step."""
    n, d, e, M = shape.n, shape.d, shape.e, shape.M
    parts: list[Products] = []
    large: Products | None = None  # associations of gigabytes: one buffer serves all blocks, and none is kept
    for _ in range(shape.L):
        for rows, width, groups, length in ((n, d * e, M, n), (n * d, e, n * M, d)):
            if groups * length * length > 1 << 26:
                large = large or _association(groups, length, max(1, width // M))
                parts.append(large)
            else:
                parts.append(_association(groups, length, max(1, width // M)))
            parts += [_projection(rows, width) for _ in range(3 if values == "tied" else 4)]

    def run() -> None:
        kept = []
        for part in parts:
            results = [product() for product in part.forward]
            if part is not large:
                kept += results
        for part in reversed(parts):
            for product, keep in part.backward:
                result = product()
                if keep:
                    kept.append(result)

    return run
