"""`associate` and `associate_attributes` against softmax attention written out, with gradients taken by autograd."""

from __future__ import annotations

import resource
import sys
from collections.abc import Callable
from functools import partial

import pytest
import torch
from torch import Tensor

from hopular.model import association, dropout
from hopular.model.association import associate, associate_attributes, association_weights
from hopular.model.dropout import DropoutPool

CPU = torch.device("cpu")
K, M, H = 3, 2, 4  # members, networks, Hopfield dimension


def normal(seed: int, *shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.double)


def pool(p: float = 0.4, members: int = K) -> DropoutPool:
    return DropoutPool(p, range(3, 3 + members), CPU)


def samples(rows: int, stored: int, members: int = K) -> list[Tensor]:
    """Query, key and value of H_s."""
    return [normal(s, members, M, H, n) for s, n in enumerate((rows, stored, stored))]


def attributes(d: int, rows: int, members: int = K) -> list[Tensor]:
    """Query, key and value of H_f."""
    return [normal(s, members, M, H, d, rows) for s in range(3)]


def weights(query: Tensor, key: Tensor, leave_out_own: bool = False, absent: Tensor | None = None) -> Tensor:
    """The associations of H_s (K, M, n, b)."""
    scores = key.mT @ query
    if leave_out_own:
        scores = scores.masked_fill(torch.eye(*scores.shape[2:], dtype=torch.bool), -torch.inf)
    if absent is not None:
        scores = scores.masked_fill(absent[:, None, :, None], -torch.inf)
    return scores.softmax(2)


def attribute_weights(query: Tensor, key: Tensor) -> Tensor:
    """The associations of H_f (K, M, j, i, b): attribute i reads attribute j."""
    return torch.einsum("kmhjb,kmhib->kmjib", key, query).softmax(2)


def read_attributes(p: Tensor, value: Tensor) -> Tensor:
    return torch.einsum("kmjib,kmhjb->kmhib", p, value)


def with_gradients(function: Callable[..., Tensor], *inputs: Tensor) -> list[Tensor]:
    """The function's value and the gradients of a fixed random projection of it with respect to each input."""
    inputs = tuple(x.clone().requires_grad_() for x in inputs)
    out = function(*inputs)
    return [out.detach(), *torch.autograd.grad((out * normal(99, *out.shape).to(out)).sum(), inputs)]


def assert_same(actual: list[Tensor], expected: list[Tensor]) -> None:
    assert len(actual) == len(expected)
    for a, e in zip(actual, expected, strict=True):
        assert e.abs().max() > 1e-3  # never two zeros
        torch.testing.assert_close(a, e, rtol=1e-9, atol=1e-10)


CUTS = {  # CHUNK, ROWS and KEEP
    "one chunk": (association.CHUNK, association.ROWS, association.KEEP),
    "one chunk, computed again": (association.CHUNK, association.ROWS, 0),
    "chunks of members": (300, 1, 0),
    "chunks of rows": (60, 2, 0),
    "chunks of rows, kept": (60, 2, association.KEEP),
    "chunks of one row": (1, 1, 0),
}


@pytest.fixture(params=CUTS)
def chunking(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """All tests that use it hold whatever the chunks, and with associations kept or computed again."""
    for name, value in zip(("CHUNK", "ROWS", "KEEP"), CUTS[request.param], strict=True):
        monkeypatch.setattr(association, name, value)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 1)
    return str(request.param)


def test_members_and_rows_are_cut(chunking: str) -> None:
    """The fixture's chunks are what their names say, for 6 rows that read 11 stored ones."""
    chunks = association._chunks(K, 6, M * 11)
    pieces = [len({part.start for part in parts}) for parts in zip(*chunks, strict=True)]
    assert pieces == {"chunks of m": [2, 1], "chunks of r": [3, 3], "chunks of o": [3, 6]}.get(chunking[:11], [1, 1])


def test_rows_are_cut_alike_however_many_members_there_are() -> None:
    for rows, per_row in ((1000, 3000), (100, 10**6), (5, 1), (4096, 100)):
        cuts = [{(r.start, r.stop) for _, r in association._chunks(members, rows, per_row)} for members in (1, 2, 50)]
        assert cuts[0] == cuts[1] == cuts[2]
        assert all(stop % association.ROWS == 0 or stop == rows for _, stop in cuts[0])


# ---- H_s ----


