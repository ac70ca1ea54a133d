"""TensorBoard: event files in the run's folder, so that `tensorboard --logdir runs` shows all runs side by side."""

from pathlib import Path
from typing import Any

from turbosvm.errors import TurboSVMError
from turbosvm.trackers.scalars import EVALUATED, flatten, scalars, tag
from turbosvm.trackers.tracker import Status, TrackedRun

FLUSH_SECONDS = 5


class TensorBoard:
    """Writes a curve for each number of the records, and the config as hyperparameters."""

    def __init__(self, store: Path | None) -> None:
        from torch.utils import tensorboard
        from torch.utils.tensorboard import summary

        if store is None:
            raise TurboSVMError(
                "The tracker 'tensorboard' writes into the run's folder; say where that goes (out=...)."
            )
        self._tensorboard: Any = tensorboard
        self._hparams: Any = summary.hparams

    def begin(self, run: TrackedRun) -> None:
        """Open an event file; what earlier ones in the folder say of the rounds to come is taken back."""
        purge = run.resumed_from + 1
        self._writer = self._tensorboard.SummaryWriter(str(run.folder), purge_step=purge, flush_secs=FLUSH_SECONDS)
        experiment, start, self._end = self._hparams(flatten(run.config), dict.fromkeys(map(tag, EVALUATED), 0.0))
        self._writer.file_writer.add_summary(experiment)
        self._writer.file_writer.add_summary(start)

    def record(self, record: dict[str, Any]) -> None:
        """Add a point to each curve."""
        for name, value in scalars(record).items():
            self._writer.add_scalar(name, value, record["round"])

    def end(self, status: Status, summary: dict[str, Any]) -> None:
        """Close the event file, with the reason if the run was stopped."""
        if "stopped" in summary:
            self._writer.add_text("stopped", summary["stopped"], summary["rounds"])
        if status == "finished":
            self._writer.file_writer.add_summary(self._end)
        self._writer.close()
