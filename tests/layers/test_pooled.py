"""Convolution, pooling and ReLU in one layer: the same numbers, the same names, and only where it is the same."""

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from turbosvm.layers import pooled
from turbosvm.layers.convolution_cuda import ConvolvePoolRelu
from turbosvm.layers.pooled import PooledConv2d, with_pooled_convolutions

on_gpu = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")]

POOL, RELU = nn.MaxPool2d(2), nn.ReLU()


@pytest.fixture(autouse=True)
def with_triton(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pooled, "AVAILABLE", True)


def convolution(channels: int = 3, outputs: int = 4, **options: object) -> nn.Conv2d:
    return nn.Conv2d(channels, outputs, **{"kernel_size": 3, "padding": "same", **options})  # type: ignore[arg-type]


@pytest.mark.parametrize("rest", [(POOL, RELU), (RELU, POOL), (nn.MaxPool2d((2, 2), stride=(2, 2)), nn.ReLU(True))])
def test_three_layers_become_one_under_the_same_names(rest: tuple[nn.Module, nn.Module]) -> None:
    torch.manual_seed(0)
    net = nn.Sequential(convolution(), *rest, convolution(4, 5, kernel_size=5), *rest, nn.Flatten())
    names, images = list(net.state_dict()), torch.randn(2, 3, 8, 8)
    wanted = net(images)
    with_pooled_convolutions(net)
    assert [type(layer) for layer in net] == [PooledConv2d, nn.Identity, nn.Identity] * 2 + [nn.Flatten]
    assert list(net.state_dict()) == names
    torch.testing.assert_close(net(images), wanted)


@pytest.mark.parametrize(
    "layers",
    [
        (convolution(padding=0), POOL, RELU),
        (convolution(stride=1, dilation=2), POOL, RELU),
        (convolution(padding_mode="reflect"), POOL, RELU),
        (convolution(bias=False), POOL, RELU),
        (convolution(3, 6, groups=3), POOL, RELU),
        (convolution(3, 65), POOL, RELU),
        (convolution(kernel_size=(3, 5)), POOL, RELU),
        (convolution(), nn.MaxPool2d(3), RELU),
        (convolution(), nn.MaxPool2d(2, stride=1), RELU),
        (convolution(), nn.MaxPool2d(2, padding=1), RELU),
        (convolution(), nn.MaxPool2d(2, ceil_mode=True), RELU),
        (convolution(), nn.AvgPool2d(2), RELU),
        (convolution(), POOL, nn.GELU()),
        (convolution(), nn.BatchNorm2d(4), POOL, RELU),
        (convolution(), POOL),
    ],
    ids=str,
)
def test_others_stay_as_they_are(layers: tuple[nn.Module, ...]) -> None:
    net = nn.Sequential(*layers)
    with_pooled_convolutions(net)
    assert list(net) == list(layers)
    assert not any(isinstance(layer, PooledConv2d) for layer in net)


SHAPES = [  # images, channels, outputs, height, width, side of the window
    (64, 1, 32, 28, 28, 5),
    (64, 32, 64, 14, 14, 5),
    (35, 32, 64, 14, 14, 5),
    (1, 3, 20, 6, 10, 3),
    (7, 64, 64, 4, 2, 3),
    (5, 8, 16, 28, 28, 5),
    (3, 16, 33, 2, 2, 1),
]


def both_ways(
    shape: tuple[int, ...], last: bool
) -> tuple[tuple[Tensor, tuple[Tensor, ...]], tuple[Tensor, tuple[Tensor, ...]]]:
    """Outputs and gradients, ours and PyTorch's in float64, of small whole numbers, which no precision rounds."""
    images, channels, outputs, height, width, side = shape
    draw = torch.Generator().manual_seed(0)

    def whole(*size: int) -> Tensor:
        return torch.randint(-2, 3, size, generator=draw).float().cuda()

    x = whole(images, channels, height, width)
    x = x.contiguous(memory_format=torch.channels_last) if last else x
    weight, bias = whole(outputs, channels, side, side), whole(outputs)
    arriving = whole(images, outputs, height // 2, width // 2)
    ours = [value.detach().requires_grad_() for value in (x, weight, bias)]
    y: Tensor = ConvolvePoolRelu.apply(*ours)  # type: ignore[no-untyped-call]
    exact = [value.double().detach().requires_grad_() for value in (x, weight, bias)]
    convolved = functional.conv2d(exact[0], exact[1], exact[2], padding=side // 2)
    z = functional.relu(functional.max_pool2d(convolved, 2))
    return (y, torch.autograd.grad(y, ours, arriving)), (z, torch.autograd.grad(z, exact, arriving.double()))


class TestOnCuda:
    pytestmark = on_gpu

    @pytest.mark.parametrize("tf32", [False, True], ids=["float32", "tf32"])
    @pytest.mark.parametrize("last", [False, True], ids=["channels first", "channels last"])
    @pytest.mark.parametrize("shape", SHAPES, ids=str)
    def test_outputs_and_gradients_are_exact(
        self, shape: tuple[int, ...], last: bool, tf32: bool, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", tf32)
        (y, ours), (z, exact) = both_ways(shape, last)
        assert torch.equal(y.double(), z)
        for one, two in zip(ours, exact, strict=True):  # ties go to the same place, too
            assert torch.equal(one.double(), two)

    def test_tf32_is_rounded_not_cut_off(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", True)
        x, weight = torch.rand(4, 32, 8, 8, device="cuda") + 1, torch.rand(16, 32, 3, 3, device="cuda") + 1
        y: Tensor = ConvolvePoolRelu.apply(x, weight, torch.zeros(16, device="cuda"))  # type: ignore[no-untyped-call]
        exact = functional.max_pool2d(functional.conv2d(x.double(), weight.double(), padding=1), 2)
        assert abs(float((y / exact - 1).mean())) < 1e-5  # cut off, they would all be too small: by 3e-4

    def test_what_is_not_a_number_stays_so(self) -> None:
        layer = convolution(3, 16).cuda()
        layer.__class__ = PooledConv2d
        images = torch.randn(2, 3, 4, 4, device="cuda")
        images[0, 0, 0, 0] = torch.nan
        y = layer(images)
        assert y[0, :, 0, 0].isnan().all()
        assert y[1].isfinite().all()

    def test_what_the_kernels_do_not_take_goes_the_ordinary_way(self) -> None:
        layer = convolution(3, 16).cuda()
        layer.__class__ = PooledConv2d
        for images in (torch.randn(2, 3, 5, 4, device="cuda"), torch.randn(0, 3, 4, 4, device="cuda")):
            wanted = functional.relu(functional.max_pool2d(nn.Conv2d.forward(layer, images), 2))
            torch.testing.assert_close(layer(images), wanted)
        images = torch.randn(2, 3, 4, 4, device="cuda", dtype=torch.float64)
        assert layer.double()(images).dtype == torch.float64
