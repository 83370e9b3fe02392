"""Champions: the winner by validation, replaced only beyond noise, and nothing changes when it is done again."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from flows.tracking.champion import Candidate, champion, decide, lead, promote, registered_name, write_losses
from flows.tracking.runs import Lineage, start_unit

ROWS = 60
NOISE = np.random.default_rng(0).normal(scale=0.1, size=ROWS)
NOISE -= NOISE.mean()


@pytest.fixture
def candidate(client: Any, lineage: Lineage) -> Candidate:
    return candidate_of(client, lineage, "xgboost", 0.4)


def candidate_of(
    client: Any,
    lineage: Lineage,
    method: str,
    loss: float,
    split: str = "fold-0",
    tried: int = 2,
    noise: Any = 0.0,
    start: int = 0,
) -> Candidate:
    """A method whose loss on each validation row is `loss`, with some noise; the first row of the split is `start`."""
    run = start_unit(client, replace(lineage, method=method, split=split), f"{method} {split} {loss} {tried}", None)
    with tempfile.TemporaryDirectory() as folder:
        write_losses(Path(folder), list(range(start, start + ROWS)), list(np.full(ROWS, loss) + noise))
        client.log_artifacts(run, folder)
    return Candidate(run, method, split, f"{split:*<64}", lineage.dataset_fingerprint, loss, tried)


def challenge(client: Any, candidates: Sequence[Candidate], dataset: str = "flowers") -> str:
    """Decide, and promote a model of the winner as the benchmark does, without training one."""
    decision = decide(client, dataset, candidates)
    if not decision.chosen:
        return decision.stays()
    run = client.get_run(decision.chosen[0].run_id)
    model = client.create_logged_model(run.info.experiment_id, name="refitted", source_run_id=run.info.run_id)
    return promote(client, decision, model.model_id, "60", "trained on all 60 rows")


def versions(client: Any) -> list[Any]:
    return list(client.search_model_versions("name = 'hopular-flowers'"))


def test_the_best_by_validation_is_registered_with_its_rows_and_the_reason(
    client: Any, lineage: Lineage, candidate: Candidate
) -> None:
    said = challenge(client, [candidate_of(client, lineage, "knn", 0.5), candidate])
    assert said == (
        "hopular-flowers is now xgboost, version 1, trained on all 60 rows: validation loss 0.4, the best of the first "
        "benchmark on this dataset."
    )
    found = champion(client, "flowers")
    assert found is not None
    assert (found.name, int(found.version), found.run_id) == ("hopular-flowers", 1, candidate.run_id)
    [model] = client.search_logged_models([client.get_run(candidate.run_id).info.experiment_id])
    assert found.source == model.artifact_location
    assert found.description.startswith(
        "xgboost on flowers, trained on all 60 rows, with the setting of fold-0: validation loss 0.4, the best"
    )
    assert found.tags["hopular.method"] == "xgboost"
    assert (found.tags["hopular.rows"], found.tags["hopular.trained_on"]) == ("60", "trained on all 60 rows")
    assert json.loads(model.tags["mlflow.modelVersions"]) == [{"name": "hopular-flowers", "version": found.version}]


def test_doing_it_again_changes_nothing(client: Any, candidate: Candidate) -> None:
    challenge(client, [candidate])
    assert challenge(client, [candidate]) == "hopular-flowers stays xgboost, version 1: nothing did better."
    assert len(versions(client)) == 1


def test_only_what_is_better_by_more_than_noise_replaces_it(
    client: Any, lineage: Lineage, candidate: Candidate
) -> None:
    challenge(client, [candidate])
    lucky = candidate_of(client, lineage, "knn", 0.38, noise=NOISE)  # its mean is lower, by less than the noise
    said = challenge(client, [lucky, candidate_of(client, lineage, "svm", 0.41)])
    assert said == (
        "hopular-flowers stays xgboost, version 1: knn is within noise of it, validation loss 0.38 against 0.4 of "
        "xgboost: 0.02 ahead, noise 0.029."
    )
    assert len(versions(client)) == 1
    said = challenge(client, [candidate_of(client, lineage, "hopular", 0.3, noise=NOISE)])
    assert (
        "is now hopular, version 2, trained on all 60 rows: validation loss 0.3 against 0.4 of xgboost before" in said
    )
    found = champion(client, "flowers")
    assert found is not None
    assert int(found.version) == 2


def test_the_best_of_many_settings_must_be_further_ahead(client: Any, lineage: Lineage, candidate: Candidate) -> None:
    """A champion of a small budget is not replaced by the luck of a large one on the rows that chose it."""
    challenge(client, [candidate])
    many = candidate_of(client, lineage, "glm", 0.365, tried=1000, noise=NOISE)
    assert "stays xgboost, version 1: glm is within noise of it" in challenge(client, [many])
    few = [candidate_of(client, lineage, "glm", 0.365, noise=NOISE), candidate_of(client, lineage, "svm", 0.5)]
    assert "is now glm, version 2" in challenge(client, few)


def test_noise_is_the_larger_of_that_over_rows_and_over_splits() -> None:
    rows = pd.Series(0.0, index=range(100))
    same, other = rows + 0.5, rows + 0.6
    noisy = same + np.tile([-0.1, 0.1], 50)
    one = lead({"a": other}, {"a": noisy}, 1)
    assert one == (pytest.approx(0.1), pytest.approx(1.96 * 0.1005 / 10, rel=1e-3))
    apart = {"a": other, "b": other.set_axis(range(100, 200))}
    drifted = {"a": noisy, "b": noisy.set_axis(range(100, 200)) + 0.2}
    gain, noise = lead(apart, drifted, 1)  # 0.1 ahead on one split and behind on the other
    assert (gain, noise) == (pytest.approx(0.0), pytest.approx(1.96 * 0.1, rel=1e-3))
    shared = lead({"a": other, "b": other}, {"a": noisy, "b": noisy}, 1)
    assert shared == one  # the same rows twice tell no more


def test_a_changed_dataset_starts_anew(client: Any, candidate: Candidate) -> None:
    challenge(client, [candidate])
    said = challenge(client, [replace(candidate, dataset_fingerprint="e" * 64, loss=0.9)])
    assert "version 2, trained on all 60 rows: validation loss 0.9, the best since the dataset has changed." in said


def test_scores_on_other_splits_are_not_compared(client: Any, lineage: Lineage, candidate: Candidate) -> None:
    challenge(client, [candidate])
    said = challenge(client, [candidate_of(client, lineage, "knn", 0.01, "fold-7")])
    assert said == (
        "hopular-flowers stays xgboost, version 1: knn was measured on other splits, which cannot be compared."
    )


def test_fewer_splits_than_the_champion_has_do_not_suffice(client: Any, lineage: Lineage) -> None:
    splits = ("fold-0", "fold-1", "fold-2")
    challenge(client, [candidate_of(client, lineage, "svm", 0.8, split) for split in splits])
    lucky = [candidate_of(client, lineage, "knn", 0.01)]
    assert challenge(client, lucky) == (
        "hopular-flowers stays svm, version 1: knn was measured on 1 of its 3 splits only."
    )
    whole = [candidate_of(client, lineage, "knn", 0.5, split) for split in (*splits, "fold-3")]
    assert "is now knn, version 2, trained on all 60 rows: validation loss 0.5 against 0.8" in challenge(client, whole)


def test_a_method_counts_by_its_mean_over_splits(client: Any, lineage: Lineage) -> None:
    knn = [candidate_of(client, lineage, "knn", loss, split) for split, loss in (("fold-0", 0.1), ("fold-1", 0.9))]
    svm = [candidate_of(client, lineage, "svm", loss, split) for split, loss in (("fold-0", 0.3), ("fold-1", 0.3))]
    lucky = candidate_of(client, lineage, "mlp", 0.01)  # failed on the other split
    said = challenge(client, [*knn, *svm, lucky])
    assert "is now svm, version 1, trained on all 60 rows: validation loss 0.3 (mean of 2 splits)" in said
    assert champion(client, "flowers").tags["hopular.split"] == "fold-0"  # type: ignore[union-attr]


def test_a_champion_without_losses_by_row_is_replaced(client: Any, lineage: Lineage, candidate: Candidate) -> None:
    """One of an earlier version, which was trained on the first split's training rows alone."""
    challenge(client, [candidate])
    client.delete_model_version_tag("hopular-flowers", "1", "hopular.validation_runs")
    said = challenge(client, [candidate_of(client, lineage, "knn", 0.5)])
    assert "is now knn, version 2" in said
    assert "the champion before kept no losses by row to compare with" in said


def test_a_decision_is_looked_at_again_when_it_is_carried_out(
    client: Any, lineage: Lineage, candidate: Candidate
) -> None:
    late = decide(client, "flowers", [candidate_of(client, lineage, "knn", 0.5)])
    challenge(client, [candidate])  # another benchmark, which was quicker
    said = promote(client, late, "no model", "60", "trained on all 60 rows")
    assert said == "hopular-flowers stays xgboost, version 1: nothing did better."
    assert len(versions(client)) == 1


def test_without_candidates_or_champion_there_is_nothing(client: Any) -> None:
    assert challenge(client, []) == "there is no hopular-flowers yet: there is no model to choose from."
    assert champion(client, "flowers") is None


@pytest.mark.parametrize(
    ("dataset", "name"),
    [("iris", "hopular-iris"), ("my data/é:1.csv", "hopular-my-data-1.csv"), ("///", "hopular-dataset")],
)
def test_names_are_made_safe(dataset: str, name: str) -> None:
    assert registered_name(dataset) == name
