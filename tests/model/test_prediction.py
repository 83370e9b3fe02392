"""Prediction in chunks: what a row gets does not depend on the rows beside it."""

from __future__ import annotations

import pytest
import torch

from hopular.model import prediction
from hopular.model.architecture import Architecture
from hopular.model.network import Hopular
from hopular.model.prediction import chunks, predict_target, read_weights

ARCHITECTURE = Architecture((1, 1, 1, 1), 3, n_blocks=1, n_networks=2, embedding_dim=8)


def test_predictions_do_not_depend_on_the_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    network, rows, stored = Hopular(ARCHITECTURE), torch.randn(50, 4), torch.randn(30, 4)
    memory = network.store(stored)
    whole = predict_target(network, rows, memory)
    assert whole.shape == (50, 1)
    weights, places = read_weights(network, rows, memory, 3)
    torch.testing.assert_close(predict_target(network, rows[:1], memory), whole[:1])
    monkeypatch.setattr(prediction, "CHUNK_ROWS", 7)
    torch.testing.assert_close(predict_target(network, rows, memory), whole)
    for a, b in zip(read_weights(network, rows, memory, 3), (weights, places), strict=True):
        torch.testing.assert_close(a, b)
    assert (weights.diff(dim=1) <= 0).all()
    assert places.max() < 30


def test_wide_tables_go_in_smaller_chunks() -> None:
    first = [next(chunks(torch.empty(1, width))).stop for width in (1, 10, 128, 100_000)]
    assert first == [1024, 1024, 256, prediction.FEW]
