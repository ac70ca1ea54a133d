"""What clients keep: in memory, and beyond a budget on disk."""

import gc
from pathlib import Path

import pytest
import torch

from turbosvm.blocks import nbytes
from turbosvm.clients.memory import ClientMemory
from turbosvm.types import Weights

CPU = torch.device("cpu")


def things(client: int) -> dict[str, Weights]:
    """100 float32 numbers, 400 bytes."""
    return {"objective": {"a.b": torch.full((10,), float(client))}, "local": {"c/d": torch.full((90,), -float(client))}}


def assert_remembers(memory: ClientMemory, client: int) -> None:
    parts = memory.recall(client, CPU)
    assert set(parts) == {"objective", "local"}
    assert torch.equal(parts["objective"]["a.b"], torch.full((10,), float(client)))
    assert torch.equal(parts["local"]["c/d"], torch.full((90,), -float(client)))


def test_a_client_that_never_took_part_remembers_nothing() -> None:
    assert ClientMemory(1000).recall(5, CPU) == {}


@pytest.mark.parametrize(("budget", "on_disk"), [(4000, []), (850, [0, 1, 2, 3]), (0, [0, 1, 2, 3, 4, 5])])
def test_beyond_the_budget_the_oldest_go_to_disk_and_all_come_back(budget: int, on_disk: list[int]) -> None:
    memory = ClientMemory(budget)
    for client in range(6):
        memory = memory.keeping({client: things(client)})
    assert memory.clients == list(range(6))
    assert memory.on_disk == on_disk
    assert memory.nbytes == 6 * 400
    for client in (5, 0, 3, 1, 4, 2):
        assert_remembers(memory, client)


def test_who_took_part_lately_stays_in_memory() -> None:
    memory = ClientMemory(850).keeping({0: things(0), 1: things(1)}).keeping({0: things(0)}).keeping({2: things(2)})
    assert memory.on_disk == [1]


@pytest.mark.parametrize("budget", [0, 850, 10_000])
def test_a_memory_stays_as_it_was_whatever_came_after_it(budget: int) -> None:
    before = ClientMemory(budget).keeping({client: things(client) for client in range(4)})
    after = before.keeping({1: things(9), 7: things(7), 2: {}})
    assert before.clients == [0, 1, 2, 3]
    assert after.clients == [0, 1, 3, 7]
    for client in before.clients:
        assert_remembers(before, client)
    assert torch.equal(after.recall(1, CPU)["objective"]["a.b"], torch.full((10,), 9.0))
    assert after.recall(2, CPU) == {}


@pytest.mark.parametrize("budget", [0, 10_000])
def test_new_things_take_the_place_of_old_ones(budget: int) -> None:
    memory = ClientMemory(budget).keeping({0: things(7)}).keeping({0: things(0)})
    assert_remembers(memory, 0)
    assert memory.clients == [0]


def test_its_files_go_with_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    memory = ClientMemory(0).keeping({3: things(3)})
    assert len(list(tmp_path.glob("turbosvm-clients-*/3-*.safetensors"))) == 1
    memory = memory.keeping({3: things(4)})
    gc.collect()
    assert len(list(tmp_path.glob("turbosvm-clients-*/3-*.safetensors"))) == 1  # the old one is gone
    del memory
    gc.collect()
    assert not list(tmp_path.iterdir())


def test_it_keeps_copies_apart_from_what_goes_on_changing() -> None:
    tensor = torch.zeros(3)
    memory = ClientMemory(1000).keeping({0: {"local": {"c": tensor}}})
    tensor += 1
    assert memory.recall(0, CPU)["local"]["c"].tolist() == [0.0, 0.0, 0.0]


def test_what_a_round_adds_is_counted_and_not_what_all_others_keep(monkeypatch: pytest.MonkeyPatch) -> None:
    memory = ClientMemory(10**6).keeping({client: things(client) for client in range(100)})
    counted = []

    def counting(*groups: Weights) -> int:
        counted.append(groups)
        return nbytes(*groups)

    monkeypatch.setattr("turbosvm.clients.memory.nbytes", counting)
    memory.keeping({100: things(100), 101: things(101)})
    assert len(counted) <= 2 * 2  # on the GPU and in all, for two clients
