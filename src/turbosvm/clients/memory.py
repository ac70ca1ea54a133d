"""What clients keep between the rounds that they take part in, by client: on the GPU, in memory, on disk."""

import itertools
import shutil
import tempfile
import weakref
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import torch
from safetensors.torch import load_file
from safetensors.torch import save as to_safetensors

from turbosvm.blocks import nbytes
from turbosvm.files import cannot_write, write_atomically
from turbosvm.grouping import grouped, ungrouped
from turbosvm.types import Weights

Parts = Mapping[str, Weights]


class ClientMemory:
    """Named tensors of each client and part. Those kept longest ago go from the GPU to memory, and from there to disk.

    It never changes: `keeping` returns a new one, which shares what is the same. So whoever holds the memory of a round
    can go on from that round, whatever came after it.

    Args:
        budget: Bytes that may lie in memory.
        on_gpu: Bytes that may lie on the GPU that they were made on.
    """

    def __init__(self, budget: int, on_gpu: int = 0) -> None:
        self._budget, self._on_gpu = budget, on_gpu
        self._kept: dict[int, _Kept] = {}  # oldest first
        self._folder = _Folder()

    @property
    def clients(self) -> list[int]:
        """Who has something to remember, in order."""
        return sorted(self._kept)

    @property
    def stamps(self) -> dict[int, int]:
        """A number for each client, oldest first, that is another whenever what it keeps is another."""
        return {client: kept.stamp for client, kept in self._kept.items()}

    @property
    def on_disk(self) -> list[int]:
        """Whose memory lies on disk, in order."""
        return sorted(client for client, kept in self._kept.items() if isinstance(kept.tensors, _OnDisk))

    @property
    def nbytes(self) -> int:
        """How much all clients together keep, wherever it lies."""
        return sum(nbytes(*self.recall(client, torch.device("cpu")).values()) for client in self._kept)

    def recall(self, client: int, device: torch.device) -> Mapping[str, Weights]:
        """What a client kept, by part; nothing if it never took part."""
        tensors = self._kept[client].tensors if client in self._kept else {}
        flat = tensors.read() if isinstance(tensors, _OnDisk) else tensors
        return ungrouped({name: value.to(device) for name, value in flat.items()})

    def keeping(self, new: Mapping[int, Parts]) -> "ClientMemory":
        """The memory after these clients have put what they keep in the place of what they kept before."""
        after = ClientMemory(self._budget, self._on_gpu)
        after._folder = self._folder
        after._kept = {client: kept for client, kept in self._kept.items() if client not in new}
        for client, parts in new.items():
            flat = {name: value.detach().clone() for name, value in grouped(parts).items()}
            if flat:
                after._kept[client] = _kept(flat, next(_stamps))
        after._make_room()
        return after

    def _make_room(self) -> None:
        for client in self._too_many(self._on_gpu, gpu=True):
            on_cpu = {name: value.cpu() for name, value in self._held(client).items()}
            self._kept[client] = _kept(on_cpu, self._kept[client].stamp)
        for client in self._too_many(self._budget, gpu=False):
            on_disk = self._folder.write(client, self._held(client))
            self._kept[client] = _Kept(on_disk, beside=0, on_gpu=0, stamp=self._kept[client].stamp)

    def _too_many(self, budget: int, gpu: bool) -> list[int]:
        """The clients whose numbers have no room on the GPU, or beside it in memory: those kept longest ago."""
        sizes = {client: kept.on_gpu if gpu else kept.beside for client, kept in self._kept.items()}
        used, leaving = sum(sizes.values()), []
        for client, size in sizes.items():
            if used <= budget:
                break
            leaving += [client] if size else []
            used -= size
        return leaving

    def _held(self, client: int) -> Weights:
        tensors = self._kept[client].tensors
        return {} if isinstance(tensors, _OnDisk) else tensors


class _OnDisk:
    """A file that goes away with the last memory that knows it, and the order of the tensors in it."""

    def __init__(self, path: Path, names: Sequence[str]) -> None:
        self.path, self._names = path, tuple(names)
        weakref.finalize(self, path.unlink, missing_ok=True)

    def read(self) -> Weights:
        """Return the tensors, in the order in which they were kept: a file has them in another."""
        tensors = load_file(self.path)
        return {name: tensors[name] for name in self._names}


class _Kept(NamedTuple):
    """What one client keeps, and its bytes in memory and on the GPU; counted once, as each round asks for all."""

    tensors: Weights | _OnDisk
    beside: int
    on_gpu: int
    stamp: int


_stamps = itertools.count()


def _kept(tensors: Weights, stamp: int) -> _Kept:
    on_gpu = nbytes({name: value for name, value in tensors.items() if value.is_cuda})
    return _Kept(tensors, nbytes(tensors) - on_gpu, on_gpu, stamp)


class _Folder:
    """A temporary folder, made when first needed, and gone with the last memory that uses it."""

    def __init__(self) -> None:
        self._path: Path | None = None
        self._numbers = itertools.count()

    def write(self, client: int, flat: Weights) -> _OnDisk:
        if self._path is None:
            with cannot_write("what clients keep in", Path(tempfile.gettempdir())):
                self._path = Path(tempfile.mkdtemp(prefix="turbosvm-clients-"))
            weakref.finalize(self, shutil.rmtree, self._path, ignore_errors=True)
        path = self._path / f"{client}-{next(self._numbers)}.safetensors"
        write_atomically(path, to_safetensors({name: value.contiguous() for name, value in flat.items()}))
        return _OnDisk(path, list(flat))
