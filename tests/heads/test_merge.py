"""merge_heads: a worked example, each option, its diagnostics, its edges, and what it refuses."""

import subprocess
import sys
from math import exp, isnan
from typing import Any

import numpy as np
import pytest
import torch

import turbosvm
from turbosvm.errors import TurboSVMError
from turbosvm.heads.merge import HeadState, merge_heads
from turbosvm.heads.options import HeadOptions, cost_of_round
from turbosvm.svm import fit

# Three classes in the plane, two clients. Between each two classes only the first client's embeddings touch the margin.
WORKED = np.array([[[2.0, 0.0], [0.0, 0.0], [0.0, 2.0]], [[4.0, 1.0], [-1.0, -1.0], [1.0, 4.0]]])


def heads(classes: int = 5, clients: int = 6, size: int = 4, noise: float = 1.0) -> np.ndarray[Any, Any]:
    rng = np.random.default_rng(0)
    return rng.normal(size=(classes, size)) + noise * rng.normal(size=(clients, classes, size))


SAMPLES = np.array([5, 1, 3, 2, 8, 4])


def mean(clients: np.ndarray[Any, Any], samples: np.ndarray[Any, Any] = SAMPLES) -> np.ndarray[Any, Any]:
    averaged: np.ndarray[Any, Any] = np.tensordot(samples / samples.sum(), clients, axes=1)
    return averaged


def test_worked_example() -> None:
    """Worked out by hand, as in docs/algorithms/turbosvm.md.

    The normals are (1, 0) between classes 0 and 1, (0, -1) between 1 and 2, (0.5, -0.5) between 0 and 2, and the
    merged classes lie 2, 2 and sqrt(8) apart along them: l_sp = 2 exp(-2) + exp(-4). A unit step down its gradient
    moves class 0 by 2 exp(-2) along (1, 0) and by 2 exp(-4) along (1, -1), and so on.
    """
    selected = merge_heads(WORKED, [1, 3], spread_out=False)
    np.testing.assert_allclose(selected.head, [[2, 0], [0, 0], [0, 2]], atol=1e-12)
    spread = merge_heads(WORKED, [1, 3], optimiser="sgd", learning_rate=1.0)
    near, far = 2 * exp(-2), 2 * exp(-4)
    expected = [[2 + near + far, -far], [-near, -near], [-far, 2 + near + far]]
    np.testing.assert_allclose(spread.head, expected, atol=1e-12)
    assert spread.diagnostics["spread_loss_before"] == pytest.approx(2 * exp(-2) + exp(-4))
    assert spread.diagnostics["spread_loss_after"] < spread.diagnostics["spread_loss_before"]
    assert spread.diagnostics["client_selected"] == [1.0, 0.0]
    assert spread.diagnostics["client_slack"] == pytest.approx([0.0, 0.0], abs=1e-9)
    assert spread.diagnostics["svm_support_mean"] == 1.0
    assert spread.diagnostics["svm_margin_min"] == pytest.approx(2.0)
    assert spread.diagnostics["svm_margin_max"] == pytest.approx(8**0.5)


def test_selection_averages_the_support_vectors_by_their_samples() -> None:
    embeddings = heads(clients=6, size=2, noise=0.6)
    support = fit(embeddings).support_
    assert 0 < support.sum() < support.size
    weights = support * SAMPLES
    expected = np.einsum("kn,nkd->kd", weights / weights.sum(axis=1, keepdims=True), embeddings)
    np.testing.assert_allclose(merge_heads(embeddings, SAMPLES, spread_out=False).head, expected, atol=1e-12)


def test_without_both_parts_it_is_the_plain_mean() -> None:
    merged = merge_heads(heads(), SAMPLES, selection=False, spread_out=False)
    np.testing.assert_allclose(merged.head, mean(heads()), atol=1e-12)
    assert merged.diagnostics == {}


def test_spread_out_alone_starts_from_the_plain_mean() -> None:
    merged = merge_heads(heads(size=2), SAMPLES, selection=False, learning_rate=1e-9)
    np.testing.assert_allclose(merged.head, mean(heads(size=2)), atol=1e-8)
    assert merged.diagnostics["spread_loss_before"] > 0


