"""A fit in MLflow: its run, its trials, and a registered model that predicts the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from flows.tracking.fit import check_name, log_fit
from flows.tracking.runs import children
from hopular.automl import Fitted, fit_table
from hopular.data.dataset import Dataset


def test_a_fit_is_a_run_with_its_trials_and_a_registered_model(client: Any, flowers: Dataset, runs: Path) -> None:
    import mlflow

    fitted: Fitted = fit_table(flowers, trials=3, methods=["pls"], holdout=0.2, command="hopular fit flowers.csv")
    run_id = log_fit(fitted, "my flowers")
    run = client.get_run(run_id)
    assert run.info.status == "FINISHED"
    assert run.data.tags["hopular.kind"] == "fit"
    assert run.data.tags["hopular.command"] == "hopular fit flowers.csv"
    assert run.data.metrics["test_log_loss"] == pytest.approx(fitted.facts.metrics["test"]["log_loss"])
    assert client.get_experiment(run.info.experiment_id).name == "hopular/flowers"
    found = children(client, run.info.experiment_id, run_id)
    assert len(found) == 3
    assert {child.info.status for child in found} <= {"FINISHED", "FAILED"}
    files = {file.path for file in client.list_artifacts(run_id)}
    assert files >= {"report.html", "leaderboard.csv", "pictures", "command.txt"}
    assert "pictures/confusion.svg" in {file.path for file in client.list_artifacts(run_id, "pictures")}
    (version,) = client.search_model_versions("name = 'my flowers'")
    assert version.run_id == run_id
    model = mlflow.pyfunc.load_model(version.source)
    new = pd.DataFrame({"size": [1.5, -1.5], "colour": ["red", "green"]})
    assert list(model.predict(new)) == fitted.predict(new).tolist()
    chances = model.predict(new, params={"probabilities": True})
    np.testing.assert_allclose(chances.to_numpy(), fitted.predict_proba(new).to_numpy())
    log_fit(fitted, "my flowers")
    assert len(client.search_model_versions("name = 'my flowers'")) == 2


@pytest.mark.parametrize("name", ["", "a/b", "a:b", " a", "x" * 201])
def test_a_name_that_the_registry_would_not_take_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match=r"cannot be registered as .*: use up to 200 characters without / and :"):
        check_name(name)
