"""The Hopular network (Section 3, Algorithm 1): embedding layer, Hopular blocks, summarisation layer.

A row is a float vector of d attributes, NaN where a value is missing. Attributes are sorted by width: continuous ones
(width 1, standardised) first, then categorical ones (their code; width = number of categories). One of them is the
target. Shapes are commented with b rows, n stored rows, d attributes, e embedding dimension, M Hopfield networks.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from hopular.model.association import associate, association_weights
from hopular.model.dropout import DropoutPool, Dropouts


@dataclass(frozen=True)
class Architecture:
    """Everything that fixes the shape of a network; the last three name where paper and released code differ."""

    widths: tuple[int, ...]
    target: int
    n_blocks: int = 4
    n_networks: int = 8
    embedding_dim: int = 32
    beta: float = 1.0
    dropout_embedding: float = 0.1
    dropout_block: float = 0.1
    dropout_summary: float = 0.01
    embedding: Literal["sum", "projected"] = "sum"
    values: Literal["tied", "separate"] = "separate"
    summary: Literal["attribute", "joint"] = "attribute"

    @property
    def n_attributes(self) -> int:
        return len(self.widths)


@dataclass(frozen=True)
class Group:
    """Neighbouring attributes of equal width, handled as one tensor."""

    width: int
    start: int  # first attribute
    stop: int
    offset: int  # first output unit

    @property
    def count(self) -> int:
        return self.stop - self.start


def attribute_groups(widths: tuple[int, ...]) -> list[Group]:
    groups, start, offset = [], 0, 0
    for width, same in groupby(widths):
        count = len(list(same))
        groups.append(Group(width, start, start + count, offset))
        start, offset = start + count, offset + count * width
    return groups


def _uniform(*shape: int, bound: float) -> nn.Parameter:
    return nn.Parameter(torch.empty(*shape).uniform_(-bound, bound))


class AttributeLinear(nn.Module):
    """A linear map of its own for each attribute: (b, count, e) -> (b, count, out)."""

    def __init__(self, count: int, in_dim: int, out_dim: int) -> None:
        super().__init__()
        bound = 1 / math.sqrt(in_dim)
        self.weight = _uniform(count, in_dim, out_dim, bound=bound)
        self.bias = _uniform(count, 1, out_dim, bound=bound)

    def forward(self, x: Tensor) -> Tensor:
        return torch.baddbmm(self.bias, x.transpose(0, 1), self.weight).transpose(0, 1)


# --------------------------------------------------------------------------------------------------- embedding layer


class Embedding(nn.Module):
    """Value, position and type embeddings, summed (Section A.1); a masked and a missing value differ.

    The value of attribute j is mapped linearly from its one-hot code or number and one more input that is 1 where the
    value is masked. A missing value has all inputs 0, so that only position and type remain. The released code sends
    the sum through GELU, dropout, LayerNorm and a linear map per attribute (`embedding="projected"`).
    """

    def __init__(self, arch: Architecture) -> None:
        super().__init__()
        d, e = arch.n_attributes, arch.embedding_dim
        widths = torch.tensor(arch.widths)
        self.n_continuous = int((widths == 1).sum())
        fan_in = (widths + 1.0).rsqrt()  # one-hot code or number, and the mask input
        categories = widths[self.n_continuous :]
        self.first_row: Tensor
        if self.n_continuous:
            self.number = nn.Parameter(torch.empty(self.n_continuous, e).uniform_(-1, 1) * fan_in[widths == 1, None])
        if len(categories):
            # Rows of all categories of all categorical attributes; the last row stays zero and stands for "no value".
            self.register_buffer("first_row", categories.cumsum(0) - categories, persistent=False)
            self.no_value = int(categories.sum())
            bounds = torch.repeat_interleave(fan_in[widths > 1], categories)
            rows = torch.empty(self.no_value, e).uniform_(-1, 1) * bounds[:, None]
            self.category = nn.Parameter(torch.cat([rows, torch.zeros(1, e)]))
        self.mask = nn.Parameter(torch.empty(d, e).uniform_(-1, 1) * fan_in[:, None])
        self.position = _uniform(d, e, bound=1 / math.sqrt(e))
        self.kind = _uniform(2, e, bound=1 / math.sqrt(e))
        self.project = None
        if arch.embedding == "projected":
            self.norm = nn.LayerNorm(e)
            self.project = AttributeLinear(d, e, e)

    def forward(self, x: Tensor, masked: Tensor | None, dropout: DropoutPool | None) -> Tensor:
        """(b, d) values and (b, d) booleans -> (b, d, e)."""
        d, k = x.shape[1], self.n_continuous
        hidden = x.isnan() if masked is None else x.isnan() | masked
        parts = []
        if k > 0:
            parts.append(x[:, :k].masked_fill(hidden[:, :k], 0)[:, :, None] * self.number)
        if k < d:
            row = torch.nan_to_num(x[:, k:]).long() + self.first_row
            parts.append(F.embedding(row.masked_fill_(hidden[:, k:], self.no_value), self.category, self.no_value))
        y = torch.cat(parts, dim=1) if len(parts) > 1 else parts[0]
        kinds = torch.cat([self.kind[:1].expand(k, -1), self.kind[1:].expand(d - k, -1)])
        y = y + (self.position + kinds)
        if masked is not None:
            y = torch.addcmul(y, masked[:, :, None].to(y.dtype), self.mask)
        if self.project is None:
            return y if dropout is None else dropout(y)
        y = F.gelu(y)
        return self.project(self.norm(y if dropout is None else dropout(y)))  # type: ignore[no-any-return]


# ----------------------------------------------------------------------------------------------------- Hopular block


class HopfieldModule(nn.Module):
    """M Hopfield networks with learned projections (Eq. 7-9) around a residual connection.

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


