"""The Complete Works of Shakespeare as Project Gutenberg's plain text, cut into (play, character) users by LEAF's rule.

The text that LEAF starts from is etext 100 of January 1994. In it, a line 'by William Shakespeare' stands under each
title; two spaces, a name and a full stop begin a speech; four spaces go on with it. The Comedy of Errors has no
indentation. LEAF counts from the second such line (so the sonnets are out), to a fixed line near the end, and leaves
out plays with one speaker and speakers of fewer than three lines. A user's lines are one text, with single spaces.

This is the rule behind LEAF's published figures. LEAF's code has since come to treat every line as a text of its own,
after 80 spaces.
"""

import re
from collections import defaultdict
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np

from turbosvm.bounded import read_bounded
from turbosvm.data.sources.reading import Chunk, Unit, nothing, size_of
from turbosvm.data.sources.text import FORM, LENGTH, VOCABULARY, encode
from turbosvm.errors import TurboSVMError

BY_LINE = "by William Shakespeare"
UNINDENTED_PLAY = "THE COMEDY OF ERRORS"
LAST_LINE = 124_195
FEWEST_LINES = 3

SPEECH, MORE = re.compile(r"  ([a-zA-Z][a-zA-Z ]*)\. (.*)"), re.compile(r"    (.*)")
UNINDENTED_SPEECH, UNINDENTED_MORE = re.compile(r"([a-zA-Z][a-zA-Z ]*)\. (.*)"), re.compile(r"(.*)")
MANY_SPACES = re.compile(r"  +")

Speakers = dict[str, list[str]]


def gutenberg_units(file: Path) -> list[Unit]:
    """Make a unit of the text."""
    return [Unit(file.name, size_of(file), partial(read_text, file))]


def read_text(file: Path, skip: int = 0) -> Iterator[Chunk]:
    """Give a chunk for each (play, character), but for the first `skip` of them."""
    users = lines_by_user(read_bounded(file).decode(errors="surrogateescape"))
    if not users:
        raise TurboSVMError(
            f"{file.name} has no plays that LEAF's rule finds; it needs Project Gutenberg's etext 100 of January 1994, "
            f"with a line '{BY_LINE}' under each title."
        )
    for place, (user, lines) in enumerate(users.items()):
        if place >= skip:
            yield _chunk(file, user, lines, (place + 1) / len(users))


def lines_by_user(text: str) -> Speakers:
    """Cut the whole text into what each (play, character) says, by LEAF's rule."""
    users: Speakers = defaultdict(list)
    for title, speakers in _plays(_from_second_play(text.splitlines()[1:])):
        if len(speakers) < 2:
            continue
        for speaker, lines in speakers.items():
            if len(lines) >= FEWEST_LINES:
                users[re.sub(r"\W+", "_", f"{title}_{speaker}".replace(" ", "_"))] += lines
    return dict(users)


def _from_second_play(lines: list[str]) -> list[str]:
    """Leave out everything before the second title, and after the last play."""
    by_lines = (place for place, line in enumerate(lines) if BY_LINE in line)
    next(by_lines, None)
    second = next(by_lines, None)
    return [] if second is None else lines[max(second - 5, 0) : LAST_LINE + 1]


def _plays(lines: list[str]) -> Iterator[tuple[str, Speakers]]:
    """Give each play's title, and the lines of each speaker in it."""
    title, speaker, unindented = "", "", False
    speakers: Speakers = defaultdict(list)
    for place, line in enumerate(lines):
        if BY_LINE in line:
            if title:
                yield title, speakers
            title, speakers, speaker = _title_above(lines, place), defaultdict(list), ""
            unindented = title == UNINDENTED_PLAY
        elif begin := (UNINDENTED_SPEECH if unindented else SPEECH).match(line):
            # Some names are written in several ways (SIR Toby, SIR TOBY). In the unindented play, acts look like names.
            speaker = begin[1].upper()
            if unindented and speaker.startswith("ACT "):
                speaker = ""
            else:
                speakers[speaker].append(begin[2])
        elif speaker and (more := (UNINDENTED_MORE if unindented else MORE).match(line)):
            if unindented and more[1].startswith("<"):  # a notice of the publisher
                speaker = ""
            else:
                speakers[speaker].append(more[1])
    if title:
        yield title, speakers


def _title_above(lines: list[str], place: int) -> str:
    """The nearest line with words, two to seven lines above."""
    above = (lines[place - distance].strip() for distance in range(2, 8) if place >= distance)
    return next((line for line in above if line), "")


def _chunk(file: Path, user: str, lines: list[str], done: float) -> Chunk:
    """Make one segment of a user's text; one without a character to guess after the first window is no user."""
    good, bad = [], []
    for line in lines:
        strange = next((each for each in line if each not in VOCABULARY), None)
        if strange:
            bad.append(
                f"{file.name}: user '{user}', in the line {line!r}: {strange!r} is not one of LEAF's 80 characters."
            )
        else:
            good.append(line)
    text = encode(MANY_SPACES.sub(" ", "".join(f"{line} " for line in good)))
    samples = len(text) - LENGTH
    if samples < 1:
        return nothing(FORM, user, bad, done)
    return Chunk(user, text, text[LENGTH:], np.array([samples]), tuple(bad), done, whole=True)
