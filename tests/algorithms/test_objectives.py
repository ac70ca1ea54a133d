"""What clients minimise: by hand, against plain PyTorch, and where each becomes FedAvg."""

from math import e, exp, log
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional

from tests.algorithms.rounds import cohort, kept_by, linear, one_user, train, with_options
from tests.conftest import tiny_net
from turbosvm.algorithms.objective.moon import ModelContrastive
from turbosvm.algorithms.objective.prototypes import Prototypes
from turbosvm.algorithms.objective.proximal import Proximal
from turbosvm.clients.memory import ClientMemory
from turbosvm.clients.training import LocalTraining
from turbosvm.data.federated import FederatedData
from turbosvm.errors import TurboSVMError
from turbosvm.models.contract import find_head, state_of
from turbosvm.types import Moment

ONE_STEP = LocalTraining(epochs=1, batch_size=8, learning_rate=1.0)
TWO_STEPS = LocalTraining(epochs=2, batch_size=8, learning_rate=1.0)


def test_fedprox_two_steps_by_hand() -> None:
    """Start at zero, x = 1 of class 0. Step 1: no spring yet, W = (1/2, -1/2). Step 2: the gradient is p - e_0 with
    p_0 = 1 / (1 + e^-1), plus mu W; a step of size 1."""
    (reply,) = train(linear([[0.0], [0.0]]), one_user([[1.0]], [0]), with_options("fedprox", mu=0.4), TWO_STEPS)
    p = 1 / (1 + exp(-1))
    moved = 0.5 - (p - 1) - 0.4 * 0.5
    assert reply.model.parameters["weight"].squeeze().tolist() == pytest.approx([moved, -moved], abs=1e-6)
    second_loss = log(1 + exp(-1)) + 0.2 * (0.25 + 0.25)
    assert float(reply.loss) == pytest.approx((log(2) + second_loss) / 2, abs=1e-6)


