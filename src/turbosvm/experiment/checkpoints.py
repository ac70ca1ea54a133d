"""Checkpoints: where a run stood after a round, in files that are whole whenever the run is killed.

    round-000000040.safetensors        weights, buffers, what the server keeps
    client-12-000000038.safetensors    what a client keeps, since the checkpoint after it last took part
    round-000000040.json               which files belong to the checkpoint, with their digests; written last

A checkpoint writes what is new since the one before. The two newest are kept: one may be damaged.
"""

import json
from hashlib import sha256
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

import torch
from safetensors import SafetensorError
from safetensors.torch import load as from_safetensors
from safetensors.torch import save as to_safetensors

from turbosvm.clients.memory import ClientMemory
from turbosvm.errors import in_one_line
from turbosvm.files import cannot_read, cannot_write, sync_to_disk, write_atomically
from turbosvm.simulation import Standing
from turbosvm.snapshot import pack_client, pack_run, unpack
from turbosvm.types import Weights

KEPT = 2
LEAST_SECONDS = 5.0
"""Between two checkpoints that come by themselves."""
SHARE = 0.05
"""Of the time that such checkpoints may take."""

_FORMAT = "turbosvm checkpoint 1"

Entry = dict[str, Any]
"""A file of a checkpoint: its name, its digest, and the names of its tensors in their order."""


class Found(NamedTuple):
    """A checkpoint to go on from, or none, and what the person should know of the search."""

    standing: Standing | None
    notes: list[str]


class Checkpoints:
    """The checkpoints of one run.

    Args:
        folder: where they are.
        every: after so many rounds; 0: never; None: as often as they take less than a twentieth of the time.
    """

    def __init__(self, folder: Path, every: int | None) -> None:
        self._folder, self._every = folder, every
        self._known: dict[int, tuple[int, Entry]] = {}  # of each client, the stamp and the file
        self._round: int | None = None
        self._wait, self._since = LEAST_SECONDS, perf_counter()

    def due(self, number: int) -> bool:
        """Whether there should be one after this round."""
        if self._every is None:
            return perf_counter() - self._since >= self._wait
        return self._every > 0 and number % self._every == 0

    def write(self, standing: Standing) -> None:
        """Write one, unless this round's is there."""
        if self._every == 0 or standing.round == self._round:
            return
        began = perf_counter()
        try:
            self._write(standing)
        finally:  # one that failed is not tried again at once, either
            self._since = perf_counter()
            self._wait = max(LEAST_SECONDS, (self._since - began) / SHARE)

    def _write(self, standing: Standing) -> None:
        number = f"{standing.round:09d}"
        run = self._save(f"round-{number}.safetensors", pack_run(standing))
        known = {}
        for client, stamp in standing.memory.stamps.items():
            old = self._known.get(client)
            if old is None or old[0] != stamp:
                old = stamp, self._save(f"client-{client}-{number}.safetensors", pack_client(standing.memory, client))
            known[client] = old
        clients = {str(client): entry for client, (_, entry) in known.items()}
        about = {"format": _FORMAT, "round": standing.round, "run": run, "clients": clients}
        about["sha256"] = _digest(about)
        write_atomically(self._folder / f"round-{number}.json", json.dumps(about, indent=1) + "\n")
        self._known, self._round = known, standing.round
        self._tidy(standing.round)

    def forget(self) -> None:
        """Remove all of them."""
        self._known, self._round = {}, None
        with cannot_write("checkpoints in", self._folder):
            for path in self._folder.glob("*"):
                path.unlink()

    def latest(self, recorded: int, memory: ClientMemory, device: torch.device) -> Found:
        """Read the newest that is whole, and not newer than the last recorded round."""
        notes: list[str] = []
        ahead = 0
        for path in sorted(self._folder.glob("round-*.json"), reverse=True):
            try:
                about = _read(path)
                if about["round"] > recorded:
                    ahead = ahead or about["round"]
                    continue
                entries = {int(client): entry for client, entry in about["clients"].items()}
                run, clients = self._load(about["run"]), {client: self._load(entries[client]) for client in entries}
            except _DAMAGES as error:
                notes.append(f"The checkpoint '{path}' is damaged ({in_one_line(error)}); it is passed over.")
            else:
                return Found(self._opened(run, clients, entries, memory, device), [*_cut_off(recorded, ahead), *notes])
        return Found(None, [*_cut_off(recorded, ahead), *notes])

    def _opened(
        self,
        run: Weights,
        clients: dict[int, Weights],
        entries: dict[int, Entry],
        memory: ClientMemory,
        device: torch.device,
    ) -> Standing:
        standing = unpack(run, clients, memory, device)
        self._known = {client: (stamp, entries[client]) for client, stamp in standing.memory.stamps.items()}
        self._round = standing.round
        return standing

    def _save(self, name: str, tensors: Weights) -> Entry:
        plain = {key: value.detach().cpu().contiguous().clone() for key, value in tensors.items()}
        content = to_safetensors(plain)
        write_atomically(self._folder / name, content)
        return {"file": name, "sha256": sha256(content).hexdigest(), "names": list(plain)}

    def _load(self, entry: Entry) -> Weights:
        path = self._folder / Path(entry["file"]).name
        with cannot_read(path):
            content = path.read_bytes() if path.exists() else b""
        if sha256(content).hexdigest() != entry["sha256"]:
            raise ValueError(f"{path.name} is not what was written")
        tensors = from_safetensors(content)
        return {name: tensors[name] for name in entry["names"]}

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
            if about["round"] <= latest and kept < KEPT:
                kept += 1
                needed |= {path.name, *(entry["file"] for entry in (about["run"], *about["clients"].values()))}
        with cannot_write("checkpoints in", self._folder):
            for path in self._folder.glob("*"):
                if path.name not in needed and path.is_file():
                    path.unlink(missing_ok=True)


def _cut_off(recorded: int, ahead: int) -> list[str]:
    """What to say of checkpoints that are newer than the records, which are written first."""
    told = f"The records end with round {recorded}, though there is a checkpoint of round {ahead}: they are damaged."
    return [told] if ahead else []


_DAMAGES = (ValueError, KeyError, TypeError, AttributeError, RecursionError, SafetensorError)


def _read(path: Path) -> Entry:
    """What a checkpoint says of itself."""
    with cannot_read(path):
        about: Entry = json.loads(path.read_bytes())
    if about["format"] != _FORMAT:
        raise ValueError(f"its format is '{about['format']}'")
    if about["sha256"] != _digest(about):
        raise ValueError("it is not what was written")
    return about


def _digest(about: Entry) -> str:
    rest = {key: value for key, value in about.items() if key != "sha256"}
    return sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()
