"""The estimators from outside: messy tables, scikit-learn's conventions, retrieval, imputation, hooks and limits."""

from __future__ import annotations

import pickle
import time

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from hopular import HopularClassifier, HopularRegressor

SMALL = {"n_blocks": 1, "n_networks": 2, "embedding_dim": 8, "max_epochs": 5, "random_state": 0}
LEARNS = {**SMALL, "max_epochs": 80}
LEVELS = np.array(["low", "mid", "high"])


def messy(n=150, seed=0):
    """A table of every kind of column with a tenth of the values missing, and three classes that it tells apart."""
    rng = np.random.default_rng(seed)
    level = rng.integers(0, 3, n)
    noisy = np.where(rng.random(n) < 0.7, level, rng.integers(0, 3, n))
    frame = pd.DataFrame(
        {
            "size": rng.normal(level, 0.5),
            "colour": np.array(["red", "green", "blue"])[noisy].astype(object),
            "open": pd.array(noisy == 2, dtype="boolean"),
            "grade": pd.Categorical(np.array(["A", "B", "C"])[noisy]),
            "day": pd.Timestamp("2024-01-01") + pd.to_timedelta(50 * level + rng.integers(0, 60, n), unit="D"),
            "count": pd.array(rng.poisson(1 + 3 * level), dtype="Int64"),
            "noise": rng.integers(0, 100, n),
        }
    )
    holes = rng.random((n, 6)) < 0.1
    for place in range(6):
        frame.iloc[holes[:, place], place] = None
    frame["flag"] = noisy == 0
    return frame, LEVELS[level]


@pytest.fixture(scope="module")
def classifier():
    return HopularClassifier(**LEARNS).fit(*messy())


@pytest.fixture(scope="module")
def regressor():
    frame, level = messy()
    return HopularRegressor(**LEARNS).fit(frame, target_numbers(frame, level))


def target_numbers(frame, level):
    return 1000.0 + 50 * pd.Series(level).map({"low": 0, "mid": 1, "high": 2}) + frame["size"].fillna(0)


