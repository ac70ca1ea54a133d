"""From a request to a source: what form the files have is found out, and the reader of that form taken."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from turbosvm.data.sources import archives, celeba, femnist, gutenberg, hub, nist, text
from turbosvm.data.sources.leaf_folders import leaf_files
from turbosvm.data.sources.reading import Form, Source
from turbosvm.data.sources.request import Request, existing
from turbosvm.errors import TurboSVMError

if TYPE_CHECKING:
    from turbosvm.data.sources.leaf import Convert


def fetch(request: Request) -> Path:
    """Where a request's files are on this machine, fetched from the hub if that is asked for."""
    with _needing_extras():
        return hub.fetch(request.hub_place, request.offline) if request.hub_place else request.path()


def find_source(request: Request, path: Path, unpacked: Path) -> Source:
    """Find the source at a path; an archive is unpacked into the folder `unpacked`, if it has not been already."""
    if archives.is_archive(path):
        path = archives.unpack(path, unpacked, request.allow_large)
    find = {"femnist": _femnist, "celeba": _celeba, "shakespeare": _shakespeare, "own": _own}[request.task]
    with _needing_extras():
        source = find(request, path)
    if request.own_split and not source.kind.startswith("LEAF"):
        raise TurboSVMError(f"'{request.place}' is {source.kind}; only LEAF's JSON folders have a split of their own.")
    return source


def _femnist(request: Request, path: Path) -> Source:
    if nist.is_nist(path):
        return Source("NIST's images", femnist.FORM, nist.nist_units(path))
    if source := _leaf(request, path, femnist.FORM, femnist.from_json):
        return source
    if files := _tables(request, path, ".parquet"):
        from turbosvm.data.sources.hub_tables import image_units

        units = image_units(files, femnist.FORM, femnist.HUB_IMAGE, "image", "writer_id", "character")
        return Source("the hub's Parquet", femnist.FORM, units)
    raise _nothing_there(request, "LEAF's JSON files, the hub's Parquet files, or NIST's folders by_write and by_class")


def _celeba(request: Request, path: Path) -> Source:
    form = celeba.form_of(request.attribute)
    images = existing(request.images) if request.images else None
    if celeba.is_celeba(path):
        units = celeba.celeba_units(path, images, request.attribute)
        return Source("CelebA's own files", form, units)
    if source := _leaf(request, path, form, partial(celeba.read_images, path, images, form)):
        if request.attribute != celeba.SMILING:
            raise TurboSVMError("LEAF's JSON tells who is smiling, and nothing else; leave --attribute out.")
        celeba.image_folder(path, images)
        return source
    if files := _tables(request, path, ".parquet"):
        from turbosvm.data.sources.hub_tables import image_units

        units = image_units(files, form, celeba.IMAGE, "image", "celeb_id", request.attribute)
        return Source("the hub's Parquet", form, units)
    raise _nothing_there(
        request, f"LEAF's JSON files, the hub's Parquet files, or {celeba.IDENTITIES} and {celeba.ATTRIBUTES}"
    )


def _shakespeare(request: Request, path: Path) -> Source:
    if source := _leaf(request, path, text.FORM, text.windows_to_rows):
        return source
    if files := _tables(request, path, ".csv", ".parquet"):
        from turbosvm.data.sources.hub_tables import text_units

        return Source("the hub's windows", text.FORM, text_units(files))
    texts = [path] if path.is_file() else sorted(path.glob("*.txt"))
    if len(texts) == 1:
        return Source("Project Gutenberg's text", text.FORM, gutenberg.gutenberg_units(texts[0]))
    raise _nothing_there(request, "LEAF's JSON files, the hub's CSV file, or one text file of Project Gutenberg's")


def _own(request: Request, path: Path) -> Source:
    if files := _tables(request, path, ".parquet", ".csv", ".npz"):
        from turbosvm.data.sources.own import own_units

        form, units = own_units(files, request.columns, request.classes, request.tokens)
        return Source("a table", form, units)
    raise _nothing_there(request, "Parquet, CSV or npz files")


def _leaf(request: Request, path: Path, form: Form, convert: "Convert") -> Source | None:
    """LEAF's JSON files at that path, if there are any."""
    files = leaf_files(path, request.own_split)
    if not files:
        return None
    from turbosvm.data.sources.leaf import leaf_units

    return Source("LEAF's JSON", form, leaf_units(files, form, convert))


def _tables(request: Request, path: Path, *suffixes: str) -> list[Path]:
    """The tables at that path: a file, or those in a folder and below it, by name."""
    files = [path] if path.is_file() else sorted(path.rglob("*"))
    tables = [file for file in files if file.suffix in suffixes and file.is_file()]
    if tables:
        from turbosvm.data.sources.tables import refuse_bomb

        for table in tables:
            refuse_bomb(table, request.allow_large)
    return tables


def _nothing_there(request: Request, forms: str) -> TurboSVMError:
    return TurboSVMError(f"'{request.place}' does not hold {request.task} in any form that is known: {forms}.")


@contextmanager
def _needing_extras() -> Iterator[None]:
    """Say how to get a library that only the readers need."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise TurboSVMError(
            f"Reading these files needs the package {error.name}, which is not installed: pip install 'turbosvm[data]'."
        ) from error
