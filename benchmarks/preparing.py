"""How fast data is prepared, and in how much memory.

python benchmarks/preparing.py parquet       # FEMNIST as the hub has it, images a second
python benchmarks/preparing.py json 2.0      # one LEAF JSON file of that many GB: MB a second, and the peak of memory
python benchmarks/preparing.py parquet PATH  # files of your own
python benchmarks/preparing.py open 1000000  # a set of that many users, opened the first time and again

Images are the built-in glyphs, so that nothing has to be fetched.
"""

import io
import json
import os
import re
import sys
import tempfile
from pathlib import Path
from time import perf_counter, sleep

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image

from turbosvm.data import glyphs, store
from turbosvm.data.federated import FederatedData
from turbosvm.data.preparation.prepare import prepare
from turbosvm.data.sources.femnist import HUB_IMAGE
from turbosvm.data.sources.images import decode
from turbosvm.data.sources.request import Request
from turbosvm.data.verified import SETTLED

REPEATS = 5


def parquet(path: Path, folder: Path) -> None:
    """Prepare the same files several times, and decode their images one by one for comparison."""
    for repeat in range(REPEATS):
        began = perf_counter()
        done = prepare(Request("femnist", str(path)), folder / f"set-{repeat}")
        seconds = perf_counter() - began
        samples = store.read_manifest(done.folder).about["counts"]["samples"]
        note = ", compiling included" if repeat == 0 else ""
        print(f"{samples:,} images prepared in {seconds:.2f} s, {samples / seconds:,.0f} images/s{note}")
    file = next(iter([path] if path.is_file() else path.rglob("*.parquet")))
    images = pq.read_table(file, columns=["image"])["image"].combine_chunks().field("bytes").to_pylist()[:10_000]
    began = perf_counter()
    for image in images:
        decode(image, HUB_IMAGE)
    print(f"Pillow alone, one image after another: {len(images) / (perf_counter() - began):,.0f} images/s")


def write_parquet(file: Path) -> Path:
    """Write 50,000 glyphs or so in the manner of the hub's FEMNIST."""
    data = glyphs.load(glyphs.GlyphOptions(users=240, samples_per_user=210))
    users = np.repeat(data.users, data.counts)
    images = []
    for image in data.inputs:
        stream = io.BytesIO()
        Image.fromarray(np.asarray(image)[0]).save(stream, "PNG")
        images.append({"bytes": stream.getvalue(), "path": None})
    labels = pa.array(np.asarray(data.labels, dtype=np.int64))
    table = {"image": images, "writer_id": users, "hsf_id": np.zeros(len(users), dtype=np.int64), "character": labels}
    pq.write_table(pa.table(table), file)
    return file


def one_json(gigabytes: float, folder: Path) -> None:
    """Prepare one large file, and tell the most memory that the process ever had."""
    file = folder / "all_data.json"
    write_json(file, gigabytes * 1e9)
    before = peak_memory()
    began = perf_counter()
    done = prepare(Request("femnist", str(file)), folder / "set")
    seconds, size = perf_counter() - began, file.stat().st_size
    peak = peak_memory()
    samples = store.read_manifest(done.folder).about["counts"]["samples"]
    print(f"{size / 1e9:.2f} GB, {samples:,} images in {seconds:.1f} s: {size / 1e6 / seconds:.0f} MB/s")
    print(f"resident memory at most {peak:.0f} MiB, {before:.0f} MiB of it before the file was opened")


def peak_memory() -> float:
    """The most resident memory of this process so far, in MiB (Linux)."""
    found = re.search(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text())
    return int(found[1]) / 1024 if found else float("nan")


def write_json(file: Path, size: float) -> None:
    """Write a LEAF file, user by user."""
    data = glyphs.load(glyphs.GlyphOptions())
    texts = [json.dumps((np.asarray(image).ravel() / 255).tolist()) for image in data.inputs[:300]]
    each = 227
    users = max(int(size / (each * np.mean([len(text) for text in texts]))), 1)
    names = [f"user-{user:05d}" for user in range(users)]
    rng = np.random.default_rng(0)
    with file.open("w") as stream:
        stream.write(f'{{"users": {json.dumps(names)}, "num_samples": {[each] * users}, "user_data": {{')
        for user, name in enumerate(names):
            chosen = rng.integers(0, len(texts), each)
            x, y = ", ".join(texts[place] for place in chosen), data.labels[chosen].tolist()
            stream.write(f'{", " if user else ""}"{name}": {{"x": [{x}], "y": {y}}}')
        stream.write("}}")


def opened(users: int, folder: Path) -> None:
    """Open a set of many users with four small images each; the first time, all of it is verified."""
    os.environ["TURBOSVM_CACHE"] = str(folder / "cache")
    rng, count = np.random.default_rng(0), 4 * users
    data = FederatedData(
        name="crowd",
        inputs=rng.integers(0, 256, (count, 1, 14, 14), dtype=np.uint8),
        labels=(np.arange(count) % 10).astype(np.uint8),
        offsets=4 * np.arange(users + 1),
        users=tuple(f"user-{user:07}" for user in range(users)),
        classes=tuple(map(str, range(10))),
    )
    store.save(data, folder / "set")
    sleep(2 * SETTLED / 1e9)
    size = sum(file.stat().st_size for file in (folder / "set").iterdir())
    print(f"{users:,} users, {count:,} samples, {size / 1e6:,.0f} MB")
    for repeat in range(REPEATS):
        began = perf_counter()
        store.load(folder / "set")
        seconds = perf_counter() - began
        print(f"opened in {seconds:.2f} s" + (f", verified at {size / 1e6 / seconds:,.0f} MB/s" if not repeat else ""))


def main() -> None:
    what, *rest = sys.argv[1:] or [""]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if what == "parquet":
            parquet(Path(rest[0]) if rest else write_parquet(folder / "train-00000-of-00001.parquet"), folder)
        elif what == "json":
            one_json(float(rest[0]) if rest else 2.0, folder)
        elif what == "open":
            opened(int(rest[0]) if rest else 10**6, folder)
        else:
            print(__doc__)
    print(f"{os.cpu_count()} cores")


if __name__ == "__main__":
    main()
