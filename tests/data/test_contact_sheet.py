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


def coloured(height: int = 84, width: int = 84, classes: int = 2, users: int = 12) -> FederatedData:
    """User u's images of class k have the colour (10 * u, k, 200)."""
    samples = {}
    for user in range(users):
        labels = np.arange(20) % classes
        images = np.full((20, 3, height, width), 200, dtype=np.uint8)
        images[:, 0], images[:, 1] = 10 * user, labels[:, None, None]
        samples[f"user-{user}"] = (images, labels)
    return FederatedData.from_users(samples, [f"class {k}" for k in range(classes)], name="coloured")


def test_colours_come_last_and_survive() -> None:
    panel = contact_sheet.class_panel(coloured())
    assert panel.rows[1][3].shape == (84, 84, 3)
    assert panel.rows[1][3][0, 0].tolist() == [30, 1, 200]
    assert contact_sheet.mosaic(panel.rows, panel.columns).shape == (2 * 86, panel.columns * 86, 3)


def test_large_images_have_large_cells_and_fewer_of_them() -> None:
    layout = contact_sheet.lay_out(coloured(classes=10))
    assert (layout.cell_height, layout.cell_width, layout.rows, layout.columns) == (86, 86, 10, 7)
    assert not layout.stacked


def test_few_classes_of_large_images_stand_above_the_users(tmp_path: Path) -> None:
    data = coloured()
    contact_sheet.save(tmp_path / "sheet.png", data)
    classes, users = contact_sheet.class_panel(data), contact_sheet.writer_panel(data)
    assert (len(classes.rows), classes.columns, len(users.rows)) == (2, 14, 10)
    picture = imread(tmp_path / "sheet.png")
    assert picture.shape[:2] == (classes.height + users.height + 14, users.width + 2 * 14)
    first = picture[contact_sheet.HEADING + 40, contact_sheet.MARGIN + users.name_width + 40, :3] * 255
    assert first.round().tolist() == [0, 0, 200]


def test_images_need_not_be_square_and_huge_ones_are_shrunk(tmp_path: Path) -> None:
    layout = contact_sheet.lay_out(coloured(height=218, width=178))
    assert (layout.cell_height, layout.cell_width) == (86, 70)
    contact_sheet.save(tmp_path / "sheet.png", coloured(height=218, width=178, users=2))
    assert contact_sheet.lay_out(coloured(height=8, width=4)).cell_width == 18


def test_long_class_names_get_room_and_longer_ones_are_shortened(tmp_path: Path) -> None:
    assert contact_sheet.class_panel(toy()).name_width == contact_sheet.CLASS_NAME
    inputs, labels = np.zeros((2, 28, 28), dtype=np.uint8), [0, 1]
    named = FederatedData.from_users({"u" * 99: (inputs, labels)}, ["a cat", "no cat " * 9], name="named")
    assert contact_sheet.class_panel(named).name_width == contact_sheet.USER_NAME
    contact_sheet.save(tmp_path / "sheet.png", named)
    ink = imread(tmp_path / "sheet.png")[contact_sheet.HEADING :, : contact_sheet.MARGIN - 1, :3].min()
    assert ink == 1  # names end before the margin
