"""Good replies become a cohort, bad ones are told of."""

from dataclasses import replace

import pytest
import torch

from turbosvm.clients.replies import Failure, Reply, gather, stack
from turbosvm.types import ModelState

START = ModelState(
    {"w": torch.zeros(2), "b": torch.zeros(1)},
    {"mean": torch.zeros(1), "mask": torch.tensor([float("-inf"), 0.0]), "steps": torch.tensor(3)},
)


def reply(client: int = 0, w: tuple[float, ...] = (1.0, 2.0), samples: int = 5, mean: float = 0.5) -> Reply:
    buffers = {**START.buffers, "mean": torch.tensor([mean])}
    return Reply(client, samples, ModelState({"w": torch.tensor(w), "b": torch.ones(1)}, buffers), torch.tensor(0.1))


def test_good_replies_are_stacked_in_their_order() -> None:
    good, failures = gather([reply(7), reply(3, (3.0, 4.0), samples=9)], START, "skip")
    assert not failures
    cohort = stack([replace(one, sent={"local": {"c": torch.ones(4) * one.client}}) for one in good])
    assert cohort.ids == (7, 3)
    assert cohort.samples.tolist() == [5, 9]
    assert cohort.parameters["w"].tolist() == [[1.0, 2.0], [3.0, 4.0]]
    assert cohort.buffers["steps"].tolist() == [3, 3]
    assert cohort.sent["local"]["c"].shape == (2, 4)


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        (reply(4, samples=0), "it has no samples"),
        (reply(4, (1.0, float("nan"))), "'w' is not finite"),
        (reply(4, (float("inf"), 1.0)), "'w' is not finite"),
        (reply(4, mean=float("nan")), "'mean' is not finite"),
        (reply(4, (1.0, 2.0, 3.0)), "parameter 'w' has shape [3], not [2]"),
        (replace(reply(4), model=ModelState({"w": torch.zeros(2)}, START.buffers)), "parameter 'b' is missing"),
        (replace(reply(4), model=ModelState(START.parameters, {})), "buffer 'mean' is missing"),
        (replace(reply(4), sent={"local": {"c": torch.tensor([float("nan")])}}), "'c' is not finite"),
        (replace(reply(4), sent={"local": {"mean": torch.full((7,), float("nan"))}}), "'mean' is not finite"),
        (Failure(4, "it did not answer before the deadline"), "it did not answer before the deadline"),
    ],
)
def test_bad_replies_are_left_out_and_told_of(bad: Reply | Failure, why: str) -> None:
    good, failures = gather([reply(1), bad, reply(2)], START, "skip")
    assert [one.client for one in good] == [1, 2]
    assert failures == [Failure(4, why)]


def test_infinities_that_a_buffer_always_had_are_not_a_fault() -> None:
    assert not gather([reply()], START, "skip").failures
    spoilt = replace(
        reply(), model=ModelState(reply().model.parameters, {**START.buffers, "mask": torch.full((2,), -torch.inf)})
    )
    assert gather([spoilt], START, "skip").failures == [Failure(0, "'mask' is not finite")]


def test_as_published_numbers_that_are_not_finite_become_small_ones() -> None:
    bad = replace(reply(1, (float("nan"), 3.0), mean=float("-inf")), kept={"local": {"c": torch.ones(1)}})
    good, failures = gather([bad, reply(2)], START, "replace")
    assert failures == [Failure(1, "'w' is not finite; replaced by 1e-05")]
    assert [one.client for one in good] == [1, 2]
    assert good[0].kept is None
    assert torch.equal(good[0].model.buffers["mask"], START.buffers["mask"])
    assert good[0].model.parameters["w"].tolist() == pytest.approx([1e-5, 3.0])
    assert good[0].model.buffers["mean"].tolist() == pytest.approx([1e-5])
    assert gather([reply(1, samples=0)], START, "replace").failures
