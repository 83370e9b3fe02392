"""Softmax associations: the retrieval of Eq. 2 that every Hopfield network of the model performs, in bounded memory.

H_s passes M groups, each with all n stored rows; H_f one group per row and network, with that row's d attributes. Work
goes through cache-sized chunks, so the n x n associations of a full batch never exist at once; where they are few they
are kept for the backward pass, otherwise they are computed again there.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from hopular.model.dropout import DropoutPool

CHUNK = 1 << 17  # associations a thread handles at once: what is made of them stays in its core's cache
ROWS = 64  # rows below which a product with many stored patterns becomes inefficient
KEEP = 1 << 23  # associations kept for the backward pass, per call: 32 MB in float32, twice with dropout
SHORT = 64  # stored patterns below which torch's softmax spends more on each row than on its numbers
SAFE = 60.0  # scores within this bound can be exponentiated in float32 as they are


def _chunks(groups: int, rows: int, stored: int) -> Iterator[tuple[slice, slice]]:
    """Cut groups x rows into pieces of about `CHUNK` associations per thread, one group to each thread at least."""
    threads = torch.get_num_threads()
    row_step = min(rows, max(ROWS, CHUNK // stored))
    group_step = max(threads, threads * CHUNK // (row_step * stored))
    for g in range(0, groups, group_step):
        for r in range(0, rows, row_step):
            yield slice(g, min(g + group_step, groups)), slice(r, min(r + row_step, rows))


def _cut(x: Tensor, groups: slice, rows: slice | None = None) -> Tensor:
    """x of these groups and rows; x itself if these are all of them, as in small tables: slicing takes its time."""
    if groups.stop - groups.start < x.shape[0]:
        x = x[groups]
    return x if rows is None or rows.stop - rows.start == x.shape[1] else x[:, rows]


def _weights(query: Tensor, key: Tensor, beta: float, own: int | None) -> Tensor:
    """softmax(beta key^T query) for one chunk; `own` is where its first row is stored, if own entries are left out."""
    scores = query.new_empty(*query.shape[:2], key.shape[1])
    scores.baddbmm_(query, key.mT, beta=0, alpha=beta)
    if own is not None:
        scores.diagonal(own, dim1=1, dim2=2).fill_(-torch.inf)
    return _softmax(scores)


def _softmax(scores: Tensor) -> Tensor:
    """Softmax over the last dimension, in place; in training a few passes over the whole tensor if rows are short.

    A prediction takes torch's own, always: fewer calls for a single row, which comes out as it does in a batch.
    """
    if scores.shape[-1] >= SHORT or scores.device.type != "cpu" or scores.is_inference():
        return torch.softmax(scores, dim=-1, out=scores)
    low, high = torch.aminmax(scores)
    if not -SAFE < low.item() <= high.item() < SAFE:
        scores.sub_(scores.amax(dim=-1, keepdim=True))
    scores.exp_()
    return scores.div_(scores @ scores.new_ones(scores.shape[-1], 1))


def _softmax_backward(d_read: Tensor, p: Tensor, read: Tensor, mask: Tensor | None) -> Tensor:
    """The gradient of the scores, p (d_p - sum p d_p) with d_p = mask d_read; `d_read` is consumed.

    On short rows it is read d_read - p sum(read d_read), where `read` is p times the mask: two passes fewer.
    """
    if p.shape[-1] >= SHORT or p.device.type != "cpu":
        d_p = d_read if mask is None else d_read.mul_(mask)
        return torch._softmax_backward_data(d_p, p, -1, p.dtype, grad_input=d_p)
    d_scores = d_read.mul_(read)
    return d_scores.addcmul_(p, d_scores @ p.new_ones(p.shape[-1], 1), value=-1)


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
        masks: list[Tensor] = []
        for g, r in _chunks(groups, rows, stored):
            p = _weights(_cut(query, g, r), _cut(key, g), beta, r.start if leave_out_own else None)
            if keep is not None:
                keep.append(p)
            if dropout is not None:
                masks.append(dropout.mask(p.shape))
                p = p * masks[-1].to(p.dtype)
                if keep is not None:
                    keep.append(p)
            torch.bmm(p, _cut(value, g), out=_cut(out, g, r))
        ctx.save_for_backward(query, key, value, *(keep or ()))
        ctx.beta, ctx.leave_out_own, ctx.masks = beta, leave_out_own, masks
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_out: Tensor) -> tuple[Tensor | None, ...]:
        query, key, value, *keep = ctx.saved_tensors
        groups, rows, stored = query.shape[0], query.shape[1], key.shape[1]
        d_query = query.new_empty(query.shape)
        # Transposed, so that the products that add to them have the long side innermost.
        d_key, d_value = key.new_empty(key.mT.shape), value.new_empty(value.mT.shape)
        for i, (g, r) in enumerate(_chunks(groups, rows, stored)):
            q, k, v, d_o = _cut(query, g, r), _cut(key, g), _cut(value, g), _cut(d_out, g, r)
            mask = ctx.masks[i].to(query.dtype) if ctx.masks else None
            if keep:
                p = keep.pop(0)
                read = p if mask is None else keep.pop(0)
            else:
                p = _weights(q, k, ctx.beta, r.start if ctx.leave_out_own else None)
                read = p if mask is None else p * mask
            so_far = 0 if r.start == 0 else 1  # the first rows of a group find nothing to add to
            _cut(d_value, g).baddbmm_(d_o.mT, read, beta=so_far)
            d_scores = _softmax_backward(torch.bmm(d_o, v.mT), p, read, mask)
            _cut(d_query, g, r).baddbmm_(d_scores, k, beta=0, alpha=ctx.beta)
            _cut(d_key, g).baddbmm_(q.mT, d_scores, beta=so_far, alpha=ctx.beta)
        return d_query, d_key.mT, d_value.mT, None, None, None


def associate(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    beta: float,
    leave_out_own: bool = False,
    dropout: DropoutPool | None = None,
) -> Tensor:
    """Read from `value` (groups, stored, v) by associating `query` (groups, rows, h) with `key` (groups, stored, h).

    `leave_out_own` says that row i is stored as entry i and may not be read by itself. `dropout` drops associations
    after the softmax.
    """
    if dropout is None and not torch.is_grad_enabled() and query.shape[0] * query.shape[1] * key.shape[1] <= CHUNK:
        return torch.bmm(_weights(query, key, beta, 0 if leave_out_own else None), value)  # a short way for a few rows
    apply: Any = _Associate.apply
    retrieved: Tensor = apply(query, key, value, beta, leave_out_own, dropout)
    return retrieved


def association_weights(query: Tensor, key: Tensor, beta: float) -> Tensor:
    """The associations themselves, averaged over the groups: how strongly a row reads each stored entry."""
    total = query.new_zeros(query.shape[1], key.shape[1])
    for g, r in _chunks(query.shape[0], query.shape[1], key.shape[1]):
        total[r] += _weights(query[g, r], key[g], beta, None).sum(0)
    return total / query.shape[0]
