from pathlib import Path

import numpy as np
import pytest
from matplotlib.image import imread

from turbosvm.data import contact_sheet
from turbosvm.data.federated import FederatedData
from turbosvm.errors import TurboSVMError


def toy(users: int = 5, per_user: int = 12, side: int = 28) -> FederatedData:
    """User u's images of class k have the grey 10 * u + k."""
    samples = {}
    for user in range(users):
        labels = np.arange(per_user) % 3
        greys = (10 * user + labels).astype(np.uint8)
        samples[f"user-{user}"] = (np.broadcast_to(greys[:, None, None, None], (per_user, 1, side, side)), labels)
    return FederatedData.from_users(samples, ["a", "b", "c"], name="toy")


def test_class_rows_show_each_user_once_before_any_twice() -> None:
    panel = contact_sheet.class_panel(toy())
    assert panel.names == ("a", "b", "c")
    assert [int(image[0, 0]) for image in panel.rows[1][:5]] == [1, 11, 21, 31, 41]
    assert len(panel.rows[1]) == 20


def test_writer_rows_hold_one_user_each() -> None:
    panel = contact_sheet.writer_panel(toy())
    assert panel.names == tuple(f"user-{user}" for user in range(5))
    assert [int(image[0, 0]) for image in panel.rows[2][:4]] == [20, 21, 22, 20]


def test_a_mosaic_puts_images_in_their_cells_on_white() -> None:
    dark = np.zeros((4, 4), dtype=np.uint8)
    picture = contact_sheet.mosaic([[dark, dark], [dark]], columns=3)
    assert picture.shape == (12, 18)
    assert (picture[1:5, 1:5] == 0).all()
    assert (picture == 0).sum() == 3 * 16
    assert (picture[6:, 6:] == 255).all()


def test_save_writes_both_panels_side_by_side(tmp_path: Path) -> None:
    data = toy(users=20)
    contact_sheet.save(tmp_path / "sheet.png", data)
    panels = contact_sheet.class_panel(data), contact_sheet.writer_panel(data)
    assert imread(tmp_path / "sheet.png").shape[1] == sum(panel.width for panel in panels) + 3 * contact_sheet.MARGIN
    assert (tmp_path / "sheet.png").stat().st_size < 300_000


def test_other_data_is_refused_by_name() -> None:
    vectors = FederatedData.from_users({"u": (np.zeros((2, 3), dtype=np.float32), [0, 1])}, 2, name="vectors")
    with pytest.raises(TurboSVMError, match="data 'vectors' has float32"):
        contact_sheet.class_panel(vectors)
