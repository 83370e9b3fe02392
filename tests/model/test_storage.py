"""Saved models: one safetensors file that brings back the same predictions, and clear errors for anything else."""

from __future__ import annotations

import json
import zipfile

import numpy as np
import pandas as pd
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from hopular import HopularClassifier, HopularRegressor
from hopular.model.table import fit_together

SMALL = {"n_members": 2, "n_blocks": 1, "n_networks": 2, "embedding_dim": 8, "max_epochs": 5, "random_state": 0}
N = 40


def table():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "größe": rng.normal(size=N),
            "colour": rng.choice(["red", "blue", "green"], N),
            "day": pd.date_range("2024-01-01", periods=N),
            "code": rng.integers(0, 3, N),
        }
    )
    return frame.mask(rng.random(frame.shape) < 0.1)


def fit_classifier(y=("no", "yes") * (N // 2), **parameters):
    return HopularClassifier(**SMALL, categorical_features=["code"], **parameters).fit(table(), list(y))


@pytest.fixture(scope="module")
def classifier():
    return fit_classifier()


@pytest.fixture(scope="module")
def regressor():
    return HopularRegressor(**SMALL).fit(table(), np.linspace(100, 200, N))


@pytest.fixture
def saved(classifier, tmp_path):
    path = tmp_path / "model.safetensors"
    classifier.save(path)
    return path


def rewrite(path, change_header=lambda header: header, without=()):
    """Write the file anew with another header or fewer tensors."""
    with safe_open(path, framework="pt") as file:
        header = json.loads(file.metadata()["hopular"])
    tensors = {name: tensor for name, tensor in load_file(path).items() if name not in without}
    save_file(tensors, path, metadata={"hopular": json.dumps(change_header(header))})


# ----------------------------------------------------------------------------------------------------------- round trip


def test_classifier_round_trip(classifier, saved):
    loaded = HopularClassifier.load(saved)
    assert np.array_equal(loaded.predict_proba(table()), classifier.predict_proba(table()))
    assert np.array_equal(loaded.predict(table()), classifier.predict(table()))
    assert np.array_equal(loaded.retrieve(table(), 3)[0], classifier.retrieve(table(), 3)[0])
    pd.testing.assert_frame_equal(loaded.impute(table()), classifier.impute(table()))
    assert loaded.get_params() == classifier.get_params()
    assert loaded.encoding_ == classifier.encoding_
    assert loaded.feature_names_in_.tolist() == list(table().columns)
    assert loaded.n_features_in_ == 4
    assert loaded.best_epochs_ == classifier.best_epochs_
    assert len(loaded.members_) == 2
    assert all(torch.equal(a, b) for a, b in zip(loaded.members_, classifier.members_, strict=True))
    assert np.array_equal(loaded.oof_proba_, classifier.oof_proba_)
    assert np.array_equal(loaded.train_index_, classifier.train_index_)


def test_regressor_round_trip(regressor, tmp_path):
    regressor.save(str(tmp_path / "model"))
    loaded = HopularRegressor.load(str(tmp_path / "model"), device="cpu")
    assert np.array_equal(loaded.predict(table()), regressor.predict(table()))
    assert np.array_equal(loaded.oof_prediction_, regressor.oof_prediction_)
    assert loaded.rows_.device.type == "cpu"


@pytest.mark.parametrize("n_members", [1, None])
def test_a_single_member_and_as_many_as_the_table_gets(n_members, tmp_path):
    model = HopularClassifier(**{**SMALL, "n_members": n_members}).fit(table(), ["no", "yes"] * (N // 2))
    model.save(tmp_path / "model")
    loaded = HopularClassifier.load(tmp_path / "model")
    assert len(loaded.members_) == len(model.members_) == (n_members or 8)
    assert np.array_equal(loaded.predict_proba(table()), model.predict_proba(table()))
    assert np.array_equal(loaded.oof_proba_, model.oof_proba_, equal_nan=True)
    assert loaded.n_members == n_members


def test_a_model_with_an_eval_set_has_no_out_of_fold_predictions_after_loading(tmp_path):
    y = ["no", "yes"] * (N // 2)
    HopularClassifier(**SMALL).fit(table(), y, eval_set=(table(), y)).save(tmp_path / "model")
    loaded = HopularClassifier.load(tmp_path / "model")
    assert not hasattr(loaded, "oof_proba_")
    assert loaded.predict(table()).shape == (N,)


def test_tensors_are_read_onto_the_device_that_is_asked_for(saved, monkeypatch):
    """`meta` is a device that every machine has: it shows where tensors go, not what is in them."""
    onto = []

    def note(path, framework, device):
        onto.append(device)
        return safe_open(path, framework=framework, device="cpu")

    monkeypatch.setattr("hopular.model.storage.safe_open", note)
    HopularClassifier.load(saved, device="cpu")
    assert onto == ["cpu"]
    with pytest.raises((RuntimeError, AssertionError, NotImplementedError)):
        HopularClassifier.load(saved, device="cuda:7").predict(table())
    assert onto == ["cpu", "cuda:7"]


def test_members_that_differ_in_beta_each_keep_their_own(tmp_path):
    models = [HopularClassifier(**SMALL, beta=beta) for beta in (0.5, 4.0)]
    assert fit_together(models, table(), ["no", "yes"] * (N // 2)) == [None, None]
    for model in models:
        model.save(tmp_path / "model")
        loaded = HopularClassifier.load(tmp_path / "model")
        assert np.array_equal(loaded.predict_proba(table()), model.predict_proba(table()))
        assert loaded.network_.blocks[0].samples.beta == pytest.approx(model.beta / 32**0.5)  # h = 8 x 8 / 2


def test_a_loaded_model_can_be_saved_and_fitted_again(saved, classifier, tmp_path):
    loaded = HopularClassifier.load(saved)
    loaded.save(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == saved.read_bytes()
    loaded.fit(table(), ["no", "yes"] * (N // 2))
    assert np.array_equal(loaded.predict_proba(table()), classifier.predict_proba(table()))


def test_the_file_is_safetensors_with_json_and_no_pickle(saved):
    with safe_open(saved, framework="pt") as file:
        header = json.loads(file.metadata()["hopular"])
        names = set(file.keys())
    assert header["class"] == "HopularClassifier"
    assert header["format"] == 4
    assert {"rows", "train_index", "member.0", "member.1", "fitted.oof_proba_"} < names
    assert not zipfile.is_zipfile(saved)  # as torch.save would write
    assert b"\x80\x04\x95" not in saved.read_bytes()  # the start of a pickle


@pytest.mark.parametrize(
    "classes",
    [["no", "yes"], [3, 7], [False, True], [0.0, 1.0], np.array(["no", "yes"], dtype=object)],
    ids=["str", "int", "bool", "float", "object"],
)
def test_labels_keep_their_dtype(classes, tmp_path):
    y = np.asarray(classes)[np.arange(N) % 2]
    model = HopularClassifier(**SMALL).fit(table(), y)
    model.save(tmp_path / "model")
    loaded = HopularClassifier.load(tmp_path / "model")
    assert loaded.classes_.dtype == model.classes_.dtype == y.dtype
    assert loaded.classes_.tolist() == list(classes)
    assert loaded.predict(table()).dtype == y.dtype


def test_a_model_fitted_on_an_array_has_no_feature_names(tmp_path):
    X = table()[["größe", "code"]].to_numpy(float)
    HopularClassifier(**SMALL).fit(X, [0, 1] * (N // 2)).save(tmp_path / "model")
    loaded = HopularClassifier.load(tmp_path / "model")
    assert not hasattr(loaded, "feature_names_in_")
    assert loaded.predict(X).shape == (N,)


@pytest.mark.parametrize(
    ("name", "value"),
    [("n_blocks", np.int64(2)), ("beta", np.float32(0.5)), ("random_state", np.random.RandomState(0))],
    ids=["numpy integer", "numpy float", "generator"],
)
def test_parameters_that_json_does_not_know_can_be_saved(name, value, tmp_path):
    model = HopularClassifier(**{**SMALL, name: value}).fit(table(), [0, 1] * (N // 2))
    model.save(tmp_path / "model")
    loaded = HopularClassifier.load(tmp_path / "model")
    assert np.array_equal(loaded.predict_proba(table()), model.predict_proba(table()))


def test_an_existing_file_is_replaced_and_no_part_is_left(classifier, tmp_path):
    path = tmp_path / "model"
    path.write_bytes(b"something old")
    classifier.save(path)
    assert [p.name for p in tmp_path.iterdir()] == ["model"]
    assert HopularClassifier.load(path).classes_.tolist() == ["no", "yes"]


def test_an_unfitted_model_cannot_be_saved(tmp_path):
    with pytest.raises(ValueError, match="This HopularClassifier instance is not fitted yet"):
        HopularClassifier().save(tmp_path / "model")
    assert list(tmp_path.iterdir()) == []


# --------------------------------------------------------------------------------------------------------------- errors


def test_missing_file(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no saved model at '.*nothing'"):
        HopularClassifier.load(tmp_path / "nothing")


def test_model_of_another_class(saved):
    message = r"model.safetensors' holds a HopularClassifier; load it with HopularClassifier.load"
    with pytest.raises(ValueError, match=message):
        HopularRegressor.load(saved)


@pytest.mark.parametrize("share", [0, 0.0001, 0.1, 0.5, 0.9, 0.9999])
def test_truncated_file(saved, share):
    content = saved.read_bytes()
    saved.write_bytes(content[: int(share * len(content))])
    with pytest.raises(
        ValueError, match=r"model.safetensors' is damaged or no safetensors file .* Save the model again"
    ):
        HopularClassifier.load(saved)


@pytest.mark.parametrize("content", [bytes(range(256)) * 8, b"\x80\x04\x95pickle", b"{}", b"\0" * 64])
def test_other_bytes(saved, content):
    saved.write_bytes(content)
    with pytest.raises(ValueError, match=r"model.safetensors' is damaged or no safetensors file"):
        HopularClassifier.load(saved)


def test_random_bytes(saved):
    random = np.random.default_rng(0)
    for _ in range(20):
        saved.write_bytes(random.bytes(500))
        with pytest.raises(ValueError, match="is damaged or no safetensors file"):
            HopularClassifier.load(saved)


@pytest.mark.parametrize("metadata", [None, {"format": "pt"}, {"hopular": "[1]"}, {"hopular": "{}"}])
def test_safetensors_of_something_else(saved, metadata):
    save_file({"weight": torch.zeros(3)}, saved, metadata=metadata)
    with pytest.raises(ValueError, match="is a safetensors file, but not a model saved by hopular"):
        HopularClassifier.load(saved)


def test_header_that_is_no_json(saved):
    save_file({"weight": torch.zeros(3)}, saved, metadata={"hopular": "{oops"})
    with pytest.raises(ValueError, match="is damaged or no safetensors file"):
        HopularClassifier.load(saved)


@pytest.mark.parametrize("version", [1, 2, 3, 5, "x"])
def test_model_of_another_version(saved, version):
    rewrite(saved, lambda header: {**header, "format": version})
    message = (
        rf"model.safetensors' has model format {version!r}, this version of hopular reads 4. Load it with the version "
        "of hopular that saved it, or fit the HopularClassifier again"
    )
    with pytest.raises(ValueError, match=message):
        HopularClassifier.load(saved)


def test_a_model_of_the_first_format_is_refused_whatever_else_it_holds(saved):
    """One network, whose tensors had no members, and a header without what is in one now."""
    header = {"format": 1, "class": "HopularClassifier", "parameters": {"n_blocks": 1}, "best_epoch": 3}
    save_file({"rows": torch.zeros(3, 2)}, saved, metadata={"hopular": json.dumps(header)})
    with pytest.raises(ValueError, match="has model format 1, this version of hopular reads 4"):
        HopularClassifier.load(saved)


@pytest.mark.parametrize("name", ["network.embedding.position", "rows", "train_index", "member.0", "member.1"])
def test_a_missing_tensor(saved, name):
    rewrite(saved, without=[name])
    with pytest.raises(ValueError, match="does not fit its own description"):
        HopularClassifier.load(saved)
