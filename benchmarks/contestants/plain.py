"""A plain PyTorch loop: copy the model, take SGD steps over the batches, average.

The data is on the device already, and products may use TF32 where a GPU has it, as ours do.
"""

import sys
from copy import deepcopy
from time import perf_counter

import torch
from torch.nn import functional
from workload import Workload, serve

work = Workload.read(sys.argv[1])
torch.set_float32_matmul_precision("high")
model, users = work.module(), work.users()
number = 0


def train(user: int) -> tuple[dict[str, torch.Tensor], int]:
    """One client's epoch."""
    own, (inputs, labels) = deepcopy(model).train(), users[user]
    optimiser = torch.optim.SGD(own.parameters(), lr=work.learning_rate)
    for batch in torch.randperm(len(labels), device=work.device).split(work.batch_size):
        optimiser.zero_grad()
        functional.cross_entropy(own(work.as_input(inputs[batch])), labels[batch]).backward()
        optimiser.step()
    return own.state_dict(), len(labels)


def rounds(count: int) -> list[float]:
    """Run rounds one after another."""
    global number
    seconds = []
    for _ in range(count):
        work.wait()
        start = perf_counter()
        number += 1
        trained = [train(user) for user in work.cohort(number, len(users))]
        total = sum(samples for _, samples in trained)
        states = [(state, samples / total) for state, samples in trained]
        mean = {name: sum(state[name] * share for state, share in states) for name in states[0][0]}
        model.load_state_dict(mean)
        work.wait()
        seconds.append(perf_counter() - start)
    return seconds


serve(rounds)
