"""Random tables and random bytes: whatever comes, the answer is a result or one of our own errors."""

from __future__ import annotations

import tempfile
import warnings
from collections import Counter
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from markupsafe import escape

from hopular.data import DataError, load, make_splits
from hopular.data.audit import audit
from hopular.data.sidecar import read_sidecar
from hopular.evaluation.results import SCORE_COLUMNS, Results, UnitResult, describe
from hopular.evaluation.verdict import Standings
from hopular.methods import get_method, methods
from hopular.methods.saved import load_model
from hopular.report.page import render
from hopular.trials.fit import Fitter
from hopular.trials.problem import make_problem
from hopular.trials.trial import Job, Trial
from tests.report.synthetic import make_results

pytestmark = pytest.mark.slow
CHEAP = ["glm", "decision_tree", "naive_bayes", "majority", "mean", "lda"]
EVERY = [name for name in methods() if not methods()[name].missing_packages and name != "ensemble"]
KINDS = ("whole", "real", "huge", "endless", "text", "few", "constant", "empty", "date", "flag", "mixed")
NAMES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12)
NO_LIMITS = {"deadline": None, "suppress_health_check": list(HealthCheck), "database": None}
seen: Counter[str] = Counter()


@st.composite
def frames(draw, most=2000):
    """A table of columns of any kind, with any names, some values missing."""
    rows = draw(st.one_of(st.integers(0, 20), st.integers(20, 100), st.integers(20, most)))
    names = draw(st.lists(NAMES, min_size=1, max_size=6, unique=True))
    is_tame = draw(st.sampled_from([True, True, False]))  # its target can be learned
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    columns = {}
    for name in names:
        values = pd.Series(column(draw(st.sampled_from(KINDS)), rows, random), dtype=object)
        share = draw(st.sampled_from([0.0, 0.0, 0.1, 0.9, 1.0]))
        columns[name] = values.mask(random.random(rows) < share, None)
    if is_tame:
        columns["target"] = random.choice(["a", "b", "c"], rows) if draw(st.booleans()) else random.normal(size=rows)
    return pd.DataFrame(columns)


def column(kind, rows, random):
    words = ["", " a", "NA", "ß", "1e5", "a,b", 'say "x"', "\u202eright", "line\nbreak", "<b>"]
    return {
        "whole": lambda: random.integers(-5, 5, rows),
        "real": lambda: random.normal(size=rows),
        "huge": lambda: random.choice([1e308, -1e308, 5e-324, 0.0], rows),
        "endless": lambda: random.choice([1.0, np.inf], rows),
        "text": lambda: [str(number) + "x" for number in random.integers(0, 10**9, rows)],
        "few": lambda: random.choice(words, rows),
        "constant": lambda: ["same"] * rows,
        "empty": lambda: [None] * rows,
        "date": lambda: [f"20{number:02}-01-{number % 28 + 1:02}" for number in random.integers(0, 99, rows)],
        "flag": lambda: random.choice([True, False], rows),
        "mixed": lambda: [random.choice([1, "1", 2.5, "two", True]) for _ in range(rows)],
    }[kind]()


@contextmanager
def own_folder():
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        patch.setenv("HOPULAR_CACHE", folder)
        yield Path(folder)


def through(frame, method, suffix, is_reported=False):
    """Write, load, split, fit and score; says how far it came."""
    with own_folder() as folder:
        path = folder / f"table{suffix}"
        if suffix == ".csv":
            frame.to_csv(path, index=False)
        else:
            frame.astype("string").to_parquet(path, index=False)
        try:
            dataset = load(str(path), target=str(frame.columns[-1]))
            split = make_splits(dataset)[0]
        except DataError:
            return "refused"
        if dataset.task not in get_method(method).tasks:
            return "loaded"
        params = {"max_epochs": 1} if get_method(method).has_curve else {}
        job = Job(Trial(0, 0, params, method=method), max_seconds=20)
        (outcome,) = Fitter().fit(make_problem(dataset, split), [job], lambda: None, lambda *_: False)
    if "no usable feature" in outcome.message:  # the training rows have nothing to learn from, as the method says
        return "refused by the method"
    if outcome.state == "failed":
        seen[f"{method}: {outcome.message[:100]}"] += 1
        return "failed"
    assert np.isfinite(outcome.predictions).all()
    if is_reported:
        report(dataset, split, method, outcome)
        return "fitted and reported"
    return "fitted"


