"""NPTClassifier and NPTRegressor from outside, and the recipes that their parameters make."""

from __future__ import annotations

import json
import math
import pickle
import time

import numpy as np
import pandas as pd
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file
from sklearn.base import clone

from hopular.model.estimator import HopularEstimator
from hopular.model.members import pick
from hopular.model.npt_estimator import NPTClassifier, NPTRegressor

SMALL = {"n_layers": 2, "n_heads": 2, "embedding_dim": 8, "max_epochs": 15, "random_state": 0, "device": "cpu"}


def messy(n: int = 120, seed: int = 0) -> tuple[pd.DataFrame, np.ndarray]:
    rng = np.random.default_rng(seed)
    level = rng.integers(0, 3, n)
    colour = np.array(["red", "green", "blue"])[np.where(rng.random(n) < 0.8, level, 0)].astype(object)
    frame = pd.DataFrame({"size": rng.normal(level, 0.4), "colour": colour, "noise": rng.normal(size=n)})
    frame = frame.mask(rng.random(frame.shape) < 0.1)
    return frame, np.array(["low", "mid", "high"])[level]


@pytest.fixture(scope="module")
def classifier() -> NPTClassifier:
    return NPTClassifier(**{**SMALL, "max_epochs": 120}).fit(*messy())


def test_npt_and_hopular_are_siblings(classifier: NPTClassifier) -> None:
    assert not isinstance(classifier, HopularEstimator)


def test_classifier_on_strings_and_missing_values(classifier: NPTClassifier) -> None:
    frame, level = messy(seed=1)
    assert classifier.score(frame, level) > 0.7  # chance: 1/3
    proba = classifier.predict_proba(frame)
    assert proba.sum(1) == pytest.approx(1)
    assert np.array_equal(classifier.classes_[proba.argmax(1)], classifier.predict(frame))


def test_regressor() -> None:
    frame, level = messy()
    y = 100 + 5.0 * pd.Series(level).map({"low": 0, "mid": 1, "high": 2}).to_numpy()
    model = NPTRegressor(**{**SMALL, "max_epochs": 120, "label_mask_probability": 0.5}).fit(frame, y)
    assert model.score(frame, y) > 0.5
    assert model.history_[-1].loss == -model.history_[-1].score


def test_same_seed_same_model(classifier: NPTClassifier) -> None:
    frame, level = messy()
    torch.manual_seed(5)
    state = torch.get_rng_state()
    again = clone(classifier).fit(frame, level)
    assert torch.equal(torch.get_rng_state(), state)
    assert np.array_equal(again.predict_proba(frame), classifier.predict_proba(frame))
    other = clone(classifier).set_params(random_state=1).fit(frame, level)
    assert not np.array_equal(other.predict_proba(frame), classifier.predict_proba(frame))


def test_save_and_load(classifier: NPTClassifier, tmp_path) -> None:
    frame, _ = messy(seed=1)
    classifier.save(tmp_path / "model.safetensors")
    copies = [NPTClassifier.load(tmp_path / "model.safetensors", "cpu"), pickle.loads(pickle.dumps(classifier))]
    for copy in copies:
        assert copy.get_params() == classifier.get_params()
        assert np.array_equal(copy.predict_proba(frame), classifier.predict_proba(frame))
        assert np.array_equal(copy.retrieve(frame, 3)[0], classifier.retrieve(frame, 3)[0])


def permuted_labels(model: NPTClassifier) -> NPTClassifier:
    """The same fitted model with the labels of its stored rows handed around; nothing else is changed."""
    changed = pickle.loads(pickle.dumps(model))
    rows = model.rows_.clone()
    rows[:, model.encoding_.target] = rows[:, model.encoding_.target].roll(7)
    assert (rows != model.rows_).any()
    changed._set_members(changed.network_, rows, changed.members_)
    return changed


def test_labels_of_other_rows_move_no_prediction_where_all_labels_are_masked(classifier: NPTClassifier) -> None:
    """Kossen et al.: at a label-mask probability of 1 the model never sees target values at its input."""
    frame, _ = messy(seed=1)
    assert classifier.label_mask_probability == 1.0
    changed = permuted_labels(classifier)
    assert np.array_equal(changed.predict_proba(frame), classifier.predict_proba(frame))
    for a, b in zip(changed.retrieve(frame, 5), classifier.retrieve(frame, 5), strict=True):
        assert np.array_equal(a, b)


