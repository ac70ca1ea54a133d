"""A run's folder: config.yaml, environment.json, records.jsonl (a line a round), model.safetensors; stopped.txt.

Records are JSON lines, written as each round ends: `pandas.read_json("records.jsonl", lines=True)` reads them, also
while the run goes on or after it was killed.
"""

import json
import math
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from safetensors.torch import save as to_safetensors
from torch import nn

from turbosvm.files import cannot_write, new_folder, write_atomically
from turbosvm.simulation import Round

Record = dict[str, Any]


class RunFolder:
    """A new folder under `root` that one run writes into."""

    def __init__(self, root: Path, name: str) -> None:
        self.path = new_folder(root, name)
        with cannot_write("records in", self.path):
            self._records = (self.path / "records.jsonl").open("w")

    def write(self, name: str, content: str) -> None:
        """Write a text file of the run."""
        write_atomically(self.path / name, content)

    def append(self, record: Record) -> None:
        """Add a round's record; it is in the file when this returns."""
        with cannot_write("records in", self.path):
            self._records.write(json.dumps(record, allow_nan=False) + "\n")
            self._records.flush()

    def close(self, model: nn.Module | None) -> None:
        """Close the records, and save the model that the run ended with as `load_state_dict` takes it."""
        with suppress(OSError):  # every record was written when it was appended, or complained of then
            self._records.close()
        if model is not None:
            tensors = {name: value.cpu().clone().contiguous() for name, value in model.state_dict().items()}
            write_atomically(self.path / "model.safetensors", to_safetensors(tensors))


def record_of(finished: Round, users: Sequence[str]) -> Record:
    """Flatten a round into one row; numbers that are not finite become null, so that the file stays plain JSON.

    Clients are indices of `users`, whose names stand beside those that failed.
    """
    metrics = vars(finished.metrics) if finished.metrics else {}
    row = {
        "round": finished.number,
        **metrics,
        "train_loss": finished.train_loss,
        "samples": finished.samples,
        "bytes_down": finished.bytes_down,
        "bytes_up": finished.bytes_up,
        **finished.diagnostics,
        **{f"seconds_{phase}": round(seconds, 6) for phase, seconds in finished.seconds.items()},
        "cohort": list(finished.cohort),
        "failures": [
            {"client": client, "user": users[client] if client >= 0 else "", "why": why}
            for client, why in finished.failures
        ],
        "failed": finished.failed,
    }
    return {key: _plain(value) for key, value in row.items()}


def _plain(value: Any) -> Any:
    """Replace what JSON has no word for, in a number or a list of them."""
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
