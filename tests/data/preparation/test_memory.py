"""Memory stays flat however large the source is."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

CODE = r"""
import re, sys
from pathlib import Path
from turbosvm.data.preparation.prepare import prepare
from turbosvm.data.sources.request import Request

def peak():
    return re.search(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text())[1]

before = peak()
prepare(Request("femnist", sys.argv[1]), Path(sys.argv[1] + "-out"))
print(before, peak())
"""


def write_large(file: Path, users: int, each: int) -> None:
    """A LEAF file whose user_data is written bit by bit."""
    rng = np.random.default_rng(0)
    rows = [json.dumps((rng.integers(0, 256, 784) / 255).tolist()) for _ in range(20)]
    names = [f"user-{user}" for user in range(users)]
    with file.open("w") as stream:
        stream.write(f'{{"users": {json.dumps(names)}, "num_samples": {[each] * users}, "user_data": {{')
        for user, name in enumerate(names):
            x = ", ".join(rows[(user + place) % 20] for place in range(each))
            stream.write(f'{", " if user else ""}"{name}": {{"x": [{x}], "y": {[user % 62] * each}}}')
        stream.write("}}")


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="asks Linux")
def test_a_large_json_takes_little_memory(tmp_path: Path) -> None:
    write_large(tmp_path / "a.json", users=60, each=200)
    size = (tmp_path / "a.json").stat().st_size
    assert size > 150e6
    ran = subprocess.run(
        [sys.executable, "-c", CODE, str(tmp_path / "a.json")], capture_output=True, text=True, check=True
    )
    before, most = (1024 * int(number) for number in ran.stdout.split())
    assert most - before < 100e6  # one user, the buffer of samples, and the libraries of the reader
    assert most < 600e6
