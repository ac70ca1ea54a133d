"""Odd models and bad clients: whatever is handed over, a run ends in a sentence or in a right result.

A catalogue: each row is a model (or a federation's data), and what is to become of it. `right` runs learn, without a
word; `told` runs go on, with a sentence beside; so do those of `engine`, where another engine than `sequential` was
asked for; `stopped` runs end early with a sentence and keep their records; what is `refused` never begins, or has
nothing to keep. Nothing ends in a traceback, and nothing that goes wrong does so in silence.
"""

import re
import threading
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy
from torch.nn.utils import prune

import turbosvm
from turbosvm.data.federated import FederatedData
from turbosvm.errors import TurboSVMError
from turbosvm.experiment.recorded import recorded
from turbosvm.seals import unsealed

Fate = Literal["right", "told", "engine", "stopped", "refused"]
ROUNDS = 12
FAST: dict[str, Any] = {
    "rounds": ROUNDS,
    "clients_per_round": 6,
    "device": "cpu",
    "evaluate_every": 1,
    "data.held_out": 0.25,
}


class Net(nn.Module):
    """Four inputs, three classes; what odd models are made of."""

    head_name = "head"

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Linear(4, 8)
        self.head = nn.Linear(8, 3)

    def forward(self, inputs: Tensor) -> Any:
        return self.head(self.body(inputs).relu())


def blobs(counts: tuple[int, ...] = (6, 12, 17), users: int = 24) -> FederatedData:
    """Users of three classes that a linear model can tell apart."""
    rng = np.random.default_rng(7)
    centres = rng.normal(size=(3, 4)) * 4
    samples = {}
    for user in range(users):
        labels = rng.integers(0, 3, size=counts[user % len(counts)])
        samples[f"u{user}"] = ((centres[labels] + rng.normal(size=(len(labels), 4))).astype(np.float32), labels)
    return FederatedData.from_users(samples, classes=3, name="blobs")


# Models that hold something


class HoldsALock(Net):
    def __init__(self) -> None:
        super().__init__()
        self.lock = threading.Lock()


class HoldsAGenerator(Net):
    def __init__(self) -> None:
        super().__init__()
        self.numbers = iter(number for number in range(3))


class CopiesToNothing(Net):
    def __deepcopy__(self, memo: dict[int, Any]) -> None:
        return None


class HoldsItself(Net):
    def __init__(self) -> None:
        super().__init__()
        self.me = [self]


# Models with numbers of other kinds


class ComplexBuffer(Net):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("phase", torch.full((8,), 1 + 1j))

    def forward(self, inputs: Tensor) -> Any:
        return self.head((self.body(inputs) * self.get_buffer("phase")).real.relu())


class ComplexWeights(Net):
    def __init__(self) -> None:
        super().__init__()
        self.wave = nn.Parameter(torch.randn(8, 4, dtype=torch.complex64))

    def forward(self, inputs: Tensor) -> Any:
        return self.head((inputs.to(torch.complex64) @ self.wave.T).abs())


class CountsInIntegers(Net):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("seen", torch.zeros((), dtype=torch.int32))
        self.register_buffer("mask", torch.ones(8, dtype=torch.bool))

    def forward(self, inputs: Tensor) -> Any:
        if self.training:
            self.get_buffer("seen").add_(len(inputs))
        return self.head(self.body(inputs).relu() * self.get_buffer("mask"))


class EmptyBuffer(Net):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("nothing", torch.zeros(0))
        self.register_buffer("scalar", torch.tensor(1.0))
        self.register_buffer("none", None)


