"""A server on loopback that answers scikit-learn's `fetch_openml` as OpenML does, for one small dataset."""

from __future__ import annotations

import hashlib
import json

import pytest

from tests.data.loopback import Reply, Server

HEADER = """@relation weather
@attribute outlook {sunny, overcast, rainy}
@attribute temperature real
@attribute windy {TRUE, FALSE}
@attribute play {yes, no}
@data
"""
ROWS = """sunny,85,FALSE,no
overcast,?,FALSE,yes
rainy,70,TRUE,?
rainy,68.5,FALSE,yes
?,80,TRUE,no
"""
ATTRIBUTES = {"outlook": "nominal", "temperature": "numeric", "windy": "nominal", "play": "nominal"}


def publish(server: Server, number: int, targets: tuple[str, ...], copies: int = 1) -> None:
    """Let the server know one dataset."""
    arff = HEADER + ROWS * copies
    description = {
        "id": str(number),
        "name": "weather",
        "version": "2",
        "description": "Whether to play",
        "status": "active",
        "format": "ARFF",
        "url": f"{server.url}/download/{number}/weather.arff",
        "file_id": "7",
        "md5_checksum": hashlib.md5(arff.encode()).hexdigest(),
        **({"default_target_attribute": ",".join(targets)} if targets else {}),
    }
    features = [
        {
            "index": str(index),
            "name": name,
            "data_type": kind,
            "is_target": "true" if name in targets else "false",
            "is_ignore": "false",
            "is_row_identifier": "false",
            "number_of_missing_values": "0",
            **({"nominal_value": ["a", "b"]} if kind == "nominal" else {}),
        }
        for index, (name, kind) in enumerate(ATTRIBUTES.items())
    ]
    answers = {
        f"/info/{number}": {"data_set_description": description},
        f"/features/{number}": {"data_features": {"feature": features}},
        f"/qualities/{number}": {
            "data_qualities": {"quality": [{"name": "NumberOfInstances", "value": str(5 * copies)}]}
        },
    }
    for path, answer in answers.items():
        server.answer(path, Reply(json.dumps(answer).encode()))
    server.answer(f"/download/{number}/weather.arff", Reply(arff.encode()))


def stand_in(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let scikit-learn ask `server` instead of OpenML."""
    for constant, path in (("_DATA_INFO", "info"), ("_DATA_FEATURES", "features"), ("_DATA_QUALITIES", "qualities")):
        monkeypatch.setattr(f"sklearn.datasets._openml.{constant}", f"{server.url}/{path}/{{}}")
