"""LEAF's JSON files, read as a stream: memory holds one user at a time, however large the file is.

A file is `{"users": [...], "num_samples": [...], "user_data": {user: {"x": [...], "y": [...]}}}`. LEAF puts such files
into the folders all_data, train and test.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

import ijson

from turbosvm.data.sources.reading import Chunk, Form, Rows, Side, Unit, Where, nothing, size_of
from turbosvm.errors import TurboSVMError, in_one_line

Convert = Callable[[list[Any], list[Any], Where], Rows]
BUFFER = 1 << 16


def leaf_files(path: Path, own_split: bool) -> list[tuple[Path, Side | None]]:
    """Find the JSON files of a path, each with its side; none if this does not look like LEAF's.

    With `own_split` only the folders train and test count; otherwise all_data counts first, as it holds everything.
    """
    if path.is_file():
        return [(path, None)] if path.suffix == ".json" else []
    for root in (path, path / "data"):
        train, test, everything = (_json_in(root / name) for name in ("train", "test", "all_data"))
        sides: list[tuple[Path, Side | None]] = [(file, "train") for file in train]
        sides += [(file, "test") for file in test]
        if own_split:
            if train and test:
                return sides
        elif everything or sides:
            return [(file, None) for file in everything] or sides
    if own_split:
        raise TurboSVMError(f"'{path}' has no folders train and test with JSON files, which LEAF's own split needs.")
    return [(file, None) for file in _json_in(path)]


def leaf_units(files: list[tuple[Path, Side | None]], form: Form, convert: Convert) -> list[Unit]:
    """Make a unit of each file; `convert` turns a user's x and y into samples."""
    return [Unit(file.name, size_of(file), partial(read_file, file, form, convert), side) for file, side in files]


def read_file(file: Path, form: Form, convert: Convert, skip: int = 0) -> Iterator[Chunk]:
    """Give a chunk for each user of a file, in the file's order, but for the first `skip` of them."""
    at = ""
    try:
        with file.open("rb") as stream:
            expected = _expected_counts(stream)
            seen: set[str] = set()
            stream.seek(0)
            size = size_of(file)
            users = ijson.kvitems(stream, "user_data", use_float=True, buf_size=BUFFER)
            for place, (user, content) in enumerate(users):
                at = f" after user '{user}'"
                wrong = _wrong_with(user, content, expected, seen)
                if place >= skip:
                    yield _chunk(file, form, convert, user, wrong, content, min(stream.tell() / size, 1.0))
    except ijson.IncompleteJSONError:
        yield nothing(form, "", [f"{file.name} ends too early{at}: it is not whole."], 1.0)
        return
    except ijson.JSONError as error:
        yield nothing(form, "", [f"{file.name} is not valid JSON{at} ({in_one_line(error)})."], 1.0)
        return
    except (ValueError, OverflowError) as error:
        yield nothing(form, "", [f"{file.name}{at}: {error}."], 1.0)
        return
    except OSError as error:
        raise TurboSVMError(f"'{file}' cannot be read: {error.strerror or error}.") from error
    for user in expected.keys() - seen:
        yield nothing(form, user, [f"{file.name}: user '{user}' is in 'users' but not in 'user_data'."], 1.0)


def _expected_counts(stream: BinaryIO) -> dict[str, Any]:
    """The samples that a file says each of its users has."""
    users, counts = _list_at(stream, "users"), _list_at(stream, "num_samples")
    if not all(isinstance(user, str) for user in users):
        raise ValueError("'users' holds something other than names")
    if len(users) != len(counts):
        raise ValueError(f"'users' has {len(users)} entries, but 'num_samples' {len(counts)}")
    expected = dict(zip(users, counts, strict=True))
    if len(expected) < len(users):
        raise ValueError(f"user '{Counter(users).most_common(1)[0][0]}' is in 'users' twice")
    return expected


def _list_at(stream: BinaryIO, key: str) -> list[Any]:
    """A list at the top of a file, by its key; LEAF writes them first, so that little has to be read."""
    stream.seek(0)
    value = next(ijson.items(stream, key, buf_size=BUFFER), None)
    if isinstance(value, list):
        return value
    raise ValueError(f"'{key}' is missing, or not a list")


def _chunk(file: Path, form: Form, convert: Convert, user: str, wrong: str | None, content: Any, done: float) -> Chunk:
    where = f"{file.name}: user '{user}'"
    if wrong:
        return nothing(form, user, [f"{where} {wrong}."], done)
    rows = convert(content["x"], content["y"], lambda place: f"{where}, row {place + 1}")
    return Chunk(user, rows.inputs, rows.labels, rows.segments, rows.bad, done, whole=True)


def _wrong_with(user: str, content: Any, expected: dict[str, Any], seen: set[str]) -> str | None:
    """What is wrong with a user as a whole, if anything."""
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
    return None if y else "has no samples"


def _json_in(folder: Path) -> list[Path]:
    return sorted(file for file in folder.glob("*.json") if file.is_file()) if folder.is_dir() else []
