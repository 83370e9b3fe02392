"""Prediction in chunks: what a row gets depends neither on the rows beside it nor on what fills up other members."""

from __future__ import annotations

from itertools import product

import pytest
import torch
from torch import Tensor

from hopular.model import association, prediction
from hopular.model.architecture import Architecture
from hopular.model.network import Hopular
from hopular.model.prediction import FEW, chunks, gather, predict_target

WIDTHS = (1, 1, 1, 3)
OPTIONS = list(product(("sum", "projected"), ("tied", "separate"), ("attribute", "joint")))
SIZES = {"n_blocks": 2, "n_networks": 2, "embedding_dim": 8}


def make(widths: tuple[int, ...] = WIDTHS, members: int = 2, **options) -> Hopular:
    architecture = Architecture(widths, len(widths) - 1, **{**SIZES, **options})
    return Hopular(architecture, range(members)).requires_grad_(False)


def table(n: int, widths: tuple[int, ...] = WIDTHS, members: int = 2, seed: int = 0) -> Tensor:
    """Rows (K, d, n)."""
    g, shape = torch.Generator().manual_seed(seed), (members, n)
    values = [
        torch.randn(shape, generator=g) if w == 1 else torch.randint(w, shape, generator=g).float() for w in widths
    ]
    return torch.stack(values, dim=1)


def test_predictions_do_not_depend_on_the_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    network, rows = make(), table(50)
    memory = network.store(table(30, seed=1))
    whole, weights = predict_target(network, rows, memory), network.read_weights(rows, memory)
    assert whole.shape == (2, 3, 50)
    assert weights.shape == (2, 30, 50)
    monkeypatch.setattr(prediction, "FEW", 7)
    monkeypatch.setattr(prediction, "CHUNK_ROWS", 7)
    torch.testing.assert_close(predict_target(network, rows, memory), whole)
    torch.testing.assert_close(network.read_weights(rows, memory), weights)
    torch.testing.assert_close(weights.sum(1), torch.ones(2, 50))


def test_wide_tables_and_many_members_go_in_smaller_chunks() -> None:
    first = [
        next(chunks(members, width, 5000)).stop for members, width in ((1, 1), (1, 10), (8, 10), (8, 64), (1, 10**6))
    ]
    assert first == [1024, 1024, 1024, 256, FEW]
    assert all(part.stop % FEW == 0 for part in chunks(7, 33, 5000))
    assert [part.start for part in chunks(1, 1, 2050)] == [0, 1024, 2048]


BATCHES = (1, 2, 3, 5, 8, 16, 31, 32, 33, 64, 100, 500)


@pytest.mark.parametrize(("embedding", "values", "summary"), OPTIONS)
def test_a_row_alone_is_a_row_in_a_batch_bit_for_bit(embedding: str, values: str, summary: str) -> None:
    network, rows = make(members=3, embedding=embedding, values=values, summary=summary), table(1100, members=3)
    memory = network.store(table(41, members=3, seed=1))
    whole = predict_target(network, rows, memory)
    for size in BATCHES:
        assert torch.equal(predict_target(network, rows[..., :size], memory), whole[..., :size])
    for i in range(0, 1100, 50):
        assert torch.equal(predict_target(network, rows[..., i : i + 1], memory), whole[..., i : i + 1])


@pytest.mark.parametrize(
    ("widths", "members", "stored", "sizes"),
    [
        ((1,) * 14, 8, 150, {}),
        ((1,) * 45 + (2,), 2, 300, {"embedding_dim": 4}),  # many chunks within H_f
        ((2, 3), 1, 33, {}),
        ((1, 1), 2, 1, {}),
        ((1,) * 6, 1, 2000, {"n_networks": 8, "embedding_dim": 32}),  # many chunks within H_s
        ((1,) * 5, 2, 41, {"n_networks": 3, "embedding_dim": 5}),
    ],
)
def test_that_holds_for_tables_of_many_shapes(
    widths: tuple[int, ...], members: int, stored: int, sizes: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(association, "CHUNK", 1 << 16)
    network, rows = make(widths, members, **sizes), table(700, widths, members)
    memory = network.store(table(stored, widths, members, seed=1))
    whole = predict_target(network, rows, memory)
    for size in BATCHES:
        assert torch.equal(predict_target(network, rows[..., :size], memory), whole[..., :size])
    assert torch.equal(predict_target(network, rows[..., 499:500], memory), whole[..., 499:500])


# ---- gather ----


def test_rows_of_each_member_are_picked_by_their_places() -> None:
    rows = torch.arange(20.0).view(10, 2)
    picked, absent = gather(rows, [torch.tensor([3, 1]), torch.tensor([0, 9])])
    assert picked.tolist() == [[[6, 2], [7, 3]], [[0, 18], [1, 19]]]
    assert picked.is_contiguous()
    assert absent is None


def test_members_with_fewer_rows_are_filled_up() -> None:
    rows = torch.arange(20.0).view(10, 2)
    picked, absent = gather(rows, [torch.tensor([3, 1, 5]), torch.tensor([4])])
    assert picked.shape == (2, 2, 3)
    assert absent is not None
    assert absent.tolist() == [[False] * 3, [False, True, True]]
    assert picked[1, :, 0].tolist() == [8, 9]


@pytest.mark.parametrize("missing", [False, True])
def test_what_fills_up_a_member_never_changes_a_prediction(missing: bool) -> None:
    """Neither those of the member, whatever stands there, nor those of the others."""
    network, rows = make(), table(20)
    stored = table(30, members=1, seed=1)[0].T
    places = [torch.arange(30), torch.arange(5, 17)]
    if missing:
        stored[5, 0] = torch.nan  # the row that fills up the second member
    picked, absent = gather(stored, places)
    assert absent is not None
    expected = predict_target(network, rows, network.store(picked, absent))
    weights = network.read_weights(rows, network.store(picked, absent))
    picked[1, :, 12:] = torch.tensor([1e5, -1e5, 0.0, 2.0])[:, None]
    assert torch.equal(predict_target(network, rows, network.store(picked, absent)), expected)
    assert weights[1, 12:].count_nonzero() == 0
    for member, own in enumerate(places):
        alone, none = gather(stored, [own, own])
        assert none is None
        result = predict_target(network, rows, network.store(alone))[member]
        torch.testing.assert_close(result, expected[member])
