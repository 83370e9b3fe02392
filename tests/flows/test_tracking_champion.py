"""Champions: the winner by validation, replaced by better ones only, and nothing changes when it is done again."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from flows.tracking.champion import Candidate, champion, promote, registered_name
from flows.tracking.lineage import Lineage
from flows.tracking.units import start_unit


@pytest.fixture
def candidate(client: Any, lineage: Lineage) -> Candidate:
    return candidate_of(client, lineage, "xgboost", 0.8)


def candidate_of(client: Any, lineage: Lineage, method: str, score: float, split: str = "fold-0") -> Candidate:
    run = start_unit(client, replace(lineage, method=method, split=split), f"{method} {split} {score}", None)
    model = client.create_logged_model(client.get_run(run).info.experiment_id, name=method, source_run_id=run)
    return Candidate(model.model_id, run, method, split, f"{split:*<64}", lineage.dataset_fingerprint, score)


def versions(client: Any) -> list[Any]:
    return list(client.search_model_versions("name = 'hopular-flowers'"))


def test_the_best_by_validation_is_registered_with_the_reason(
    client: Any, lineage: Lineage, candidate: Candidate
) -> None:
    said = promote(client, "flowers", [candidate_of(client, lineage, "knn", 0.7), candidate])
    assert said.startswith("hopular-flowers is now xgboost, version 1: validation score 0.8")
    found = champion(client, "flowers")
    assert found is not None
    assert (found.name, int(found.version), found.run_id) == ("hopular-flowers", 1, candidate.run_id)
    assert found.source == client.get_logged_model(candidate.model_id).artifact_location
    assert found.description.startswith("xgboost on flowers, fold-0: validation score 0.8, the best of the first")
    assert found.tags["hopular.method"] == "xgboost"
    shown = client.get_logged_model(candidate.model_id).tags["mlflow.modelVersions"]
    assert json.loads(shown) == [{"name": "hopular-flowers", "version": found.version}]


def test_doing_it_again_changes_nothing(client: Any, candidate: Candidate) -> None:
    promote(client, "flowers", [candidate])
    assert promote(client, "flowers", [candidate]) == "hopular-flowers stays xgboost, version 1: nothing did better."
    assert len(versions(client)) == 1


def test_only_a_better_one_replaces_it(client: Any, lineage: Lineage, candidate: Candidate) -> None:
    promote(client, "flowers", [candidate])
    promote(client, "flowers", [candidate_of(client, lineage, "knn", 0.8), candidate_of(client, lineage, "svm", 0.79)])
    assert len(versions(client)) == 1
    said = promote(client, "flowers", [candidate_of(client, lineage, "hopular", 0.9)])
    assert said == "hopular-flowers is now hopular, version 2: validation score 0.9 against 0.8 of xgboost before."
    found = champion(client, "flowers")
    assert found is not None
    assert int(found.version) == 2


def test_a_changed_dataset_starts_anew(client: Any, candidate: Candidate) -> None:
    promote(client, "flowers", [candidate])
    said = promote(client, "flowers", [replace(candidate, dataset_fingerprint="e" * 64, valid_score=0.1)])
    assert "version 2: validation score 0.1, the best since the dataset has changed." in said


def test_scores_on_other_splits_are_not_compared(client: Any, lineage: Lineage, candidate: Candidate) -> None:
    promote(client, "flowers", [candidate])
    said = promote(client, "flowers", [candidate_of(client, lineage, "knn", 0.99, "fold-7")])
    assert said == (
        "hopular-flowers stays xgboost, version 1: knn was measured on other splits, which cannot be compared."
    )


def test_fewer_splits_than_the_champion_has_do_not_suffice(client: Any, lineage: Lineage) -> None:
    splits = ("fold-0", "fold-1", "fold-2")
    promote(client, "flowers", [candidate_of(client, lineage, "svm", 0.8, split) for split in splits])
    lucky = [candidate_of(client, lineage, "knn", 0.99)]
    assert promote(client, "flowers", lucky) == (
        "hopular-flowers stays svm, version 1: knn was measured on 1 of its 3 splits only."
    )
    whole = [candidate_of(client, lineage, "knn", 0.9, split) for split in (*splits, "fold-3")]
    assert "is now knn, version 2: validation score 0.9 against 0.8" in promote(client, "flowers", whole)


def test_a_method_counts_by_its_mean_over_splits(client: Any, lineage: Lineage) -> None:
    knn = [candidate_of(client, lineage, "knn", score, split) for split, score in (("fold-0", 0.9), ("fold-1", 0.5))]
    svm = [candidate_of(client, lineage, "svm", score, split) for split, score in (("fold-0", 0.8), ("fold-1", 0.8))]
    lucky = candidate_of(client, lineage, "mlp", 0.99)  # failed on the other split
    assert "is now svm, version 1: validation score 0.8 (mean of 2 splits)" in promote(
        client, "flowers", [*knn, *svm, lucky]
    )
    assert champion(client, "flowers").tags["hopular.split"] == "fold-0"  # type: ignore[union-attr]


def test_without_candidates_or_champion_there_is_nothing(client: Any) -> None:
    assert promote(client, "flowers", []) == "hopular-flowers stays as it is: there is no model to choose from."
    assert champion(client, "flowers") is None


@pytest.mark.parametrize(
    ("dataset", "name"),
    [("iris", "hopular-iris"), ("my data/é:1.csv", "hopular-my-data-1.csv"), ("///", "hopular-dataset")],
)
def test_names_are_made_safe(dataset: str, name: str) -> None:
    assert registered_name(dataset) == name
