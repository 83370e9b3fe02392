"""Dropout from a pool of random masks: its share and scale, and when its masks repeat and when they change."""

from __future__ import annotations

import pytest
import torch

from hopular.model.dropout import DropoutPool, Dropouts

CPU = torch.device("cpu")


@pytest.mark.parametrize("p", [0.01, 0.1, 0.5, 0.9])
def test_a_share_p_is_dropped_and_the_rest_scaled(p: float) -> None:
    y = DropoutPool(p, 0, CPU)(torch.full((400, 500), 3.0))
    assert (y == 0).float().mean().item() == pytest.approx(p, abs=0.005)
    torch.testing.assert_close(y[y != 0], torch.full_like(y[y != 0], 3 / (1 - p)))


def test_the_gradient_is_the_mask() -> None:
    x = torch.full((20, 30), 2.0, requires_grad=True)
    y = DropoutPool(0.3, 0, CPU)(x)
    (gradient,) = torch.autograd.grad(y.sum(), x)
    assert (y == 0).any()
    torch.testing.assert_close(gradient, y.detach() / 2)


def test_the_seed_alone_decides() -> None:
    x = torch.ones(1000)
    a, b, c = DropoutPool(0.5, 1, CPU), DropoutPool(0.5, 1, CPU), DropoutPool(0.5, 2, CPU)
    torch.manual_seed(0)  # the global generator has no part in it
    first = [a(x), a(x), a(x)]
    torch.manual_seed(1)
    assert all(torch.equal(u, b(x)) for u in first)
    assert not torch.equal(first[0], first[1])
    assert not torch.equal(first[0], c(x))


def test_a_mask_stays_as_it_is_while_others_are_drawn() -> None:
    pool = DropoutPool(0.5, 0, CPU)
    mask = pool.mask(torch.Size([20, 30]))
    first = mask.clone()
    for size in (1, 1000, 700_000, 3_000_000, 5):  # the pool grows on the way
        assert pool.mask(torch.Size([size])).shape == (size,)
    assert first.unique().tolist() == [0, 2]
    assert torch.equal(mask, first)


def test_renewal_reaches_the_whole_pool() -> None:
    pool = DropoutPool(0.5, 0, CPU)
    before = pool._pool.clone()
    pool.renew()
    share = (pool._pool != before).float().mean().item()
    assert 0 < share < 0.05
    for _ in range(100):
        pool.renew()
    changed = (pool._pool != before).view(64, -1).float().mean(1)
    torch.testing.assert_close(changed, torch.full_like(changed, 0.5), atol=0.1, rtol=0)


def test_windows_are_spread_over_the_pool() -> None:
    pool = DropoutPool(0.5, 0, CPU)
    places = {pool.mask(torch.Size([100])).storage_offset() for _ in range(1000)}
    assert len(places) > 900
    assert max(places) > 0.95 * len(pool._pool) - 100


def test_no_pool_where_nothing_is_dropped() -> None:
    dropouts = Dropouts(0.1, 0.0, 0.2, seed=0, device=CPU)
    dropouts.renew()
    assert dropouts.block is None
    assert dropouts.embedding is not None
    assert dropouts.embedding.p == 0.1
