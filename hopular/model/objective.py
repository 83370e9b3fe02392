"""The objective L = gamma L_f + (1 - gamma) L_t (Eq. 10) and the annealing of gamma and the learning rate."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from hopular.model.architecture import Group


def cosine(start: float, progress: float) -> float:
    """Anneal along a cosine from `start` at progress 0 to 0 at progress 1."""
    return start * 0.5 * (1 + math.cos(math.pi * min(1.0, progress)))


def attribute_losses(
    predictions: list[Tensor], rows: Tensor, groups: list[Group], weights: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Return the mean loss per member and attribute (K, d) over the rows that know it, and whether any row does.

    Squared error for a continuous attribute, negative log-likelihood for a categorical one. `weights` (K, b) of rows
    multiply their losses; they are 1 on average over the table.
    """
    known = ~rows.isnan()
    truth = torch.nan_to_num(rows)
    losses = []
    for group, prediction in zip(groups, predictions, strict=True):
        part = truth[:, group.start : group.stop]
        if group.width == 1:
            losses.append((prediction.to(rows.dtype).squeeze(2) - part).square())
        else:
            log_p = F.log_softmax(prediction.to(rows.dtype), dim=2)
            losses.append(-log_p.gather(2, part.long()[:, :, None]).squeeze(2))
    loss = (losses[0] if len(losses) == 1 else torch.cat(losses, dim=1)) * known
    if weights is not None:
        loss = loss * weights[:, None]
    count = known.sum(2)
    return loss.sum(2) / count.clamp(min=1), count > 0


def objective(
    predictions: list[Tensor],
    rows: Tensor,
    groups: list[Group],
    target: int,
    gamma: float,
    weights: Tensor | None = None,
) -> Tensor:
    """Return gamma L_f + (1 - gamma) L_t of each member (K,); L_f is the mean over the features known in this batch."""
    losses, known = attribute_losses(predictions, rows, groups, weights)
    is_feature = known.clone()
    is_feature[:, target] = False
    feature_loss = (losses * is_feature).sum(1) / is_feature.sum(1).clamp(min=1)
    return gamma * feature_loss + (1 - gamma) * losses[:, target]
