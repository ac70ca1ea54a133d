"""Named tensors that lie side by side in one piece of memory (a piece for each type), so that one copy moves them all.

Nobody has to know: they are ordinary tensors. Whoever handles many at a time asks for the piece that they lie in.
"""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

_ALIGNED = 64
"""Tensors begin at multiples of so many numbers; vector instructions want that."""


def laid_out(like: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Zeros of the same names, shapes and types, in one block for each type and device."""
    kinds: dict[tuple[torch.dtype, torch.device], list[str]] = {}
    for name, value in like.items():
        kinds.setdefault((value.dtype, value.device), []).append(name)
    made: dict[str, Tensor] = {}
    for (dtype, device), names in kinds.items():
        sizes = [-(-like[name].numel() // _ALIGNED) * _ALIGNED for name in names]
        block = torch.zeros(sum(sizes), dtype=dtype, device=device)
        for name, part in zip(names, block.split(sizes), strict=True):
            made[name] = part[: like[name].numel()].view(like[name].shape)
    return {name: made[name] for name in like}


def blocks_of(values: Sequence[Tensor]) -> list[Tensor] | None:
    """The blocks that these tensors lie in, flat, each once; None if they lie elsewhere or are a small part of them."""
    blocks: dict[int, Tensor] = {}
    for value in values:
        blocks.setdefault(value.untyped_storage().data_ptr(), value)
    if len(blocks) == len(values) > 1:
        return None
    found = [
        value.as_strided((value.untyped_storage().nbytes() // value.element_size(),), (1,), 0)
        for value in blocks.values()
    ]
    filled = sum(value.numel() for value in values)
    return found if 2 * filled >= sum(block.numel() for block in found) else None


@torch.no_grad()
def copy_into(places: Mapping[str, Tensor], values: Mapping[str, Tensor]) -> None:
    """Copy numbers to where others of the same names are."""
    if not places:
        return
    given = {name: values[name] for name in places}
    to, come = blocks_of(list(places.values())), blocks_of(list(given.values()))
    if to and come and _layout(places) == _layout(given):
        for block, numbers in zip(to, come, strict=True):
            block.copy_(numbers)
    else:
        torch._foreach_copy_(list(places.values()), list(given.values()))


def copied(values: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The same numbers elsewhere, laid out in the ordinary way; block by block, where they lie in blocks."""
    blocks = blocks_of(list(values.values()))
    if not blocks:
        ordinary = torch.contiguous_format
        return {name: value.detach().clone(memory_format=ordinary) for name, value in values.items()}
    clones = {block.data_ptr(): block.detach().clone() for block in blocks}
    return {name: _same_place(value, clones[value.untyped_storage().data_ptr()]) for name, value in values.items()}


def stacked(each: Sequence[Mapping[str, Tensor]]) -> dict[str, Tensor]:
    """Tensors of the same names, stacked along a first axis; block by block, where all lie in blocks of one layout."""
    first = each[0]
    blocks = [blocks_of([values[name] for name in first]) for values in each]
    if not all(blocks) or any(_layout(values) != _layout(first) for values in each):
        return {name: torch.stack([values[name] for values in each]) for name in first}
    whole = {rows[0].data_ptr(): torch.stack(rows) for rows in (list(row) for row in zip(*blocks, strict=True))}
    return {name: _rows(value, whole[value.untyped_storage().data_ptr()]) for name, value in first.items()}


def _layout(values: Mapping[str, Tensor]) -> list[tuple[object, ...]]:
    return [(name, value.shape, value.storage_offset(), value.stride(), value.dtype) for name, value in values.items()]


def _same_place(value: Tensor, block: Tensor) -> Tensor:
    return block.as_strided(value.shape, value.stride(), value.storage_offset())


def _rows(value: Tensor, block: Tensor) -> Tensor:
    """What lies in each row of `block` where `value` lies in its own."""
    return block.as_strided((len(block), *value.shape), (block.shape[1], *value.stride()), value.storage_offset())
