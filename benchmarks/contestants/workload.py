"""What all contestants share: the same data, the same model, and a way to be asked for rounds.

This file needs PyTorch and NumPy alone, for peers that live in an environment of their own.
"""

import importlib.util
import json
import resource
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import numpy as np
import torch
from torch import Tensor, nn

MODELS = Path(__file__).parents[2] / "src" / "turbosvm" / "models"
CLASSES = {"femnist": "FemnistCNN", "celeba": "CelebaCNN", "shakespeare": "ShakespeareLSTM", "small": "SmallCNN"}


@dataclass(frozen=True)
class Workload:
    """C clients a round of the users in a file, each training one epoch."""

    model: str
    classes: int
    clients: int
    batch_size: int
    learning_rate: float
    device: str
    file: str

    @classmethod
    def read(cls, text: str) -> "Workload":
        """From the command line."""
        return cls(**json.loads(text))

    def module(self) -> nn.Module:
        """The model, from its file: its package, and all that it imports, is not needed."""
        torch.manual_seed(0)
        kind = getattr(_load(MODELS / f"{self.model}.py"), CLASSES[self.model])
        module: nn.Module = kind(classes=self.classes)
        return module.to(self.device)

    def users(self) -> list[tuple[Tensor, Tensor]]:
        """Each user's inputs (bytes) and labels, on the device."""
        with np.load(self.file) as stored:
            inputs, labels, offsets = (torch.from_numpy(stored[name]) for name in ("inputs", "labels", "offsets"))
        counts = offsets.diff().tolist()
        pairs = zip(inputs.split(counts), labels.split(counts), strict=True)
        return [(x.to(self.device), y.to(self.device)) for x, y in pairs]

    def as_input(self, stored: Tensor) -> Tensor:
        """What the model sees of stored bytes."""
        return stored.long() if self.model == "shakespeare" else stored / 255.0

    def cohort(self, number: int, users: int) -> list[int]:
        """Who takes part in a round; the last user, whom ours holds out, does not."""
        return [int(user) for user in np.random.default_rng(number).choice(users - 1, self.clients, replace=False)]

    def wait(self) -> None:
        """Let the device finish."""
        if self.device == "cuda":
            torch.cuda.synchronize()


def serve(rounds: Callable[[int], list[float]]) -> None:
    """Whenever a number comes in, run so many rounds; answer with the seconds of each, and the peak memory so far."""
    answers, sys.stdout = sys.stdout, sys.stderr  # what libraries print is not part of the answer
    for line in sys.stdin:
        seconds = rounds(int(line))
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        answers.write(json.dumps({"seconds": seconds, "peak_mib": peak}) + "\n")
        answers.flush()


def _load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise SystemExit(f"There is no model in {path}.")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
