"""A record's line is read back as it was written, or refused."""

import pytest

from turbosvm.record_lines import is_whole, line_of, parse_line

RECORD = {"round": 3, "accuracy": 0.25, "failures": [{"user": "Ünal", "why": "it's late"}], "failed": None}


def test_what_was_written_is_read_back() -> None:
    assert parse_line(line_of(RECORD).strip().encode()) == RECORD


def test_every_change_of_a_byte_is_noticed() -> None:
    line = line_of(RECORD).strip().encode()
    for place in range(len(line)):
        for other in (line[place] ^ 1, line[place] ^ 16, ord("x"), ord("0")):
            changed = line[:place] + bytes([other]) + line[place + 1 :]
            assert is_whole(changed) == (changed == line), changed


@pytest.mark.parametrize("line", [b"", b"{}", b"null", b'{"round": 1}', line_of(RECORD)[:-9].encode(), b"[" * 10_000])
def test_what_has_no_checksum_is_refused(line: bytes) -> None:
    with pytest.raises(ValueError, match="checksum"):
        parse_line(line)
