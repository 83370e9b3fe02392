"""BERT masking of the input (Sections 3 and A.3): what the network sees of a row while it learns."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from hopular.model.members import generator_states, restore_generators


def target_mask(rows: Tensor, target: int) -> Tensor:
    """Return the mask at inference: the target of every row (K, d, b), nothing else."""
    masked = torch.zeros(rows.shape, dtype=torch.bool, device=rows.device)
    masked.select(-2, target).fill_(True)
    return masked


class Masking:
    """Masks a share of the features, replaces another share by random values, and always masks the target.

    All features stay to be predicted; `mask_probability` of them are hidden, `replace_probability` carry a uniformly
    drawn category or a standard normal number instead of their value, the rest are shown as they are. Missing values
    are left missing. Every member draws from a generator of its own.
    """

    def __init__(
        self,
        widths: tuple[int, ...],
        target: int,
        mask_probability: float,
        replace_probability: float,
        seeds: Sequence[int],
    ) -> None:
        self.widths = torch.tensor(widths, dtype=torch.float32)[:, None]
        self.continuous = self.widths == 1
        self.target = target
        self.mask_probability = mask_probability
        self.replace_probability = replace_probability
        self.generators = [torch.Generator().manual_seed(seed) for seed in seeds]

    def __call__(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Return rows (K, d, b) as the network is to see them, and which of their values are masked."""
        masked = target_mask(rows, self.target)
        if self.mask_probability + self.replace_probability == 0:
            return rows, masked
        draw, noise = self.uniform(rows), self.noise(rows)
        known = ~rows.isnan()
        masked |= (draw < self.mask_probability) & known
        replaced = (draw >= self.mask_probability) & (draw < self.mask_probability + self.replace_probability) & known
        return torch.where(replaced & ~masked, noise, rows), masked

    def uniform(self, rows: Tensor) -> Tensor:
        """Draw a number from [0, 1) for every value of `rows`."""
        return torch.stack([torch.rand(rows.shape[1:], generator=g) for g in self.generators]).to(rows.device)

    def noise(self, rows: Tensor) -> Tensor:
        """Draw a value for every value of `rows`: a standard normal number or a uniform category."""
        numbers = torch.stack([torch.randn(rows.shape[1:], generator=g) for g in self.generators])
        categories = torch.stack([torch.rand(rows.shape[1:], generator=g) for g in self.generators]) * self.widths
        return torch.where(self.continuous, numbers, categories.floor()).to(rows.device)

    def select(self, members: Sequence[int]) -> None:
        """Go on with some of the members."""
        self.generators = [self.generators[k] for k in members]

    def state_dict(self) -> dict[str, Tensor]:
        return {"generators": generator_states(self.generators)}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        restore_generators(self.generators, state["generators"])
