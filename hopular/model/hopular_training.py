"""Train Hopular as the paper does (Sections 3 and A.3): BERT masking, annealed objective, LAMB with slow weights."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

from torch import Tensor

from hopular.model.dropout import Dropouts
from hopular.model.lamb import Lamb
from hopular.model.masking import Masking
from hopular.model.network import Hopular
from hopular.model.objective import cosine, objective
from hopular.model.recipe import Recipe
from hopular.model.trainer import Part, Step


class HopularStep(Step):
    """Hopular's: masked rows read the stored ones, all but themselves, and LAMB descends (Sections 3 and A.3)."""

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

    def losses(self, stored: Tensor, size: int, done: float) -> Tensor:
        network: Any = self.network
        for pool in self.dropouts.pools:
            pool.renew()
        rows = stored[..., :size]
        seen, masked = self.masking(rows)
        predictions = network(seen, masked, network.store(stored, None, self.dropouts), self.dropouts, True)
        return objective(predictions, rows, network.summary.groups, network.target, cosine(self.recipe.gamma, done))
