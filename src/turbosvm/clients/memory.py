"""What clients keep between the rounds that they take part in, by client: in memory, beyond a budget on disk."""

import shutil
import tempfile
import weakref
from collections import OrderedDict
from pathlib import Path

import torch
from safetensors.torch import load_file
from safetensors.torch import save as to_safetensors

from turbosvm.files import write_atomically
from turbosvm.grouping import grouped, ungrouped
from turbosvm.types import Weights, nbytes


class ClientMemory:
    """Named tensors of each client and part, on the CPU; those used longest ago go to disk first.

    Args:
        budget: Bytes that may lie in memory.
    """

    def __init__(self, budget: int) -> None:
        self._budget, self._used = budget, 0
        self._held: OrderedDict[int, Weights] = OrderedDict()
        self._on_disk: dict[int, Path] = {}
        self._folder: Path | None = None

    @property
    def clients(self) -> list[int]:
        """Who has something to remember, in order."""
        return sorted({*self._held, *self._on_disk})

    @property
    def on_disk(self) -> list[int]:
        """Whose memory lies on disk, in order."""
        return sorted(self._on_disk)

    def recall(self, client: int, device: torch.device) -> dict[str, Weights]:
        """What a client kept, by part; nothing if it never took part."""
        if client in self._held:
            self._held.move_to_end(client)
            flat = self._held[client]
        elif client in self._on_disk:
            flat = load_file(self._on_disk[client])
        else:
            return {}
        return ungrouped({name: value.to(device) for name, value in flat.items()})

    def keep(self, client: int, parts: dict[str, Weights]) -> None:
        """Remember what a client keeps, in the place of what it kept before."""
        flat = {name: value.detach().to("cpu", copy=True) for name, value in grouped(parts).items()}
        if client in self._held:
            self._used -= nbytes(self._held.pop(client))
        if not flat:
            return
        self._held[client] = flat
        self._used += nbytes(flat)
        self._on_disk.pop(client, None)
        while self._used > self._budget:
            self._write_oldest()

    def _write_oldest(self) -> None:
        client, flat = self._held.popitem(last=False)
        self._used -= nbytes(flat)
        if self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix="turbosvm-clients-"))
            weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)
        path = self._folder / f"{client}.safetensors"
        write_atomically(path, to_safetensors({name: value.contiguous() for name, value in flat.items()}))
        self._on_disk[client] = path
