"""News: what a fit tells whoever watches it, such as the display of the command line."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from hopular.data.audit import Finding
from hopular.trials.trial import Trial

Stage = Literal["plan", "audit", "start", "done", "refit", "write"]


@dataclass(frozen=True)
class News:
    """Something happened: the fit of a method was started or is done, or the whole has come to another stage."""

    stage: Stage
    method: str = ""
    record: Trial | None = None  # of a fit that is done
    findings: tuple[Finding, ...] = ()  # of the audit
    methods: tuple[str, ...] = ()  # of the plan
    trials: int = 0  # of the plan: those of an interrupted fit that this one goes on with