def test_the_default_optimiser_is_adam_with_its_moments_kept() -> None:
    """The first step of Adam moves each number by the learning rate, whatever the gradient's size."""
    plain = merge_heads(heads(), SAMPLES, spread_out=False).head
    first = merge_heads(heads(), SAMPLES, learning_rate=0.01)
    assert np.abs(first.head - plain).max() == pytest.approx(0.01, rel=0.01)
    second = merge_heads(heads(), SAMPLES, first.state, learning_rate=0.01, cost="constant")
    anew = merge_heads(heads(), SAMPLES, learning_rate=0.01, cost="constant")
    assert second.state.round == 2
    assert second.state.moments["steps"].flatten().tolist() == [2.0] * 5
    assert np.abs(second.state.moments["first"]).sum() > np.abs(anew.state.moments["first"]).sum()


@pytest.mark.parametrize("optimiser", ["adam", "sgd", "amsgrad", "yogi", "adagrad"])
def test_every_optimiser_lowers_the_loss_and_more_steps_lower_it_more(optimiser: str) -> None:
    rate = 0.05
    one = merge_heads(heads(), SAMPLES, optimiser=optimiser, learning_rate=rate).diagnostics
    four = merge_heads(heads(), SAMPLES, optimiser=optimiser, learning_rate=rate, steps=4).diagnostics
    assert one["spread_loss_before"] == four["spread_loss_before"]
    assert four["spread_loss_after"] < one["spread_loss_after"] < one["spread_loss_before"]


KERNELS: list[dict[str, Any]] = [
    {"kernel": "poly", "degree": 2},
    {"kernel": "poly", "degree": 3},
    {"kernel": "poly", "degree": 4, "a": 0.5, "b": 0.5},
    {"kernel": "rbf"},
    {"kernel": "sigmoid", "a": 0.1, "b": 0.0},
    {"scheme": "ovr"},
    {"scheme": "ovr", "kernel": "rbf", "a": 0.5},
]


@pytest.mark.parametrize("options", KERNELS, ids=str)
def test_every_kernel_and_scheme_goes_down_its_own_loss(options: dict[str, Any]) -> None:
    merged = merge_heads(heads(noise=0.5), SAMPLES, optimiser="sgd", learning_rate=1e-3, **options)
    assert merged.diagnostics["spread_loss_after"] < merged.diagnostics["spread_loss_before"]
    linear = merge_heads(heads(noise=0.5), SAMPLES, optimiser="sgd", learning_rate=1e-3)
    assert merged.diagnostics["spread_loss_before"] != linear.diagnostics["spread_loss_before"]
    assert np.isfinite(merged.head).all()


@pytest.mark.parametrize(
    ("cost", "expected"),
    [
        ("decreasing", [1.0, 0.75, 0.5, 0.25, 0.25]),
        ("increasing", [0.25, 0.5, 0.75, 1.0, 1.0]),
        ("constant", [1.0] * 5),
        (0.3, [0.3] * 5),
        ([2.0, 1.0, 0.1], [2.0, 1.0, 0.1, 0.1, 0.1]),
    ],
)
def test_cost_schedules(cost: Any, expected: list[float]) -> None:
    assert [cost_of_round(cost, number, 4) for number in range(1, 6)] == expected
    state, seen = None, []
    for _ in range(5):
        merged = merge_heads(heads(), SAMPLES, state, rounds=4, cost=cost)
        state = merged.state
        seen.append(merged.diagnostics["svm_cost"])
    assert seen == expected


@pytest.mark.parametrize(("wanted", "size"), [(3, 3), (0.4, 4), (0.01, 2), (1.0, 10), (10, 10), (99, 10), (None, 10)])
def test_sampled_classes_are_merged_by_svms_and_the_others_by_the_mean(wanted: Any, size: int) -> None:
    embeddings = heads(classes=10)
    merged = merge_heads(embeddings, SAMPLES, classes=wanted, seed=3, learning_rate=0.5)
    assert merged.diagnostics["svm_classes"] == size
    chosen = HeadOptions(classes=wanted).sampled(10, 1, seed=3)
    others = [label for label in range(10) if label not in chosen]
    np.testing.assert_allclose(merged.head[others], mean(embeddings)[others], atol=1e-12)
    alone = merge_heads(embeddings[:, chosen], SAMPLES, learning_rate=0.5)
    np.testing.assert_allclose(merged.head[chosen], alone.head, atol=1e-12)
    assert merged.state.moments["steps"].flatten().tolist() == [float(label in chosen) for label in range(10)]


