"""Convolution, pooling and ReLU in one layer: the same numbers, the same names, and only where it is the same."""

from collections.abc import Sequence
from copy import deepcopy

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from turbosvm.layers import pooled
from turbosvm.layers.convolution_cuda import ConvolvePoolRelu
from turbosvm.layers.norm_cuda import NormPoolRelu
from turbosvm.layers.pooled import NormedConv2d, Passing, PooledConv2d, with_pooled_convolutions

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
    again = deepcopy(rest)
    net = nn.Sequential(convolution(), *deepcopy(rest), convolution(4, 5, kernel_size=5), *again, nn.Flatten())
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
        (convolution(), POOL),
        (convolution(), RELU, RELU),
        (convolution(), nn.BatchNorm2d(4, affine=False), POOL, RELU),
        (convolution(), nn.BatchNorm2d(4, track_running_stats=False), POOL, RELU),
        (convolution(), nn.BatchNorm2d(4, momentum=None), POOL, RELU),
        (convolution(), nn.BatchNorm2d(4), RELU),
        (convolution(), nn.InstanceNorm2d(4), POOL, RELU),
    ],
    ids=str,
)
def test_others_stay_as_they_are(layers: tuple[nn.Module, ...]) -> None:
    net = nn.Sequential(*layers)
    with_pooled_convolutions(net)
    assert list(net) == list(layers)
    assert not any(isinstance(layer, PooledConv2d | NormedConv2d) for layer in net)


class NormFirst(nn.Sequential):
    """Runs its layers in an order of its own."""

    def forward(self, images: Tensor) -> Tensor:
        convolution, norm, pool, relu = self
        return relu(pool(convolution(norm(images))))  # type: ignore[no-any-return]


def test_layers_that_are_used_twice_or_watched_or_run_in_another_order_stay_as_they_are() -> None:
    norm, square, hooked = nn.BatchNorm2d(3), convolution(3, 3), nn.ReLU()
    hooked.register_forward_hook(lambda *_: None)
    for net in (
        nn.Sequential(convolution(3, 3), norm, POOL, RELU, convolution(3, 3), norm, POOL, RELU),
        nn.Sequential(square, POOL, RELU, square, POOL, RELU),
        NormFirst(convolution(3, 3), nn.BatchNorm2d(3), nn.MaxPool2d(2), nn.ReLU()),
        nn.Sequential(convolution(), nn.MaxPool2d(2), hooked),
    ):
        before = [type(layer) for layer in net]
        with_pooled_convolutions(net)
        assert [type(layer) for layer in net] == before


@pytest.mark.parametrize("training", [True, False], ids=["training", "evaluation"])
def test_four_layers_become_one_under_the_same_names(training: bool) -> None:
    torch.manual_seed(0)
    net = nn.Sequential(convolution(), nn.BatchNorm2d(4), POOL, RELU, nn.Flatten()).train(training)
    quick, images = deepcopy(net), torch.randn(2, 3, 8, 8)
    with_pooled_convolutions(quick)
    quick = deepcopy(quick)
    assert [type(layer) for layer in quick] == [NormedConv2d, Passing, nn.Identity, nn.Identity, nn.Flatten]
    assert list(quick.state_dict()) == list(net.state_dict())
    torch.testing.assert_close(quick(images), net(images))
    for name, value in quick.state_dict().items():
        torch.testing.assert_close(value, net.state_dict()[name])
    with torch.no_grad():
        quick.get_parameter("1.weight").zero_()  # the copy's own BatchNorm is the one that it uses
    assert not quick(images).any()


SHAPES = [  # images, channels, outputs, height, width, side of the window; TF32; channels last
    (64, 1, 32, 28, 28, 5, True, False),
    (64, 32, 64, 14, 14, 5, True, True),
    (35, 32, 64, 14, 14, 5, True, True),
    (1, 3, 20, 6, 10, 3, True, False),
    (3, 16, 33, 2, 2, 1, True, False),
    (5, 1, 32, 28, 28, 5, False, False),
    (5, 8, 16, 4, 2, 3, False, True),
]


