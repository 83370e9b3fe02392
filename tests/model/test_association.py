"""`associate` against softmax attention written out, with all gradients taken by autograd."""

from __future__ import annotations

import resource
import sys

import pytest
import torch
from torch import Tensor

from hopular.model import association
from hopular.model.association import associate, association_weights
from hopular.model.dropout import DropoutPool

CPU = torch.device("cpu")
BETA = 0.7


def normal(seed: int, *shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.double)


def pool(p: float = 0.4, seed: int = 3) -> DropoutPool:
    return DropoutPool(p, seed, CPU)


def weights(query: Tensor, key: Tensor, leave_out_own: bool = False) -> Tensor:
    scores = BETA * query @ key.mT
    if leave_out_own:
        own = torch.eye(query.shape[1], key.shape[1], dtype=torch.bool)
        scores = scores.masked_fill(own, -torch.inf)
    return scores.softmax(-1)


def with_gradients(function, *inputs: Tensor) -> list[Tensor]:
    """The function's value and the gradients of a fixed random projection of it with respect to each input."""
    inputs = tuple(x.clone().requires_grad_() for x in inputs)
    out = function(*inputs)
    return [out.detach(), *torch.autograd.grad((out * normal(99, *out.shape).to(out)).sum(), inputs)]


def assert_same(actual: list[Tensor], expected: list[Tensor]) -> None:
    assert len(actual) == len(expected)
    for a, e in zip(actual, expected, strict=True):
        assert e.abs().max() > 1e-3  # never two zeros
        torch.testing.assert_close(a, e, rtol=1e-9, atol=1e-10)


