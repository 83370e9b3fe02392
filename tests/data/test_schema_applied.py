"""New rows are read as the training table was."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from hopular.data import DataError, Dataset, load
from hopular.data.read import read_raw
from hopular.data.schema import Schema
from hopular.data.sources.file import read_rows

pytestmark = pytest.mark.usefixtures("cache")


def flowers() -> Dataset:
    X = pd.DataFrame({"length": [0.5, 1.5, 2.5] * 4, "width": [3.0, 2.0, 1.0] * 4})
    X["colour"] = pd.Categorical(["blue", "red"] * 6)
    y = pd.Series(pd.Categorical(["ash", "birch", "cedar"] * 4), name="tree")
    return Dataset("flowers", X, y, "classification", source="made up")


def test_a_schema_survives_json() -> None:
    schema = Schema.of(flowers())
    assert Schema.from_json(schema.to_json()) == schema
    assert schema.classes == ("ash", "birch", "cedar")
    assert [column.kind for column in schema.columns] == ["continuous", "continuous", "categorical"]


def test_columns_are_found_by_name_and_others_ignored() -> None:
    dataset = flowers()
    new = pd.DataFrame({"note": ["x", "y"], "colour": ["red", "blue"], "tree": ["ash", None], "width": [1, 2]})
    new["length"] = [0.5, np.nan]
    features, notes = Schema.of(dataset).apply(new)
    assert list(features.columns) == ["length", "width", "colour"]
    assert features["colour"].tolist() == ["red", "blue"]
    assert features["length"].isna().tolist() == [False, True]
    assert notes == ["ignored, as the model does not use it: note"]


def test_a_missing_column_is_named_with_the_one_that_is_meant() -> None:
    new = flowers().X.rename(columns={"length": "lenght"})
    with pytest.raises(DataError, match=r"the model needs length, .* Did you mean 'lenght'\?"):
        Schema.of(flowers()).apply(new)


def test_a_category_that_training_has_not_seen_counts_as_missing() -> None:
    new = flowers().X.head(3).assign(colour=["red", "mauve", None])
    features, notes = Schema.of(flowers()).apply(new)
    assert features["colour"].isna().tolist() == [False, True, True]
    assert list(features["colour"].cat.categories) == ["blue", "red"]
    assert notes == ["colour: 1 value (mauve) counts as missing, new to the model"]


def test_text_where_numbers_were_is_refused() -> None:
    with pytest.raises(DataError, match="column 'length' cannot be continuous: 'tall' in data row 1 is not a number"):
        Schema.of(flowers()).apply(flowers().X.head(1).astype({"length": object}).assign(length="tall"))


def test_a_column_without_any_value_is_missing() -> None:
    new = flowers().X.head(2).assign(colour=None, width=np.nan)
    features, notes = Schema.of(flowers()).apply(new)
    assert features["colour"].isna().all()
    assert features["width"].isna().all()
    assert notes == []


def test_a_date_means_the_same_as_in_training(tmp_path: Path) -> None:
    days = [f"{day:02}/06/2024,{day % 2}" for day in range(1, 31)]  # days above 12: the day comes first
    (tmp_path / "visits.csv").write_text("\n".join(["when,came", *days]))
    dataset = load(str(tmp_path / "visits.csv"), target="came")
    schema = Schema.of(dataset)
    assert (schema.columns[0].kind, schema.columns[0].form) == ("date", "%d/%m/%Y")
    (tmp_path / "new.csv").write_text("when\n03/06/2024\n2024-06-03\n")  # by itself the first would be in March
    features, notes = schema.apply(read_raw(tmp_path / "new.csv").frame)
    assert features["when"].iloc[0] == dataset.X["when"].iloc[2]
    assert features["when"].isna().tolist() == [False, True]
    assert notes == ["when: 1 value (2024-06-03) counts as missing, not written as %d/%m/%Y"]


def test_dates_under_a_name_with_a_comma_keep_their_form(tmp_path: Path) -> None:
    days = [f"{day:02}/06/2024,{day:02}.06.2024,{day % 2}" for day in range(1, 31)]
    (tmp_path / "visits.csv").write_text("\n".join(['"when, x",other,came', *days]))
    (tmp_path / "visits.toml").write_text('target = "came"\nkinds = { other = "date" }\n')
    for _ in range(2):  # as it was read, and from the cache
        columns = Schema.of(load(str(tmp_path / "visits.csv"))).columns
        assert [(column.name, column.form) for column in columns] == [("when, x", "%d/%m/%Y"), ("other", "%d.%m.%Y")]


def test_dates_proper_are_read_as_such(tmp_path: Path) -> None:
    days = pd.DataFrame({"when": pd.date_range("2024-01-01", periods=30), "came": [0, 1] * 15})
    days.to_parquet(tmp_path / "visits.parquet")
    dataset = load(str(tmp_path / "visits.parquet"), target="came")
    for new in (days.head(2), days.head(2).astype({"when": "str"})):
        features, _ = Schema.of(dataset).apply(new)
        assert features["when"].tolist() == dataset.X["when"].head(2).tolist()


def test_codes_of_missing_values_are_known_again(tmp_path: Path) -> None:
    rows = [f"{number if number % 5 else -999},{number % 2}" for number in range(40)]
    (tmp_path / "own.csv").write_text("\n".join(["a,b", *rows]))
    (tmp_path / "own.toml").write_text('target = "b"\nmissing = [-999, "n.a."]\n')
    schema = Schema.of(load(str(tmp_path / "own.csv")))
    assert schema.missing == ("-999", "n.a.")
    features, _ = schema.apply(pd.DataFrame({"a": [-999.0, 3.0]}))
    assert features["a"].isna().tolist() == [True, False]


def german(value: int) -> str:
    return f"{value:,}".replace(",", ".")


def amounts(folder: Path) -> Path:
    """Write a table with thousands, units and plain fractions, whose meaning a single new row does not show."""
    rows = [f"{german(300 + 53 * n * n)};{german(1000 * n)} €;{1 + n / 8:.3f} kg;{n % 7 / 4};{n}" for n in range(1, 41)]
    (folder / "own.csv").write_text("\n".join(["people;income;weight;share;y", *rows]), encoding="utf-8")
    return folder / "own.csv"


def test_numbers_mean_the_same_as_in_training(tmp_path: Path) -> None:
    dataset = load(str(amounts(tmp_path)), target="y")
    assert dataset.X.iloc[9].to_dict() == {"people": 5600, "income": 10_000, "weight": 2.25, "share": 0.75}
    schema = Schema.of(dataset)
    assert Schema.from_json(schema.to_json()) == schema
    same, notes = schema.apply(read_raw(tmp_path / "own.csv").frame)
    pd.testing.assert_frame_equal(same, dataset.X)
    assert notes == []
    for delimiter in ",;\t":  # by themselves these would be fractions, or thousands, as the file may be
        (tmp_path / "new.csv").write_text(
            "people;income;weight;share\n4.768;2.345 €;1.125;1.125".replace(";", delimiter)
        )
        row = schema.apply(read_raw(tmp_path / "new.csv").frame)[0].iloc[0].to_dict()
        assert row == {"people": 4768, "income": 2345, "weight": 1.125, "share": 1.125}


def test_numbers_in_another_form_than_in_training_are_read_by_themselves(tmp_path: Path) -> None:
    schema = Schema.of(load(str(amounts(tmp_path)), target="y"))
    new = pd.DataFrame({"people": [4768.0], "income": ["$12.50"], "weight": ["2,5 kg"], "share": ["0,5"]})
    with pytest.raises(DataError, match=r"column 'income' is in '\$', and was in '€' when the model was trained"):
        schema.apply(new)
    features, notes = schema.apply(new.assign(income="12.50"))
    assert features.iloc[0].to_dict() == {"people": 4768, "income": 12.5, "weight": 2.5, "share": 0.5}
    assert "read as numbers without 'kg': weight" in notes


def test_what_training_cannot_tell_is_said_and_settled_by_a_sidecar(tmp_path: Path) -> None:
    pd.DataFrame({"people": range(2000, 2040), "y": [0.5, 1.5] * 20}).to_parquet(tmp_path / "own.parquet")
    schema = Schema.of(load(str(tmp_path / "own.parquet"), target="y"))
    (tmp_path / "new.csv").write_text("people\n2.001\n2.002\n")
    features, notes = schema.apply(read_rows(tmp_path / "new.csv").frame)
    assert features["people"].tolist() == [2.001, 2.002]
    says = "dots read as decimal signs (if they separate thousands, say decimal = ',' in the sidecar): people"
    assert notes == [says]
    (tmp_path / "new.toml").write_text("decimal = ','")
    features, notes = schema.apply(read_rows(tmp_path / "new.csv").frame)
    assert features["people"].tolist() == [2001, 2002]
    assert notes == []


def test_a_model_of_an_earlier_version_is_read() -> None:
    values = Schema.of(flowers()).to_json()
    values["columns"] = tuple({**column, "form": ""} for column in values["columns"])
    assert [column.form for column in Schema.from_json(values).columns] == ["", "", ""]