def test_the_sample_of_classes_is_a_function_of_seed_and_round() -> None:
    options = HeadOptions(classes=5)
    draws = {(seed, number): tuple(options.sampled(60, number, seed)) for seed in (0, 1) for number in (1, 2)}
    assert len(set(draws.values())) == 4
    assert draws[1, 2] == tuple(options.sampled(60, 2, 1))
    counts = np.bincount([label for number in range(2000) for label in options.sampled(60, number, 0)], minlength=60)
    assert abs(counts - 2000 * 5 / 60).max() < 5 * np.sqrt(2000 * 5 / 60)  # each class as often as another


def test_torch_and_numpy_agree_and_nothing_handed_in_is_changed() -> None:
    embeddings = heads().astype(np.float32)
    kept = embeddings.copy()
    array = merge_heads(embeddings, SAMPLES, learning_rate=0.5)
    tensor = merge_heads(torch.from_numpy(embeddings), torch.from_numpy(SAMPLES), learning_rate=0.5)
    assert isinstance(array.head, np.ndarray)
    assert isinstance(tensor.head, torch.Tensor)
    assert array.head.dtype == np.float32
    np.testing.assert_array_equal(array.head, tensor.head.numpy())
    moments = {name: value.copy() for name, value in array.state.moments.items()}
    again = merge_heads(embeddings, SAMPLES, array.state, learning_rate=0.5)
    onward = merge_heads(torch.from_numpy(embeddings), SAMPLES, tensor.state, learning_rate=0.5)
    np.testing.assert_array_equal(again.head, onward.head.numpy())
    np.testing.assert_array_equal(embeddings, kept)
    for name, value in moments.items():
        np.testing.assert_array_equal(array.state.moments[name], value)


def test_half_precision_and_gradients_are_no_obstacle() -> None:
    half = torch.from_numpy(heads()).half().requires_grad_()
    merged = merge_heads(half, SAMPLES)
    assert merged.head.dtype is torch.float16
    assert not merged.head.requires_grad
    assert merged.state.moments["first"].dtype is torch.float32
    exact = merge_heads(half.detach().double(), SAMPLES)
    torch.testing.assert_close(merged.head.double(), exact.head, atol=2e-3, rtol=2e-3)


def test_order_of_clients_and_scale_of_counts_do_not_matter() -> None:
    order = [3, 1, 5, 0, 2, 4]
    straight = merge_heads(heads(), SAMPLES, learning_rate=0.1)
    shuffled = merge_heads(heads()[order], SAMPLES[order] * 7, learning_rate=0.1)
    np.testing.assert_allclose(straight.head, shuffled.head, atol=2e-3)  # the SVMs are solved to tol
    exact, other = (merge_heads(heads()[o], SAMPLES[o], learning_rate=0.1, tol=1e-9) for o in ([*range(6)], order))
    np.testing.assert_allclose(exact.head, other.head, atol=1e-6)


def test_clients_without_samples_have_no_say() -> None:
    samples = SAMPLES.copy()
    samples[2] = 0
    rest = [0, 1, 3, 4, 5]
    merged, without = merge_heads(heads(), samples), merge_heads(heads()[rest], samples[rest])
    np.testing.assert_array_equal(merged.head, without.head)
    selected = merged.diagnostics["client_selected"]
    assert isnan(selected[2])
    assert [selected[client] for client in rest] == without.diagnostics["client_selected"]


