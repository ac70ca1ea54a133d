"""Convolutions of one channel: the same numbers and the same gradients as PyTorch's."""

import pytest
import torch
from torch import nn

from turbosvm.layers.convolution import GreyConv2d, with_grey_convolutions


@pytest.mark.parametrize("size", [1, 3, 5])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("padding", ["same", None])
def test_it_is_the_convolution_and_its_gradient(size: int, bias: bool, padding: str | None) -> None:
    torch.manual_seed(0)
    plain = nn.Sequential(nn.Conv2d(1, 3, size, padding=padding or size // 2, bias=bias)).double()
    quick = nn.Sequential(nn.Conv2d(1, 3, size, padding=padding or size // 2, bias=bias)).double()
    quick.load_state_dict(plain.state_dict())
    with_grey_convolutions(quick)
    assert type(quick[0]) is GreyConv2d
    images, change = torch.randn(4, 1, 9, 7, dtype=torch.float64), torch.randn(4, 3, 9, 7, dtype=torch.float64)
    torch.testing.assert_close(quick(images), plain(images))
    wanted = torch.autograd.grad(plain(images), list(plain.parameters()), change)
    got = torch.autograd.grad(quick(images), list(quick.parameters()), change)
    torch.testing.assert_close(got, wanted)


def test_images_that_need_a_gradient_get_it() -> None:
    quick = nn.Sequential(nn.Conv2d(1, 3, 3, padding=1))
    with_grey_convolutions(quick)
    images = torch.randn(2, 1, 5, 5, requires_grad=True)
    quick(images).sum().backward()
    assert images.grad is not None
    assert images.grad.abs().sum() > 0


@pytest.mark.parametrize(
    "layer",
    [
        nn.Conv2d(2, 3, 3, padding=1),
        nn.Conv2d(1, 3, 3),
        nn.Conv2d(1, 3, 4, padding="same"),
        nn.Conv2d(1, 3, 3, padding=1, stride=2),
        nn.Conv2d(1, 3, 3, padding=2, dilation=2),
        nn.Conv2d(1, 3, 3, padding=1, padding_mode="reflect"),
    ],
)
def test_other_convolutions_stay_as_they_are(layer: nn.Conv2d) -> None:
    with_grey_convolutions(layer)
    assert type(layer) is nn.Conv2d