def numbers(n=60, seed=0):
    """Two clouds of numbers and their binary labels."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 2
    return rng.normal(size=(n, 3)) + 3 * y[:, None], y


# ------------------------------------------------------------------------------------------------------------- learning


def test_classifier_learns_from_a_messy_frame(classifier):
    assert classifier.score(*messy(seed=1)) > 0.75  # chance: 1/3
    assert classifier.classes_.tolist() == ["high", "low", "mid"]
    assert set(classifier.predict(messy(seed=1)[0])) == {"high", "low", "mid"}


def test_regressor_learns_from_a_messy_frame(regressor):
    frame, level = messy(seed=1)
    assert regressor.score(frame, target_numbers(frame, level)) > 0.6
    assert regressor.predict(frame).dtype == np.float64


def test_probabilities_sum_to_one_in_the_order_of_classes(classifier):
    frame, level = messy(seed=1)
    proba = classifier.predict_proba(frame)
    assert proba.shape == (150, 3)
    assert proba.sum(1) == pytest.approx(1)
    assert np.array_equal(classifier.classes_[proba.argmax(1)], classifier.predict(frame))
    of_truth = proba[np.arange(150), np.searchsorted(classifier.classes_, level)]
    assert of_truth.mean() > 0.5


LABELS = {
    "int": np.array([3, 7]),
    "bool": np.array([False, True]),
    "float": np.array([-1.0, 1.0]),
    "str": np.array(["no", "yes"]),
    "object": np.array(["no", "yes"], dtype=object),
}


@pytest.mark.parametrize("labels", LABELS.values(), ids=LABELS.keys())
def test_labels_of_any_type(labels):
    X, y = numbers()
    model = HopularClassifier(**LEARNS).fit(X, labels[y])
    assert model.classes_.tolist() == labels.tolist()
    assert model.predict(X).dtype == labels.dtype
    assert model.score(X, labels[y]) > 0.9


@pytest.mark.parametrize("dtype", ["category", "string", "str", "object"])
def test_labels_in_a_series(dtype):
    X, y = numbers()
    model = HopularClassifier(**SMALL).fit(X, pd.Series(y).map({0: "no", 1: "yes"}).astype(dtype))
    assert model.classes_.tolist() == ["no", "yes"]
    assert set(model.predict(X)) <= {"no", "yes"}


@pytest.mark.parametrize("dtype", ["Int64", "boolean"])
def test_nullable_labels(dtype):
    X, y = numbers()
    model = HopularClassifier(**SMALL).fit(X, pd.array(y, dtype=dtype))
    assert model.classes_.tolist() == [0, 1]
    assert np.isin(model.predict(X), [0, 1]).all()


def test_arrays_lists_and_frames_give_the_same_model():
    X, y = numbers()
    expected = HopularClassifier(**SMALL).fit(X, y).predict_proba(X)
    assert np.array_equal(HopularClassifier(**SMALL).fit(X.tolist(), y.tolist()).predict_proba(X.tolist()), expected)
    frame = pd.DataFrame(X, columns=list("abc"))
    assert np.array_equal(HopularClassifier(**SMALL).fit(frame, pd.Series(y)).predict_proba(frame), expected)


def test_list_of_numbers_strings_and_none():
    X = [[1.0, "a"], [2.0, "b"], [None, "a"], [1.5, None]] * 5
    model = HopularClassifier(**SMALL).fit(X, [0, 1, 0, 1] * 5)
    assert [a.kind for a in model.encoding_.attributes if a.column >= 0] == ["continuous", "categorical"]
    assert model.predict(X[:3]).shape == (3,)


def test_unseen_category_is_read_as_missing(classifier):
    frame, _ = messy(seed=1)
    unseen = classifier.predict_proba(frame.assign(colour="violet"))
    assert np.array_equal(unseen, classifier.predict_proba(frame.assign(colour=None)))


# ------------------------------------------------------------------------------------------------------------- hold-out


def test_without_eval_set_a_stratified_fifth_is_held_out(classifier):
    _, level = messy()
    held_out = np.setdiff1d(np.arange(150), classifier.train_index_)
    for name in LEVELS:
        assert abs((level[held_out] == name).sum() - 0.2 * (level == name).sum()) <= 1
    assert len(classifier.rows_) == len(classifier.train_index_) == 150 - len(held_out)


def test_eval_set_replaces_the_hold_out():
    X, y = numbers()
    X_eval, y_eval = numbers(seed=1)
    model = HopularClassifier(**SMALL).fit(X, y, eval_set=(X_eval, y_eval))
    swapped = HopularClassifier(**SMALL).fit(X, y, eval_set=(X_eval, 1 - y_eval))
    assert model.train_index_.tolist() == list(range(60))
    for right, wrong in zip(model.history_, swapped.history_, strict=True):
        assert right.score + wrong.score == pytest.approx(1)


def test_eval_set_of_a_regressor():
    X, y = numbers()
    model = HopularRegressor(**SMALL).fit(X, 10.0 * y, eval_set=(pd.DataFrame(X), pd.Series(10.0 * y)))
    assert len(model.train_index_) == 60
    assert model.history_[-1].loss == pytest.approx(-model.history_[-1].score)


def test_classes_unseen_in_training_are_left_out_of_eval_set():
    X, y = numbers()
    model = HopularClassifier(**SMALL).fit(X, y, eval_set=(X, y))
    extended = HopularClassifier(**SMALL).fit(X, y, eval_set=(np.vstack([X, X[:5]]), [*y, 9, 9, 9, 9, 9]))
    assert [p.score for p in extended.history_] == [p.score for p in model.history_]
    nothing_left = HopularClassifier(**SMALL).fit(X, y, eval_set=(X, np.full(60, 9)))
    assert nothing_left.history_ == []
    assert nothing_left.classes_.tolist() == [0, 1]


@pytest.mark.filterwarnings("ignore:A column-vector y was passed")
def test_a_column_of_labels_in_eval_set():
    X, y = numbers()
    model = HopularClassifier(**SMALL).fit(X, y, eval_set=(X, pd.DataFrame({"y": y})))
    assert len(model.history_) > 0


def test_no_hold_out_at_all():
    X, y = numbers()
    model = HopularClassifier(**SMALL, validation_fraction=0).fit(X, y)
    assert len(model.train_index_) == 60
    assert model.history_ == []


# ------------------------------------------------------------------------------------------------- categorical_features


@pytest.mark.parametrize("features", [["noise"], [6], np.array(["noise"]), (np.int64(6),)], ids=repr)
def test_categorical_features_by_name_and_position(features):
    model = HopularClassifier(**SMALL, categorical_features=features).fit(*messy())
    kinds = {a.name: a.kind for a in model.encoding_.attributes}
    assert kinds["noise"] == "categorical"
    assert kinds["size"] == "continuous"


def test_categorical_features_as_an_array_of_several():
    model = HopularClassifier(**SMALL, categorical_features=np.array([4, 6])).fit(*messy())
    kinds = {a.name: a.kind for a in model.encoding_.attributes}
    assert kinds["day"] == kinds["noise"] == "categorical"


@pytest.mark.parametrize("feature", ["shape", 8, -1])
def test_categorical_features_that_do_not_exist(feature):
    with pytest.raises(ValueError, match=f"categorical_features names {feature!r}, which is not among the columns"):
        HopularClassifier(**SMALL, categorical_features=[feature]).fit(*messy())


# --------------------------------------------------------------------------------------------------------- scikit-learn


def test_feature_names_and_count(classifier):
    assert classifier.feature_names_in_.tolist() == list(messy()[0].columns)
    assert classifier.n_features_in_ == 8
    X, y = numbers()
    model = HopularClassifier(**SMALL).fit(X, y)
    assert model.n_features_in_ == 3
    assert not hasattr(model, "feature_names_in_")


@pytest.mark.parametrize("estimator", [HopularClassifier, HopularRegressor])
def test_clone_get_params_set_params(estimator):
    model = estimator(n_blocks=2, categorical_features=["a"])
    assert clone(model).get_params() == model.get_params()
    assert model.set_params(beta=0.5).get_params()["beta"] == 0.5
    with pytest.raises(ValueError, match="Invalid parameter 'depth'"):
        model.set_params(depth=3)


def test_a_clone_of_a_fitted_model_is_not_fitted(classifier):
    copy = clone(classifier)
    assert copy.get_params() == classifier.get_params()
    with pytest.raises(NotFittedError):
        copy.predict(messy()[0])


@pytest.mark.parametrize("method", ["predict", "predict_proba", "retrieve", "impute"])
def test_unfitted_model(method):
    with pytest.raises(NotFittedError, match="This HopularClassifier instance is not fitted yet"):
        getattr(HopularClassifier(), method)(messy()[0])


def test_pickle_round_trip(classifier, regressor):
    frame, _ = messy(seed=1)
    copy = pickle.loads(pickle.dumps(classifier))
    assert np.array_equal(copy.predict_proba(frame), classifier.predict_proba(frame))
    assert np.array_equal(copy.retrieve(frame, 4)[0], classifier.retrieve(frame, 4)[0])
    copy = pickle.loads(pickle.dumps(regressor))
    assert np.array_equal(copy.predict(frame), regressor.predict(frame))
    unfitted = pickle.loads(pickle.dumps(HopularClassifier(beta=0.5)))
    assert unfitted.beta == 0.5


def test_pipeline_and_grid_search():
    X, y = numbers()
    pipeline = make_pipeline(StandardScaler(), HopularClassifier(**SMALL))
    search = GridSearchCV(pipeline, {"hopularclassifier__max_epochs": [1, 80]}, cv=2, error_score="raise").fit(X, y)
    assert search.best_params_ == {"hopularclassifier__max_epochs": 80}
    assert search.score(X, y) > 0.9


def test_same_seed_gives_the_same_model_bit_for_bit(classifier):
    frame, level = messy()
    again = HopularClassifier(**LEARNS).fit(frame, level)
    assert np.array_equal(again.predict_proba(frame), classifier.predict_proba(frame))
    other = HopularClassifier(**{**LEARNS, "random_state": 1}).fit(frame, level)
    assert not np.array_equal(other.predict_proba(frame), classifier.predict_proba(frame))


def test_fit_neither_reads_nor_moves_global_random_numbers(classifier):
    np.random.seed(5)
    torch.manual_seed(5)
    states = np.random.get_state()[1].tolist(), torch.get_rng_state()
    frame, level = messy()
    again = HopularClassifier(**LEARNS).fit(frame, level)
    assert np.random.get_state()[1].tolist() == states[0]
    assert torch.equal(torch.get_rng_state(), states[1])
    assert np.array_equal(again.predict_proba(frame), classifier.predict_proba(frame))


def test_fit_and_predict_leave_their_input_alone(classifier):
    frame, _ = messy(seed=1)
    before = frame.copy()
    classifier.predict(frame)
    HopularClassifier(**{**SMALL, "max_epochs": 1}).fit(frame, messy(seed=1)[1])
    pd.testing.assert_frame_equal(frame, before)


# ----------------------------------------------------------------------------------------------------- hooks and limits


class Recorder:
    """Keeps what it is told; raises after `stop` epochs."""

    class StopError(Exception):
        pass

    def __init__(self, stop=None):
        self.stop = stop
        self.epochs = []
        self.validations = []

    def on_epoch(self, progress):
        self.epochs.append(progress)
        if progress.epoch == self.stop:
            raise self.StopError

    def on_validation(self, progress):
        self.validations.append(progress)


def test_hooks_see_every_epoch_and_validation():
    recorder = Recorder()
    model = HopularClassifier(**{**SMALL, "max_epochs": 20}).fit(*numbers(), hooks=[recorder])
    assert [p.epoch for p in recorder.epochs] == list(range(1, 21))
    assert all(p.max_epochs == 20 and p.train_loss > 0 and p.network is not None for p in recorder.epochs)
    assert [p.without_network() for p in recorder.validations] == model.history_
    assert all(0 <= p.score <= 1 and p.loss > 0 for p in model.history_)
    assert model.best_epoch_ == min(model.history_, key=lambda p: p.loss).epoch


def test_a_hook_ends_training_by_raising():
    recorder = Recorder(stop=3)
    model = HopularClassifier(**SMALL)
    with pytest.raises(Recorder.StopError):
        model.fit(*numbers(), hooks=[recorder])
    assert len(recorder.epochs) == 3
    with pytest.raises(NotFittedError):
        model.predict(numbers()[0])


def test_a_fit_that_failed_leaves_the_previous_model_usable_or_not_fitted():
    X, y = numbers()
    model = HopularClassifier(**SMALL).fit(X, y)
    before = model.predict_proba(X)
    with pytest.raises(Recorder.StopError):
        model.fit(X[:, ::-1] * 100, 1 - y, hooks=[Recorder(stop=1)])
    try:
        after = model.predict_proba(X)
    except NotFittedError:
        return
    assert np.array_equal(after, before)


def test_max_epochs():
    recorder = Recorder()
    HopularClassifier(**{**SMALL, "max_epochs": 3}).fit(*numbers(), hooks=[recorder])
    assert len(recorder.epochs) == 3


def test_patience_stops_early():
    recorder = Recorder()
    X, y = numbers()
    HopularClassifier(**{**SMALL, "max_epochs": 400, "patience": 1}).fit(X, y, eval_set=(X, 1 - y), hooks=[recorder])
    assert len(recorder.epochs) < 400


def test_max_seconds():
    recorder = Recorder()
    start = time.perf_counter()
    model = HopularClassifier(**{**SMALL, "max_epochs": 1_000_000}, max_seconds=0.5)
    model.fit(*numbers(), hooks=[recorder])
    assert 0.4 < time.perf_counter() - start < 5
    assert len(recorder.epochs) < 1_000_000
    assert len(recorder.validations) == 1  # at the end, so that a state is chosen