@pytest.mark.parametrize("leave_out_own", [False, True])
@pytest.mark.parametrize("stored", [8, 11, 100])
def test_associate_is_softmax_attention(chunking: str, stored: int, leave_out_own: bool) -> None:
    assert_same(
        with_gradients(lambda q, k, v: associate(q, k, v, leave_out_own), *samples(6, stored)),
        with_gradients(lambda q, k, v: v @ weights(q, k, leave_out_own), *samples(6, stored)),
    )


@pytest.mark.parametrize("leave_out_own", [False, True])
def test_keys_may_be_the_values(chunking: str, leave_out_own: bool) -> None:
    query, key, _ = samples(6, 11)
    assert_same(
        with_gradients(lambda q, k: associate(q, k, k, leave_out_own), query, key),
        with_gradients(lambda q, k: k @ weights(q, k, leave_out_own), query, key),
    )


def test_absent_entries_are_not_read(chunking: str) -> None:
    """Each member lacks other entries; what stands there has no part in anything and gets no gradient."""
    inputs, absent = samples(6, 11), torch.arange(11) >= torch.tensor([[11], [7], [4]])
    for x in inputs[1:]:
        x.mT[absent[:, None].expand(K, M, 11)] = 1e6
    result = with_gradients(lambda q, k, v: associate(q, k, v, False, absent), *inputs)
    for member, count in enumerate((11, 7, 4)):
        own = [inputs[0][member], *(x[member, ..., :count] for x in inputs[1:])]
        alone = with_gradients(lambda q, k, v: v @ (k.mT @ q).softmax(1), *own)[:1]
        assert_same([result[0][member]], alone)
        assert result[2][member, ..., count:].count_nonzero() == result[3][member, ..., count:].count_nonzero() == 0
    assert_same(result, with_gradients(lambda q, k, v: v @ weights(q, k, False, absent), *inputs))


def test_a_row_reads_neither_its_own_entry_nor_absent_ones(chunking: str) -> None:
    inputs, absent = samples(6, 8), torch.arange(8) >= torch.tensor([[8], [7], [6]])
    assert_same(
        with_gradients(lambda q, k, v: associate(q, k, v, True, absent), *inputs),
        with_gradients(lambda q, k, v: v @ weights(q, k, True, absent), *inputs),
    )


def test_a_row_does_not_read_its_own_entry(chunking: str) -> None:
    query, key, value = samples(5, 8)
    before = associate(query, key, value, True)
    value[..., 2] += 100
    changed = (associate(query, key, value, True) != before).any(2)
    assert changed.tolist() == [[[True, True, False, True, True]] * M] * K


def test_a_single_stored_row_is_read_by_all(chunking: str) -> None:
    query, key, value = samples(6, 1)
    torch.testing.assert_close(associate(query, key, value), value.expand(query.shape))


def test_views_of_other_layouts_give_the_same_result(chunking: str) -> None:
    query, key, value = (normal(s, n, H, M, K).permute(3, 2, 1, 0) for s, n in enumerate((6, 11, 11)))
    assert_same(
        with_gradients(associate, query, key, value),
        with_gradients(lambda q, k, v: v @ weights(q, k), query, key, value),
    )


