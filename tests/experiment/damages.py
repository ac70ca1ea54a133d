"""Ways in which a run's folder goes wrong, drawn from a generator, and what came of one that was gone on with."""

import os
import shutil
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from random import Random
from time import perf_counter
from typing import NamedTuple

from tests.conftest import tiny_net
from turbosvm.data.federated import FederatedData
from turbosvm.errors import TurboSVMError
from turbosvm.experiment.prepared import reopen_run
from turbosvm.experiment.recorded import Record, recorded
from turbosvm.experiment.resolve import resolve_config
from turbosvm.experiment.runner import run_experiment, run_on

Damage = Callable[[Random, Path, Path], None]
"""Spoil a file, given the same file of another run."""


def _rewritten(change: Callable[[Random, bytearray], bytes | bytearray]) -> Damage:
    def damage(draw: Random, path: Path, _: Path) -> None:
        path.write_bytes(change(draw, bytearray(path.read_bytes())))

    return damage


def _flipped(draw: Random, content: bytearray) -> bytearray:
    content[draw.randrange(len(content))] ^= 1 << draw.randrange(8)
    return content


def _other_digit(draw: Random, content: bytearray) -> bytearray:
    digits = [place for place, byte in enumerate(content) if chr(byte).isdigit() and byte < 128]
    place = draw.choice(digits or [0])
    content[place] = ord(draw.choice([each for each in "0123456789" if ord(each) != content[place]]))
    return content


def _other_letter(draw: Random, content: bytearray) -> bytearray:
    content[draw.randrange(len(content))] = ord(draw.choice("aeinst_.,:\"' -{}[]"))
    return content


def _cut(draw: Random, content: bytearray) -> bytearray:
    return content[: draw.randrange(len(content))]


def _span_lost(draw: Random, content: bytearray) -> bytearray:
    start = draw.randrange(len(content))
    return content[:start] + content[start + draw.randint(1, 40) :]


def _span_added(draw: Random, content: bytearray) -> bytearray:
    start = draw.randrange(len(content))
    return content[:start] + draw.randbytes(draw.randint(1, 40)) + content[start:]


def _span_zero(draw: Random, content: bytearray) -> bytearray:
    start = draw.randrange(len(content))
    length = min(draw.randint(1, 400), len(content) - start)
    return content[:start] + bytes(length) + content[start + length :]


def _line_twice(draw: Random, content: bytearray) -> bytes:
    lines = bytes(content).splitlines(keepends=True)
    place = draw.randrange(len(lines))
    return b"".join([*lines[: place + 1], *lines[place:]])


def _line_lost(draw: Random, content: bytearray) -> bytes:
    lines = bytes(content).splitlines(keepends=True)
    del lines[draw.randrange(len(lines))]
    return b"".join(lines)


def _another(_: Random, path: Path, other: Path) -> None:
    path.write_bytes(other.read_bytes())


def _folder(_: Random, path: Path, __: Path) -> None:
    path.unlink()
    path.mkdir()
    (path / "mine.txt").write_text("mine")


def _pipe(_: Random, path: Path, __: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def _endless(_: Random, path: Path, __: Path) -> None:
    path.unlink()
    path.symlink_to("/dev/zero")


DAMAGES: dict[str, Damage] = {
    "a bit flipped": _rewritten(_flipped),
    "another digit": _rewritten(_other_digit),
    "another letter": _rewritten(_other_letter),
    "cut off": _rewritten(_cut),
    "a piece lost": _rewritten(_span_lost),
    "a piece added": _rewritten(_span_added),
    "a piece zero": _rewritten(_span_zero),
    "all zero": _rewritten(lambda _, content: bytes(len(content))),
    "empty": _rewritten(lambda _, __: b""),
    "a line twice": _rewritten(_line_twice),
    "a line lost": _rewritten(_line_lost),
    "another run's": _another,
    "missing": lambda _, path, __: path.unlink(),
    "a folder": _folder,
    "a pipe": _pipe,
    "a device": _endless,
}


def make_runs(data: FederatedData, root: Path, algorithm: str = "moon") -> dict[str, Path]:
    """A run that is finished, one that was stopped after its third round of six, and one of another seed."""

    def stop(record: Record) -> None:
        if record["round"] == 3:
            raise KeyboardInterrupt

    short = {"rounds": 6, "clients_per_round": 3, "client": {"batch_size": 4}, "checkpoint_every": 1, "threads": 1}
    config = resolve_config(overrides={"algorithm": algorithm, **short})
    other = config.model_copy(update={"seed": 1})
    made = {
        "finished": run_experiment(config, data, tiny_net(), root / "finished"),
        "stopped": run_experiment(config, data, tiny_net(), root / "stopped", stop),
        "another": run_experiment(other, data, tiny_net(), root / "another"),
    }
    return {name: outcome.folder for name, outcome in made.items() if outcome.folder}


def files_of(folder: Path) -> list[str]:
    """The files of a run's folder that say something; of those of clients, two."""
    found = sorted(
        str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file() and path.stat().st_size
    )
    return [*(name for name in found if "client-" not in name), *[name for name in found if "client-" in name][:2]]


def timeless(records: list[Record]) -> list[Record]:
    """Records without the time that rounds took."""
    return [{key: value for key, value in record.items() if "seconds" not in key} for record in records]


def gone_on_with(folder: Path, whole: Path, data: FederatedData) -> str:
    """Go on with a folder, and say what came of it: 'refused', 'told', 'harmless', or else what is wrong in silence."""
    before = recorded_or_none(folder)
    try:
        prepared = reopen_run(folder, data, tiny_net())
        outcome = run_on(prepared)
    except TurboSVMError as error:
        return "refused" if "\n" not in str(error) else f"an error of several lines: {error}"
    if outcome.interrupted or outcome.stopped:
        return "told"
    if timeless(outcome.records) != timeless(recorded(whole)):
        return "other records"
    if (folder / "model.safetensors").read_bytes() != (whole / "model.safetensors").read_bytes():
        return "another model"
    if outcome.notes:
        return "told"
    kept = list(prepared.records)  # the others were done again
    return "harmless" if outcome.records[: len(kept)] == kept == (before or [])[: len(kept)] else "other seconds"


class Tried(NamedTuple):
    """A damage, and what came of it."""

    state: str
    """Of the run: 'finished' or 'stopped'."""
    file: str
    damage: str
    outcome: str
    seconds: float


def spoil_all(data: FederatedData, root: Path, times: int, seed: int = 0) -> Iterator[Tried]:
    """Damage each file of each run in each way, so many times, and go on with it."""
    runs = make_runs(data, root / "runs")
    for state in ("finished", "stopped"):
        for file, (damage, spoil), time in product(files_of(runs[state]), DAMAGES.items(), range(times)):
            folder = copy_of(runs[state], root / "spoilt")
            other = next(runs["another"].rglob(Path(file).name), runs["another"] / "config.yaml")
            spoil(Random(f"{seed} {state} {file} {damage} {time}"), folder / file, other)
            began = perf_counter()
            outcome = gone_on_with(folder, runs["finished"], data)
            yield Tried(state, file, damage, outcome, perf_counter() - began)
            shutil.rmtree(folder)


NOTICED = ("refused", "told")
SOUND = (*NOTICED, "harmless")


def recorded_or_none(folder: Path) -> list[Record] | None:
    """The records that a folder has now, if they can be read."""
    try:
        return recorded(folder)
    except TurboSVMError:
        return None


def copy_of(folder: Path, to: Path) -> Path:
    """A copy that can be spoilt."""
    shutil.copytree(folder, to, symlinks=True)
    return to
