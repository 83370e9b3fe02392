"""The objective against loops over members, attributes and rows, and its annealing."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from hopular.model.architecture import attribute_groups
from hopular.model.objective import cosine, objective

WIDTHS = (1, 1, 2, 3, 3)
GROUPS = attribute_groups(WIDTHS)
MEMBERS = 2


def example(seed: int = 0, n: int = 8, widths: tuple[int, ...] = WIDTHS) -> tuple[list[Tensor], Tensor]:
    """Predictions (K, count, width, n) by group, and rows (K, d, n) of which a third of the values is missing."""
    g = torch.Generator().manual_seed(seed)
    predictions = [
        torch.randn(MEMBERS, group.count, group.width, n, generator=g, requires_grad=True)
        for group in attribute_groups(widths)
    ]
    shape = (MEMBERS, n)
    values = [
        torch.randn(shape, generator=g) if w == 1 else torch.randint(w, shape, generator=g).float() for w in widths
    ]
    rows = torch.stack(values, dim=1)
    rows[torch.rand(rows.shape, generator=g) < 0.3] = torch.nan
    return predictions, rows


def explicit(predictions: list[Tensor], rows: Tensor, target: int, gamma: float) -> list[float]:
    """gamma L_f + (1 - gamma) L_t of each member, one value at a time."""
    totals = []
    for member in range(len(rows)):
        outputs = [p[member, j] for p in predictions for j in range(p.shape[1])]  # one (width, n) per attribute
        feature_losses, target_loss = [], 0.0
        for j, output in enumerate(outputs):
            losses = []
            for i, value in enumerate(rows[member, j].tolist()):
                if math.isnan(value):
                    continue
                numbers = output[:, i].tolist()
                if len(numbers) == 1:
                    losses.append((numbers[0] - value) ** 2)
                else:
                    losses.append(math.log(sum(math.exp(o) for o in numbers)) - numbers[int(value)])
            if not losses:
                continue
            mean = sum(losses) / len(losses)
            if j == target:
                target_loss = mean
            else:
                feature_losses.append(mean)
        feature_loss = sum(feature_losses) / len(feature_losses) if feature_losses else 0.0
        totals.append(gamma * feature_loss + (1 - gamma) * target_loss)
    return totals


def gradients(predictions: list[Tensor]) -> Tensor:
    """The size of the gradient of every value (K, d, n)."""
    return torch.cat([p.grad.abs().sum(2) for p in predictions if p.grad is not None], dim=1)


@pytest.mark.parametrize("gamma", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("target", [0, 2, 4])
def test_objective_equals_the_loops(target: int, gamma: float) -> None:
    for seed in range(5):
        predictions, rows = example(seed)
        assert rows.isnan().any()
        losses = objective(predictions, rows, GROUPS, target, gamma)
        assert losses.tolist() == pytest.approx(explicit(predictions, rows, target, gamma), rel=1e-5)


@pytest.mark.parametrize("widths", [(1, 1, 1), (1, 1), (2, 2), (2, 5), (4,), (1,)])
def test_tables_of_one_kind_of_attributes(widths: tuple[int, ...]) -> None:
    predictions, rows = example(3, widths=widths)
    losses = objective(predictions, rows, attribute_groups(widths), 0, 0.4)
    assert losses.tolist() == pytest.approx(explicit(predictions, rows, 0, 0.4), rel=1e-5)


@pytest.mark.parametrize("known", [[], [3], [0, 4], [1, 2, 3]])
def test_an_attribute_that_no_row_knows_does_not_count(known: list[int]) -> None:
    """Of the first member; the other one knows all."""
    predictions, rows = example(0)
    unknown = [j for j in range(5) if j not in known]
    rows = rows.nan_to_num(1.0)
    rows[0, unknown] = torch.nan
    losses = objective(predictions, rows, GROUPS, 3, 0.6)
    losses.sum().backward()
    assert losses.tolist() == pytest.approx(explicit(predictions, rows, 3, 0.6), rel=1e-5)
    learnt = gradients(predictions).sum(2)
    assert learnt.isfinite().all()
    assert (learnt[0] > 0).nonzero().squeeze(1).tolist() == known
    assert (learnt[1] > 0).all()


@pytest.mark.parametrize(("gamma", "learnt"), [(0.0, [2]), (1.0, [0, 1, 3, 4]), (0.5, [0, 1, 2, 3, 4])])
def test_gamma_moves_from_the_features_to_the_target(gamma: float, learnt: list[int]) -> None:
    predictions, rows = example()
    objective(predictions, rows, GROUPS, 2, gamma).sum().backward()
    for member in (gradients(predictions).sum(2) > 0).tolist():
        assert member == [j in learnt for j in range(5)]


def test_a_missing_value_gets_no_gradient() -> None:
    predictions, rows = example()
    objective(predictions, rows, GROUPS, 2, 0.5).sum().backward()
    assert torch.equal(gradients(predictions) > 0, ~rows.isnan())


def test_a_members_loss_is_its_own() -> None:
    predictions, rows = example()
    objective(predictions, rows, GROUPS, 2, 0.5)[0].backward()
    assert gradients(predictions)[0].count_nonzero() > 0
    assert gradients(predictions)[1].count_nonzero() == 0


def test_predictions_are_scored_in_the_precision_of_the_rows() -> None:
    predictions, rows = example()
    half = [p.detach().bfloat16() for p in predictions]
    losses = objective(half, rows, GROUPS, 2, 0.5)
    assert losses.dtype == torch.float32
    assert losses.tolist() == pytest.approx(explicit([p.float() for p in half], rows, 2, 0.5), rel=1e-5)
    double = [p.detach().double() for p in predictions]
    losses = objective(double, rows.double(), GROUPS, 2, 0.5)
    assert losses.dtype == torch.double
    assert losses.tolist() == pytest.approx(explicit(double, rows.double(), 2, 0.5), rel=1e-12)


@pytest.mark.parametrize(("progress", "share"), [(0, 1), (0.25, 0.5 + 0.5**1.5), (0.5, 0.5), (1, 0), (1.7, 0)])
def test_cosine_annealing(progress: float, share: float) -> None:
    assert cosine(0.01, progress) == pytest.approx(0.01 * share, abs=1e-12)


def test_groups_of_equal_width_cover_the_attributes_and_outputs_in_order() -> None:
    assert [(g.width, g.start, g.stop, g.offset) for g in GROUPS] == [(1, 0, 2, 0), (2, 2, 3, 2), (3, 3, 5, 4)]
