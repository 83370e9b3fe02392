"""The blend of candidates: what is chosen, that nothing is fitted to noise, and that no row scores its own choice."""

from __future__ import annotations

import numpy as np
import pytest

from hopular.evaluation.metrics import evaluate
from hopular.trials.blend import MAX_MEMBERS, Blend, Candidate, choose, cross_fit, cross_fit_single
from hopular.util import InputError

CLASSES = ("a", "b", "c")


def classification(n=300, noises=(1.0, 1.0, 1.0), sharpness=1.0, priors=None, k=3, seed=0, signal=2.0):
    """Make labels, and candidates whose logits are the true ones with noise of their own."""
    random = np.random.default_rng(seed)
    logits = signal * random.normal(size=(n, k)) + np.log(np.ones(k) if priors is None else np.asarray(priors))
    codes = (logits + random.gumbel(size=logits.shape)).argmax(axis=1)
    candidates = []
    for slot, noise in enumerate(noises):
        raw = np.exp(sharpness * (logits + noise * random.normal(size=logits.shape)))
        candidates.append(Candidate(f"m{slot}", slot, raw / raw.sum(axis=1, keepdims=True)))
    return candidates, np.array(CLASSES)[codes], np.arange(n) % 8


def regression(n=300, noises=(1.0, 1.0, 1.0), seed=0):
    random = np.random.default_rng(seed)
    y = random.normal(size=n)
    return [Candidate("m", i, y + s * random.normal(size=n)) for i, s in enumerate(noises)], y, np.arange(n) % 5


def test_candidates_with_errors_of_their_own_share_the_weight():
    candidates, y, _ = regression(noises=(0.5, 0.5, 0.5, 5.0))
    blend = choose(candidates, y, None, "rmse")
    assert set(blend.places) == {0, 1, 2}
    assert sum(blend.weights) == pytest.approx(1)
    assert max(blend.weights) < 0.5
    mixed = blend.apply([candidates[place].predictions for place in blend.places])
    assert np.mean((mixed - y) ** 2) < 0.5 * min(np.mean((one.predictions - y) ** 2) for one in candidates)


def test_a_single_candidate_is_chosen_where_others_only_add_noise():
    candidates, y, _ = regression(noises=(0.0, 1.0, 1.0))
    assert choose(candidates, y, None, "r2").places == (0,)


def test_weights_are_of_few_members_and_none_is_tiny():
    candidates, truth, _ = classification(noises=(1.0,) * 30)
    blend = choose(candidates, truth, CLASSES, "log_loss")
    assert 1 < len(blend.places) <= MAX_MEMBERS
    assert list(blend.weights) == sorted(blend.weights, reverse=True)
    assert blend.weights[-1] > 0.02


def test_the_same_seed_chooses_the_same():
    candidates, truth, _ = classification()
    assert choose(candidates, truth, CLASSES, "accuracy", 3) == choose(candidates, truth, CLASSES, "accuracy", 3)


def test_mae_is_chosen_by_absolute_errors():
    """One candidate has rare huge errors, the other is always a little off."""
    y = np.zeros(200)
    rare, steady = np.zeros(200), np.full(200, 1.0)
    rare[::20] = 10.0
    pair = [Candidate("rare", 0, rare), Candidate("steady", 0, steady)]
    absolute, squared = (choose(pair, y, None, metric) for metric in ("mae", "mse"))
    weight = [dict(zip(blend.places, blend.weights, strict=True)).get(0, 0.0) for blend in (absolute, squared)]
    assert weight[0] > weight[1]


def test_temperature_corrects_overconfidence_and_leaves_good_probabilities_alone():
    sure, truth, _ = classification(1000, (0.0,), sharpness=2.0)
    assert choose(sure, truth, CLASSES, "log_loss").temperature == pytest.approx(2.0, rel=0.25)
    left = 0
    for seed in range(20):
        fair, truth, _ = classification(300, (0.0,), seed=seed)
        left += choose(fair, truth, CLASSES, "log_loss").temperature == 1.0
    assert left >= 16


def test_multipliers_serve_balanced_accuracy_and_are_one_for_the_log_loss():
    candidates, truth, fold = classification(900, (0.1, 0.2), priors=(0.9, 0.06, 0.04), signal=1.0)
    assert choose(candidates, truth, CLASSES, "log_loss").multipliers == (1.0, 1.0, 1.0)
    blend = choose(candidates, truth, CLASSES, "balanced_accuracy")
    assert blend.multipliers[0] < min(blend.multipliers[1:])
    fitted = cross_fit(candidates, truth, CLASSES, fold, "balanced_accuracy")
    plain = evaluate("classification", truth, fitted.predictions, CLASSES)["balanced_accuracy"]
    tuned = evaluate("classification", truth, np.eye(3)[fitted.labels], CLASSES)["balanced_accuracy"]
    assert tuned > plain + 0.05


