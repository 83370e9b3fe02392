"""Dropout from a pool of random masks, for the three dropouts p_i, p_h and p_o of Section A.3."""

from __future__ import annotations

import math
import random

import torch
from torch import Tensor

SMALLEST = 1 << 19  # masks in a pool: 2 MB
RENEWED = 1 << 13  # masks replaced at every step
ALIGNED = 16  # windows begin where a vector register can load from


class DropoutPool:
    """Dropout masks as windows at random places of one pool of random bits.

    On a CPU a Bernoulli draw costs ten times the softmax it is applied to; a window costs nothing and can be kept for
    the backward pass. A part of the pool is renewed at every training step.
    """

    def __init__(self, p: float, seed: int, device: torch.device) -> None:
        self.p = p
        self._places = random.Random(seed)
        self._bits = torch.Generator().manual_seed(seed)
        self._device = device
        self._pool = self._draw(SMALLEST)
        self._next = 0

    def _draw(self, size: int) -> Tensor:
        keep = torch.rand(size, generator=self._bits) >= self.p
        return (keep / (1.0 - self.p)).to(self._device)

    def renew(self) -> None:
        """Replace the next part of the pool; called once per training step, between its passes."""
        end = min(self._next + RENEWED, len(self._pool))
        self._pool[self._next : end] = self._draw(end - self._next)
        self._next = end % len(self._pool)

    def mask(self, shape: torch.Size) -> Tensor:
        """A mask of 0 and 1 / (1 - p); a view that stays as it is until `renew`."""
        size = math.prod(shape)
        if 2 * size > len(self._pool):
            self._pool = self._draw(4 * size)
        place = self._places.randrange(len(self._pool) - size) // ALIGNED * ALIGNED
        return self._pool[place : place + size].view(shape)

    def __call__(self, x: Tensor) -> Tensor:
        """Dropout of a whole tensor."""
        return x * self.mask(x.shape).to(x.dtype)


class Dropouts:
    """The dropouts of one training run: p_i (embedding), p_h (block), p_o (summarisation); None where p = 0."""

    def __init__(self, p_i: float, p_h: float, p_o: float, seed: int, device: torch.device) -> None:
        pools = [DropoutPool(p, 3 * seed + i, device) if p > 0 else None for i, p in enumerate((p_i, p_h, p_o))]
        self.embedding, self.block, self.summary = pools

    def renew(self) -> None:
        for pool in (self.embedding, self.block, self.summary):
            if pool is not None:
                pool.renew()
