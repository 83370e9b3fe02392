"""Sidecar: what a person says of their own data file, in a TOML file beside it: `wine.toml` for `wine.csv`.

    target = "quality"
    task = "regression"                  # otherwise guessed from the target
    kinds = { year = "categorical" }     # one of schema.KINDS; otherwise guessed
    drop = ["bottle"]                    # columns to leave out
    split = "part"                       # a column that says train, valid, test or unused of each row
    groups = "vineyard"                  # a column: rows of one group stay together
    time = "bottled"                     # a column: models of earlier rows are tested on later ones
    missing = ["n.a.", -999]             # further codes for missing values, in all columns
    decimal = ","                        # or ".", where it cannot be told; the other one separates thousands
    sheet = "2024"                       # of a workbook; otherwise the first one
    drop_missing_target = true           # false: refuse rows without a target; otherwise drop them if below half

    [protocol]                           # how rows are divided, see Protocol
    scheme = "kfold"                     # otherwise "fixed" if there is a split
    folds = 10

Every key is optional, and a key, type or name that is not known is an error.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NoReturn

from hopular.data.dataset import DataError, Protocol, Task
from hopular.data.notation import SIGNS
from hopular.data.read import stem
from hopular.data.schema import KINDS, TASKS
from hopular.util import did_you_mean


@dataclass(frozen=True)
class Sidecar:
    """Facts on a data file beyond its rows; None where it is left to the loader."""

    target: str | None = None
    task: Task | None = None
    kinds: Mapping[str, str] = field(default_factory=dict)
    drop: tuple[str, ...] = ()
    split: str | None = None
    groups: str | None = None
    time: str | None = None
    missing: tuple[str | int | float, ...] = ()
    decimal: str | None = None
    sheet: str | None = None
    drop_missing_target: bool | None = None
    protocol: Protocol | None = None


def sidecar_of(data_path: Path) -> Path:
    """Return where the sidecar of a data file is, if it has one."""
    return data_path.with_name(f"{stem(data_path)}.toml")


def read_sidecar(path: Path) -> Sidecar:
    """Read the sidecar in a TOML file; whatever is wrong with it is a DataError that names the file and the key."""
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise DataError(f"sidecar {path} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise DataError(f"sidecar {path} is not UTF-8: save it as such") from error
    except tomllib.TOMLDecodeError as error:
        raise DataError(f"sidecar {path} is not valid TOML: {error}") from error
    values = {key: _value(path, key, value) for key, value in document.items()}
    if "split" in values and "scheme" not in document.get("protocol", {}):
        values["protocol"] = replace(values.get("protocol", Protocol()), scheme="fixed")
    sidecar = Sidecar(**values)
    _check_whole(path, sidecar)
    return sidecar


def _value(path: Path, key: str, value: Any) -> Any:
    if key in ("target", "task", "split", "groups", "time", "decimal", "sheet"):
        if not isinstance(value, str) or not value:
            _refuse_type(path, key, value, "text in quotes")
        valid = {"task": TASKS, "decimal": SIGNS}.get(key)
        return _chosen(path, key, value, valid) if valid else value
    if key == "kinds":
        if not isinstance(value, dict):
            _refuse_type(path, key, value, 'a table such as { age = "continuous" }')
        return {column: _chosen(path, f"kinds.{column}", kind, KINDS) for column, kind in value.items()}
    if key in ("drop", "missing"):
        types = str if key == "drop" else (str, int, float)
        if not isinstance(value, list) or not all(_is(v, types) for v in value):
            _refuse_type(path, key, value, "a list of " + ("column names" if key == "drop" else "text and numbers"))
        return tuple(value)
    if key == "drop_missing_target":
        if not isinstance(value, bool):
            _refuse_type(path, key, value, "true or false")
        return value
    if key == "protocol":
        if not isinstance(value, dict):
            _refuse_type(path, key, value, "a table [protocol]")
        return _protocol(path, value)
    _refuse_key(path, key, Sidecar)


def _protocol(path: Path, values: dict[str, Any]) -> Protocol:
    for key in values:
        if key not in Protocol.__dataclass_fields__:
            _refuse_key(path, f"protocol.{key}", Protocol)
    try:
        return Protocol(**values)
    except DataError as error:
        raise DataError(f"sidecar {path}: {error}") from error


def _check_whole(path: Path, sidecar: Sidecar) -> None:
    """Refuse keys that contradict one another."""
    protocol, needs = sidecar.protocol or Protocol(), {"grouped": sidecar.groups, "time": sidecar.time}
    if protocol.scheme == "fixed" and sidecar.split is None:
        raise DataError(f"sidecar {path}: protocol.scheme 'fixed' needs split, the column with the parts")
    if protocol.order in needs and needs[protocol.order] is None:
        key = "groups" if protocol.order == "grouped" else "time"
        raise DataError(f"sidecar {path}: protocol.order {protocol.order!r} needs {key}, a column name")
    uses = {"target": sidecar.target, "split": sidecar.split, "groups": sidecar.groups, "time": sidecar.time}
    for key, column in uses.items():
        if column is not None and column in sidecar.drop:
            raise DataError(f"sidecar {path}: column {column!r} is both {key} and in drop: take it out of drop")
    if sidecar.target is not None and sidecar.target in sidecar.kinds:
        raise DataError(f"sidecar {path}: kinds is for features, not for the target {sidecar.target!r}: use task")


def _is(value: Any, types: Any) -> bool:
    """Tell whether a value has one of the types, where true and false are no numbers."""
    return isinstance(value, types) and not isinstance(value, bool)


def _chosen(path: Path, key: str, value: Any, valid: tuple[str, ...]) -> Any:
    if value not in valid:
        known = f"it is one of {', '.join(valid)}.{did_you_mean(str(value), valid)}"
        raise DataError(f"sidecar {path}: unknown value {value!r} of {key}: {known}")
    return value


def _refuse_type(path: Path, key: str, value: Any, wanted: str) -> NoReturn:
    raise DataError(f"sidecar {path}: {key} must be {wanted}, not {value!r}")


def _refuse_key(path: Path, key: str, where: Any) -> NoReturn:
    valid = list(where.__dataclass_fields__)
    known = f"known are {', '.join(valid)}.{did_you_mean(key.rpartition('.')[2], valid)}"
    raise DataError(f"sidecar {path}: unknown key {key!r}: {known}")
