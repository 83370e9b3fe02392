"""Hopular, whose training goes wrong in company, in the way that HOPULAR_TEST_ACT names."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from typing import Any

from hopular import HopularRegressor
from hopular.methods.method import Method, Run


class Twin(HopularRegressor):
    act = ""

    def _build(self, seeds: Sequence[int], owners: Sequence[Any]) -> Any:
        if self.act and len(owners) > 1:
            if self.act == "exit":
                os._exit(7)
            if self.act == "hang":
                time.sleep(3600)
            raise RuntimeError("too many")
        return super()._build(seeds, owners)


def make(task: str, params: Mapping[str, Any], run: Run) -> Any:
    fixed = {"n_members": 1, "max_epochs": 5, "device": run.device}
    twin = Twin(**params, **fixed, random_state=run.seed, max_seconds=run.max_seconds)
    twin.act = os.environ.get("HOPULAR_TEST_ACT", "")
    twin._check_parameters()
    return twin


METHOD = Method("twins", "Twins", "deep", make, tasks=("regression",), has_curve=True, shares=("beta",))
