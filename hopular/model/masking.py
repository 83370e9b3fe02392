"""BERT masking of the input (Sections 3 and A.3): what the network sees of a row while it learns."""

from __future__ import annotations

import torch
from torch import Tensor


def target_mask(rows: Tensor, target: int) -> Tensor:
    """The mask at inference: the target of every row, nothing else."""
    masked = torch.zeros(rows.shape, dtype=torch.bool, device=rows.device)
    masked.select(1, target).fill_(True)
    return masked


class Masking:
    """Masks a share of the features, replaces another share by random values, and always masks the target.

    All features stay to be predicted; `mask_probability` of them are hidden, `replace_probability` carry a uniformly
    drawn category or a standard normal number instead of their value, the rest are shown as they are. Missing values
    are left missing.
    """

    def __init__(
        self, widths: tuple[int, ...], target: int, mask_probability: float, replace_probability: float, seed: int
    ) -> None:
        self.widths = torch.tensor(widths, dtype=torch.float32)
        self.continuous = self.widths == 1
        self.target = target
        self.mask_probability = mask_probability
        self.replace_probability = replace_probability
        self.generator = torch.Generator().manual_seed(seed)

    def __call__(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Rows as the network is to see them, and which of their values are masked."""
        masked = target_mask(rows, self.target)
        if self.mask_probability + self.replace_probability == 0:
            return rows, masked
        draw = torch.rand(rows.shape, generator=self.generator).to(rows.device)
        noise = self.noise(rows)
        known = ~rows.isnan()
        masked |= (draw < self.mask_probability) & known
        replaced = (draw >= self.mask_probability) & (draw < self.mask_probability + self.replace_probability) & known
        return torch.where(replaced & ~masked, noise, rows), masked

    def noise(self, rows: Tensor) -> Tensor:
        """Draw a value for every value of `rows`: a standard normal number or a uniform category."""
        numbers = torch.randn(rows.shape, generator=self.generator)
        categories = (torch.rand(rows.shape, generator=self.generator) * self.widths).floor()
        return torch.where(self.continuous, numbers, categories).to(rows.device)

    def step(self, rows: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The same for a training step, with the values that count in its loss; NaN for those that do not."""
        return (*self(rows), rows)
