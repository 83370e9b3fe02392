"""The estimators from outside: messy tables, scikit-learn's conventions, members, hooks and limits.

Most tests train a single member, the paper's way, because they are about something else.
"""

from __future__ import annotations

import copy
import dataclasses
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
from hopular.model.members import pick

SMALL = {
    "n_members": 1,
    "n_blocks": 1,
    "n_networks": 2,
    "embedding_dim": 8,
    "max_epochs": 5,
    "random_state": 0,
    "device": "cpu",
}
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


# -------------------------------------------------------------------------------------------------------------- members


def numbers_of(n_rows):
    """Labels and numbers of so many rows."""
    return np.zeros((n_rows, 1)), np.arange(n_rows) % 2


@pytest.mark.parametrize(
    ("n_rows", "n_features", "members"), [(16, 3, 8), (500, 39, 8), (500, 40, 4), (501, 3, 4), (50_000, 3, 4)]
)
def test_the_table_decides_how_many_members_there_are(n_rows, n_features, members):
    _, y = numbers_of(n_rows)

    def members_of(model, has_eval_set):
        model.n_features_in_ = n_features
        return len(model._divide(y, has_eval_set, 0))

    assert members_of(HopularClassifier(), False) == members
    assert members_of(HopularRegressor(), True) == members
    for published in ({"architecture": "paper"}, {"architecture": "released"}, {"recipe": "paper"}):
        assert members_of(HopularClassifier(**published), False) == 1
        assert members_of(HopularClassifier(**published, n_members=3), True) == 3
    assert members_of(HopularClassifier(recipe="paper", architecture="default"), False) == 1


def test_members_of_a_fit_are_as_many_as_the_table_decides():
    X, y = numbers()
    assert len(HopularClassifier(**{**SMALL, "n_members": None, "max_epochs": 1}).fit(X, y).members_) == 8
    assert len(HopularClassifier(**{**SMALL, "n_members": 3, "max_epochs": 1}).fit(X, y).best_epochs_) == 3
    assert len(HopularClassifier(**{**SMALL, "n_members": 3, "max_epochs": 1}).fit(X[:4], y[:4]).members_) == 2


@pytest.fixture(scope="module")
def three():
    """A classifier of three members on a messy table."""
    return HopularClassifier(**{**LEARNS, "n_members": 3}).fit(*messy())


def held_out(model):
    """The rows that each member held out."""
    return [np.setdiff1d(np.arange(len(model.rows_)), places) for places in model.members_]


def member(model, k):
    """An estimator of one of the members, with its own training rows."""
    alone = copy.copy(model)
    places = model.members_[k]
    alone.train_index_ = model.train_index_[places]
    alone._set_members(pick(model.network_, [k]), model.rows_[places], [torch.arange(len(places))])
    return alone


def test_each_row_is_held_out_by_one_member(three):
    _, level = messy()
    folds = held_out(three)
    assert sorted(np.concatenate(folds)) == list(range(150))
    assert [len(fold) for fold in folds] == [50, 50, 50]
    for name in LEVELS:
        counts = [(level[fold] == name).sum() for fold in folds]
        assert max(counts) - min(counts) <= 1
    assert three.train_index_.tolist() == list(range(150))
    assert len(three.rows_) == 150


def test_folds_depend_on_the_seed():
    _, level = messy()
    folds = [HopularClassifier(n_members=3)._divide(level, False, seed)[0].valid.tolist() for seed in (0, 0, 1)]
    assert folds[0] == folds[1] != folds[2]


def test_members_of_one_fit_keep_one_epoch(three):
    best = min(three.history_, key=lambda p: p.loss)
    assert three.best_epochs_ == (best.epoch,) * 3
    assert all(len(p.losses) == 3 for p in three.history_)


def test_probabilities_are_the_mean_of_the_members(three):
    frame, _ = messy(seed=1)
    each = np.stack([member(three, k).predict_proba(frame) for k in range(3)])
    assert each.std(0).mean() > 1e-3
    assert three.predict_proba(frame) == pytest.approx(each.mean(0), abs=1e-6)


def test_numbers_are_the_mean_of_the_members():
    frame, level = messy()
    model = HopularRegressor(**{**SMALL, "n_members": 3}).fit(frame, target_numbers(frame, level))
    each = np.stack([member(model, k).predict(frame) for k in range(3)])
    assert each.std(0).mean() > 0
    assert model.predict(frame) == pytest.approx(each.mean(0), rel=1e-6)