def test_labels_of_other_rows_are_read_where_some_labels_are_shown() -> None:
    frame, level = messy()
    model = NPTClassifier(**{**SMALL, "label_mask_probability": 0.5}).fit(frame, level)
    assert not np.array_equal(permuted_labels(model).predict_proba(frame), model.predict_proba(frame))


def test_a_model_of_the_format_that_showed_all_labels_is_refused(classifier: NPTClassifier, tmp_path) -> None:
    path = tmp_path / "model.safetensors"
    classifier.save(path)
    with safe_open(path, framework="pt") as file:
        header = json.loads(file.metadata()["hopular"])
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    header["format"], header["parameters"]["memory_ratio"] = 1, None
    save_file(tensors, path, metadata={"hopular": json.dumps(header)})
    with pytest.raises(
        ValueError, match=r"has model format 1, this version of hopular reads 4\..* or fit the NPTClassifier again"
    ):
        NPTClassifier.load(path, "cpu")


def test_retrieved_rows_and_imputed_values(classifier: NPTClassifier) -> None:
    frame, _ = messy(seed=1)
    rows, weights = classifier.retrieve(frame, len(classifier.train_index_))
    assert weights.sum(1) == pytest.approx(1, abs=1e-5)
    assert sorted(rows[0]) == classifier.train_index_.tolist()
    assert not classifier.impute(frame).isna().any().any()


def test_it_is_one_network_unless_more_are_asked_for(classifier: NPTClassifier) -> None:
    held_out = np.setdiff1d(np.arange(120), classifier.train_index_)
    assert len(classifier.members_) == len(classifier.best_epochs_) == 1
    assert len(held_out) == 24
    assert np.isfinite(classifier.oof_proba_[held_out]).all()
    assert np.isnan(classifier.oof_proba_[classifier.train_index_]).all()


def test_members_predict_by_their_mean_and_the_rows_that_they_held_out(tmp_path) -> None:
    frame, level = messy()
    model = NPTClassifier(**{**SMALL, "max_epochs": 120}, n_members=3).fit(frame, level)
    assert model.train_index_.tolist() == list(range(120))
    assert model.oof_proba_.shape == (120, 3)
    assert model.oof_proba_.sum(1) == pytest.approx(1)
    assert np.mean(model.classes_[model.oof_proba_.argmax(1)] == level) > 0.7  # chance: 1/3
    alone = []
    for k, places in enumerate(model.members_):
        single = pickle.loads(pickle.dumps(model))
        single._set_members(pick(model.network_, [k]), model.rows_, [places])
        alone.append(single.predict_proba(frame))
        held_out = np.setdiff1d(np.arange(120), places)
        assert model.oof_proba_[held_out] == pytest.approx(alone[k][held_out], abs=1e-5)
    assert model.predict_proba(frame) == pytest.approx(np.mean(alone, axis=0), abs=1e-5)
    weights = model.retrieve(frame, 120)[1]
    assert weights.sum(1) == pytest.approx(1, abs=1e-5)
    assert not model.impute(frame).isna().any().any()
    model.save(tmp_path / "model.safetensors")
    loaded = NPTClassifier.load(tmp_path / "model.safetensors", "cpu")
    assert np.array_equal(loaded.predict_proba(frame), model.predict_proba(frame))
    assert np.array_equal(loaded.oof_proba_, model.oof_proba_)


def test_a_regressor_s_held_out_predictions_are_in_the_units_of_the_target() -> None:
    frame, level = messy()
    y = 100 + 5.0 * pd.Series(level).map({"low": 0, "mid": 1, "high": 2}).to_numpy()
    model = NPTRegressor(**{**SMALL, "max_epochs": 120}, n_members=3).fit(frame, y)
    assert model.oof_prediction_.shape == (120,)
    assert np.corrcoef(model.oof_prediction_, y)[0, 1] > 0.7
    assert np.abs(model.oof_prediction_ - y).mean() < 3


def test_training_in_bfloat16_learns_as_well(classifier: NPTClassifier) -> None:
    frame, level = messy(seed=1)
    model = clone(classifier).set_params(precision="bfloat16").fit(*messy())
    assert model.score(frame, level) > 0.7
    assert all(p.dtype == torch.float32 for p in model.network_.parameters())
    assert not np.array_equal(model.predict_proba(frame), classifier.predict_proba(frame))


def test_eval_set_and_hooks() -> None:
    seen = []

    class Watch:
        def on_epoch(self, progress) -> None:
            seen.append(progress.epoch)
            if progress.epoch == 5:
                raise StopIteration

        def on_validation(self, progress) -> None:
            assert 0 <= progress.score <= 1

    with pytest.raises(StopIteration):
        NPTClassifier(**SMALL).fit(*messy(), eval_set=messy(seed=1), hooks=[Watch()])
    assert seen == [1, 2, 3, 4, 5]


