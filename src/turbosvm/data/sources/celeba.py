"""CelebA: faces of celebrities at 84 x 84 in colour, one of forty attributes to guess; users are the celebrities.

From CelebA's own three items (identity_CelebA.txt, list_attr_celeba.txt, img_align_celeba), from LEAF's JSON, which
names images of that folder, or from the hub's Parquet. Images of 178 x 218 are resized as LEAF does it. LEAF leaves out
celebrities with fewer than five images.
"""

from collections import defaultdict
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from turbosvm.bounded import read_bounded
from turbosvm.data.sources.images import MOST_IN_A_FILE, ImageRule, Images, decode_each
from turbosvm.data.sources.reading import Chunk, Form, Rows, Unit, Where, gather, nothing
from turbosvm.errors import TurboSVMError, unknown

SIDE = 84
IMAGE = ImageRule(sizes=((178, 218), (SIDE, SIDE)), target=(SIDE, SIDE), colour=True)
SMILING = "Smiling"
IDENTITIES, ATTRIBUTES, IMAGES = "identity_CelebA.txt", "list_attr_celeba.txt", "img_align_celeba"

Album = dict[str, list[tuple[str, int]]]
"""For each celebrity, the names of images and whether the attribute is there."""


def form_of(attribute: str) -> Form:
    """What samples look like when this attribute is to be guessed."""
    words = attribute.replace("_", " ").lower()
    return Form((3, SIDE, SIDE), "uint8", (f"not {words}", words))


def is_celeba(path: Path) -> bool:
    """Whether this folder has CelebA's own lists."""
    return (path / IDENTITIES).is_file() or (path / ATTRIBUTES).is_file()


def celeba_units(path: Path, images: Path | None, attribute: str) -> list[Unit]:
    """Read CelebA's own three items."""
    for name in (IDENTITIES, ATTRIBUTES):
        if not (path / name).is_file():
            raise TurboSVMError(f"'{path}' has no {name}, one of CelebA's three items.")
    folder = image_folder(path, images)
    return [Unit(IMAGES, 1, partial(read_album, path, folder, attribute))]


def image_folder(path: Path, images: Path | None) -> Path:
    """Find the folder of the images: the one named, or where CelebA and LEAF have it."""
    found = find_images(path) if images is None else images if images.is_dir() else None
    if found is None:
        where = f"'{images}' is not a folder" if images is not None else f"'{path}' has no folder {IMAGES} near it"
        raise TurboSVMError(f"{where}; it must hold CelebA's aligned images, unpacked (--images says where they are).")
    return found


def find_images(path: Path) -> Path | None:
    """The folder of images that is nearest to a path, inside it or around it."""
    roots = [path, *path.resolve().parents][:4]
    candidates = (root / inner / IMAGES for root in roots for inner in ("", "raw", "data/raw"))
    return next((folder for folder in candidates if folder.is_dir()), None)


def read_album(path: Path, folder: Path, attribute: str, skip: int = 0) -> Iterator[Chunk]:
    """Give a chunk of what is wrong with the lists, then one for each celebrity, but for the first `skip`."""
    form = form_of(attribute)
    album, bad = _album(path, attribute)
    if not skip:
        yield nothing(form, "", bad, 0.0)
    for place, (celebrity, pairs) in enumerate(album.items()):
        if place + 1 >= skip:
            names, labels = [name for name, _ in pairs], [label for _, label in pairs]
            rows = read_images(path, folder, form, names, labels, _namer(celebrity, pairs))
            done = (place + 1) / len(album)
            yield Chunk(celebrity, rows.inputs, rows.labels, bad=rows.bad, done=done, whole=True)


def read_images(path: Path, images: Path | None, form: Form, names: list[Any], labels: list[Any], where: Where) -> Rows:
    """Read the images of these names from where the images of `path` are."""
    folder = image_folder(path, images)
    contents = [_bytes_of(folder, name) for name in names]
    decoded: list[Images | str] = [
        image if content else "is not in the folder of images, or cannot be read"
        for content, image in zip(contents, decode_each(contents, IMAGE), strict=True)
    ]
    return gather(form, range(len(names)), decoded.__getitem__, labels.__getitem__, where)


def _bytes_of(folder: Path, name: Any) -> bytes | None:
    """The content of an image; None if there is none, or if the name points out of the folder."""
    if not isinstance(name, str) or Path(name).name != name:
        return None
    try:
        return read_bounded(folder / name, MOST_IN_A_FILE)
    except (TurboSVMError, ValueError):
        return None


def _namer(celebrity: str, pairs: list[tuple[str, int]]) -> Where:
    return lambda place: f"user '{celebrity}', image {pairs[place][0]}"


def _album(path: Path, attribute: str) -> tuple[Album, list[str]]:
    """Bring both lists together."""
    has, bad = _attributes(path / ATTRIBUTES, attribute)
    album: Album = defaultdict(list)
    seen: set[str] = set()
    for row, line in enumerate(_lines(path / IDENTITIES), start=1):
        parts = line.split()
        if len(parts) != 2:
            bad.append(f"{IDENTITIES}, row {row}: must be an image and a celebrity, not '{line[:60]}'.")
        elif parts[0] in seen:
            bad.append(f"{IDENTITIES}, row {row}: user '{parts[1]}': {parts[0]} is listed a second time.")
        elif parts[0] not in has:
            bad.append(f"{IDENTITIES}, row {row}: user '{parts[1]}': {parts[0]} is not in {ATTRIBUTES}.")
        else:
            album[parts[1]].append((parts[0], has[parts[0]]))
        seen.update(parts[:1])
    return album, bad


def _attributes(file: Path, attribute: str) -> tuple[dict[str, int], list[str]]:
    """Whether each image has the attribute."""
    count, header, *lines = [*_lines(file), "", ""]
    names, lines = header.split(), [line for line in lines if line]
    if attribute not in names:
        raise unknown("attribute", attribute, names, where=f"in {file.name}")
    column, has, bad = names.index(attribute) + 1, dict[str, int](), list[str]()
    if count.strip() != str(len(lines)):
        bad.append(f"{file.name}: its first line says {count.strip()[:20]!r} images, but there are {len(lines)}.")
    for row, line in enumerate(lines, start=1):
        parts = line.split()
        if len(parts) != len(names) + 1 or parts[column] not in ("-1", "1"):
            bad.append(f"{file.name}, row {row}: must be an image and {len(names)} times -1 or 1, not '{line[:60]}'.")
        else:
            has[parts[0]] = int(parts[column] == "1")
    return has, bad


def _lines(file: Path) -> list[str]:
    try:
        return [line for line in read_bounded(file).decode().splitlines() if line.strip()]
    except UnicodeDecodeError as error:
        raise TurboSVMError(f"'{file}' cannot be read: {error}.") from error
