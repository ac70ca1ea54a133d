"""Ways in which a file goes wrong, all drawn from a generator, so that each comes back with its seed."""

import json
import re
from collections.abc import Callable, Sequence
from copy import deepcopy
from random import Random
from typing import Any

import pyarrow as pa

Mutate = Callable[[Random, Sequence[bytes]], bytes]
"""Make a wrong file of one or more right ones."""

LONGEST = 1 << 17
NUMBER = re.compile(rb"-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?")
NUMBERS = [
    *(b"-1", b"-0", b"1.5", b"62", b"1e400", b"-1e400", b"1e-400", b"9223372036854775808", b"-9223372036854775809"),
    *(b"9" * 30, b"9" * 400, b"1" + b"0" * 5000, b"1e999999999", b"NaN", b"Infinity", b"-Infinity", b"nan", b"inf"),
    *(b'"7"', b'"a"', b"", b"true", b"null", b"[]", b"{}", b"0x10", b"1_000", b"1,000", b"007", b"\xd9\xa3"),
]
PIECES = [
    *(b"\0", b"\xff", b"\xef\xbb\xbf", b"\xff\xfe", b"\xed\xa0\x80", b"\r", b"\r\n", b"\n\n", b'"', b"'", b",", b"\\"),
    *(
        b"\\ud800",
        b"\\u0000",
        b"\x1b[2J",
        b"\xe2\x80\xae",
        b"../",
        b"/",
        b"\x85",
        b"\xe2\x80\xa8",
        b"[",
        b"{",
        b"}",
        b"]",
    ),
]
WORDS = [
    *(b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"\xff\xff\xff\x7f", b"\x80\0\0\0", b"\0\0\0\x80", b"\0\0\0\0"),
    *(b"\xff" * 8, b"\x7f" + b"\xff" * 7, b"\xff" * 7 + b"\x7f", b"\0\0\xea\x60\0\0\xea\x60", b"\x01\0\0\0", b"\0" * 8),
]
ODD_VALUES: list[Any] = [
    *(None, True, False, 0, 1, -1, 61, 62, 2**31, 2**63, -(2**63) - 1, 10**30, 10**400, 0.5, -0.5, 1e308, 1.0, 1e-320),
    *(
        float("nan"),
        float("inf"),
        float("-inf"),
        "",
        " ",
        "a",
        "é",
        "\0",
        "\n",
        "\ud800",
        "\u202e",
        "x" * 80,
        "y" * 3000,
    ),
    *(
        [],
        {},
        [[]],
        [None],
        [0],
        {"x": [], "y": []},
        {"": None},
        "000001.jpg",
        "../000001.jpg",
        "/",
        "..",
        ["a", 1, None],
    ),
]
DEEP = "a place for many brackets"


def of_bytes(rng: Random, seeds: Sequence[bytes]) -> bytes:
    """Files of any kind: bytes flipped, cut, repeated, put in, replaced, or taken from another file."""
    data = rng.choice(seeds)
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        data = rng.choice(BINARY)(rng, data, seeds)[:LONGEST]
    return data


def of_text(rng: Random, seeds: Sequence[bytes]) -> bytes:
    """Lines of words and numbers: as for bytes, and with separators, quotes and whole lines too many or too few."""
    data = rng.choice(seeds)
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        data = rng.choice(TEXTUAL)(rng, data, seeds)[:LONGEST]
    return data


def of_json(rng: Random, seeds: Sequence[bytes]) -> bytes:
    """JSON that is still JSON: keys dropped or doubled, values nested, exchanged or of another type."""
    if rng.random() < 0.3:
        return of_text(rng, seeds)
    tree = json.loads(rng.choice(seeds))
    for _ in range(rng.choice((1, 1, 2, 3))):
        tree = _change_a_node(rng, tree)
    text = json.dumps(tree)
    depth = rng.choice((1, 10, 2000, 20_000))
    return text.replace(
        f'"{DEEP}"', "[" * depth + "]" * depth if rng.random() < 0.5 else '{"a":' * depth + "1" + "}" * depth
    ).encode()


