"""A real training step at a given shape, and the time it takes beside the floor of its matrix products."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import torch

from benchmarks.floor import Shape, floor_step
from benchmarks.plain import plain_step
from hopular.model.architecture import Architecture
from hopular.model.network import Hopular, HopularStep
from hopular.model.recipe import paper_recipe
from hopular.model.trainer import Part

HALFWAY = 0.5  # share of training that is done: both losses have the same weight there


def training_step(shape: Shape, values: str, stored: int | None = None) -> Callable[[], None]:
    """One step of the paper's recipe: masking, dropouts, full objective, LAMB and slow weights.

    `stored` rows are in memory, the batch among them; as many as the batch has unless given.
    """
    arch = Architecture(
        widths=(1,) * (shape.d - 1) + (6,),
        target=shape.d - 1,
        n_blocks=shape.L,
        n_networks=shape.M,
        embedding_dim=shape.e,
        values=values,  # type: ignore[arg-type]
    )
    generator = torch.Generator().manual_seed(0)
    rows = torch.randn(stored or shape.n, shape.d, generator=generator)
    rows[:, -1] = torch.randint(0, 6, (len(rows),), generator=generator).float()
    parts = [Part(torch.arange(len(rows)), torch.arange(0))]
    training = HopularStep(Hopular(arch, [0]), paper_recipe(len(rows)), [0], rows, parts)
    of_member = rows.T[None].contiguous()

    def step() -> None:
        training.learn(of_member, shape.n, HALFWAY)

    return step


def compare(shape: Shape, values: str, repeats: int) -> dict[str, float]:
    """Median seconds of the floor, of a plain step and of the model's step, measured in turns."""
    runs = {"floor": floor_step(shape, values), "step": training_step(shape, values)}
    if shape.n < 1000:  # the plain step materialises the associations of all blocks
        runs["plain"] = plain_step(shape, values)
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    for run in runs.values():
        run()
    for _ in range(repeats):
        for name, run in runs.items():
            start = time.perf_counter()
            run()
            seconds[name].append(time.perf_counter() - start)
    return {name: statistics.median(measured) for name, measured in seconds.items()}
