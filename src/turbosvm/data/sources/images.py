"""From image files to uint8 arrays, with a sentence for each one that is not what it should be."""

import io
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from PIL import Image, UnidentifiedImageError

from turbosvm.cores import usable_cores
from turbosvm.data.sources.png import decode_grey

Images = npt.NDArray[np.uint8]

FORMATS = ("PNG", "JPEG", "BMP", "WEBP")
MODES = ("1", "L", "LA", "P", "RGB", "RGBA", "CMYK", "YCbCr")
MOST_PIXELS = 4096 * 4096
MOST_IN_A_FILE = 2**26
THREADS = min(usable_cores(), 16)


@dataclass(frozen=True)
class ImageRule:
    """What images must be, and what becomes of them.

    Args:
        sizes: the (width, height) that are accepted; empty for any.
        target: the (width, height) that they are brought to; None leaves them as they are.
        colour: three channels, or one; None keeps greys as one channel, and makes three of everything else.
        resampling: Pillow's filter for bringing them to the target.
    """

    sizes: tuple[tuple[int, int], ...]
    target: tuple[int, int] | None
    colour: bool | None
    resampling: Image.Resampling = Image.Resampling.BICUBIC


def decode_all(files: Sequence[bytes | None], rule: ImageRule) -> list[Images | str]:
    """Decode images to `[channels, height, width]`; a text says why one could not be."""
    found: list[Images | str] = [""] * len(files)
    left = list(range(len(files)))
    if not rule.colour and len(rule.sizes) == 1 and rule.target in (None, rule.sizes[0]):
        ((width, height),) = rule.sizes
        images, plain = decode_grey(files, height, width)
        for place in np.flatnonzero(plain).tolist():
            found[place] = images[place][None]
        left = [place for place in left if not plain[place]]
    for place, image in zip(left, decode_each([files[place] for place in left], rule), strict=True):
        found[place] = image
    return found


def decode(file: bytes | None, rule: ImageRule) -> Images | str:
    """Decode one image to `[channels, height, width]`, or say why not."""
    if not file:
        return "has no image"
    try:
        with Image.open(io.BytesIO(file), formats=FORMATS) as image:
            if rule.sizes and image.size not in rule.sizes:
                expected = " or ".join(f"{width} x {height}" for width, height in rule.sizes)
                return f"has an image of {image.width} x {image.height} pixels, not {expected}"
            if image.width * image.height > MOST_PIXELS:
                return f"has an image of {image.width} x {image.height} pixels, which is too large"
            if image.mode not in MODES:
                return f"has an image of kind {image.mode}; it must have 8 bits a channel"
            colour = rule.colour if rule.colour is not None else image.mode not in ("1", "L", "LA")
            pixels = _on_paper(image).convert("RGB" if colour else "L")
            if rule.target and pixels.size != rule.target:
                pixels = pixels.resize(rule.target, rule.resampling)
    except UnidentifiedImageError:
        return f"has an image that is not one of {', '.join(FORMATS)}"
    except Exception as error:  # decoders meet broken files with errors of any kind
        return f"has an image that cannot be decoded ({type(error).__name__})"
    array = np.asarray(pixels)
    return array.transpose(2, 0, 1) if colour else array[None]


def _on_paper(image: Image.Image) -> Image.Image:
    """Lay an image that can be seen through on white."""
    if not image.has_transparency_data:
        return image
    paper = Image.new("RGBA", image.size, "white")
    paper.alpha_composite(image.convert("RGBA"))
    return paper


def decode_each(files: Sequence[bytes | None], rule: ImageRule) -> list[Images | str]:
    """Decode images one by one, several at a time."""
    with ThreadPoolExecutor(THREADS) as pool:
        return list(pool.map(lambda file: decode(file, rule), files))