@pytest.mark.parametrize("clients", [1, 5])
def test_one_client_and_identical_clients_give_that_head(clients: int) -> None:
    same = np.repeat(heads(clients=1), clients, axis=0)
    merged = merge_heads(same, np.ones(clients), spread_out=False)
    np.testing.assert_allclose(merged.head, same[0], atol=1e-12)
    spread = merge_heads(same, np.ones(clients), learning_rate=0.1)
    assert np.isfinite(spread.head).all()
    assert np.abs(spread.head - same[0]).max() == pytest.approx(0.1, rel=0.01)


def test_all_classes_equal_move_nowhere() -> None:
    same = np.ones((4, 3, 2))
    merged = merge_heads(same, np.ones(4), optimiser="sgd", learning_rate=1.0)
    np.testing.assert_array_equal(merged.head, same[0])
    assert merged.diagnostics["spread_loss_before"] == 3.0


def test_two_classes_and_five_hundred_clients() -> None:
    embeddings = heads(classes=2, clients=512).astype(np.float32)
    merged = merge_heads(embeddings, np.arange(1, 513))
    assert merged.diagnostics["svm_unsolved"] == 0
    selected = merged.diagnostics["client_selected"]
    assert len(selected) == 512


def test_diagnostics_say_what_the_machine_knows() -> None:
    embeddings = heads(noise=1.5)
    told, machine = merge_heads(embeddings, SAMPLES).diagnostics, fit(embeddings)
    per_class = machine.support_.sum(axis=1)
    assert told["svm_support_mean"] == per_class.mean()
    assert told["svm_support_min"] == per_class.min()
    assert told["svm_support_max"] == per_class.max()
    assert told["svm_margin_mean"] == pytest.approx(machine.margin_.mean())
    assert told["svm_iterations_max"] == machine.n_iter_.max()
    assert told["client_selected"] == machine.support_.mean(axis=0).tolist()
    assert told["client_slack"] == pytest.approx(machine.slack_.mean(axis=0).tolist())
    phases = {name for name in told if name.startswith("seconds_")}
    assert phases == {f"seconds_head_{phase}" for phase in ("check", "gram", "solve", "select", "spread")}


def test_an_early_stop_is_told() -> None:
    assert merge_heads(heads(noise=2.0), SAMPLES, max_iter=1).diagnostics["svm_unsolved"] > 0


def test_hopeless_problems_are_given_up() -> None:
    told = merge_heads(heads(classes=2, clients=20, size=3, noise=3.0), np.ones(20), cost=1e6).diagnostics
    assert told["svm_unsolved"] == 1
    assert told["svm_iterations_max"] == 100_000


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"samples": [1, 2]}, r"shape \(2,\) for 6 clients"),
        ({"samples": [1, 2, -3, 4, 5, 6]}, "Client 2 has -3 samples"),
        ({"samples": [1, 2, 3, 4, float("nan"), 6]}, "Client 4 has nan samples"),
        ({"samples": [0] * 6}, "No client has any samples"),
        ({"samples": ["a"] * 6}, "sample counts must be numbers"),
        ({"samples": np.ones(6, complex)}, "sample counts are complex"),
        ({"samples": None}, "sample counts must be numbers"),
        ({"heads": heads()[:0], "samples": []}, "at least 1 client"),
        ({"heads": heads()[:, :1]}, "at least 2 classes"),
        ({"heads": [*heads()[:5], heads()[5][:, :3]]}, "Client 5 has a head of shape"),
        ({"rounds": 0}, "rounds is 0"),
        ({"kernal": "rbf"}, "Unknown option 'kernal' of merge_heads;.*Did you mean 'kernel'"),
        ({"scheme": "all"}, "Unknown scheme"),
        ({"cost": "falling"}, "Unknown cost schedule 'falling'"),
        ({"cost": []}, "empty list"),
        ({"cost": [1.0, 0.0]}, "cost is 0.0"),
        ({"cost": -1.0}, "cost is -1.0"),
        ({"classes": 1}, "classes is 1"),
        ({"classes": 1.5}, "classes is 1.5"),
        ({"classes": True}, "classes is True"),
        ({"classes": "3"}, "classes is '3'"),
        ({"cost": None}, "cost is None"),
        ({"cost": True}, "cost is True"),
        ({"cost": [1.0, "a"]}, "cost is 'a'"),
        ({"cost": b"x"}, "cost is b'x'"),
        ({"selection": "no"}, "selection is 'no'"),
        ({"spread_out": 2}, "spread_out is 2"),
        ({"steps": 2.0}, "steps is 2.0"),
        ({"beta1": "x"}, "beta1 is 'x'"),
        ({"eps": None}, "eps is None"),
        ({"b": float("nan")}, "b is nan"),
        ({"rounds": 2.5}, "rounds is 2.5"),
        ({"rounds": None}, "rounds is None"),
        ({"seed": "a"}, "seed is 'a'"),
        ({"state": {}}, "state is a dict"),
        ({"state": HeadState(-5, {})}, "round is -5"),
        ({"state": HeadState(1, None)}, "state of an earlier result|`state` of"),  # type: ignore[arg-type]
        ({"steps": 0}, "steps is 0"),
        ({"optimiser": "rmsprop"}, "Unknown optimiser"),
        ({"learning_rate": -1.0}, "learning_rate is -1.0"),
        ({"tol": -1.0}, "tol is -1.0"),
    ],
)
def test_what_cannot_be_merged_is_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(TurboSVMError, match=message):
        merge_heads(**{"heads": heads(), "samples": SAMPLES, **change})


