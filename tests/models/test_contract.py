import pytest
import torch
from torch import nn

from tests.conftest import tiny_net
from turbosvm.errors import TurboSVMError
from turbosvm.models.contract import check_fit, find_head, load_state, state_of
from turbosvm.models.registry import MODELS, build_model


class Nested(nn.Module):
    """A model that does not say which layer is its head."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(4, 8), nn.ReLU())
        self.classifier = nn.Sequential(nn.Dropout(), nn.Linear(8, 3))


@pytest.mark.parametrize("name", MODELS)
def test_built_in_models_name_their_head(name: str) -> None:
    assert find_head(build_model(name, {}, 0)).names == ("head.weight", "head.bias")


def test_any_linear_layer_can_be_named() -> None:
    assert find_head(Nested(), "classifier.1").names == ("classifier.1.weight", "classifier.1.bias")


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        (
            None,
            "Model Nested does not say which layer is its head; name one of its linear layers: encoder.0,",
        ),
        (
            "clasifier.1",
            "Unknown head layer 'clasifier.1' of model Nested; allowed: classifier.1, encoder.0. Did you mean",
        ),
        ("encoder.1", "The head 'encoder.1' of model Nested is a ReLU, not a linear layer; linear layers: encoder.0"),
    ],
)
def test_a_wrong_head_is_answered_with_the_linear_layers(name: str | None, sentence: str) -> None:
    with pytest.raises(TurboSVMError) as error:
        find_head(Nested(), name)
    assert str(error.value).startswith(sentence)


class Tied(nn.Module):
    """The head shares its weight with the embedding."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(3, 4)
        self.head = nn.Linear(4, 3)
        self.head.weight = self.embedding.weight


def test_a_shared_weight_is_found_under_its_one_name() -> None:
    assert find_head(Tied(), "head").names == ("embedding.weight", "head.bias")


def test_the_model_may_be_its_own_head() -> None:
    assert find_head(nn.Linear(4, 3), "").names == ("weight", "bias")


def test_a_computed_weight_is_refused() -> None:
    net = nn.Sequential(nn.utils.parametrizations.weight_norm(nn.Linear(4, 3)))
    with pytest.raises(TurboSVMError, match="is computed from other parameters; it cannot be merged"):
        find_head(net, "0")
    net = nn.Sequential(nn.utils.parametrizations.weight_norm(nn.Linear(4, 3), name="bias", dim=0))
    with pytest.raises(TurboSVMError, match="is computed from other parameters; it cannot be merged"):
        find_head(net, "0")


def test_the_head_must_have_a_row_for_each_class() -> None:
    with pytest.raises(TurboSVMError, match=r"The head 'head.weight' of model TinyNet has 3 classes, the data has 62"):
        check_fit(tiny_net(), find_head(tiny_net()), torch.zeros(2, 4), 62)


def test_a_model_must_take_the_inputs_and_give_logits() -> None:
    net = tiny_net()
    check_fit(net, find_head(net), torch.zeros(2, 4), 3)
    with pytest.raises(
        TurboSVMError, match=r"Model TinyNet cannot take inputs of shape \[2, 9\] and type torch.float32: "
    ):
        check_fit(net, find_head(net), torch.zeros(2, 9), 3)
    spatial = nn.Sequential(nn.Linear(4, 3))
    with pytest.raises(TurboSVMError, match=r"must give logits of shape \[2, 3\], not \[2, 5, 3\]"):
        check_fit(spatial, find_head(spatial, "0"), torch.zeros(2, 5, 4), 3)


def test_checking_changes_neither_mode_nor_running_statistics() -> None:
    net = nn.Sequential(nn.BatchNorm1d(4), nn.Linear(4, 3))
    check_fit(net, find_head(net, "1"), torch.ones(2, 4), 3)
    assert net.training
    assert torch.equal(net[0].running_mean, torch.zeros(4))  # type: ignore[arg-type]


@pytest.mark.parametrize("bias", [True, False])
def test_embeddings_and_back(bias: bool) -> None:
    net = tiny_net(bias=bias)
    head, parameters = find_head(net), state_of(net).parameters
    embeddings = head.embeddings(parameters)
    assert embeddings.shape == (3, 6 if bias else 5)
    if bias:
        assert torch.equal(embeddings[:, -1], net.head.bias)
    back = head.parameters(embeddings)
    assert set(back) == set(head.names)
    assert all(torch.equal(back[name], parameters[name]) for name in back)


def test_embeddings_of_a_cohort_keep_the_clients_apart() -> None:
    nets = [tiny_net(seed) for seed in range(4)]
    head = find_head(nets[0])
    stacked = {name: torch.stack([state_of(net).parameters[name] for net in nets]) for name in head.names}
    assert head.embeddings(stacked).shape == (4, 3, 6)
    assert torch.equal(head.embeddings(stacked)[2], head.embeddings(state_of(nets[2]).parameters))


def test_state_is_a_copy_both_ways() -> None:
    net, other = tiny_net(0), tiny_net(1)
    state = state_of(net)
    load_state(other, state)
    assert torch.equal(other.head.weight, net.head.weight)
    with torch.no_grad():
        other.head.weight += 1
    assert torch.equal(state.parameters["head.weight"], net.head.weight)
