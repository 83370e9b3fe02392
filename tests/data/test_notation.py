"""Amounts, units and thousands: a person's numbers are read as they were meant, and what is guessed is said."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from hopular.data.dataset import DataError
from hopular.data.notation import NumberForm, Style, guess_form, read_number, split_unit
from hopular.data.sidecar import Sidecar
from hopular.data.sources import file

ROWS = 60
EUROPE = NumberForm(",")


def german(value: int) -> str:
    """1234567 as 1.234.567."""
    return f"{value:,}".replace(",", ".")


def save(folder: Path, columns: dict[str, list[str]], delimiter: str = ",", name: str = "own.csv") -> Path:
    rows = zip(*columns.values(), strict=True)
    (folder / name).write_text("\n".join(delimiter.join(row) for row in (tuple(columns), *rows)), encoding="utf-8")
    return folder / name


def measured(count: int = ROWS) -> list[str]:
    return [f"{0.25 * place:.2f}" for place in range(count)]


# ---------------------------------------------------------------------------------------------------------- one number


@pytest.mark.parametrize(
    ("text", "form", "value"),
    [
        ("$3,674.24", NumberForm(".", "$"), 3674.24),
        ("-$3,674.24", NumberForm(".", "$"), -3674.24),
        ("US$ 5", NumberForm(".", "US$"), 5),
        ("EUR 12,50", NumberForm(",", "EUR"), 12.5),
        ("108.175 €", NumberForm(",", "€"), 108_175),
        ("92.2 %", NumberForm(".", "%"), 92.2),
        ("38.4kg", NumberForm(".", "kg"), 38.4),
        ("120 km/h", NumberForm("", "km/h"), 120),
        ("75 m2", NumberForm("", "m2"), 75),
        ("\N{MINUS SIGN}5 °C", NumberForm("", "°C"), -5),
        ("1.234.567,5", EUROPE, 1_234_567.5),
        ("1e3", EUROPE, 1000),
        (",5", EUROPE, 0.5),
        ("12", NumberForm(".", "kg"), 12),
    ],
)
def test_a_number_in_its_form(text, form, value):
    assert read_number(text, form) == value


@pytest.mark.parametrize("text", ["12.5", "1.23", "0.234", "1234.567", "1.234 kg", "--5", "-$-5", "", "12:30", "a 5"])
def test_what_is_no_number_in_the_form(text):
    assert read_number(text, EUROPE) is None


@pytest.mark.parametrize("text", ["k12", "2020-01-31", "10-20", "5 0", "<50K", "1,2 and 3", "12 % of it"])
def test_what_has_no_unit(text):
    assert split_unit(text) is None


@pytest.mark.parametrize("texts", [["5 kg", "300 g"], ["1.5", "2,5"], ["007", "012"], ["1.2.3"], ["3rd", "1st"], []])
def test_what_has_no_common_form(texts):
    assert guess_form(texts, Style()) is None


# ------------------------------------------------------------------------------------------------------------ thousands


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_dots_that_separate_thousands_in_features_and_target(tmp_path, cache, delimiter):
    people = [300 + 53 * place * place for place in range(ROWS)]
    shown = [german(value) for value in people]
    path = save(tmp_path, {"x": measured(), "people": shown, "income": shown}, delimiter)
    dataset = file.load(path, "income")
    assert dataset.task == "regression"
    assert dataset.y.tolist() == people
    assert dataset.X["people"].tolist() == people
    doubt = " (if they are decimal signs, say decimal = '.' in the sidecar)"  # x has decimal points
    assert [note for note in dataset.notes if "dots" in note] == [
        f"dots read as separators of thousands{doubt}: people",
        f"dots read as separators of thousands{doubt}: income",
    ]
    assert file.load(path, "income").forms == dataset.forms == {"x": NumberForm("."), "people": EUROPE}


def test_what_cannot_be_told_is_said_and_settled_by_the_sidecar(tmp_path, cache):
    price = [german(1000 + 37 * place) for place in range(ROWS)]
    path = save(tmp_path, {"kind": ["a", "b", "c"] * 20, "size": price, "price": price})
    dataset = file.load(path, "price")
    assert (dataset.y[1], dataset.X["size"][1]) == (1.037, 1.037)
    said = "dots read as decimal signs (if they separate thousands, say decimal = ',' in the sidecar)"
    assert {f"{said}: price", f"{said}: size"} <= set(dataset.notes)
    path.with_suffix(".toml").write_text('target = "price"\ndecimal = ","\n')
    settled = file.load(path)
    assert (settled.y[1], settled.X["size"][1]) == (1037, 1037)
    assert "dots read as separators of thousands: size" in settled.notes
    path.with_suffix(".toml").write_text('target = "price"\ndecimal = "."\n')
    assert file.load(path).y[1] == 1.037
    assert not any("dots" in note for note in file.load(path).notes)


def test_the_sidecar_settles_doubt_and_nothing_else(tmp_path, cache):
    path = save(tmp_path, {"x": measured(), "y": ["a", "b"] * 30})
    assert file.load(path, "y", Sidecar(decimal=",")).X["x"].tolist() == [float(text) for text in measured()]


def test_dots_after_semicolons_are_thousands(tmp_path, cache):
    price = [german(1000 + 37 * place) for place in range(ROWS)]
    dataset = file.load(save(tmp_path, {"kind": ["a", "b", "c"] * 20, "price": price}, ";"), "price")
    assert dataset.y[1] == 1037
    assert "(if they are decimal signs, say decimal = '.' in the sidecar): price" in dataset.notes[0]


def test_american_thousands(tmp_path, cache):
    people = [300 + 53 * place * place for place in range(ROWS)]
    quoted = [f'"{value:,}"' for value in people]
    dataset = file.load(save(tmp_path, {"kind": ["a", "b", "c"] * 20, "people": quoted}), "people")
    assert dataset.y.tolist() == people
    assert "commas read as separators of thousands: people" in dataset.notes


# ---------------------------------------------------------------------------------------------------- signs and units

AMOUNTS = {
    "dollars": ([f'"${1000 + 7.25 * place:,.2f}"' for place in range(ROWS)], 1007.25, "$"),
    "euros": ([f"{german(100_000 + 175 * place)} €" for place in range(ROWS)], 100_175, "€"),
    "percent": ([f"{50 + 0.2 * place:.1f} %" for place in range(ROWS)], 50.2, "%"),
    "kilograms": ([f"{30 + 0.4 * place:.1f} kg" for place in range(ROWS)], 30.4, "kg"),
}


@pytest.mark.parametrize(("texts", "second", "unit"), AMOUNTS.values(), ids=AMOUNTS.keys())
def test_signs_and_units_are_taken_off_with_a_note(tmp_path, cache, texts, second, unit):
    dataset = file.load(save(tmp_path, {"x": measured(), "amount": texts, "target": texts}), "target")
    assert dataset.task == "regression"
    assert dataset.kinds["amount"] == "continuous"
    assert (dataset.y[1], dataset.X["amount"][1]) == (second, second)
    assert f"read as numbers without {unit!r}: amount" in dataset.notes
    assert f"read as numbers without {unit!r}: target" in dataset.notes


def test_small_numbers_with_exponents_are_not_whole(tmp_path, cache):
    path = save(tmp_path, {"x": [f"{place}e-3 kg" for place in range(1, ROWS + 1)], "y": ["a", "b"] * 30})
    assert file.load(path, "y").X["x"][1] == 0.002


def test_categories_and_classes_keep_their_units(tmp_path, cache):
    grades = ["5 kg", "10 kg", "15 kg"] * 20
    dataset = file.load(save(tmp_path, {"grade": grades, "class": grades}), "class")
    assert list(dataset.X["grade"][:3]) == list(dataset.y[:3]) == ["5 kg", "10 kg", "15 kg"]


def test_different_units_stay_text(tmp_path, cache):
    weights = [f"{place} {'kg' if place % 2 else 'g'}" for place in range(1, ROWS + 1)]
    dataset = file.load(save(tmp_path, {"x": measured(), "weight": weights, "y": ["a", "b"] * 30}), "y")
    assert "weight" not in dataset.X or dataset.kinds["weight"] == "categorical"
    assert "numbers with different units (kg, g), taken as text: weight" in dataset.notes


def test_a_column_of_mostly_numbers_lists_what_is_none(tmp_path, cache):
    prices = [f"{1.5 * place}" for place in range(ROWS)]
    prices[3], prices[7], prices[8] = "tbd", "sold", "sold"
    path = save(tmp_path, {"x": measured(), "price": prices, "y": ["a", "b"] * 30})
    remedy = "if these stand for missing values, name them in missing in the sidecar"
    said = f"mostly numbers, but not 'sold', 'tbd' ({remedy}): price"
    assert said in file.load(path, "y").notes
    assert file.load(path, "y", Sidecar(missing=("sold", "tbd"))).X["price"].isna().sum() == 3
    with pytest.raises(DataError, match="target 'price' is mostly numbers, but not 'sold', 'tbd': name these in mis"):
        file.load(path, "price")
    assert len(file.load(path, "price", Sidecar(missing=("sold", "tbd")))) == ROWS - 3


def test_classes_that_are_mostly_numbers_are_classes(tmp_path, cache):
    path = save(tmp_path, {"x": measured(), "y": ["1", "2", "3", "other"] * 15})
    assert file.load(path, "y").classes == ["1", "2", "3", "other"]


# ------------------------------------------------------------------------------------------------------- text as target


@pytest.mark.parametrize("task", [None, "classification"])
def test_a_nearly_unique_text_is_no_target(tmp_path, cache, task):
    names = [f"customer {place}a{place}" for place in range(ROWS)]
    says = "target 'name' has 60 different texts in 60 rows, which look like an id and not like classes: choose another"
    with pytest.raises(DataError, match=says):
        file.load(save(tmp_path, {"x": measured(), "name": names}), "name", Sidecar(task=task))


def test_blanks_around_labels_are_not_lost_silently(tmp_path, cache):
    path = save(tmp_path, {"x": measured(), "y": ["a ", "a", "b"] * 20})
    dataset = file.load(path, "y")
    assert dataset.classes == ["a", "b"]
    merged = "blanks around labels removed, as in 'a ', and labels that differ in nothing else are one class: y"
    assert dataset.notes == (merged,)
    path = save(tmp_path, {"x": measured(), "y": [" a", "a", "b"] * 20}, name="before.csv")
    assert file.load(path, "y").notes == ("blanks before some values removed: y",)
    path = save(tmp_path, {"x": measured(), "y": [" a", " a", " b"] * 20}, name="all.csv")
    assert file.load(path, "y").notes == (), "a blank after each delimiter is no part of the label"


def test_numbers_stay_what_they_were(tmp_path, cache):
    values = np.random.default_rng(0).normal(size=ROWS)
    path = save(tmp_path, {"x": [f"{value:.3f}" for value in values], "y": ["a", "b"] * 30})
    dataset = file.load(path, "y")
    assert dataset.X["x"].tolist() == [float(f"{value:.3f}") for value in values]
    assert dataset.notes == ()