def test_numbers_that_are_not_finite_are_named() -> None:
    embeddings = heads()
    embeddings[4, 3, 0] = np.nan
    with pytest.raises(TurboSVMError, match="class 3 from client 4"):
        merge_heads(embeddings, SAMPLES)


def test_numpys_numbers_are_numbers() -> None:
    plain = merge_heads(heads(), SAMPLES, classes=3, cost=0.5, steps=2, degree=2, max_iter=90)
    whole: dict[str, Any] = {"classes": 3, "steps": 2, "degree": 2, "max_iter": 90}
    numpy: dict[str, Any] = {name: np.int64(value) for name, value in whole.items()}
    np.testing.assert_array_equal(plain.head, merge_heads(heads(), SAMPLES, cost=np.float64(0.5), **numpy).head)


def test_the_client_without_samples_does_not_shift_the_names() -> None:
    embeddings = heads()
    embeddings[3, 1, 0] = np.nan
    with pytest.raises(TurboSVMError, match="class 1 from client 3"):
        merge_heads(embeddings, [0, 1, 1, 1, 1, 1])


@pytest.mark.parametrize("samples", [[1e-320, 1e10], [1e-200, 1e200], [1e308, 1e308]])
def test_sample_counts_of_any_size_give_finite_heads(samples: list[float]) -> None:
    merged = merge_heads(WORKED, samples, spread_out=False)
    np.testing.assert_allclose(merged.head, [[2, 0], [0, 0], [0, 2]], atol=1e-12)


@pytest.mark.parametrize("change", [{"first": np.nan}, {"second": -1.0}, {"first": np.inf}])
def test_a_step_to_nowhere_is_refused(change: dict[str, float]) -> None:
    state = merge_heads(heads(), SAMPLES).state
    for name, value in change.items():
        state.moments[name][2, 1] = value
    with pytest.raises(TurboSVMError, match=r"led to numbers that are not finite.*moments in the state"):
        merge_heads(heads(), SAMPLES, state)


def test_moments_must_be_floating_point() -> None:
    state = merge_heads(heads(), SAMPLES).state
    whole = HeadState(1, {name: value.astype(np.int64) for name, value in state.moments.items()})
    with pytest.raises(TurboSVMError, match="all floating-point"):
        merge_heads(heads(), SAMPLES, whole)


def test_a_class_amid_the_others_has_no_normal_of_its_own_in_one_vs_rest() -> None:
    """Its best hyperplane is none (h = 0): what the solver leaves of it is noise, and must not push."""
    rng = np.random.default_rng(0)
    centres = np.array([[1.0, 0], [-1, 0], [0, 1], [0, -1], [0, 0]]) * 2
    embeddings = centres + 0.2 * rng.normal(size=(6, 5, 2))
    options: dict[str, Any] = {"scheme": "ovr", "optimiser": "sgd", "learning_rate": 1.0, "selection": False}
    rough, exact = (merge_heads(embeddings, np.ones(6), tol=tol, **options) for tol in (1e-3, 1e-9))
    turned = merge_heads(embeddings[::-1], np.ones(6), **options)
    np.testing.assert_allclose(rough.head, exact.head, atol=5e-3)
    np.testing.assert_allclose(rough.head, turned.head, atol=5e-3)
    assert rough.diagnostics["svm_margin_max"] < 100


