from typing import get_args

import pytest
import torch

from turbosvm.clients.lanes import Job
from turbosvm.clients.training import LastBatch, LocalTraining, batch_sizes, batches, largest_batch, orders

CHOICES: list[LastBatch | None] = [*get_args(LastBatch), None]


def test_each_epoch_sees_every_sample_once_in_an_order_of_its_own() -> None:
    got = list(batches(10, LocalTraining(epochs=2, batch_size=4, learning_rate=0.1), seed=0, number=3, client=7))
    assert [len(batch) for batch in got] == [4, 4, 2, 4, 4, 2]
    first, second = torch.cat(got[:3]).tolist(), torch.cat(got[3:]).tolist()
    assert sorted(first) == sorted(second) == list(range(10))
    assert first != second


def test_the_order_depends_on_seed_round_and_client() -> None:
    training = LocalTraining(1, 32, 0.1)
    orders = {
        tuple(torch.cat(list(batches(32, training, seed, number, client))).tolist())
        for seed in range(3)
        for number in range(3)
        for client in range(3)
    }
    assert len(orders) == 27


def sizes(last_batch: LastBatch | None, count: int, batch_size: int = 4) -> list[int]:
    training = LocalTraining(2, batch_size, 0.1, last_batch=last_batch)
    got = [len(batch) for batch in batches(count, training, seed=0, number=1, client=0)]
    assert got == batch_sizes(count, training) * 2
    assert max(got) <= largest_batch(training)
    return got[: len(got) // 2]


def test_a_single_sample_that_is_left_over_is_kept_merged_or_dropped() -> None:
    assert sizes("keep", 9) == sizes(None, 9) == [4, 4, 1]
    assert sizes("merge", 9) == [4, 5]
    assert sizes("drop", 9) == [4, 4]


def test_other_last_batches_and_only_samples_stay_as_they_are() -> None:
    for last_batch in CHOICES:
        assert sizes(last_batch, 10) == [4, 4, 2]
        assert sizes(last_batch, 8) == [4, 4]
        assert sizes(last_batch, 3) == [3]
        assert sizes(last_batch, 1) == [1]
        assert sizes(last_batch, 3, batch_size=1) == [1, 1, 1]


def test_the_order_of_samples_is_the_same_whatever_becomes_of_the_last() -> None:
    kept, merged, dropped = (
        torch.cat(list(batches(9, LocalTraining(3, 4, 0.1, last_batch=last_batch), 0, 1, 0)))
        for last_batch in ("keep", "merge", "drop")
    )
    assert torch.equal(kept, merged)
    epochs = kept.view(3, 9)
    assert torch.equal(dropped, epochs[:, :8].flatten())
    assert len(set(epochs[:, 8].tolist())) > 1  # another one each time


@pytest.mark.parametrize("last_batch", CHOICES)
def test_recorded_steps_see_the_same_batches(last_batch: LastBatch | None) -> None:
    """On a GPU, steps find their samples on a stage where all epochs lie side by side."""
    for count in range(1, 20):
        training = LocalTraining(3, 4, 0.1, last_batch=last_batch)
        stage = torch.cat([torch.full((5,), -1), *orders(count, training, 0, 2, 7)])
        job = Job(7, 5, count, training.epochs, batch_sizes(count, training))
        got = [stage[place : place + size].tolist() for place, size in job.steps()]
        assert got == [batch.tolist() for batch in batches(count, training, 0, 2, 7)]
