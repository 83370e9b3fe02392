"""Softmax associations: the retrieval of Eq. 2 that every Hopfield network of the model performs, in bounded memory.

`associate` serves H_s, where all rows of a batch read the same stored rows: products of matrices.
`associate_attributes` serves H_f, where every row reads its own d attributes in a few dimensions: too little for
products, so that it goes along the rows element by element. Both go through chunks that fit a core's cache, so that the
n x n associations of a full batch never exist at once; where they are few they are kept for the backward pass,
otherwise they are computed again there. Shapes are commented with K members, M networks, b rows, n stored rows, d
attributes, h Hopfield dimension.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from hopular.model.dropout import DropoutPool

CHUNK = 1 << 18  # associations a thread handles at once: what is made of them stays in its core's cache
ROWS = 64  # rows below which a product with many stored patterns becomes inefficient; chunks have multiples of it
KEEP = 1 << 24  # associations kept for the backward pass, per call: 64 MB in float32, twice with dropout
Chunk = tuple[slice, slice]


def _pieces(length: int, step: int) -> Iterator[slice]:
    for start in range(0, length, step):
        yield slice(start, min(start + step, length))


def _cut(x: Tensor, first: slice, last: slice | None = None) -> Tensor:
    """Return x of these members and rows; x itself if these are all of them: slicing takes its time."""
    if first.stop - first.start < x.shape[0]:
        x = x[first]
    return x if last is None or last.stop - last.start == x.shape[-1] else x[..., last]


def _windows(dropout: DropoutPool | None, chunks: Sequence[Chunk], per_row: int) -> dict[int, Tensor]:
    """Draw masks (K, size) for each piece of the rows, by its first row: the same however members are cut."""
    pieces = {rows.start: rows.stop - rows.start for _, rows in chunks}
    return {} if dropout is None else {start: dropout.window(per_row * count) for start, count in pieces.items()}


def _chunks(members: int, rows: int, per_row: int) -> list[Chunk]:
    """Cut members and rows into pieces of about `CHUNK` associations per thread, `per_row` of each row of a member.

    Rows are cut in the same places however many members there are.
    """
    budget = torch.get_num_threads() * CHUNK // per_row
    row_step = min(rows, max(ROWS, budget // ROWS * ROWS))
    member_step = max(1, budget // row_step)
    return [(k, r) for k in _pieces(members, member_step) for r in _pieces(rows, row_step)]


def _drop(p: Tensor, mask: Tensor) -> Tensor:
    """Drop associations by masks (k, size) of their members, without a copy of these; the type stays that of `p`."""
    return (p.reshape(mask.shape) * mask).view(p.shape).to(p.dtype)


def _softmax_backward(d_read: Tensor, p: Tensor, read: Tensor, dim: int) -> Tensor:
    """Return the gradient of the scores, p (d_p - sum p d_p) with d_p = mask d_read; `d_read` is consumed."""
    d_scores = d_read.mul_(read)  # p d_p, since `read` is p times the mask
    return d_scores.addcmul_(p, d_scores.sum(dim, keepdim=True), value=-1)


# ---------------------------------------------------------------------------------------------------------------- H_s


def _weights(query: Tensor, key: Tensor, own: int | None, absent: Tensor | None) -> Tensor:
    """Return softmax(key^T query) (k M, n, b) of a chunk; `own` is where its first row is stored and left out."""
    k, m, h, b = query.shape
    scores = torch.bmm(key.reshape(k * m, h, -1).mT, query.reshape(k * m, h, b))
    if own is not None:
        scores.diagonal(-own, dim1=1, dim2=2).fill_(-torch.inf)
    if absent is not None:
        scores.view(k, m, -1, b).masked_fill_(absent[:, None, :, None], -torch.inf)
    return torch.softmax(scores, dim=1, out=scores)


class _Associate(torch.autograd.Function):
    """(K, M, h, b), (K, M, h, n), (K, M, h, n) -> (K, M, h, b)."""

    @staticmethod
    def forward(
        ctx: Any,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        leave_out_own: bool,
        absent: Tensor | None,
        dropout: DropoutPool | None,
    ) -> Tensor:
        (members, networks, h, rows), stored = query.shape, key.shape[-1]
        out = query.new_empty(query.shape)
        kept, masks = [], []
        keeps = any(ctx.needs_input_grad) and members * networks * rows * stored <= KEEP
        chunks = _chunks(members, rows, networks * stored)
        windows = _windows(dropout, chunks, networks * stored)
        for k, r in chunks:
            own = r.start if leave_out_own else None
            p = _weights(_cut(query, k, r), _cut(key, k), own, None if absent is None else absent[k])
            read = p
            if dropout is not None:
                masks.append(_cut(windows[r.start], k))
                read = _drop(p, masks[-1])
            if keeps:
                kept += [p] if read is p else [p, read]
            part = torch.bmm(_cut(value, k).reshape(-1, h, stored), read)
            if len(chunks) == 1:
                out = part.view(query.shape)
            else:
                _cut(out, k, r).copy_(part.view(-1, networks, h, r.stop - r.start))
        ctx.save_for_backward(query, key, value, *kept)
        ctx.leave_out_own, ctx.absent, ctx.masks, ctx.chunks = leave_out_own, absent, masks, chunks
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_out: Tensor) -> tuple[Tensor | None, ...]:
        query, key, value, *kept = ctx.saved_tensors
        h, stored = query.shape[2], key.shape[-1]
        single = len(ctx.chunks) == 1
        gradients = [] if single else [torch.zeros_like(x) for x in (query, key, value)]
        for i, (k, r) in enumerate(ctx.chunks):
            q, d_o = (_cut(x, k, r).reshape(-1, h, r.stop - r.start) for x in (query, d_out))
            mask = ctx.masks[i] if ctx.masks else None
            if kept:
                p = kept.pop(0)
                read = p if mask is None else kept.pop(0)
            else:
                own = r.start if ctx.leave_out_own else None
                p = _weights(_cut(query, k, r), _cut(key, k), own, None if ctx.absent is None else ctx.absent[k])
                read = p if mask is None else _drop(p, mask)
            flat_key, flat_value = (_cut(x, k).reshape(-1, h, stored) for x in (key, value))
            d_v = torch.bmm(d_o, read.mT)
            d_scores = _softmax_backward(torch.bmm(flat_value.mT, d_o), p, read, dim=1)
            d_q, d_k = torch.bmm(flat_key, d_scores), torch.bmm(q, d_scores.mT)
            if single:
                gradients = [d_q.view(query.shape), d_k.view(key.shape), d_v.view(value.shape)]
            else:
                for x, rows, part in zip(gradients, (r, None, None), (d_q, d_k, d_v), strict=True):
                    into = _cut(x, k, rows)
                    into.add_(part.view(into.shape))
        return *gradients, None, None, None


def associate(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    leave_out_own: bool = False,
    absent: Tensor | None = None,
    dropout: DropoutPool | None = None,
) -> Tensor:
    """Read from `value` (K, M, h, n) by associating `query` (K, M, h, b), times beta, with `key` (K, M, h, n).

    `leave_out_own` says that row i is stored as entry i and may not be read by itself; `absent` (K, n) names entries
    that a member does not have. `dropout` drops associations after the softmax.
    """
    apply: Any = _Associate.apply
    retrieved: Tensor = apply(query.to(key.dtype), key, value, leave_out_own, absent, dropout)
    return retrieved


def association_weights(query: Tensor, key: Tensor, absent: Tensor | None = None) -> Tensor:
    """Return how strongly each row reads each stored entry: the associations (K, n, b), averaged over the networks."""
    (members, networks, _, rows), stored = query.shape, key.shape[-1]
    out = query.new_empty(members, stored, rows)
    for k, r in _chunks(members, rows, networks * stored):
        p = _weights(_cut(query, k, r), _cut(key, k), None, None if absent is None else absent[k])
        out[k, :, r] = p.view(-1, networks, stored, r.stop - r.start).mean(1)
    return out


# ---------------------------------------------------------------------------------------------------------------- H_f


def _outer(a: Tensor, b: Tensor) -> Tensor:
    """Return the products (k, M, j, i, b) of every two attributes of a row, summed over the components."""
    total = a[:, :, 0, :, None] * b[:, :, 0, None]
    for c in range(1, a.shape[2]):
        total.addcmul_(a[:, :, c, :, None], b[:, :, c, None])
    return total


def _sum_products(p: Tensor, x: Tensor, dim: int, out: Tensor) -> None:
    """Sum p (k, M, j, i, b) times each component of x (k, M, h, j or 1, i or 1, b) over `dim` of p."""
    h = out.shape[2]
    if h * p.numel() <= CHUNK:  # all at once, where calls take longer than their work
        torch.sum(p[:, :, None] * x, dim=dim + 1, out=out)
        return
    for c in range(h):
        torch.sum(p * x[:, :, c], dim=dim, out=out[:, :, c])


def _attribute_weights(query: Tensor, key: Tensor) -> Tensor:
    """Return the associations (k, M, j, i, b) of a chunk, a softmax over the attribute j that attribute i reads."""
    scores = _outer(key, query)
    return torch.softmax(scores, dim=2, out=scores)


class _AssociateAttributes(torch.autograd.Function):
    """(K, M, h, d, b) three times -> (K, M, h, d, b)."""

    @staticmethod
    def forward(ctx: Any, query: Tensor, key: Tensor, value: Tensor, dropout: DropoutPool | None) -> Tensor:
        members, networks, _, d, rows = query.shape
        out = query.new_empty(query.shape)
        kept, masks = [], []
        keeps = any(ctx.needs_input_grad) and members * networks * d * d * rows <= KEEP
        chunks = _chunks(members, rows, networks * d * d)
        windows = _windows(dropout, chunks, networks * d * d)
        for k, r in chunks:
            q, kk, v = (_cut(x, k, r) for x in (query, key, value))
            p = _attribute_weights(q, kk)
            read = p
            if dropout is not None:
                masks.append(_cut(windows[r.start], k))
                read = _drop(p, masks[-1])
            if keeps:
                kept += [p] if read is p else [p, read]
            _sum_products(read, v.unsqueeze(4), 2, out=_cut(out, k, r))
        ctx.save_for_backward(query, key, value, *kept)
        ctx.masks, ctx.chunks = masks, chunks
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_out: Tensor) -> tuple[Tensor | None, ...]:
        query, key, value, *kept = ctx.saved_tensors
        d_query, d_key, d_value = (query.new_empty(query.shape) for _ in range(3))
        for i, (k, r) in enumerate(ctx.chunks):
            q, kk, v, d_o = (_cut(x, k, r) for x in (query, key, value, d_out))
            mask = ctx.masks[i] if ctx.masks else None
            if kept:
                p = kept.pop(0)
                read = p if mask is None else kept.pop(0)
            else:
                p = _attribute_weights(q, kk)
                read = p if mask is None else _drop(p, mask)
            into_q, into_k, into_v = (_cut(x, k, r) for x in (d_query, d_key, d_value))
            _sum_products(read, d_o.unsqueeze(3), 3, out=into_v)
            d_scores = _softmax_backward(_outer(v, d_o), p, read, dim=2)
            _sum_products(d_scores, kk.unsqueeze(4), 2, out=into_q)
            _sum_products(d_scores, q.unsqueeze(3), 3, out=into_k)
        return d_query, d_key, d_value, None


def associate_attributes(query: Tensor, key: Tensor, value: Tensor, dropout: DropoutPool | None = None) -> Tensor:
    """Let the d attributes of every row read one another: (K, M, h, d, b) three times, `query` times beta."""
    apply: Any = _AssociateAttributes.apply
    retrieved: Tensor = apply(query.to(key.dtype), key, value, dropout)
    return retrieved
