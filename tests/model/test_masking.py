"""BERT masking: how much is masked and replaced, by what, what is never touched, and that every member has its own."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from hopular.model.masking import Masking, target_mask

WIDTHS = (1, 1, 2, 3, 5)
TARGET = 3
FEATURES = [0, 1, 2, 4]
SEEDS = (0, 1, 2)


def table(n: int = 10_000) -> Tensor:
    """Values (3, 5, n) that a replacement cannot equal by chance in the continuous ones; a tenth is missing."""
    generator = torch.Generator().manual_seed(0)
    values = [
        torch.full((3, n), 100.0) if w == 1 else torch.randint(w, (3, n), generator=generator).float() for w in WIDTHS
    ]
    rows = torch.stack(values, dim=1)
    rows[torch.rand(rows.shape, generator=generator) < 0.1] = torch.nan
    return rows


def make(mask: float, replace: float, seeds: tuple[int, ...] = SEEDS, widths: tuple[int, ...] = WIDTHS) -> Masking:
    return Masking(widths, TARGET if widths == WIDTHS else 0, mask, replace, seeds)


def same(a: Tensor, b: Tensor) -> bool:
    return torch.equal(a.nan_to_num(-1), b.nan_to_num(-1))


@pytest.mark.parametrize(("mask", "replace"), [(0.025, 0.175), (0.3, 0.0), (0.0, 0.4), (0.5, 0.5)])
def test_shares_of_masked_and_replaced_values(mask: float, replace: float) -> None:
    rows = table()
    seen, masked = make(mask, replace)(rows)
    for member in range(3):
        for j in FEATURES:
            at = ~rows[member, j].isnan()
            assert masked[member, j, at].float().mean().item() == pytest.approx(mask, abs=0.02)
            by_chance = 1 / WIDTHS[j] if WIDTHS[j] > 1 else 0.0  # a uniform category may be the old one
            changed = (seen[member, j, at] != rows[member, j, at]).float().mean().item()
            assert changed == pytest.approx(replace * (1 - by_chance), abs=0.02)


def test_the_target_is_always_masked_and_never_replaced() -> None:
    rows = table()
    seen, masked = make(0.1, 0.9)(rows)
    assert masked[:, TARGET].all()
    assert same(seen[:, TARGET], rows[:, TARGET])


def test_missing_values_stay_missing_and_are_not_masked() -> None:
    rows = table()
    seen, masked = make(0.5, 0.5)(rows)
    assert torch.equal(seen.isnan(), rows.isnan())
    assert not (masked & rows.isnan())[:, FEATURES].any()


def test_no_value_is_both_masked_and_replaced() -> None:
    rows = table()
    seen, masked = make(0.4, 0.5)(rows)
    assert same(seen[masked], rows[masked])


def test_replacements_are_uniform_categories_and_normal_numbers() -> None:
    seen, _ = make(0.0, 1.0)(table())
    for member in range(3):
        for j in FEATURES:
            values = seen[member, j, ~seen[member, j].isnan()]
            if WIDTHS[j] == 1:
                assert values.mean().item() == pytest.approx(0, abs=0.04)
                assert values.std().item() == pytest.approx(1, abs=0.04)
            else:
                codes, counts = values.unique(return_counts=True)
                assert codes.tolist() == list(range(WIDTHS[j]))
                expected = torch.full((WIDTHS[j],), 1 / WIDTHS[j])
                torch.testing.assert_close(counts / counts.sum(), expected, rtol=0, atol=0.03)


def test_the_rows_given_are_not_changed() -> None:
    rows = table()
    before = rows.clone()
    make(0.3, 0.7)(rows)
    assert same(rows, before)


def test_the_seeds_alone_decide() -> None:
    rows = table(200)
    a, b, c = (make(0.3, 0.3, seeds) for seeds in (SEEDS, SEEDS, (4, 5, 6)))
    torch.manual_seed(0)
    first, second = a(rows), a(rows)
    torch.manual_seed(1)
    for before, now in zip((*first, *second), (*b(rows), *b(rows)), strict=True):
        assert same(before, now)
    assert not torch.equal(first[1], second[1])
    assert not torch.equal(first[1], c(rows)[1])


def test_members_have_masks_of_their_own_and_equal_seeds_equal_ones() -> None:
    rows = table(200)[:1].expand(3, -1, -1)
    seen, masked = make(0.3, 0.3, (1, 2, 1))(rows)
    assert same(seen[0], seen[2])
    assert torch.equal(masked[0], masked[2])
    assert not torch.equal(masked[0], masked[1])


def test_a_member_is_masked_the_same_alone_and_in_any_stack() -> None:
    together, alone, reverse = make(0.3, 0.3), make(0.3, 0.3, (1,)), make(0.3, 0.3, (2, 1, 0))
    for n in (200, 7, 1):
        rows = table(n)
        for whole, one, turned in zip(together(rows), alone(rows[1:2]), reverse(rows.flip(0)), strict=True):
            assert same(whole[1:2], one)
            assert same(whole.flip(0), turned)


def test_members_that_are_left_go_on_as_they_would_have() -> None:
    whole, part, rows = make(0.3, 0.3), make(0.3, 0.3), table(200)
    whole(rows)
    part(rows)
    part.select([2, 0])
    for _ in range(2):
        for one, other in zip(part(rows[[2, 0]]), whole(rows), strict=True):
            assert same(one, other[[2, 0]])


def test_a_stored_state_continues_bit_for_bit() -> None:
    masking, other, rows = make(0.3, 0.3), make(0.3, 0.3, (7, 8, 9)), table(200)
    masking(rows)
    other.load_state_dict({name: tensor.clone() for name, tensor in masking.state_dict().items()})
    for one, same_one in zip(masking(rows), other(rows), strict=True):
        assert same(one, same_one)


@pytest.mark.parametrize("widths", [(1, 1), (2, 3), (1,)])
def test_tables_of_one_kind_of_attributes(widths: tuple[int, ...]) -> None:
    rows = torch.zeros(2, len(widths), 500, dtype=torch.double)
    seen, masked = make(0.3, 0.6, (0, 1), widths)(rows)
    assert seen.dtype == rows.dtype
    assert masked[:, 0].all()
    assert same(seen[:, 0], rows[:, 0])
    assert masked[:, 1:].double().mean(2) == pytest.approx(torch.full((2, len(widths) - 1), 0.3), abs=0.08)


def test_without_masking_only_the_target_is_hidden() -> None:
    rows = table(50)
    seen, masked = make(0.0, 0.0)(rows)
    assert same(seen, rows)
    assert torch.equal(masked, target_mask(rows, TARGET))
    assert masked.sum(2).tolist() == [[0, 0, 0, 50, 0]] * 3
