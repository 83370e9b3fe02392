"""`hopular datasets`: list datasets, or describe one and say what is wrong with it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any, get_args

from cyclopts import Parameter

from hopular.cli.screen import Json, say, show_json, show_mark, show_table, waiting
from hopular.redaction import without_secrets
from hopular.util import InputError

if TYPE_CHECKING:
    from hopular.data import Dataset
    from hopular.data.audit import Finding

Name = Annotated[str | None, Parameter(help="A suite, a dataset, openml:ID, a file, a folder or an address.")]
Target = Annotated[str | None, Parameter(name=["--target", "-t"], help="Column to predict, in a file of your own.")]
_MARKS = {"serious": "fail", "warning": "warn", "note": "note"}
_FACTS = ("rows", "continuous", "categorical")


def datasets(name: Name = None, /, *, target: Target = None, json: Json = False) -> None:
    """List datasets, or describe and audit one.

    For example
      hopular datasets
      hopular datasets small
      hopular datasets my.csv --target price
    """
    from hopular.data import expand, suites

    if name is None:
        _show_suites(suites(), json)
        return
    names = expand(name)
    if len(names) == 1 and name not in suites():
        _show_one(names[0], target, json)
    elif target is not None:
        raise InputError(f"--target is for a file of your own: {name!r} is {len(names)} datasets that have theirs")
    elif json:
        show_json([_summary(found) for found in names])
    else:
        _show_list([_summary(found) for found in names])


def _show_suites(suites: dict[str, tuple[str, ...]], json: bool) -> None:
    if json:
        show_json(suites)
        return
    rows = [
        (suite, str(len(names)), ", ".join(names) if suite != "paper" else "small and medium")
        for suite, names in suites.items()
    ]
    show_table(("suite", "datasets", "their names"), rows, right=("datasets",))
    say("\nFor more on a suite or a dataset: hopular datasets NAME. openml:ID and files of your own work too.")


def _summary(name: str) -> dict[str, Any]:
    """Summarise what is known of a dataset without fetching it: the paper's sizes, or those of bundled data."""
    from hopular.data import load, registry
    from hopular.data.sources import bundled

    if name in bundled.names():
        return {"name": name, **_sizes(load(name)), "title": "comes with scikit-learn"}
    if registry.canonical(name) is None:
        return {"name": name}
    entry, is_repaired = registry.find(name)
    title = f"{entry.title}, repaired" if is_repaired else entry.title
    return {"name": name, "task": entry.task, **asdict(entry.paper), "title": title}


def _sizes(dataset: Dataset) -> dict[str, Any]:
    from hopular.data.dataset import ColumnKind

    kinds = list(dataset.kinds.values())
    counts = {kind: kinds.count(kind) for kind in get_args(ColumnKind)}
    return {"task": dataset.task, "rows": len(dataset), **counts}


def _show_list(summaries: Sequence[dict[str, Any]]) -> None:
    columns = ("name", "task", *_FACTS, "title")
    rows = [[_cell(summary.get(column)) for column in columns] for summary in summaries]
    show_table(columns, rows, right=_FACTS)


def _cell(value: Any) -> str:
    return "" if value is None else f"{value:,}" if isinstance(value, int) else str(value)


def _show_one(name: str, target: str | None, json: bool) -> None:
    from hopular.data import load
    from hopular.data.audit import audit

    with waiting(is_quiet=json) as tell:
        tell(f"reading {without_secrets(name)}")
        dataset = load(name, target=target)
        tell(f"auditing {dataset.name}")
        findings = audit(dataset)
    facts = _facts(dataset)
    if json:
        show_json({**facts, "findings": [asdict(finding) for finding in findings]})
        return
    _show_facts(facts)
    _show_findings(findings)


def _facts(dataset: Dataset) -> dict[str, Any]:
    counts = dataset.y.value_counts(normalize=True) if dataset.task == "classification" else None
    return {
        "name": dataset.name,
        **_sizes(dataset),
        "target": str(dataset.y.name),
        "classes": None if counts is None else {str(label): round(float(share), 4) for label, share in counts.items()},
        "missing": round(float(dataset.X.isna().to_numpy().mean()), 4),
        "source": dataset.source,
        "protocol": asdict(dataset.protocol),
        "fingerprint": dataset.fingerprint,
        "defects": dataset.defects,
        "notes": dataset.notes,
    }


def _show_facts(facts: dict[str, Any]) -> None:
    from hopular.data.audit.table import shortened
    from hopular.formatting import percent, plural

    protocol = facts["protocol"]
    lines = {
        "rows": f"{facts['rows']:,}",
        "features": f"{facts['continuous']:,} continuous, {facts['categorical']:,} categorical"
        + (f", {plural(facts['date'], 'date')}" if facts["date"] else ""),
        "target": f"{facts['target']} ({facts['task']})",
        "missing": f"{percent(facts['missing'])} of the values" if facts["missing"] else "nothing",
        "splits": {
            "fixed": "as published",
            "kfold": f"{protocol['folds']} folds",
            "holdout": f"one, {percent(protocol['test_share'])} for testing",
        }[protocol["scheme"]],
        "source": facts["source"],
        "fingerprint": facts["fingerprint"][:16],
    }
    if facts["classes"]:
        shares = [f"{label} {percent(share)}" for label, share in facts["classes"].items()]
        lines["classes"] = shortened(shares, limit=6)
    say(facts["name"], style="bold")
    for label, value in lines.items():
        show_mark("fact", label, value)
    for kind in ("defects", "notes"):
        for text in facts[kind]:
            show_mark("fact", kind.removesuffix("s"), text)


def _show_findings(findings: Sequence[Finding]) -> None:
    say("\nAudit", style="bold")
    for finding in findings:
        show_mark(_MARKS[finding.severity], finding.severity, finding.sentence)
    if not findings:
        show_mark("ok", "clean", "nothing wrong or odd was found")
