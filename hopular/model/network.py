"""The Hopular network (Section 3, Algorithm 1): embedding layer, Hopular blocks, summarisation layer;
and how it learns.

A row is a float vector of d attributes, NaN where a value is missing. Attributes are sorted by width: continuous ones
(width 1, standardised) first, then categorical ones (their code; width = number of categories). One of them is the
target. Shapes are commented with K members, b rows, n stored rows, d attributes, e embedding dimension; rows come last,
as in every tensor of the model.
"""

from __future__ import annotations

import copy
import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from hopular.model.architecture import Architecture, attribute_groups
from hopular.model.block import Block, HopfieldModule, StoredRows
from hopular.model.dropout import DropoutPool, Dropouts
from hopular.model.lamb import Lamb
from hopular.model.masking import Masking, target_mask
from hopular.model.members import Draw, Linear, Memory, Network, Norm, map_together, normalise
from hopular.model.objective import cosine, objective
from hopular.model.recipe import Recipe
from hopular.model.trainer import Part, Step

WAVES, FREQUENCY = 8, 0.5  # periodic features of a number, and the spread of their frequencies at first

# --------------------------------------------------------------------------------------------------- embedding layer


class AttributeLinear(nn.Module):
    """A linear map of its own for each attribute: (K, count, inputs, b) -> (K, count, outputs, b)."""

    def __init__(self, draw: Draw, count: int, inputs: int, outputs: int) -> None:
        super().__init__()
        bound = 1 / math.sqrt(inputs)
        self.weight = draw.uniform(count, outputs, inputs, bound=bound)
        self.bias = draw.uniform(count, outputs, 1, bound=bound)

    def forward(self, x: Tensor) -> Tensor:
        return torch.matmul(self.weight, x) + self.bias


class Waves(nn.Module):
    """Periodic features of numbers (Gorishniy et al. 2022), mapped linearly: W cos(2 pi (c x + b)) for each attribute.

    The blocks have softmax and normalisation alone to bend what is linear in x; waves are bent from the start.
    """

    def __init__(self, draw: Draw, count: int, outputs: int) -> None:
        super().__init__()
        self.frequency = nn.Parameter(draw.normal(count, WAVES, 1, scale=FREQUENCY))
        self.phase = draw.uniform(count, WAVES, 1, bound=0.5)
        self.weight = draw.uniform(count, outputs, WAVES, bound=1 / math.sqrt(WAVES))

    def forward(self, x: Tensor) -> Tensor:
        """Map numbers (K, count, b) to (K, outputs, count, b)."""
        turn = 2 * math.pi
        waves = torch.cos(torch.addcmul(turn * self.phase, x[:, :, None], turn * self.frequency))
        return torch.matmul(self.weight, waves).transpose(1, 2)


