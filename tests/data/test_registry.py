"""The registry agrees with the paper's tables and is complete."""

from __future__ import annotations

import pytest

from hopular.data.dataset import DataError
from hopular.data.registry import canonical, entries, find, median_ranks, paper_names
from hopular.data.sources.paper import checksums

# Name: rows, continuous and categorical features, from the paper's two overview tables.
TABLES = {
    "conn-bench": (208, 60, 0),
    "glass": (214, 9, 0),
    "statlog-heart": (270, 6, 7),
    "breast-cancer": (286, 0, 9),
    "heart-cleveland": (303, 6, 9),
    "haberman-survival": (306, 3, 0),
    "vertebral-column2": (310, 6, 0),
    "vertebral-column3": (310, 6, 0),
    "primary-tumor": (330, 0, 17),
    "ecoli": (336, 5, 0),
    "horse-colic": (368, 8, 19),
    "congressional-voting": (435, 0, 16),
    "cylinder-bands": (512, 20, 19),
    "monks-2": (601, 6, 0),
    "statlog-australian-credit": (690, 5, 9),
    "credit-approval": (690, 6, 9),
    "blood-transfusion": (748, 4, 1),
    "energy-y2": (768, 7, 0),
    "mammographic": (961, 1, 5),
    "led-display": (1000, 0, 6),
    "statlog-german-credit": (1000, 23, 0),
    "blastchar": (7048, 3, 17),
    "colleges": (7064, 33, 12),
    "gesture": (9873, 31, 0),
    "shrutime": (10000, 2, 9),
    "sulfur": (10082, 5, 0),
    "eye": (10936, 19, 3),
}


def test_sizes_are_those_of_the_paper() -> None:
    assert {e.name: (e.paper.rows, e.paper.continuous, e.paper.categorical) for e in entries().values()} == TABLES
    assert list(entries()) == list(TABLES)


def test_every_file_has_a_checksum_and_every_checksum_a_file() -> None:
    files = {file for entry in entries().values() for file in entry.files}
    assert files <= set(checksums())
    assert set(checksums()) - files == {"colleges/missing.json"}
    assert len(checksums()) == 91
    assert all(len(value) == 64 for value in checksums().values())


def test_published_results_of_the_medium_suite() -> None:
    methods = {"hopular", "npt", "xgboost", "catboost", "lightgbm"}
    for entry in entries().values():
        assert (set(entry.published) if entry.published else set()) == (methods if entry.suite == "medium" else set())
    assert entries()["sulfur"].published == {
        "hopular": (1.04, 0.02),
        "npt": (1.24, 0.02),
        "xgboost": (1.23, 0.0),
        "catboost": (1.06, 0.01),
        "lightgbm": (1.16, 0.01),
    }
    assert [entries()[n].published["hopular"][0] for n in ("colleges", "eye", "gesture", "blastchar", "shrutime")] == [
        21.18,
        53.56,
        71.20,
        80.05,
        86.12,
    ]


def test_published_median_ranks() -> None:
    ranks = median_ranks()
    assert len(ranks) == 29
    assert min(ranks, key=ranks.__getitem__) == "Hopular"
    assert (ranks["Hopular"], ranks["XGBoost"], ranks["CatBoost"], ranks["LightGBM"]) == (7.5, 12.0, 14.0, 14.5)


def test_names_aliases_and_variants() -> None:
    assert len(paper_names()) == 30
    assert canonical("Conn_Bench_Sonar_Mines_Rocks") == "conn-bench"
    assert canonical("haberman") == "haberman-survival"
    assert canonical("gesture-phase") == "gesture"
    assert canonical("eye_movements") == "eye"
    assert canonical("monks_2:repaired") == "monks-2:repaired"
    assert canonical("glass:repaired") is None
    assert canonical("nothing") is None
    assert find("monks-2:repaired") == (entries()["monks-2"], True)
    aliases = [alias for entry in entries().values() for alias in entry.aliases]
    assert len(set(aliases) | set(entries())) == len(aliases) + 27


def test_a_wrong_name_is_answered_with_the_nearest() -> None:
    with pytest.raises(DataError, match=r"called 'glas'. Did you mean 'glass'\? They are: conn-bench, glass"):
        find("glas")


def test_damaged_datasets_say_so_and_the_repairable_are_repaired() -> None:
    damaged = {entry.name for entry in entries().values() if entry.defects}
    assert damaged == {"monks-2", "horse-colic", "statlog-australian-credit", "congressional-voting"}
    repaired = {entry.name for entry in entries().values() if entry.repaired}
    assert repaired == damaged - {"congressional-voting"}
