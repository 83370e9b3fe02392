"""Everything that fixes the shape of a network, the named architectures, and attributes handled together."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from typing import Literal

Embedding = Literal["sum", "projected"]
Values = Literal["tied", "separate"]
Summary = Literal["attribute", "joint"]


@dataclass(frozen=True)
class Parts:
    """The three parts in which the paper and the code released with it differ."""

    embedding: Embedding
    values: Values
    summary: Summary


ARCHITECTURES = {
    "default": Parts("sum", "separate", "attribute"),  # the paper's, with the released code's values
    "paper": Parts("sum", "tied", "attribute"),
    "released": Parts("projected", "separate", "joint"),
}


def choose_architecture(architecture: str | None, recipe: str | None) -> str:
    """Return the name asked for or, for None, the one that belongs to the recipe: the paper's has the paper's."""
    return architecture or ("paper" if recipe == "paper" else "default")


def choose_parts(
    architecture: str,
    embedding: Embedding | None = None,
    values: Values | None = None,
    summary: Summary | None = None,
) -> Parts:
    """Return the parts of a named architecture, with those replaced that are given."""
    named = ARCHITECTURES[architecture]
    return Parts(embedding or named.embedding, values or named.values, summary or named.summary)


def describe_parts(parts: Parts) -> str:
    """Return the name of the architecture with these parts, or the parts themselves if none has them."""
    named = {known: name for name, known in ARCHITECTURES.items()}
    return named.get(parts, f"{parts.embedding}, {parts.values}, {parts.summary}")


@dataclass(frozen=True)
class Architecture:
    """Everything that fixes the shape of a network; the last three are its `Parts`."""

    widths: tuple[int, ...]
    target: int
    n_blocks: int = 4
    n_networks: int = 8
    embedding_dim: int = 32
    beta: float = 1.0
    dropout_embedding: float = 0.1
    dropout_block: float = 0.1
    dropout_summary: float = 0.01
    embedding: Embedding = ARCHITECTURES["default"].embedding
    values: Values = ARCHITECTURES["default"].values
    summary: Summary = ARCHITECTURES["default"].summary

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
