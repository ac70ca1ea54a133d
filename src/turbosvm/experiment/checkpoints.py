"""Checkpoints: where a run stood after a round, in files that are whole whenever the run is killed.

    round-000000040.safetensors        weights, buffers, what the server keeps
    client-12-000000038.safetensors    what a client keeps, since the checkpoint after it last took part
    round-000000040.json               which run and which records the checkpoint belongs to, and which files belong to
                                       it, with their digests; sealed, and written last

A checkpoint writes what is new since the one before. The two newest are kept: one may be damaged.
"""

import re
from collections.abc import Collection
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from time import perf_counter
from typing import Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field
from safetensors import SafetensorError
from safetensors.torch import load as from_safetensors
from safetensors.torch import save as to_safetensors

from turbosvm.bounded import open_regular, read_bounded
from turbosvm.errors import TurboSVMError, in_one_line
from turbosvm.experiment.config import Config
from turbosvm.files import cannot_write, sync_to_disk, temporary_files, write_atomically
from turbosvm.record_lines import MOST_BYTES as MOST_LINE_BYTES
from turbosvm.seals import sealed, unsealed
from turbosvm.simulation import Standing
from turbosvm.snapshot import MisfitError, pack_client, pack_run, refuse_misfits, unpack
from turbosvm.types import Weights

KEPT = 2
LEAST_SECONDS = 5.0
"""Between two checkpoints that come by themselves."""
SHARE = 0.05
"""Of the time that such checkpoints may take."""
MOST_BYTES = 2**40
"""Of a file of tensors."""

OWN = re.compile(r"round-\d{9}\.(json|safetensors)|client-\d{1,18}-\d{9}\.safetensors")
"""Files that are written here, and removed; others in the folder are left alone."""


class Entry(BaseModel):
    """A file of a checkpoint: its name, its digest, and the names of its tensors in their order."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    file: str = Field(pattern=rf"^({OWN.pattern})$")
    sha256: str
    names: tuple[str, ...]


class About(BaseModel):
    """What a checkpoint says of itself."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    format: Literal["turbosvm checkpoint 2"] = "turbosvm checkpoint 2"
    round: int = Field(ge=1)
    settings: dict[str, str]
    """The run's identity."""
    data: str | None
    """The digest of the run's data, where it has one."""
    records: str
    """The digest of all lines of records up to this round."""
    run: Entry
    clients: dict[int, Entry]


class Found(NamedTuple):
    """A checkpoint to go on from, or none, and what the person should know of the search."""

    standing: Standing | None
    notes: list[str]


