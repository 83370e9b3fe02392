"""Training on folds that the caller gives: who holds out what, and what is predicted out of fold."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.model_selection import KFold

from hopular import HopularClassifier
from hopular.model.perceptron_estimators import MLPClassifier, MLPRegressor

SMALL = {"max_epochs": 3, "random_state": 0, "device": "cpu", "n_layers": 1, "width": 8}
ROWS = 30
FOLDS = list(KFold(6, shuffle=True, random_state=0).split(np.zeros(ROWS)))


def table():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(ROWS, 3))
    return X, (X[:, 0] > 0).astype(int)


def fit(estimator=MLPClassifier, folds=FOLDS, **changes):
    X, y = table()
    return estimator(**{**SMALL, **changes}).fit(X, y, folds=folds)


def assert_out_of_fold(model):
    """Each row's out-of-fold prediction is that of the member that held it out."""
    each = model.predict_each(table()[0])
    out_of_fold = model.oof_proba_ if hasattr(model, "oof_proba_") else model.oof_prediction_
    assert len(each) == len(model.held_out_) == len(model.members_)
    for k, rows in enumerate(model.held_out_):
        assert out_of_fold[rows] == pytest.approx(each[k][rows], abs=1e-5)
        assert np.intersect1d(model.train_index_[model.members_[k]], rows).size == 0  # it has not trained on them
    assert sorted(np.concatenate(model.held_out_)) == list(range(ROWS))


def test_a_single_member_becomes_one_for_each_fold():
    model = fit()
    assert [rows.tolist() for rows in model.held_out_] == [held_out.tolist() for _, held_out in FOLDS]
    assert_out_of_fold(model)


def test_fewer_members_than_folds_hold_out_several():
    model = fit(n_members=4)
    expected = [[0, 4], [1, 5], [2], [3]]
    for rows, folds in zip(model.held_out_, expected, strict=True):
        assert rows.tolist() == sorted(np.concatenate([FOLDS[fold][1] for fold in folds]).tolist())
    assert_out_of_fold(model)


def test_more_members_than_folds_are_not_made():
    assert len(fit(n_members=20).members_) == 6


def test_numbers_and_hopular():
    assert_out_of_fold(fit(MLPRegressor, n_members=3))
    X, y = table()
    model = HopularClassifier(
        n_blocks=1, n_networks=1, embedding_dim=4, max_epochs=2, n_members=2, random_state=0, device="cpu"
    ).fit(X, y, folds=FOLDS)
    assert_out_of_fold(model)


def test_a_member_does_not_see_the_label_that_it_holds_out():
    X, y = table()
    changed = y.copy()
    row = FOLDS[2][1][0]
    changed[row] = 1 - y[row]
    # Without early stopping the label of a held-out row has no part in its own prediction.
    models = [MLPClassifier(**SMALL, patience=100).fit(X, labels, folds=FOLDS) for labels in (y, changed)]
    last = [model.history_[-1].epoch for model in models]
    assert last == [3, 3]
    if models[0].best_epochs_ == models[1].best_epochs_:
        assert np.array_equal(models[0].oof_proba_[row], models[1].oof_proba_[row])
    assert not np.array_equal(models[0].oof_proba_, models[1].oof_proba_)


def test_rows_in_no_fold_are_predicted_by_none():
    folds = [(learned[learned < 25], held_out[held_out < 25]) for learned, held_out in FOLDS]
    model = fit(folds=folds)
    assert np.isnan(model.oof_proba_[25:]).all()
    assert np.isfinite(model.oof_proba_[:25]).all()
    assert model.train_index_.max() == 24


def test_an_eval_set_and_folds_are_refused():
    X, y = table()
    with pytest.raises(ValueError, match="eval_set and folds were both given"):
        MLPClassifier(**SMALL).fit(X, y, eval_set=(X, y), folds=FOLDS)


WRONG = {
    "too large": [([0, 1, 2], [ROWS])],
    "negative": [([0, 1, 2], [-1])],
    "in both": [([0, 1, 2], [2, 3])],
    "nothing to train on": [([], [2, 3])],
    "nothing held out": [([0, 1, 2], [])],
}


@pytest.mark.parametrize("folds", WRONG.values(), ids=WRONG.keys())
def test_wrong_positions_are_refused(folds):
    with pytest.raises(ValueError, match=f"folds must be pairs of positions below {ROWS}, some in each part"):
        fit(folds=folds)


def test_no_folds_are_refused():
    with pytest.raises(ValueError, match="folds are empty"):
        fit(folds=[])


def test_the_mean_of_the_members_is_the_prediction(tmp_path):
    model, (X, y) = fit(), table()
    assert model.predict_each(X).shape == (6, ROWS, 2)
    assert model.predict_each(X).mean(0) == pytest.approx(model.predict_proba(X), abs=1e-12)
    regressor = fit(MLPRegressor)
    assert regressor.predict_each(X).shape == (6, ROWS)
    assert regressor.predict_each(X).mean(0) == pytest.approx(regressor.predict(X), abs=1e-9)
    model.save(tmp_path / "model")
    again = MLPClassifier.load(tmp_path / "model").held_out_
    assert all(np.array_equal(a, b) for a, b in zip(again, model.held_out_, strict=True))
    assert [len(rows) for rows in MLPClassifier(**SMALL).fit(X, y, eval_set=(X, y)).held_out_] == [0]