@pytest.fixture
def small_pools(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pools that are made in no time, for tests that make hundreds."""
    monkeypatch.setattr(dropout, "SMALLEST", 1 << 10)


@pytest.mark.parametrize("leave_out_own", [False, True])
@pytest.mark.usefixtures("small_pools")
def test_gradients_are_those_of_finite_differences(chunking: str, leave_out_own: bool) -> None:
    inputs = [x[:2, ..., :4].clone().requires_grad_() for x in samples(4, 4)]
    absent = torch.tensor([[False] * 4, [False] * 3 + [True]])

    def read(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return associate(q, k, v, leave_out_own, absent, pool(members=2))  # a pool of its own: the same masks each time

    assert torch.autograd.gradcheck(read, inputs)


def test_the_number_of_threads_does_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(association, "CHUNK", 40)
    monkeypatch.setattr(association, "ROWS", 1)
    inputs = samples(6, 11)
    expected = with_gradients(lambda q, k, v: v @ weights(q, k), *inputs)
    for threads in (1, 3, 7):  # only the cut into chunks changes, no thread is started
        monkeypatch.setattr(torch, "get_num_threads", lambda threads=threads: threads)
        assert_same(with_gradients(associate, *inputs), expected)


@pytest.mark.parametrize("stored", [9, 30, 100])
@pytest.mark.parametrize("scale", [1.0, 5.0, 7.0, 10.0, 1e3])
def test_large_scores_do_not_overflow(stored: int, scale: float) -> None:
    """In float32, which cannot hold the exponential of a score of 89, nor that of -104."""
    query, key, value = samples(40, stored)
    query, key = scale * query, scale * key
    query[..., 0] = 0
    key[..., 0] = 0
    for sign in (1, -1):  # rows whose scores are all large, or all very negative
        key[:, :, 2] = sign * scale
        query[:, :, 2] = scale
        expected = with_gradients(lambda q, k, v: v @ weights(q, k), query, key, value)
        actual = with_gradients(associate, query.float(), key.float(), value.float())
        for a, e in zip(actual, expected, strict=True):
            torch.testing.assert_close(a.double(), e, rtol=0, atol=2e-4 * max(1.0, e.abs().max().item()))


def test_association_weights_are_the_mean_over_the_networks(chunking: str) -> None:
    query, key, _ = samples(6, 11)
    absent = torch.arange(11) >= torch.tensor([[11], [7], [4]])
    for left_out in (None, absent):
        actual = association_weights(query, key, left_out)
        torch.testing.assert_close(actual, weights(query, key, absent=left_out).mean(1))
        torch.testing.assert_close(actual.sum(1), torch.ones(K, 6, dtype=torch.double))
    assert actual.mT[absent[:, None].expand(K, 6, 11)].count_nonzero() == 0


# ---- H_f ----


@pytest.mark.parametrize("d", [1, 2, 5, 30])
@pytest.mark.parametrize("rows", [1, 7])
def test_associate_attributes_is_softmax_attention(chunking: str, d: int, rows: int) -> None:
    actual = with_gradients(associate_attributes, *attributes(d, rows))
    expected = with_gradients(lambda q, k, v: read_attributes(attribute_weights(q, k), v), *attributes(d, rows))
    if d == 1:  # a single attribute reads itself, whatever query and key are
        torch.testing.assert_close(actual[0], attributes(d, rows)[2])
        assert actual[1].count_nonzero() == actual[2].count_nonzero() == 0
        assert_same(actual[3:], expected[3:])
    else:
        assert_same(actual, expected)


def test_attributes_may_be_keys_and_values_at_once(chunking: str) -> None:
    query, key, _ = attributes(5, 7)
    assert_same(
        with_gradients(lambda q, k: associate_attributes(q, k, k), query, key),
        with_gradients(lambda q, k: read_attributes(attribute_weights(q, k), k), query, key),
    )


def test_attributes_in_views_of_other_layouts_give_the_same_result(chunking: str) -> None:
    inputs = [normal(s, 7, 5, H, M, K).permute(4, 3, 2, 1, 0) for s in range(3)]
    plain = [x.contiguous() for x in inputs]
    for masks in (lambda: None, pool):
        actual, expected = (
            with_gradients(partial(associate_attributes, dropout=masks()), *given) for given in (inputs, plain)
        )
        assert_same(actual, expected)


@pytest.mark.usefixtures("small_pools")
def test_gradients_of_attributes_are_those_of_finite_differences(chunking: str) -> None:
    inputs = [x.requires_grad_() for x in attributes(3, 2, members=2)]
    assert torch.autograd.gradcheck(lambda q, k, v: associate_attributes(q, k, v, pool(members=2)), inputs)


# ---- dropout of the associations ----


def test_backward_drops_what_forward_dropped(chunking: str) -> None:
    """Identity values make the dropped weights themselves the output, hence the mask visible."""
    query, key, value = (normal(s, K, M, 7, n) for s, n in enumerate((6, 7, 7)))
    identity = torch.eye(7, dtype=torch.double).expand(K, M, 7, 7)
    mask = associate(query, key, identity, False, None, pool()) / weights(query, key)
    assert 0 < (mask == 0).double().mean() < 1
    torch.testing.assert_close(mask[mask > 0], torch.full_like(mask[mask > 0], 1 / 0.6), rtol=1e-6, atol=0)
    assert_same(
        with_gradients(lambda q, k, v: associate(q, k, v, False, None, pool()), query, key, value),
        with_gradients(lambda q, k, v: v @ (weights(q, k) * mask), query, key, value),
    )


def test_backward_drops_what_forward_dropped_among_attributes(chunking: str) -> None:
    d = 5
    query, key, value = (normal(s, K, M, d, d, 7) for s in range(3))
    identity = torch.eye(d, dtype=torch.double)[..., None].expand(K, M, d, d, 7)
    p = attribute_weights(query, key)
    mask = associate_attributes(query, key, identity, pool()) / p
    assert 0 < (mask == 0).double().mean() < 1
    torch.testing.assert_close(mask[mask > 0], torch.full_like(mask[mask > 0], 1 / 0.6), rtol=1e-6, atol=0)
    assert_same(
        with_gradients(lambda q, k, v: associate_attributes(q, k, v, pool()), query, key, value),
        with_gradients(lambda q, k, v: read_attributes(attribute_weights(q, k) * mask, v), query, key, value),
    )


@pytest.mark.parametrize("kind", ["samples", "attributes"])
def test_the_mean_over_dropouts_is_the_result_without(kind: str) -> None:
    masks = pool(0.3)
    if kind == "samples":
        inputs = samples(6, 7)
        mean = torch.stack([associate(*inputs, False, None, masks) for _ in range(3000)]).mean(0)
        torch.testing.assert_close(mean, associate(*inputs), rtol=0, atol=0.1)
    else:
        inputs = attributes(5, 6)
        mean = torch.stack([associate_attributes(*inputs, masks) for _ in range(3000)]).mean(0)
        torch.testing.assert_close(mean, associate_attributes(*inputs), rtol=0, atol=0.1)


def test_a_member_is_dropped_the_same_alone_and_in_a_stack(chunking: str) -> None:
    """However chunks of members are cut; the masks of a member come from its own bits."""
    inputs, own = samples(6, 11), attributes(5, 7)
    together = pool()
    stacked = [associate(*inputs, True, None, together), associate_attributes(*own, together)]
    for member in range(K):
        alone, masks = slice(member, member + 1), DropoutPool(0.4, [3 + member], CPU)
        rows = associate(*(x[alone] for x in inputs), True, None, masks)
        of_attributes = associate_attributes(*(x[alone] for x in own), masks)
        torch.testing.assert_close(rows, stacked[0][alone], rtol=1e-12, atol=1e-13)
        torch.testing.assert_close(of_attributes, stacked[1][alone], rtol=1e-12, atol=1e-13)


# ---- memory and precision ----


@pytest.mark.skipif(sys.platform != "linux", reason="ru_maxrss is in other units elsewhere")
def test_memory_does_not_grow_with_the_square_of_the_rows() -> None:
    query, key = (normal(s, 2, 2, 4, 6000).float().requires_grad_() for s in range(2))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    associate(query, key, key, True, None, pool(members=2)).sum().backward()
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert query.grad is not None
    assert query.grad.isfinite().all()
    assert grown < 150_000  # kB; all associations would take 576 MB


def test_nothing_is_kept_where_no_gradient_is_asked_for() -> None:
    class Context:
        needs_input_grad = (False,) * 6
        kept: tuple[Tensor, ...] = ()

        def save_for_backward(self, *tensors: Tensor) -> None:
            self.kept = tensors

    for function, inputs in (
        (association._Associate, (*samples(6, 11), False, None, None)),
        (association._AssociateAttributes, (*attributes(5, 7), None)),
    ):
        context = Context()
        function.forward(context, *inputs)
        assert len(context.kept) == 3  # query, key and value


@pytest.mark.parametrize("kind", ["samples", "attributes"])
@pytest.mark.parametrize("size", [6, 30])
@pytest.mark.parametrize("dropped", [False, True])
def test_bfloat16_is_close_to_float32(chunking: str, kind: str, size: int, dropped: bool) -> None:
    """The query comes in float32: bfloat16 units times a beta of each member's own."""
    plain = samples(6, size) if kind == "samples" else attributes(size, 3)

    def run(dtype: torch.dtype) -> list[Tensor]:
        inputs = [x.to(dtype).requires_grad_() for x in plain]
        beta, masks = torch.ones(K).view(K, *[1] * (inputs[0].dim() - 1)), pool() if dropped else None
        with torch.autocast("cpu", torch.bfloat16, enabled=dtype == torch.bfloat16):
            if kind == "samples":
                out = associate(inputs[0] * beta, *inputs[1:], False, None, masks)
            else:
                out = associate_attributes(inputs[0] * beta, *inputs[1:], masks)
        assert out.dtype == dtype
        return [out, *torch.autograd.grad(out.float().square().sum(), inputs)]

    for half, single in zip(run(torch.bfloat16), run(torch.float32), strict=True):
        assert half.dtype == torch.bfloat16
        torch.testing.assert_close(half.float(), single, rtol=0, atol=0.1 * single.abs().max().item())
