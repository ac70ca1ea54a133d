"""The fast way for small grey PNGs gives what Pillow gives, and leaves the rest to it."""

import io
import struct
import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from PIL import Image

from tests.data.sources.makers import encoded
from turbosvm.data.sources.png import decode_grey


def chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def png(rows: bytes, width: int, height: int, depth: int = 8, colour: int = 0, interlace: int = 0) -> bytes:
    header = struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, interlace)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


@given(
    st.integers(1, 9).flatmap(
        lambda width: st.lists(
            st.tuples(st.integers(0, 4), st.lists(st.integers(0, 255), min_size=width, max_size=width)),
            min_size=1,
            max_size=9,
        )
    )
)
def test_every_filter_is_undone_as_pillow_undoes_it(rows: list[tuple[int, list[int]]]) -> None:
    width, height = len(rows[0][1]), len(rows)
    file = png(b"".join(bytes([kind, *row]) for kind, row in rows), width, height)
    images, plain = decode_grey([file], height, width)
    assert plain.all()
    assert np.array_equal(images[0], np.asarray(Image.open(io.BytesIO(file))))


@given(arrays.arrays(np.uint8, (28, 28)), st.booleans())
def test_what_pillow_writes_is_read(image: np.ndarray[tuple[int, int], np.dtype[np.uint8]], optimise: bool) -> None:
    stream = io.BytesIO()
    Image.fromarray(image).save(stream, "PNG", optimize=optimise)
    images, plain = decode_grey([stream.getvalue()], 28, 28)
    assert plain.all()
    assert np.array_equal(images[0], image)


GREY = np.arange(784, dtype=np.uint8).reshape(28, 28)
FILE = encoded(GREY)
ROWS = b"".join(b"\0" + row.tobytes() for row in GREY)


@pytest.mark.parametrize(
    "file",
    [
        None,
        b"",
        FILE[:-1],
        FILE[:20],
        FILE.replace(b"IDAT", b"IDOT"),
        bytes([*FILE[:60], FILE[60] ^ 1, *FILE[61:]]),
        encoded(GREY, "JPEG"),
        encoded(np.zeros((27, 28), dtype=np.uint8)),
        encoded(np.zeros((28, 28, 3), dtype=np.uint8)),
        png(ROWS[:-1], 28, 28),
        png(ROWS + b"\0", 28, 28),
        png(b"\5" + ROWS[1:], 28, 28),
        png(ROWS, 28, 28, depth=16),
        png(ROWS, 28, 28, interlace=1),
    ],
    ids=lambda file: f"{len(file)} bytes" if file else repr(file),
)
def test_anything_else_is_left_alone(file: bytes | None) -> None:
    images, plain = decode_grey([FILE, file], 28, 28)
    assert plain.tolist() == [True, False]
    assert np.array_equal(images[0], GREY)
