"""Softmax associations: the retrieval of Eq. 2 that every Hopfield network of the model performs, in bounded memory.

`associate` serves H_s, where many rows read the same stored rows, and H_f over many attributes. `associate_few` serves
H_f over few attributes, where a softmax over rows of ten numbers would waste the processor. Both work through
cache-sized chunks, so the n x n associations of a full batch never exist at once; where they are few they are kept
for the backward pass, otherwise they are computed again there.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from hopular.model.dropout import DropoutPool

CHUNK = 1 << 19  # associations of one group handled at once: 2 MB in float32, near a core's cache
KEEP = 1 << 23  # associations kept for the backward pass, per call: 32 MB in float32
FEW = 16  # below this many stored patterns `associate_few` is the faster one


def _chunks(groups: int, rows: int, stored: int) -> Iterator[tuple[slice, slice]]:
    """Cut groups x rows into pieces of about `CHUNK` associations per thread, one group to each thread at least."""
    threads = torch.get_num_threads()
    row_step = min(rows, max(1, CHUNK // stored))
    group_step = max(threads, threads * CHUNK // (row_step * stored))
    for g in range(0, groups, group_step):
        for r in range(0, rows, row_step):
            yield slice(g, min(g + group_step, groups)), slice(r, min(r + row_step, rows))


def _weights(query: Tensor, key: Tensor, beta: float, own: int | None) -> Tensor:
    """softmax(beta key^T query) for one chunk; `own` is where its first row is stored, if own entries are left out."""
    scores = torch.baddbmm(query.new_empty(()), query, key.mT, beta=0, alpha=beta)
    if own is not None:
        scores.diagonal(own, dim1=1, dim2=2).fill_(-torch.inf)
    return torch.softmax(scores, dim=-1)


class _Associate(torch.autograd.Function):
    """value^T softmax(beta key^T query), with a backward pass that needs no more memory than the forward pass."""

    @staticmethod
    def forward(
        ctx: Any,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        beta: float,
        leave_out_own: bool,
        dropout: DropoutPool | None,
    ) -> Tensor:
        groups, rows, stored = query.shape[0], query.shape[1], key.shape[1]
        out = query.new_empty(groups, rows, value.shape[2])
        needed = any(ctx.needs_input_grad)
        keep: list[Tensor] | None = [] if needed and groups * rows * stored <= KEEP else None
        offsets = []
        for g, r in _chunks(groups, rows, stored):
            p = _weights(query[g, r], key[g], beta, r.start if leave_out_own else None)
            if keep is not None:
                keep.append(p)
            if dropout is not None:
                offsets.append(dropout.offset(p.numel()))
                p = p * dropout.window(offsets[-1], p.shape, p.dtype)
            out[g, r] = torch.bmm(p, value[g])
        ctx.save_for_backward(query, key, value, *(keep or ()))
        ctx.beta, ctx.leave_out_own, ctx.dropout, ctx.offsets = beta, leave_out_own, dropout, offsets
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_out: Tensor) -> tuple[Tensor | None, ...]:
        query, key, value, *keep = ctx.saved_tensors
        groups, rows, stored = query.shape[0], query.shape[1], key.shape[1]
        d_out = d_out.contiguous()
        d_query = query.new_empty(query.shape)
        # Transposed, so that the products that add to them have the long side innermost.
        d_key, d_value = key.new_zeros(key.mT.shape), value.new_zeros(value.mT.shape)
        for i, (g, r) in enumerate(_chunks(groups, rows, stored)):
            own = r.start if ctx.leave_out_own else None
            p = keep[i] if keep else _weights(query[g, r], key[g], ctx.beta, own)
            d_p = torch.bmm(d_out[g, r], value[g].mT)
            if ctx.dropout is None:
                d_value[g].baddbmm_(d_out[g, r].mT, p)
            else:
                mask = ctx.dropout.window(ctx.offsets[i], p.shape, p.dtype)
                d_value[g].baddbmm_(d_out[g, r].mT, p * mask)
                d_p.mul_(mask)
            d_scores = torch._softmax_backward_data(d_p, p, -1, p.dtype)
            d_query[g, r] = torch.baddbmm(query.new_empty(()), d_scores, key[g], beta=0, alpha=ctx.beta)
            d_key[g].baddbmm_(query[g, r].mT, d_scores, alpha=ctx.beta)
        return d_query, d_key.mT, d_value.mT, None, None, None


def associate(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    beta: float,
    leave_out_own: bool = False,
    dropout: DropoutPool | None = None,
) -> Tensor:
    """Retrieve from `value` (groups, stored, v) by associating `query` (groups, rows, h) with `key` (groups, stored, h).

    `leave_out_own` says that row i is stored as entry i and may not be read by itself. `dropout` drops associations
    after the softmax.
    """
    return _Associate.apply(query, key, value, beta, leave_out_own, dropout)  # type: ignore[no-any-return, no-untyped-call]


def association_weights(query: Tensor, key: Tensor, beta: float) -> Tensor:
    """The associations themselves, averaged over the groups: how strongly a row reads each stored entry."""
    total = query.new_zeros(query.shape[1], key.shape[1])
    for g, r in _chunks(query.shape[0], query.shape[1], key.shape[1]):
        total[r] += _weights(query[g, r], key[g], beta, None).sum(0)
    return total / query.shape[0]


def _sum_over_stored(weights: Tensor, patterns: Tensor, out: Tensor) -> None:
    """out[m, c, i, b] = sum over j of weights[m, j, i, b] patterns[m, c, j, b]."""
    out.zero_()
    for j in range(weights.shape[1]):
        out.addcmul_(weights[:, None, j], patterns[:, :, j, None])


def _sum_over_components(left: Tensor, right: Tensor) -> Tensor:
    """[m, j, i, b] = sum over c of left[m, c, j, b] right[m, c, i, b]."""
    out = left[:, 0, :, None] * right[:, 0, None]
    for c in range(1, left.shape[1]):
        out.addcmul_(left[:, c, :, None], right[:, c, None])
    return out


class _AssociateFew(torch.autograd.Function):
    """The same retrieval with the batch as the innermost dimension: query, key, value (M, h, d, b) -> (M, h, d, b)."""

    @staticmethod
    def forward(
        ctx: Any, query: Tensor, key: Tensor, value: Tensor, beta: float, dropout: DropoutPool | None
    ) -> Tensor:
        out = torch.empty_like(query)
        networks, _, d, batch = query.shape
        step = max(1, CHUNK // (d * d * batch))
        keep, offsets = [], []
        for m in range(0, networks, step):
            g = slice(m, m + step)
            p = torch.softmax(_sum_over_components(key[g], query[g] * beta), dim=1)
            keep.append(p)
            if dropout is not None:
                offsets.append(dropout.offset(p.numel()))
                p = p * dropout.window(offsets[-1], p.shape, p.dtype)
            _sum_over_stored(p, value[g], out[g])
        ctx.save_for_backward(query, key, value, *(keep if any(ctx.needs_input_grad) else ()))
        ctx.beta, ctx.dropout, ctx.offsets, ctx.step = beta, dropout, offsets, step
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_out: Tensor) -> tuple[Tensor | None, ...]:
        query, key, value, *keep = ctx.saved_tensors
        d_out = d_out.contiguous()
        d_query, d_key, d_value = torch.empty_like(query), torch.empty_like(key), torch.empty_like(value)
        for i, p in enumerate(keep):
            g = slice(i * ctx.step, (i + 1) * ctx.step)
            d_p = _sum_over_components(value[g], d_out[g])
            mask = None
            if ctx.dropout is not None:
                mask = ctx.dropout.window(ctx.offsets[i], p.shape, p.dtype)
                d_p.mul_(mask)
            _sum_over_stored((p if mask is None else p * mask).transpose(1, 2), d_out[g], d_value[g])
            d_scores = torch._softmax_backward_data(d_p, p, 1, p.dtype).mul_(ctx.beta)
            _sum_over_stored(d_scores, key[g], d_query[g])
            _sum_over_stored(d_scores.transpose(1, 2), query[g], d_key[g])
        return d_query, d_key, d_value, None, None


def associate_few(query: Tensor, key: Tensor, value: Tensor, beta: float, dropout: DropoutPool | None = None) -> Tensor:
    """Retrieve among the d attributes of each of b rows: query, key and value are (M, h, d, b), as is the result."""
    return _AssociateFew.apply(query, key, value, beta, dropout)  # type: ignore[no-any-return, no-untyped-call]
