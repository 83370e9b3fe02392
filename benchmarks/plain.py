"""The same training step as most people would write it: torch's own modules, autograd and AdamW.

A yardstick beside the floor: how far plain code is from the matrix products on this machine.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks.floor import Shape


class PlainModule(nn.Module):
    """M Hopfield networks: projections, softmax over materialised associations, dropout, output projection."""

    def __init__(self, width: int, networks: int, values: str) -> None:
        super().__init__()
        self.networks, self.h = networks, max(1, width // networks)
        self.norm_state, self.norm_stored = nn.LayerNorm(width), nn.LayerNorm(width)
        self.query, self.key, self.output = (nn.Linear(width, width) for _ in range(3))
        self.value = nn.Linear(width, width) if values == "separate" else None

    def forward(self, state: Tensor, stored: Tensor, own: Tensor | None = None) -> Tensor:
        state, stored = self.norm_state(state), self.norm_stored(stored)
        query, key = self._split(self.query(state)), self._split(self.key(stored))
        value = key if self.value is None else self._split(self.value(stored))
        scores = query @ key.mT / math.sqrt(self.h)
        if own is not None:
            scores = scores.masked_fill(own, -math.inf)
        retrieved = F.dropout(torch.softmax(scores, dim=-1), 0.1) @ value
        return state + self.output(retrieved.transpose(-2, -3).flatten(-2))

    def _split(self, x: Tensor) -> Tensor:
        return x.view(*x.shape[:-1], self.networks, self.h).transpose(-2, -3)


class PlainNetwork(nn.Module):
    """Continuous attributes alone, which is enough to time it."""

    def __init__(self, shape: Shape, values: str) -> None:
        super().__init__()
        d, e = shape.d, shape.e
        self.value, self.position = (nn.Parameter(torch.randn(d, e)) for _ in range(2))
        self.samples = nn.ModuleList(PlainModule(d * e, shape.M, values) for _ in range(shape.L))
        self.features = nn.ModuleList(PlainModule(e, shape.M, values) for _ in range(shape.L))
        self.summary = nn.Linear(d * e, d)

    def forward(self, rows: Tensor, own: Tensor) -> Tensor:
        original = F.dropout(rows[..., None] * self.value + self.position, 0.1)
        memory = xi = original.flatten(1)
        for samples, features in zip(self.samples, self.features, strict=True):
            xi = features(samples(xi, memory, own).view_as(original), original).flatten(1)
        prediction: Tensor = self.summary(xi)
        return prediction


def plain_step(shape: Shape, values: str) -> Callable[[], None]:
    """One full-batch step of the plain network."""
    network = PlainNetwork(shape, values)
    rows, own = torch.randn(shape.n, shape.d), torch.eye(shape.n, dtype=torch.bool)
    optimizer = torch.optim.AdamW(network.parameters(), foreach=True)

    def step() -> None:
        loss = F.mse_loss(network(rows, own), rows)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimizer.step()

    return step