def odd_column(rng: Random, rows: int) -> pa.Array:
    """A column of a kind that nobody expects there."""
    kind, values = rng.choice(ODD_COLUMNS)
    return pa.array([rng.choice(values) for _ in range(rows)], kind)


class Twice(dict[str, Any]):
    """An object that has one of its keys a second time, with another value."""

    def __init__(self, content: dict[str, Any], key: str, value: Any) -> None:
        super().__init__(content)
        self._again = (key, value)

    def items(self) -> Any:
        """All pairs, and the second one."""
        return [*super().items(), self._again]


def _change_a_node(rng: Random, tree: Any) -> Any:
    """Go down to a place that is drawn, and change what is there."""
    if isinstance(tree, dict | list) and tree and rng.random() < 0.75:
        key = rng.choice(list(tree)) if isinstance(tree, dict) else rng.randrange(len(tree))
        tree[key] = _change_a_node(rng, tree[key])
        return tree
    change = rng.randrange(9)
    if isinstance(tree, dict) and tree:
        key = rng.choice(list(tree))
        if change == 0:
            del tree[key]
        elif change == 1:
            return Twice(tree, key, deepcopy(rng.choice([tree[key], *ODD_VALUES])))
        elif change == 2:
            tree[str(rng.choice(ODD_VALUES))[:100]] = tree.pop(key)
        elif change == 3:
            other = rng.choice(list(tree))
            tree[key], tree[other] = tree[other], tree[key]
        if change < 4:
            return tree
    if isinstance(tree, list) and tree:
        place = rng.randrange(len(tree))
        if change == 0:
            del tree[place]
        elif change == 1:
            tree.insert(place, deepcopy(rng.choice([tree[place], *ODD_VALUES])))
        elif change == 2:
            rng.shuffle(tree)
        elif change == 3:
            tree *= rng.choice((0, 2, 3))
        if change < 4:
            return tree
    if change == 4:
        return [tree]
    if change == 5:
        return {"x": tree, "y": deepcopy(tree)}
    return DEEP if change == 6 else deepcopy(rng.choice(ODD_VALUES))


def _span(rng: Random, data: bytes, longest: int) -> tuple[int, int]:
    begin = rng.randrange(len(data) + 1)
    return begin, min(begin + rng.randint(1, longest), len(data))


def _flip(rng: Random, data: bytes, _: Sequence[bytes]) -> bytes:
    flipped = bytearray(data)
    for _place in range(rng.choice((1, 1, 2, 8)) if data else 0):
        place = rng.randrange(len(data))
        flipped[place] = rng.choice((flipped[place] ^ (1 << rng.randrange(8)), rng.randrange(256)))
    return bytes(flipped)


