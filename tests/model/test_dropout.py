"""Dropout from a pool of random masks: its share and scale, when masks repeat and change, and whose they are."""

from __future__ import annotations

import pytest
import torch

from hopular.model.dropout import SMALLEST, DropoutPool, Dropouts

CPU = torch.device("cpu")
SIZES = (1000, 5, 70_000, 300, 200_000, 1000)  # the pool grows twice on the way


def make(p: float = 0.5, seeds: tuple[int, ...] = (1, 2, 3)) -> DropoutPool:
    return DropoutPool(p, seeds, CPU)


@pytest.mark.parametrize("p", [0.01, 0.1, 0.5, 0.9])
def test_a_share_p_is_dropped_and_the_rest_scaled(p: float) -> None:
    y = make(p)(torch.full((3, 400, 500), 3.0))
    torch.testing.assert_close((y == 0).float().mean((1, 2)), torch.full((3,), p), atol=0.005, rtol=0)
    torch.testing.assert_close(y[y != 0], torch.full_like(y[y != 0], 3 / (1 - p)))


def test_the_mean_over_masks_is_the_input() -> None:
    x, dropout = torch.arange(1.0, 25).view(3, 2, 4), make(0.3)
    mean = torch.stack([dropout(x) for _ in range(4000)]).mean(0)
    torch.testing.assert_close(mean, x, atol=0, rtol=0.06)


def test_the_gradient_is_the_mask() -> None:
    x = torch.full((3, 20, 30), 2.0, requires_grad=True)
    y = make(0.3)(x)
    (gradient,) = torch.autograd.grad(y.sum(), x)
    assert (y == 0).any()
    torch.testing.assert_close(gradient, y.detach() / 2)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.double])
def test_other_precisions_are_kept(dtype: torch.dtype) -> None:
    y = make()(torch.ones(3, 40, dtype=dtype))
    assert y.dtype == dtype
    assert y.unique().tolist() == [0, 2]


def test_the_seeds_alone_decide() -> None:
    x = torch.ones(3, 1000)
    a, b, c = make(), make(), make(seeds=(4, 5, 6))
    torch.manual_seed(0)  # the global generator has no part in it
    first = [a(x), a(x), a(x)]
    torch.manual_seed(1)
    assert all(torch.equal(u, b(x)) for u in first)
    assert not torch.equal(first[0], first[1])
    assert not torch.equal(first[0], c(x))


def test_members_have_masks_of_their_own_and_equal_seeds_equal_ones() -> None:
    masks = make(seeds=(1, 2, 1)).window(1000)
    assert torch.equal(masks[0], masks[2])
    assert (masks[0] == masks[1]).float().mean().item() == pytest.approx(0.5, abs=0.1)


def test_a_member_finds_the_same_masks_alone_and_in_any_stack() -> None:
    together, alone, reverse = make(), make(seeds=(2,)), make(seeds=(3, 2, 1))
    for size in SIZES:
        masks = together.window(size)
        assert torch.equal(masks[1:2], alone.window(size))
        assert torch.equal(masks.flip(0), reverse.window(size))
        for pool in (together, alone, reverse):
            pool.renew()


def test_members_that_are_left_go_on_as_they_would_have() -> None:
    whole, part = make(), make()
    for size in SIZES[:3]:
        whole.window(size)
        part.window(size)
        whole.renew()
        part.renew()
    part.select([2, 0])
    for size in SIZES:
        assert torch.equal(part.window(size), whole.window(size)[[2, 0]])
        whole.renew()
        part.renew()


def test_a_stored_state_continues_bit_for_bit() -> None:
    pool, other = make(), make(seeds=(7, 8, 9))
    pool.window(200_000)  # has grown
    for _ in range(3):
        pool.renew()
    other.load_state_dict({name: tensor.clone() for name, tensor in pool.state_dict().items()})
    for size in SIZES:
        assert torch.equal(pool.window(size), other.window(size))
        pool.renew()
        other.renew()


def test_a_loaded_state_is_not_changed_by_going_on() -> None:
    pool, other = make(), make()
    state = pool.state_dict()
    other.load_state_dict(state)
    before = state["pool"].clone()
    for _ in range(5):
        other.renew()
    assert torch.equal(state["pool"], before)


def test_a_window_stays_as_it_is_while_others_are_drawn() -> None:
    pool = make()
    mask = pool.window(600)
    first = mask.clone()
    for size in (1, 1000, 700_000, 3_000_000, 5):  # the pool grows on the way
        assert pool.window(size).shape == (3, size)
    assert first.unique().tolist() == [0, 2]
    assert torch.equal(mask, first)


def test_renewal_reaches_the_whole_pool() -> None:
    pool = make()
    before = pool._pool.clone()
    pool.renew()
    share = (pool._pool != before).float().mean(1)
    assert (share > 0).all()
    assert (share < 0.05).all()
    for _ in range(100):
        pool.renew()
    changed = (pool._pool != before).view(3, 64, -1).float().mean(2)
    torch.testing.assert_close(changed, torch.full_like(changed, 0.5), atol=0.1, rtol=0)


def test_windows_are_spread_over_the_pool() -> None:
    pool = make()
    places = {pool.window(100).storage_offset() for _ in range(1000)}
    assert len(places) > 900
    assert max(places) > 0.95 * SMALLEST - 100


def test_no_pool_where_nothing_is_dropped() -> None:
    dropouts = Dropouts(0.1, 0.0, 0.2, seeds=[0, 1], device=CPU)
    assert dropouts.block is None
    assert dropouts.embedding is not None
    assert dropouts.embedding.p == 0.1
    assert dropouts.pools == [dropouts.embedding, dropouts.summary]
    assert Dropouts(0.0, 0.0, 0.0, seeds=[0], device=CPU).pools == []


def test_the_three_dropouts_of_a_member_differ() -> None:
    masks = [pool.window(1000) for pool in Dropouts(0.5, 0.5, 0.5, seeds=[0, 1, 2], device=CPU).pools]
    for one, other in ((0, 1), (0, 2), (1, 2)):
        for member in range(3):
            for beside in range(3):
                assert not torch.equal(masks[one][member], masks[other][beside])
