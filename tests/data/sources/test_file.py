"""A person's own file becomes a dataset: what its sidecar does, what is kept in the cache, and what is refused."""

from __future__ import annotations

import datetime
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from hopular.data.audit import audit
from hopular.data.dataset import DataError, Protocol
from hopular.data.sidecar import Sidecar
from hopular.data.sources import file, load
from hopular.data.splits import inner_folds, make_splits, order_of
from tests.data.loopback import Reply, serve

ROWS = 30
TABLE = pd.DataFrame(
    {
        "id": range(ROWS),
        "size": [i / 7 for i in range(ROWS)],
        "colour": ["red", "green", "blue"] * 10,
        "who": [f"p{i % 6}" for i in range(ROWS)],
        "day": [str(datetime.date(2020, 1, 1) + datetime.timedelta(i)) for i in range(ROWS)],
        "part": ["training", "dev", "Test"] * 10,
        "label": ["yes", "no"] * 15,
    }
)


@pytest.fixture
def wine(tmp_path: Path, cache: Path) -> Path:
    path = tmp_path / "wine.csv"
    TABLE.to_csv(path, index=False)
    return path


@pytest.fixture
def builds(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Note the files that were read rather than taken from the cache."""
    read: list[Path] = []
    real = file.read_raw
    monkeypatch.setattr(file, "read_raw", lambda path, sheet: (read.append(path), real(path, sheet))[1])
    return read


def message(*arguments, **options) -> str:
    with pytest.raises(DataError) as error:
        file.load(*arguments, **options)
    return str(error.value)


# ------------------------------------------------------------------------------------------------------------- loading


def test_a_file_becomes_a_dataset(wine):
    dataset = file.load(wine, target="label")
    assert (dataset.name, dataset.source, dataset.task) == ("wine", str(wine), "classification")
    assert dataset.kinds == {
        "size": "continuous",
        "colour": "categorical",
        "who": "categorical",
        "day": "date",
        "part": "categorical",
    }
    assert dataset.classes == ["no", "yes"]
    assert dataset.notes == (
        "left out, looks like an id (give its kind to keep it): id",
        "text read as dates (ISO8601): day",
    )
    assert dataset.protocol == Protocol()
    assert dataset.parts is None
    assert dataset.groups is None
    assert dataset.time is None


@pytest.mark.parametrize("suffix", ["csv", "csv.gz", "tsv", "parquet", "feather"])
def test_every_format_gives_the_same_dataset(tmp_path, cache, suffix):
    path = tmp_path / f"wine.{suffix}"
    if "sv" in suffix:
        TABLE.to_csv(path, index=False, sep="\t" if suffix == "tsv" else ",")
    else:
        getattr(TABLE, f"to_{suffix}")(path)
    dataset = file.load(path, "label")
    assert dataset.name == "wine"
    TABLE.to_csv(tmp_path / "plain.csv", index=False)
    assert dataset.fingerprint == file.load(tmp_path / "plain.csv", "label").fingerprint


def test_the_sidecar_beside_the_file_is_applied(wine):
    wine.with_suffix(".toml").write_text(
        'target = "size"\ndrop = ["id", "label"]\nsplit = "part"\ngroups = "who"\ntime = "day"\n'
        '[kinds]\ncolour = "drop"\nday = "date"\n'
    )
    dataset = file.load(str(wine))
    assert dataset.task == "regression"
    assert list(dataset.X) == ["day"], "time is a feature since its kind is given; split and groups are none"
    assert dataset.y.name == "size"
    assert list(dataset.parts["part"][:3]) == ["train", "valid", "test"]
    assert list(dataset.groups[:7]) == ["p0", "p1", "p2", "p3", "p4", "p5", "p0"]
    assert dataset.time.dtype == np.float64
    assert list(np.diff(dataset.time)) == [86_400.0] * (ROWS - 1)
    assert dataset.protocol == Protocol("fixed")
    assert len(make_splits(dataset)[0].test) == 10


def test_a_given_target_and_sidecar_go_first(wine):
    wine.with_suffix(".toml").write_text('target = "size"\nkinds.id = "continuous"')
    assert file.load(wine).y.name == "size"
    assert file.load(wine, "label").y.name == "label"
    assert "id" in file.load(wine, "label").X
    assert "id" not in file.load(wine, sidecar=Sidecar(target="label")).X
    assert file.load(wine, "size", Sidecar(target="label")).y.name == "size"


def test_a_sidecar_without_protocol_but_with_split_means_fixed(wine):
    assert file.load(wine, "label", Sidecar(split="part")).protocol == Protocol("fixed")
    holdout = Protocol("holdout")
    assert file.load(wine, "label", Sidecar(split="part", protocol=holdout)).protocol == holdout


def test_the_kind_of_a_column_that_is_then_the_target_is_no_matter(wine):
    assert file.load(wine, "label", Sidecar(kinds={"label": "continuous"})).task == "classification"


def test_time_may_be_a_number(wine):
    assert list(file.load(wine, "label", Sidecar(time="id")).time[:3]) == [0.0, 1.0, 2.0]


# ------------------------------------------------------------------------------------------------------ missing values


def test_codes_for_missing_values(tmp_path, cache):
    path = tmp_path / "codes.csv"
    path.write_text("a,b,c,y\n" + "-9,x,1.5,u\n3, n.a.,-9.0,v\n4,-9,2.5,n.a.\n" * 20)
    dataset = file.load(path, "y", Sidecar(missing=("n.a.", -9), kinds={"a": "continuous"}))
    assert dataset.X.isna().sum().to_dict() == {"a": 20, "b": 20, "c": 20}
    assert len(dataset) == 40
    assert dataset.classes == ["u", "v"]
    assert dataset.notes[:2] == (
        "100 values missing by the codes n.a., -9",
        "20 of 60 rows left out for lack of a target",
    )


@pytest.mark.parametrize("dtype", ["int64", "uint8", "float32", "Int64", "int64[pyarrow]", "str", "category", object])
def test_codes_are_found_whatever_the_type(tmp_path, cache, dtype):
    column = pd.Series([9, 1, 2, 3, 4, 5, 6, 7, 8, 10] * 3)
    values = column.astype("str").astype(dtype) if dtype in ("str", "category", object) else column.astype(dtype)
    path = tmp_path / "codes.parquet"
    pd.DataFrame({"a": values, "y": [1.5, 2.5] * 15}).to_parquet(path)
    assert file.load(path, "y", Sidecar(missing=(9,), kinds={"a": "continuous"})).X["a"].isna().sum() == 3


def test_rows_without_target_are_dropped_if_they_are_few(wine):
    table = TABLE.copy()
    table.loc[[3, 7], "label"] = None
    table.loc[3, ["part", "colour"]] = [None, "violet"]
    table.to_csv(wine, index=False)
    dataset = file.load(wine, "label", Sidecar(split="part", groups="who", time="day"))
    assert len(dataset) == len(dataset.parts) == len(dataset.groups) == len(dataset.time) == ROWS - 2
    assert list(dataset.X.index) == list(dataset.y.index) == list(range(ROWS - 2))
    assert "violet" not in dataset.X["colour"].cat.categories
    assert "id" not in dataset.X, "rows are numbered in the file, whichever are dropped"
    assert dataset.notes[0] == "2 of 30 rows left out for lack of a target"
    assert list(dataset.file_rows) == list(file.load(wine, "label", Sidecar()).file_rows)
    assert set(range(ROWS)) - set(dataset.file_rows) == set(table.index[table["label"].isna()])


def test_rows_without_target_are_refused_if_they_are_many_or_not_wanted(wine):
    table = TABLE.copy()
    table.loc[:14, "label"] = None
    table.to_csv(wine, index=False)
    many = (
        f"{wine}: target 'label' is missing in 15 of 30 rows: drop_missing_target = true in the sidecar leaves them out"
    )
    assert message(wine, "label") == many
    assert len(file.load(wine, "label", Sidecar(drop_missing_target=True))) == 15
    table.loc[1:, "label"] = "yes"
    table.to_csv(wine, index=False)
    assert "missing in 1 of 30 rows" in message(wine, "label", Sidecar(drop_missing_target=False))
    table["label"] = None
    table.to_csv(wine, index=False)
    gone = message(wine, "label", Sidecar(drop_missing_target=True))
    assert gone == f"{wine}: target 'label' is missing in 30 of 30 rows: choose another one"


# -------------------------------------------------------------------------------------------------------------- caching


def test_a_file_is_read_once(wine, builds, cache):
    first, again = file.load(wine, "label"), file.load(wine, "label")
    assert len(builds) == 1
    assert again.fingerprint == first.fingerprint
    assert again.notes == first.notes
    pd.testing.assert_frame_equal(again.X, first.X)
    pd.testing.assert_series_equal(again.y, first.y)
    assert list((cache / "datasets").iterdir())


def test_extras_survive_the_cache(wine, builds):
    sidecar = Sidecar(split="part", groups="who", time="day")
    first, again = file.load(wine, "label", sidecar), file.load(wine, "label", sidecar)
    assert len(builds) == 1
    assert list(again.parts["part"]) == list(first.parts["part"])
    assert list(again.groups) == list(first.groups)
    assert list(again.time) == list(first.time)


def test_what_changes_the_dataset_makes_a_new_entry(wine, builds):
    file.load(wine, "label")
    file.load(wine, "size")
    file.load(wine, "label", Sidecar(drop=("id",)))
    wine.with_suffix(".toml").write_text('kinds.id = "continuous"')
    file.load(wine, "label")
    TABLE.assign(size=1.5 * TABLE["size"]).to_csv(wine, index=False)
    file.load(wine, "label")
    assert len(builds) == 5


def test_a_renamed_file_is_not_read_again_but_named_anew(wine, builds):
    file.load(wine, "label")
    path = wine.rename(wine.with_name("beer.csv"))
    dataset = file.load(path, "label")
    assert len(builds) == 1
    assert (dataset.name, dataset.source) == ("beer", str(path))


def test_the_same_bytes_under_another_suffix_are_read_anew(tmp_path, cache, builds):
    for name in ("a.csv", "a.txt"):
        (tmp_path / name).write_text(TABLE.to_csv(index=False))
        file.load(tmp_path / name, "label")
    assert len(builds) == 2


# ------------------------------------------------------------------------------------------------------------ addresses


def test_an_address_is_downloaded_once(cache):
    with serve() as server:
        url = server.answer("/some%20where/wine%201.csv?v=2", Reply(TABLE.to_csv(index=False).encode()))
        for _ in range(2):
            dataset = file.load(url, "label")
        assert len(server.requests) == 1
    assert (dataset.name, dataset.source) == ("wine 1", url)
    (kept,) = (cache / "downloads").glob("*.csv")
    assert kept.name.endswith("-wine 1.csv")


def test_passwords_in_an_address_are_not_repeated(cache):
    with serve() as server:
        url = server.answer("/wine.csv", Reply(TABLE.to_csv(index=False).encode()))
        dataset = file.load(url.replace("://", "://me:secret@"), "label")
    assert dataset.source == url


def test_an_address_must_name_a_data_file(cache):
    assert message("https://example.org/download?id=3", "label") == (
        "https://example.org/download?id=3 does not end in the name of a data file: it must have one of the suffixes "
        + ", ".join(file.SUFFIXES)
        + ", perhaps compressed"
    )


# ------------------------------------------------------------------------------------------------------------- folders


def test_every_data_file_of_a_folder_is_found_in_order(tmp_path):
    for name in ("wine.csv", "iris.tsv", "Beer.csv", "wine.toml"):
        (tmp_path / name).write_text("")
    (tmp_path / ".hidden.csv").write_text("")
    (tmp_path / "~$open.xlsx").write_text("")
    (tmp_path / "README.md").write_text("")
    (tmp_path / "inner.csv").mkdir()
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "deep.csv").write_text("")
    assert [path.name for path in file.files_in(tmp_path)] == ["Beer.csv", "iris.tsv", "wine.csv"]


@pytest.mark.parametrize("hold", [[], ["README.md", "wine.toml", ".wine.csv"]])
def test_a_folder_without_data_says_what_counts(tmp_path, hold):
    for name in hold:
        (tmp_path / name).write_text("")
    with pytest.raises(DataError) as error:
        file.files_in(tmp_path)
    assert str(error.value).startswith(f"{tmp_path} holds no data file: one has a suffix of .csv, .tsv, ")


def test_an_absent_folder_is_refused(tmp_path):
    with pytest.raises(DataError, match=r"^there is no folder .*nowhere$"):
        file.files_in(tmp_path / "nowhere")


# -------------------------------------------------------------------------------------------------------------- errors

COLUMNS = "id, size, colour, who, day, part, label"


def test_without_a_target_the_columns_are_listed(wine):
    assert message(wine) == (
        f'{wine}: which column is to be predicted? Name it with target (--target), or write a file with target = "..." '
        f"beside it, with the same name and the suffix .toml. It has the columns {COLUMNS}"
    )


@pytest.mark.parametrize(
    ("target", "sidecar", "expected"),
    [
        (
            "lable",
            Sidecar(),
            f"target names a column 'lable' that is not there. Did you mean 'label'? It has {COLUMNS}",
        ),
        ("label", Sidecar(drop=("siz",)), "drop names a column 'siz' that is not there. Did you mean 'size'?"),
        ("label", Sidecar(groups="whom"), "groups names a column 'whom' that is not there. Did you mean 'who'?"),
        ("label", Sidecar(time="days"), "time names a column 'days' that is not there. Did you mean 'day'?"),
        ("label", Sidecar(split="parts"), "split names a column 'parts' that is not there. Did you mean 'part'?"),
        ("label", Sidecar(kinds={"sise": "id"}), "kinds names a column 'sise' that is not there. Did you mean 'size'?"),
        ("label", Sidecar(drop=("label",)), "column 'label' cannot be the target and in drop at once"),
        ("label", Sidecar(time="label"), "column 'label' cannot be the target and in time at once"),
        (
            "label",
            Sidecar(task="regression"),
            "column 'label' cannot be continuous: 'yes' in data row 1 is not a number",
        ),
        (
            "label",
            Sidecar(time="colour"),
            "column 'colour' cannot be date: 'red' in data row 1 is not a date, nor is 'green', 'blue': time needs a "
            "column of dates or numbers",
        ),
        (
            "label",
            Sidecar(split="colour"),
            "split column 'colour' says 'red' in data row 1: it must be one of train, training, learn, valid, "
            "validation, val, dev, test, testing, holdout, unused",
        ),
        (
            "label",
            Sidecar(kinds={"colour": "continuous"}),
            "column 'colour' cannot be continuous: 'red' in data row 1 is not a number",
        ),
    ],
    ids=str,
)
def test_what_does_not_fit_the_table_is_refused(wine, target, sidecar, expected):
    assert message(wine, target, sidecar).startswith(f"{wine}: {expected}")


def test_the_row_of_an_error_is_that_of_the_file(wine):
    table = TABLE.assign(label=["1.5", None, "2.5", "big"] + ["3.5"] * 26)
    table.to_csv(wine, index=False)
    assert "'big' in data row 4" in message(wine, "label", Sidecar(task="regression"))
    table.assign(label=["1.5", None] + ["3.5"] * 28, part=["train"] * 3 + [None] * 27).to_csv(wine, index=False)
    assert "says nan in data row 4" in message(wine, "label", Sidecar(split="part"))


def test_one_class_is_refused(wine):
    TABLE.assign(label="yes").to_csv(wine, index=False)
    assert message(wine, "label") == "dataset 'wine': target 'label' has one value only, 'yes': nothing to predict"


def test_a_table_without_features_is_refused(wine):
    TABLE[["id", "label"]].to_csv(wine, index=False)
    assert message(wine, "label").startswith("dataset 'wine' has no feature beside its target 'label'")


def test_groups_and_time_without_values_are_refused(wine):
    TABLE.assign(who=None, day=None).to_csv(wine, index=False)
    assert message(wine, "label", Sidecar(groups="who")) == f"{wine}: column 'who' has no value in any row"
    expected = f"{wine}: column 'day' has no value in any row: time needs a column of dates or numbers"
    assert message(wine, "label", Sidecar(time="day")) == expected


def test_a_table_without_rows_is_refused(wine):
    TABLE[:0].to_csv(wine, index=False)
    assert message(wine, "label") == f"{wine} has column names but no rows"


def test_an_absent_file_gets_the_nearest(wine, tmp_path):
    absent = tmp_path / "wind.csv"
    assert message(absent, "label") == f"there is no file {absent}. Did you mean 'wine.csv'?"
    nowhere = tmp_path / "no" / "where.csv"
    assert message(nowhere, "label") == f"there is no file {nowhere}."
    assert message(tmp_path, "label") == f"{tmp_path} is a folder: name one of the data files in it"


def test_an_unreadable_file_is_refused(wine, monkeypatch):
    def refuse(*arguments):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)
    assert message(wine, "label") == f"{wine} cannot be read: Permission denied"


def test_a_wrong_sidecar_is_refused_even_if_the_rows_are_cached(wine):
    file.load(wine, "label")
    wine.with_suffix(".toml").write_text("nonsense = 1")
    assert "unknown key 'nonsense'" in message(wine, "label")


def test_errors_are_not_cached(wine, builds):
    for _ in range(2):
        message(wine, "lable")
    assert len(builds) == 2


# ---------------------------------------------------------------------------------------------------------------- time


@pytest.fixture
def daily(tmp_path: Path, cache: Path) -> Path:
    """Sales of each day, which go up and down slowly."""
    days = [datetime.date(2020, 1, 1) + datetime.timedelta(i) for i in range(120)]
    level = np.cumsum(np.random.default_rng(0).normal(size=120))
    path = tmp_path / "daily.csv"
    pd.DataFrame({"day": days, "level": level, "sales": level + 0.1 * np.sin(np.arange(120))}).to_csv(path, index=False)
    return path


def test_time_stays_a_feature_and_the_audit_has_nothing_against_it(daily):
    findings = {finding.check: finding for finding in audit(file.load(daily, "sales"))}
    assert findings["sorted-rows"].severity == "serious"
    assert findings["sorted-rows"].sentence.startswith("In the order of 'day', the target of a row is much like that")
    assert findings["sorted-rows"].sentence.endswith("To test on later rows: --time day")
    dataset = file.load(daily, "sales", Sidecar(time="day"))
    assert list(dataset.X) == ["day", "level"]
    assert list(dataset.X["day"]) == list(pd.to_datetime(dataset.time, unit="s"))
    findings = audit(dataset)
    assert "sorted-rows" not in {finding.check for finding in findings}
    assert not any("day" in finding.columns for finding in findings)
    train, test = (dataset.time[rows] for rows in (make_splits(dataset)[-1].train, make_splits(dataset)[-1].test))
    assert train.max() < test.min()


def test_random_parts_of_rows_in_time_are_still_complained_about(daily):
    dataset = file.load(daily, "sales", Sidecar(time="day", protocol=Protocol(order="plain")))
    assert "sorted-rows" in {finding.check for finding in audit(dataset)}


def test_time_is_left_out_if_asked(daily):
    assert list(file.load(daily, "sales", Sidecar(time="day", kinds={"day": "drop"})).X) == ["level"]


def test_time_and_group_as_arguments_divide_the_rows(daily):
    dataset = file.load(daily, "sales", time="day")
    assert list(dataset.X) == ["day", "level"]
    assert order_of(dataset, dataset.protocol) == "time"
    assert file.load(daily, "sales", Sidecar(protocol=Protocol(folds=3, order="plain")), time="day").protocol.folds == 3
    table = pd.read_csv(daily).assign(patient=[f"p{i // 4}" for i in range(120)])
    table.to_csv(daily, index=False)
    daily.with_suffix(".toml").write_text('time = "day"')
    grouped = file.load(daily, "sales", group="patient")
    assert list(grouped.X) == ["day", "level"]
    assert order_of(grouped, grouped.protocol) == "grouped"
    for split in make_splits(grouped):
        assert not set(grouped.groups[split.train]) & set(grouped.groups[split.test])
    assert list(load(str(daily), "sales", group="patient").groups) == list(grouped.groups)


def test_bad_time_and_group_are_refused_by_name(daily):
    assert "time names a column 'days' that is not there. Did you mean 'day'?" in message(daily, "sales", time="days")
    assert "groups names a column 'dai' that is not there. Did you mean 'day'?" in message(daily, "sales", group="dai")
    both = message(daily, "sales", time="day", group="level")
    assert "time 'day' and group 'level' were both given, and rows are divided by one of them: leave out time" in both
    with pytest.raises(DataError, match="time='day' can be given for your own file only; 'iris' has its own splits"):
        load("iris", time="day")


# ---------------------------------------------------------------------------------------------------------- odd tables


def odd(name: str, n: int = 300) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    numbers, y = rng.normal(size=(2, n)), np.array(["no", "yes"])[np.arange(n) % 2]
    table = pd.DataFrame({"a": numbers[0], "b": numbers[1], "y": y})
    if name == "95 % missing":
        table[["a", "b"]] = table[["a", "b"]].mask(rng.random((n, 2)) < 0.95)
    elif name == "200 columns":
        table = pd.concat([table, pd.DataFrame(rng.normal(size=(n, 198))).add_prefix("x")], axis=1)
    elif name == "100 classes":
        table["y"] = [f"c{i % 100}" for i in range(n)]
    elif name == "a class of one row":
        table.loc[7, "y"] = "perhaps"
    elif name == "a column without any value":
        table["b"] = None
    elif name == "no value in any column":
        table["a"] = table["b"] = None
    elif name == "constant target":
        table["y"] = "no"
    else:
        assert name == "30 rows"
        table = table.head(30)
    return table


@pytest.mark.parametrize(
    ("name", "features", "classes"),
    [
        ("95 % missing", 2, 2),
        ("200 columns", 200, 2),
        ("100 classes", 2, 100),
        ("a class of one row", 2, 3),
        ("a column without any value", 1, 2),
        ("30 rows", 2, 2),
    ],
)
def test_an_odd_table_is_loaded_divided_and_audited(tmp_path, cache, name, features, classes):
    odd(name).to_csv(tmp_path / "odd.csv", index=False)
    dataset = file.load(tmp_path / "odd.csv", "y")
    assert (dataset.X.shape[1], len(dataset.classes)) == (features, classes)
    splits = make_splits(dataset)
    for train, _ in inner_folds(dataset, np.arange(len(dataset))):
        assert dataset.y.iloc[train].nunique() == classes
    checks = {finding.check for finding in audit(dataset, splits[:1])}
    assert "no-splits" not in checks
    assert ("mostly-missing-columns" in checks) == (name == "95 % missing")
    assert ("small-classes" in checks) == (name in ("100 classes", "a class of one row"))


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("constant target", "dataset 'odd': target 'y' has one value only, 'no': nothing to predict"),
        ("no value in any column", "dataset 'odd' has no feature beside its target 'y': keep at least one column"),
    ],
)
def test_a_table_that_nobody_can_learn_from_is_refused_by_name(tmp_path, cache, name, expected):
    odd(name).to_csv(tmp_path / "odd.csv", index=False)
    assert message(tmp_path / "odd.csv", "y") == expected
