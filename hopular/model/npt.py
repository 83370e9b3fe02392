"""Non-Parametric Transformers (Kossen et al. 2021) in the non-transductive setting of the Hopular paper.

Layers in turn let the rows of a table, each flattened to one vector, attend to one another, and the attributes of a
row. A training step sees one table: its own rows, what they have to predict masked in all of them. A row to predict
reads the stored training rows and itself. These read one another and never it, so what a training row is in each layer
depends on the training set alone: `store` computes it once. Docs: "NPT: what is as published and what is not".

Shapes are commented with b rows, n stored rows, d attributes, e embedding dimension, M heads of width h.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from hopular.model.architecture import Architecture, attribute_groups
from hopular.model.association import associate, association_weights
from hopular.model.block import by_network
from hopular.model.dropout import DropoutPool, Dropouts
from hopular.model.masking import target_mask
from hopular.model.network import AttributeLinear, Hopular, Memory
from hopular.model.prediction import FEW

HIDDEN = 4  # hidden units of a feed-forward part, as a multiple of its width
EPSILON = 1e-12  # of LayerNorm
SCORES = 1 << 22  # attention weights that a prediction holds at once


def _drop(x: Tensor, dropout: DropoutPool | None) -> Tensor:
    return x if dropout is None else dropout(x)


class FeedForward(nn.Module):
    """The row-wise part that follows each attention: LayerNorm, one hidden layer of GELU, residual."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width, eps=EPSILON)
        self.up = nn.Linear(width, HIDDEN * width)
        self.down = nn.Linear(HIDDEN * width, width)

    def forward(self, x: Tensor, dropout: DropoutPool | None) -> Tensor:
        hidden = _drop(F.gelu(self.up(self.norm(x))), dropout)
        return x + _drop(self.down(hidden), dropout)


