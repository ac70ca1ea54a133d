"""The journal of a preparation: a line for each time that samples have reached the disk, so that it can go on there."""

import json
import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from turbosvm.data.sources.reading import Side

STREAMS = ("inputs", "labels", "segments")
SHOWN = 20
LONGEST_SENTENCE = 400


def in_plain_words(sentence: str) -> str:
    """A sentence that quotes somebody's file, fit to be printed: no control characters, and not without end."""
    plain = "".join(each if each.isprintable() else repr(each)[1:-1] for each in sentence[:LONGEST_SENTENCE])
    return plain if len(plain) < LONGEST_SENTENCE else f"{plain[: LONGEST_SENTENCE - 1]}…"


@dataclass(frozen=True)
class Run:
    """Samples of one user that lie together, the unit that they are from, and the number of their segments of text."""

    user: str
    side: Side | None
    unit: int
    samples: int
    segments: int = 0


@dataclass
class LeftOut:
    """What was bad: how much of it, and the first sentences."""

    count: int = 0
    first: list[str] = field(default_factory=list)

    def add(self, sentences: Iterable[str]) -> None:
        """Count some more."""
        for sentence in sentences:
            self.count += 1
            if len(self.first) < SHOWN:
                self.first.append(in_plain_words(sentence))


@dataclass
class Entry:
    """A line of the journal: where reading stands, and what came since the line before.

    Args:
        unit: the unit that is being read.
        chunks: how many of its chunks are kept.
        runs: of samples.
        labels: values that turned up as labels for the first time, where the classes are open.
        left_out: what was bad.
        bytes: how long the streams are now.
    """

    unit: int = 0
    chunks: int = 0
    runs: list[Run] = field(default_factory=list)
    labels: list[Any] = field(default_factory=list)
    left_out: LeftOut = field(default_factory=LeftOut)
    bytes: dict[str, int] = field(default_factory=lambda: dict.fromkeys(STREAMS, 0))

    def then(self, later: "Entry") -> None:
        """Take in what came later, so that this one tells of both."""
        self.unit, self.chunks, self.bytes = later.unit, later.chunks, later.bytes
        for run in later.runs:
            last = self.runs[-1] if self.runs else None
            if last and (last.user, last.side, last.unit) == (run.user, run.side, run.unit):
                self.runs[-1] = Run(
                    run.user, run.side, run.unit, last.samples + run.samples, last.segments + run.segments
                )
            else:
                self.runs.append(run)
        self.labels += later.labels
        self.left_out.count += later.left_out.count
        self.left_out.first = (self.left_out.first + later.left_out.first)[:SHOWN]


def append(journal: Path, entry: Entry) -> None:
    """Add a line, and see it to the disk."""
    with journal.open("a", encoding="utf-8") as file:
        file.write(json.dumps(_as_plain(entry)) + "\n")
        file.flush()
        os.fsync(file.fileno())


def recover(journal: Path) -> Entry:
    """Add all lines up; a line that was cut off in the writing is taken away, a journal of nonsense as a whole."""
    try:
        return _recover(journal)
    except (ValueError, TypeError, KeyError):
        journal.unlink()
        return Entry()


def _recover(journal: Path) -> Entry:
    whole = Entry()
    if not journal.exists():
        return whole
    lines = journal.read_bytes().splitlines(keepends=True)
    if lines and not lines[-1].endswith(b"\n"):
        os.truncate(journal, sum(map(len, lines[:-1])))
        lines = lines[:-1]
    for line in lines:
        values = json.loads(line)
        values["runs"] = [Run(*run) for run in values["runs"]]
        values["left_out"] = LeftOut(**values["left_out"])
        whole.then(Entry(**values))
    return whole


def _as_plain(entry: Entry) -> dict[str, Any]:
    """An entry as JSON has it; runs may be many, so they are lists without keys."""
    runs = [[run.user, run.side, run.unit, run.samples, run.segments] for run in entry.runs]
    return {**vars(entry), "runs": runs, "left_out": vars(entry.left_out)}
