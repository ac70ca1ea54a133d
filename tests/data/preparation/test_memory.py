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
    return int(re.search(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text())[1])

peaks = []
for file in sys.argv[1:]:
    prepare(Request("femnist", file), Path(file + "-out"))
    peaks.append(peak())
print(*(1024 * kibibytes for kibibytes in peaks))
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
def test_a_large_json_takes_no_more_memory_than_a_small_one(tmp_path: Path) -> None:
    small, large = tmp_path / "small.json", tmp_path / "large.json"
    write_large(small, users=12, each=200)  # first, as whatever comes first may have to compile loops
    write_large(large, users=60, each=200)
    assert large.stat().st_size - small.stat().st_size > 120e6
    command = [sys.executable, "-c", CODE, str(small), str(large)]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    before, most = map(int, ran.stdout.split())
    assert most - before < 40e6
    assert most < 600e6
