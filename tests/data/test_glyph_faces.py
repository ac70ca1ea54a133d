import hashlib
import os
from pathlib import Path

import numpy as np
import pytest

from turbosvm.data import glyph_faces
from turbosvm.data.glyph_faces import CELL, CHARACTERS, FACES, GRID, LEVEL, distance_field
from turbosvm.errors import TurboSVMError

SQUARE = [(-0.3, -0.3), (0.3, -0.3), (0.3, 0.3), (-0.3, 0.3)]
RIGHT_PART = [(0.0, -0.3), (0.5, -0.3), (0.5, 0.3), (0.0, 0.3)]
HOLE = [(-0.1, -0.1), (-0.1, 0.1), (0.1, 0.1), (0.1, -0.1)]


@pytest.fixture(scope="module", autouse=True)
def atlas_made_outside_the_home(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Make the faces once for all tests here, in a temporary cache folder."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TURBOSVM_CACHE", str(tmp_path_factory.mktemp("faces")))
        glyph_faces.atlas()


def cell(x: float, y: float) -> tuple[int, int]:
    """The grid point nearest to a place."""
    return round(y / CELL + (GRID - 1) / 2), round(x / CELL + (GRID - 1) / 2)


def test_a_field_holds_distances_to_the_edge_positive_inside() -> None:
    field = distance_field([SQUARE])
    axis = (np.arange(GRID) - (GRID - 1) / 2) * CELL
    row, column = cell(0.2, 0.0)
    expected = 0.3 - axis[column]
    assert field[row, column] * LEVEL == pytest.approx(expected, abs=LEVEL)
    row, column = cell(0.4, 0.0)
    assert field[row, column] * LEVEL == pytest.approx(0.3 - axis[column], abs=LEVEL)
    corner = cell(0.4, 0.4)
    away = axis[corner[0]] - 0.3
    assert field[corner] * LEVEL == pytest.approx(-away * 2**0.5, abs=LEVEL)


def test_overlapping_contours_join_and_opposite_ones_cut() -> None:
    assert distance_field([SQUARE, RIGHT_PART])[cell(0.15, 0.0)] > 0
    assert distance_field([SQUARE, HOLE])[cell(0.0, 0.0)] < 0 < distance_field([SQUARE, HOLE])[cell(0.2, 0.0)]


def test_a_curve_of_control_points_only_becomes_a_closed_polygon() -> None:
    (contour,) = glyph_faces.polygons([("qCurveTo", ((0, 0), (4, 0), (4, 4), (0, 4), None)), ("closePath", ())])
    assert contour[0] == contour[-1] == (0.0, 2.0)
    assert (2.0, 0.0) in contour
    assert (4.0, 2.0) in contour


def test_cubic_outlines_are_refused() -> None:
    with pytest.raises(TurboSVMError, match="not 'curveTo'"):
        glyph_faces.polygons([("moveTo", ((0, 0),)), ("curveTo", ((0, 1), (1, 1), (1, 0)))])


def test_every_face_has_every_character_with_ink_clear_of_the_border() -> None:
    fields = glyph_faces.atlas()
    assert fields.shape == (len(FACES), len(CHARACTERS), GRID, GRID)
    assert (fields.max(axis=(2, 3)) > 0).all()
    # Strokes may be widened by 0.05 and have a soft edge; off the grid, the border's value is taken.
    border = max(fields[:, :, [0, -1]].max(), fields[:, :, :, [0, -1]].max())
    assert border * LEVEL < -0.12


def test_characters_of_a_face_differ() -> None:
    flat = glyph_faces.atlas().astype(np.int64).reshape(len(FACES), len(CHARACTERS), -1)
    for face in flat:
        assert len({character.tobytes() for character in face}) == len(CHARACTERS)


def test_bold_faces_have_wider_strokes() -> None:
    widths = dict(zip(FACES, glyph_faces.stroke_half_width(), strict=True))
    for light, bold in (("DejaVuSans", "DejaVuSans-Bold"), ("cmr10", "cmb10"), ("STIXGeneral", "STIXGeneralBol")):
        assert widths[bold] > 1.3 * widths[light]


def test_fields_are_the_same_on_every_machine() -> None:
    digest = hashlib.sha256(glyph_faces.atlas().tobytes()).hexdigest()
    assert digest == "419b5ddac5faf9fdfebe5fa472dbfbb27caf034fbf7387106054bd0c4b9ec9ce"
    assert glyph_faces._digest(glyph_faces.atlas()) == glyph_faces.DIGEST


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Faces of four numbers, and how often they were made."""
    times: list[int] = []

    def small() -> glyph_faces.Atlas:
        times.append(1)
        return np.arange(4, dtype=np.int8)

    monkeypatch.setattr(glyph_faces, "make_atlas", small)
    monkeypatch.setattr(glyph_faces, "DIGEST", glyph_faces._digest(np.arange(4, dtype=np.int8)))
    return times


def test_the_atlas_is_kept_in_a_file_and_read_from_there(tmp_path: Path, made: list[int]) -> None:
    path = tmp_path / "deep" / "faces.npy"
    first, second = glyph_faces._read_or_make(path), glyph_faces._read_or_make(path)
    assert first.tolist() == second.tolist() == [0, 1, 2, 3]
    assert len(made) == 1
    assert [file.name for file in path.parent.iterdir()] == ["faces.npy"]


@pytest.mark.parametrize("damage", ["flipped", "cut off", "no array", "empty", "a pipe", "a folder", "other numbers"])
def test_a_damaged_file_is_told_of_and_made_again(damage: str, tmp_path: Path, made: list[int]) -> None:
    path = tmp_path / "faces.npy"
    glyph_faces._read_or_make(path)
    content = path.read_bytes()
    path.unlink()
    if damage == "a pipe":
        os.mkfifo(path)
    elif damage == "a folder":
        (path / "inside").mkdir(parents=True)
    elif damage == "other numbers":
        np.save(path, np.arange(4, dtype=np.int16))
    else:
        wrong = {"flipped": content[:-1] + b"\x07", "cut off": content[:-2], "no array": b"not an array", "empty": b""}
        path.write_bytes(wrong[damage])
    with pytest.warns(UserWarning, match=r"The glyph faces '.*faces\.npy' were damaged; they are made again\."):
        assert glyph_faces._read_or_make(path).tolist() == [0, 1, 2, 3]
    assert path.read_bytes() == content
    assert glyph_faces._read_or_make(path).tolist() == [0, 1, 2, 3]
    assert len(made) == 2


def test_faces_of_other_fonts_are_not_kept(tmp_path: Path, made: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(glyph_faces, "DIGEST", "of other fonts")
    assert glyph_faces._read_or_make(tmp_path / "faces.npy").tolist() == [0, 1, 2, 3]
    assert not (tmp_path / "faces.npy").exists()


def test_a_missing_font_is_named() -> None:
    with pytest.raises(TurboSVMError, match=r"NoSuchFace\.ttf"):
        glyph_faces.read_outlines("NoSuchFace")