def test_the_threshold_of_two_classes_moves_for_macro_f1():
    candidates, truth, fold = classification(1500, (0.1,), priors=(0.93, 0.07), k=2, signal=1.0)
    fitted = cross_fit(candidates, truth, CLASSES[:2], fold, "macro_f1")
    plain = evaluate("classification", truth, fitted.predictions, CLASSES[:2])["macro_f1"]
    assert evaluate("classification", truth, np.eye(2)[fitted.labels], CLASSES[:2])["macro_f1"] > plain


def test_multipliers_are_not_fitted_to_noise():
    left = 0
    for seed in range(20):
        candidates, truth, _ = classification(60, (0.0,), seed=seed)
        left += choose(candidates, truth, CLASSES, "accuracy").multipliers == (1.0, 1.0, 1.0)
    assert left >= 16


def test_labels_take_the_largest_product():
    blend = Blend((0,), (1.0,), 1.0, (1.0, 3.0))
    assert blend.labels(np.array([[0.7, 0.3], [0.8, 0.2]])).tolist() == [1, 0]


@pytest.mark.parametrize("folds", [1, 5])
@pytest.mark.parametrize("fit", [cross_fit, cross_fit_single])
def test_a_row_has_no_part_in_its_own_prediction(fit, folds):
    candidates, y, _ = regression(120, noises=(1.0, 1.1, 0.9, 1.2))
    fold = np.arange(120) % folds
    before = fit(candidates, y, None, fold, "mse")
    for row in (0, 7, 55):
        changed = y.copy()
        changed[row] += 100
        assert fit(candidates, changed, None, fold, "mse").predictions[row] == before.predictions[row]


def test_pure_luck_is_not_reported_as_skill():
    """The best of many candidates that know nothing looks better than chance, cross-fitted it does not."""
    random = np.random.default_rng(0)
    y, fold = random.integers(2, size=80), np.arange(80) % 8
    guesses = np.clip(random.normal(0.5, 0.15, size=(60, 80)), 0.05, 0.95)
    candidates = [Candidate("guess", i, np.stack([1 - p, p], axis=1)) for i, p in enumerate(guesses)]
    truth, classes = y.astype(str), ("0", "1")
    best = min(evaluate("classification", truth, one.predictions, classes)["log_loss"] for one in candidates)
    fitted = cross_fit_single(candidates, truth, classes, fold, "log_loss")
    assert best < np.log(2) < evaluate("classification", truth, fitted.predictions, classes)["log_loss"]


def test_rows_without_a_prediction_are_left_out():
    candidates, truth, fold = classification(80)
    for one in candidates:
        one.predictions[:3] = np.nan
    rest = [Candidate(one.method, one.slot, one.predictions[3:]) for one in candidates]
    assert choose(candidates, truth, CLASSES, "accuracy") == choose(rest, truth[3:], CLASSES, "accuracy")
    fitted = cross_fit(candidates, truth, CLASSES, fold, "accuracy")
    assert np.isnan(fitted.predictions[:3]).all()
    assert (fitted.labels[:3] == -1).all()
    assert np.isfinite(fitted.predictions[3:]).all()


def test_a_candidate_that_diverged_or_was_not_finished_is_left_out():
    candidates, y, fold = regression(noises=(0.5, 0.5, 0.5))
    candidates[0].predictions[5] = np.inf
    candidates[1].predictions[fold == 2] = np.nan
    assert choose(candidates, y, None, "mse").places == (2,)
    assert np.isfinite(cross_fit(candidates, y, None, fold, "mse").predictions).all()


def test_an_infinite_loss_does_not_win_and_may_still_take_part():
    candidates, truth, _ = classification(noises=(0.5, 0.5))
    certain = np.eye(3)[candidates[0].predictions.argmax(axis=1)]
    blend = choose([Candidate("certain", 0, certain), *candidates], truth, CLASSES, "log_loss")
    assert blend.places[0] != 0
    assert np.isfinite(
        evaluate("classification", truth, blend.apply([candidates[0].predictions] * len(blend.places)), CLASSES)[
            "log_loss"
        ]
    )


@pytest.mark.parametrize("n", [1, 2, 3, 6])
@pytest.mark.parametrize("metric", ["log_loss", "balanced_accuracy"])
def test_very_few_rows_and_a_class_that_none_knows(n, metric):
    candidates, truth, fold = classification(n)
    truth = truth.astype(object)
    truth[0] = "unseen"
    fitted = cross_fit(candidates, truth, CLASSES, fold, metric)
    assert fitted.predictions.sum(axis=1) == pytest.approx(np.ones(n))
    assert sum(choose(candidates, truth, CLASSES, metric).weights) == pytest.approx(1)


def test_bad_input_is_named():
    candidates, y, _ = regression(20)
    with pytest.raises(InputError, match=r"no metric 'rmsee'. Did you mean 'rmse'"):
        choose(candidates, y, None, "rmsee")
    with pytest.raises(InputError, match="'accuracy' is not for regression"):
        choose(candidates, y, None, "accuracy")
    with pytest.raises(InputError, match="nothing to choose from"):
        choose([], y, None, "mse")
    with pytest.raises(InputError, match="no trial has finite predictions"):
        choose([Candidate("m", 0, np.full(20, np.inf))], y, None, "mse")
