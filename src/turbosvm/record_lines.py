"""Lines of `records.jsonl`: a round's record as JSON, and at the end a checksum of all that stands before it.

{"round": 1, "accuracy": 0.5, ..., "crc32": "0a1b2c3d"}
"""

import json
from collections.abc import Mapping
from typing import Any
from zlib import crc32

from turbosvm.bounded import parse_json

CHECK = "crc32"
"""The key of the checksum, which comes last."""
MOST_BYTES = 2**26
"""Of a line: the record of a round of a million clients."""

_BETWEEN = f', "{CHECK}": "'.encode()
_LENGTH = len(_BETWEEN) + len('01234567"}')


def line_of(record: Mapping[str, Any]) -> str:
    """Return the line of a record, with its end."""
    body = json.dumps(record, allow_nan=False)[:-1]
    return f'{body}, "{CHECK}": "{crc32(body.encode()):08x}"}}\n'


def is_whole(line: bytes) -> bool:
    """Whether a line, without its end, is what was written."""
    return _LENGTH < len(line) <= MOST_BYTES and line[-_LENGTH:] == _BETWEEN + b'%08x"}' % crc32(line[:-_LENGTH])


def parse_line(line: bytes) -> dict[str, Any]:
    """Return the record of a line, without its checksum.

    Raises:
        ValueError: the line is not what was written.
    """
    if not is_whole(line):
        raise ValueError("it is not what was written: its checksum differs")
    record = parse_json(line)
    if not isinstance(record, dict):
        raise ValueError("it is not an object")  # noqa: TRY004 (the text is wrong, not the call)
    del record[CHECK]
    return record
