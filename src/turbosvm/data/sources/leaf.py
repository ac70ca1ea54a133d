"""LEAF's JSON files, read as a stream: memory holds one user at a time, however large the file is.

A file is `{"users": [...], "num_samples": [...], "user_data": {user: {"x": [...], "y": [...]}}}`.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import ijson

from turbosvm.data.sources.guard import Guarded
from turbosvm.data.sources.reading import Chunk, Form, Rows, Side, Unit, Where, nothing, size_of

Convert = Callable[[list[Any], list[Any], Where], Rows]
BUFFER = 1 << 16


def leaf_units(files: list[tuple[Path, Side | None]], form: Form, convert: Convert) -> list[Unit]:
    """Make a unit of each file; `convert` turns a user's x and y into samples."""
    return [Unit(file.name, size_of(file), partial(read_file, file, form, convert), side) for file, side in files]


def read_file(file: Path, form: Form, convert: Convert, skip: int = 0) -> Iterator[Chunk]:
    """Give a chunk for each user of a file, in the file's order, but for the first `skip` of them."""
    for place, (user, content, wrong, done) in enumerate(_users_of(file)):
        if place < skip:
            continue
        if wrong:
            yield nothing(form, user, [f"{file.name}{wrong}."], done)
            continue
        where = f"{file.name}: user '{user}', row"
        rows = convert(content["x"], content["y"], lambda row, where=where: f"{where} {row + 1}")  # type: ignore[misc]
        yield Chunk(user, rows.inputs, rows.labels, rows.segments, rows.bad, done, whole=True)


def _users_of(file: Path) -> Iterator[tuple[str, Any, str, float]]:
    """Give each user, what the file has of them, what is wrong with that, and how much of the file has been read."""
    at = ""
    with file.open("rb") as stream:
        guarded, size, seen = Guarded(stream), size_of(file), set[str]()
        try:
            expected = _expected_counts(guarded)
            guarded.rewind()
            for user, content in ijson.kvitems(guarded, "user_data", use_float=True, buf_size=BUFFER):
                at = f" after user '{user}'"
                wrong = _wrong_with(user, content, expected, seen)
                yield user, content, wrong and f": user '{user}' {wrong}", min(stream.tell() / size, 1.0)
        except ijson.JSONError as error:
            why = str(error).splitlines()[0].strip(". ")
            yield "", None, f" ends too early{at}" if guarded.cut_off else f" is not valid JSON{at} ({why})", 1.0
            return
        except (ValueError, OverflowError) as error:
            yield "", None, f"{at}: {error}", 1.0
            return
    for user in expected:
        if user not in seen:
            yield user, None, f": user '{user}' is in 'users' but not in 'user_data'", 1.0


def _expected_counts(guarded: Guarded) -> dict[str, Any]:
    """The samples that a file says each of its users has."""
    users, counts = _list_at(guarded, "users"), _list_at(guarded, "num_samples")
    if not all(isinstance(user, str) for user in users):
        raise ValueError("'users' holds something other than names")
    if len(users) != len(counts):
        raise ValueError(f"'users' has {len(users)} entries, but 'num_samples' {len(counts)}")
    expected = dict(zip(users, counts, strict=True))
    if len(expected) < len(users):
        raise ValueError(f"user '{Counter(users).most_common(1)[0][0]}' is in 'users' twice")
    return expected


def _list_at(guarded: Guarded, key: str) -> list[Any]:
    """A list at the top of a file, by its key; LEAF writes them first, so that little has to be read."""
    guarded.rewind()
    value = next(ijson.items(guarded, key, buf_size=BUFFER), None)
    if isinstance(value, list):
        return value
    raise ValueError(f"'{key}' is missing, or not a list")


def _wrong_with(user: str, content: Any, expected: dict[str, Any], seen: set[str]) -> str:
    """What is wrong with a user as a whole; nothing if nothing is."""
    if user in seen:
        return "is in 'user_data' twice"
    seen.add(user)
    if user not in expected:
        return "is in 'user_data' but not in 'users'"
    x, y = (content.get(key) if isinstance(content, dict) else None for key in ("x", "y"))
    if not isinstance(x, list) or not isinstance(y, list):
        return "must have lists 'x' and 'y'"
    if len(x) != len(y):
        return f"has {len(x)} entries in 'x' but {len(y)} in 'y'"
    if expected[user] != len(y):
        return f"has {len(y)} samples, but 'num_samples' says {str(expected[user])[:20]}"
    return "" if y else "has no samples"