class ReplacesBuffer(Net):
    """Puts another tensor in the place of its buffer, instead of changing its numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("scale", torch.ones(()))

    def forward(self, inputs: Tensor) -> Any:
        logits = super().forward(inputs * self.get_buffer("scale"))
        if self.training:
            self.scale = self.get_buffer("scale") * 0.9 + 0.1 * inputs.detach().abs().mean()
        return logits


class ChangesBuffer(ReplacesBuffer):
    """The same in the usual way."""

    def forward(self, inputs: Tensor) -> Any:
        logits = Net.forward(self, inputs * self.get_buffer("scale").clone())
        if self.training:
            self.get_buffer("scale").mul_(0.9).add_(0.1 * inputs.detach().abs().mean())
        return logits


class ReshapesBuffer(ReplacesBuffer):
    def forward(self, inputs: Tensor) -> Any:
        self.scale = torch.ones(len(inputs), 1)
        return Net.forward(self, inputs)


class Half(Net):
    def __init__(self) -> None:
        super().__init__()
        self.to(torch.bfloat16)

    def forward(self, inputs: Tensor) -> Any:
        return super().forward(inputs.to(torch.bfloat16))


class Mixed(Net):
    """Its body computes in float64."""

    def __init__(self) -> None:
        super().__init__()
        self.body.double()

    def forward(self, inputs: Tensor) -> Any:
        return self.head(self.body(inputs.double()).relu().float())


class Double(Net):
    def __init__(self) -> None:
        super().__init__()
        self.double()


class InfiniteMask(Net):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mask", torch.tensor([0.0] * 7 + [-torch.inf]))

    def forward(self, inputs: Tensor) -> Any:
        return self.head((self.body(inputs) + self.get_buffer("mask")).relu())


# Models that answer oddly


class GivesATuple(Net):
    def forward(self, inputs: Tensor) -> Any:
        return super().forward(inputs), inputs


class GivesATupleInTraining(Net):
    def forward(self, inputs: Tensor) -> Any:
        logits = super().forward(inputs)
        return (logits, inputs) if self.training else logits


class GivesOthersInTraining(Net):
    def forward(self, inputs: Tensor) -> Any:
        logits = super().forward(inputs)
        return logits[:, :, None] if self.training else logits


class GivesADictionary(Net):
    def forward(self, inputs: Tensor) -> Any:
        return {"logits": super().forward(inputs)}


class GivesNothing(Net):
    def forward(self, inputs: Tensor) -> Any:
        return None


class GivesArrays(Net):
    def forward(self, inputs: Tensor) -> Any:
        return super().forward(inputs).detach().numpy()


class Detached(Net):
    """No gradient flows through its answers."""

    def forward(self, inputs: Tensor) -> Any:
        return super().forward(inputs).detach()


class NoGrad(Net):
    @torch.no_grad()
    def forward(self, inputs: Tensor) -> Any:
        return super().forward(inputs)


class Softmax(Net):
    def forward(self, inputs: Tensor) -> Any:
        return super().forward(inputs).softmax(dim=1)


class LogSoftmax(Net):
    def forward(self, inputs: Tensor) -> Any:
        return super().forward(inputs).log_softmax(dim=1)


class Sigmoid(Net):
    def forward(self, inputs: Tensor) -> Any:
        return super().forward(inputs).sigmoid()


class NaNs(Net):
    def forward(self, inputs: Tensor) -> Any:
        return super().forward(inputs) * torch.nan


# Models that raise


class RaisesInTraining(Net):
    def forward(self, inputs: Tensor) -> Any:
        if self.training:
            raise ValueError("no training today")
        return super().forward(inputs)


class RaisesInEvaluation(Net):
    """On more samples than a check has."""

    def forward(self, inputs: Tensor) -> Any:
        if not self.training and len(inputs) > 8:
            raise ValueError("no such tests")
        return super().forward(inputs)


class RaisesLateInEvaluation(Net):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("seen", torch.zeros((), dtype=torch.int64))

    def forward(self, inputs: Tensor) -> Any:
        if self.training:
            self.get_buffer("seen").add_(1)
        elif self.get_buffer("seen") > 8:
            raise ValueError("worn out")
        return super().forward(inputs)


class RaisesOnSome(Net):
    def forward(self, inputs: Tensor) -> Any:
        if self.training and bool(inputs[0, 0] > 2):
            raise ValueError("not this batch")
        return super().forward(inputs)


class RaisesAtOnce(Net):
    def forward(self, inputs: Tensor) -> Any:
        raise KeyError


class RaisesWithoutText(Net):
    def forward(self, inputs: Tensor) -> Any:
        class MuteError(Exception):
            def __str__(self) -> str:
                raise RuntimeError("not even that")

        raise MuteError


class EndsTheRecursion(Net):
    def forward(self, inputs: Tensor) -> Any:
        return self.forward(inputs)


# Models that change themselves


class TrainsAlways(Net):
    """Puts itself into training mode, whatever is asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(8)

    def forward(self, inputs: Tensor) -> Any:
        self.train()
        return self.head(self.norm(self.body(inputs)).relu())


