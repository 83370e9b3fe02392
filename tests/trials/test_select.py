"""After the search: seeds to train with, and an ensemble of what was tried."""

from __future__ import annotations

from pathlib import Path

import pytest

from hopular.data import load, make_splits
from hopular.methods import get_method
from hopular.methods.method import Run
from hopular.trials.budget import Budget
from hopular.trials.fit import score_rows
from hopular.trials.problem import Problem, make_problem
from hopular.trials.refit import replicate_seeds
from hopular.trials.run import SearchResult, search
from hopular.trials.select import choose_members

BUDGET = Budget(trials=4, grid_trials=4, max_epochs=5)


@pytest.fixture(scope="module")
def searched(tmp_path_factory: pytest.TempPathFactory) -> tuple[Problem, dict[str, SearchResult], dict[str, Path]]:
    """Two small searches on iris, with their validation predictions."""
    folder = tmp_path_factory.mktemp("refit")
    dataset = load("iris")
    problem = make_problem(dataset, make_splits(dataset)[0])
    results = {
        method: search(problem, method, BUDGET, storage=f"sqlite:///{folder}/s.db", predictions=folder / method)
        for method in ("decision_tree", "knn")
    }
    return problem, results, {m: folder / m / r.study.rpartition(" ")[2] for m, r in results.items()}


def test_replicates_have_seeds_of_their_own(searched: tuple) -> None:
    best = searched[1]["decision_tree"].best
    seeds = replicate_seeds(best, 3)
    assert seeds[0] == best.seed
    assert len(set(seeds)) == 3


def test_members_come_from_all_searches_and_make_an_ensemble(searched: tuple) -> None:
    problem, results, folders = searched
    members = choose_members(problem, {m: r.trials for m, r in results.items()}, folders)
    assert 1 <= len(members) <= 8
    for method, params, seed in members:
        assert (params, seed) in [(record.params, record.seed) for record in results[method].trials]
    ensemble = get_method("ensemble").make("classification", {"members": members}, Run())
    ensemble.fit(problem.X_train, problem.y_train, eval_set=(problem.X_valid, problem.y_valid))
    losses = [record.metrics["log_loss"] for result in results.values() for record in result.trials]
    metrics, _ = score_rows(ensemble, problem.task, problem.X_valid, problem.y_valid)
    assert metrics["log_loss"] <= min(losses) + 1e-6


def test_without_predictions_there_is_no_ensemble(searched: tuple, tmp_path: Path) -> None:
    problem, results, _ = searched
    with pytest.raises(ValueError, match="no complete trial with validation predictions"):
        choose_members(problem, {m: r.trials for m, r in results.items()}, dict.fromkeys(results, tmp_path))
