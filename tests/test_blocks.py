"""Tensors side by side in memory: the same numbers as ordinary ones, in fewer operations."""

from collections.abc import Mapping

import pytest
import torch
from safetensors.torch import load, save
from torch import Tensor

from turbosvm.averaging import weighted_means
from turbosvm.blocks import (
    Block,
    Layout,
    Part,
    Rows,
    as_laid_out,
    chosen,
    completed,
    copied,
    copy_into,
    laid_out,
    nbytes,
    pieces_of,
    same_layout,
    stacked,
)

CPU = torch.device("cpu")


def numbers(seed: int) -> dict[str, Tensor]:
    draw = torch.Generator().manual_seed(seed)
    return {
        "weight": torch.randn(3, 5, generator=draw),
        "scalar": torch.randn((), generator=draw),
        "count": torch.tensor(seed),
        "nothing": torch.empty(0, 2),
        "bias": torch.randn(70, generator=draw),
    }


def block(seed: int, layout: Layout) -> Block:
    made = laid_out(layout, CPU)
    copy_into(made, numbers(seed))
    return made


def same(one: Mapping[str, Tensor], two: Mapping[str, Tensor]) -> bool:
    return list(one) == list(two) and all(
        torch.equal(value, two[name]) and value.dtype == two[name].dtype for name, value in one.items()
    )


def test_a_block_holds_what_it_is_given() -> None:
    made = block(1, Layout(numbers(1)))
    assert same(made, numbers(1))
    assert len(made.pieces) == 2  # floats, and a whole number
    assert all(value.is_contiguous() for value in made.values())


def test_copies_share_nothing() -> None:
    layout = Layout(numbers(0))
    one, two = block(1, layout), block(2, layout)
    copy = copied(one)
    assert isinstance(copy, Block)
    copy_into(one, two)
    assert same(one, numbers(2))
    assert same(copy, numbers(1))
    assert same(copied(numbers(1)), numbers(1))


def test_stacking_takes_no_copy_where_the_rows_lie_together() -> None:
    layout = Layout(numbers(0))
    rows = Rows(layout, 3, CPU)
    blocks = rows.blocks()
    for seed, each in enumerate(blocks):
        copy_into(each, numbers(seed))
    wanted = {name: torch.stack([numbers(seed)[name] for seed in range(3)]) for name in numbers(0)}
    together = stacked(blocks)
    assert same(together, wanted)
    assert together["weight"].data_ptr() == blocks[0]["weight"].data_ptr()
    assert same(stacked([numbers(seed) for seed in range(3)]), wanted)
    assert same(stacked([block(seed, layout) for seed in range(3)]), wanted)
    assert same(stacked([blocks[2], blocks[0]]), {name: value[[2, 0]] for name, value in wanted.items()})


def test_means_of_blocks_are_means() -> None:
    samples, layout = torch.tensor([1, 3, 4]), Layout(numbers(0))
    ordinary = stacked([numbers(seed) for seed in range(3)])
    means = weighted_means(stacked([block(seed, layout) for seed in range(3)]), samples)
    torch.testing.assert_close(dict(means), weighted_means(ordinary, samples))
    assert isinstance(means, Block)
    assert int(means["count"]) == 2
    assert list(weighted_means(ordinary, samples, ["bias"])) == ["bias"]


def test_blocks_are_told_from_others() -> None:
    layout = Layout(numbers(0))
    assert same_layout([block(0, layout), block(1, layout)])
    assert not same_layout([block(0, layout), block(1, Layout(numbers(0)))])
    assert not same_layout([block(0, layout), numbers(0)])
    assert len(pieces_of([block(0, layout), {"a": torch.ones(1), "b": torch.ones(2)}])) == 4


def test_they_can_be_saved() -> None:
    made = block(1, Layout(numbers(1)))
    assert same(dict(sorted(load(save(dict(made))).items())), dict(sorted(numbers(1).items())))


def test_numbers_are_laid_out_like_others_where_they_fit() -> None:
    layout = Layout(numbers(0))
    stack = stacked([block(1, layout), block(2, layout)])
    made = as_laid_out(numbers(3), stack)
    assert isinstance(made, Block)
    assert same(made, numbers(3))
    for other in (
        {name: value for name, value in numbers(3).items() if name != "bias"},
        numbers(3) | {"more": torch.zeros(1)},
        numbers(3) | {"bias": torch.zeros(())},  # a copy would spread it
        numbers(3) | {"bias": torch.zeros(70, dtype=torch.float64)},
    ):
        assert as_laid_out(other, stack) is other
    assert as_laid_out(numbers(3), numbers(1)).keys() == numbers(3).keys()


def test_blocks_count_their_bytes_and_join_as_dictionaries_do() -> None:
    layout = Layout(numbers(0))
    one = block(1, layout)
    assert nbytes(one) == nbytes(numbers(1))
    assert nbytes(stacked([one, block(2, layout)])) == 2 * nbytes(numbers(1))
    joined = one | {"bias": torch.ones(1)}
    assert torch.equal(joined["bias"], torch.ones(1))
    assert list({"first": torch.ones(1)} | one) == ["first", *one]


def test_a_part_of_a_block_is_completed_into_a_new_block() -> None:
    layout = Layout(numbers(0))
    whole = block(1, layout)
    part = chosen(whole, [name for name in whole if name not in ("weight", "count")])
    assert isinstance(part, Part)
    assert same(part, {name: numbers(1)[name] for name in ("scalar", "nothing", "bias")})
    with pytest.raises(KeyError):
        part["weight"]
    rest = {name: numbers(2)[name] for name in ("count", "weight")}
    new = completed(part, rest)
    assert isinstance(new, Block)
    assert new.layout is layout
    assert same(new, {**numbers(1), **rest})
    assert same(whole, numbers(1))  # what it was made from is as it was


def test_what_does_not_complete_a_block_is_put_together_as_it_is() -> None:
    whole = block(1, Layout(numbers(0)))
    assert chosen(whole, numbers(0)) is whole
    part, two = chosen(whole, ["scalar", "nothing", "bias", "count"]), numbers(2)
    for rest in (
        {"weight": two["weight"].double()},
        {"weight": two["weight"][:2]},
        {"weight": two["weight"], "x": two["bias"]},
    ):
        together = completed(part, rest)
        assert not isinstance(together, Block)
        assert same(together, {**part, **rest})
    assert same(completed({"a": two["bias"]}, {"b": two["weight"]}), {"a": two["bias"], "b": two["weight"]})
    assert chosen(numbers(1), ["bias"]).keys() == {"bias"}
