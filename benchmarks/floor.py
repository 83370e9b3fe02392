"""The floor under a training step: its matrix products alone, at the same shapes, with plain torch.

Every block has weights and activations of its own, as in a real step, and products run in the order of a step: forward
through the blocks, then backward. Associations are materialised, as a bare product does.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor


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


def _projection(rows: int, width: int) -> tuple[Callable[[], Tensor], list[Callable[[], Tensor]]]:
    """One linear map: its product forward; backward the gradients of its input and its weight."""
    x, dy, w = torch.randn(rows, width), torch.randn(rows, width), torch.randn(width, width)
    return lambda: x @ w.T, [lambda: dy @ w, lambda: dy.T @ x]


def _association(groups: int, rows: int, h: int) -> tuple[list[Callable[[], Tensor]], list[Callable[[], Tensor]]]:
    """Scores and retrieval forward; backward the gradients of values, weights, queries and keys."""
    q, k, v, dy = (torch.randn(groups, rows, h) for _ in range(4))
    p = torch.rand(groups, rows, rows)
    forward = [lambda: q @ k.mT, lambda: p @ v]
    backward = [lambda: p.mT @ dy, lambda: dy @ v.mT, lambda: p @ k, lambda: p.mT @ q]
    return forward, backward


def floor_step(shape: Shape, values: str) -> Callable[[], None]:
    """A function that runs all matrix products of one training step."""
    n, d, e, M = shape.n, shape.d, shape.e, shape.M
    projections = 3 if values == "tied" else 4
    forward: list[Callable[[], Tensor]] = []
    backward: list[Callable[[], Tensor]] = []
    shared: tuple[list[Callable[[], Tensor]], list[Callable[[], Tensor]]] | None = None
    for _ in range(shape.L):
        for rows, width, groups, length in ((n, d * e, M, n), (n * d, e, n * M, d)):
            if groups * length * length > 1 << 26:  # gigabytes per block: one buffer has to serve all blocks
                shared = shared or _association(groups, length, max(1, width // M))
                associations = shared
            else:
                associations = _association(groups, length, max(1, width // M))
            forward += associations[0]
            backward += associations[1]
            for _ in range(projections):
                product, gradients = _projection(rows, width)
                forward.append(product)
                backward += gradients

    def run() -> None:
        for product in forward + backward[::-1]:
            product()

    return run
