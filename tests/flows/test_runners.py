"""Runners by parameter: what a runner needs is said when it is not there."""

from __future__ import annotations

import pytest
from prefect.settings import PREFECT_API_URL, temporary_settings

from flows.runners import make_runner
from hopular.benchmark.plan import Plan


def test_ray_needs_a_server_that_its_workers_can_reach() -> None:
    pytest.importorskip("prefect_ray", reason="needs prefect-ray: pip install 'hopular[ray]'")
    with (
        temporary_settings(restore_defaults={PREFECT_API_URL}),
        pytest.raises(ValueError, match=r"runner 'ray' needs a Prefect server .*`hopular up --detach`"),
    ):
        make_runner(Plan(datasets=["iris"], runner="ray"))