class EvaluatesAlways(Net):
    def forward(self, inputs: Tensor) -> Any:
        self.eval()
        return super().forward(inputs)


class KeepsNormFrozen(Net):
    """The usual way to keep BatchNorm's statistics: `train` is overridden, and returns nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(8)

    def train(self, mode: bool = True) -> Any:
        super().train(mode)
        self.norm.eval()

    def forward(self, inputs: Tensor) -> Any:
        return self.head(self.norm(self.body(inputs)).relu())


class GrowsInTraining(Net):
    def forward(self, inputs: Tensor) -> Any:
        if self.training and not hasattr(self, "extra"):
            self.extra = nn.Linear(4, 4)
        return super().forward(self.extra(inputs) if hasattr(self, "extra") else inputs)


class GrowsBuffers(Net):
    def forward(self, inputs: Tensor) -> Any:
        if self.training:
            self.register_buffer("mean", inputs.mean(dim=0))
        return super().forward(inputs)


class ChangesItsInputs(Net):
    def forward(self, inputs: Tensor) -> Any:
        return super().forward(inputs.mul_(0.5))


class CountsCalls(Net):
    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    def forward(self, inputs: Tensor) -> Any:
        self.calls += 1
        return super().forward(inputs)


class SeedsGlobally(Net):
    def forward(self, inputs: Tensor) -> Any:
        torch.manual_seed(1)
        return super().forward(inputs)


class Drops(Net):
    def forward(self, inputs: Tensor) -> Any:
        return self.head(nn.functional.dropout(self.body(inputs).relu(), 0.1, self.training))


class UsesNumpy(Net):
    """Draws from NumPy's global generator, in which nobody else takes part."""

    def forward(self, inputs: Tensor) -> Any:
        return super().forward(inputs + 0.0 * float(np.random.rand()))  # noqa: NPY002


# Models built oddly


class Tied(Net):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Linear(4, 4)
        self.again = nn.Linear(4, 4)
        self.again.weight = self.body.weight
        self.head = nn.Linear(4, 3)

    def forward(self, inputs: Tensor) -> Any:
        return self.head(self.again(self.body(inputs).relu()).relu())


class Unused(Net):
    def __init__(self) -> None:
        super().__init__()
        self.spare = nn.Linear(3, 3)


class HeadAsFunction(Net):
    def forward(self, inputs: Tensor) -> Any:
        return nn.functional.linear(self.body(inputs).relu(), self.head.weight, self.head.bias)


class Lazy(Net):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.LazyLinear(8)


class LazyHead(Net):
    def __init__(self) -> None:
        super().__init__()
        self.head = nn.LazyLinear(3)


class LazyHeadTooSmall(Net):
    def __init__(self) -> None:
        super().__init__()
        self.head = nn.LazyLinear(2)


class LazyAndUnused(Net):
    def __init__(self) -> None:
        super().__init__()
        self.spare = nn.LazyLinear(3)


class NoParameters(nn.Module):
    def forward(self, inputs: Tensor) -> Any:
        return inputs[:, :3]


class WrongClasses(Net):
    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(8, 5)


class HeadInside(Net):
    """Its head is not its last layer: what it gives has as many columns, but is not the head's."""

    def __init__(self) -> None:
        super().__init__()
        self.after = nn.Linear(3, 3)

    def forward(self, inputs: Tensor) -> Any:
        return self.after(super().forward(inputs).relu())


def weight_normed(where: str) -> nn.Module:
    net = Net()
    nn.utils.parametrizations.weight_norm(net.get_submodule(where))
    return net


def old_weight_norm() -> nn.Module:
    net = Net()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        nn.utils.weight_norm(net.body)
    return net


def spectral() -> nn.Module:
    net = Net()
    nn.utils.parametrizations.spectral_norm(net.body)
    return net


