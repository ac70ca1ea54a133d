"""Samples gathered by index; the CPU stands in for a GPU here."""

import numpy as np
import torch

from turbosvm.data.federated import FederatedData
from turbosvm.data.samples import Samples
from turbosvm.data.windows import Windows

CPU = torch.device("cpu")


def images() -> FederatedData:
    rng = np.random.default_rng(0)
    users = {
        str(user): (rng.integers(0, 256, (user + 2, 1, 3, 3)).astype(np.uint8), [user] * (user + 2))
        for user in range(4)
    }
    return FederatedData.from_users(users, 4)


def text() -> FederatedData:
    tokens = np.arange(20, dtype=np.uint8)
    inputs = Windows(tokens, np.array([0, 6, 10]), 5)
    labels, offsets = np.arange(10) % 3, np.array([0, 4, 10])
    return FederatedData("text", inputs, labels, offsets, ("a", "b"), ("x", "y", "z"), tokens=True)


def of_user(data: FederatedData, samples: Samples, user: int, start: int) -> None:
    inputs, labels = samples.at(start + torch.arange(int(data.counts[user])))
    wanted_inputs, wanted_labels = data.user_tensors(user, CPU)
    assert inputs.dtype == wanted_inputs.dtype
    assert torch.equal(inputs, wanted_inputs)
    assert torch.equal(labels, wanted_labels)


def test_all_samples_are_there_if_they_fit() -> None:
    for data in (images(), text()):
        samples = Samples(data, CPU, visitors=2, room=10_000)
        assert samples.resident
        for user, start in enumerate(samples.bring(range(len(data.users)))):
            of_user(data, samples, user, start)


def test_those_of_a_round_are_there_if_not_all_fit() -> None:
    for data in (images(), text()):
        samples = Samples(data, CPU, visitors=2, room=0)
        assert not samples.resident
        last = len(data.users) - 1
        for users in ([last, 0], [0, last], [last]):
            for user, start in zip(users, samples.bring(users), strict=True):
                of_user(data, samples, user, start)
