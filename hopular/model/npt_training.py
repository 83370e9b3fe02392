"""Train Non-Parametric Transformers as their authors' code does: masking, loss, learning rate and optimiser.

Figures are those of the authors' runs on small tables (scripts/uci_class_reg.sh of their repository), which are the
settings that the Hopular paper took over.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import torch
from torch import Tensor, nn

from hopular.model.architecture import Architecture, Group
from hopular.model.masking import Masking
from hopular.model.network import Hopular
from hopular.model.objective import attribute_losses, cosine
from hopular.model.optimizer import Lamb, LambSettings, Lookahead
from hopular.model.recipe import Recipe
from hopular.model.training import Procedure

MASKED = 0.9  # of the values chosen to be predicted; the others carry a random value
LARGEST_GRADIENT = 1.0  # every number of a gradient is clamped to this
FLAT = 0.5  # share of training at the full learning rate before it is annealed
WARM_UP = 0.2  # share of training in which the learning rate of the cyclic schedule rises


class NPTMasking(Masking):
    """Chooses labels and features to be predicted; these are masked, or replaced by a random value, and alone count.

    A label that is not chosen is shown like a feature. If all labels are chosen, all are masked and none is replaced.
    """

    def __init__(self, arch: Architecture, recipe: Recipe, label_mask_probability: float, seed: int) -> None:
        mask, replacement = recipe.mask_probability, recipe.replace_probability
        super().__init__(arch.widths, arch.target, mask, replacement, seed)
        self.masked = torch.full((arch.n_attributes,), mask)
        self.chosen = torch.full((arch.n_attributes,), mask + replacement)
        self.chosen[arch.target] = label_mask_probability
        self.masked[arch.target] = label_mask_probability * (MASKED if label_mask_probability < 1 else 1.0)

    def step(self, rows: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        draw = torch.rand(rows.shape, generator=self.generator)
        noise = self.noise(rows)
        known = ~rows.isnan()
        chosen = (draw < self.chosen).to(rows.device) & known
        masked = (draw < self.masked).to(rows.device) & known
        return torch.where(chosen & ~masked, noise, rows), masked, rows.masked_fill(~chosen, torch.nan)


def npt_objective(predictions: list[Tensor], rows: Tensor, groups: list[Group], target: int, gamma: float) -> Tensor:
    """Return gamma L_f + (1 - gamma) L_t, where L_f is the mean over all feature values known in `rows`.

    Hopular's is a mean over attributes instead, whichever number of values each of them has.
    """
    losses, _ = attribute_losses(predictions, rows, groups)
    count = (~rows.isnan()).sum(0)
    count[target] = 0
    feature_loss = (losses * count).sum() / count.sum().clamp(min=1)
    return gamma * feature_loss + (1 - gamma) * losses[target]


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


class NPTOptimizer(Lookahead):
    """LAMB inside Lookahead with alpha = 0.5 and k = 6, on gradients clamped number by number."""

    def __init__(self, parameters: Iterable[nn.Parameter], slow: Iterable[nn.Parameter], weight_decay: float) -> None:
        self._parameters = list(parameters)
        settings = LambSettings(weight_decay=weight_decay, max_gradient_norm=math.inf)
        super().__init__(self._parameters, slow, settings, alpha=0.5, k=6)

    def step(self, learning_rate: float) -> None:
        nn.utils.clip_grad_value_(self._parameters, LARGEST_GRADIENT)
        super().step(learning_rate)


class NPTProcedure(Procedure):
    """The parts above, for the training loop."""

    def __init__(self, label_mask_probability: float, schedule: str) -> None:
        self.label_mask_probability = label_mask_probability
        self.schedule = SCHEDULES[schedule]

    def masking(self, arch: Architecture, recipe: Recipe, seed: int) -> Masking:
        return NPTMasking(arch, recipe, self.label_mask_probability, seed)

    def loss(self, predictions: list[Tensor], rows: Tensor, groups: list[Group], target: int, gamma: float) -> Tensor:
        return npt_objective(predictions, rows, groups, target, gamma)

    def optimizer(self, network: Hopular, slow: Hopular, recipe: Recipe) -> Lamb:
        return NPTOptimizer(network.parameters(), slow.parameters(), recipe.weight_decay)

    def learning_rate(self, recipe: Recipe, done: float) -> float:
        return self.schedule(recipe.learning_rate, done)
