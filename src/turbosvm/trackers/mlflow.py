"""MLflow: a run in the store that MLFLOW_TRACKING_URI names, or in `mlflow.db` beside the runs."""

import os
from contextlib import AbstractContextManager, nullcontext, suppress
from importlib import import_module
from pathlib import Path
from time import time
from typing import Any

from filelock import FileLock

from turbosvm.errors import TurboSVMError
from turbosvm.trackers.same_run import keep_id, known_id
from turbosvm.trackers.scalars import flatten, scalars
from turbosvm.trackers.tracker import Status, TrackedRun

STATUS = {"finished": "FINISHED", "interrupted": "KILLED", "stopped": "FAILED", "failed": "FAILED"}
EVERY_ROUND = "training/clients"
MOST_PARAMETERS, MOST_METRICS = 100, 1000
SECONDS_BETWEEN = 1.0


class MLflow:
    """Logs parameters, metrics and files to an experiment that is called as the data."""

    def __init__(self, store: Path | None) -> None:
        os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
        os.environ.setdefault("MLFLOW_LOGGING_LEVEL", "WARNING")
        from mlflow import MlflowClient, entities
        from mlflow.exceptions import MlflowException

        address = os.environ.get("MLFLOW_TRACKING_URI")
        local = None if address or store is None else store.resolve()
        if not address and local is None:
            raise TurboSVMError(
                "The tracker 'mlflow' needs a place: say where the run goes (out=...), or set MLFLOW_TRACKING_URI."
            )
        for package in ("alembic", "sqlalchemy") if local else ():
            import_module(package)
        self._address = address or f"sqlite:///{local}/mlflow.db"
        self._open, self._entities, self._local, self._error = MlflowClient, entities, local, MlflowException

    def begin(self, run: TrackedRun) -> None:
        """Make a run, or go on with the one that was begun in this folder."""
        self._folder = run.folder
        with self._alone():
            self._client = self._open(self._address)
            experiment = self._experiment(run.data)
        before = known_id(run, "mlflow")
        known = before if run.resumed_from else None
        if before and not known:
            self._leave(before)
        self._id = known or self._client.create_run(experiment, run_name=run.name).info.run_id
        self._done, self._waiting, self._sent = self._last_round(), list[Any](), time()
        if known:
            self._client.update_run(known, status="RUNNING")
            if "stopped" in self._client.get_run(known).data.tags:
                self._client.delete_tag(known, "stopped")
        else:
            self._describe(run)

    def record(self, record: dict[str, Any]) -> None:
        """Log a round's numbers, once a second, unless they were logged before the run was resumed."""
        if record["round"] <= self._done:
            return
        now = time()
        self._waiting += [
            self._entities.Metric(name, value, int(now * 1000), record["round"])
            for name, value in scalars(record).items()
        ]
        if now > self._sent + SECONDS_BETWEEN:
            self._send()
            self._sent = now

    def end(self, status: Status, summary: dict[str, Any]) -> None:
        """Log what waits, and config and model as artifacts; close the run."""
        self._send()
        if "stopped" in summary:
            self._client.set_tag(self._id, "stopped", summary["stopped"])
        for name in ("config.yaml", "model.safetensors"):
            if self._folder and (self._folder / name).is_file():
                self._client.log_artifact(self._id, str(self._folder / name))
        self._client.set_terminated(self._id, STATUS[status])

    def _leave(self, run_id: str) -> None:
        """Close a run that was killed, and now begins again as another one; the store may be another one, too."""
        with suppress(self._error):
            if self._client.get_run(run_id).info.status == "RUNNING":
                self._client.set_terminated(run_id, STATUS["interrupted"])

    def _send(self) -> None:
        """Log the metrics that wait."""
        for first in range(0, len(self._waiting), MOST_METRICS):
            self._client.log_batch(self._id, metrics=self._waiting[first : first + MOST_METRICS])
        self._waiting = []

    def _describe(self, run: TrackedRun) -> None:
        """Log the config, and write down the new run's id."""
        parameters = [self._entities.Param(key, str(value)) for key, value in flatten(run.config).items()]
        for first in range(0, len(parameters), MOST_PARAMETERS):
            self._client.log_batch(self._id, params=parameters[first : first + MOST_PARAMETERS])
        if run.folder:
            self._client.set_tag(self._id, "folder", str(run.folder.resolve()))
        keep_id(run, "mlflow", self._id)

    def _alone(self) -> AbstractContextManager[object]:
        """Let one process at a time make a local store's tables and experiments."""
        return FileLock(self._local / ".mlflow.lock") if self._local else nullcontext()

    def _experiment(self, name: str) -> str:
        """Return the id of the experiment of that name, which is made if need be."""
        if known := self._client.get_experiment_by_name(name):
            return str(known.experiment_id)
        place = (self._local / "mlartifacts").as_uri() if self._local else None
        return str(self._client.create_experiment(name, place))

    def _last_round(self) -> int:
        """Return the last round that the store has heard of."""
        return max((metric.step for metric in self._client.get_metric_history(self._id, EVERY_ROUND)), default=0)
