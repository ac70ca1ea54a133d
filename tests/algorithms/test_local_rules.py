"""How clients step: by hand, and against independent statements of each method."""

from math import exp, sqrt
from typing import Any

import numpy as np
import pytest
import torch

from tests.algorithms.rounds import HEAD, cohort, kept_by, linear, one_user, train, with_options
from tests.conftest import tiny_net
from turbosvm.algorithms.local.amsgrad import LocalAMSGrad
from turbosvm.algorithms.local.fafed import Fafed
from turbosvm.algorithms.local.scaffold import Scaffold
from turbosvm.algorithms.rules import Assignment
from turbosvm.algorithms.server import init_server, merge
from turbosvm.clients.local import Call
from turbosvm.clients.memory import ClientMemory
from turbosvm.clients.replies import Reply, stack
from turbosvm.clients.sequential import train_clients
from turbosvm.clients.training import LocalTraining
from turbosvm.clients.workbench import Workbench
from turbosvm.data.federated import FederatedData
from turbosvm.errors import TurboSVMError
from turbosvm.grouping import grouped
from turbosvm.models.contract import find_head, load_state, state_of
from turbosvm.types import ModelState, Moment, Weights

SIGMA = 1 / (1 + exp(-1))


def test_scaffold_two_steps_by_hand() -> None:
    """x = 1 of class 0 from W = 0. c = (0.2, -0.2), c_n = (0.1, -0.1), so each step of size 1 also moves by -+0.1.
    Gradients: (-1/2, 1/2), then p_0 - 1 with p_0 at a difference of logits of 2 (1/2 - 0.1) = 0.8."""
    memory = ClientMemory(2**20).keeping({0: {"local": {"weight": torch.tensor([[0.1], [-0.1]])}}})
    shared = {"local": {"weight": torch.tensor([[0.2], [-0.2]])}}
    training = LocalTraining(epochs=2, batch_size=8, learning_rate=1.0)
    (reply,) = train(linear([[0.0], [0.0]]), one_user([[1.0]], [0]), with_options("scaffold"), training, shared, memory)
    first = 0.5 - 0.1
    gradient = 1 / (1 + exp(-2 * first)) - 1
    second = first - gradient - 0.1
    assert reply.model.parameters["weight"].squeeze().tolist() == pytest.approx([second, -second], abs=1e-6)
    # the new c_n is the mean of the two plain gradients, whatever the correction was
    new = (-0.5 + gradient) / 2
    assert kept_by(reply)["local"]["weight"].squeeze().tolist() == pytest.approx([new, -new], abs=1e-6)
    assert reply.sent["local"]["weight"].squeeze().tolist() == pytest.approx([new - 0.1, -(new - 0.1)], abs=1e-6)


def test_scaffolds_server_adds_the_mean_change_by_the_share_of_clients_heard() -> None:
    merged = Scaffold().merge(
        {"w": torch.tensor([1.0])}, {"w": torch.tensor([[4.0], [2.0]])}, cohort([1, 9], w=[[0.0], [0.0]]), 10
    )
    assert merged["w"].tolist() == pytest.approx([1 + 2 / 10 * 3])


def fixed_point(name: str, data: FederatedData, rounds: int) -> torch.Tensor:
    """Weights after rounds in which all clients take many full-batch steps."""
    algorithm, module, memory = with_options(name), linear([[0.0, 0.0], [0.0, 0.0]]), ClientMemory(2**20)
    model, head = state_of(module), find_head(module, "")
    server = init_server(algorithm, model, head)
    training = LocalTraining(epochs=20, batch_size=100, learning_rate=0.3)
    ids = range(len(data.users))
    for number in range(1, rounds + 1):
        load_state(module, model)
        call = Call(model, server.shared, Moment(number, rounds, 0))
        replies = list(train_clients(Workbench(module, head), call, data, ids, algorithm, training, memory))
        good = [reply for reply in replies if isinstance(reply, Reply)]
        memory = memory.keeping({reply.client: kept_by(reply) for reply in good})
        model, server, _ = merge(algorithm, model, stack(good), server, head, Moment(number, rounds, 0), len(good))
    return model.parameters["weight"]


def test_scaffold_finds_the_optimum_of_all_where_fedavg_drifts() -> None:
    """Two clients of equal size with opposed data: at the optimum for both, the gradient of the pooled loss is zero."""
    rng = np.random.default_rng(0)
    inputs = rng.normal(size=(40, 2)).astype(np.float32)
    noisy = (inputs @ np.array([2.0, -1.0]) + rng.normal(size=40) > 0).astype(int)
    order = np.argsort(inputs[:, 0] + inputs[:, 1])
    halves = {"low": order[:20], "high": order[20:]}
    data = FederatedData.from_users({name: (inputs[half], noisy[half]) for name, half in halves.items()}, classes=2)

    def gradient(weight: torch.Tensor) -> float:
        weight = weight.clone().requires_grad_()
        loss = torch.nn.functional.cross_entropy(torch.tensor(inputs) @ weight.T, torch.tensor(noisy))
        return float(torch.autograd.grad(loss, weight)[0].norm())

    drifted, found = (gradient(fixed_point(name, data, 60)) for name in ("fedavg", "scaffold"))
    assert found < 1e-3 < 10 * found + 1e-2
    assert drifted > 10 * found


