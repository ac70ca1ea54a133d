"""Named tensors that lie side by side in one piece of memory (a piece for each type), so that one copy moves them all.

A `Block` is a mapping of names to tensors like any other. The functions here take any, and are fast where they are
given blocks of one layout: one operation for all names instead of one for each. On a GPU, where starting an operation
takes longer than carrying it out, that is most of what a server's step costs.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property

import torch
from torch import Tensor

_ALIGNED = 32
"""Tensors begin at multiples of so many numbers; vector instructions want that."""


class Layout:
    """Where tensors of some names, shapes and types lie in pieces of memory, one for each type."""

    def __init__(self, like: Mapping[str, Tensor]) -> None:
        self.names = tuple(like)
        self.kinds = list(dict.fromkeys(value.dtype for value in like.values()))
        self._lengths: list[list[int]] = [[] for _ in self.kinds]
        """For each kind, the lengths of its tensors, each followed by that of the gap behind it."""
        self._places: dict[str, tuple[int, int, torch.Size]] = {}
        """For each name, its kind, where in the piece it begins, and its shape."""
        for name, value in like.items():
            kind = self.kinds.index(value.dtype)
            self._places[name] = kind, sum(self._lengths[kind]), value.shape
            self._lengths[kind] += [value.numel(), -value.numel() % _ALIGNED]

    @cached_property
    def nbytes(self) -> int:
        """Bytes that the tensors take, without the gaps."""
        return sum(shape.numel() * self.kinds[kind].itemsize for kind, _, shape in self._places.values())

    def fits(self, values: Mapping[str, Tensor]) -> bool:
        """Whether these are the tensors that are laid out so."""
        return set(values) == set(self.names) and all(
            (values[name].dtype, values[name].shape) == (self.kinds[kind], shape)
            for name, (kind, _, shape) in self._places.items()
        )

    def pieces(self, device: torch.device, *rows: int) -> list[Tensor]:
        """Memory to lay such tensors out in, with zeros in the gaps; with `rows`, so many times."""
        pairs = zip(self._lengths, self.kinds, strict=True)
        pieces = [torch.empty(*rows, sum(lengths), dtype=kind, device=device) for lengths, kind in pairs]
        for piece, lengths in zip(pieces, self._lengths, strict=True):
            for gap in piece.split(lengths, dim=-1)[1::2]:
                if gap.numel():
                    gap.zero_()
        return pieces

    def tensor(self, name: str, pieces: Sequence[Tensor]) -> Tensor:
        """The tensor of that name in pieces of memory `[size]`; from `[C, size]`, with a first axis."""
        kind, start, shape = self._places[name]
        part = pieces[kind].narrow(-1, start, shape.numel())
        return part.view((*part.shape[:-1], *shape))


class Block(Mapping[str, Tensor]):
    """Tensors with the pieces of memory that they lie in; these may be a row each of what several blocks lie in."""

    def __init__(self, layout: Layout, pieces: Sequence[Tensor], row: "tuple[Rows, int] | None" = None) -> None:
        self.layout, self.pieces, self.row = layout, tuple(pieces), row
        self._tensors: dict[str, Tensor] = {}
        """Those that were asked for: most blocks are only ever moved as a whole."""

    @property
    def nbytes(self) -> int:
        """Bytes that the tensors take, without the gaps."""
        return self.layout.nbytes * (self.pieces[0].shape[:-1].numel() if self.pieces else 0)

    def __or__(self, other: Mapping[str, Tensor]) -> dict[str, Tensor]:
        return {**self, **other}

    def __ror__(self, other: Mapping[str, Tensor]) -> dict[str, Tensor]:
        return {**other, **self}

    def __getitem__(self, name: str) -> Tensor:
        if name not in self._tensors:
            self._tensors[name] = self.layout.tensor(name, self.pieces)
        return self._tensors[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.layout.names)

    def __len__(self) -> int:
        return len(self.layout.names)


class Part(Mapping[str, Tensor]):
    """Some of a block's tensors."""

    def __init__(self, whole: Block, names: Iterable[str]) -> None:
        self.whole, self._names = whole, dict.fromkeys(names)

    def __getitem__(self, name: str) -> Tensor:
        if name not in self._names:
            raise KeyError(name)
        return self.whole[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


class Rows:
    """Room for several blocks of one layout, so that stacking them takes no copy."""

    def __init__(self, layout: Layout, count: int, device: torch.device) -> None:
        self.layout, self.count, self.pieces = layout, count, layout.pieces(device, count)

    def blocks(self) -> list[Block]:
        """Each of them."""
        parts = [piece.unbind() for piece in self.pieces]
        return [Block(self.layout, [rows[index] for rows in parts], (self, index)) for index in range(self.count)]

    def stacked(self, rows: Sequence[int]) -> Block:
        """Some of them, stacked; all of them as they lie there."""
        every = list(rows) == list(range(self.count))
        return Block(self.layout, self.pieces if every else [piece[list(rows)] for piece in self.pieces])


def laid_out(layout: Layout, device: torch.device) -> Block:
    """Room for tensors of a layout; their numbers are not set."""
    return Block(layout, layout.pieces(device))


@torch.no_grad()
def copy_into(places: Mapping[str, Tensor], values: Mapping[str, Tensor]) -> None:
    """Copy numbers to where others of the same names are."""
    if same_layout([places, values]):
        for to, come in zip(places.pieces, values.pieces, strict=True):  # type: ignore[attr-defined]
            to.copy_(come)
    elif places:
        torch._foreach_copy_(list(places.values()), [values[name] for name in places])


def copied(values: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
    """The same numbers elsewhere, laid out in the ordinary way."""
    if isinstance(values, Block):
        return Block(values.layout, [piece.clone() for piece in values.pieces])
    ordinary = torch.contiguous_format
    return {name: value.detach().clone(memory_format=ordinary) for name, value in values.items()}


def stacked(each: Sequence[Mapping[str, Tensor]]) -> Mapping[str, Tensor]:
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


def as_laid_out(values: Mapping[str, Tensor], like: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
    """The same numbers in a block, where `like` is one (or several, stacked) of the same names, shapes and types."""
    if not isinstance(like, Block) or isinstance(values, Block) or not like.layout.fits(values):
        return values
    block = laid_out(like.layout, like.pieces[0].device)
    copy_into(block, values)
    return block


def chosen(values: Mapping[str, Tensor], names: Iterable[str]) -> Mapping[str, Tensor]:
    """Those of some names; the whole block, where these are all of its names."""
    if not isinstance(values, Block):
        return {name: values[name] for name in names}
    part = Part(values, names)
    return values if len(part) == len(values) else part


def completed(part: Mapping[str, Tensor], rest: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
    """Both together: a new block, where one is part of a block and the other is like all that it lacks."""
    if isinstance(part, Part) and set(rest) == set(part.whole) - set(part):
        alike = [(part.whole[name], value) for name, value in rest.items()]
        if all((own.dtype, own.shape) == (value.dtype, value.shape) for own, value in alike):
            whole = copied(part.whole)
            copy_into({name: whole[name] for name in rest}, rest)
            return whole
    return {**part, **rest}


def in_order(values: Mapping[str, Tensor], like: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
    """The same tensors in the order of others of these names, so that whoever sums over them gets the same bits."""
    return values if list(values) == list(like) else {name: values[name] for name in like}


def nbytes(*groups: Mapping[str, Tensor]) -> int:
    """Bytes that sending these tensors takes, uncompressed."""
    return sum(
        group.nbytes if isinstance(group, Block) else sum(value.nbytes for value in group.values()) for group in groups
    )


def pieces_of(groups: Sequence[Mapping[str, Tensor]]) -> list[Tensor]:
    """All numbers of these tensors, in as few tensors as possible; blocks come with the zeros between their tensors."""
    rows: dict[Rows, set[int]] = {}
    found: list[Tensor] = []
    for group in groups:
        if not isinstance(group, Block):
            found += group.values()
        elif not group.row:
            found += group.pieces
        else:
            rows.setdefault(group.row[0], set()).add(group.row[1])
    for room, some in rows.items():
        found += room.pieces if len(some) == room.count else [piece[row] for row in some for piece in room.pieces]
    return found
