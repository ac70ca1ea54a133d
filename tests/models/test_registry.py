from pathlib import Path

import pytest
import torch

from turbosvm.errors import TurboSVMError
from turbosvm.models.registry import build_model

OWN = """
from os import system
from pathlib import Path
from shutil import rmtree
import torch

class Net(torch.nn.Sequential):
    def __init__(self, classes=3):
        super().__init__(torch.nn.Linear(4, classes))

number = 3

def not_a_model():
    return 3
"""


@pytest.fixture
def own_models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "own_models_for_test.py").write_text(OWN)
    monkeypatch.syspath_prepend(tmp_path)


@pytest.mark.usefixtures("own_models")
def test_ones_own_model_is_imported_and_seeded() -> None:
    before = torch.get_rng_state()
    one, same, other = (build_model("own_models_for_test:Net", {"classes": 7}, seed) for seed in (0, 0, 1))
    assert torch.equal(torch.get_rng_state(), before)
    assert one[0].weight.shape == (7, 4)  # type: ignore[index]
    assert torch.equal(one[0].weight, same[0].weight)  # type: ignore[index]
    assert not torch.equal(one[0].weight, other[0].weight)  # type: ignore[index]


@pytest.mark.usefixtures("own_models")
@pytest.mark.parametrize(
    ("name", "options", "sentence"),
    [
        ("smal", {}, r"Unknown model 'smal'; allowed: celeba, femnist, .*Did you mean 'small'\?"),
        ("small", {"embeding": 3}, r"Unknown option 'embeding' of model small; .*Did you mean 'embedding'\?"),
        ("no_such_module:Net", {}, "Model 'no_such_module:Net' cannot be imported"),
        ("own_models_for_test:Nett", {}, "module 'own_models_for_test' has no nn.Module class 'Nett'"),
        ("own_models_for_test:number", {}, "module 'own_models_for_test' has no nn.Module class 'number'"),
        (
            "own_models_for_test:Net",
            {"classes": -1},
            "'own_models_for_test:Net' cannot be built with {'classes': -1}: ",
        ),
        ("small", {"embedding": "many"}, "Model 'small' cannot be built with {'embedding': 'many'}: TypeError"),
        (":Net", {}, "Model ':Net' cannot be imported: ValueError"),
        ("builtins:type", {}, "Model 'builtins:type': Python's own module 'builtins' has no models"),
        ("os:system", {"command": "true"}, "Python's own module 'os' has no models"),
        ("os.path:join", {}, "Python's own module 'os.path' has no models"),
        (
            "own_models_for_test:system",
            {"command": "true"},
            "no nn.Module class 'system', nor a function of its own",
        ),
        ("own_models_for_test:rmtree", {"path": "/"}, "has no nn.Module class 'rmtree', nor a function of its own"),
        ("own_models_for_test:Path", {}, "has no nn.Module class 'Path', nor a function of its own"),
        ("own_models_for_test:not_a_model", {}, "gave a int, not an nn.Module"),
    ],
)
def test_mistakes_are_explained(name: str, options: dict[str, int], sentence: str) -> None:
    with pytest.raises(TurboSVMError, match=sentence):
        build_model(name, options, 0)