class Checkpoints:
    """The checkpoints of one run.

    Args:
        folder: where they are.
        config: the run's; its `checkpoint_every` says after how many rounds; 0: never; None: as often as they take
            less than a twentieth of the time.
        data: the digest of its data.
    """

    def __init__(self, folder: Path, config: Config, data: str | None) -> None:
        self._folder, self._config, self._data = folder, config, data
        self._every = config.checkpoint_every
        self._known: dict[int, tuple[int, Entry]] = {}  # of each client, the stamp and the file
        self._round: int | None = None
        self._wait, self._since = LEAST_SECONDS, perf_counter()

    def due(self, number: int) -> bool:
        """Whether there should be one after this round."""
        if self._every is None:
            return perf_counter() - self._since >= self._wait
        return self._every > 0 and number % self._every == 0

    def write(self, standing: Standing, records: str) -> None:
        """Write one, unless this round's is there; `records` is the digest of the lines up to its round."""
        if self._every == 0 or standing.round == self._round:
            return
        began = perf_counter()
        try:
            self._write(standing, records)
        finally:  # one that failed is not tried again at once, either
            self._since = perf_counter()
            self._wait = max(LEAST_SECONDS, (self._since - began) / SHARE)

    def _write(self, standing: Standing, records: str) -> None:
        number = f"{standing.round:09d}"
        run = self._save(f"round-{number}.safetensors", pack_run(standing))
        known = {}
        for client, stamp in standing.memory.stamps.items():
            old = self._known.get(client)
            if old is None or old[0] != stamp:
                old = stamp, self._save(f"client-{client}-{number}.safetensors", pack_client(standing.memory, client))
            known[client] = old
        clients = {client: entry for client, (_, entry) in known.items()}
        about = About(
            round=standing.round,
            settings=self._config.identity,
            data=self._data,
            records=records,
            run=run,
            clients=clients,
        )
        write_atomically(self._folder / f"round-{number}.json", sealed(about.model_dump(mode="json")))
        self._known, self._round = known, standing.round
        self._tidy(standing.round)

    def forget(self) -> None:
        """Remove all of them."""
        self._known, self._round = {}, None
        forget(self._folder)

    def latest(self, records: Path, recorded: int, begun: Standing) -> Found:
        """Read the newest that is whole, and not newer than the last recorded round.

        Args:
            records: the run's lines, of which a checkpoint vouches for those up to its round.
            recorded: how many of them are whole.
            begun: where the run stood before its first round, which says what its numbers are called and shaped like.

        Raises:
            AnotherRunError: a checkpoint is another run's, or another model's.
        """
        notes: list[str] = []
        ahead = 0
        digests = _digests(records, recorded)
        for path in sorted(self._folder.glob("round-*.json"), reverse=True):
            try:
                about = _read(path)
                self._refuse_another(path, about)
                if about.round > recorded:
                    ahead = ahead or about.round
                    continue
                if digests[about.round] != about.records:
                    raise ValueError("the records up to its round are not those that it was written after")
                run = self._load(about.run)
                clients = {client: self._load(entry) for client, entry in about.clients.items()}
                standing = unpack(run, clients, begun)
                refuse_misfits(standing, begun, about.round)
            except MisfitError as error:  # it is what was written: to begin again would throw it away
                raise AnotherRunError(
                    f"The checkpoint '{path}' is of another model or algorithm than is there now: {error}. "
                    "Put the old code back, or begin a new run."
                ) from error
            except _DAMAGES as error:
                notes.append(f"The checkpoint '{path}' is damaged ({in_one_line(error)}); it is passed over.")
            else:
                stamps = standing.memory.stamps
                self._known = {client: (stamp, about.clients[client]) for client, stamp in stamps.items()}
                return Found(standing, [*_cut_off(recorded, ahead), *notes])
        return Found(None, [*_cut_off(recorded, ahead), *notes])

    def _refuse_another(self, path: Path, about: About) -> None:
        """Refuse a checkpoint of another run."""
        what = self._config.difference(about.settings)
        if what is None and about.data != self._data:
            what = f"the digest of the data is {self._data}, it was {about.data}"
        if what:
            raise AnotherRunError(f"The checkpoint '{path}' belongs to another run: {what}.")

    def _save(self, name: str, tensors: Weights) -> Entry:
        plain = {key: value.detach().cpu().contiguous().clone() for key, value in tensors.items()}
        content = to_safetensors(plain)
        write_atomically(self._folder / name, content)
        return Entry(file=name, sha256=sha256(content).hexdigest(), names=tuple(plain))

    def _load(self, entry: Entry) -> Weights:
        path = self._folder / entry.file
        content = read_bounded(path, MOST_BYTES) if path.exists() else b""
        if sha256(content).hexdigest() != entry.sha256:
            raise ValueError(f"{path.name} is not what was written")
        tensors = from_safetensors(content)
        return {name: tensors[name] for name in entry.names}

    def _tidy(self, latest: int) -> None:
        """Remove what no kept checkpoint needs, once the latest is safe on disk; later ones were passed over."""
        with cannot_write("checkpoints in", self._folder):
            sync_to_disk(self._folder)
        needed: set[str] = set()
        kept = 0
        for path in sorted(self._folder.glob("round-*.json"), reverse=True):
            try:
                about = _read(path)
            except _DAMAGES:
                continue
            if about.round <= latest and kept < KEPT:
                kept += 1
                needed |= {path.name, about.run.file, *(entry.file for entry in about.clients.values())}
        _remove_all_but(needed, self._folder)


def forget(folder: Path) -> None:
    """Remove all checkpoints from a folder, and the folder if nothing else is in it."""
    _remove_all_but(frozenset(), folder)
    with suppress(OSError):
        folder.rmdir()


def _remove_all_but(needed: Collection[str], folder: Path) -> None:
    """Remove files of names that are given here, and what is left of them half written."""
    with cannot_write("checkpoints in", folder):
        if folder.is_symlink() or not folder.is_dir():
            return
        own = [path for path in folder.iterdir() if OWN.fullmatch(path.name)]
        for path in [*temporary_files(folder, OWN), *own]:
            if path.name not in needed and not path.is_dir():
                path.unlink(missing_ok=True)


class AnotherRunError(TurboSVMError):
    """A checkpoint is not of the run in whose folder it lies."""


def _cut_off(recorded: int, ahead: int) -> list[str]:
    """What to say of checkpoints that are newer than the records, which are written first."""
    told = f"The records end with round {recorded}, though there is a checkpoint of round {ahead}: they are damaged."
    return [told] if ahead else []


_DAMAGES = (ValueError, KeyError, SafetensorError)


def _read(path: Path) -> About:
    """What a checkpoint says of itself."""
    return About.model_validate(unsealed(read_bounded(path)))


def _digests(records: Path, count: int) -> list[str]:
    """The digests of no line, of the first, of the first two, and so on."""
    lines, digests = sha256(), [sha256().hexdigest()]
    if count:
        with open_regular(records) as file:
            for _ in range(count):
                lines.update(file.readline(MOST_LINE_BYTES))
                digests.append(lines.hexdigest())
    return digests
