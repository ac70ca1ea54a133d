"""Weights & Biases: offline, in the run's folder, unless its own variables say otherwise."""

import os
from pathlib import Path
from shutil import copy
from typing import Any

from turbosvm.errors import TurboSVMError
from turbosvm.trackers.same_run import keep_id, known_id
from turbosvm.trackers.scalars import flatten, scalars
from turbosvm.trackers.tracker import Status, TrackedRun


class WandB:
    """Logs config, metrics and files to a run of the project 'turbosvm', grouped by the data's name."""

    def __init__(self, store: Path | None) -> None:
        os.environ.setdefault("WANDB_ERROR_REPORTING", "false")
        import wandb

        if store is None and "WANDB_DIR" not in os.environ:
            raise TurboSVMError(
                "The tracker 'wandb' needs a place: say where the run goes (out=...), or set WANDB_DIR."
            )
        self._wandb: Any = wandb

    def begin(self, run: TrackedRun) -> None:
        """Make a run, or go on with the one that was begun in this folder."""
        self._folder = run.folder.resolve() if run.folder else None
        known = known_id(run, "wandb") if run.resumed_from else None  # its server takes no step a second time
        self._run = self._wandb.init(
            id=known,
            resume="allow" if known else None,
            name=run.name,
            config=flatten(run.config),
            dir=os.environ.get("WANDB_DIR", self._folder),
            mode=os.environ.get("WANDB_MODE", "offline"),
            project=os.environ.get("WANDB_PROJECT", "turbosvm"),
            group=os.environ.get("WANDB_RUN_GROUP", run.data),
            reinit="create_new",
            settings=self._wandb.Settings(silent=True, console="off"),
        )
        keep_id(run, "wandb", self._run.id)

    def record(self, record: dict[str, Any]) -> None:
        """Log a round's numbers."""
        self._run.log(scalars(record), step=record["round"])

    def end(self, status: Status, summary: dict[str, Any]) -> None:
        """Save copies of config and model with the run, and close it."""
        self._run.summary.update({"status": status, **summary})
        for name in ("config.yaml", "model.safetensors"):
            if self._folder and (self._folder / name).is_file():
                self._save(self._folder / name)
        self._run.finish(exit_code=0 if status == "finished" else 1)

    def _save(self, file: Path) -> None:
        """Copy a file into the run's own files, in a folder where nothing of W&B's has the same name."""
        folder = Path(self._run.dir) / "turbosvm"
        folder.mkdir(exist_ok=True)
        copy(file, folder)
        self._run.save(str(folder / file.name), base_path=self._run.dir, policy="end")