@pytest.fixture(params=["one chunk", "chunks", "chunks of one row"])
def chunking(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """All tests that use it hold whatever the chunks, and with associations kept or computed again."""
    if request.param != "one chunk":
        monkeypatch.setattr(association, "CHUNK", 40 if request.param == "chunks" else 1)
        monkeypatch.setattr(association, "KEEP", 0)
    return str(request.param)


# ---- associate ----


@pytest.mark.parametrize("leave_out_own", [False, True])
@pytest.mark.parametrize("stored", [8, 30, 100])  # each takes another road through the softmax and its derivative
def test_associate_is_softmax_attention(chunking: str, stored: int, leave_out_own: bool) -> None:
    query, key, value = normal(0, 3, 6, 4), normal(1, 3, stored, 4), normal(2, 3, stored, 5)
    assert_same(
        with_gradients(lambda q, k, v: associate(q, k, v, BETA, leave_out_own), query, key, value),
        with_gradients(lambda q, k, v: weights(q, k, leave_out_own) @ v, query, key, value),
    )


@pytest.mark.parametrize("leave_out_own", [False, True])
def test_keys_may_be_the_values(chunking: str, leave_out_own: bool) -> None:
    query, key = normal(0, 3, 6, 4), normal(1, 3, 11, 4)
    assert_same(
        with_gradients(lambda q, k: associate(q, k, k, BETA, leave_out_own), query, key),
        with_gradients(lambda q, k: weights(q, k, leave_out_own) @ k, query, key),
    )


def test_a_row_does_not_read_its_own_entry(chunking: str) -> None:
    query, key, value = normal(0, 2, 5, 4), normal(1, 2, 8, 4), normal(2, 2, 8, 3)
    before = associate(query, key, value, BETA, True)
    value[:, 2] += 100
    changed = (associate(query, key, value, BETA, True) != before).any(-1)
    assert changed.tolist() == [[True, True, False, True, True]] * 2


def test_transposed_inputs_give_the_same_result(chunking: str) -> None:
    """H_s hands in views whose groups are not the outermost dimension in memory."""
    query, key, value = (normal(s, n, 3, 4).transpose(0, 1) for s, n in enumerate((6, 11, 11)))
    assert_same(
        with_gradients(lambda q, k, v: associate(q, k, v, BETA), query, key, value),
        with_gradients(lambda q, k, v: weights(q, k) @ v, query, key, value),
    )


def test_the_number_of_threads_does_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(association, "CHUNK", 40)
    query, key, value = normal(0, 5, 6, 4), normal(1, 5, 11, 4), normal(2, 5, 11, 5)
    expected = with_gradients(lambda q, k, v: weights(q, k) @ v, query, key, value)
    for threads in (1, 3):  # only the cut into chunks changes, no thread is started
        monkeypatch.setattr(torch, "get_num_threads", lambda threads=threads: threads)
        assert_same(with_gradients(lambda q, k, v: associate(q, k, v, BETA), query, key, value), expected)


@pytest.mark.parametrize("stored", [9, 30, 100])
@pytest.mark.parametrize("scale", [1.0, 5.0, 7.0, 10.0, 1e3])
def test_large_scores_do_not_overflow(stored: int, scale: float) -> None:
    """In float32, which cannot hold the exponential of a score of 89, nor that of -104."""
    query, key, value = scale * normal(0, 1, 40, 3), scale * normal(1, 1, stored, 3), normal(2, 1, stored, 2)
    query[:, 0] = 0
    key[:, 0] = 0
    for sign in (1, -1):  # rows whose scores are all large, or all very negative
        key[..., 2] = sign * scale
        query[..., 2] = scale
        expected = with_gradients(lambda q, k, v: weights(q, k) @ v, query, key, value)
        actual = with_gradients(lambda q, k, v: associate(q, k, v, BETA), query.float(), key.float(), value.float())
        for a, e in zip(actual, expected, strict=True):
            torch.testing.assert_close(a.double(), e, rtol=0, atol=1e-4 * max(1.0, e.abs().max().item()))


def test_association_weights_are_the_mean_over_the_groups(chunking: str) -> None:
    query, key = normal(0, 3, 6, 4), normal(1, 3, 11, 4)
    actual = association_weights(query, key, BETA)
    torch.testing.assert_close(actual, weights(query, key).mean(0))
    torch.testing.assert_close(actual.sum(1), torch.ones(6, dtype=torch.double))


# ---- dropout of the associations ----


def test_backward_drops_what_forward_dropped(chunking: str) -> None:
    """Identity values make the dropped weights themselves the output, hence the mask visible."""
    query, key, value = normal(0, 3, 6, 4), normal(1, 3, 7, 4), normal(2, 3, 7, 7)
    identity = torch.eye(7, dtype=torch.double).expand(3, 7, 7)
    mask = associate(query, key, identity, BETA, False, pool()) / weights(query, key)
    assert 0 < (mask == 0).double().mean() < 1
    torch.testing.assert_close(mask[mask > 0], torch.full_like(mask[mask > 0], 1 / 0.6), rtol=1e-6, atol=0)
    assert_same(
        with_gradients(lambda q, k, v: associate(q, k, v, BETA, False, pool()), query, key, value),
        with_gradients(lambda q, k, v: (weights(q, k) * mask) @ v, query, key, value),
    )


def test_the_mean_over_dropouts_is_the_result_without() -> None:
    query, key, value = normal(0, 2, 6, 4), normal(1, 2, 7, 4), normal(2, 2, 7, 3)
    dropout = pool(0.3)
    mean = torch.stack([associate(query, key, value, BETA, False, dropout) for _ in range(4000)]).mean(0)
    torch.testing.assert_close(mean, weights(query, key) @ value, rtol=0, atol=0.05)


# ---- memory and precision ----


@pytest.mark.skipif(sys.platform != "linux", reason="ru_maxrss is in other units elsewhere")
def test_memory_does_not_grow_with_the_square_of_the_rows() -> None:
    query, key = (normal(s, 4, 6000, 4).float().requires_grad_() for s in range(2))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    associate(query, key, key, BETA, True, pool()).sum().backward()
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert query.grad is not None
    assert query.grad.isfinite().all()
    assert grown < 150_000  # kB; all associations would take 576 MB


@pytest.mark.parametrize("stored", [6, 30, 100])
def test_bfloat16_is_close_to_float32(stored: int) -> None:
    def run(dtype: torch.dtype) -> list[Tensor]:
        inputs = [normal(s, 10, n, 4).to(dtype).requires_grad_() for s, n in enumerate((6, stored, stored))]
        with torch.autocast("cpu", torch.bfloat16, enabled=dtype == torch.bfloat16):
            out = associate(*inputs, BETA, False, pool())
        assert out.dtype == dtype
        return [out, *torch.autograd.grad(out.float().square().sum(), inputs)]

    for half, single in zip(run(torch.bfloat16), run(torch.float32), strict=True):
        assert half.dtype == torch.bfloat16
        torch.testing.assert_close(half.float(), single, rtol=0, atol=0.05 * single.abs().max().item())
