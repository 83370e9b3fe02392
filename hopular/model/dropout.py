"""Dropout from a pool of random masks, for the three dropouts p_i, p_h and p_o of Table A.2."""

from __future__ import annotations

import math
import random

import torch
from torch import Tensor


class DropoutPool:
    """Dropout masks as windows at random places of one pool of random bits.

    On a CPU a Bernoulli draw costs ten times the softmax it is applied to, and would have to be repeated in the
    backward pass where associations are not kept. A window costs nothing and is found again by its offset. A part of
    the pool is renewed at every training step.
    """

    def __init__(self, p: float, seed: int, device: torch.device) -> None:
        self.p = p
        self._offsets = random.Random(seed)
        self._bits = torch.Generator().manual_seed(seed)
        self._device = device
        self._pool = torch.empty(0, device=device)
        self._next = 0

    def _draw(self, size: int) -> Tensor:
        keep = torch.rand(size, generator=self._bits) >= self.p
        return (keep / (1.0 - self.p)).to(self._device)

    def renew(self) -> None:
        """Replace the next 1/64 of the pool; called once per training step."""
        share = len(self._pool) // 64
        if share:
            self._pool[self._next : self._next + share] = self._draw(share)
            self._next = (self._next + share) % (len(self._pool) - share)

    def offset(self, size: int) -> int:
        """A random place of the pool where a window of `size` masks begins."""
        if 2 * size > len(self._pool):
            self._pool = self._draw(max(1 << 20, 4 * size))
        return self._offsets.randrange(len(self._pool) - size)

    def window(self, offset: int, shape: torch.Size, dtype: torch.dtype) -> Tensor:
        """The masks that begin at `offset`, scaled by 1 / (1 - p)."""
        return self._pool[offset : offset + math.prod(shape)].view(shape).to(dtype)

    def __call__(self, x: Tensor) -> Tensor:
        """Dropout of a whole tensor."""
        return x * self.window(self.offset(x.numel()), x.shape, x.dtype)


class Dropouts:
    """The dropouts p_i (embedding), p_h (Hopular block) and p_o (summarisation) of one training run; None where p = 0."""

    def __init__(self, p_i: float, p_h: float, p_o: float, seed: int, device: torch.device) -> None:
        pools = [DropoutPool(p, 3 * seed + i, device) if p > 0 else None for i, p in enumerate((p_i, p_h, p_o))]
        self.embedding, self.block, self.summary = pools

    def renew(self) -> None:
        for pool in (self.embedding, self.block, self.summary):
            if pool is not None:
                pool.renew()
