"""A real training step at a given shape, and the time it takes beside the floor of its matrix products."""

from __future__ import annotations

import copy
import statistics
import time
from collections.abc import Callable

import torch

from benchmarks.floor import Shape, floor_step
from benchmarks.plain import plain_step
from hopular.model.architecture import Architecture
from hopular.model.dropout import Dropouts
from hopular.model.masking import Masking
from hopular.model.network import Hopular
from hopular.model.objective import objective
from hopular.model.optimizer import Lamb, LambSettings


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
    torch.manual_seed(0)
    network = Hopular(arch)
    slow = copy.deepcopy(network)
    optimizer = Lamb(network.parameters(), slow.parameters(), 0.005, LambSettings())
    rows = torch.randn(stored or shape.n, shape.d)
    rows[:, -1] = torch.randint(0, 6, (len(rows),)).float()
    batch = rows[: shape.n]
    masking = Masking(arch.widths, arch.target, 0.025, 0.175, seed=0)
    dropouts = Dropouts(arch.dropout_embedding, arch.dropout_block, arch.dropout_summary, 0, torch.device("cpu"))

    def step() -> None:
        dropouts.renew()
        seen, masked = masking(batch)
        predictions = network(seen, masked, network.store(rows, dropouts), dropouts, leave_out_own=True)
        loss = objective(predictions, batch, network.summary.groups, arch.target, gamma=0.5)
        loss.backward()
        optimizer.step(1e-3)

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
