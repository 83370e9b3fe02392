"""Weights of rows and classes: what they are made of, and that they count in training and in validation."""

from __future__ import annotations

import numpy as np
import pytest

from hopular import HopularClassifier, HopularRegressor
from hopular.model.npt_estimator import NPTClassifier
from hopular.model.perceptron_estimators import MLPClassifier, SNNClassifier
from hopular.model.weights import weigh_classes, weigh_rows

Y = np.array(["a", "a", "a", "b"])
SMALL = {"max_epochs": 30, "random_state": 0, "device": "cpu", "n_members": 2}
CLASSIFIERS = {
    "hopular": HopularClassifier(**SMALL, n_blocks=1, n_networks=1, embedding_dim=4),
    "npt": NPTClassifier(**SMALL, n_layers=2, n_heads=2, embedding_dim=8, learning_rate=3e-3),
    "mlp": MLPClassifier(**SMALL, n_layers=1, width=16, learning_rate=1e-2),
    "snn": SNNClassifier(**SMALL, n_layers=1, width=16, learning_rate=1e-2),
}


# ------------------------------------------------------------------------------------------------------- the weights


def test_weights_are_1_on_average():
    assert weigh_rows(Y, [1, 2, 3, 2]).tolist() == [0.5, 1.0, 1.5, 1.0]
    assert weigh_rows(Y, np.array([1e308, 1e308, 1e308, 0])) == pytest.approx([4 / 3, 4 / 3, 4 / 3, 0])


@pytest.mark.parametrize("given", [None, 1.0, [1, 1, 1, 1], [7, 7, 7, 7]])
def test_equal_weights_are_none(given):
    assert weigh_rows(Y, given) is None


def test_balanced_classes_weigh_the_same_in_all():
    weights = weigh_rows(Y, None, weigh_classes("balanced", Y))
    assert weights[Y == "a"].sum() == pytest.approx(weights[Y == "b"].sum())
    given = [1, 0, 3, 2]
    weights = weigh_rows(Y, given, weigh_classes("balanced", Y, given))
    assert weights[Y == "a"].sum() == pytest.approx(weights[Y == "b"].sum())
    assert weights[1] == 0


def test_a_dict_multiplies_the_weights_of_rows():
    assert weigh_rows(Y, [1, 1, 2, 1], weigh_classes({"b": 4}, Y)).tolist() == [0.5, 0.5, 1.0, 2.0]
    numbers = np.array([3, 3, 5, 5])
    assert weigh_rows(numbers, None, weigh_classes({3: 1, 5: 3}, numbers)).tolist() == [0.5, 0.5, 1.5, 1.5]
    digits = np.array(["3", "3", "5", "5"])
    assert weigh_rows(digits, None, weigh_classes({"3": 1, "5": 3}, digits)).tolist() == [0.5, 0.5, 1.5, 1.5]


def test_a_class_that_is_not_in_these_rows_may_be_named_if_all_others_are():
    assert weigh_classes({"a": 1, "b": 2, "c": 3}, Y) == {"a": 1, "b": 2}
    with pytest.raises(ValueError, match=r"class_weight names \['c'\], and the classes of y are \['a', 'b'\]"):
        weigh_classes({"c": 3}, Y)


@pytest.mark.parametrize("given", ["equal", {"a": -1}, {"a": "much"}, {"a": np.nan}, [1, 2]])
def test_class_weights_that_are_none(given):
    with pytest.raises(ValueError, match="class_weight must be 'balanced', a dict with a number of at least 0"):
        weigh_classes(given, Y)


def test_weights_that_leave_no_row():
    with pytest.raises(ValueError, match="leave no row with a weight above 0"):
        weigh_rows(Y, [1, 1, 1, 0], {"a": 0.0, "b": 1.0})
    with pytest.raises(ValueError, match="Negative values"):
        weigh_rows(Y, [1, 1, 1, -1])
    with pytest.raises(ValueError, match="NaN"):
        weigh_rows(Y, [1, 1, 1, np.nan])


# -------------------------------------------------------------------------------------------------------- in training


def conflicting(n=40):
    """Rows that are all alike but for noise, three quarters of which have label 0."""
    rng = np.random.default_rng(0)
    return rng.normal(size=(n, 2)), (np.arange(n) % 4 == 0).astype(int)


@pytest.mark.parametrize("model", CLASSIFIERS.values(), ids=CLASSIFIERS.keys())
def test_probabilities_follow_the_weights(model):
    X, y = conflicting()
    plain = model.fit(X, y).predict_proba(X)[:, 1].mean()
    weighted = model.fit(X, y, sample_weight=np.where(y == 1, 30.0, 1.0)).predict_proba(X)[:, 1].mean()
    assert plain < 0.45 < 0.55 < weighted


def test_equal_weights_change_no_bit():
    X, y = conflicting()
    model = CLASSIFIERS["hopular"]
    plain = model.fit(X, y).oof_proba_
    assert np.array_equal(model.fit(X, y, sample_weight=np.full(len(y), 3)).oof_proba_, plain)
    assert not np.array_equal(model.fit(X, y, sample_weight=1 + y).oof_proba_, plain)


def test_class_weights_are_weights_of_rows():
    X, y = conflicting()
    of_rows = MLPClassifier(**SMALL).fit(X, y, sample_weight=np.where(y == 1, 3, 1)).predict_proba(X)
    of_classes = MLPClassifier(**SMALL, class_weight={1: 3}).fit(X, y).predict_proba(X)
    balanced = MLPClassifier(**SMALL, class_weight="balanced").fit(X, y).predict_proba(X)
    assert np.array_equal(of_rows, of_classes)
    assert balanced == pytest.approx(of_rows, abs=1e-3)  # there are three times as many of the other


def test_the_loss_to_stop_by_is_weighted():
    X, y = conflicting()
    weights = np.where(y == 1, 5.0, 1.0)
    model = CLASSIFIERS["mlp"].fit(X, y, sample_weight=weights)
    best = next(p for p in model.history_ if p.epoch == model.best_epochs_[0])
    of_truth = -np.log(model.oof_proba_[np.arange(len(y)), y])
    assert best.loss == pytest.approx(np.average(of_truth, weights=weights), rel=1e-4)


def test_an_eval_set_has_weights_of_its_own():
    X, y = conflicting()
    model = HopularRegressor(**SMALL, n_blocks=1, n_networks=1, embedding_dim=4)
    alone = model.fit(X, y, (X[:8], y[:8])).history_
    among = model.fit(X, y, (X, y, np.arange(len(y)) < 8)).history_  # rows of weight 0 do not count
    assert [p.loss for p in among] == pytest.approx([p.loss for p in alone], rel=1e-4)


def test_class_weights_survive_saving(tmp_path):
    X, y = conflicting()
    MLPClassifier(**SMALL, class_weight={0: 1, np.int64(1): 3}).fit(X, y).save(tmp_path / "model")
    assert MLPClassifier.load(tmp_path / "model").class_weight == {0: 1, 1: 3}


def test_a_class_weight_that_is_none_is_refused_by_fit():
    with pytest.raises(ValueError, match="class_weight must be 'balanced'"):
        MLPClassifier(class_weight="equal").fit(*conflicting())
