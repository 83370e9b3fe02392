"""Sidecars: every key, and what a wrong one is answered with."""

from __future__ import annotations

from pathlib import Path

import pytest

from hopular.data.dataset import DataError, Protocol
from hopular.data.sidecar import Sidecar, read_sidecar, sidecar_of

FULL = """
target = "y"
task = "regression"
drop = ["a", "b"]
split = "part"
groups = "g"
time = "t"
missing = ["n.a.", -999, 0.5]
decimal = ","
sheet = "2024"
drop_missing_target = true

[kinds]
c = "categorical"
"d e" = "date"

[protocol]
scheme = "holdout"
folds = 3
test_share = 0.3
valid_share = 0.1
seed = 7
order = "grouped"
"""


@pytest.fixture
def write(tmp_path: Path):
    def write(text: str | bytes) -> Path:
        path = tmp_path / "wine.toml"
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return path

    return write


def test_every_key_is_read(write):
    assert read_sidecar(write(FULL)) == Sidecar(
        target="y",
        task="regression",
        kinds={"c": "categorical", "d e": "date"},
        drop=("a", "b"),
        split="part",
        groups="g",
        time="t",
        missing=("n.a.", -999, 0.5),
        decimal=",",
        sheet="2024",
        drop_missing_target=True,
        protocol=Protocol("holdout", 3, 0.3, 0.1, 7, "grouped"),
    )


@pytest.mark.parametrize("text", ["", "# nothing\n", b"\xef\xbb\xbf", "\r\n"])
def test_an_empty_sidecar_says_nothing(write, text):
    assert read_sidecar(write(text)) == Sidecar()


def test_windows_files_are_read(write):
    assert read_sidecar(write(b'\xef\xbb\xbftarget = "\xc3\xa4"\r\ntask = "regression"\r\n')).target == "ä"


def test_the_example_of_the_module_is_valid(write):
    import hopular.data.sidecar as module

    text = "\n".join(line[4:] for line in (module.__doc__ or "").splitlines() if line.startswith("    "))
    sidecar = read_sidecar(write(text))
    assert (sidecar.target, sidecar.kinds, sidecar.protocol) == ("quality", {"year": "categorical"}, Protocol(folds=10))


def test_a_split_means_fixed_parts_unless_the_scheme_says_otherwise(write):
    assert read_sidecar(write('split = "s"')).protocol == Protocol("fixed")
    assert read_sidecar(write('split = "s"\nprotocol = { seed = 3 }')).protocol == Protocol("fixed", seed=3)
    assert read_sidecar(write('split = "s"\nprotocol.scheme = "kfold"')).protocol == Protocol("kfold")


@pytest.mark.parametrize("name", ["wine.csv", "wine.csv.gz", "wine.parquet"])
def test_a_sidecar_is_beside_its_file(name):
    assert sidecar_of(Path("some") / name) == Path("some/wine.toml")


KEYS = "target, task, kinds, drop, split, groups, time, missing, decimal, sheet, drop_missing_target, protocol"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('traget = "y"', f"unknown key 'traget': known are {KEYS}. Did you mean 'target'?"),
        ("zzz = 1", f"unknown key 'zzz': known are {KEYS}."),
        (
            "[protocol]\nfold = 3",
            "unknown key 'protocol.fold': known are scheme, folds, test_share, valid_share, seed, order. "
            "Did you mean 'folds'?",
        ),
        ("target = 3", "target must be text in quotes, not 3"),
        ('target = ""', "target must be text in quotes, not ''"),
        ('decimal = ";"', "unknown value ';' of decimal: it is one of ., ,."),
        ("sheet = 2", "sheet must be text in quotes, not 2"),
        ('time = ["t"]', "time must be text in quotes, not ['t']"),
        (
            'task = "clasification"',
            "unknown value 'clasification' of task: it is one of classification, regression. "
            "Did you mean 'classification'?",
        ),
        ('kinds = ["a"]', "kinds must be a table such as { age = \"continuous\" }, not ['a']"),
        (
            'kinds.a = "categoric"',
            "unknown value 'categoric' of kinds.a: it is one of continuous, categorical, date, text, id, drop. "
            "Did you mean 'categorical'?",
        ),
        ('drop = "a"', "drop must be a list of column names, not 'a'"),
        ("drop = [1]", "drop must be a list of column names, not [1]"),
        ("missing = -9", "missing must be a list of text and numbers, not -9"),
        ("missing = [true]", "missing must be a list of text and numbers, not [True]"),
        ("drop_missing_target = 1", "drop_missing_target must be true or false, not 1"),
        ('protocol = "kfold"', "protocol must be a table [protocol], not 'kfold'"),
        (
            'protocol.scheme = "k-fold"',
            "protocol: scheme 'k-fold' is unknown: use one of fixed, kfold, holdout. Did you mean 'kfold'?",
        ),
        (
            'protocol.order = "groups"',
            "protocol: order 'groups' is unknown: use one of stratified, plain, grouped, time. Did you mean 'grouped'?",
        ),
        ("protocol.folds = 1", "protocol: folds is 1: use a whole number from 2 on"),
        ("protocol.test_share = 1.5", "protocol: test_share is 1.5: use a number between 0 and 1, such as 0.2"),
        ('protocol.scheme = "fixed"', "protocol.scheme 'fixed' needs split, the column with the parts"),
        ('protocol.order = "time"', "protocol.order 'time' needs time, a column name"),
        ('protocol.order = "grouped"', "protocol.order 'grouped' needs groups, a column name"),
        ('target = "y"\ndrop = ["y"]', "column 'y' is both target and in drop: take it out of drop"),
        ('split = "s"\ndrop = ["s"]', "column 's' is both split and in drop: take it out of drop"),
        ('target = "y"\nkinds.y = "date"', "kinds is for features, not for the target 'y': use task"),
    ],
)
def test_what_is_wrong_is_named(write, text, message):
    path = write(text)
    with pytest.raises(DataError) as error:
        read_sidecar(path)
    assert str(error.value) == f"sidecar {path}: {message}"


def test_bad_toml_is_refused_with_its_line(write):
    path = write('task = "regression"\ntarget = y\n')
    with pytest.raises(DataError, match=rf"^sidecar {path} is not valid TOML: .*line 2"):
        read_sidecar(path)


def test_other_encodings_are_refused(write):
    with pytest.raises(DataError, match=r"wine.toml is not UTF-8: save it as such$"):
        read_sidecar(write('target = "ä"'.encode("latin-1")))


def test_an_absent_sidecar_is_refused(tmp_path):
    with pytest.raises(DataError, match=r"wine.toml cannot be read: No such file or directory$"):
        read_sidecar(tmp_path / "wine.toml")