def _cut(rng: Random, data: bytes, _: Sequence[bytes]) -> bytes:
    begin, end = _span(rng, data, 1 + len(data) // 4)
    return rng.choice((data[:begin], data[begin:], data[:begin] + data[end:]))


def _repeat(rng: Random, data: bytes, _: Sequence[bytes]) -> bytes:
    begin, end = _span(rng, data, 200)
    return data[:begin] + data[begin:end] * rng.choice((2, 3, 50)) + data[end:]


def _insert(rng: Random, data: bytes, _: Sequence[bytes]) -> bytes:
    begin, _end = _span(rng, data, 1)
    return (
        data[:begin] + (rng.choice(PIECES) if rng.random() < 0.6 else rng.randbytes(rng.randint(1, 64))) + data[begin:]
    )


def _splice(rng: Random, data: bytes, seeds: Sequence[bytes]) -> bytes:
    other = rng.choice(seeds)
    share = rng.random()
    begin, end = (int(share * len(each)) for each in (data, other))
    return data[:begin] + other[end:]


def _other_word(rng: Random, data: bytes, _: Sequence[bytes]) -> bytes:
    begin, word = rng.randrange(len(data) + 1), rng.choice(WORDS)
    return data[:begin] + word + data[begin + len(word) :]


def _other_number(rng: Random, data: bytes, _: Sequence[bytes]) -> bytes:
    found = NUMBER.search(data, rng.randrange(len(data) + 1)) or NUMBER.search(data)
    return data[: found.start()] + rng.choice(NUMBERS) + data[found.end() :] if found else data


def _other_separator(rng: Random, data: bytes, _: Sequence[bytes]) -> bytes:
    """Take away, double or replace something that stands between words."""
    found = [match.start() for match in re.finditer(rb'[,"\n\r\t :]', data)]
    if not found:
        return data
    place = rng.choice(found)
    here = data[place : place + 1]
    return data[:place] + rng.choice((b"", here * 2, b",", b'"', b"\n", b"\t", b";", b" ")) + data[place + 1 :]


def _other_lines(rng: Random, data: bytes, _: Sequence[bytes]) -> bytes:
    """Take away, double or exchange lines."""
    lines = data.splitlines(keepends=True)
    if not lines:
        return data
    one, other = rng.randrange(len(lines)), rng.randrange(len(lines))
    lines[one : one + 1] = rng.choice(([], [lines[one]] * 2, [lines[other]], [lines[one].rstrip(), lines[other]]))
    return b"".join(lines)


BINARY = [_flip, _flip, _cut, _repeat, _insert, _splice, _other_word, _other_number]
TEXTUAL = [
    _flip,
    _cut,
    _repeat,
    _insert,
    _splice,
    _other_number,
    _other_number,
    _other_separator,
    _other_separator,
    _other_lines,
]

ODD_COLUMNS: list[tuple[pa.DataType, list[Any]]] = [
    (pa.null(), [None]),
    (pa.bool_(), [True, False, None]),
    (pa.int8(), [-1, 0, 61, 127, None]),
    (pa.int64(), [0, 1, 2**63 - 1, -(2**63), None]),
    (pa.uint64(), [0, 1, 2**64 - 1]),
    (pa.float16(), [0.0, 1.0, float("inf"), float("nan")]),
    (pa.float64(), [0.0, 1.5, 1e308, float("nan"), float("-inf"), None]),
    (pa.string(), ["", "a", "1", "1.0", "é", "\0", "\n", "\u202e", "x" * 80, None]),
    (pa.large_string(), ["a", "1", "9" * 500, "9" * 5000, None]),
    (pa.binary(), [b"", b"a", b"\xff", b"\x89PNG\r\n\x1a\n", None]),
    (pa.binary(3), [b"abc", None]),
    (pa.large_binary(), [b"", b"\xff\xd8\xff", None]),
    (pa.list_(pa.int64()), [[], [1, 2], [1, 2], [None], None]),
    (pa.list_(pa.list_(pa.float64())), [[[]], [[1.0], [2.0]], [[1.0, 2.0]], None]),
    (pa.list_(pa.string()), [["a"], ["1", "2"], [None]]),
    (pa.list_(pa.float32(), 2), [[1.0, 2.0], [float("nan"), 0.0], None]),
    (
        pa.struct([("bytes", pa.binary()), ("path", pa.string())]),
        [{"bytes": b"a", "path": None}, {"bytes": None}, None],
    ),
    (pa.struct([("bytes", pa.int64())]), [{"bytes": 1}, None]),
    (pa.struct([("other", pa.int64())]), [{"other": 1}, None]),
    (pa.map_(pa.string(), pa.int64()), [[("a", 1)], [], None]),
    (pa.decimal128(30, 2), [1, 0, 61, None]),
    (pa.date32(), [0, -(2**31), 2**31 - 1, None]),
    (pa.timestamp("ns"), [0, 2**62, -(2**63), None]),
    (pa.timestamp("s"), [0, 2**52, None]),
    (pa.timestamp("us", tz="Nowhere/Land"), [0, None]),
    (pa.duration("ns"), [0, 2**62, None]),
    (pa.time64("ns"), [0, 1, None]),
    (pa.dictionary(pa.int8(), pa.string()), ["a", "b", None]),
]
