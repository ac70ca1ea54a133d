from pathlib import Path

import numpy as np
import pytest

from turbosvm.data import store
from turbosvm.data.federated import FederatedData
from turbosvm.data.summary import PUBLISHED, Row, count_classes, rows, summarise


def four_users() -> FederatedData:
    """Users of 2, 4, 0 and 6 samples; classes 0 and 2 of three, four samples of the former."""
    labels = np.array([0, 2, 0, 2, 2, 2, 0, 2, 0, 2, 2, 2], dtype=np.uint8)
    inputs, offsets = np.zeros((12, 1), dtype=np.float32), np.array([0, 2, 6, 6, 12])
    return FederatedData("four", inputs, labels, offsets, ("a", "b", "c", "c (test)"), ("x", "y", "z"))


def test_users_without_samples_count() -> None:
    summary = summarise(four_users())
    assert (summary.users, summary.samples, summary.smallest, summary.largest) == (4, 12, 0, 6)
    assert summary.mean == 3.0
    assert summary.std == pytest.approx(np.sqrt((1 + 1 + 9 + 9) / 4))
    assert summary.class_counts.tolist() == [4, 0, 8]


@pytest.mark.parametrize("block", [1, 5, 12, 100])
def test_classes_are_counted_alike_in_blocks_of_any_size(block: int) -> None:
    assert count_classes(four_users(), block).tolist() == [4, 0, 8]


def test_a_memory_map_gives_the_same_figures(tmp_path: Path) -> None:
    store.save(four_users(), tmp_path / "four")
    assert rows(summarise(store.load(tmp_path / "four"))) == rows(summarise(four_users()))


def test_data_without_users_has_figures_too() -> None:
    nobody = FederatedData("nobody", np.zeros((0, 1)), np.zeros(0, dtype=np.int64), np.array([0]), (), ("x",))
    summary = summarise(nobody)
    assert (summary.users, summary.mean, summary.std, summary.largest) == (0, 0.0, 0.0, 0)


def test_figures_stand_beside_the_published_ones() -> None:
    table = {row.figure: row for row in rows(summarise(four_users()), "shakespeare")}
    assert table["users"] == Row("users", "4", "1,129", "1,129")
    assert table["samples"] == Row("samples", "12", "-", "4,226,158")
    assert table["samples per user, mean"] == Row("samples per user, mean", "3.00", "3,743.2", "3,743.28")
    assert table["samples per user, most"] == Row("samples per user, most", "6", "-", "-")
    assert all(row.paper == row.leaf == "-" for row in rows(summarise(four_users()), "own"))


@pytest.mark.parametrize("task", PUBLISHED)
def test_published_figures_agree_with_each_other(task: str) -> None:
    paper, leaf = PUBLISHED[task].paper, PUBLISHED[task].leaf
    assert leaf.samples is not None
    assert leaf.users is not None
    assert leaf.samples / leaf.users == pytest.approx(leaf.mean, abs=0.01)
    assert (paper.classes, paper.users) == (leaf.classes, leaf.users)
    assert paper.mean == pytest.approx(leaf.mean, abs=0.1)
    assert paper.std == pytest.approx(leaf.std, abs=0.05)