class Embedding(nn.Module):
    """Value, position and type embeddings, summed (Section A.1); a masked and a missing value differ.

    The value of attribute j is mapped linearly from its one-hot code or number and one more input that is 1 where the
    value is masked. A missing value has all inputs 0, so that only position and type remain. The released code sends
    the sum through GELU, dropout, LayerNorm and a linear map per attribute (`embedding="projected"`). "periodic" adds
    waves of numbers to the sum.
    """

    def __init__(self, arch: Architecture, draw: Draw) -> None:
        super().__init__()
        d, e = arch.n_attributes, arch.embedding_dim
        widths = torch.tensor(arch.widths)
        self.n_continuous = int((widths == 1).sum())
        self.kinds: Tensor
        self.first_row: Tensor
        self.register_buffer("kinds", (widths > 1).long(), persistent=False)
        fan_in = (widths + 1.0).rsqrt()  # one-hot code or number, and the mask input
        if self.n_continuous:
            self.number = draw.uniform(e, self.n_continuous, bound=fan_in[widths == 1])
            self.waves = Waves(draw, self.n_continuous, e) if arch.embedding == "periodic" else None
        categories = widths[self.n_continuous :]
        if len(categories):  # rows of all categories of all categorical attributes
            self.register_buffer("first_row", (categories.cumsum(0) - categories)[:, None], persistent=False)
            bounds = torch.repeat_interleave(fan_in[widths > 1], categories)
            self.category = draw.uniform(int(categories.sum()), e, bound=bounds[:, None])
        self.mask = draw.uniform(e, d, bound=fan_in)
        self.position = draw.uniform(e, d, bound=1 / math.sqrt(e))
        self.kind = draw.uniform(e, 2, bound=1 / math.sqrt(e))
        self.project = None
        if arch.embedding == "projected":
            self.norm = Norm(draw, e)
            self.project = AttributeLinear(draw, d, e, e)

    def forward(self, x: Tensor, masked: Tensor | None, dropout: DropoutPool | None) -> Tensor:
        """Embed values (K, d, b), of which `masked` marks some: (K, e, d, b)."""
        members, d, rows = x.shape
        k = self.n_continuous
        hidden = x.isnan() if masked is None else x.isnan() | masked
        shown = x.masked_fill(hidden, 0)
        parts = []
        if k > 0:
            numbers = shown[:, None, :k] * self.number[..., None]
            if self.waves is not None:
                numbers = torch.addcmul(numbers, self.waves(shown[:, :k]), (~hidden[:, None, :k]).to(numbers.dtype))
            parts.append(numbers)
        if k < d:
            parts.append(self._categories(shown[:, k:].long(), hidden[:, k:]))
        y = torch.cat(parts, dim=2) if len(parts) > 1 else parts[0]
        y = y + (self.position + self.kind.index_select(2, self.kinds))[..., None]
        if masked is not None:
            y = torch.addcmul(y, masked[:, None].to(y.dtype), self.mask[..., None])
        if self.project is None:
            return y if dropout is None else dropout(y)
        y = F.gelu(y)
        y = self.norm((y if dropout is None else dropout(y)).flatten(2)).view(members, -1, d, rows)
        projected: Tensor = self.project(y.transpose(1, 2))
        return projected.transpose(1, 2)

    def _categories(self, codes: Tensor, hidden: Tensor) -> Tensor:
        """Embed codes (K, c, b) of categorical attributes: (K, e, c, b), 0 where hidden."""
        members, total, e = self.category.shape
        first = torch.arange(0, members * total, total, device=codes.device)[:, None, None]
        table = self.category.reshape(members * total, e)  # of all members, one below the other
        rows = F.embedding(codes + self.first_row + first, table)
        return (rows * ~hidden[..., None]).permute(0, 3, 1, 2)


# ----------------------------------------------------------------------------------------------- summarisation layer


class Summary(nn.Module):
    """From the refined state to a prediction of each attribute (Section A.1).

    The paper maps each attribute by itself ("attribute"); the released code lets them mix ("joint").
    """

    def __init__(self, arch: Architecture, draw: Draw) -> None:
        super().__init__()
        self.groups = attribute_groups(arch.widths)
        d, e = arch.n_attributes, arch.embedding_dim
        self.e, self.joint = e, arch.summary == "joint"
        self.norm = Norm(draw, d * e if self.joint else e)
        self.maps = nn.ModuleList(
            Linear(draw, d * e, g.count * g.width) if self.joint else AttributeLinear(draw, g.count, e, g.width)
            for g in self.groups
        )

    def forward(self, xi: Tensor, dropout: DropoutPool | None) -> list[Tensor]:
        """Map the state (K, e d, b) to predictions (K, count, width, b) of each group of attributes."""
        members, _, rows = xi.shape
        y = F.gelu(xi)
        y = y if dropout is None else dropout(y)
        if self.joint:
            y = self.norm(y)
            return [m(y).view(members, g.count, g.width, rows) for m, g in zip(self.maps, self.groups, strict=True)]
        y = self.norm(y.view(members, self.e, -1)).view(members, self.e, -1, rows).transpose(1, 2).contiguous()
        return [m(y[:, g.start : g.stop]) for m, g in zip(self.maps, self.groups, strict=True)]


# ------------------------------------------------------------------------------------------------------- the network


@dataclass(frozen=True)
class BlockMemory(Memory):
    """The training rows as every block's H_s stores them."""

    blocks: list[StoredRows]


class AttributePredictor(Network):
    """A network that predicts every attribute of a row, the target among them, and says which rows it has read."""

    summary: Any

    def __init__(self, arch: Architecture) -> None:
        super().__init__()
        self.arch, self.target = arch, arch.target

    def predict(self, rows: Tensor, memory: Memory) -> Tensor:
        """Predict the target with only the target masked."""
        return self.attribute(self(rows, target_mask(rows, self.target), memory), self.target)

    def attribute(self, predictions: list[Tensor], index: int) -> Tensor:
        """Return the part of attribute `index`: (K, width, b)."""
        for group, prediction in zip(self.summary.groups, predictions, strict=True):
            if group.start <= index < group.stop:
                return prediction[:, index - group.start]
        raise IndexError(f"attribute {index} of {self.arch.n_attributes}")

    @abstractmethod
    def read_weights(self, rows: Tensor, memory: Memory) -> Tensor:
        """Return how strongly each stored row is read for each row (K, n, b); the weights of a row sum to one."""


