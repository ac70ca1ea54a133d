"""Small data and models that train in milliseconds."""

import signal
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import settings
from torch import Tensor, nn

from turbosvm.cli.main import main
from turbosvm.data.federated import FederatedData

settings.register_profile("the same every time", derandomize=True, database=None, deadline=None)
settings.load_profile("the same every time")
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # begun in the background: commands would inherit that
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the tests out of the person's cache; glyphs made by one test serve the next."""
    monkeypatch.setenv("TURBOSVM_CACHE", str(tmp_path_factory.getbasetemp() / "cache"))


@pytest.fixture(autouse=True)
def _in_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


class TinyNet(nn.Module):
    """Four inputs, three classes."""

    head_name = "head"

    def __init__(self, bias: bool = True) -> None:
        super().__init__()
        self.body = nn.Linear(4, 5)
        self.head = nn.Linear(5, 3, bias=bias)

    def forward(self, inputs: Tensor) -> Tensor:
        return self.head(self.body(inputs).relu())  # type: ignore[no-any-return]


def tiny_net(seed: int = 0, bias: bool = True) -> TinyNet:
    """A TinyNet with weights that depend on the seed only."""
    with torch.random.fork_rng():  # its constructor draws from the global generator
        net = TinyNet(bias)
    rng = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.uniform_(-0.5, 0.5, generator=rng)
    return net


def blobs() -> FederatedData:
    """Twenty users of three classes, blobs that a linear model can tell apart; each user has 6 to 12 samples."""
    rng = np.random.default_rng(7)
    centres = rng.normal(size=(3, 4)) * 4
    samples = {}
    for user in range(20):
        labels = rng.integers(0, 3, size=rng.integers(6, 13))
        samples[f"user-{user}"] = ((centres[labels] + rng.normal(size=(len(labels), 4))).astype(np.float32), labels)
    return FederatedData.from_users(samples, classes=3, name="blobs")


@pytest.fixture
def tiny_data() -> FederatedData:
    """The same for tests."""
    return blobs()


Note = Callable[[str, object], None]
"""What a test that tries many cases is given to say how many: pytest's `record_property`."""


def turbosvm(*arguments: str) -> int:
    """Call the command in this process; return its exit status."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["turbosvm", *arguments])
        try:
            main()
        except SystemExit as end:
            return int(end.code or 0)
    return 0
