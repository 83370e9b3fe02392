"""A method that does what its parameter `act` says: all that can go wrong in a fit."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from typing import Any

import numpy as np

from hopular.methods.method import Method, Run


class Actor:
    def __init__(self, params: Mapping[str, Any], run: Run) -> None:
        self.params, self.run = params, run

    def fit(self, X: Any, y: Any, eval_set: Any = None) -> Actor:
        self.value = 0.0
        getattr(self, "act_" + self.params["act"])(X, y)
        return self

    def predict(self, X: Any) -> Any:
        return np.full(len(X), self.value)

    def act_nothing(self, X: Any, y: Any) -> None:
        pass

    def act_segfault(self, X: Any, y: Any) -> None:
        os.kill(os.getpid(), signal.SIGSEGV)

    def act_kill(self, X: Any, y: Any) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    def act_exit(self, X: Any, y: Any) -> None:
        sys.exit(7)

    def act_exit_at_once(self, X: Any, y: Any) -> None:
        os._exit(0)

    def act_hang(self, X: Any, y: Any) -> None:
        time.sleep(3600)

    def act_hang_with_child(self, X: Any, y: Any) -> None:
        child = subprocess.Popen([sys.executable, "-S", "-c", "import time; time.sleep(3600)"])
        with open(self.params["file"], "w") as file:
            file.write(f"{os.getpid()} {child.pid}")
        time.sleep(3600)

    def act_hog(self, X: Any, y: Any) -> None:
        """Ask for more and more memory, a megabyte at a time, up to `megabytes`, and keep it in a ring."""
        self.hoard: list[Any] = [self]
        for _ in range(self.params.get("megabytes", 16_000)):
            self.hoard.append(np.ones(2**17))

    def act_memory_error(self, X: Any, y: Any) -> None:
        np.ones(2**50)

    def act_raise(self, X: Any, y: Any) -> None:
        raise RuntimeError("the matrix is sad")

    def act_refuse(self, X: Any, y: Any) -> None:
        raise InvalidParameterError("colour must be one of red, green")

    def act_nan(self, X: Any, y: Any) -> None:
        self.value = np.nan

    def act_huge(self, X: Any, y: Any) -> None:
        self.value = 1e200

    def act_spoil(self, X: Any, y: Any) -> None:
        """Change what was given, and say what it was."""
        self.value = float(X.iloc[0, 0])
        X.iloc[:, 0] = -1e6
        y[:] = -1e6

    def act_random(self, X: Any, y: Any) -> None:
        self.value = random.random() + np.random.random()

    def act_threads(self, X: Any, y: Any) -> None:
        from threadpoolctl import threadpool_info

        self.value = float(max(pool["num_threads"] for pool in threadpool_info()) + 100 * self.run.threads)

    def act_print(self, X: Any, y: Any) -> None:
        print("noise", flush=True)


class InvalidParameterError(ValueError):
    """As scikit-learn's, which is raised by `fit`."""


def make(task: str, params: Mapping[str, Any], run: Run) -> Any:
    if params["act"] == "invalid":
        raise ValueError("act must not be invalid")
    if params["act"] == "crash_of_import":
        os._exit(3)
    if params["act"] == "slow_import":
        time.sleep(0.5)
        return Actor({"act": "nothing"}, run)
    return Actor(params, run)


METHOD = Method("actor", "Actor", "floor", make, tasks=("regression",))
