"""Who computes what: PyTorch's threads at rest, and pieces that several threads share."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from time import sleep
from typing import Any

import pytest
import torch
from torch import Tensor

from turbosvm import merge_heads
from turbosvm.errors import TurboSVMError
from turbosvm.svm import fit, gram, products, solver
from turbosvm.svm.products import COLUMNS, product
from turbosvm.workers import own_threads, side_by_side, threads_for, workers


@contextmanager
def pytorch_at(threads: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize(
    ("size", "most", "expected"),
    [(0, 4, 1), (99, 4, 1), (199, 4, 1), (200, 4, 2), (399, 4, 3), (400, 4, 4), (10**9, 4, 4), (10**9, 1, 1)],
)
def test_threads_are_as_many_as_have_enough_to_do(size: int, most: int, expected: int) -> None:
    assert threads_for(size, 100, most) == expected


def test_pytorch_is_at_one_thread_inside_and_as_before_afterwards() -> None:
    with pytorch_at(3):
        with own_threads():
            assert torch.get_num_threads() == 1
            with own_threads():
                assert torch.get_num_threads() == 1
            assert torch.get_num_threads() == 1
        assert torch.get_num_threads() == 3
        with pytest.raises(KeyboardInterrupt), own_threads():
            raise KeyboardInterrupt
        assert torch.get_num_threads() == 3
        with workers(2):
            assert torch.get_num_threads() == 1
        assert torch.get_num_threads() == 3


def seen_by(size: int, pieces: int = 40) -> list[tuple[int, int]]:
    """Which threads did the pieces, and at how many threads PyTorch was there; each waits for another at first."""
    done: list[tuple[int, int]] = []
    both = threading.Barrier(threads_for(size, 100, 3))

    def work(piece: int) -> None:
        if piece < both.parties:
            both.wait(timeout=10)
        done.append((threading.get_ident(), torch.get_num_threads()))

    side_by_side(work, range(pieces), size, 100)
    assert len(done) == pieces
    return done


@pytest.mark.parametrize(("size", "threads"), [(199, 1), (299, 2), (300, 3), (5000, 3)])
def test_pieces_are_shared_by_the_threads_that_pay_each_with_one_core(size: int, threads: int) -> None:
    with pytorch_at(3), own_threads():
        done = seen_by(size)
    assert len({thread for thread, _ in done}) == threads
    assert threading.get_ident() in {thread for thread, _ in done}
    assert {at for _, at in done} == {1}


def test_without_threads_of_its_own_pieces_are_done_in_order() -> None:
    done: list[int] = []
    with pytorch_at(3):
        side_by_side(done.append, range(9), 10**6, 1)
    assert done == list(range(9))
    with pytorch_at(3), own_threads():
        side_by_side(done.append, [], 10**6, 1)
    assert done == list(range(9))


@pytest.mark.parametrize("bad", [0, 7])
def test_an_error_in_a_piece_ends_the_work(bad: int) -> None:
    done: list[int] = []

    def work(piece: int) -> None:
        if piece == bad:
            raise IndexError(f"{piece} is bad")
        done.append(piece)
        sleep(0.001)

    with pytorch_at(2):
        with pytest.raises(IndexError, match=f"{bad} is bad"), own_threads():
            side_by_side(work, range(10_000), 10**6, 1)
        assert torch.get_num_threads() == 2
    assert len(done) < 5_000


def heads(classes: int = 6, clients: int = 5, size: int = 1100) -> Tensor:
    draw = torch.Generator().manual_seed(0)
    return torch.randn(classes, size, generator=draw) + 0.3 * torch.randn(clients, classes, size, generator=draw)


@pytest.fixture
def _every_piece_pays(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (products, gram, solver):
        monkeypatch.setattr(module, "LEAST_PER_THREAD", 1)
    monkeypatch.setattr(solver, "A_PORTION", 20)
    monkeypatch.setitem(gram.LEAST_STAIR, "cpu", 5)


@pytest.mark.usefixtures("_every_piece_pays")
@pytest.mark.parametrize(
    "options", [{}, {"scheme": "ovr"}, {"kernel": "rbf"}, {"selection": False, "spread_out": False}]
)
def test_a_step_has_the_same_bits_at_any_number_of_threads(options: dict[str, Any]) -> None:
    found = []
    for threads in (1, 2, 5):
        with pytorch_at(threads):
            merged = merge_heads(heads(), [3, 1, 2, 5, 4], **options)
            assert torch.get_num_threads() == threads
        found.append(merged.head)
    assert torch.equal(found[0], found[1])
    assert torch.equal(found[0], found[2])


def test_a_step_of_femnists_size_has_the_same_bits_at_any_number_of_threads_and_every_time() -> None:
    large = heads(62, 8, 2049)
    found = []
    for threads in (1, 2, 2, 3):
        with pytorch_at(threads):
            found.append(merge_heads(large, [1] * 8).head)
    assert all(torch.equal(found[0], other) for other in found[1:])


def test_a_step_that_is_refused_leaves_pytorchs_threads_as_they_were() -> None:
    broken = heads(3, 2, 4)
    broken[0, 0, 0] = torch.nan
    with pytorch_at(3):
        for work in (lambda: merge_heads(broken, [1, 1]), lambda: fit(broken)):
            with pytest.raises(TurboSVMError, match="finite"):
                work()
            assert torch.get_num_threads() == 3


@pytest.mark.usefixtures("_every_piece_pays")
def test_a_step_inside_inference_mode_and_without_gradients_is_the_same() -> None:
    with pytorch_at(3):
        expected = merge_heads(heads(), [1] * 5).head
        with torch.inference_mode():
            assert torch.equal(merge_heads(heads(), [1] * 5).head, expected)
        with torch.no_grad():
            assert torch.equal(merge_heads(heads(), [1] * 5).head, expected)


@pytest.mark.usefixtures("_every_piece_pays")
@pytest.mark.parametrize("width", [1, COLUMNS - 1, COLUMNS, COLUMNS + 1, 2 * COLUMNS - 1, 2 * COLUMNS, 3 * COLUMNS + 1])
def test_a_product_in_pieces_is_the_product(width: int) -> None:
    draw = torch.Generator().manual_seed(0)
    left, right = torch.randn(7, 11, generator=draw), torch.randn(width, 11, generator=draw).T
    with pytorch_at(2), own_threads():
        torch.testing.assert_close(product(left, right), left @ right)
