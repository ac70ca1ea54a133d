"""Faster copies do what the model does, or are not taken."""

from copy import deepcopy

import torch
from torch import Tensor, nn

from turbosvm.layers import quicken as quicken_module
from turbosvm.layers.quicken import quicken
from turbosvm.models.registry import build_model


class Views(nn.Module):
    """Depends on how its numbers lie in memory, as `view` does."""

    def __init__(self) -> None:
        super().__init__()
        self.convolution, self.head = nn.Conv2d(3, 4, 3, padding=1), nn.Linear(4 * 36, 2)

    def forward(self, images: Tensor) -> Tensor:
        return self.head(self.convolution(images).view(len(images), -1))  # type: ignore[no-any-return]


def test_a_copy_has_the_same_parameters_and_answers_and_the_model_is_left_alone() -> None:
    model, images = build_model("small", {}, seed=0).eval(), torch.rand(3, 1, 28, 28)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    quick = quicken(model, images)
    assert quick.body[3].weight.is_contiguous(memory_format=torch.channels_last)  # type: ignore[index, union-attr]
    assert model.body[3].weight.is_contiguous()  # type: ignore[index, union-attr]
    assert not model.training
    assert list(quick.state_dict()) == list(before)
    assert all(torch.equal(value, before[name]) for name, value in quick.state_dict().items())
    torch.testing.assert_close(quick(images), model(images))


def test_a_model_that_depends_on_the_layout_keeps_its_own() -> None:
    model, images = Views(), torch.rand(2, 3, 6, 6)
    quick = quicken(model, images)
    assert quick is not model
    torch.testing.assert_close(quick(images), model(images))
    assert quick.convolution.weight.is_contiguous()  # type: ignore[union-attr, operator]


def test_copies_are_compared_in_training_too() -> None:
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(4 * 16, 2))
    images = torch.randn(2, 3, 6, 6)
    assert quicken_module._agree(model, deepcopy(model), images)
    without = deepcopy(model)
    without[1] = nn.Identity()  # in evaluation, at the first weights, BatchNorm changes nothing
    assert not quicken_module._agree(model, without, images)
    slower = deepcopy(model)
    slower[1].momentum = 0.2  # type: ignore[assignment]
    assert not quicken_module._agree(model, slower, images)
    assert model.training
    assert not model[1].num_batches_tracked.any()  # type: ignore[operator]
