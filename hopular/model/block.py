"""The Hopular block (Section 3): H_s over the stored training rows, then H_f over the row's own attributes.

Modules own the parameters, readers work with them. A reader holds everything that does not depend on the rows to be
refined, so that a prediction is a chain of a few calls of torch: looking a parameter up in a module takes as long as
many of these calls. Shapes are commented with b rows, n stored rows, d attributes, e embedding dimension, M Hopfield
networks of dimension h.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from hopular.model.architecture import Architecture
from hopular.model.association import associate, association_weights
from hopular.model.dropout import DropoutPool


class HopfieldModule(nn.Module):
    """The parameters of M Hopfield networks with learned projections (Eq. 7-9) around a residual connection.

    W_S of each network and W_G, which combines them, are linear maps in a row: their product is one matrix, `output`.
    Values are the projected keys as in Eq. 7 (`values="tied"`) or have a projection of their own ("separate"). State
    and stored patterns are normalised; the residual adds to the normalised state, as in the released code. Stored
    patterns need no gain and bias there: the key projection that follows absorbs them.
    """

    def __init__(self, width: int, arch: Architecture) -> None:
        super().__init__()
        self.n_networks = arch.n_networks
        h = max(1, width // arch.n_networks)  # Hopfield dimension h
        self.beta = arch.beta / math.sqrt(h)
        self.norm = nn.LayerNorm(width)
        self.query = nn.Linear(width, arch.n_networks * h)  # W_xi
        self.key = nn.Linear(width, arch.n_networks * h)  # W_X, W_Y
        self.value = nn.Linear(width, arch.n_networks * h) if arch.values == "separate" else None
        self.output = nn.Linear(arch.n_networks * h, width)  # W_G W_S, W_G W_F


@dataclass(frozen=True, slots=True)
class Reader:
    """What both readers have of their module: its normalisation, the maps before and after the association, beta."""

    gain: Tensor
    shift: Tensor
    query: Tensor
    query_bias: Tensor
    output: Tensor
    output_bias: Tensor
    beta: float


# ------------------------------------------------------------------------------------------------------------- samples


@dataclass(frozen=True, slots=True)
class RowReader(Reader):
    """H_s (Eq. 7): the stored patterns are the training rows, shared by all rows of the batch."""

    key: Tensor  # (M, n, h)
    value: Tensor

    def read(self, xi: Tensor, leave_out_own: bool = False, dropout: DropoutPool | None = None) -> Tensor:
        """(b, d e) -> (b, d e)."""
        xi, query = self._normalised_and_query(xi)
        retrieved = associate(query, self.key, self.value, self.beta, leave_out_own, dropout)
        return xi + F.linear(retrieved.transpose(0, 1).flatten(1), self.output, self.output_bias)

    def weights(self, xi: Tensor) -> Tensor:
        """How strongly each stored row is read (b, n), averaged over the M networks."""
        return association_weights(self._normalised_and_query(xi)[1], self.key, self.beta)

    def _normalised_and_query(self, xi: Tensor) -> tuple[Tensor, Tensor]:
        xi = torch.layer_norm(xi, self.gain.shape, self.gain, self.shift)
        return xi, by_network(F.linear(xi, self.query, self.query_bias), len(self.key))


def by_network(x: Tensor, n_networks: int) -> Tensor:
    """(rows, M h) -> (M, rows, h)."""
    return x.view(len(x), n_networks, -1).transpose(0, 1)


class SampleModule(HopfieldModule):
    """The parameters of H_s."""

    def store(self, patterns: Tensor) -> RowReader:
        """A reader of normalised training rows (n, d e)."""
        key = by_network(self.key(patterns), self.n_networks)
        value = key if self.value is None else by_network(self.value(patterns), self.n_networks)
        maps = (self.query.weight, self.query.bias, self.output.weight, self.output.bias)
        return RowReader(self.norm.weight, self.norm.bias, *maps, self.beta, key, value)


# ------------------------------------------------------------------------------------------------------------ features


@dataclass(frozen=True, slots=True)
class AttributeReader(Reader):
    """H_f (Eq. 9): the stored patterns are the embedded attributes of the original input, each row its own.

    Unit c M + m of a map is component c of network m: no copy is needed for that order.
    """

    def read(self, xi: Tensor, key: Tensor, value: Tensor, dropout: DropoutPool | None = None) -> Tensor:
        """xi (b d, e), keys and values (M b, d, h) of the row's attributes -> (b d, e)."""
        xi = torch.layer_norm(xi, self.gain.shape, self.gain, self.shift)
        query = torch.addmm(self.query_bias, self.query, xi.mT).view(-1, *key.shape[:2]).permute(1, 2, 0)
        retrieved = associate(query, key, value, self.beta, False, dropout)
        units = retrieved.permute(2, 0, 1).reshape(-1, len(xi))  # (h M, b d)
        return xi + F.linear(units.mT, self.output, self.output_bias)


