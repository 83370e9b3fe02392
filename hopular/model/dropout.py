"""Dropout from a pool of random masks, for the three dropouts p_i, p_h and p_o of Section A.3."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from hopular.model.members import generator_states, restore_generators

SMALLEST = 1 << 17  # masks of each member in a pool: half a megabyte
RENEWED = 1 << 11  # masks of each member replaced at every step
ALIGNED = 16  # windows begin where a vector register can load from


class DropoutPool:
    """Dropout masks as windows at random places of one pool of random bits for each member.

    On a CPU a Bernoulli draw costs ten times the softmax it is applied to; a window costs nothing and can be kept for
    the backward pass. A part of the pool is renewed at every training step. The places are the same for all members,
    and for every stack, so that a member finds the same masks whoever is trained beside it.
    """

    def __init__(self, p: float, seeds: Sequence[int], device: torch.device) -> None:
        self.p = p
        self._places = torch.Generator().manual_seed(0)
        self._bits = [torch.Generator().manual_seed(seed) for seed in seeds]
        self._device = device
        self._pool = self._draw(SMALLEST)
        self._next = 0

    def _draw(self, size: int) -> Tensor:
        keep = torch.stack([torch.rand(size, generator=bits) >= self.p for bits in self._bits])
        return (keep / (1.0 - self.p)).to(self._device)

    def renew(self) -> None:
        """Replace the next part of the pool; called once per training step, between its passes."""
        end = min(self._next + RENEWED, self._pool.shape[1])
        self._pool[:, self._next : end] = self._draw(end - self._next)
        self._next = end % self._pool.shape[1]

    def window(self, size: int) -> Tensor:
        """Return masks of 0 and 1 / (1 - p) for every member (K, size); a view that stays as it is until `renew`."""
        if 2 * size > self._pool.shape[1]:
            self._pool = self._draw(4 * size)
        last = (self._pool.shape[1] - size) // ALIGNED
        place = ALIGNED * int(torch.randint(last + 1, (), generator=self._places))
        return self._pool[:, place : place + size]

    def __call__(self, x: Tensor) -> Tensor:
        """Drop values of a whole tensor (K, ...)."""
        return x * self.window(x[0].numel()).view(x.shape).to(x.dtype)

    def select(self, members: Sequence[int]) -> None:
        """Go on with some of the members."""
        self._bits = [self._bits[k] for k in members]
        self._pool = self._pool[list(members)]

    def state_dict(self) -> dict[str, Tensor]:
        """Return everything that masks to come depend on."""
        return {
            "pool": self._pool,
            "next": torch.tensor(self._next),
            "places": generator_states([self._places]),
            "bits": generator_states(self._bits),
        }

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        self._pool, self._next = state["pool"].to(self._device).clone(), int(state["next"])
        restore_generators([self._places], state["places"])
        restore_generators(self._bits, state["bits"])


class Dropouts:
    """The dropouts of one training run: p_i (embedding), p_h (block), p_o (summarisation); None where p = 0."""

    def __init__(self, p_i: float, p_h: float, p_o: float, seeds: Sequence[int], device: torch.device) -> None:
        shares = enumerate((p_i, p_h, p_o))
        pools = [DropoutPool(p, [3 * seed + i for seed in seeds], device) if p > 0 else None for i, p in shares]
        self.embedding, self.block, self.summary = pools

    @property
    def pools(self) -> list[DropoutPool]:
        return [pool for pool in (self.embedding, self.block, self.summary) if pool is not None]
