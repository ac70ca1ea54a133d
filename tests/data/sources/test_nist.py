"""NIST's images: whose they are is in by_write, what they show in by_class."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tests.data.sources import makers
from turbosvm.data import store
from turbosvm.data.preparation.prepare import prepare
from turbosvm.data.sources.request import Request
from turbosvm.errors import TurboSVMError

WRITERS = makers.writers()


@pytest.mark.parametrize("place", ["", "by_write"])
def test_writers_and_classes_are_found(place: str, tmp_path: Path) -> None:
    root = makers.write_nist(tmp_path / "nist", WRITERS)
    prepare(Request("femnist", str(root / place)), tmp_path / "out")
    data = store.load(tmp_path / "out")
    assert data.users == tuple(WRITERS)
    for user, (_, labels) in enumerate(WRITERS.values()):
        assert data.user(user)[1].tolist() == labels
    (first,) = (root / "by_write").glob("*/f0001_00/*/f0001_00_00002.png")
    small = Image.open(first).convert("L").resize((28, 28), Image.Resampling.LANCZOS)
    assert np.array_equal(data.user(1)[0][2, 0], np.asarray(small))


def test_an_image_counts_once(tmp_path: Path) -> None:
    """LEAF's own code counts the first image of every writer but the first twice; we do not."""
    root = makers.write_nist(tmp_path / "nist", WRITERS)
    prepare(Request("femnist", str(root)), tmp_path / "out")
    assert store.load(tmp_path / "out").counts.tolist() == [2, 3, 4, 5]


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    root = makers.write_nist(tmp_path / "nist", WRITERS)
    (root / "by_class").rename(tmp_path / "elsewhere")
    with pytest.raises(TurboSVMError, match="has no folder by_class beside by_write"):
        prepare(Request("femnist", str(root)), tmp_path / "out")
    (root / "by_class").mkdir()
    with pytest.raises(TurboSVMError, match="by_class' has no images"):
        prepare(Request("femnist", str(root)), tmp_path / "out")
