import numpy as np
import torch

from turbosvm.randomness import generator, lend_to_global, numpy_generator, stream_key


def test_a_stream_is_fixed_by_its_name_and_place_for_ever() -> None:
    # Written down once: if these numbers change, every published run changes with them.
    assert stream_key(0, "cohort", 1) == 18045847251435138790
    assert numpy_generator(0, "cohort", 1).integers(1000, size=4).tolist() == [198, 426, 504, 959]


def test_streams_differ_by_seed_name_and_place() -> None:
    keys = {
        stream_key(seed, stream, number, client)
        for seed in range(3)
        for stream in ("cohort", "shuffle")
        for number in range(12)
        for client in range(12)
    }
    assert len(keys) == 3 * 2 * 12 * 12


def test_place_parts_do_not_run_together() -> None:
    assert stream_key(0, "shuffle", 1, 23) != stream_key(0, "shuffle", 12, 3)


def test_the_same_stream_twice_gives_the_same_numbers() -> None:
    assert torch.equal(torch.rand(5, generator=generator(3, "init")), torch.rand(5, generator=generator(3, "init")))


def test_lending_gives_a_named_stream_and_restores_the_callers_state() -> None:
    torch_before, numpy_before = torch.get_rng_state(), np.random.get_state()[1].copy()  # type: ignore[index]  # noqa: NPY002
    with lend_to_global(0, "layers", 1, 2):
        first = torch.rand(3)
    assert torch.equal(torch.get_rng_state(), torch_before)
    assert np.array_equal(np.random.get_state()[1], numpy_before)  # type: ignore[index]  # noqa: NPY002
    torch.rand(10)
    with lend_to_global(0, "layers", 1, 2):
        assert torch.equal(torch.rand(3), first)