def amsgrad_reference(gradients: list[float], m: float, v: float, largest: float, options: dict[str, float]) -> Any:
    """A parameter's way, one number at a time."""
    where = 0.0
    for g in gradients:
        m = options["beta1"] * m + (1 - options["beta1"]) * g
        v = options["beta2"] * v + (1 - options["beta2"]) * g * g
        where -= options["learning_rate"] * m / sqrt(largest)
    return where, m, v


def test_localamsgrad_by_hand_and_by_the_rule() -> None:
    """Round 1, one batch: v and v' are g^2, so the step is lr (1 - beta1) sign(g)."""
    options = {"learning_rate": 0.1, "beta1": 0.5, "beta2": 0.75}
    algorithm = with_options("localamsgrad", "local", **options)
    data = one_user([[1.0]], [0])
    (reply,) = train(linear([[0.0], [0.0]]), data, algorithm, LocalTraining(1, 8, 1.0))
    assert reply.model.parameters["weight"].squeeze().tolist() == pytest.approx([0.05, -0.05], abs=1e-6)
    assert reply.sent["local"]["m/weight"].squeeze().tolist() == pytest.approx([-0.25, 0.25], abs=1e-6)
    assert reply.sent["local"]["v/weight"].squeeze().tolist() == pytest.approx([0.25, 0.25], abs=1e-6)
    # a later round, two batches, from moments that the server sent
    given = {"m": 0.3, "v": 0.2, "largest": 0.4}
    shared = {
        "rounds": torch.tensor(1.0),
        **grouped(
            {
                name: {"weight": torch.tensor([[value], [-value if name == "m" else value]])}
                for name, value in given.items()
            }
        ),
    }
    (later,) = train(linear([[0.0], [0.0]]), data, algorithm, LocalTraining(2, 8, 1.0), {"local": shared})
    where, gradients = 0.0, []
    for _ in range(2):
        gradients.append(1 / (1 + exp(-2 * where)) - 1)
        where, m, v = amsgrad_reference(gradients, 0.3, 0.2, 0.4, options)
    assert later.model.parameters["weight"].squeeze().tolist() == pytest.approx([where, -where], abs=1e-6)
    assert float(later.sent["local"]["m/weight"][0]) == pytest.approx(m, abs=1e-6)
    assert float(later.sent["local"]["v/weight"][0]) == pytest.approx(v, abs=1e-6)


def test_localamsgrad_in_its_first_round_divides_by_the_largest_v_so_far() -> None:
    """Features (1, 0), then (0, 1): the second weight's first gradient comes late, and its v with it."""
    options = {"learning_rate": 0.1, "beta1": 0.5, "beta2": 0.75, "eps": 1e-12}
    algorithm = with_options("localamsgrad", "local", **options)
    start = {"weight": torch.zeros(1, 2)}
    client = Assignment(ModelState(start, {}), algorithm.local.share(ModelState(start, {}), HEAD), {}, 1.0, 0.1)
    gradients = iter([{"weight": torch.tensor([[0.4, 0.0]])}, {"weight": torch.tensor([[0.0, 0.4]])}])
    one = algorithm.local.step(start, lambda _: next(gradients), algorithm.local.begin(client), client)
    two = algorithm.local.step(one.parameters, lambda _: next(gradients), one.carried, client)
    assert one.parameters["weight"][0, 0].item() == pytest.approx(-0.1 * 0.2 / 0.4)
    m, largest = 0.1, 0.4  # the first weight's m has halved, its v has fallen, v' has not
    assert (two.parameters["weight"] - one.parameters["weight"])[0].tolist() == pytest.approx(
        [-0.1 * m / largest, -0.1 * 0.2 / sqrt(0.25 * 0.16)]
    )


def test_localamsgrads_server_averages_and_its_denominator_only_grows() -> None:
    shared = {"rounds": torch.tensor(1.0), "largest/w": torch.tensor([3.0, 0.5])}
    sent = {"m/w": torch.tensor([[1.0, 1.0], [5.0, 5.0]]), "v/w": torch.tensor([[4.0, 4.0], [0.0, 0.0]])}
    merged = LocalAMSGrad(eps=1e-3).merge(shared, sent, cohort([1, 3], w=[[0.0], [0.0]]), 10)
    assert merged["m/w"].tolist() == [4.0, 4.0]
    assert merged["v/w"].tolist() == [1.0, 1.0]
    assert merged["largest/w"].tolist() == [3.0, 1.0]
    assert merged["rounds"] == 2
    small = {"m/w": torch.zeros(2, 2), "v/w": torch.zeros(2, 2)}
    first = {"rounds": torch.tensor(0.0), "largest/w": torch.zeros(2)}
    lowest = LocalAMSGrad(eps=1e-3).merge(first, small, cohort([1, 3], w=[[0.0], [0.0]]), 10)
    assert lowest["largest/w"].tolist() == pytest.approx([1e-3, 1e-3])


