"""Where LEAF puts its JSON files: the folders all_data, train and test."""

from pathlib import Path

from turbosvm.data.sources.reading import Side
from turbosvm.errors import TurboSVMError


def leaf_files(path: Path, own_split: bool) -> list[tuple[Path, Side | None]]:
    """Find the JSON files of a path, each with its side; none if this does not look like LEAF's.

    With `own_split` only the folders train and test count; otherwise all_data counts first, as it holds everything.
    """
    if path.is_file() and not own_split:
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


def _json_in(folder: Path) -> list[Path]:
    return sorted(file for file in folder.glob("*.json") if file.is_file()) if folder.is_dir() else []
