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
from turbosvm.data.preparation.ordering import by_partition, by_user, classes_of, write_arrays
from turbosvm.data.preparation.workshop import Workshop, claim, hidden_folder, locked, tidied
from turbosvm.data.sources.find import fetch, find_source
from turbosvm.data.sources.reading import Chunk, Source, Unit
from turbosvm.data.sources.request import Request
from turbosvm.errors import TurboSVMError, in_one_line
from turbosvm.files import cannot_write
from turbosvm.values import as_whole

OnProgress = Callable[[float], None]
LONGEST_SENTENCE = 400
# Raise it when readers come to read something else from the same files.
READERS = 1


@dataclass(frozen=True)
class Rules:
    """What is decided when a set is prepared, beside what is read.

    Args:
        min_samples: users with fewer samples are left out; None for what LEAF asks of the task.
        skip_bad: leave bad input out and count it, instead of stopping at it.
        partition: gives samples to made-up users; None where samples have users.
    """

    min_samples: int | None = None
    skip_bad: bool = False
    partition: Partition | None = None

    def __post_init__(self) -> None:
        if self.min_samples is not None:
            as_whole("The minimum number of samples", self.min_samples, least=0)


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
    if rules.min_samples is None:
        rules = replaced(rules, min_samples=request.min_samples)
    made_by = {"readers": READERS, "fingerprint": request.fingerprint(), **asdict(rules)}
    hidden = hidden_folder(folder)
    if (there := _prepared_before(folder, made_by)) is not None:
        shutil.rmtree(hidden, ignore_errors=True)  # of one that was killed when all but the tidying was done
        return there
    _check_place(request, folder, replace)
    with locked(hidden), tidied(hidden):
        fetched = fetch(request)
        # What is on the hub may change while a preparation rests; its folder is called by the commit.
        claim(hidden, json.dumps({**made_by, "commit": fetched.name if request.hub_place else None}))
        source = find_source(request, fetched, hidden / "unpacked")
        if rules.partition and (request.own_split or source.form.window):
            what = "LEAF's own split is of its own users" if request.own_split else "text has speakers"
            raise TurboSVMError(f"A partition makes users up, but {what}; leave one of the two out.")
        workshop = Workshop(hidden, source.form)
        read_all(source, workshop, rules, on_progress)
        return _finish(request, source, workshop, rules, folder, replace, made_by)


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


def _check_place(request: Request, folder: Path, replace: bool) -> None:
    """Refuse a place where something else is, or where the set and its source would get in each other's way."""
    if not request.hub_place:
        source, place = request.path().resolve(), folder.resolve()
        if place.is_relative_to(source) or source.is_relative_to(place):
            raise TurboSVMError(
                f"'{folder}' lies inside what it is made from, or around it; choose another place (--out)."
            )
    if not folder.exists():
        return
    if not (folder / store.MANIFEST).is_file():
        raise TurboSVMError(f"'{folder}' is there already, and is not a data set; choose another name (--out).")
    if not replace:
        raise TurboSVMError(
            f"'{folder}' is there already, and was made from something else or in another way; "
            "choose another name (--out), or replace it (--replace)."
        )


def read_all(source: Source, workshop: Workshop, rules: Rules, on_progress: OnProgress | None) -> None:
    """Read every chunk that the workshop does not have yet."""
    total = max(sum(unit.size for unit in source.units), 1)
    first, chunks = workshop.so_far.unit, workshop.so_far.chunks
    before = sum(unit.size for unit in source.units[:first])
    for number, unit in enumerate(source.units[first:], start=first):
        try:
            for chunk in unit.read(chunks):
                chunks += 1
                _keep(source, unit, workshop, rules, number, chunks, chunk)
                if on_progress:
                    on_progress(min((before + chunk.done * unit.size) / total, 1.0))
        except OSError as error:
            raise TurboSVMError(f"{unit.name} cannot be read: {error.strerror or in_one_line(error)}.") from error
        before += unit.size
        chunks = 0
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
    request: Request,
    source: Source,
    workshop: Workshop,
    rules: Rules,
    folder: Path,
    replace: bool,
    made_by: store.Manifest,
) -> Prepared:
    """Write the finished folder beside its place, then set it there."""
    so_far, form, least = workshop.so_far, source.form, rules.min_samples or 0
    if rules.partition:
        layout = by_partition(workshop, rules.partition, least)
    else:
        layout = by_user(so_far.runs, request.own_split, least)
    if not layout.users:
        bad = so_far.left_out
        why = f"; {bad.count} bad things were left out, the first: {bad.first[0]}" if bad.count else "."
        raise TurboSVMError(f"'{request.place}' has no users with at least {least} samples{why}")
    classes = form.classes if form.classes is not None else classes_of(so_far.labels)
    described: store.Manifest = {
        "name": folder.name,
        "users": layout.users,
        "classes": classes,
        "tokens": form.tokens,
        "window": form.window,
        "held_out": layout.held_out if request.own_split else None,
    }
    about = {
        "task": request.task,
        "source": {"kind": source.kind, "path": str(request.hub_place or request.path().resolve())},
        "split": {"by": "LEAF's folders" if request.own_split else "a hash of (seed, user)"},
        "counts": {"users": len(layout.users), "samples": int(layout.owned.sum())},
        "left_out": asdict(so_far.left_out),
        "small_users": layout.small,
        "made_by": made_by,
    }
    finished = workshop.folder / "finished"
    with cannot_write("folder", folder):
        shutil.rmtree(finished, ignore_errors=True)
        finished.mkdir()
        write_arrays(workshop, layout, classes, finished)
        store.write_manifest(finished, described, about)
        _check_place(request, folder, replace)  # somebody may have put something there meanwhile
        _set_in_place(finished, folder, workshop.folder / "replaced")
    return Prepared(folder, False, so_far.left_out, layout.small)


def _set_in_place(finished: Path, folder: Path, aside: Path) -> None:
    """Move a finished folder to its place, what was there before out of the way first."""
    if folder.exists():
        folder.rename(aside)
    finished.rename(folder)
