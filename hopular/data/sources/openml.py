"""Any dataset of OpenML by its id, through scikit-learn."""

from __future__ import annotations

import re
from typing import Any
from urllib.error import HTTPError, URLError

import pandas as pd

from hopular import settings
from hopular.data.cache import cache_key, cached
from hopular.data.dataset import DataError, Dataset
from hopular.data.download import UnreachableError
from hopular.data.schema import learn_features, learn_target
from hopular.formatting import plural

_VERSION = "3"  # of what this module makes of an answer
RETRIES, DELAY = 3, 1.0  # of a download, and the seconds between them
PATTERN = re.compile(r"openml:(\d+)", re.IGNORECASE)


def load(name: str) -> Dataset:
    """Load the dataset `openml:ID`, with its default target; download it once."""
    match = PATTERN.fullmatch(name.strip())
    if match is None:
        raise DataError(f"a dataset of OpenML is called openml:ID with a number, such as openml:31, not {name!r}")
    number = int(match[1])
    return cached(cache_key("openml", _VERSION, str(number)), lambda: _build(number))


def _build(number: int) -> Dataset:
    content = _fetch(number)
    if content.target is None or isinstance(content.target, pd.DataFrame):
        found = "none" if content.target is None else f"{content.target.shape[1]}"
        raise DataError(f"openml:{number} has {found} default targets: save it as a file and name the target yourself")
    learned = learn_features(content.data)
    X, notes = learned.X, list(learned.notes)
    known = content.target.notna()
    y, task, target_notes = learn_target(content.target[known].reset_index(drop=True))
    if not known.all():
        X = X[known].reset_index(drop=True)
        notes.append(f"{plural(int((~known).sum()), 'row')} without a target left out")
    details = content.details
    name = f"openml:{number}"
    source = f"OpenML {number}, {details['name']} version {details['version']}"
    return Dataset(name, X, y, task, source, notes=(*notes, *target_notes), forms=learned.forms)


def _fetch(number: int) -> Any:
    """Return scikit-learn's answer; an error says what to do."""
    from sklearn.datasets import fetch_openml  # takes a second, and most who import this module want a name checked

    folder = settings.cache_folder() / "openml"
    try:
        # The parser "pandas" is faster but fails on a nominal attribute of TRUE and FALSE.
        return fetch_openml(
            data_id=number, as_frame=True, parser="liac-arff", data_home=folder, n_retries=RETRIES, delay=DELAY
        )
    except HTTPError as error:
        kind = UnreachableError if error.code == 429 or error.code >= 500 else DataError
        raise kind(
            f"OpenML answered {error.code} for dataset {number}: look it up at https://www.openml.org/d/{number}"
        ) from error
    except (URLError, TimeoutError, ConnectionError) as error:
        raise UnreachableError(
            f"OpenML cannot be reached for dataset {number} ({error}). Connect to the network and try again; once "
            f"downloaded it is read from {folder} without a network."
        ) from error
    except ValueError as error:
        raise DataError(f"openml:{number} cannot be used: {error}") from error
