"""Prepare a data set: read a source to its end, put its samples in order, and set the finished folder in its place.

Nothing half-written is ever in that place. A preparation that was stopped goes on where it was; one whose source has
a mistake leaves nothing behind; one that has been done already is not done again.
"""

import json
import shutil
from collections.abc import Callable
from dataclasses import asdict, dataclass
from dataclasses import replace as replaced
from pathlib import Path

from turbosvm.data import store
from turbosvm.data.partition import Partition
from turbosvm.data.preparation.journal import LeftOut
from turbosvm.data.preparation.ordering import classes_of, divided, owners_of, write_arrays
from turbosvm.data.preparation.workshop import Workshop, claim, hidden_folder, locked, tidied
from turbosvm.data.sources.find import find_source
from turbosvm.data.sources.reading import Chunk, Source, Unit
from turbosvm.data.sources.request import Request
from turbosvm.errors import TurboSVMError, in_one_line
from turbosvm.files import cannot_write

OnProgress = Callable[[float], None]
LONGEST_SENTENCE = 400


@dataclass(frozen=True)
class Rules:
    """What is decided when a set is prepared, beside what is read.

    Args:
        min_samples: users with fewer samples are left out; None for what is usual with the task.
        skip_bad: leave bad input out and count it, instead of stopping at it.
        partition: gives samples to made-up users; None where samples have users.
    """

    min_samples: int | None = None
    skip_bad: bool = False
    partition: Partition | None = None


@dataclass(frozen=True)
class Prepared:
    """A data folder, whether it was there before, and what had to be left out."""

    folder: Path
    was_there: bool
    left_out: LeftOut
    small_users: int


def prepare(
    request: Request,
    folder: Path,
    rules: Rules = Rules(),  # noqa: B008
    replace: bool = False,
    on_progress: OnProgress | None = None,
) -> Prepared:
    """Make a data folder of what is asked for, unless it is there already.

    Args:
        request: what to read.
        folder: where the data set goes.
        rules: how.
        replace: put it in the place of another set that is there.
        on_progress: told the share of the source that has been read.
    """
    made_by = {"fingerprint": request.fingerprint(), **asdict(rules)}
    if (there := _prepared_before(folder, made_by)) is not None:
        return there
    if folder.exists() and not replace:
        raise TurboSVMError(
            f"'{folder}' is there already, and is something else, or was made in another way; "
            "choose another name (--out), or replace it (--replace)."
        )
    hidden = hidden_folder(folder)
    with locked(hidden), tidied(hidden):
        claim(hidden, json.dumps(made_by))
        source = find_source(request, hidden / "unpacked")
        if rules.partition and (request.own_split or source.form.window):
            what = "LEAF's own split is of its own users" if request.own_split else "text has speakers"
            raise TurboSVMError(f"A partition makes users up, but {what}; leave one of the two out.")
        workshop = Workshop(hidden, source.form)
        read_all(source, workshop, rules, on_progress)
        return _finish(request, source, workshop, rules, folder, made_by)


def _prepared_before(folder: Path, made_by: store.Manifest) -> Prepared | None:
    """What lies in a folder, if it is whole and was made in the same way from the same files."""
    try:
        store.load(folder)
        about = store.read_manifest(folder)
        if about.get("made_by") == made_by:
            return Prepared(folder, True, LeftOut(**about["left_out"]), int(about["small_users"]))
    except (TurboSVMError, KeyError, TypeError, ValueError):
        pass
    return None


def read_all(source: Source, workshop: Workshop, rules: Rules, on_progress: OnProgress | None) -> None:
    """Read every chunk that the workshop does not have yet; when interrupted, keep what was read."""
    total = sum(unit.size for unit in source.units)
    before = sum(unit.size for unit in source.units[: workshop.so_far.unit])
    try:
        for number, unit in enumerate(source.units):
            if number < workshop.so_far.unit:
                continue
            chunks = workshop.so_far.chunks if number == workshop.so_far.unit else 0
            for chunk in unit.read(chunks):
                chunks += 1
                _keep(source, unit, workshop, rules, number, chunks, chunk)
                if on_progress:
                    on_progress(min((before + chunk.done * unit.size) / max(total, 1), 1.0))
            before += unit.size
    except KeyboardInterrupt:
        workshop.flush()
        raise
    except OSError as error:
        raise TurboSVMError(f"{unit.name} cannot be read: {error.strerror or in_one_line(error)}.") from error
    workshop.flush()
    if on_progress:
        on_progress(1.0)


