"""What a person sees while a sweep goes on: a bar for all of it, one for each run at work, a line when one ends."""

from collections.abc import Sequence
from pathlib import Path
from time import perf_counter
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from turbosvm.cli.progress import OnRecord
from turbosvm.experiment.folder import last_record
from turbosvm.experiment.sweep import Ended, Planned

QUIET_SECONDS = 30.0
"""Between two lines in a log that say how far all of it is."""


class SweepDisplay:
    """Follows runs by what they write, so that it does not matter who carries them out."""

    def __init__(self, runs: Sequence[Planned], console: Console) -> None:
        self._console, self._live = console, console.is_terminal
        self._runs = {run.path: run for run in runs}
        self._seen: dict[Path, tuple[int, int]] = {}  # the size of its records when last looked at, and its round
        self._tasks: dict[Path, TaskID] = {}
        self._counts = {"done": 0, "failed": 0}
        self._total, self._told = sum(run.config.rounds for run in runs), perf_counter()
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            TextColumn("{task.percentage:3.0f} %"),
            TextColumn("{task.fields[news]}"),
            TimeRemainingColumn(),
            console=console,
            disable=not self._live,
        )
        self._whole = self._progress.add_task("all runs", total=self._total, news="")

    def __enter__(self) -> "SweepDisplay":
        self._progress.start()
        self.look()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def watch(self, path: Path) -> OnRecord:
        """Return what a run of this process calls after each round."""

        def on_record(record: dict[str, Any]) -> None:
            self._show(path, record)
            self._tell()

        return on_record

    def look(self) -> None:
        """See how far the runs are that others carry out."""
        for path in self._runs:
            records = path / "records.jsonl"
            size = records.stat().st_size if records.exists() else 0
            if size != self._seen.get(path, (0, 0))[0] and (record := last_record(path)):
                self._show(path, record, size)
        self._tell()

    def end(self, ended: Ended) -> None:
        """Take note of a run that has ended."""
        if ended.interrupted:
            return
        self._counts["failed" if ended.failed else "done"] += 1
        if task := self._tasks.pop(ended.path, None):
            self._progress.remove_task(task)
        last = last_record(ended.path) or {}
        accuracy = last.get("accuracy")
        how = f"accuracy {accuracy:.1%} after round {last['round']}" if accuracy is not None else "done"
        self._console.print(
            f"{ended.path.name}: {f'failed: {ended.failed}' if ended.failed else how}",
            markup=False,
            highlight=False,
            soft_wrap=True,
        )

    def _show(self, path: Path, record: dict[str, Any], size: int = 0) -> None:
        run, number = self._runs[path], int(record["round"])
        self._seen[path] = size, number
        accuracy = record.get("accuracy")
        news = f"round {number}/{run.config.rounds}" + (f"  accuracy {accuracy:.1%}" if accuracy is not None else "")
        if path not in self._tasks:
            self._tasks[path] = self._progress.add_task(run.label, total=run.config.rounds, news=news)
        self._progress.update(self._tasks[path], completed=number, news=news)
        self._progress.update(self._whole, completed=self._rounds_done, news=self._sum)

    @property
    def _rounds_done(self) -> int:
        return sum(number for _, number in self._seen.values())

    @property
    def _sum(self) -> str:
        failed = f", {self._counts['failed']} failed" if self._counts["failed"] else ""
        return f"{self._counts['done']}/{len(self._runs)} runs done{failed}"

    def _tell(self) -> None:
        if not self._live and perf_counter() - self._told >= QUIET_SECONDS:
            self._told = perf_counter()
            share = self._rounds_done / self._total
            self._console.print(f"{self._sum}, {share:.0%} of all rounds", highlight=False, soft_wrap=True)
