"""Non-Parametric Transformers (Kossen et al. 2021) in the non-transductive setting of the Hopular paper.

Layers in turn let the rows of a table, each flattened to one vector, attend to one another, and the attributes of a
row. A training step sees one table: its own rows, what they have to predict masked in all of them. A row to predict
reads the stored training rows and itself. These read one another and never it, so what a training row is in each layer
depends on the training set alone: `store` computes it once. Docs: "NPT: what is as published and what is not".

Shapes are commented with K members, b rows, n stored rows, d attributes, e embedding dimension, M heads of width h.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from hopular.model.architecture import Architecture, Group, attribute_groups
from hopular.model.association import associate, associate_attributes, association_weights
from hopular.model.dropout import DropoutPool, Dropouts
from hopular.model.lamb import Lookahead
from hopular.model.masking import Masking, target_mask
from hopular.model.members import Draw, Linear, Memory, Norm
from hopular.model.network import AttributeLinear, AttributePredictor, Embedding
from hopular.model.objective import attribute_losses, cosine
from hopular.model.prediction import FEW
from hopular.model.recipe import Recipe
from hopular.model.trainer import Part, Step

HIDDEN = 4  # hidden units of a feed-forward part, as a multiple of its width
EPSILON = 1e-12  # of LayerNorm
SCORES = 1 << 22  # attention weights that a prediction holds at once
Pair = tuple[Tensor, Tensor]


def _drop(x: Tensor, dropout: DropoutPool | None) -> Tensor:
    return x if dropout is None else dropout(x)


class FeedForward(nn.Module):
    """The row-wise part that follows each attention: LayerNorm, one hidden layer of GELU, residual."""

    def __init__(self, draw: Draw, width: int) -> None:
        super().__init__()
        self.norm = Norm(draw, width, EPSILON)
        self.up = Linear(draw, width, HIDDEN * width)
        self.down = Linear(draw, HIDDEN * width, width)

    def forward(self, x: Tensor, dropout: DropoutPool | None) -> Tensor:
        hidden = _drop(F.gelu(self.up(self.norm(x))), dropout)
        return x + _drop(self.down(hidden), dropout)


class Attention(nn.Module):
    """The parts of both kinds of attention, as released.

    LayerNorm comes before the queries alone, scores are divided by the root of the whole width, and the residual
    connection has a map of its own, W^R.
    """

    def __init__(self, draw: Draw, width: int, n_heads: int) -> None:
        super().__init__()
        self.n_heads, self.h = n_heads, max(1, width // n_heads)
        self.beta = 1 / math.sqrt(width)
        inner = n_heads * self.h
        self.norm = Norm(draw, width, EPSILON)
        self.query = Linear(draw, width, inner)
        self.key = Linear(draw, width, inner)
        self.value = Linear(draw, width, inner)
        self.mix = Linear(draw, inner, width)
        self.residual = Linear(draw, width, width)
        self.feed_forward = FeedForward(draw, width)

    def finish(self, x: Tensor, read: Tensor, dropout: DropoutPool | None) -> Tensor:
        """Mix what the heads have read, add the residual of `x`, and pass the sum through the feed-forward part."""
        x = self.residual(x) + _drop(self.mix(read), dropout)
        return self.feed_forward(x, dropout)  # type: ignore[no-any-return]


class RowAttention(Attention):
    """Attention between datapoints: a row, flattened to e d numbers, reads other rows."""

    def _by_head(self, units: Tensor) -> Tensor:
        """View units (K, M h, rows) as (K, M, h, rows)."""
        return units.view(len(units), self.n_heads, self.h, -1)

    def _query(self, x: Tensor) -> Tensor:
        return self._by_head(self.query(self.norm(x)) * self.beta)

    def store(self, x: Tensor) -> Pair:
        """Return keys and values (K, M, h, n) of rows as they are before this layer (K, e d, n)."""
        return self._by_head(self.key(x)), self._by_head(self.value(x))

    def forward(self, x: Tensor, own: Pair, absent: Tensor | None, dropout: DropoutPool | None) -> Tensor:
        """Let the rows of a table read all of its rows; `own` are their keys and values."""
        read = associate(self._query(x), *own, absent=absent, dropout=dropout)
        return self.finish(x, read.flatten(1, 2), dropout)

    def predict(self, x: Tensor, stored: Pair, absent: Tensor | None) -> Tensor:
        """Let each row read the stored rows and itself, none of the rows beside it."""
        query, (key, value), (own_key, own_value) = self._query(x), stored, self.store(x)
        own = (query * own_key).sum(2, keepdim=True)
        size = max(1, SCORES // (len(x) * self.n_heads * key.shape[-1]) // FEW) * FEW
        reads = []
        for start in range(0, x.shape[-1], size):
            rows = slice(start, start + size)
            scores = key.mT @ query[..., rows]
            if absent is not None:
                scores.masked_fill_(absent[:, None, :, None], -torch.inf)
            weights = torch.cat([scores, own[..., rows]], dim=2).softmax(2)
            reads.append(value @ weights[:, :, :-1] + weights[:, :, -1:] * own_value[..., rows])
        return self.finish(x, torch.cat(reads, dim=-1).flatten(1, 2), None)

    def weights(self, x: Tensor, stored: Pair, absent: Tensor | None) -> Tensor:
        """Return how strongly each stored row is read beside the others (K, n, b), averaged over the heads."""
        return association_weights(self._query(x), stored[0], absent)


class AttributeAttention(Attention):
    """Attention between attributes: the d attributes of a row read one another."""

    def __init__(self, draw: Draw, arch: Architecture) -> None:
        super().__init__(draw, arch.embedding_dim, arch.n_networks)
        self.n_attributes = arch.n_attributes

    def forward(self, x: Tensor, dropout: DropoutPool | None) -> Tensor:
        """Let the attributes of each row (K, e, d b) read one another."""
        units = (self.query(self.norm(x)) * self.beta, self.key(x), self.value(x))
        shape = (len(x), self.n_heads, self.h, self.n_attributes, -1)
        query, key, value = (one.view(shape) for one in units)
        read = associate_attributes(query, key, value, dropout)
        return self.finish(x, read.flatten(1, 2).flatten(2), dropout)


class Output(nn.Module):
    """A linear map of its own from each attribute's final state to its prediction."""

    def __init__(self, arch: Architecture, draw: Draw) -> None:
        super().__init__()
        self.groups, self.e = attribute_groups(arch.widths), arch.embedding_dim
        self.maps = nn.ModuleList(AttributeLinear(draw, g.count, self.e, g.width) for g in self.groups)

    def forward(self, x: Tensor, dropout: DropoutPool | None) -> list[Tensor]:
        """Map the state (K, e d, b) to predictions (K, count, width, b) of each group of attributes."""
        y = _drop(x, dropout).view(len(x), self.e, -1, x.shape[-1]).transpose(1, 2).contiguous()
        return [m(y[:, g.start : g.stop]) for m, g in zip(self.maps, self.groups, strict=True)]