class SampleModule(HopfieldModule):
    """H_s (Eq. 7): the stored patterns are the training rows, shared by all rows of the batch."""

    def _split(self, x: Tensor) -> Tensor:
        return x.view(len(x), self.n_networks, -1).transpose(0, 1)  # (rows, M h) -> (M, rows, h)

    def store(self, patterns: Tensor) -> tuple[Tensor, Tensor]:
        """Keys and values (M, n, h) of normalised training rows (n, d e)."""
        key = self._split(self.key(patterns))
        return key, key if self.value is None else self._split(self.value(patterns))

    def forward(
        self, xi: Tensor, stored: tuple[Tensor, Tensor], leave_out_own: bool, dropout: DropoutPool | None
    ) -> Tensor:
        xi = self.norm(xi)
        retrieved = associate(self._split(self.query(xi)), *stored, self.beta, leave_out_own, dropout)
        return xi + self.output(retrieved.transpose(0, 1).flatten(1))  # type: ignore[no-any-return]

    def weights(self, xi: Tensor, stored: tuple[Tensor, Tensor]) -> Tensor:
        """How strongly each stored row is read (b, n), averaged over the M networks."""
        return association_weights(self._split(self.query(self.norm(xi))), stored[0], self.beta)


class FeatureModule(HopfieldModule):
    """H_f (Eq. 9): the stored patterns are the embedded attributes of the original input, each row its own."""

    def stored_maps(self) -> list[nn.Linear]:
        """The projections of the stored patterns: to keys, and to values unless these are the keys."""
        return [self.key] if self.value is None else [self.key, self.value]

    def forward(self, xi: Tensor, stored: tuple[Tensor, Tensor], dropout: DropoutPool | None) -> Tensor:
        """xi (b, d, e), keys and values of its attributes -> (b, d, e)."""
        xi = self.norm(xi)
        (query,) = project_attributes([self.query], self.n_networks, xi)
        retrieved = associate(query, *stored, self.beta, False, dropout)
        units = retrieved.permute(2, 0, 1).reshape(-1, xi.shape[0] * xi.shape[1])  # (h M, b d)
        return xi + self.output(units.mT).view_as(xi)  # type: ignore[no-any-return]


def project_attributes(maps: list[nn.Linear], n_networks: int, x: Tensor) -> tuple[Tensor, ...]:
    """(b, d, e) through each of `maps`, in one product -> (M b, d, h) each.

    Unit c M + m of a map is component c of network m: no copy is needed for that order.
    """
    weight: Tensor = maps[0].weight
    bias: Tensor = maps[0].bias
    if len(maps) > 1:
        weight, bias = torch.cat([m.weight for m in maps]), torch.cat([m.bias for m in maps])
    units = torch.addmm(bias[:, None], weight, x.flatten(0, 1).mT)
    of_maps = units.view(len(maps), -1, n_networks * x.shape[0], x.shape[1]).unbind()
    return tuple(of_map.permute(1, 2, 0) for of_map in of_maps)


class Block(nn.Module):
    """H_s over the stored training rows, then H_f over the embedded attributes of the original input."""

    def __init__(self, arch: Architecture) -> None:
        super().__init__()
        self.samples = SampleModule(arch.n_attributes * arch.embedding_dim, arch)
        self.features = FeatureModule(arch.embedding_dim, arch)
        self.shape = (-1, arch.n_attributes, arch.embedding_dim)

    def forward(
        self,
        xi: Tensor,
        rows: tuple[Tensor, Tensor],
        attributes: tuple[Tensor, Tensor],
        leave_out_own: bool,
        dropout: DropoutPool | None,
    ) -> Tensor:
        """xi (b, d e), keys and values of the stored rows and of the original input's attributes -> (b, d e)."""
        xi = self.samples(xi, rows, leave_out_own, dropout)
        return self.features(xi.view(self.shape), attributes, dropout).flatten(1)  # type: ignore[no-any-return]


