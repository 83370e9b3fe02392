"""Everything that fixes the shape of a network, the named architectures, and attributes handled together."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any, Literal, TypeVar

Embedding = Literal["sum", "projected", "periodic"]
Values = Literal["tied", "separate"]
Summary = Literal["attribute", "joint"]


@dataclass(frozen=True)
class Parts:
    """The three parts in which the paper, the code released with it and the default differ."""

    embedding: Embedding
    values: Values
    summary: Summary


ARCHITECTURES = {
    "default": Parts("periodic", "separate", "attribute"),  # the released code's values, and waves of numbers
    "paper": Parts("sum", "tied", "attribute"),
    "released": Parts("projected", "separate", "joint"),
}


Choice = TypeVar("Choice", Parts, "Sizes", "Regularisation")


def _with_given(named: Choice, **given: Any) -> Choice:
    """Replace those values of a choice that are given, that is, not None."""
    return replace(named, **{name: value for name, value in given.items() if value is not None})


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
    return _with_given(ARCHITECTURES[architecture], embedding=embedding, values=values, summary=summary)


@dataclass(frozen=True)
class Sizes:
    """L, M and e of Section A.3."""

    n_blocks: int
    n_networks: int
    embedding_dim: int


PUBLISHED = Sizes(4, 8, 32)
WIDE = 40  # attributes; in wider tables embeddings are halved, since products grow with the square of d e
NARROW, NARROW_IN_WIDE_TABLES = Sizes(4, 2, 8), Sizes(4, 1, 4)  # of the default architecture


def choose_sizes(
    architecture: str,
    n_attributes: int,
    n_blocks: int | None = None,
    n_networks: int | None = None,
    embedding_dim: int | None = None,
) -> Sizes:
    """Return the sizes of a named architecture for a table of so many attributes, with those replaced that are given.

    The default architecture is narrow: docs/default-recipe.md shows what width is worth.
    """
    narrow = NARROW if n_attributes <= WIDE else NARROW_IN_WIDE_TABLES
    return _with_given(
        narrow if architecture == "default" else PUBLISHED,
        n_blocks=n_blocks,
        n_networks=n_networks,
        embedding_dim=embedding_dim,
    )


SPACE, SPACE_ATTRIBUTES = 64, 24  # dimensions in which a default H_s compares rows of up to so many attributes


def choose_sample_space(architecture: str, n_attributes: int) -> int | None:
    """Return how many dimensions the networks of H_s share at most; None: as many as the state has."""
    return SPACE if architecture == "default" and n_attributes <= SPACE_ATTRIBUTES else None


@dataclass(frozen=True)
class Regularisation:
    """The dropouts p_i and p_h, and the share of features that a training step replaces by random values."""

    dropout_embedding: float
    dropout_block: float
    replace_probability: float


def choose_regularisation(
    architecture: str,
    dropout_embedding: float | None = None,
    dropout_block: float | None = None,
    replace_probability: float | None = None,
) -> Regularisation:
    """Return the regularisation of a named architecture, with what is given replaced."""
    named = Regularisation(0.2, 0.2, 0.0) if architecture == "default" else Regularisation(0.1, 0.1, 0.175)
    return _with_given(
        named,
        dropout_embedding=dropout_embedding,
        dropout_block=dropout_block,
        replace_probability=replace_probability,
    )


def describe_parts(parts: Parts) -> str:
    """Return the name of the architecture with these parts, or the parts themselves if none has them."""
    named = {known: name for name, known in ARCHITECTURES.items()}
    return named.get(parts, f"{parts.embedding}, {parts.values}, {parts.summary}")


@dataclass(frozen=True)
class Architecture:
    """Everything that fixes the shape of a network; embedding, values and summary are its `Parts`."""

    widths: tuple[int, ...]
    target: int
    n_blocks: int = 4
    n_networks: int = 8
    embedding_dim: int = 32
    beta: float = 1.0
    dropout_embedding: float = 0.1
    dropout_block: float = 0.1
    dropout_summary: float = 0.01
    embedding: Embedding = "sum"
    values: Values = "separate"
    summary: Summary = "attribute"
    sample_space: int | None = None  # dimensions that the networks of H_s share at most; None: d e

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