@dataclass(frozen=True)
class LayerMemory(Memory):
    """Keys and values of the training rows for each row attention; `absent` (K, n) marks what fills up a member's."""

    pairs: list[Pair]
    absent: Tensor | None = None


class NPT(AttributePredictor):
    """The network: `n_blocks` of the architecture counts the layers, row attention first; `n_networks` the heads.

    `shows_labels` says whether stored rows show their labels. A network trained with all labels masked has never seen
    one, and is shown none.
    """

    def __init__(self, arch: Architecture, seeds: Sequence[int], *, shows_labels: bool) -> None:
        super().__init__(arch)
        self.shows_labels = shows_labels
        draw = Draw(seeds)
        self.embedding = Embedding(arch, draw)
        with torch.no_grad():
            for parameter in (self.embedding.position, self.embedding.kind):
                parameter.copy_(draw.normal(*parameter.shape[1:], scale=1.0))
        width = arch.n_attributes * arch.embedding_dim
        self.blocks = nn.ModuleList(
            AttributeAttention(draw, arch) if i % 2 else RowAttention(draw, width, arch.n_networks)
            for i in range(arch.n_blocks)
        )
        self.last = (arch.n_blocks - 1) // 2 * 2  # the last row attention
        self.summary = Output(arch, draw)

    def _embed(self, rows: Tensor, masked: Tensor, dropouts: Dropouts | None) -> Tensor:
        """Embed rows as (K, e d, b); a missing value looks like a masked one."""
        x: Tensor = self.embedding(rows, masked | rows.isnan(), dropouts.embedding if dropouts else None)
        return x.flatten(1, 2)

    def _between_attributes(self, layer: nn.Module, x: Tensor, dropout: DropoutPool | None) -> Tensor:
        y: Tensor = layer(x.view(len(x), self.arch.embedding_dim, -1), dropout)
        return y.view_as(x)

    def store(self, rows: Tensor, absent: Tensor | None = None) -> LayerMemory:
        """Pass training rows (K, d, n) through the network and keep their keys and values of every row attention."""
        return LayerMemory(list(self._pairs(rows, absent)), absent)

    def _pairs(self, rows: Tensor, absent: Tensor | None) -> Iterator[Pair]:
        labels = target_mask(rows, self.target)
        x = self._embed(rows, torch.zeros_like(labels) if self.shows_labels else labels, None)
        for i, layer in enumerate(self.blocks):
            if isinstance(layer, RowAttention):
                own = layer.store(x)
                yield own
                if i == self.last:
                    return  # what follows would be read by nobody
                x = layer(x, own, absent, None)
            else:
                x = self._between_attributes(layer, x, None)

    def learn(self, rows: Tensor, masked: Tensor, dropouts: Dropouts) -> list[Tensor]:
        """Predict all attributes of the rows of a training step: they are the table, and nothing is read beside them.

        What counts in the loss is masked or replaced wherever it could be read, so no row has to be left out.
        """
        x = self._embed(rows, masked, dropouts)
        for layer in self.blocks:
            if isinstance(layer, RowAttention):
                x = layer(x, layer.store(x), None, dropouts.block)
            else:
                x = self._between_attributes(layer, x, dropouts.block)
        predictions: list[Tensor] = self.summary(x, dropouts.summary)
        return predictions

    def forward(self, rows: Tensor, masked: Tensor, memory: Memory) -> list[Tensor]:
        """Predict all attributes (K, count, width, b) by group: logits, or numbers where width is 1."""
        assert isinstance(memory, LayerMemory)
        x, stored = self._embed(rows, masked, None), iter(memory.pairs)
        for layer in self.blocks:
            if isinstance(layer, RowAttention):
                x = layer.predict(x, next(stored), memory.absent)
            else:
                x = self._between_attributes(layer, x, None)
        predictions: list[Tensor] = self.summary(x, None)
        return predictions

    @torch.no_grad()
    def read_weights(self, rows: Tensor, memory: Memory) -> Tensor:
        """Return how strongly each stored row was read for each row (K, n, b), averaged over row attentions and heads.

        The share that a row reads of itself is left out: the weights of the stored rows sum to one.
        """
        assert isinstance(memory, LayerMemory)
        masked = target_mask(rows, self.target)
        x, stored, weights = self._embed(rows, masked, None), iter(memory.pairs), []
        for layer in self.blocks:
            if isinstance(layer, RowAttention):
                pair = next(stored)
                weights.append(layer.weights(x, pair, memory.absent))
                x = layer.predict(x, pair, memory.absent)
            else:
                x = self._between_attributes(layer, x, None)
        return torch.stack(weights).mean(0)