@dataclass(frozen=True, slots=True)
class AttributeMaps:
    """The maps of all H_f to their keys and values, one below the other: every H_f stores the same normalised input."""

    weight: Tensor  # the last column is the bias, which thereby needs no pass of its own
    n_maps: int
    per_block: int  # 2, or 1 where values are the keys
    n_networks: int

    def project(self, x: Tensor) -> list[tuple[Tensor, Tensor]]:
        """Embedded attributes (b, d, e) -> for each block keys and values (M b, d, h)."""
        b, d, e = x.shape
        units = torch.mm(self.weight, F.pad(F.layer_norm(x, (e,)).view(-1, e), (0, 1), value=1.0).mT)
        apply: Any = _PerMap.apply
        maps = apply(units.view(self.n_maps, -1, self.n_networks * b, d))
        return list(zip(maps[:: self.per_block], maps[self.per_block - 1 :: self.per_block], strict=True))


class _PerMap(torch.autograd.Function):
    """(maps, h, M b, d) -> for each map (M b, d, h), with a gradient that is put together in one pass over it."""

    @staticmethod
    def forward(ctx: Any, units: Tensor) -> tuple[Tensor, ...]:
        return units.permute(0, 2, 3, 1).unbind()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *d_maps: Tensor) -> Tensor:
        b, d, h = d_maps[0].shape
        d_units = d_maps[0].new_empty(len(d_maps), h, b, d)
        for into, d_map in zip(d_units.unbind(), d_maps, strict=True):
            into.copy_(d_map.permute(2, 0, 1))
        return d_units


class FeatureModule(HopfieldModule):
    """The parameters of H_f."""

    def reader(self) -> AttributeReader:
        maps = (self.query.weight, self.query.bias[:, None], self.output.weight, self.output.bias)
        return AttributeReader(self.norm.weight, self.norm.bias, *maps, self.beta)


# --------------------------------------------------------------------------------------------------------------- block


@dataclass(frozen=True, slots=True)
class BlockReader:
    """H_s, then H_f."""

    samples: RowReader
    features: AttributeReader

    def refine(
        self,
        xi: Tensor,
        own: tuple[Tensor, Tensor],
        leave_out_own: bool = False,
        dropout: DropoutPool | None = None,
    ) -> Tensor:
        """xi (b, d e), keys and values of the original input's attributes -> (b, d e)."""
        xi = self.samples.read(xi, leave_out_own, dropout)
        return self.features.read(xi.view(-1, len(self.features.gain)), *own, dropout).view_as(xi)


class Block(nn.Module):
    """The parameters of one block."""

    def __init__(self, arch: Architecture) -> None:
        super().__init__()
        self.samples = SampleModule(arch.n_attributes * arch.embedding_dim, arch)
        self.features = FeatureModule(arch.embedding_dim, arch)

    def store(self, patterns: Tensor) -> BlockReader:
        """A reader of normalised training rows (n, d e)."""
        return BlockReader(self.samples.store(patterns), self.features.reader())


def attribute_maps(blocks: list[Block]) -> AttributeMaps:
    """The maps of the blocks' H_f to their keys, and to their values unless these are the keys."""
    maps = [m for block in blocks for m in (block.features.key, block.features.value) if m is not None]
    weight, bias = torch.cat([m.weight for m in maps]), torch.cat([m.bias for m in maps])
    weight = torch.cat([weight, bias[:, None]], dim=1)
    return AttributeMaps(weight, len(maps), len(maps) // len(blocks), blocks[0].features.n_networks)
