"""Prediction with trained networks: rows against the stored training rows, in chunks of bounded memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from hopular.model.members import Memory, Network

CHUNK = 1 << 17  # attributes of all rows of all members that pass through the network at once,
CHUNK_ROWS = 1024  # and rows, at most
FEW = 32  # rows go through the network in multiples of so many


def gather(rows: Tensor, places: Sequence[Tensor]) -> tuple[Tensor, Tensor | None]:
    """Pick rows (n, d) of each member by their places: (K, d, most), and tell which only fill members up (K, most)."""
    most = max(len(one) for one in places)
    index = torch.stack([torch.cat([one, one[:1].expand(most - len(one))]) for one in places])
    picked = rows[index].mT.contiguous()
    if all(len(one) == most for one in places):
        return picked, None
    counts = torch.tensor([len(one) for one in places], device=rows.device)
    return picked, torch.arange(most, device=rows.device) >= counts[:, None]


def store_rows(network: Network, rows: Tensor, places: Sequence[Tensor]) -> Memory:
    """Prepare each member's training rows for its predictions, if these need any."""
    with torch.inference_mode():
        return network.store(*gather(rows, places)) if network.reads_rows else Memory()


def chunks(members: int, attributes: int, rows: int) -> Iterator[slice]:
    """Tell which rows go through the network at once, so that its memory is bounded in wide tables as well."""
    size = max(1, min(CHUNK_ROWS, CHUNK // (attributes * members)) // FEW) * FEW
    for start in range(0, rows, size):
        yield slice(start, start + size)


def predict_target(network: Network, rows: Tensor, memory: Memory) -> Tensor:
    """Predict the target (K, width, b) of rows (K, d, b) in chunks of bounded memory.

    Rows that do not fill the processor's registers are computed in another way and differ in the last bit. Chunks are
    therefore filled up to a multiple of `FEW` rows, so that a row comes out alone as it does in a batch.
    """
    parts = []
    with torch.inference_mode():
        for chunk in chunks(*rows.shape):
            part = rows[..., chunk]
            size = part.shape[-1]
            if size % FEW:
                part = torch.cat([part, part[..., :1].expand(-1, -1, FEW - size % FEW)], dim=-1)
            parts.append(network.predict(part, memory)[..., :size].float())
    return torch.cat(parts, dim=-1)