class Attention(nn.Module):
    """The parts of both kinds of attention, as released.

    LayerNorm comes before the queries alone, scores are divided by the root of the whole width, and the residual
    connection has a map of its own, W^R.
    """

    def __init__(self, width: int, n_heads: int) -> None:
        super().__init__()
        self.n_heads = n_heads
        self.beta = 1 / math.sqrt(width)
        inner = n_heads * max(1, width // n_heads)
        self.norm = nn.LayerNorm(width, eps=EPSILON)
        self.query = nn.Linear(width, inner)
        self.key = nn.Linear(width, inner)
        self.value = nn.Linear(width, inner)
        self.mix = nn.Linear(inner, width)
        self.residual = nn.Linear(width, width)
        self.feed_forward = FeedForward(width)

    def finish(self, x: Tensor, read: Tensor, dropout: DropoutPool | None) -> Tensor:
        """Mix what the heads have read, add the residual of `x`, and pass the sum through the feed-forward part."""
        x = self.residual(x) + _drop(self.mix(read), dropout)
        return self.feed_forward(x, dropout)  # type: ignore[no-any-return]


class RowAttention(Attention):
    """Attention between datapoints: a row, flattened to d e numbers, reads other rows."""

    def _query(self, flat: Tensor) -> Tensor:
        return by_network(self.query(self.norm(flat)), self.n_heads)

    def store(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return keys and values (M, n, h) of rows as they are before this layer (n, d, e)."""
        flat = x.flatten(1)
        return by_network(self.key(flat), self.n_heads), by_network(self.value(flat), self.n_heads)

    def forward(self, x: Tensor, own: tuple[Tensor, Tensor], dropout: DropoutPool | None) -> Tensor:
        """Let the rows of a table read all of its rows; `own` are their keys and values."""
        flat = x.flatten(1)
        read = associate(self._query(flat), *own, self.beta, dropout=dropout)
        return self.finish(flat, read.transpose(0, 1).flatten(1), dropout).view_as(x)

    def predict(self, x: Tensor, stored: tuple[Tensor, Tensor]) -> Tensor:
        """Let each row read the stored rows and itself, none of the rows beside it."""
        flat = x.flatten(1)
        query, (key, value), (own_key, own_value) = self._query(flat), stored, self.store(x)
        own = (query * own_key).sum(2, keepdim=True)
        size = max(FEW, SCORES // (self.n_heads * key.shape[1]))
        reads = []
        for start in range(0, len(x), size):
            rows = slice(start, start + size)
            weights = torch.cat([query[:, rows] @ key.mT, own[:, rows]], dim=2).mul_(self.beta).softmax(2)
            reads.append(weights[..., :-1] @ value + weights[..., -1:] * own_value[:, rows])
        return self.finish(flat, torch.cat(reads, dim=1).transpose(0, 1).flatten(1), None).view_as(x)

    def weights(self, x: Tensor, stored: tuple[Tensor, Tensor]) -> Tensor:
        """Return how strongly each stored row is read beside the others (b, n), averaged over the heads."""
        return association_weights(self._query(x.flatten(1)), stored[0], self.beta)


class AttributeAttention(Attention):
    """Attention between attributes: the d attributes of a row read one another."""

    def _split(self, x: Tensor) -> Tensor:
        b, d, _ = x.shape
        return x.view(b, d, self.n_heads, -1).transpose(1, 2).reshape(b * self.n_heads, d, -1)

    def forward(self, x: Tensor, dropout: DropoutPool | None) -> Tensor:
        b, d, _ = x.shape
        query, key, value = self._split(self.query(self.norm(x))), self._split(self.key(x)), self._split(self.value(x))
        read = associate(query, key, value, self.beta, dropout=dropout)
        return self.finish(x, read.view(b, self.n_heads, d, -1).transpose(1, 2).flatten(2), dropout)


class Output(nn.Module):
    """A linear map of its own from each attribute's final state to its prediction."""

    def __init__(self, arch: Architecture) -> None:
        super().__init__()
        self.groups = attribute_groups(arch.widths)
        self.maps = nn.ModuleList(AttributeLinear(g.count, arch.embedding_dim, g.width) for g in self.groups)

    def forward(self, x: Tensor, dropout: DropoutPool | None) -> list[Tensor]:
        """(b, d, e) -> for each group of attributes (b, count, width)."""
        y = _drop(x, dropout)
        return [m(y[:, g.start : g.stop]) for m, g in zip(self.maps, self.groups, strict=True)]


@dataclass(frozen=True)
class StoredRows(Memory):
    """Keys and values of the training rows for each row attention; none for a training step, which needs none."""

    pairs: list[tuple[Tensor, Tensor]]


class NPT(Hopular):
    """The network: `n_blocks` of the architecture counts the layers, row attention first; `n_networks` the heads.

    `shows_labels` says whether stored rows show their labels. A network trained with all labels masked has never seen
    one, and is shown none.
    """

    def __init__(self, arch: Architecture, *, shows_labels: bool) -> None:
        super().__init__(replace(arch, n_blocks=0))
        self.arch, self.shows_labels = arch, shows_labels
        d, e, heads = arch.n_attributes, arch.embedding_dim, arch.n_networks
        nn.init.normal_(self.embedding.position)
        nn.init.normal_(self.embedding.kind)
        self.blocks = nn.ModuleList(
            AttributeAttention(e, heads) if i % 2 else RowAttention(d * e, heads) for i in range(arch.n_blocks)
        )
        self.last = (arch.n_blocks - 1) // 2 * 2  # the last row attention
        self.summary = Output(arch)  # type: ignore[assignment]

    def _embed(self, rows: Tensor, masked: Tensor, dropouts: Dropouts | None) -> Tensor:
        """Embed rows as (b, d, e); a missing value looks like a masked one."""
        x: Tensor = self.embedding(rows, masked | rows.isnan(), dropouts.embedding if dropouts else None)
        return x

    def store(self, rows: Tensor, dropouts: Dropouts | None = None) -> StoredRows:
        """Pass training rows (n, d) through the network and keep their keys and values of every row attention.

        A training step, which has dropouts, gets nothing: its rows are a table of their own.
        """
        return StoredRows(list(self._pairs(rows)) if dropouts is None else [])

    def _pairs(self, rows: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
        labels = target_mask(rows, self.arch.target)
        x = self._embed(rows, torch.zeros_like(labels) if self.shows_labels else labels, None)
        for i, layer in enumerate(self.blocks):
            if isinstance(layer, RowAttention):
                own = layer.store(x)
                yield own
                if i == self.last:
                    return  # what follows would be read by nobody
                x = layer(x, own, None)
            else:
                x = layer(x, None)

    def forward(
        self,
        rows: Tensor,
        masked: Tensor,
        memory: Memory,
        dropouts: Dropouts | None = None,
        leave_out_own: bool = False,
    ) -> list[Tensor]:
        """Predict all attributes by group: logits (b, count, width), or numbers where width is 1.

        `leave_out_own` is said of the rows of a training step: they are the table, and nothing is read beside them.
        What counts in the loss is masked or replaced wherever it could be read, so no row has to be left out.
        """
        assert isinstance(memory, StoredRows)
        x, dropout = self._embed(rows, masked, dropouts), dropouts.block if dropouts else None
        stored = iter(memory.pairs)
        for layer in self.blocks:
            if not isinstance(layer, RowAttention):
                x = layer(x, dropout)
            elif leave_out_own:
                x = layer(x, layer.store(x), dropout)
            else:
                x = layer.predict(x, next(stored))
        predictions: list[Tensor] = self.summary(x, dropouts.summary if dropouts else None)
        return predictions

    @torch.no_grad()
    def read_weights(self, rows: Tensor, masked: Tensor, memory: Memory) -> Tensor:
        """Return how strongly each stored row was read for each row (b, n), averaged over row attentions and heads.

        The share that a row reads of itself is left out: the weights of the stored rows sum to one.
        """
        assert isinstance(memory, StoredRows)
        x = self._embed(rows, masked, None)
        stored = iter(memory.pairs)
        weights = []
        for layer in self.blocks:
            if isinstance(layer, RowAttention):
                pair = next(stored)
                weights.append(layer.weights(x, pair))
                x = layer.predict(x, pair)
            else:
                x = layer(x, None)
        return torch.stack(weights).mean(0)