class Hopular(AttributePredictor):
    """Algorithm 1 for K members. `store` prepares the training rows, `forward` refines rows against them."""

    def __init__(self, arch: Architecture, seeds: Sequence[int], betas: Sequence[float] | None = None) -> None:
        """Make members from their seeds; `betas` gives each a beta-scaling factor of its own."""
        super().__init__(arch)
        draw = Draw(seeds)
        self.embedding = Embedding(arch, draw)
        blocks: Any = nn.ModuleList(Block(arch, draw) for _ in range(arch.n_blocks))
        self.blocks: Sequence[Block] = blocks
        self.summary = Summary(arch, draw)
        if betas is not None:
            for module in self.modules():
                if isinstance(module, HopfieldModule):
                    module.set_beta(torch.tensor(betas))

    def store(self, rows: Tensor, absent: Tensor | None = None, dropouts: Dropouts | None = None) -> Memory:
        """Embed training rows (K, d, n), target included, and project them for the H_s of every block.

        `absent` (K, n) marks rows that only fill up a member with fewer rows than others.
        """
        x = normalise(self.embedding(rows, None, dropouts.embedding if dropouts else None).flatten(1, 2))
        modules = [block.samples for block in self.blocks]
        patterns = iter(map_together(x, [one for module in modules for one in module.stored_maps]))
        return BlockMemory([module.store(patterns, absent) for module in modules])

    def forward(
        self,
        rows: Tensor,
        masked: Tensor,
        memory: Memory,
        dropouts: Dropouts | None = None,
        leave_out_own: bool = False,
    ) -> list[Tensor]:
        """Predict all attributes (K, count, width, b) by group: logits, or numbers where width is 1."""
        assert isinstance(memory, BlockMemory)
        y: Tensor = self.embedding(rows, masked, dropouts.embedding if dropouts else None)
        xi, own = y.flatten(1, 2), normalise(y.flatten(2))
        for block, stored in zip(self.blocks, memory.blocks, strict=True):
            xi = block(xi, own, stored, leave_out_own, dropouts.block if dropouts else None)
        predictions: list[Tensor] = self.summary(xi, dropouts.summary if dropouts else None)
        return predictions

    @torch.no_grad()
    def read_weights(self, rows: Tensor, memory: Memory) -> Tensor:
        """Return how strongly each stored row is read for each row (K, n, b), averaged over blocks and networks."""
        assert isinstance(memory, BlockMemory)
        y: Tensor = self.embedding(rows, target_mask(rows, self.target), None)
        xi, own, total = y.flatten(1, 2), normalise(y.flatten(2)), torch.zeros((), device=rows.device)
        for block, stored in zip(self.blocks, memory.blocks, strict=True):
            total = total + block.samples.weights(xi, stored)
            xi = block(xi, own, stored)
        return total / len(memory.blocks)


# ------------------------------------------------------------------------------------------------------ how it learns


class HopularStep(Step):
    """Lets masked rows read the stored ones, all but themselves, and descends by LAMB (Sections 3 and A.3)."""

    def __init__(
        self, network: Hopular, recipe: Recipe, seeds: Sequence[int], rows: Tensor, parts: Sequence[Part]
    ) -> None:
        arch = network.arch
        self.masking = Masking(arch.widths, arch.target, recipe.mask_probability, recipe.replace_probability, seeds)
        self.dropouts = Dropouts(arch.dropout_embedding, arch.dropout_block, arch.dropout_summary, seeds, rows.device)
        slow = copy.deepcopy(network).requires_grad_(False)
        optimizer = Lamb(
            network.parameters(), slow.parameters(), slow_rate=recipe.slow_rate, weight_decay=recipe.weight_decay
        )
        super().__init__(network, slow, optimizer, recipe, [self.masking, *self.dropouts.pools])

    def losses(self, stored: Tensor, size: int, done: float, weights: Tensor | None) -> Tensor:
        network: Any = self.network
        for pool in self.dropouts.pools:
            pool.renew()
        rows = stored[..., :size]
        seen, masked = self.masking(rows)
        predictions = network(seen, masked, network.store(stored, None, self.dropouts), self.dropouts, True)
        gamma = cosine(self.recipe.gamma, done)
        return objective(predictions, rows, network.summary.groups, network.target, gamma, weights)
