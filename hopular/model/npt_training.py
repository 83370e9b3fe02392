"""Train Non-Parametric Transformers as their authors' code does: masking, loss, learning rate and optimiser.

Figures are those of the authors' runs on small tables (scripts/uci_class_reg.sh of their repository), which are the
settings that the Hopular paper took over.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence

import torch
from torch import Tensor, nn

from hopular.model.architecture import Architecture, Group
from hopular.model.dropout import Dropouts
from hopular.model.lamb import Lookahead
from hopular.model.masking import Masking
from hopular.model.npt import NPT
from hopular.model.objective import attribute_losses, cosine
from hopular.model.recipe import Recipe
from hopular.model.trainer import Part, Step

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


def npt_objective(predictions: list[Tensor], rows: Tensor, groups: list[Group], target: int, gamma: float) -> Tensor:
    """Return gamma L_f + (1 - gamma) L_t of each member (K,), where L_f is the mean over all feature values in `rows`.

    Hopular's is a mean over attributes instead, whichever number of values each of them has.
    """
    losses, _ = attribute_losses(predictions, rows, groups)
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

    def losses(self, stored: Tensor, size: int, done: float) -> Tensor:
        for pool in self.dropouts.pools:
            pool.renew()
        seen, masked, truth = self.masking.step(stored[..., :size])
        predictions = self.network.learn(seen, masked, self.dropouts)
        gamma = cosine(self.recipe.gamma, done)
        return npt_objective(predictions, truth, self.network.summary.groups, self.network.target, gamma)

    def learning_rate(self, done: float) -> float:
        return self.schedule(self.recipe.learning_rate, done)
