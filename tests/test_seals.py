"""Sealed JSON is read back as it was written, or refused."""

import os
from pathlib import Path

import pytest

from turbosvm.bounded import read_bounded
from turbosvm.errors import TurboSVMError
from turbosvm.seals import sealed, unsealed

ABOUT = {"name": "glyphs", "counts": [1, 2.5, None], "inside": {"a": True}}


def test_what_was_written_is_read_back() -> None:
    assert unsealed(sealed(ABOUT).encode()) == ABOUT


def test_every_change_of_a_byte_is_noticed_or_changes_nothing() -> None:
    text = sealed(ABOUT).encode()
    refused = 0
    for place in range(len(text)):
        for other in (text[place] ^ 1, text[place] ^ 16, ord(" "), ord("0")):
            try:
                assert unsealed(text[:place] + bytes([other]) + text[place + 1 :]) == ABOUT
            except ValueError:
                refused += 1
    assert refused > 2 * len(text)


@pytest.mark.parametrize("text", [b"", b"null", b"{}", b"[" * 100_000, b'{"a": NaN}', b"\xff", b'{"sha256": 5}'])
def test_what_has_no_seal_is_refused(text: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 (of several kinds)
        unsealed(text)


def test_pipes_devices_folders_and_large_files_are_not_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "large").write_bytes(b"12345")
    for path in (tmp_path / "pipe", Path("/dev/zero"), tmp_path):
        with pytest.raises(TurboSVMError, match=r"not a regular file|Is a directory"):
            read_bounded(path)
    with pytest.raises(TurboSVMError, match=r"5 bytes; at most 4"):
        read_bounded(tmp_path / "large", most=4)
    assert read_bounded(tmp_path / "large", most=5) == b"12345"
