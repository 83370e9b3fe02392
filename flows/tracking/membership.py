"""Membership: which benchmarks a unit's run is part of, and which store it is that keeps them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flows.tracking.experiments import find_or_make
from flows.tracking.summary import EXPERIMENT

if TYPE_CHECKING:
    from mlflow import MlflowClient


def store_id(client: MlflowClient) -> str:
    """Names this store, by whatever address, and no other, not even one that was deleted and made again."""
    experiment = client.get_experiment(find_or_make(client, EXPERIMENT))
    return f"{experiment.experiment_id} {experiment.creation_time}"


def join_benchmark(client: MlflowClient, run_id: str, benchmark: str) -> None:
    """Note on a unit's run that a benchmark uses it; people filter by this tag."""
    client.set_tag(run_id, f"hopular.in.{benchmark}", "yes")
