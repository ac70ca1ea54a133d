"""What a person sees while a sweep goes on: a bar for all of it, one for each run at work, a line when one ends."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from time import perf_counter
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from turbosvm.cli.progress import OnRecord
from turbosvm.cli.terminal import in_words, say
from turbosvm.experiment.recorded import last_record
from turbosvm.experiment.sweep import Ended, Planned
from turbosvm.run_files import RECORDS
from turbosvm.visible import visible

QUIET_SECONDS = 30.0
"""Between two lines in a log that say how far all of it is; the first comes after a third of it."""
MOST_NAMED = 3
"""How many of the runs at work such a line names."""


class SweepDisplay:
    """Follows runs by what they write, so that it does not matter who carries them out."""

    def __init__(self, runs: Sequence[Planned], done: int, labels: Mapping[Path, str], console: Console) -> None:
        """Follow the runs that are left, beside those that were done before."""
        self._console, self._live = console, console.is_terminal
        self._runs, self._labels = {run.path: run for run in runs}, labels
        self._seen: dict[Path, tuple[int, int]] = {}  # the size of its records when last looked at, and its round
        self._tasks: dict[Path, TaskID] = {}
        self._counts, self._all = {"done": done, "failed": 0}, done + len(runs)
        self._total = sum(run.config.rounds for run in runs)
        self._told = perf_counter() - QUIET_SECONDS * 2 / 3
        self._first: tuple[float, int] | None = None  # when the first new round was seen, and how many there were then
        self._progress = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=24),
            TextColumn("{task.percentage:3.0f} %"),
            TextColumn("{task.fields[news]}", markup=False),
            TimeRemainingColumn(),
            console=console,
            disable=not self._live,
        )
        self._whole = self._progress.add_task("all runs", total=self._total, news="")

    def __enter__(self) -> "SweepDisplay":
        self._progress.start()
        for path in self._runs:  # those that were stopped go on when it is their turn
            if record := last_record(path):
                self._seen[path] = (path / RECORDS).stat().st_size, int(record["round"])
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
            records = path / RECORDS
            size = records.stat().st_size if records.exists() else 0
            if size != self._seen.get(path, (0, 0))[0] and (record := last_record(path)):
                self._show(path, record, size)
        self._tell()

    def end(self, ended: Ended) -> None:
        """Take note of a run that has ended."""
        if ended.interrupted:
            return
        self._counts["failed" if ended.failed else "done"] += 1
        if ended.failed:  # the rest of its rounds will not come
            self._total -= self._runs[ended.path].config.rounds - self._seen.get(ended.path, (0, 0))[1]
            self._progress.update(self._whole, total=self._total)
        if task := self._tasks.pop(ended.path, None):
            self._progress.remove_task(task)
        last = last_record(ended.path) or {}
        accuracy = last.get("accuracy")
        how = f"accuracy {accuracy:.1%} after round {last['round']}" if accuracy is not None else "done"
        say(f"{self._labels[ended.path]}: {f'failed: {ended.failed}' if ended.failed else how}", self._console)

    def _show(self, path: Path, record: dict[str, Any], size: int = 0) -> None:
        run, number = self._runs[path], int(record["round"])
        self._seen[path] = size, number
        self._first = self._first or (perf_counter(), self._rounds_done)
        accuracy = record.get("accuracy")
        news = f"round {number}/{run.config.rounds}" + (f"  accuracy {accuracy:.1%}" if accuracy is not None else "")
        if path not in self._tasks:
            self._tasks[path] = self._progress.add_task(visible(self._labels[path]), total=run.config.rounds, news=news)
        self._progress.update(self._tasks[path], completed=number, news=news)
        self._progress.update(self._whole, completed=self._rounds_done, news=self._sum)

    @property
    def _rounds_done(self) -> int:
        return sum(number for _, number in self._seen.values())

    @property
    def _sum(self) -> str:
        failed = f", {self._counts['failed']} failed" if self._counts["failed"] else ""
        return f"{self._counts['done']}/{self._all} runs done{failed}"

    def _tell(self) -> None:
        """Say in a log, now and then, how far all of it is."""
        now, done = perf_counter(), self._rounds_done
        if not self._live and now - self._told >= QUIET_SECONDS and self._first:
            self._told = now
            left = self._time_left(now, done)
            say(f"{self._sum}, {done:,} of {self._total:,} rounds{left}; at work: {self._at_work}", self._console)

    def _time_left(self, now: float, done: int) -> str:
        """From the rounds since the first new one, as the start of processes tells nothing of the rest."""
        if self._first is None or done <= self._first[1]:
            return ""
        began, before = self._first
        return f", about {in_words((now - began) / (done - before) * (self._total - done))} left"

    @property
    def _at_work(self) -> str:
        """The runs that have bars, or would have them at a terminal."""
        named = [
            f"{self._labels[path]} (round {self._seen[path][1]}/{self._runs[path].config.rounds})"
            for path in self._tasks
        ]
        more = len(named) - MOST_NAMED
        return ", ".join(named[:MOST_NAMED]) + (f" and {more} more" if more > 0 else "") if named else "none yet"
