"""Prediction with a trained network: rows against the stored training rows, in chunks of bounded memory."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from hopular.model.masking import target_mask
from hopular.model.network import Hopular, Memory

CHUNK = 1 << 15  # attributes of all rows that pass through the network at once,
CHUNK_ROWS = 1024  # and rows, at most
FEW = 4


def chunks(rows: Tensor) -> Iterator[slice]:
    """Which rows go through the network at once, so that its memory is bounded in wide tables as well."""
    size = max(FEW, min(CHUNK_ROWS, CHUNK // rows.shape[1]))
    for start in range(0, len(rows), size):
        yield slice(start, start + size)


def predict_target(network: Hopular, rows: Tensor, memory: Memory) -> Tensor:
    """Target predictions (rows, width) with only the target masked, in chunks of bounded memory.

    Products of fewer than `FEW` rows take another way through the library and differ in the last bit: these rows are
    filled up, so that a row comes out alone as it does in a batch.
    """
    parts = []
    with torch.inference_mode():
        for chunk in chunks(rows):
            part = rows[chunk]
            size = len(part)
            if size < FEW:
                part = part.expand(FEW, -1) if size == 1 else part.repeat(FEW, 1)[:FEW]
            predictions = network(part, target_mask(part, network.arch.target), memory)
            parts.append(network.target(predictions)[:size].float())
    return torch.cat(parts)


def read_weights(network: Hopular, rows: Tensor, memory: Memory, k: int) -> tuple[Tensor, Tensor]:
    """The k largest weights with which each row reads the stored rows, and their places, both (rows, k)."""
    weights, places = [], []
    for chunk in chunks(rows):
        part = rows[chunk]
        top = network.read_weights(part, target_mask(part, network.arch.target), memory).topk(k, dim=1)
        weights.append(top.values)
        places.append(top.indices)
    return torch.cat(weights), torch.cat(places)
