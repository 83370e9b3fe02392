"""Experiments: one per dataset, found or made, whoever else does the same at this moment."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from flows.tracking.store import artifact_location

if TYPE_CHECKING:
    from mlflow import MlflowClient

    from flows.tracking.lineage import Lineage

PREFIX = "hopular/"
SHORT = 8  # characters of a fingerprint that tell two datasets of one name apart


def dataset_experiment(client: MlflowClient, lineage: Lineage) -> str:
    """The id of a dataset's experiment.

    A changed file stays in its experiment. Another dataset of the same name, from another source and with other
    content, gets one that has its fingerprint in the name.
    """
    tags = {name: value for name, value in lineage.tags().items() if name in ("hopular.dataset", "hopular.source")}
    tags["hopular.dataset_fingerprint"] = lineage.dataset_fingerprint
    name = PREFIX + lineage.dataset
    for attempt in (name, f"{name} {lineage.dataset_fingerprint[:SHORT]}"):
        experiment = find_or_make(client, attempt, tags)
        found = client.get_experiment(experiment).tags
        if any(found.get(tag) == tags.get(tag) for tag in ("hopular.source", "hopular.dataset_fingerprint")):
            break
    return experiment


def find_or_make(client: MlflowClient, name: str, tags: dict[str, str] | None = None) -> str:
    """The id of the experiment of this name; one that was deleted comes back."""
    from mlflow.exceptions import MlflowException

    found = client.get_experiment_by_name(name)
    if found is None:
        try:
            return str(client.create_experiment(name, artifact_location(_folder(name)), tags))
        except MlflowException as error:
            if error.error_code != "RESOURCE_ALREADY_EXISTS":
                raise
            found = client.get_experiment_by_name(name)  # another process was quicker
            assert found is not None
    if found.lifecycle_stage == "deleted":
        client.restore_experiment(found.experiment_id)
    return str(found.experiment_id)


def _folder(name: str) -> str:
    """A folder that any file system takes."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-.")[:100] or "experiment"
