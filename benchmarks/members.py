"""Time default fits with all members, and with one, as ratios to another version of the project.

    python -m benchmarks.members --before FOLDER

FOLDER is a checkout of the version to compare with, for example made by `git worktree add FOLDER 3a96518`. Every fit
has a process of its own with one thread; the versions take turns. Figures are seconds of processor time and the memory
that the process takes at its peak, libraries included.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

from rich.console import Console
from rich.table import Table

FIT = """
import json, resource, sys, time, warnings
import numpy as np, torch
torch.set_num_threads(1)
warnings.simplefilter("ignore")
from hopular import HopularClassifier
name, options = sys.argv[1], json.loads(sys.argv[2])
if name == "wine":
    from sklearn.datasets import load_wine
    X, y = load_wine(return_X_y=True)
else:
    rows, features = map(int, name.split(" x "))
    random = np.random.default_rng(0)
    X = random.normal(size=(rows, features))
    y = np.digitize(X[:, 0] + X[:, 1] * X[:, 2 % features] + 0.3 * random.normal(size=rows), (-0.5, 0.5))
HopularClassifier(max_epochs=1, random_state=0, **options).fit(X[::3], y[::3])  # what libraries set up at first use
start = time.process_time()
HopularClassifier(random_state=0, **options).fit(X, y)
print(json.dumps([time.process_time() - start, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20]))
"""
CASES = {"wine": 0.5, "156 x 60": 0.1, "1000 x 20": 0.5, "10000 x 10": 0.5}  # and the aims of their ratios
ONE_MEMBER = {"wine": 0.15}


def fit(folder: Path, case: str, **options: int) -> tuple[float, float]:
    """Fit in a new process that imports the project from `folder`; return seconds and GiB."""
    environment = {**os.environ, "PYTHONPATH": str(folder), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", FIT, case, json.dumps(options)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, env=environment, cwd=folder)
    seconds, gib = json.loads(done.stdout.splitlines()[-1])
    return seconds, gib


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--before", type=Path, required=True, help="a checkout of the version to compare with")
    parser.add_argument("--cases", nargs="+", choices=CASES, default=list(CASES))
    chosen = parser.parse_args()
    here = Path(__file__).parents[1]
    table = Table("fit", "before", "all members", "ratio", "aim", "GiB", "one member", "ratio", "aim", title="Fits")
    for case in chosen.cases:
        before, (now, gib), (one, _) = (
            fit(chosen.before.resolve(), case)[0],
            fit(here, case),
            fit(here, case, n_members=1),
        )
        aim, aim_of_one = CASES[case], ONE_MEMBER.get(case)
        table.add_row(
            *(case, f"{before:.1f} s", f"{now:.1f} s", f"{now / before:.2f}", f"{aim}", f"{gib:.2f}"),
            *(f"{one:.1f} s", f"{one / before:.2f}", "" if aim_of_one is None else f"{aim_of_one}"),
        )
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
