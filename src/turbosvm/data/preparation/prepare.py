"""Prepare a data set: read a source to its end, put its samples in order, and set the finished folder in its place.

Nothing half-written is ever in that place. A preparation that was stopped goes on where it was; one whose source has
a mistake leaves nothing behind; one that has been done already is not done again.
"""

import json
import os
import shutil
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from dataclasses import replace as replaced
from pathlib import Path
from typing import Any

from turbosvm.data import store
from turbosvm.data.partition import Partition
from turbosvm.data.preparation.journal import LeftOut, in_plain_words
from turbosvm.data.preparation.ordering import by_partition, by_user, classes_of, write_arrays
from turbosvm.data.preparation.workshop import PLAN, Workshop, claim, discard, hidden_folder, locked, tidied
from turbosvm.data.sources.find import fetch, find_source
from turbosvm.data.sources.reading import Chunk, Source, Unit
from turbosvm.data.sources.request import Request, existing
from turbosvm.errors import TurboSVMError, in_one_line
from turbosvm.files import cannot_write, sync_folder
from turbosvm.values import as_whole

OnProgress = Callable[[float], None]
# Raise it when readers come to read something else from the same files.
READERS = 1
REPLACED = "replaced"


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
    folder = Path(os.path.normpath(folder.absolute()))  # stays where it is when the working folder is moved
    if rules.min_samples is None:
        rules = replaced(rules, min_samples=request.min_samples)
    if rules.partition:
        request = replaced(request, columns=request.columns.without_user())
    made_by = {"readers": READERS, "fingerprint": request.fingerprint(), **asdict(rules)}
    hidden = hidden_folder(folder)
    # What is on the hub may have changed; whoever wants to replace the set wants that.
    anew = replace and request.hub_place is not None
    if not anew and (there := _prepared_before(folder, made_by)) is not None:
        _tidy_up_after(hidden, made_by)
        return there
    _check_place(request, folder, replace)
    with locked(hidden), tidied(hidden):
        _restore(hidden / REPLACED, folder)
        fetched = fetch(request)
        # What is on the hub may change while a preparation rests, too; its folder is called by the commit.
        commit = fetched.name if request.hub_place else None
        claim(hidden, json.dumps({"made_by": made_by, "commit": commit}))
        source = find_source(request, fetched, hidden / "unpacked")
        if rules.partition and (request.own_split or source.form.window):
            what = "LEAF's own split is of its own users" if request.own_split else "text has speakers"
            raise TurboSVMError(f"A partition makes users up, but {what}; leave one of the two out.")
        workshop = Workshop(hidden, source.form)
        read_all(source, workshop, rules, on_progress)
        about = {"commit": commit, "made_by": made_by}
        return _finish(request, source, workshop, rules, folder, replace, about)


def _prepared_before(folder: Path, made_by: Mapping[str, Any]) -> Prepared | None:
    """What lies in a folder, if it can be opened and was made in the same way from the same files."""
    try:
        store.load(folder)
        about = store.read_manifest(folder).about
        if about.get("made_by") == made_by:
            return Prepared(folder, True, LeftOut(**about["left_out"]), int(about["small_users"]))
    except (TurboSVMError, KeyError, TypeError, ValueError):
        pass
    return None


def _tidy_up_after(hidden: Path, made_by: Mapping[str, Any]) -> None:
    """Remove what a preparation left that was killed when its set was in place already."""
    if not hidden.exists():
        return
    with suppress(TurboSVMError, OSError, ValueError, AttributeError), locked(hidden):
        plan = hidden / PLAN
        if not plan.exists() or json.loads(plan.read_text(encoding="utf-8")).get("made_by") == made_by:
            discard(hidden)


def _restore(aside: Path, folder: Path) -> None:
    """Put a set back that was moved aside to be replaced, by a preparation that was killed just then."""
    if aside.exists() and not folder.exists():
        with cannot_write("folder", folder):
            aside.rename(folder)


def _check_place(request: Request, folder: Path, replace: bool) -> None:
    """Refuse a place where something else is, or where the set and its source would get in each other's way."""
    sources = [] if request.hub_place else [request.path(), *([existing(request.images)] if request.images else [])]
    try:
        place = folder.resolve()
        apart = not any(
            place.is_relative_to(source.resolve()) or source.resolve().is_relative_to(place) for source in sources
        )
    except (OSError, RuntimeError) as error:
        raise TurboSVMError(f"'{folder}' cannot be written: {error}.") from error
    if not apart:
        raise TurboSVMError(f"'{folder}' lies inside what it is made from, or around it; choose another place (--out).")
    if not os.path.lexists(folder):
        return
    if not store.is_data_set(folder):
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
            where, why = error.filename or unit.name, error.strerror or in_one_line(error)
            raise TurboSVMError(f"'{where}' cannot be read: {why}.") from error
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
    if chunk.bad and not rules.skip_bad:
        wrong = in_plain_words(chunk.bad[0])
        raise TurboSVMError(f"{wrong} Nothing was prepared; --skip-bad leaves such things out and counts them.")
    workshop.keep(number, chunks, unit.side, chunk)


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
    about: Mapping[str, Any],
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
    described = {
        "name": folder.name,
        "users": layout.users,
        "classes": classes,
        "tokens": form.tokens,
        "window": form.window,
        "held_out": layout.held_out if request.own_split else None,
    }
    about = {
        **about,
        "task": request.task,
        "source": {"kind": source.kind, "path": str(request.hub_place or request.path().resolve())},
        "split": {"by": "LEAF's folders" if request.own_split else "a hash of (seed, user)"},
        "counts": {"users": len(layout.users), "samples": int(layout.owned.sum())},
        "left_out": asdict(so_far.left_out),
        "small_users": layout.small,
    }
    finished = workshop.folder / "finished"
    with cannot_write("folder", folder):
        shutil.rmtree(finished, ignore_errors=True)
        finished.mkdir()
        write_arrays(workshop, layout, classes, finished)
        store.write_manifest(finished, described, about)
        sync_folder(finished)
        _check_place(request, folder, replace)  # somebody may have put something there meanwhile
        _set_in_place(finished, folder, workshop.folder / REPLACED)
    return Prepared(folder, False, so_far.left_out, layout.small)


def _set_in_place(finished: Path, folder: Path, aside: Path) -> None:
    """Move a finished folder to its place, what was there before out of the way first, and back if that fails."""
    if folder.exists():
        folder.rename(aside)
    try:
        finished.rename(folder)
    except OSError:
        _restore(aside, folder)
        raise
