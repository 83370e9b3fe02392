"""The Hopular network (Section 3, Algorithm 1): embedding layer, Hopular blocks, summarisation layer.

A row is a float vector of d attributes, NaN where a value is missing. Attributes are sorted by width: continuous ones
(width 1, standardised) first, then categorical ones (their code; width = number of categories). One of them is the
target. Shapes are commented with b rows, n stored rows, d attributes, e embedding dimension, M Hopfield networks.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from hopular.model.architecture import Architecture, attribute_groups
from hopular.model.block import AttributeMaps, Block, BlockReader, attribute_maps
from hopular.model.dropout import DropoutPool, Dropouts


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
        self.register_buffer("kinds", (widths > 1).long(), persistent=False)
        fan_in = (widths + 1.0).rsqrt()  # one-hot code or number, and the mask input
        categories = widths[self.n_continuous :]
        self.first_row: Tensor
        self.kinds: Tensor
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
        shown = x.masked_fill(hidden, 0)
        parts = []
        if k > 0:
            parts.append(shown[:, :k, None] * self.number)
        if k < d:
            row = (shown[:, k:].long() + self.first_row).masked_fill_(hidden[:, k:], self.no_value)
            parts.append(F.embedding(row, self.category, self.no_value))
        y = torch.cat(parts, dim=1) if len(parts) > 1 else parts[0]
        y = y + (self.position + self.kind.index_select(0, self.kinds))
        if masked is not None:
            y = torch.addcmul(y, masked[:, :, None].to(y.dtype), self.mask)
        if self.project is None:
            return y if dropout is None else dropout(y)
        y = F.gelu(y)
        return self.project(self.norm(y if dropout is None else dropout(y)))  # type: ignore[no-any-return]


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


class Memory:
    """What `store` makes of training rows and `forward` reads; each kind of network has its own."""


@dataclass(frozen=True)
class BlockMemory(Memory):
    """A reader of the training rows for every block, and the maps of all H_f."""

    blocks: list[BlockReader]
    maps: AttributeMaps


class Hopular(nn.Module):
    """Algorithm 1. `store` prepares the training rows, `forward` refines rows against them."""

    def __init__(self, arch: Architecture) -> None:
        super().__init__()
        self.arch = arch
        self.embedding = Embedding(arch)
        self.blocks = nn.ModuleList(Block(arch) for _ in range(arch.n_blocks))
        self.summary = Summary(arch)

    def _blocks(self) -> list[Block]:
        return [block for block in self.blocks if isinstance(block, Block)]

    def store(self, rows: Tensor, dropouts: Dropouts | None = None) -> Memory:
        """Embed training rows (n, d), target included, and project them for the H_s of every block."""
        x = self.embedding(rows, None, dropouts.embedding if dropouts else None).flatten(1)
        x = F.layer_norm(x, x.shape[1:])
        return BlockMemory([block.store(x) for block in self._blocks()], attribute_maps(self._blocks()))

    def forward(
        self,
        rows: Tensor,
        masked: Tensor,
        memory: Memory,
        dropouts: Dropouts | None = None,
        leave_out_own: bool = False,
    ) -> list[Tensor]:
        """Predictions of all attributes by group: logits (b, count, width), or numbers where width is 1."""
        assert isinstance(memory, BlockMemory)
        y: Tensor = self.embedding(rows, masked, dropouts.embedding if dropouts else None)
        xi, dropout = y.flatten(1), dropouts.block if dropouts else None
        for block, own in zip(memory.blocks, memory.maps.project(y), strict=True):
            xi = block.refine(xi, own, leave_out_own, dropout)
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
        assert isinstance(memory, BlockMemory)
        y: Tensor = self.embedding(rows, masked, None)
        xi, total = y.flatten(1), torch.zeros((), device=rows.device)
        for block, own in zip(memory.blocks, memory.maps.project(y), strict=True):
            total = total + block.samples.weights(xi)
            xi = block.refine(xi, own)
        return total / len(memory.blocks)
