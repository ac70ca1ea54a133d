"""What a person sees while rounds go by: live bars in a terminal, a line now and then in a log."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from time import perf_counter
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from turbosvm.cli.terminal import in_words, say
from turbosvm.visible import visible

OnRecord = Callable[[dict[str, Any]], None]


class RoundsDisplay:
    """A bar for each run, and one for all of them: round, accuracy, rounds per second, time left."""

    def __init__(self, rounds: Mapping[str, int], console: Console) -> None:
        self._rounds = rounds
        self._console = console
        self._live = console.is_terminal
        self._progress = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=24),
            TextColumn("round {task.completed:.0f}/{task.total:.0f}"),
            TextColumn("{task.fields[news]}", markup=False),
            TimeRemainingColumn(),
            console=console,
            disable=not self._live,
        )
        self._tasks: dict[str, TaskID] = {
            label: self._progress.add_task(visible(label), total=total, start=False, news="")
            for label, total in rounds.items()
        }
        self._whole = (
            self._progress.add_task("all runs", total=sum(rounds.values()), news="") if len(rounds) > 1 else None
        )

    def __enter__(self) -> "RoundsDisplay":
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def pass_over(self, label: str) -> None:
        """Show a run that was finished before."""
        self._progress.update(self._tasks[label], completed=self._rounds[label], news="done before")
        self._count(self._rounds[label])

    def _count(self, rounds: int) -> None:
        if self._whole is not None:
            self._progress.advance(self._whole, rounds)

    def watch(self, label: str, done: int = 0) -> OnRecord:
        """Return what a run calls after each round, given how many it has done before."""
        began, before, total = perf_counter(), done, self._rounds[label]
        task = self._tasks[label]
        self._progress.start_task(task)
        self._count(before)
        evaluated: dict[str, Any] | None = None

        def on_record(record: dict[str, Any]) -> None:
            nonlocal evaluated
            if record.get("accuracy") is not None:
                evaluated = record
            done = record["round"]
            speed = (done - before) / (perf_counter() - began)
            news = f"{_accuracy(evaluated, done)}  {speed:5.1f} rounds/s"
            self._progress.update(task, completed=done, news=news)
            self._count(1)
            if not self._live and (done == before + 1 or done % max(total // 10, 1) == 0 or done == total):
                left = (total - done) / speed
                say(f"{label}  round {done}/{total}  {news}  {in_words(left)} left", self._console)

        return on_record


def _accuracy(evaluated: Mapping[str, Any] | None, done: int) -> str:
    """The newest accuracy, and of which round it is, if not of the last."""
    if evaluated is None:
        return "accuracy    -"
    of = "" if evaluated["round"] == done else f" (round {evaluated['round']})"
    return f"accuracy {evaluated['accuracy']:6.1%}{of}"


@contextmanager
def making(what: str, console: Console) -> Iterator[Callable[[int, int], None]]:
    """Show how far the making of a data set is; nothing appears if there is nothing to make."""
    task: TaskID | None = None
    with _bar("{task.completed:.0f}/{task.total:.0f} users", console) as progress:

        def on_progress(done: int, total: int) -> None:
            nonlocal task
            if task is None:
                task = progress.add_task(visible(f"making {what}"), total=total)
                if not console.is_terminal:
                    say(f"making {what}: {total} users", console)
            progress.update(task, completed=done)

        yield on_progress


@contextmanager
def share_of(what: str, console: Console) -> Iterator[Callable[[float], None]]:
    """Show how much of something is done, as a share: a bar in a terminal, a line now and then in a log."""
    task: TaskID | None = None
    told = 0.0
    with _bar("{task.percentage:3.0f} %", console) as progress:

        def on_progress(share: float) -> None:
            nonlocal task, told
            if task is None:
                task = progress.add_task(visible(what), total=1.0)
            progress.update(task, completed=share)
            if not console.is_terminal and (share >= told + 0.1 or told < share == 1.0):
                told = share
                say(f"{what}: {share:.0%}", console)

        yield on_progress


def _bar(so_far: str, console: Console) -> Progress:
    """A bar for one thing, which shows nothing in a log."""
    name = TextColumn("{task.description}", markup=False)
    columns = (name, BarColumn(bar_width=24), TextColumn(so_far), TimeRemainingColumn())
    return Progress(*columns, console=console, disable=not console.is_terminal)