def test_float32_near_its_resolution_is_done_in_float64() -> None:
    rng = np.random.default_rng(0)
    embeddings = rng.normal(size=(5, 2, 6))
    embeddings[:, 1] = embeddings[:, 0] + 1e-3 * rng.normal(size=(5, 6))
    embeddings = embeddings.astype(np.float32)
    coarse, fine = merge_heads(embeddings, np.ones(5)), merge_heads(embeddings.astype(np.float64), np.ones(5))
    assert coarse.head.dtype == np.float32
    np.testing.assert_allclose(coarse.head, fine.head, atol=1e-4)
    plain = merge_heads(embeddings, np.ones(5), spread_out=False).head
    assert np.abs(coarse.head - plain).max() > 0.005


def test_identical_classes_in_float32_do_not_move_apart() -> None:
    embeddings = heads(classes=3).astype(np.float32)
    embeddings[:, 1] = embeddings[:, 0]
    merged = merge_heads(embeddings, SAMPLES, optimiser="sgd", learning_rate=1.0)
    np.testing.assert_allclose(merged.head[0], merged.head[1], atol=1e-6)
    assert 1 <= merged.diagnostics["spread_loss_before"] < 3
    assert merged.diagnostics["svm_margin_max"] < 100


def test_the_defaults_are_the_papers() -> None:
    options = HeadOptions()
    assert (options.optimiser, options.eps, options.beta1, options.beta2) == ("adam", 1e-5, 0.9, 0.999)
    assert (options.kernel, options.scheme, options.cost) == ("linear", "ovo", "decreasing")
    assert (options.steps, options.tol, options.max_iter) == (1, 1e-3, 100_000)


def test_inside_autocast_it_is_the_same() -> None:
    embeddings = heads().astype(np.float32)
    expected = merge_heads(embeddings, SAMPLES).head
    with torch.autocast("cpu", dtype=torch.bfloat16):
        np.testing.assert_array_equal(merge_heads(embeddings, SAMPLES).head, expected)


def test_a_state_of_another_head_or_optimiser_is_refused() -> None:
    state = merge_heads(heads(), SAMPLES).state
    with pytest.raises(TurboSVMError, match=r"first \(5, 4\).*sgd on these heads has steps \(5, 1\)"):
        merge_heads(heads(), SAMPLES, state, optimiser="sgd")
    with pytest.raises(TurboSVMError, match="A state belongs to one head and one kind of optimiser"):
        merge_heads(heads(classes=6), SAMPLES, state)
    assert merge_heads(heads(), SAMPLES, HeadState(4, {})).state.round == 5


def test_it_needs_no_other_part_of_the_framework() -> None:
    code = (
        "import sys, numpy, turbosvm\n"
        "turbosvm.merge_heads(numpy.random.default_rng(0).normal(size=(3, 4, 5)), [1, 2, 3])\n"
        "print(sorted({'.'.join(n.split('.')[:2]) for n in sys.modules if n.startswith('turbosvm.')}))\n"
        "print([n for n in ('pandas', 'pydantic', 'rich', 'typer', 'matplotlib') if n in sys.modules])"
    )
    parts, libraries = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.splitlines()
    own = (
        "averaging",
        "averaging_cuda",
        "blocks",
        "errors",
        "heads",
        "optimisers",
        "randomness",
        "stopwatch",
        "svm",
        "transfer",
        "values",
        "version",
        "visible",
        "workers",
    )
    assert parts == str([f"turbosvm.{name}" for name in own])
    assert libraries == "[]"


def test_it_is_found_from_the_package() -> None:
    assert turbosvm.merge_heads is merge_heads
