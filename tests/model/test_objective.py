"""The objective against loops over attributes and rows, and its annealing."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from hopular.model.architecture import attribute_groups
from hopular.model.objective import cosine, objective

WIDTHS = (1, 1, 2, 3, 3)
GROUPS = attribute_groups(WIDTHS)


def example(seed: int = 0, n: int = 8) -> tuple[list[Tensor], Tensor]:
    """Predictions (n, count, width) by group, and rows of which a third of the values is missing."""
    g = torch.Generator().manual_seed(seed)
    predictions = [torch.randn(n, group.count, group.width, generator=g, requires_grad=True) for group in GROUPS]
    columns = [torch.randn(n, generator=g) if w == 1 else torch.randint(w, (n,), generator=g).float() for w in WIDTHS]
    rows = torch.stack(columns, dim=1)
    rows[torch.rand(rows.shape, generator=g) < 0.3] = torch.nan
    return predictions, rows


def explicit(predictions: list[Tensor], rows: Tensor, target: int, gamma: float) -> float:
    """gamma L_f + (1 - gamma) L_t, one value at a time."""
    outputs = [p[:, j] for p in predictions for j in range(p.shape[1])]  # one (n, width) per attribute
    feature_losses, target_loss = [], 0.0
    for j, width in enumerate(WIDTHS):
        losses = []
        for i in range(len(rows)):
            value = rows[i, j].item()
            if math.isnan(value):
                continue
            output = outputs[j][i].tolist()
            if width == 1:
                losses.append((output[0] - value) ** 2)
            else:
                losses.append(math.log(sum(math.exp(o) for o in output)) - output[int(value)])
        if not losses:
            continue
        mean = sum(losses) / len(losses)
        if j == target:
            target_loss = mean
        else:
            feature_losses.append(mean)
    feature_loss = sum(feature_losses) / len(feature_losses) if feature_losses else 0.0
    return gamma * feature_loss + (1 - gamma) * target_loss


@pytest.mark.parametrize("gamma", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("target", [0, 2, 4])
def test_objective_equals_the_loops(target: int, gamma: float) -> None:
    for seed in range(5):
        predictions, rows = example(seed)
        assert rows.isnan().any()
        loss = objective(predictions, rows, GROUPS, target, gamma)
        assert loss.item() == pytest.approx(explicit(predictions, rows, target, gamma), rel=1e-5)


@pytest.mark.parametrize("known", [[], [3], [0, 4], [1, 2, 3]])
def test_an_attribute_that_no_row_knows_does_not_count(known: list[int]) -> None:
    predictions, rows = example(0)
    unknown = [j for j in range(5) if j not in known]
    rows = rows.nan_to_num(1.0)
    rows[:, unknown] = torch.nan
    loss = objective(predictions, rows, GROUPS, 3, 0.6)
    loss.backward()
    assert loss.item() == pytest.approx(explicit(predictions, rows, 3, 0.6), rel=1e-5)
    gradients = torch.cat([p.grad.abs().sum((0, 2)) for p in predictions if p.grad is not None])
    assert gradients.isfinite().all()
    assert (gradients > 0).nonzero().squeeze(1).tolist() == known


@pytest.mark.parametrize(("gamma", "learnt"), [(0.0, [2]), (1.0, [0, 1, 3, 4]), (0.5, [0, 1, 2, 3, 4])])
def test_gamma_moves_from_the_features_to_the_target(gamma: float, learnt: list[int]) -> None:
    predictions, rows = example()
    objective(predictions, rows, GROUPS, 2, gamma).backward()
    gradients = torch.cat([p.grad.abs().sum((0, 2)) for p in predictions if p.grad is not None])
    assert (gradients > 0).nonzero().squeeze(1).tolist() == learnt


def test_a_missing_value_gets_no_gradient() -> None:
    predictions, rows = example()
    objective(predictions, rows, GROUPS, 2, 0.5).backward()
    gradients = torch.cat([p.grad.abs().sum(2) for p in predictions if p.grad is not None], dim=1)
    assert torch.equal(gradients > 0, ~rows.isnan())


def test_bfloat16_predictions_are_scored_in_float32() -> None:
    predictions, rows = example()
    half = [p.detach().bfloat16() for p in predictions]
    loss = objective(half, rows, GROUPS, 2, 0.5)
    assert loss.dtype == torch.float32
    assert loss.item() == pytest.approx(explicit([p.float() for p in half], rows, 2, 0.5), rel=1e-5)


@pytest.mark.parametrize(("progress", "share"), [(0, 1), (0.25, 0.5 + 0.5**1.5), (0.5, 0.5), (1, 0), (1.7, 0)])
def test_cosine_annealing(progress: float, share: float) -> None:
    assert cosine(0.01, progress) == pytest.approx(0.01 * share, abs=1e-12)


def test_groups_of_equal_width_cover_the_attributes_and_outputs_in_order() -> None:
    assert [(g.width, g.start, g.stop, g.offset) for g in GROUPS] == [(1, 0, 2, 0), (2, 2, 3, 2), (3, 3, 5, 4)]