def test_fedprox_is_plain_pytorch_with_a_penalty(tiny_data: FederatedData) -> None:
    net, plain = tiny_net(), tiny_net()
    reply = train(net, tiny_data, with_options("fedprox", mu=3.0), LocalTraining(3, 100, 0.1), head=find_head(net))[2]
    start = [parameter.detach().clone() for parameter in plain.parameters()]
    optimiser = torch.optim.SGD(plain.parameters(), lr=0.1)
    inputs, labels = (torch.tensor(part) for part in tiny_data.user(2))
    for _ in range(3):
        apart = sum(((a - b) ** 2).sum() for a, b in zip(plain.parameters(), start, strict=True))
        optimiser.zero_grad()
        (nn.CrossEntropyLoss()(plain(inputs), labels) + 1.5 * apart).backward()
        optimiser.step()
    for name, value in plain.named_parameters():
        torch.testing.assert_close(reply.model.parameters[name], value.detach(), atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize(
    ("name", "options"), [("fedprox", {"mu": 0.0}), ("moon", {"mu": 0.0}), ("fedproc", {"weight": 0.0})]
)
def test_with_weight_zero_all_are_fedavg_bit_for_bit(
    name: str, options: dict[str, Any], tiny_data: FederatedData
) -> None:
    replies = [
        train(net := tiny_net(), tiny_data, algorithm, LocalTraining(2, 4, 0.1), head=find_head(net))
        for algorithm in (with_options(name, **options), with_options("fedavg"))
    ]
    for mine, plain in zip(*replies, strict=True):
        assert all(torch.equal(value, plain.model.parameters[key]) for key, value in mine.model.parameters.items())


def moon_step() -> tuple[nn.Module, FederatedData, ClientMemory]:
    """A model whose global features are (x, 0) and whose client's previous features were (x, x)."""
    module = nn.Sequential(linear([[1.0], [0.0]]), linear([[0.0, 0.0], [0.0, 0.0]]))
    kept = {**state_of(module).parameters, "0.weight": torch.tensor([[1.0], [1.0]])}
    memory = ClientMemory(2**20).keeping({0: {"objective": kept}})
    return module, one_user([[1.0]], [0]), memory


def test_moons_loss_by_hand() -> None:
    """At the start z = z_G, so the cosines are 1 and 1 / sqrt(2); the head is zero, so cross-entropy is log 2."""
    module, data, memory = moon_step()
    head = find_head(module, "1")
    algorithm = with_options("moon", mu=2.0, temperature=0.5)
    (reply,) = train(module, data, algorithm, ONE_STEP, memory=memory, head=head)
    contrast = -log(e**2 / (e**2 + exp(2 / 2**0.5)))
    assert float(reply.loss) == pytest.approx(log(2) + 2 * contrast, abs=1e-6)
    # the gradient turns z away from (1, 1): the second feature falls; along z itself the cosine does not change
    first, second = reply.model.parameters["0.weight"].squeeze().tolist()
    slope = 2 * (1 / 0.5) * (1 - e**2 / (e**2 + exp(2 / 2**0.5))) / 2**0.5
    assert (first, second) == (pytest.approx(1.0, abs=1e-6), pytest.approx(-slope, abs=1e-5))


def test_moon_without_a_previous_model_is_fedavg_and_with_one_is_not(tiny_data: FederatedData) -> None:
    training, nets = LocalTraining(1, 4, 0.2), [tiny_net(), tiny_net()]
    head = find_head(nets[0])
    moon, plain = with_options("moon"), with_options("fedavg")
    first, plain_first = (
        train(net, tiny_data, one, training, head=head) for net, one in zip(nets, (moon, plain), strict=True)
    )
    for mine, other in zip(first, plain_first, strict=True):
        assert all(torch.equal(value, other.model.parameters[key]) for key, value in mine.model.parameters.items())
        assert torch.equal(kept_by(mine)["objective"]["head.weight"], mine.model.parameters["head.weight"])
    memory = ClientMemory(2**20).keeping({mine.client: kept_by(mine) for mine in first})
    again, plain_again = (
        train(net, tiny_data, one, training, memory=memory, head=head, moment=Moment(2, 10, 0))
        for net, one in zip((tiny_net(1), tiny_net(1)), (moon, plain), strict=True)
    )
    apart = [
        (mine.model.parameters["body.weight"] - other.model.parameters["body.weight"]).abs().max()
        for mine, other in zip(again, plain_again, strict=True)
    ]
    assert min(apart) > 1e-4


def test_fedprocs_loss_by_hand() -> None:
    """Prototypes (1, 0) and (0, 1), features (1, 0) of class 0: cosines 1 and 0. Round 5 of 20, so alpha = 3/4."""
    module = linear([[0.0, 0.0], [0.0, 0.0]])
    shared = {"objective": {"prototypes": torch.eye(2) * 7, "counts": torch.tensor([3.0, 1.0])}}
    algorithm = with_options("fedproc", temperature=0.5)
    (reply,) = train(module, one_user([[1.0, 0.0]], [0]), algorithm, ONE_STEP, shared, moment=Moment(5, 20, 0))
    assert float(reply.loss) == pytest.approx(0.75 * -log(e**2 / (e**2 + 1)) + 0.25 * log(2), abs=1e-6)
    assert reply.sent["objective"]["sums"].tolist() == [[1.0, 0.0], [0.0, 0.0]]
    assert reply.sent["objective"]["counts"].tolist() == [1.0, 0.0]


def test_fedproc_leaves_out_classes_without_a_prototype() -> None:
    module = linear([[0.0, 0.0], [0.0, 0.0]])
    shared = {"objective": {"prototypes": torch.eye(2), "counts": torch.tensor([0.0, 1.0])}}
    (reply,) = train(module, one_user([[1.0, 0.0]], [0]), with_options("fedproc", weight=0.5), ONE_STEP, shared)
    assert float(reply.loss) == pytest.approx(0.5 * log(2), abs=1e-6)
    assert reply.model.parameters["weight"].isfinite().all()


def test_prototypes_are_the_means_of_all_samples_and_absent_classes_keep_theirs() -> None:
    shared = {"prototypes": torch.tensor([[9.0], [8.0], [7.0]]), "counts": torch.tensor([1.0, 1.0, 0.0])}
    sent = {
        "sums": torch.tensor([[[2.0], [0.0], [0.0]], [[10.0], [0.0], [0.0]]]),
        "counts": torch.tensor([[1.0, 0.0, 0.0], [3.0, 0.0, 0.0]]),
    }
    merged = Prototypes().merge(shared, sent, cohort([1, 3], w=[[0.0], [0.0]]), population=9)
    assert merged["prototypes"].squeeze().tolist() == [3.0, 8.0, 7.0]  # (2 + 10) / (1 + 3)
    assert merged["counts"].tolist() == [4.0, 1.0, 0.0]


def test_class_features_are_what_the_head_sees(tiny_data: FederatedData) -> None:
    net = tiny_net()
    reply = train(net, tiny_data, with_options("fedproc"), LocalTraining(1, 4, 0.1), head=find_head(net))[3]
    inputs, labels = (torch.tensor(part) for part in tiny_data.user(3))
    trained = reply.model.parameters
    features = functional.linear(inputs, trained["body.weight"], trained["body.bias"]).relu()
    for label in range(3):
        torch.testing.assert_close(reply.sent["objective"]["sums"][label], features[labels == label].sum(dim=0))
    assert reply.sent["objective"]["counts"].tolist() == labels.bincount(minlength=3).tolist()


@pytest.mark.parametrize(
    "make",
    [
        lambda: Proximal(-0.1),
        lambda: Proximal(float("nan")),
        lambda: ModelContrastive(mu=-1),
        lambda: ModelContrastive(temperature=0.0),
        lambda: ModelContrastive(contrast="yes"),  # type: ignore[arg-type]
        lambda: Prototypes(weight=1.5),
        lambda: Prototypes(weight="increasing"),  # type: ignore[arg-type]
        lambda: Prototypes(temperature=-1.0),
    ],
)
def test_values_out_of_range_are_refused(make: object) -> None:
    with pytest.raises(TurboSVMError, match="must be"):
        make()  # type: ignore[operator]
