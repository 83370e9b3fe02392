"""Trials on several folds: judged by the out-of-fold predictions of all rows, which are kept, and resumed."""

from __future__ import annotations

import numpy as np
import pytest

from hopular.data import load, make_splits
from hopular.methods import Run, get_method
from hopular.methods.saved import load_model
from hopular.trials.budget import Budget
from hopular.trials.problem import Fold, make_problem
from hopular.trials.refit import train
from hopular.trials.run import iterate, search
from hopular.trials.select import choose_members
from tests.trials.conftest import InlineWorker, essence, make_dataset, make_job, make_split

BUDGET = Budget(trials=4)


def divide(rows, count):
    """Folds that validate each of the rows once."""
    parts = [np.sort(rows[place::count]) for place in range(count)]
    return [Fold(np.setdiff1d(rows, part), part) for part in parts]


@pytest.fixture(scope="module")
def iris():
    dataset = load("iris")
    split = make_splits(dataset)[0]
    return dataset, split, divide(np.concatenate([split.train, split.valid]), 3)


def test_a_search_on_folds_keeps_what_fits_by_hand_predict_and_goes_on(iris, sqlite, tmp_path, inline):
    dataset, split, folds = iris
    problem = make_problem(dataset, split, folds)
    records = iterate(problem, "decision_tree", BUDGET, storage=sqlite, predictions=tmp_path / "kept")
    first = [next(records) for _ in range(2)]
    records.close()
    result = search(problem, "decision_tree", BUDGET, storage=sqlite, predictions=tmp_path / "kept")
    assert result.complete
    assert essence(result.trials[:2]) == essence(first)
    seen = np.concatenate([fold.valid for fold in folds])
    assert sorted(seen) == sorted([*split.train, *split.valid])
    assert (problem.y_valid.to_numpy() == dataset.y.iloc[seen].to_numpy()).all()
    (folder,) = (tmp_path / "kept").iterdir()
    classes = ["setosa", "versicolor", "virginica"]
    for trial in result.trials:
        by_hand = []
        for fold in folds:
            model = get_method("decision_tree").make("classification", trial.params, Run(trial.seed))
            valid = dataset.X.iloc[fold.valid], dataset.y.iloc[fold.valid]
            model.fit(dataset.X.iloc[fold.train], dataset.y.iloc[fold.train], eval_set=valid)
            assert list(model.classes_) == classes
            by_hand.append(model.predict_proba(dataset.X.iloc[fold.valid]))
        kept, probabilities = np.load(folder / f"{trial.slot}.npy"), np.concatenate(by_hand)
        np.testing.assert_allclose(kept, probabilities, atol=1e-6)
        codes = np.array([classes.index(label) for label in dataset.y.iloc[seen]])
        truth = np.clip(probabilities[np.arange(len(codes)), codes], 1e-15, 1)
        assert trial.metrics["accuracy"] == (probabilities.argmax(axis=1) == codes).mean()
        assert trial.metrics["log_loss"] == pytest.approx(-np.log(truth).mean())
        assert trial.score == -trial.metrics["log_loss"]
    members = choose_members(problem, {"decision_tree": result.trials}, {"decision_tree": folder})
    assert all(method == "decision_tree" for method, _, _ in members)


def test_the_model_of_such_a_trial_is_the_mean_of_its_folds(iris, sqlite, tmp_path, inline):
    dataset, split, folds = iris
    problem, X_test = make_problem(dataset, split, folds), dataset.X.iloc[split.test]
    best = search(problem, "decision_tree", BUDGET, storage=sqlite).best
    trained = train(problem, "decision_tree", best, BUDGET, X_test, folder=tmp_path / "model")
    assert trained.score == best.score
    assert trained.rows == len(split.train) + len(split.valid)
    parts = []
    for fold in folds:
        model = get_method("decision_tree").make("classification", best.params, Run(best.seed))
        parts.append(model.fit(dataset.X.iloc[fold.train], dataset.y.iloc[fold.train]).predict_proba(X_test))
    np.testing.assert_allclose(trained.test_predictions, np.mean(parts, axis=0))
    np.testing.assert_allclose(load_model(tmp_path / "model").predict_proba(X_test), trained.test_predictions)


def test_a_class_that_a_fold_has_not_seen_has_no_probability_there(iris, inline):
    dataset, split, _ = iris
    seen = np.concatenate([split.train, split.valid])
    is_first = (dataset.y.iloc[seen] == "setosa").to_numpy()
    folds = [Fold(seen[~is_first], seen[is_first]), Fold(seen[::2], seen[1::2])]
    problem = make_problem(dataset, split, folds)
    (trial,) = InlineWorker(problem).run([make_job("naive_bayes", {})], report=lambda *_: False, beat=lambda: None)
    assert trial.state == "complete", trial.message
    assert trial.classes == ("setosa", "versicolor", "virginica")
    assert (trial.predictions[: is_first.sum(), 0] == 0).all()
    assert (trial.predictions[is_first.sum() :, 0] > 0.5).any()


def test_the_curve_of_a_trial_goes_through_all_folds(inline):
    dataset, split = make_dataset(), make_split()
    folds = divide(np.concatenate([split.train, split.valid]), 2)
    points = []
    (trial,) = InlineWorker(make_problem(dataset, split, folds)).run(
        [make_job("learner", {"end": 1.0, "max_epochs": 4})],
        report=lambda _, *point: bool(points.append(point)),
        beat=lambda: None,
    )
    assert trial.state == "complete", trial.message
    percents = [percent for percent, _ in points]
    assert percents == sorted(percents)
    assert percents[-1] == 100
    assert min(percents) < 50 < max(percents)


def test_a_fold_with_test_rows_is_refused(iris):
    dataset, split, _ = iris
    with pytest.raises(ValueError, match="rows that a search on this split may not see"):
        make_problem(dataset, split, [Fold(split.train, split.test)])