def orthogonal() -> nn.Module:
    net = Net()
    nn.utils.parametrizations.orthogonal(net.body)
    return net


def pruned() -> nn.Module:
    net = Net()
    prune.l1_unstructured(net.body, "weight", amount=0.3)
    return net


def compiled() -> nn.Module:
    return cast("nn.Module", torch.compile(Net(), backend="eager"))


def scripted() -> nn.Module:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return cast("nn.Module", torch.jit.trace(Net(), torch.zeros(2, 4)))


def meta() -> nn.Module:
    return Net().to("meta")


def frozen(*names: str) -> Callable[[], nn.Module]:
    def make() -> nn.Module:
        net = Net()
        for name, value in net.named_parameters():
            value.requires_grad = name not in names
        return net

    return make


def with_hook(register: Callable[[Net], Any]) -> Callable[[], nn.Module]:
    def make() -> nn.Module:
        net = Net()
        register(net)
        return net

    return make


def raises(*_: Any) -> None:
    raise ValueError("caught something")


# Bad clients


def spoilt(change: Callable[[np.ndarray, slice], None], users: int = 4) -> Callable[[], FederatedData]:
    """The first users' inputs, changed after they were checked."""

    def make() -> FederatedData:
        data = blobs()
        inputs = np.array(data.inputs)
        checked = replace(data, inputs=inputs, held_out=tuple(user >= 18 for user in range(24)))
        for user in range(users):
            change(inputs, slice(int(data.offsets[user]), int(data.offsets[user + 1])))
        return checked

    return make


def put(number: float) -> Callable[[np.ndarray, slice], None]:
    def change(inputs: np.ndarray, where: slice) -> None:
        inputs[where] = number

    return change


@dataclass(frozen=True)
class Odd:
    """A row of the catalogue."""

    name: str
    fate: Fate
    sentence: str = ""
    model: Callable[[], nn.Module] = Net
    data: Callable[[], FederatedData] = blobs
    algorithm: str = "fedavg"
    head: str | None = None
    settings: tuple[tuple[str, Any], ...] = ()


def model(kind: type[nn.Module], fate: Fate, sentence: str = "", **others: Any) -> Odd:
    return Odd(kind.__name__, fate, sentence, kind, **others)


