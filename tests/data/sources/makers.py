"""Small files in the formats that people hold, and what is in them."""

import io
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
from PIL import Image

from turbosvm.data.sources.femnist import CLASSES as CHARACTERS

Images = npt.NDArray[np.uint8]
Samples = dict[str, tuple[Images, list[int]]]


def writers(users: int = 4, seed: int = 0) -> Samples:
    """Images `[n, 28, 28]` and labels of some writers; writer u has u + 2 samples."""
    rng = np.random.default_rng(seed)
    return {
        f"f{user:04d}_00": (
            rng.integers(0, 256, size=(user + 2, 28, 28), dtype=np.uint8),
            rng.integers(0, 62, size=user + 2).tolist(),
        )
        for user in range(users)
    }


def leaf_content(samples: Mapping[str, tuple[Sequence[Any], Sequence[Any]]]) -> dict[str, Any]:
    """What LEAF puts into one JSON file."""
    return {
        "users": list(samples),
        "num_samples": [len(y) for _, y in samples.values()],
        "user_data": {user: {"x": list(x), "y": list(y)} for user, (x, y) in samples.items()},
    }


def pixels(images: Images) -> list[list[float]]:
    """Greys as LEAF writes them."""
    return (images.reshape(len(images), -1) / 255).tolist()  # type: ignore[no-any-return]


def write_leaf(file: Path, samples: Samples) -> Path:
    """FEMNIST as LEAF's JSON."""
    content = leaf_content({user: (pixels(images), labels) for user, (images, labels) in samples.items()})
    return write_json(file, content)


def write_json(file: Path, content: Any) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(content))
    return file


def encoded(image: npt.NDArray[Any], kind: str = "PNG") -> bytes:
    """An image as a file's bytes."""
    stream = io.BytesIO()
    Image.fromarray(image).save(stream, kind)
    return stream.getvalue()


def write_hub_femnist(file: Path, rows: Iterable[tuple[str, bytes | None, int]]) -> Path:
    """FEMNIST as the hub's Parquet, row by row: writer, encoded image, character."""
    users, images, labels = zip(*rows, strict=True)
    table = pa.table(
        {
            "image": pa.array([{"bytes": image, "path": None} for image in images], IMAGE),
            "writer_id": list(users),
            "hsf_id": [0] * len(users),
            "character": pa.array(labels, pa.int64()),
        }
    )
    file.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, file)
    return file


IMAGE = pa.struct([("bytes", pa.binary()), ("path", pa.string())])


def hub_rows(samples: Samples) -> list[tuple[str, bytes | None, int]]:
    return [
        (user, encoded(image), label)
        for user, (images, labels) in samples.items()
        for image, label in zip(images, labels, strict=True)
    ]


def write_nist(root: Path, samples: Samples) -> Path:
    """NIST's folders by_write and by_class; images of 128 x 128."""
    for user, (images, labels) in samples.items():
        for place, (image, label) in enumerate(zip(images, labels, strict=True)):
            content = encoded(np.kron(image, np.ones((5, 5), dtype=np.uint8))[:128, :128])
            name = f"{user}_{place:05d}.png"
            for folder in (
                root / "by_write" / "hsf_0" / user / f"c{user[1:]}",
                root / "by_class" / f"{ord(CHARACTERS[label]):x}" / "hsf_0",
            ):
                folder.mkdir(parents=True, exist_ok=True)
                (folder / name).write_bytes(content)
    return root


def faces(users: int = 3, each: int = 6, seed: int = 0) -> dict[str, list[tuple[str, Images, bool]]]:
    """Names, images `[84, 84, 3]` and smiles of some celebrities."""
    rng = np.random.default_rng(seed)
    return {
        str(100 + user): [
            (f"{user * each + place:06d}.png", rng.integers(0, 256, (84, 84, 3), dtype=np.uint8), bool(rng.integers(2)))
            for place in range(each)
        ]
        for user in range(users)
    }


def write_celeba(root: Path, album: Mapping[str, Sequence[tuple[str, Images, bool]]]) -> Path:
    """CelebA's own three items; images are lossless, so that pixels can be compared."""
    (root / "img_align_celeba").mkdir(parents=True, exist_ok=True)
    identities, attributes = [], []
    for celebrity, pictures in album.items():
        for name, image, smiles in pictures:
            (root / "img_align_celeba" / name).write_bytes(encoded(image))
            identities.append(f"{name} {celebrity}")
            attributes.append(f"{name}  {1 if not smiles else -1} {1 if smiles else -1}")
    (root / "identity_CelebA.txt").write_text("\n".join(identities) + "\n")
    header = [str(len(attributes)), "Serious Smiling"]
    (root / "list_attr_celeba.txt").write_text("\n".join([*header, *attributes]) + "\n")
    return root


def windows_of(text: str, length: int = 80) -> list[tuple[str, str]]:
    """Every window of a text, and the character after it."""
    return [(text[at : at + length], text[at + length]) for at in range(len(text) - length)]


SPEECHES = {
    "KITCHEN_COOK": "The soup is nearly done; fetch me the salt, the large spoon, and whoever ate the carrots! ",
    "KITCHEN_BOY": "It was the cat, I think. She sat there, she looked at me (twice), and there were no carrots left. ",
}


def write_hub_text(file: Path, rows: Sequence[tuple[str, str, str]]) -> Path:
    """Shakespeare as the hub's CSV, row by row: user, 80 characters, the next one."""
    users, before, after = zip(*rows, strict=True)
    pacsv.write_csv(pa.table({"character_id": list(users), "x": list(before), "y": list(after)}), file)
    return file