def test_every_row_has_a_prediction_of_the_member_that_held_it_out(three):
    frame, level = messy()
    assert three.oof_proba_.shape == (150, 3)
    for k, rows in enumerate(held_out(three)):
        assert three.oof_proba_[rows] == pytest.approx(member(three, k).predict_proba(frame.iloc[rows]), abs=1e-6)
    of_truth = three.oof_proba_[np.arange(150), np.searchsorted(three.classes_, level)]
    best = min(three.history_, key=lambda p: p.loss)
    assert -np.log(of_truth).mean() == pytest.approx(best.loss, rel=1e-4)  # what chose the epoch


def test_out_of_fold_numbers_are_in_the_unit_of_the_target():
    frame, level = messy()
    y = target_numbers(frame, level).to_numpy()
    model = HopularRegressor(**{**SMALL, "n_members": 3}).fit(frame, y)
    assert model.oof_prediction_.shape == (150,)
    for k, rows in enumerate(held_out(model)):
        assert model.oof_prediction_[rows] == pytest.approx(member(model, k).predict(frame.iloc[rows]), rel=1e-6)
    best = min(model.history_, key=lambda p: p.loss)
    assert ((model.oof_prediction_ - y) ** 2).mean() == pytest.approx(best.loss * y.var(), rel=1e-4)


def test_a_single_member_predicts_the_rows_that_it_held_out_and_no_others(classifier, regressor):
    frame, _ = messy()
    held = np.setdiff1d(np.arange(150), classifier.train_index_)
    assert len(held) == 30
    assert classifier.oof_proba_[held] == pytest.approx(classifier.predict_proba(frame.iloc[held]), abs=1e-6)
    assert np.isnan(classifier.oof_proba_[classifier.train_index_]).all()
    held = np.setdiff1d(np.arange(150), regressor.train_index_)
    assert regressor.oof_prediction_[held] == pytest.approx(regressor.predict(frame.iloc[held]), rel=1e-6)
    assert np.isnan(regressor.oof_prediction_[regressor.train_index_]).all()


@pytest.mark.parametrize("estimator", [HopularClassifier, HopularRegressor])
def test_with_an_eval_set_all_members_train_on_all_rows_and_none_is_out_of_fold(estimator):
    X, y = numbers()
    model = estimator(**{**SMALL, "n_members": 3}).fit(X, y)
    assert hasattr(model, "oof_proba_") or hasattr(model, "oof_prediction_")
    model.fit(X, y, eval_set=numbers(seed=1))  # nothing of the earlier fit is left
    assert [places.tolist() for places in model.members_] == [list(range(60))] * 3
    assert not hasattr(model, "oof_proba_")
    assert not hasattr(model, "oof_prediction_")
    assert len(model.best_epochs_) == 3
    weights = model.network_.blocks[0].samples.query.weight
    assert not torch.equal(weights[0], weights[1])


def test_all_members_stop_by_the_eval_set():
    X, y = numbers()
    X_eval, y_eval = numbers(seed=1)
    model = HopularClassifier(**{**SMALL, "n_members": 2}).fit(X, y, eval_set=(X_eval, y_eval))
    score = np.mean([member(model, k).score(X_eval, y_eval) for k in range(2)])
    assert model.history_[model.best_epochs_[0] - 1].score == pytest.approx(score)


def test_no_hold_out_at_all_has_no_out_of_fold_prediction():
    X, y = numbers()
    model = HopularClassifier(**SMALL, validation_fraction=0).fit(X, y)
    assert np.isnan(model.oof_proba_).all()


def test_a_class_of_one_row_is_held_out_like_any_other():
    X, y = numbers()
    y[7] = 2
    model = HopularClassifier(**{**SMALL, "n_members": 4}).fit(X, y)
    assert np.isfinite(model.oof_proba_).all()
    assert all(np.isfinite(p.loss) for p in model.history_)


# ------------------------------------------------------------------------------------------------------------- threads


class Threads:
    """Notes how many threads torch uses while it trains; ends training by an error."""

    def __init__(self, error=None):
        self.counts, self.error = set(), error

    def on_epoch(self, progress):
        self.counts.add(torch.get_num_threads())
        if self.error is not None:
            raise self.error

    def on_validation(self, progress):
        self.counts.add(torch.get_num_threads())


