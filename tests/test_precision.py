"""How exact training is, and what a device cannot do."""

import pytest
import torch

import turbosvm
from tests.conftest import tiny_net
from turbosvm.data.federated import FederatedData
from turbosvm.errors import TurboSVMError
from turbosvm.precision import check_precision, choose_precision, mixed

CPU = torch.device("cpu")


def test_auto_is_float32_on_the_cpu() -> None:
    assert choose_precision("auto", CPU) == "float32"
    assert choose_precision("bfloat16", CPU) == "bfloat16"


@pytest.mark.parametrize(
    ("name", "sentence"),
    [("tf32", "Precision 'tf32' needs an NVIDIA GPU.*computes on the CPU"), ("half", "Unknown precision 'half'")],
)
def test_what_a_device_cannot_do_is_refused(name: str, sentence: str) -> None:
    with pytest.raises(TurboSVMError, match=sentence):
        choose_precision(name, CPU)


def test_mixed_precision_is_for_float32_models() -> None:
    check_precision("bfloat16", tiny_net())
    check_precision("float32", tiny_net().double())
    with pytest.raises(TurboSVMError, match=r"'bfloat16' is for models in float32; model TinyNet.*float64"):
        check_precision("bfloat16", tiny_net().double())


def test_a_run_refuses_before_its_first_round(tiny_data: FederatedData) -> None:
    with pytest.raises(TurboSVMError, match="Precision 'tf32' needs an NVIDIA GPU"):
        turbosvm.run(data=tiny_data, model=tiny_net(), precision="tf32", device="cpu", rounds=1)


def test_mixed_precision_trains_float32_weights_nearly_as_float32_does(tiny_data: FederatedData) -> None:
    settings = {"data": tiny_data, "rounds": 3, "clients_per_round": 4, "threads": 1, "device": "cpu"}
    full, half = (
        turbosvm.run(model=tiny_net(), precision=precision, **settings)  # type: ignore[arg-type]
        for precision in ("float32", "bfloat16")
    )
    assert next(half.model.parameters()).dtype == torch.float32
    difference = full.model.head.weight - half.model.head.weight  # type: ignore[union-attr, operator]
    assert 0 < difference.abs().max() < 0.05


def test_only_bfloat16_casts() -> None:
    layer, inputs = torch.nn.Linear(2, 2), torch.ones(1, 2)
    kinds = []
    for name in ("float32", "bfloat16"):
        with mixed(name, CPU):
            kinds.append(layer(inputs).dtype)
    assert kinds == [torch.float32, torch.bfloat16]