# ----------------------------------------------------------------------------------------------- summarisation layer


class Summary(nn.Module):
    """From the refined state to a prediction of each attribute (Section A.1).

    The paper maps each attribute by itself ("attribute"); the released code lets them mix ("joint").
    """

    def __init__(self, arch: Architecture) -> None:
        super().__init__()
        self.groups = attribute_groups(arch.widths)
        d, e = arch.n_attributes, arch.embedding_dim
        self.joint = arch.summary == "joint"
        self.shape = (d * e,) if self.joint else (d, e)
        self.norm = nn.LayerNorm(self.shape[-1])
        self.maps = nn.ModuleList(
            nn.Linear(d * e, g.count * g.width) if self.joint else AttributeLinear(g.count, e, g.width)
            for g in self.groups
        )

    def forward(self, xi: Tensor, dropout: DropoutPool | None) -> list[Tensor]:
        """(b, d e) -> for each group of attributes (b, count, width)."""
        y = F.gelu(xi.view(-1, *self.shape))
        y = self.norm(y if dropout is None else dropout(y))
        if self.joint:
            return [m(y).view(-1, g.count, g.width) for m, g in zip(self.maps, self.groups, strict=True)]
        return [m(y[:, g.start : g.stop]) for m, g in zip(self.maps, self.groups, strict=True)]


# ------------------------------------------------------------------------------------------------------- the network


Memory = list[tuple[Tensor, Tensor]]  # keys and values of stored patterns, one pair per block


class Hopular(nn.Module):
    """Algorithm 1. `store` prepares the training rows, `forward` refines rows against them."""

    def __init__(self, arch: Architecture) -> None:
        super().__init__()
        self.arch = arch
        self.embedding = Embedding(arch)
        self.blocks = nn.ModuleList(Block(arch) for _ in range(arch.n_blocks))
        self.summary = Summary(arch)

    def _blocks(self) -> Iterator[Block]:
        for block in self.blocks:
            assert isinstance(block, Block)
            yield block

    def store(self, rows: Tensor, dropouts: Dropouts | None = None) -> Memory:
        """Embed training rows (n, d), target included, and project them for the H_s of every block."""
        x = self.embedding(rows, None, dropouts.embedding if dropouts else None).flatten(1)
        x = F.layer_norm(x, x.shape[1:])
        return [block.samples.store(x) for block in self._blocks()]

    def _start(self, rows: Tensor, masked: Tensor, dropouts: Dropouts | None) -> tuple[Tensor, Memory]:
        """The first prediction xi (b, d e), and keys and values of its attributes, one pair per block.

        Every H_f stores the same normalised input, so that one product serves all blocks.
        """
        y = self.embedding(rows, masked, dropouts.embedding if dropouts else None)
        per_block = [block.features.stored_maps() for block in self._blocks()]
        maps = [m for of_block in per_block for m in of_block]
        projected = iter(project_attributes(maps, self.arch.n_networks, F.layer_norm(y, y.shape[2:])))
        pairs = [[next(projected) for _ in of_block] for of_block in per_block]
        return y.flatten(1), [(pair[0], pair[-1]) for pair in pairs]

    def forward(
        self,
        rows: Tensor,
        masked: Tensor,
        memory: Memory,
        dropouts: Dropouts | None = None,
        leave_out_own: bool = False,
    ) -> list[Tensor]:
        """Predictions of all attributes by group: logits (b, count, width), or numbers where width is 1."""
        xi, attributes = self._start(rows, masked, dropouts)
        for block, stored, own in zip(self._blocks(), memory, attributes, strict=True):
            xi = block(xi, stored, own, leave_out_own, dropouts.block if dropouts else None)
        predictions: list[Tensor] = self.summary(xi, dropouts.summary if dropouts else None)
        return predictions

    def target(self, predictions: list[Tensor]) -> Tensor:
        """The target's part of `forward`'s result: (b, width)."""
        return self.attribute(predictions, self.arch.target)

    def attribute(self, predictions: list[Tensor], index: int) -> Tensor:
        """The part of attribute `index`: (b, width)."""
        for group, prediction in zip(self.summary.groups, predictions, strict=True):
            if group.start <= index < group.stop:
                return prediction[:, index - group.start]
        raise IndexError(f"attribute {index} of {self.arch.n_attributes}")

    @torch.no_grad()
    def read_weights(self, rows: Tensor, masked: Tensor, memory: Memory) -> Tensor:
        """How strongly each stored row was read for each row (b, n), averaged over blocks and networks."""
        xi, attributes = self._start(rows, masked, None)
        total = torch.zeros((), device=rows.device)
        for block, stored, own in zip(self._blocks(), memory, attributes, strict=True):
            total = total + block.samples.weights(xi, stored)
            xi = block(xi, stored, own, False, None)
        return total / len(self.blocks)