@pytest.fixture
def _three_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("_three_threads")
def test_a_small_table_is_trained_on_one_thread_and_the_number_is_put_back():
    hook = Threads()
    HopularClassifier(**SMALL).fit(*numbers(), hooks=[hook])
    assert hook.counts == {1}
    assert torch.get_num_threads() == 3


@pytest.mark.usefixtures("_three_threads")
@pytest.mark.parametrize("error", [RuntimeError("stop"), KeyboardInterrupt()], ids=repr)
def test_the_number_of_threads_is_put_back_after_an_error(error):
    hook = Threads(error)
    with pytest.raises(type(error)):
        HopularClassifier(**SMALL).fit(*numbers(), hooks=[hook])
    assert hook.counts == {1}
    assert torch.get_num_threads() == 3


@pytest.mark.usefixtures("_three_threads")
def test_large_products_get_all_threads(monkeypatch):
    monkeypatch.setattr("hopular.model.table.THREADED", 1)
    hook = Threads()
    HopularClassifier(**SMALL).fit(*numbers(), hooks=[hook])
    assert hook.counts == {3}


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
    unfitted = clone(classifier)
    assert unfitted.get_params() == classifier.get_params()
    with pytest.raises(NotFittedError):
        unfitted.predict(messy()[0])


@pytest.mark.parametrize("method", ["predict", "predict_proba", "retrieve", "impute"])
def test_unfitted_model(method):
    with pytest.raises(NotFittedError, match="This HopularClassifier instance is not fitted yet"):
        getattr(HopularClassifier(), method)(messy()[0])


def test_pickle_round_trip(three, regressor):
    frame, _ = messy(seed=1)
    again = pickle.loads(pickle.dumps(three))
    assert np.array_equal(again.predict_proba(frame), three.predict_proba(frame))
    assert np.array_equal(again.retrieve(frame, 4)[0], three.retrieve(frame, 4)[0])
    assert np.array_equal(again.oof_proba_, three.oof_proba_)
    again = pickle.loads(pickle.dumps(regressor))
    assert np.array_equal(again.predict(frame), regressor.predict(frame))
    unfitted = pickle.loads(pickle.dumps(HopularClassifier(beta=0.5)))
    assert unfitted.beta == 0.5


def test_pipeline_and_grid_search():
    X, y = numbers()
    pipeline = make_pipeline(StandardScaler(), HopularClassifier(**SMALL))
    search = GridSearchCV(pipeline, {"hopularclassifier__max_epochs": [1, 80]}, cv=2, error_score="raise").fit(X, y)
    assert search.best_params_ == {"hopularclassifier__max_epochs": 80}
    assert search.score(X, y) > 0.9


@pytest.mark.parametrize("n_members", [3, None])
def test_members_repeat_bit_for_bit(n_members):
    frame, level = messy()
    one, other = (HopularClassifier(**{**SMALL, "n_members": n_members}).fit(frame, level) for _ in range(2))
    state = other.network_.state_dict()
    assert all(torch.equal(x, state[name]) for name, x in one.network_.state_dict().items())
    assert np.array_equal(one.oof_proba_, other.oof_proba_)
    assert [dataclasses.replace(p, seconds=0) for p in one.history_] == [
        dataclasses.replace(p, seconds=0) for p in other.history_
    ]


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
    assert all(p.max_epochs == 20 and p.train_loss > 0 for p in recorder.epochs)
    assert recorder.validations == model.history_
    assert all(0 <= p.score <= 1 and p.loss > 0 for p in model.history_)
    assert model.best_epochs_ == (min(model.history_, key=lambda p: p.loss).epoch,)


def test_a_hook_ends_training_by_raising():
    recorder = Recorder(stop=3)
    model = HopularClassifier(**SMALL)
    with pytest.raises(Recorder.StopError):
        model.fit(*numbers(), hooks=[recorder])
    assert len(recorder.epochs) == 3
    with pytest.raises(NotFittedError):
        model.predict(numbers()[0])


def test_a_fit_that_failed_leaves_the_previous_model_as_it_was():
    X, y = numbers()
    model = HopularClassifier(**SMALL).fit(X, y)
    before = model.predict_proba(X)
    with pytest.raises(Recorder.StopError):
        model.fit(X[:, ::-1] * 100, 1 - y, hooks=[Recorder(stop=1)])
    assert np.array_equal(model.predict_proba(X), before)


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