def report(dataset, split, method, outcome):
    """The page of a benchmark of this table alone: its names are text, and it is whole."""
    common = {"dataset": dataset.name, "method": method, "split": split.id, "seed": 0, "seconds": 1.0, "memory": 1e6}
    rows = [{**common, "metric": name, "value": value} for name, value in outcome.metrics.items()]
    results = Results(
        id="fuzz",
        created="2026-01-01T12:00:00+00:00",
        scores=pd.DataFrame(rows).reindex(columns=list(SCORE_COLUMNS)),
        datasets=(describe(dataset, audit(dataset, [split])),),
        units=(UnitResult(dataset.name, split.id, method, "complete", valid_score=outcome.score),),
    )
    check_page(render(Standings(results)))


def check_page(page):
    assert page.count("<script") == page.count("</script>") == 1  # the page's own
    assert page.rstrip().endswith("</html>")


def fuzz(cases, names):
    ends: Counter[str] = Counter()

    @settings(max_examples=cases, **NO_LIMITS)
    @given(frames(), st.sampled_from(names), st.sampled_from([".csv", ".parquet"]))
    def run(frame, method, suffix):
        ends[through(frame, method, suffix, is_reported=ends["fitted"] > 4 * ends["fitted and reported"])] += 1

    seen.clear()
    run()
    return ends


def test_random_tables(said):
    ends = fuzz(70, CHEAP)
    said(f"{ends.total()} random tables through load, split, cheap methods and report: {dict(ends)} {dict(seen)}")
    assert ends["fitted and reported"]
    assert not seen


@pytest.mark.soak
def test_many_random_tables(said):
    ends = fuzz(1200, EVERY)
    said(
        f"{ends.total()} random tables through load, split, {len(EVERY)} methods and report: {dict(ends)} {dict(seen)}"
    )
    assert not seen


def refusal(content, suffix):
    """Read bytes as a file of some kind; the message of the error, which must be ours, and the folder it was in."""
    with own_folder() as folder:
        path = folder / f"file{suffix}"
        path.write_bytes(content)
        try:
            if suffix == ".toml":
                read_sidecar(path)
            elif suffix == ".model":
                (folder / "model-class.json").write_bytes(content)
                load_model(folder)
            else:
                load(str(path), target="y")
        except ValueError as error:  # DataError among them
            return str(error), str(folder)
    return "", ""


BYTES = st.one_of(
    st.binary(max_size=300),
    st.text(max_size=200).map(str.encode),
    st.binary(max_size=100).map(lambda rest: b"PAR1" + rest + b"PAR1"),
    st.binary(max_size=100).map(lambda rest: b"x,y\n1,2\n" + rest),
    st.sampled_from([b'{"format": 1, "class": "os:system"}', b'{"format": 1}', b"[]", b"target = 1", b"PK\x03\x04"]),
)
SUFFIXES = [".csv", ".parquet", ".toml", ".model", ".csv.gz", ".zip", ".json", ".arff", ".xlsx", ".tsv"]


def fuzz_bytes(cases):
    @settings(max_examples=cases, **NO_LIMITS)
    @given(BYTES, st.sampled_from(SUFFIXES))
    def run(content, suffix):
        message, folder = refusal(content, suffix)
        assert folder in message or "dataset 'file'" in message

    run()


def test_random_bytes(said):
    fuzz_bytes(130)
    said(f"130 random files as {', '.join(SUFFIXES)}: none was a crash")


@pytest.mark.soak
def test_many_random_bytes(said):
    fuzz_bytes(1500)
    said(f"1,500 random files as {', '.join(SUFFIXES)}: none was a crash")


def fuzz_names(cases):
    settings(max_examples=cases, **NO_LIMITS)(given(st.lists(NAMES, min_size=3, max_size=3, unique=True))(named))()


def named(names):
    results = make_results(3, ("glm", "majority"), 1)
    renamed = dict(zip((facts.name for facts in results.datasets), names, strict=True))
    results = replace(
        results,
        datasets=tuple(replace(facts, name=renamed[facts.name]) for facts in results.datasets),
        units=tuple(replace(unit, dataset=renamed[unit.dataset]) for unit in results.units),
        scores=results.scores.replace({"dataset": renamed}),
    )
    page = render(Standings(results))
    check_page(page)
    assert all(str(escape(name)) in page for name in names if name.isprintable())


def test_reports_of_random_names(said):
    fuzz_names(5)
    said("5 reports on datasets of random names: the names are text in each")


@pytest.mark.soak
def test_many_reports_of_random_names(said):
    fuzz_names(25)
    said("25 reports on datasets of random names: the names are text in each")
