"""Everything that fixes the shape of a network, and the attributes of equal width that are handled together."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from typing import Literal


@dataclass(frozen=True)
class Architecture:
    """Everything that fixes the shape of a network; the last three name where paper and released code differ."""

    widths: tuple[int, ...]
    target: int
    n_blocks: int = 4
    n_networks: int = 8
    embedding_dim: int = 32
    beta: float = 1.0
    dropout_embedding: float = 0.1
    dropout_block: float = 0.1
    dropout_summary: float = 0.01
    embedding: Literal["sum", "projected"] = "sum"
    values: Literal["tied", "separate"] = "separate"
    summary: Literal["attribute", "joint"] = "attribute"

    @property
    def n_attributes(self) -> int:
        return len(self.widths)


@dataclass(frozen=True)
class Group:
    """Neighbouring attributes of equal width, handled as one tensor."""

    width: int
    start: int  # first attribute
    stop: int
    offset: int  # first output unit

    @property
    def count(self) -> int:
        return self.stop - self.start


def attribute_groups(widths: tuple[int, ...]) -> list[Group]:
    groups, start, offset = [], 0, 0
    for width, same in groupby(widths):
        count = len(list(same))
        groups.append(Group(width, start, start + count, offset))
        start, offset = start + count, offset + count * width
    return groups
