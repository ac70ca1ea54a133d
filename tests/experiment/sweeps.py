"""Small sweeps for tests, with models that die or fail while a file of that name is there."""

from pathlib import Path
from typing import Any

from turbosvm.experiment.grid import Sweep, make_sweep
from turbosvm.experiment.recorded import recorded
from turbosvm.experiment.sweep import Ended, Planned, do_run, make_ready, plan_sweep

MODELS = """
import os, torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.head = torch.nn.Linear(4, 8), torch.nn.Linear(8, 3)

    def forward(self, inputs):
        return self.head(self.body(inputs).relu())

class Deadly(Net):
    def forward(self, inputs):
        if self.training and os.path.exists("deadly"):
            os.kill(os.getpid(), 9)
        return super().forward(inputs)

class Faulty(Net):
    def forward(self, inputs):
        if self.training and os.path.exists("faulty"):
            raise MemoryError("all gone")
        return super().forward(inputs)
"""


def sweep_settings(model: str) -> dict[str, Any]:
    return {
        "data": "blobs",
        "model": f"sweep_models:{model}",
        "model.head": "head",
        "rounds": 3,
        "threads": 1,
        "clients_per_round": 3,
    }


def sweep(model: str = "Net", **more: Any) -> Sweep:
    settings = {**sweep_settings(model), "evaluate_every": 1}
    return make_sweep({"set": settings, "grid": {"algorithm": ["fedavg", "turbosvm"], "seed": [0, 1]}, **more})


def planned(made: Sweep, root: Path) -> list[Planned]:
    runs = plan_sweep(made, root)
    make_ready(runs)
    return runs


TRUSTED = ("sweep_models",)


def do(run: Planned, on_record: Any = None) -> Ended:
    """Carry out a run, whose model is trusted."""
    return do_run(run.path, on_record, TRUSTED)


def unwatched(_: Path) -> Any:
    return lambda record: None


def timeless(path: Path) -> list[dict[str, Any]]:
    return [{key: value for key, value in record.items() if "seconds" not in key} for record in recorded(path)]
