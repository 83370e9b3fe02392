"""BERT masking: how much is masked and replaced, by what, and what is never touched."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from hopular.model.masking import Masking, target_mask

WIDTHS = (1, 1, 2, 3, 5)
TARGET = 3
FEATURES = [0, 1, 2, 4]


def table(n: int = 20_000) -> Tensor:
    """Values that a replacement cannot equal by chance in the continuous columns; a tenth is missing."""
    generator = torch.Generator().manual_seed(0)
    columns = [
        torch.full((n,), 100.0) if w == 1 else torch.randint(w, (n,), generator=generator).float() for w in WIDTHS
    ]
    rows = torch.stack(columns, dim=1)
    rows[torch.rand(rows.shape, generator=generator) < 0.1] = torch.nan
    return rows


@pytest.mark.parametrize(("mask", "replace"), [(0.025, 0.175), (0.3, 0.0), (0.0, 0.4), (0.5, 0.5)])
def test_shares_of_masked_and_replaced_values(mask: float, replace: float) -> None:
    rows = table()
    seen, masked = Masking(WIDTHS, TARGET, mask, replace, 0)(rows)
    known = ~rows.isnan()
    for j in FEATURES:
        at = known[:, j]
        assert masked[at, j].float().mean().item() == pytest.approx(mask, abs=0.012)
        by_chance = 1 / WIDTHS[j] if WIDTHS[j] > 1 else 0.0  # a uniform category may be the old one
        changed = (seen[at, j] != rows[at, j]).float().mean().item()
        assert changed == pytest.approx(replace * (1 - by_chance), abs=0.012)


def test_the_target_is_always_masked_and_never_replaced() -> None:
    rows = table()
    seen, masked = Masking(WIDTHS, TARGET, 0.1, 0.9, 0)(rows)
    assert masked[:, TARGET].all()
    assert torch.equal(seen[:, TARGET].nan_to_num(-1), rows[:, TARGET].nan_to_num(-1))


def test_missing_values_stay_missing_and_are_not_masked() -> None:
    rows = table()
    seen, masked = Masking(WIDTHS, TARGET, 0.5, 0.5, 0)(rows)
    assert torch.equal(seen.isnan(), rows.isnan())
    assert not (masked & rows.isnan())[:, FEATURES].any()


def test_no_value_is_both_masked_and_replaced() -> None:
    rows = table()
    seen, masked = Masking(WIDTHS, TARGET, 0.4, 0.5, 0)(rows)
    assert torch.equal(seen[masked].nan_to_num(-1), rows[masked].nan_to_num(-1))


def test_replacements_are_uniform_categories_and_normal_numbers() -> None:
    seen, _ = Masking(WIDTHS, TARGET, 0.0, 1.0, 0)(table())
    for j in FEATURES:
        values = seen[~seen[:, j].isnan(), j]
        if WIDTHS[j] == 1:
            assert values.mean().item() == pytest.approx(0, abs=0.03)
            assert values.std().item() == pytest.approx(1, abs=0.03)
        else:
            codes, counts = values.unique(return_counts=True)
            assert codes.tolist() == list(range(WIDTHS[j]))
            torch.testing.assert_close(
                counts / counts.sum(), torch.full((WIDTHS[j],), 1 / WIDTHS[j]), rtol=0, atol=0.02
            )


def test_the_rows_given_are_not_changed() -> None:
    rows = table()
    before = rows.clone()
    Masking(WIDTHS, TARGET, 0.3, 0.7, 0)(rows)
    assert torch.equal(rows.nan_to_num(-1), before.nan_to_num(-1))


def test_the_seed_alone_decides() -> None:
    rows = table(200)
    a, b, c = (Masking(WIDTHS, TARGET, 0.3, 0.3, seed) for seed in (1, 1, 2))
    torch.manual_seed(0)
    first, second = a(rows), a(rows)
    torch.manual_seed(1)
    for before, now in zip((*first, *second), (*b(rows), *b(rows)), strict=True):
        assert torch.equal(before.nan_to_num(-1), now.nan_to_num(-1))
    assert not torch.equal(first[1], second[1])
    assert not torch.equal(first[1], c(rows)[1])


def test_without_masking_only_the_target_is_hidden() -> None:
    rows = table(50)
    seen, masked = Masking(WIDTHS, TARGET, 0.0, 0.0, 0)(rows)
    assert torch.equal(seen.nan_to_num(-1), rows.nan_to_num(-1))
    assert torch.equal(masked, target_mask(rows, TARGET))
    assert masked.sum(0).tolist() == [0, 0, 0, 50, 0]