MODELS = [
    model(HoldsALock, "refused", r"cannot be copied for a run \(TypeError: cannot pickle '_thread.lock' object\)"),
    model(HoldsAGenerator, "refused", r"cannot be copied for a run \(TypeError: cannot pickle 'generator' object\)"),
    model(CopiesToNothing, "refused", "A copy of model CopiesToNothing is a NoneType"),
    model(HoldsItself, "right"),
    model(ComplexBuffer, "right"),
    model(ComplexWeights, "right"),
    model(CountsInIntegers, "right"),
    model(EmptyBuffer, "right"),
    model(ReplacesBuffer, "right"),
    model(ReshapesBuffer, "stopped", "gives its buffer 'scale' another shape"),
    model(Half, "right"),
    model(Mixed, "right"),
    model(Double, "refused", "cannot take inputs of shape .* and type torch.float32"),
    model(InfiniteMask, "right"),
    model(GivesATuple, "refused", "must give logits of shape .*, not tuple"),
    model(GivesATupleInTraining, "stopped", "gives a tuple in training mode, not logits"),
    model(GivesOthersInTraining, "stopped", "training failed"),
    model(GivesADictionary, "refused", "must give logits of shape .*, not dict"),
    model(GivesNothing, "refused", "must give logits of shape .*, not NoneType"),
    model(GivesArrays, "refused", "must give logits of shape .*, not ndarray"),
    model(Detached, "stopped", "does not require grad"),
    model(NoGrad, "stopped", "does not require grad"),
    model(Softmax, "told", "Model Softmax gives probabilities, as a Softmax behind its head does"),
    model(LogSoftmax, "told", "Model LogSoftmax gives logarithms of probabilities"),
    model(Sigmoid, "told", "Model Sigmoid gives numbers from 0 to 1, as a Sigmoid behind its head does"),
    model(NaNs, "stopped", "is not finite"),
    model(RaisesInTraining, "stopped", "ValueError: no training today"),
    model(
        RaisesInEvaluation, "refused", "Round 1: model RaisesInEvaluation cannot be evaluated .*: ValueError: no such"
    ),
    model(RaisesLateInEvaluation, "stopped", "cannot be evaluated on the held-out users: ValueError: worn out"),
    model(RaisesOnSome, "told", "ValueError: not this batch"),
    model(RaisesAtOnce, "refused", "cannot take inputs .*: KeyError"),
    model(RaisesWithoutText, "refused", "cannot take inputs .*: MuteError"),
    model(EndsTheRecursion, "refused", "cannot take inputs .*: RecursionError"),
    model(TrainsAlways, "told", "changes the mode of itself when it runs in evaluation mode"),
    model(EvaluatesAlways, "told", "changes the mode of itself when it runs in training mode"),
    model(GrowsInTraining, "refused", "makes 'extra.weight' only when it runs in training mode"),
    model(GrowsBuffers, "refused", "makes 'mean' only when it runs in training mode"),
    model(KeepsNormFrozen, "right"),
    model(ChangesItsInputs, "right"),
    model(CountsCalls, "right"),
    model(SeedsGlobally, "engine", "draws random numbers"),
    model(Drops, "engine", "draws random numbers"),
    model(UsesNumpy, "right"),
    model(Tied, "right"),
    model(Unused, "right"),
    model(HeadAsFunction, "right"),
    model(HeadAsFunction, "told", "is not called once, as a layer", algorithm="moon"),
    model(Lazy, "right"),
    model(LazyHead, "right"),
    model(LazyHeadTooSmall, "refused", "has 2 classes, the data has 3"),
    model(LazyAndUnused, "refused", "does not use its lazy parameter 'spare.weight'"),
    model(NoParameters, "refused", "does not say which layer is its head"),
    model(WrongClasses, "refused", "has 5 classes, the data has 3"),
    model(HeadInside, "right"),
    model(HeadInside, "told", "are not those of its head 'head'", algorithm="turbosvm"),
    Odd("weight norm", "right", model=lambda: weight_normed("body")),
    Odd("weight norm on the head", "refused", "is computed from other parameters", lambda: weight_normed("head")),
    Odd("old weight norm", "refused", "cannot be copied for a run", old_weight_norm),
    Odd("spectral norm", "right", model=spectral),
    Odd("orthogonal", "right", model=orthogonal),
    Odd("pruned", "refused", "cannot be copied for a run", pruned),
    Odd("DataParallel", "right", model=lambda: nn.DataParallel(Net()), head="module.head"),
    Odd("compiled", "right", model=compiled, head="_orig_mod.head"),
    Odd("traced", "refused", "linear", model=scripted, head="head"),
    Odd("on no device", "refused", "cannot be put on device 'cpu': NotImplementedError", meta),
    Odd("frozen body", "right", model=frozen("body.weight", "body.bias")),
    Odd("frozen head", "right", model=frozen("head.weight", "head.bias")),
    Odd(
        "frozen head, TurboSVM", "told", "leaves it as it is", frozen("head.weight", "head.bias"), algorithm="turbosvm"
    ),
    Odd("frozen bias, TurboSVM", "right", model=frozen("head.bias"), algorithm="turbosvm"),
    Odd("all frozen", "told", "nothing is trained", frozen(*dict(Net().named_parameters()))),
    Odd(
        "gradient hook",
        "engine",
        "'head.weight' has a hook",
        with_hook(lambda net: net.head.weight.register_hook(lambda gradient: gradient * 1.0)),
    ),
    Odd("hook that raises", "stopped", "caught something", with_hook(lambda net: net.body.bias.register_hook(raises))),
    Odd(
        "hook after accumulation",
        "stopped",
        "caught something",
        with_hook(lambda net: net.body.bias.register_post_accumulate_grad_hook(raises)),
    ),
    Odd(
        "forward hook",
        "engine",
        "'body' has a hook",
        with_hook(lambda net: net.body.register_forward_hook(lambda *_: None)),
    ),
]
CLIENTS = [
    Odd("no numbers", "told", "is not finite", data=spoilt(put(np.nan))),
    Odd("infinite numbers", "told", "is not finite", data=spoilt(put(np.inf))),
    Odd("huge numbers", "told", "is not finite", data=spoilt(put(1e30))),
    Odd("zeros", "right", data=spoilt(put(0.0))),
    Odd("nobody is good", "stopped", "is not finite", data=spoilt(put(np.nan), 18)),
    Odd(
        "the first bad one ends it",
        "refused",
        "abort",
        data=spoilt(put(np.nan), 18),
        settings=(("on_bad_client", "abort"),),
    ),
    Odd("mended", "told", "replaced by 1e-05", data=spoilt(put(np.nan)), settings=(("on_bad_client", "replace"),)),
    Odd("one sample each", "right", data=lambda: blobs((1,))),
    Odd("wild steps", "stopped", "smaller learning rates", settings=(("client.learning_rate", 1e30),)),
    Odd("nobody answers", "told", "did not answer", settings=(("client.dropout", 0.9),)),
]
CATALOGUE = MODELS + CLIENTS


