"""Non-Parametric Transformers (Kossen et al. 2021) in the non-transductive setting of the Hopular paper.

Layers in turn let rows attend to the training rows, each flattened to one vector, and let the attributes of a row
attend to one another. Embedding, output map and objective are Hopular's. Rows to predict read the training rows
alone, so what a training row is in each layer depends on the training set alone: `store` computes it once. Shapes are
commented with b rows, n stored rows, d attributes, e embedding dimension, M heads of width h.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from hopular.model.architecture import Architecture
from hopular.model.association import associate, association_weights
from hopular.model.block import by_network
from hopular.model.dropout import DropoutPool, Dropouts
from hopular.model.network import Hopular, Memory

HIDDEN = 4  # hidden units of a feed-forward part, as a multiple of its width


class FeedForward(nn.Module):
    """The row-wise part that follows each attention: LayerNorm, one hidden layer of GELU, residual."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, HIDDEN * width)
        self.down = nn.Linear(HIDDEN * width, width)

    def forward(self, x: Tensor, dropout: DropoutPool | None) -> Tensor:
        y = F.gelu(self.up(self.norm(x)))
        return x + self.down(y if dropout is None else dropout(y))  # type: ignore[no-any-return]


class Attention(nn.Module):
    """What both kinds of attention consist of: LayerNorm before, M heads, a map that combines them, feed-forward."""

    def __init__(self, width: int, n_heads: int) -> None:
        super().__init__()
        self.n_heads = n_heads
        h = max(1, width // n_heads)
        self.beta = 1 / math.sqrt(h)
        self.norm = nn.LayerNorm(width)
        self.query = nn.Linear(width, n_heads * h)
        self.key = nn.Linear(width, n_heads * h)
        self.value = nn.Linear(width, n_heads * h)
        self.output = nn.Linear(n_heads * h, width)
        self.feed_forward = FeedForward(width)


class RowAttention(Attention):
    """Attention between datapoints: a row, flattened to d e numbers, reads the stored training rows."""

    def store(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Keys and values (M, n, h) of the training rows as they are before this layer (n, d, e)."""
        y = self.norm(x.flatten(1))
        return by_network(self.key(y), self.n_heads), by_network(self.value(y), self.n_heads)

    def forward(self, x: Tensor, stored: tuple[Tensor, Tensor], dropout: DropoutPool | None) -> Tensor:
        flat = x.flatten(1)
        query = by_network(self.query(self.norm(flat)), self.n_heads)
        read = associate(query, *stored, self.beta, dropout=dropout)
        flat = flat + self.output(read.transpose(0, 1).flatten(1))
        return self.feed_forward(flat, dropout).view_as(x)  # type: ignore[no-any-return]

    def weights(self, x: Tensor, stored: tuple[Tensor, Tensor]) -> Tensor:
        """How strongly each stored row is read (b, n), averaged over the heads."""
        query = by_network(self.query(self.norm(x.flatten(1))), self.n_heads)
        return association_weights(query, stored[0], self.beta)


class AttributeAttention(Attention):
    """Attention between attributes: the d attributes of a row read one another."""

    def _split(self, x: Tensor) -> Tensor:
        b, d, _ = x.shape
        return x.view(b, d, self.n_heads, -1).transpose(1, 2).reshape(b * self.n_heads, d, -1)

    def forward(self, x: Tensor, dropout: DropoutPool | None) -> Tensor:
        b, d, _ = x.shape
        y = self.norm(x)
        query, key, value = (self._split(linear(y)) for linear in (self.query, self.key, self.value))
        read = associate(query, key, value, self.beta, dropout=dropout)
        x = x + self.output(read.view(b, self.n_heads, d, -1).transpose(1, 2).flatten(2))
        return self.feed_forward(x, dropout)  # type: ignore[no-any-return]


@dataclass(frozen=True)
class StoredRows(Memory):
    """The training rows, with their keys and values for each row attention unless a training step is to read them."""

    rows: Tensor
    pairs: list[tuple[Tensor, Tensor]]


class NPT(Hopular):
    """The network: `n_blocks` of the architecture counts the layers, row attention first; `n_networks` the heads."""

    def __init__(self, arch: Architecture) -> None:
        super().__init__(replace(arch, n_blocks=0))
        self.arch = arch
        d, e, heads = arch.n_attributes, arch.embedding_dim, arch.n_networks
        self.blocks = nn.ModuleList(
            AttributeAttention(e, heads) if i % 2 else RowAttention(d * e, heads) for i in range(arch.n_blocks)
        )
        self.last = (arch.n_blocks - 1) // 2 * 2  # the last row attention

    def _embed(
        self, rows: Tensor, masked: Tensor | None, dropouts: Dropouts | None
    ) -> tuple[Tensor, DropoutPool | None]:
        """Embedded rows (b, d, e), and the dropout of the layers that follow."""
        if dropouts is None:
            return self.embedding(rows, masked, None), None
        return self.embedding(rows, masked, dropouts.embedding), dropouts.block

    def store(self, rows: Tensor, dropouts: Dropouts | None = None) -> StoredRows:
        """Training rows (n, d), target included, with their keys and values in every layer.

        A training step, which has dropouts, gets the rows alone: it reads them with its own rows left out.
        """
        return StoredRows(rows, list(self._pairs(rows)) if dropouts is None else [])

    def _pairs(self, rows: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
        """Keys and values of training rows that attend to one another, layer by layer."""
        x, dropout = self._embed(rows, None, None)
        for i, layer in enumerate(self.blocks):
            if isinstance(layer, RowAttention):
                stored = layer.store(x)
                yield stored
                if i == self.last:
                    return  # what follows would be read by nobody
                x = layer(x, stored, dropout)
            else:
                x = layer(x, dropout)

    def _apart(self, rows: Tensor, masked: Tensor, stored: Tensor, dropouts: Dropouts | None) -> list[Tensor]:
        """Predictions of the first of the `stored` rows, none of which is read: not even through another row.

        A row's label reaches all that attend to it, so leaving out its entry is not enough from the second row
        attention on. The batch reads the rows beside it; where these are too few, each half of it reads the other half
        as well.
        """
        size = len(rows)
        middle = size if 2 * (len(stored) - size) >= size else math.ceil(size / 2)
        parts = []
        for own in (slice(0, middle), slice(middle, size)):
            if own.start < own.stop:
                others = torch.cat([stored[: own.start], stored[own.stop :]])
                parts.append(self._together(rows[own], masked[own], others, dropouts))
        return [torch.cat(group) for group in zip(*parts, strict=True)]

    def _together(self, rows: Tensor, masked: Tensor, stored: Tensor, dropouts: Dropouts | None) -> list[Tensor]:
        """`forward` and `store` in one pass: one product for all rows is faster than two, above all backwards."""
        n = len(stored)
        first, dropout = self._embed(stored, None, dropouts)
        x = torch.cat([first, self._embed(rows, masked, dropouts)[0]])
        for i, layer in enumerate(self.blocks):
            if isinstance(layer, RowAttention):
                pair = layer.store(x[:n])
                x = layer(x[n:] if i == self.last else x, pair, dropout)
            else:
                x = layer(x, dropout)
        return self._predictions(x, dropouts)

    def _predictions(self, x: Tensor, dropouts: Dropouts | None) -> list[Tensor]:
        predictions: list[Tensor] = self.summary(x.flatten(1), dropouts.summary if dropouts else None)
        return predictions

    def forward(
        self,
        rows: Tensor,
        masked: Tensor,
        memory: Memory,
        dropouts: Dropouts | None = None,
        leave_out_own: bool = False,
    ) -> list[Tensor]:
        """Predictions of all attributes by group: logits (b, count, width), or numbers where width is 1.

        `leave_out_own` says that these rows are the first stored ones.
        """
        assert isinstance(memory, StoredRows)
        if leave_out_own:
            return self._apart(rows, masked, memory.rows, dropouts)
        if not memory.pairs:
            return self._together(rows, masked, memory.rows, dropouts)
        x, dropout = self._embed(rows, masked, dropouts)
        stored = iter(memory.pairs)
        for layer in self.blocks:
            x = layer(x, next(stored), dropout) if isinstance(layer, RowAttention) else layer(x, dropout)
        return self._predictions(x, dropouts)

    @torch.no_grad()
    def read_weights(self, rows: Tensor, masked: Tensor, memory: Memory) -> Tensor:
        """How strongly each stored row was read for each row (b, n), averaged over row attentions and heads."""
        assert isinstance(memory, StoredRows)
        x, _ = self._embed(rows, masked, None)
        stored = iter(memory.pairs)
        weights = []
        for layer in self.blocks:
            if isinstance(layer, RowAttention):
                pair = next(stored)
                weights.append(layer.weights(x, pair))
                x = layer(x, pair, None)
            else:
                x = layer(x, None)
        return torch.stack(weights).mean(0)
