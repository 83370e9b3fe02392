"""A method that writes down everything it gets, and looks for marks in the memory of its process."""

from __future__ import annotations

import os
import pickle
from collections.abc import Mapping
from typing import Any

import numpy as np

from hopular.methods.method import Method, Run


def count_in_memory(prefix: bytes, inverted: bytes) -> int:
    """How often `prefix` and then the inverse of `inverted` occur; the whole mark is never put together here."""
    found = 0
    with open("/proc/self/maps") as maps, open("/proc/self/mem", "rb", 0) as memory:
        for line in maps:
            span, rights, *_ = line.split()
            if not rights.startswith("rw") or "[v" in line:
                continue
            low, high = (int(end, 16) for end in span.split("-"))
            memory.seek(low)
            try:
                content = memory.read(high - low)
            except OSError:
                continue
            place = content.find(prefix)
            while place >= 0:
                rest = content[place + len(prefix) : place + len(prefix) + len(inverted)]
                found += len(rest) == len(inverted) and all(a == 255 - b for a, b in zip(rest, inverted, strict=True))
                place = content.find(prefix, place + 1)
    return found


class Spy:
    def __init__(self, *given: Any) -> None:
        self.given = given

    def fit(self, *args: Any, **kwargs: Any) -> Spy:
        marks = pickle.loads(bytes.fromhex(os.environ["HOPULAR_TEST_MARKS"]))
        counts = {name: count_in_memory(*mark) for name, mark in marks.items()}
        with open(os.environ["HOPULAR_TEST_FILE"], "wb") as file:
            pickle.dump({"given": (self.given, args, kwargs), "counts": counts}, file)
        return self

    def predict(self, X: Any) -> Any:
        return np.zeros(len(X))


def make(task: str, params: Mapping[str, Any], run: Run) -> Any:
    return Spy(task, params, run)


METHOD = Method("spy", "Spy", "floor", make, tasks=("regression",))