def test_fafed_by_hand() -> None:
    """Round 1, two batches of x = 1: m = g_0, v = v_G = g_0^2, then the variance-reduced estimate."""
    options = {"learning_rate": 0.1, "alpha": 0.25, "beta": 0.5, "rho": 0.5}
    algorithm = with_options("fafed", "local", **options)
    (reply,) = train(linear([[0.0], [0.0]]), one_user([[1.0]], [0]), algorithm, LocalTraining(2, 8, 1.0))
    g0 = -0.5
    w1 = -0.1 * g0 / (0.5 + 0.5)
    w2 = w1 - 0.1 * g0 / (0.5 + 0.5)
    g2, g1 = (1 / (1 + exp(-2 * w)) - 1 for w in (w2, w1))
    m = g2 + 0.75 * (g0 - g1)
    v = 0.5 * g0**2 + 0.5 * g2**2
    assert reply.model.parameters["weight"].squeeze().tolist() == pytest.approx([w2, -w2], abs=1e-6)
    assert float(reply.sent["local"]["m/weight"][0]) == pytest.approx(m, abs=1e-6)
    assert float(reply.sent["local"]["v/weight"][0]) == pytest.approx(v, abs=1e-6)
    # the next round begins with a step along what the server sent
    shared = {
        "rounds": torch.tensor(1.0),
        "m/weight": torch.tensor([[0.2], [0.0]]),
        "v/weight": torch.full((2, 1), 0.25),
    }
    (later,) = train(
        linear([[0.0], [0.0]]), one_user([[1.0]], [0]), algorithm, LocalTraining(1, 8, 1.0), {"local": shared}
    )
    assert float(later.model.parameters["weight"][0]) == pytest.approx(-0.1 * 0.2 / (0.5 + 0.5), abs=1e-6)


def test_fafeds_denominator_stays_for_the_whole_round() -> None:
    rule = Fafed(learning_rate=1.0, alpha=0.5, beta=0.0, rho=0.5)
    start: Weights = {"weight": torch.zeros(1, 1)}
    shared = {"rounds": torch.tensor(1.0), "m/weight": torch.tensor([[1.0]]), "v/weight": torch.tensor([[0.25]])}
    client = Assignment(ModelState(start, {}), shared, {}, 1.0, 0.1)
    carried, parameters = rule.begin(client), start
    for _ in range(3):  # the gradient is 10 everywhere, so m stays 10 + 0.5 (m - 10), and v would be 100
        parameters, carried = rule.step(parameters, lambda _: {"weight": torch.tensor([[10.0]])}, carried, client)
    steps = [1.0, 10 + 0.5 * (1 - 10), 10 + 0.5 * (5.5 - 10)]
    assert float(parameters["weight"]) == pytest.approx(-sum(steps) / (0.5 + 0.5))
    assert float(carried["v/weight"]) == 100.0


def test_fafed_touches_batchnorms_statistics_once_a_batch() -> None:
    module = torch.nn.Sequential(torch.nn.BatchNorm1d(1), linear([[0.5], [0.0]]))
    data = one_user([[1.0], [3.0]], [0, 1])
    head = find_head(module, "1")
    algorithm = with_options("fafed")
    shared = {part: rule.share(state_of(module), head) for part, rule in algorithm.on_client().items()}
    shared["local"] = {**shared["local"], "rounds": torch.tensor(1.0)}
    (reply,) = train(module, data, algorithm, LocalTraining(3, 8, 1.0), shared, head=head)
    assert reply.model.buffers["0.num_batches_tracked"] == 3


def test_adam_moments_of_a_frozen_layer_stay_zero(tiny_data: FederatedData) -> None:
    for name in ("localamsgrad", "fafed", "scaffold", "fedavg"):
        net = tiny_net()
        net.body.weight.requires_grad_(False)
        reply = train(net, tiny_data, with_options(name), LocalTraining(1, 4, 0.1), head=find_head(net))[0]
        assert torch.equal(reply.model.parameters["body.weight"], tiny_net().body.weight)
        assert not torch.equal(reply.model.parameters["body.bias"], tiny_net().body.bias)


@pytest.mark.parametrize(
    "make",
    [
        lambda: LocalAMSGrad(learning_rate=0.0),
        lambda: LocalAMSGrad(beta2=1.0),
        lambda: LocalAMSGrad(eps=0.0),
        lambda: Fafed(alpha=-0.1),
        lambda: Fafed(rho=0.0),
        lambda: Fafed(beta=float("inf")),
    ],
)
def test_values_out_of_range_are_refused(make: Any) -> None:
    with pytest.raises(TurboSVMError, match="must be"):
        make()