def _keep(source: Source, unit: Unit, workshop: Workshop, rules: Rules, number: int, chunks: int, chunk: Chunk) -> None:
    """Take a chunk in, or refuse it with what is wrong with it."""
    wrong = _wrong_with(source, unit, workshop, chunk)
    if wrong:
        chunk = Chunk(chunk.user, chunk.inputs[:0], chunk.labels[:0], bad=(*chunk.bad, wrong), done=chunk.done)
    chunk = replaced(chunk, bad=tuple(map(_in_plain_words, chunk.bad)))
    if chunk.bad and not rules.skip_bad:
        raise TurboSVMError(f"{chunk.bad[0]} Nothing was prepared; --skip-bad leaves such things out and counts them.")
    workshop.keep(number, chunks, unit.side, chunk)


def _in_plain_words(sentence: str) -> str:
    """A sentence that quotes somebody's file, fit to be printed: no control characters, and not without end."""
    plain = "".join(each if each.isprintable() else repr(each)[1:-1] for each in sentence)
    return plain if len(plain) <= LONGEST_SENTENCE else f"{plain[: LONGEST_SENTENCE - 1]}…"


def _wrong_with(source: Source, unit: Unit, workshop: Workshop, chunk: Chunk) -> str | None:
    """What is wrong with whose chunk this is, in a sentence."""
    if not len(chunk.labels):
        return None
    if not chunk.user.strip() or not chunk.user.isprintable():
        return f"{unit.name}: a user has the name {chunk.user!r}, which is empty or cannot be printed."
    met = workshop.met_in(chunk.user, unit.side) if chunk.whole else None
    if met is not None:
        return f"{unit.name}: user '{chunk.user}' was in {source.units[met].name} already."
    return None


def _finish(
    request: Request, source: Source, workshop: Workshop, rules: Rules, folder: Path, made_by: store.Manifest
) -> Prepared:
    """Write the finished folder beside its place, then set it there."""
    so_far, form = workshop.so_far, source.form
    min_samples = source.min_samples if rules.min_samples is None else rules.min_samples
    runs = divided(workshop, rules.partition) if rules.partition else so_far.runs
    owners, small_users = owners_of(runs, request.own_split, min_samples)
    if not owners:
        raise TurboSVMError(f"'{request.place}' has no users with at least {min_samples} samples.")
    classes = form.classes if form.classes is not None else classes_of(so_far.labels)
    described: store.Manifest = {
        "name": folder.name,
        "users": [owner.name for owner in owners],
        "classes": classes,
        "tokens": form.tokens,
        "window": form.window,
        "held_out": [owner.held_out for owner in owners] if request.own_split else None,
    }
    about = {
        "task": request.task,
        "source": {"kind": source.kind, "path": str(request.hub_place or request.path().resolve())},
        "split": {"by": "LEAF's folders" if request.own_split else "a hash of (seed, user)"},
        "counts": {"users": len(owners), "samples": sum(runs[run].samples for each in owners for run in each.runs)},
        "left_out": asdict(so_far.left_out),
        "small_users": small_users,
        "made_by": made_by,
    }
    finished = workshop.folder / "finished"
    with cannot_write("folder", folder):
        shutil.rmtree(finished, ignore_errors=True)
        finished.mkdir()
        write_arrays(workshop, runs, owners, classes, finished)
        store.write_manifest(finished, described, about)
        _set_in_place(finished, folder, workshop.folder / "replaced")
    return Prepared(folder, False, so_far.left_out, small_users)


def _set_in_place(finished: Path, folder: Path, aside: Path) -> None:
    """Move a finished folder to its place, what was there before out of the way first."""
    if folder.exists():
        folder.rename(aside)
    finished.rename(folder)