# ------------------------------------------------------------------------------------------------------ how it learns

# As in the authors' runs on small tables (scripts/uci_class_reg.sh of their repository), whose settings the Hopular
# paper took over.
MASKED = 0.9  # of the values chosen to be predicted; the others carry a random value
LARGEST_GRADIENT = 1.0  # every number of a gradient is clamped to this
FLAT = 0.5  # share of training at the full learning rate before it is annealed
WARM_UP = 0.2  # share of training in which the learning rate of the cyclic schedule rises


class NPTMasking(Masking):
    """Chooses labels and features to be predicted; these are masked, or replaced by a random value, and alone count.

    A label that is not chosen is shown like a feature. If all labels are chosen, all are masked and none is replaced.
    """

    def __init__(self, arch: Architecture, recipe: Recipe, label_mask_probability: float, seeds: Sequence[int]) -> None:
        mask, replacement = recipe.mask_probability, recipe.replace_probability
        super().__init__(arch.widths, arch.target, mask, replacement, seeds)
        self.masked = torch.full((arch.n_attributes, 1), mask)
        self.chosen = torch.full((arch.n_attributes, 1), mask + replacement)
        self.chosen[arch.target] = label_mask_probability
        self.masked[arch.target] = label_mask_probability * (MASKED if label_mask_probability < 1 else 1.0)

    def step(self, rows: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return rows (K, d, b) as the network is to see them, what of them is masked, and what it has to predict."""
        draw, noise = self.uniform(rows), self.noise(rows)
        known = ~rows.isnan()
        chosen = (draw < self.chosen.to(rows.device)) & known
        masked = (draw < self.masked.to(rows.device)) & known
        return torch.where(chosen & ~masked, noise, rows), masked, rows.masked_fill(~chosen, torch.nan)


def npt_objective(
    predictions: list[Tensor],
    rows: Tensor,
    groups: list[Group],
    target: int,
    gamma: float,
    weights: Tensor | None = None,
) -> Tensor:
    """Return gamma L_f + (1 - gamma) L_t of each member (K,), where L_f is the mean over all feature values in `rows`.

    Hopular's is a mean over attributes instead, whichever number of values each of them has.
    """
    losses, _ = attribute_losses(predictions, rows, groups, weights)
    count = (~rows.isnan()).sum(2)
    count[:, target] = 0
    feature_loss = (losses * count).sum(1) / count.sum(1).clamp(min=1)
    return gamma * feature_loss + (1 - gamma) * losses[:, target]


def flat_and_anneal(peak: float, progress: float) -> float:
    """Return the learning rate that stays at `peak` and then follows a cosine to 0; the paper's table says "cosine"."""
    return cosine(peak, max(0.0, progress - FLAT) / (1 - FLAT))


def cosine_cyclic(peak: float, progress: float) -> float:
    """Return the learning rate that rises to `peak` and falls along cosines, each twice as long and half as high.

    The first fall takes twice the warm-up. The second is half done when training ends, at a quarter of `peak`.
    """
    if progress < WARM_UP:
        return peak * progress / WARM_UP
    since, period = progress - WARM_UP, 2 * WARM_UP
    while since >= period:
        since, period, peak = since - period, 2 * period, peak / 2
    return cosine(peak, since / period)


SCHEDULES = {"flat-and-anneal": flat_and_anneal, "cosine-cyclic": cosine_cyclic}


def npt_optimizer(parameters: Iterable[nn.Parameter], slow: Iterable[nn.Parameter], weight_decay: float) -> Lookahead:
    """Return LAMB inside Lookahead with alpha = 0.5 and k = 6, on gradients clamped number by number."""
    return Lookahead(
        parameters,
        slow,
        alpha=0.5,
        k=6,
        weight_decay=weight_decay,
        max_gradient_norm=None,
        max_gradient=LARGEST_GRADIENT,
    )


class NPTStep(Step):
    """Learns from the rows of a step as a table of their own, by the parts above."""

    network: NPT

    def __init__(
        self,
        network: NPT,
        recipe: Recipe,
        seeds: Sequence[int],
        rows: Tensor,
        parts: Sequence[Part],
        *,
        label_mask_probability: float,
        schedule: str,
    ) -> None:
        arch = network.arch
        self.masking = NPTMasking(arch, recipe, label_mask_probability, seeds)
        self.dropouts = Dropouts(arch.dropout_embedding, arch.dropout_block, arch.dropout_summary, seeds, rows.device)
        self.schedule = SCHEDULES[schedule]
        slow = copy.deepcopy(network).requires_grad_(False)
        optimizer = npt_optimizer(network.parameters(), slow.parameters(), recipe.weight_decay)
        super().__init__(network, slow, optimizer, recipe, [self.masking, *self.dropouts.pools])

    def losses(self, stored: Tensor, size: int, done: float, weights: Tensor | None) -> Tensor:
        for pool in self.dropouts.pools:
            pool.renew()
        seen, masked, truth = self.masking.step(stored[..., :size])
        predictions = self.network.learn(seen, masked, self.dropouts)
        network, gamma = self.network, cosine(self.recipe.gamma, done)
        return npt_objective(predictions, truth, network.summary.groups, network.target, gamma, weights)

    def learning_rate(self, done: float) -> float:
        return self.schedule(self.recipe.learning_rate, done)
