"""Named tensors that lie side by side in one piece of memory (a piece for each type), so that one copy moves them all.

A `Block` is an ordinary dictionary of tensors. The functions here take any dictionaries, and are fast where they are
given blocks of one layout: one operation for all names instead of one for each. On a GPU, where starting an operation
takes longer than carrying it out, that is most of what a server's step costs.
"""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

_ALIGNED = 64
"""Tensors begin at multiples of so many numbers; vector instructions want that."""


class Layout:
    """Where tensors of some names, shapes and types lie in pieces of memory, one for each type."""

    def __init__(self, like: Mapping[str, Tensor]) -> None:
        self.kinds = list(dict.fromkeys(value.dtype for value in like.values()))
        self.sizes = [0] * len(self.kinds)
        self._places: dict[str, tuple[int, int, torch.Size]] = {}
        for name, value in like.items():
            kind = self.kinds.index(value.dtype)
            self._places[name] = kind, self.sizes[kind], value.shape
            self.sizes[kind] += -(-value.numel() // _ALIGNED) * _ALIGNED

    def pieces(self, device: torch.device, *rows: int) -> list[Tensor]:
        """Zeros to lay such tensors out in; with `rows`, so many times."""
        pairs = zip(self.sizes, self.kinds, strict=True)
        return [torch.zeros(*rows, size, dtype=kind, device=device) for size, kind in pairs]

    def tensors(self, pieces: Sequence[Tensor]) -> dict[str, Tensor]:
        """The tensors in pieces of memory `[size]`; from `[C, size]`, each with a first axis."""
        found = {}
        for name, (kind, start, shape) in self._places.items():
            part = pieces[kind].narrow(-1, start, shape.numel())
            found[name] = part.view((*part.shape[:-1], *shape))
        return found


class Block(dict[str, Tensor]):
    """Tensors with the pieces of memory that they lie in; these may be a row each of what several blocks lie in."""

    def __init__(self, layout: Layout, pieces: Sequence[Tensor], row: "tuple[Rows, int] | None" = None) -> None:
        super().__init__(layout.tensors(pieces))
        self.layout, self.pieces, self.row = layout, tuple(pieces), row


class Rows:
    """Room for several blocks of one layout, so that stacking them takes no copy."""

    def __init__(self, layout: Layout, count: int, device: torch.device) -> None:
        self.layout, self._count, self._pieces = layout, count, layout.pieces(device, count)

    def block(self, index: int) -> Block:
        """One of them."""
        return Block(self.layout, [piece[index] for piece in self._pieces], (self, index))

    def stacked(self, rows: Sequence[int]) -> Block:
        """Some of them, stacked; all of them as they lie there."""
        every = list(rows) == list(range(self._count))
        return Block(self.layout, self._pieces if every else [piece[list(rows)] for piece in self._pieces])


def laid_out(layout: Layout, device: torch.device) -> Block:
    """Zeros of a layout."""
    return Block(layout, layout.pieces(device))


@torch.no_grad()
def copy_into(places: Mapping[str, Tensor], values: Mapping[str, Tensor]) -> None:
    """Copy numbers to where others of the same names are."""
    if same_layout([places, values]):
        for to, come in zip(places.pieces, values.pieces, strict=True):  # type: ignore[attr-defined]
            to.copy_(come)
    elif places:
        torch._foreach_copy_(list(places.values()), [values[name] for name in places])


def copied(values: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The same numbers elsewhere, laid out in the ordinary way."""
    if isinstance(values, Block):
        return Block(values.layout, [piece.clone() for piece in values.pieces])
    ordinary = torch.contiguous_format
    return {name: value.detach().clone(memory_format=ordinary) for name, value in values.items()}


def stacked(each: Sequence[Mapping[str, Tensor]]) -> dict[str, Tensor]:
    """Tensors of the same names, stacked along a first axis."""
    if same_layout(each):
        blocks: Sequence[Block] = each  # type: ignore[assignment]
        rows = [block.row for block in blocks if block.row]
        if len(rows) == len(blocks) and len({id(room) for room, _ in rows}) == 1:
            return rows[0][0].stacked([index for _, index in rows])
        return Block(
            blocks[0].layout, [torch.stack(rows) for rows in zip(*(one.pieces for one in blocks), strict=True)]
        )
    return {name: torch.stack([values[name] for values in each]) for name in each[0]}


def same_layout(each: Sequence[Mapping[str, Tensor]]) -> bool:
    """Whether these are blocks of one layout: their names, shapes and types are the same."""
    return all(isinstance(one, Block) for one in each) and len({id(one.layout) for one in each}) == 1  # type: ignore[attr-defined]


def pieces_of(groups: Sequence[Mapping[str, Tensor]]) -> list[Tensor]:
    """All numbers of these tensors, in as few tensors as possible; blocks come with the zeros between their tensors."""
    return [
        piece for group in groups for piece in (group.pieces if isinstance(group, Block) else tuple(group.values()))
    ]
