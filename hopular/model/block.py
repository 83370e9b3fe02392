"""The Hopular block (Section 3): H_s over the stored training rows, then H_f over the row's own attributes.

Shapes are commented with K members, b rows, n stored rows, d attributes, e embedding dimension, M Hopfield networks of
dimension h. A state is (K, e d, b), component first, so that it is (K, e, d b) for H_f without a copy;
hopular/model/members.py says why the rows come last.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from hopular.model.architecture import Architecture
from hopular.model.association import associate, associate_attributes, association_weights
from hopular.model.dropout import DropoutPool
from hopular.model.members import Draw, Linear, Norm, map_together


class HopfieldModule(nn.Module):
    """The parameters of M Hopfield networks with learned projections (Eq. 7-9) around a residual connection.

    W_S of each network and W_G, which combines them, are linear maps in a row: their product is one matrix, `output`.
    Values are the projected keys as in Eq. 7 (`values="tied"`) or have a projection of their own ("separate"). State
    and stored patterns are normalised; the residual adds to the normalised state, as in the released code. Stored
    patterns need no gain and bias there: the key projection that follows absorbs them.
    """

    def __init__(self, width: int, space: int, arch: Architecture, draw: Draw) -> None:
        """Make modules for states of `width` whose networks share `space` dimensions."""
        super().__init__()
        self.n_networks = arch.n_networks
        self.h = max(1, space // arch.n_networks)  # Hopfield dimension h
        units = self.n_networks * self.h
        self.norm = Norm(draw, width)
        self.query = Linear(draw, width, units)  # W_xi
        self.key = Linear(draw, width, units)  # W_X, W_Y
        self.value = Linear(draw, width, units) if arch.values == "separate" else None
        self.output = Linear(draw, units, width)  # W_G W_S, W_G W_F
        self.beta: Tensor
        self.register_buffer("beta", torch.empty(draw.count, 1, 1))
        self.set_beta(torch.full((draw.count,), arch.beta))

    def set_beta(self, beta: Tensor) -> None:
        """Give each member its beta-scaling factor (K,); scores are divided by the root of h as well."""
        self.beta.copy_(beta[:, None, None] / math.sqrt(self.h))

    @property
    def stored_maps(self) -> list[Linear]:
        """Return the projections of stored patterns: to keys and, unless they are the same, to values."""
        return [self.key] if self.value is None else [self.key, self.value]


@dataclass(frozen=True, slots=True)
class StoredRows:
    """Keys and values (K, M, h, n) of the training rows in one H_s; `absent` (K, n) marks what fills up a member's."""

    key: Tensor
    value: Tensor
    absent: Tensor | None


class SampleModule(HopfieldModule):
    """H_s (Eq. 7): the stored patterns are the training rows, shared by all rows of the batch."""

    def __init__(self, arch: Architecture, draw: Draw) -> None:
        width = arch.n_attributes * arch.embedding_dim
        super().__init__(width, min(width, arch.sample_space or width), arch, draw)

    def store(self, projected: Iterator[Tensor], absent: Tensor | None) -> StoredRows:
        """Take the projections (K, M h, n) of normalised training rows that are this module's own."""
        key = self._by_network(next(projected))
        return StoredRows(key, key if self.value is None else self._by_network(next(projected)), absent)

    def forward(self, xi: Tensor, stored: StoredRows, leave_out_own: bool, dropout: DropoutPool | None) -> Tensor:
        """Refine the state (K, e d, b) by what it reads from the stored rows."""
        xi = self.norm(xi)
        query = self._by_network(self.query(xi) * self.beta)
        retrieved = associate(query, stored.key, stored.value, leave_out_own, stored.absent, dropout)
        refined: Tensor = xi + self.output(retrieved.flatten(1, 2))
        return refined

    def weights(self, xi: Tensor, stored: StoredRows) -> Tensor:
        """Return how strongly each stored row is read (K, n, b), averaged over the M networks."""
        query = self._by_network(self.query(self.norm(xi)) * self.beta)
        return association_weights(query, stored.key, stored.absent)

    def _by_network(self, units: Tensor) -> Tensor:
        """View units (K, M h, rows) as (K, M, h, rows)."""
        return units.view(len(units), self.n_networks, self.h, -1)


class FeatureModule(HopfieldModule):
    """H_f (Eq. 9): the stored patterns are the embedded attributes of the original input, each row its own."""

    def __init__(self, arch: Architecture, draw: Draw) -> None:
        super().__init__(arch.embedding_dim, arch.embedding_dim, arch, draw)
        self.n_attributes = arch.n_attributes

    def forward(self, xi: Tensor, own: Tensor, dropout: DropoutPool | None) -> Tensor:
        """Refine the state (K, e, d b) by what it reads from `own`, the original input, normalised."""
        xi = self.norm(xi)
        query = self._by_network(self.query(xi) * self.beta)
        key, *separate = (self._by_network(x) for x in map_together(own, self.stored_maps))
        retrieved = associate_attributes(query, key, separate[0] if separate else key, dropout)
        refined: Tensor = xi + self.output(retrieved.flatten(1, 2).flatten(2))
        return refined

    def _by_network(self, units: Tensor) -> Tensor:
        """View units (K, M h, d b) as (K, M, h, d, b)."""
        return units.view(len(units), self.n_networks, self.h, self.n_attributes, -1)


class Block(nn.Module):
    """H_s, then H_f."""

    def __init__(self, arch: Architecture, draw: Draw) -> None:
        super().__init__()
        self.samples = SampleModule(arch, draw)
        self.features = FeatureModule(arch, draw)

    def forward(
        self,
        xi: Tensor,
        own: Tensor,
        stored: StoredRows,
        leave_out_own: bool = False,
        dropout: DropoutPool | None = None,
    ) -> Tensor:
        """Refine the state (K, e d, b); `own` (K, e, d b) is the original input, normalised."""
        xi = self.samples(xi, stored, leave_out_own, dropout)
        refined: Tensor = self.features(xi.view_as(own), own, dropout)
        return refined.view_as(xi)
