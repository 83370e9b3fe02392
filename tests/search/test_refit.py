"""After the search: the best trial's own model again, other seeds, more rows, and an ensemble of what was tried."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from hopular.data import load, make_splits
from hopular.methods import get_method
from hopular.methods.method import Run
from hopular.search.budget import Budget
from hopular.search.engine import SearchResult, search
from hopular.search.fit import score_rows
from hopular.search.problem import Problem, make_problem
from hopular.search.refit import choose_members, fit_record, replicate_seeds

BUDGET = Budget(trials=4, grid_trials=4, max_epochs=5)


@pytest.fixture(scope="module")
def searched(tmp_path_factory: pytest.TempPathFactory) -> tuple[Problem, dict[str, SearchResult], dict[str, Path]]:
    """Two small searches on iris, with their validation predictions."""
    folder = tmp_path_factory.mktemp("refit")
    dataset = load("iris")
    problem = make_problem(dataset, make_splits(dataset)[0])
    results = {
        method: search(problem, method, BUDGET, storage=f"sqlite:///{folder}/s.db", predictions=folder / method)
        for method in ("random_forest", "xgboost")
    }
    return problem, results, {m: folder / m / r.study.rpartition(" ")[2] for m, r in results.items()}


def test_the_trials_own_model_comes_back(searched: tuple) -> None:
    problem, results, folders = searched
    for method, result in results.items():
        best = result.best
        model = fit_record(problem, method, best, BUDGET)
        metrics, score, predictions = score_rows(model, problem.task, problem.X_valid, problem.y_valid)
        assert (score, metrics) == (best.score, best.metrics)
        np.testing.assert_array_equal(predictions, np.load(folders[method] / f"{best.slot}.npy"))


def test_replicates_have_seeds_of_their_own(searched: tuple) -> None:
    problem, results, _ = searched
    best = results["random_forest"].best
    seeds = replicate_seeds(best, 3)
    assert seeds[0] == best.seed
    assert len(set(seeds)) == 3
    outputs = [
        fit_record(problem, "random_forest", best, BUDGET, seed=seed).predict_proba(problem.X_valid) for seed in seeds
    ]
    assert not np.array_equal(outputs[0], outputs[1])


def test_training_and_validation_rows_together(searched: tuple) -> None:
    problem, results, _ = searched
    best = results["xgboost"].best
    model = fit_record(problem, "xgboost", best, BUDGET, rows="train+valid")
    assert best.rounds is not None
    assert model.n_estimators == best.rounds
    assert model.score(problem.X_valid, problem.y_valid) == 1.0


def test_members_come_from_all_searches_and_make_an_ensemble(searched: tuple) -> None:
    problem, results, folders = searched
    members = choose_members(problem, {m: r.records for m, r in results.items()}, folders, BUDGET)
    assert 1 <= len(members) <= 8
    for method, params, seed in members:
        assert (params, seed) in [(record.params, record.seed) for record in results[method].records]
    ensemble = get_method("ensemble").make("classification", {"members": members}, Run())
    ensemble.fit(problem.X_train, problem.y_train, eval_set=(problem.X_valid, problem.y_valid))
    losses = [record.metrics["log_loss"] for result in results.values() for record in result.records]
    metrics, _, _ = score_rows(ensemble, problem.task, problem.X_valid, problem.y_valid)
    assert metrics["log_loss"] <= min(losses) + 1e-6


def test_without_predictions_there_is_no_ensemble(searched: tuple, tmp_path: Path) -> None:
    problem, results, _ = searched
    with pytest.raises(ValueError, match="no complete trial with validation predictions"):
        choose_members(problem, {m: r.records for m, r in results.items()}, dict.fromkeys(results, tmp_path), BUDGET)