def both_ways(
    size: Sequence[int], last: int
) -> tuple[tuple[Tensor, tuple[Tensor, ...]], tuple[Tensor, tuple[Tensor, ...]]]:
    """Outputs and gradients, ours and PyTorch's in float64, of small whole numbers, which no precision rounds."""
    images, channels, outputs, height, width, side = size
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

    @pytest.mark.parametrize("shape", SHAPES, ids=str)
    def test_outputs_and_gradients_are_exact(self, shape: tuple[int, ...], monkeypatch: pytest.MonkeyPatch) -> None:
        *size, tf32, last = shape
        monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", bool(tf32))
        (y, ours), (z, exact) = both_ways(size, last)
        assert torch.equal(y.double(), z)
        for one, two in zip(ours, exact, strict=True):  # ties go to the same place, too
            assert torch.equal(one.double(), two)

    def test_tf32_is_rounded_not_cut_off(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", True)
        x, weight = torch.rand(4, 32, 8, 8, device="cuda") + 1, torch.rand(16, 32, 3, 3, device="cuda") + 1
        y: Tensor = ConvolvePoolRelu.apply(x, weight, torch.zeros(16, device="cuda"))  # type: ignore[no-untyped-call]
        exact = functional.max_pool2d(functional.conv2d(x.double(), weight.double(), padding=1), 2)
        assert abs(float((y / exact - 1).mean())) < 1e-5  # cut off, they would all be too small: by 3e-4

    @pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
    @pytest.mark.parametrize("size", [(8, 32, 84, 84), (5, 3, 21, 21), (1, 2, 3, 5)], ids=str)
    def test_normalised_outputs_gradients_and_statistics(self, size: tuple[int, ...], dtype: torch.dtype) -> None:
        draw = torch.Generator().manual_seed(0)
        x, arriving = torch.randn(size, generator=draw), torch.randn(size, generator=draw)
        scale, shift, bias, mean = torch.randn(4, size[1], generator=draw)
        variance = torch.rand(size[1], generator=draw)
        found = []
        for ours in (True, False):
            kind = dtype if ours else torch.float64
            one, two, three = (value.to("cuda", kind).requires_grad_() for value in (x, scale, shift))
            before, running = bias.to("cuda", kind), [value.to("cuda", kind) for value in (mean, variance)]
            if ours:
                given = (one, two, three, before, *running, 1e-5, 0.1)
                y: Tensor = NormPoolRelu.apply(*given)  # type: ignore[no-untyped-call]
            else:
                shifted = one + before[:, None, None]
                normed = functional.batch_norm(shifted, running[0], running[1], two, three, True, 0.1, 1e-5)
                y = functional.relu(functional.max_pool2d(normed, 2))
            come = arriving[..., : size[2] // 2, : size[3] // 2].to("cuda", kind)
            found.append([y, *torch.autograd.grad(y, (one, two, three), come), *running])
        for one, two in zip(*found, strict=True):
            far = (one.double() - two).norm() / (1 + two.norm())
            assert far < (1e-10 if dtype is torch.float64 else 5e-3)  # where rounding makes another place the largest

    @pytest.mark.parametrize("bias", [True, False])
    def test_in_evaluation_the_convolution_does_what_the_norm_does(self, bias: bool) -> None:
        torch.manual_seed(0)
        net = nn.Sequential(nn.Conv2d(3, 20, 3, padding=1, bias=bias), nn.BatchNorm2d(20), POOL, RELU).cuda()
        images = torch.randn(5, 3, 8, 6, device="cuda")
        with torch.no_grad():
            net.get_parameter("1.weight").normal_()
            net.get_parameter("1.bias").normal_()
            net(images + 1)  # gives it statistics
        quick = deepcopy(net.eval())
        with_pooled_convolutions(quick)
        assert isinstance(quick[0], NormedConv2d)
        assert quick[0].narrow
        far = (quick(images).double() - deepcopy(net).double()(images.double())).norm()
        assert far < 2e-3 * net(images).norm()
        before = deepcopy(quick.state_dict())
        quick(images)
        for name, value in quick.state_dict().items():
            torch.testing.assert_close(value, before[name], rtol=0, atol=0)

    def test_a_second_derivative_is_refused_rather_than_left_out(self) -> None:
        layer, images = convolution(3, 16).cuda(), torch.randn(2, 3, 4, 4, device="cuda")
        layer.__class__ = PooledConv2d
        (gradient,) = torch.autograd.grad(layer(images).square().sum(), layer.weight, create_graph=True)
        with pytest.raises(RuntimeError, match="once_differentiable"):
            gradient.square().sum().backward()

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