def test_a_checkpoint_of_other_settings_is_refused_and_one_of_the_same_resumed(
    tmp_path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hopular.model.checkpoint.EVERY", 0.0)
    table, path = messy(), tmp_path / "checkpoint"

    class Interrupt:
        def on_epoch(self, progress) -> None:
            if progress.epoch == 8:
                raise KeyboardInterrupt

        def on_validation(self, progress) -> None:
            pass

    with pytest.raises(KeyboardInterrupt):
        NPTClassifier(**SMALL).fit(*table, hooks=[Interrupt()], checkpoint=path)
    for other in ({"schedule": "cosine-cyclic"}, {"label_mask_probability": 0.9}, {"dropout": 0.2}):
        with pytest.raises(ValueError, match="belongs to another fit"):
            NPTClassifier(**SMALL, **other).fit(*table, checkpoint=path)
    resumed, whole = NPTClassifier(**SMALL).fit(*table, checkpoint=path), NPTClassifier(**SMALL).fit(*table)
    assert [progress.epoch for progress in resumed.history_] == list(range(1, 16))
    assert np.array_equal(resumed.predict_proba(table[0]), whole.predict_proba(table[0]))
    assert not path.exists()


def test_max_seconds() -> None:
    start = time.perf_counter()
    model = NPTClassifier(**{**SMALL, "max_epochs": 1_000_000}, max_seconds=0.5).fit(*messy())
    assert 0.4 < time.perf_counter() - start < 5
    assert len(model.history_) == 1


@pytest.mark.parametrize("schedule", ["flat-and-anneal", "cosine-cyclic"])
def test_the_table_s_other_settings_train(schedule: str) -> None:
    parameters = {**SMALL, "max_epochs": 4, "schedule": schedule, "label_mask_probability": 0.1, "batch_size": 96}
    model = NPTClassifier(**parameters, feature_mask_probability=0.2).fit(*messy())
    assert all(math.isfinite(p.loss) for p in model.history_)


def test_two_rows() -> None:
    model = NPTClassifier(**SMALL).fit(pd.DataFrame({"x": [0.0, 1.0]}), ["a", "b"])
    assert set(model.predict(pd.DataFrame({"x": [0.0, 1.0, 2.0]}))) <= {"a", "b"}


def test_the_paper_s_recipe() -> None:
    recipe = NPTClassifier(recipe="paper", feature_mask_probability=0.2)._recipe(123, 10)
    assert (recipe.max_epochs, recipe.batch_size) == (10_000, 123)
    assert (recipe.learning_rate, recipe.gamma, recipe.weight_decay) == (0.001, 1.0, 0.0)
    assert (recipe.mask_probability, recipe.replace_probability) == pytest.approx((0.18, 0.02))


def test_the_default_recipe_fits_the_table_s_size() -> None:
    recipes = [NPTClassifier()._recipe(n, 10) for n in (50, 400, 50_000)]
    assert [recipe.max_epochs for recipe in recipes] == [400, 100, 40]
    assert [recipe.batch_size for recipe in recipes] == [50, 384, 384]
    changed = NPTClassifier(max_epochs=7, batch_size=10, learning_rate=0.5)._recipe(400, 10)
    assert (changed.max_epochs, changed.batch_size, changed.learning_rate) == (7, 10, 0.5)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("n_layers", 0, "n_layers must be an integer of at least 1, not 0"),
        ("n_heads", 1.5, "n_heads must be an integer of at least 1, not 1.5"),
        ("n_members", 0, "n_members must be an integer of at least 1, not 0"),
        ("embedding_dim", 0, "embedding_dim must be an integer of at least 1, not 0"),
        ("embedding_dim", None, "embedding_dim must be an integer of at least 1, not None"),
        ("label_mask_probability", 0.0, r"label_mask_probability must be a number in \(0, 1\], not 0.0"),
        ("label_mask_probability", 1.1, r"label_mask_probability must be a number in \(0, 1\], not 1.1"),
        ("feature_mask_probability", "a", r"feature_mask_probability must be a number in \[0, 1\], not 'a'"),
        ("schedule", "linear", "schedule must be one of"),
        ("recipe", "quick", "recipe must be one of"),
        ("dropout", 1, "dropout must be a number .*not 1$"),
    ],
)
def test_parameters_out_of_range(name: str, value: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        NPTClassifier(**{**SMALL, name: value}).fit(*messy())