def test_how_many_rows_the_catalogue_has() -> None:
    """For the table of attacks."""
    assert (len(MODELS), len(CLIENTS)) == (74, 10)


@pytest.mark.parametrize("engine", ["sequential", "threads"])
@pytest.mark.parametrize("odd", CATALOGUE, ids=lambda odd: odd.name.replace(" ", "-"))
def test_it_ends_in_a_sentence_or_a_right_result(odd: Odd, engine: str, tmp_path: Path) -> None:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        own = odd.model()
    lazy = any(is_lazy(value) for value in own.parameters())
    before = {} if lazy or odd.fate == "refused" else {name: value.clone() for name, value in own.state_dict().items()}
    threads = 1 if engine == "sequential" else 2
    settings: dict[str, Any] = {**FAST, "engine": engine, "threads": threads, **dict(odd.settings)}
    expected = odd.fate if odd.fate != "engine" else "right" if engine == "sequential" else "told"
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        if expected == "refused":
            with pytest.raises(TurboSVMError, match=odd.sentence) as error:
                turbosvm.run(odd.algorithm, data=odd.data(), model=own, head=odd.head, out=tmp_path, **settings)
            assert "\n" not in str(error.value)
            return
        result = turbosvm.run(odd.algorithm, data=odd.data(), model=own, head=odd.head, out=tmp_path, **settings)
    told = [str(one.message) for one in caught if str(one.message).startswith(odd.algorithm)]
    fate = "stopped" if result.stopped else "told" if told else "right"
    assert fate == expected, told
    assert re.search(odd.sentence, " ".join(told)) or expected == "right"
    assert not any("\n" in sentence for sentence in told)
    assert all(torch.equal(value, before[name]) for name, value in own.state_dict().items() if name in before)
    assert result.folder is not None
    records = recorded(result.folder)
    assert len(records) == len(result.records) > 0
    ending = unsealed((result.folder / "ended.json").read_bytes())
    assert (ending["stopped"] is not None) == (fate == "stopped")
    if fate == "right":
        assert len(records) == ROUNDS
        assert not any(record["failures"] or record["failed"] for record in records)
        assert result.final["accuracy"] > 0.5
        assert all(value.isfinite().all() for value in dict(result.model.named_parameters()).values())


@pytest.mark.parametrize("engine", ["sequential", "threads"])
@pytest.mark.parametrize("rule", ["fedavg", "fafed"])
def test_a_buffer_that_is_replaced_is_one_that_is_changed(rule: str, engine: str) -> None:
    """Its numbers are sent and merged, and the next client does not begin with them."""
    runs = []
    for kind in (ReplacesBuffer, ChangesBuffer):
        with torch.random.fork_rng():
            torch.manual_seed(0)
            own = kind()
        runs.append(turbosvm.run(rule, data=blobs(), model=own, engine=engine, threads=2, **FAST))
    one, two = (run.model.state_dict() for run in runs)
    assert one["scale"] != 1
    assert all(torch.equal(value, two[name]) for name, value in one.items())
