import torch

from turbosvm.clients.training import LocalTraining, batches


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
