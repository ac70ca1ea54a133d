"""The solver against scikit-learn, the fitted machine's attributes, and what cannot be fitted."""

from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sklearn.svm import SVC

import turbosvm
from tests.svm.against_sklearn import FLAVOURS, PATIENCE, Array, Draw, Pair, pair_coefficients
from turbosvm.errors import TurboSVMError
from turbosvm.svm import fit, gram, solver
from turbosvm.svm.precision import full_precision

DRAWS = st.builds(
    Draw,
    classes=st.integers(2, 12),
    clients=st.integers(1, 40),
    size=st.integers(2, 300),
    cost=st.floats(-2, 2).map(lambda power: 10**power),
    flavour=st.sampled_from(FLAVOURS),
    seed=st.integers(0, 2**32 - 1),
)


def heads(classes: int = 4, clients: int = 6, size: int = 5, seed: int = 0, noise: float = 0.5) -> Array:
    rng = np.random.default_rng(seed)
    return rng.normal(size=(classes, size)) + noise * rng.normal(size=(clients, classes, size))


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_agrees_with_scikit_learn_on_random_problems(dtype: type) -> None:
    """Two solvers that stop at the same tol: equal objectives, and equal support sets wherever those are determined."""
    tol, tally = 1e-3, Counter[str]()

    @settings(max_examples=600, deadline=None, suppress_health_check=list(HealthCheck))
    @given(draw=DRAWS)
    def holds(draw: Draw) -> None:
        embeddings: Array = draw.embeddings().astype(dtype)
        machine = fit(embeddings, cost=draw.cost, tol=tol)
        theirs, solved = pair_coefficients(embeddings, draw.cost, tol)
        assert machine.converged_.all()
        tally["problems"] += 1
        tally["only ours solved"] += int((~solved).sum())
        for (k, m), mine, reference in zip(
            machine.pairs_[solved], machine.dual_coef_[solved], theirs[solved], strict=True
        ):
            pair = Pair(embeddings, k, m, draw.cost)
            assert pair.violation(mine) <= tol * (1.01 if dtype is np.float32 else 1 + 1e-6)
            assert mine.sum() == pytest.approx(0, abs=1e-5 * draw.cost * draw.clients)
            apart = abs(pair.objective(mine) - pair.objective(reference)) / abs(pair.objective(reference))
            assert apart < 1.5e-3  # what two solutions may be apart that both hold to tol
            tally["pairs"] += 1
            tally["objectives apart"] += apart > 1e-4
            swapped = (mine != 0) != (reference != 0)
            settled = np.maximum(np.abs(mine), np.abs(reference)) > tol
            off_margin = np.minimum(pair.distance_from_margin(mine), pair.distance_from_margin(reference)) > tol
            assert not (swapped & settled & off_margin).any()

    holds()
    assert tally["problems"] >= 600
    assert tally["objectives apart"] <= 1e-3 * tally["pairs"]
    assert tally["only ours solved"] <= 1e-3 * tally["pairs"]


@pytest.mark.parametrize("seed", range(20))
def test_solved_to_a_small_tol_there_is_one_answer(seed: int) -> None:
    draw = Draw(classes=5, clients=12, size=40, cost=1.0, flavour="plain", seed=seed)
    embeddings = draw.embeddings()
    mine, (theirs, solved) = fit(embeddings, tol=1e-7).dual_coef_, pair_coefficients(embeddings, 1.0, 1e-7)
    assert solved.all()
    np.testing.assert_allclose(mine, theirs, atol=1e-4)
    settled = np.maximum(np.abs(mine), np.abs(theirs)) > 1e-4
    assert ((mine != 0) == (theirs != 0))[settled].all()


KERNELS: list[dict[str, Any]] = [
    {"kernel": "linear"},
    {"kernel": "poly", "degree": 2},
    {"kernel": "poly", "degree": 3, "a": 0.5, "b": 2.0},
    {"kernel": "poly", "degree": 4},
    {"kernel": "rbf", "a": 0.3},
    {"kernel": "sigmoid", "a": 0.2, "b": -0.5},
]


@pytest.mark.parametrize("options", KERNELS, ids=str)
@pytest.mark.parametrize("scheme", ["ovo", "ovr"])
def test_every_kernel_and_scheme_decides_as_scikit_learn(options: dict[str, Any], scheme: Any) -> None:
    embeddings, points = heads(classes=5, clients=8), np.random.default_rng(1).normal(size=(70, 5))
    machine = fit(embeddings, cost=2.0, scheme=scheme, tol=1e-6, **options)
    rows = embeddings.transpose(1, 0, 2).reshape(-1, 5)
    names = {"kernel": "kernel", "degree": "degree", "a": "gamma", "b": "coef0"}
    theirs = {"gamma": 1.0, "coef0": 1.0} | {names[name]: value for name, value in options.items()}
    labels = np.repeat(np.arange(5), 8)
    support = np.zeros((5, 8), bool)
    if scheme == "ovo":
        oracle = SVC(C=2.0, tol=1e-6, max_iter=PATIENCE, decision_function_shape="ovo", **theirs).fit(rows, labels)
        support.reshape(-1)[oracle.support_] = True
        decisions = oracle.decision_function(points)
        np.testing.assert_allclose(machine.intercept_, oracle.intercept_, atol=2e-5)
    else:
        oracles = [SVC(C=2.0, tol=1e-6, max_iter=PATIENCE, **theirs).fit(rows, labels == label) for label in range(5)]
        for oracle in oracles:
            support.reshape(-1)[oracle.support_] = True
        decisions = np.stack([oracle.decision_function(points) for oracle in oracles], axis=1)
    np.testing.assert_allclose(machine.decision(points), decisions, atol=1e-4)
    np.testing.assert_array_equal(machine.support_, support)


def test_the_hyperplane_of_two_classes_by_hand() -> None:
    """(2, 0) and (0, 0) are nearest: the normal is (1, 0), half way between them is x = 1, the margin is 2 wide."""
    machine = fit(np.array([[[2.0, 0.0], [0.0, 0.0]], [[4.0, 1.0], [-1.0, -1.0]]]))
    np.testing.assert_allclose(machine.hyperplanes(), [[1.0, 0.0]], atol=1e-12)
    np.testing.assert_allclose(machine.intercept_, [-1.0], atol=1e-12)
    np.testing.assert_allclose(machine.dual_coef_, [[[0.5, 0.0], [-0.5, 0.0]]], atol=1e-12)
    np.testing.assert_allclose(machine.margin_, [2.0])
    assert machine.support_.tolist() == [[True, False], [True, False]]
    assert machine.pairs_.tolist() == [[0, 1]]
    assert machine.n_iter_.shape == (1,)
    assert machine.n_iter_[0] >= 1
    np.testing.assert_allclose(machine.decision(np.array([[3.0, 7.0], [1.0, 0.0]])), [[2.0], [0.0]], atol=1e-12)


def test_slack_is_what_the_decision_lacks_to_its_margin() -> None:
    embeddings = heads(noise=2.0)
    machine = fit(embeddings, cost=0.3)
    expected = np.zeros((4, 6))
    for p, (k, m) in enumerate(machine.pairs_):
        expected[k] += np.maximum(0, 1 - machine.decision(embeddings[:, k])[:, p])
        expected[m] += np.maximum(0, 1 + machine.decision(embeddings[:, m])[:, p])
    np.testing.assert_allclose(machine.slack_, expected / 3, atol=1e-10)
    assert expected.max() > 0.1


def test_slack_of_one_vs_rest_is_a_mean_over_all_problems() -> None:
    embeddings = heads(noise=2.0)
    machine = fit(embeddings, cost=0.3, scheme="ovr")
    decisions = np.stack([machine.decision(embeddings[:, k]) for k in range(4)])  # class, client, problem
    signs = np.where(np.arange(4)[:, None] == np.arange(4), 1, -1)[:, None]
    np.testing.assert_allclose(machine.slack_, np.maximum(0, 1 - signs * decisions).mean(axis=2), atol=1e-10)
    assert machine.pairs_.tolist() == [[0, -1], [1, -1], [2, -1], [3, -1]]
    np.testing.assert_allclose(machine.hyperplanes() @ embeddings[0].T + machine.intercept_[:, None], decisions[:, 0].T)


def test_hyperplanes_and_intercepts_are_those_of_the_embeddings_as_given() -> None:
    embeddings = heads() + 100.0  # far from the origin: centring must not show
    machine = fit(embeddings)
    points = heads(seed=1)[:, 0] + 100.0
    np.testing.assert_allclose(points @ machine.hyperplanes().T + machine.intercept_, machine.decision(points))


def test_numpy_and_torch_get_their_own_kind_back() -> None:
    embeddings = heads().astype(np.float32)
    array, tensor = fit(embeddings), fit(torch.from_numpy(embeddings))
    for name in ("support_", "dual_coef_", "pairs_", "intercept_", "n_iter_", "slack_", "margin_", "converged_"):
        assert isinstance(getattr(array, name), np.ndarray)
        assert isinstance(getattr(tensor, name), torch.Tensor)
        np.testing.assert_array_equal(getattr(array, name), getattr(tensor, name))
    listed = fit([torch.from_numpy(head) for head in embeddings])
    assert torch.equal(listed.dual_coef_, tensor.dual_coef_)
    assert array.support_.dtype == bool
    assert array.dual_coef_.dtype == np.float32


def test_strips_and_threads_do_not_change_the_solution(monkeypatch: pytest.MonkeyPatch) -> None:
    embeddings = heads(classes=9, clients=4)
    whole = fit(embeddings, tol=1e-10)
    monkeypatch.setitem(gram.STRIP_BYTES, "cpu", 2 * 4 * 9 * 4 * 8)  # two classes a strip
    monkeypatch.setitem(gram.LEAST_STAIR, "cpu", 4)
    strips = fit(embeddings, tol=1e-10)
    assert len(strips.samples.strips()) == 5
    np.testing.assert_allclose(strips.dual_coef_, whole.dual_coef_, atol=1e-8)
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        one = fit(embeddings)
        torch.set_num_threads(3)
        monkeypatch.setattr(solver, "LEAST_PER_THREAD", 1)
        three = fit(embeddings)
    finally:
        torch.set_num_threads(threads)
    np.testing.assert_array_equal(one.dual_coef_, three.dual_coef_)


def test_float32_is_left_for_float64_where_its_rounding_would_be_felt() -> None:
    easy, hard = heads().astype(np.float32), (heads(noise=1.0) * 1e3).astype(np.float32)
    assert fit(easy).samples.rows.dtype is torch.float32
    machine = fit(hard, cost=1.0)
    assert machine.samples.rows.dtype is torch.float64
    for (k, m), coefficients in zip(machine.pairs_, machine.dual_coef_, strict=True):
        assert Pair(hard, k, m, 1.0).violation(coefficients) <= 1.0001e-3


MATMULS: list[Any] = [torch.backends.cuda.matmul, torch.backends.mkldnn.matmul]  # type: ignore[attr-defined]


@pytest.fixture
def _rounding_is_allowed() -> Iterator[None]:
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("medium")
    yield
    torch.set_float32_matmul_precision(before)


@pytest.mark.usefixtures("_rounding_is_allowed")
def test_products_are_never_rounded_to_less_than_float32() -> None:
    assert [matmul.fp32_precision for matmul in MATMULS] == ["tf32", "bf16"]
    with full_precision(), full_precision():
        assert [matmul.fp32_precision for matmul in MATMULS] == ["ieee", "ieee"]
    assert torch.get_float32_matmul_precision() == "medium"
    embeddings = heads(classes=8, clients=16, size=256).astype(np.float32)
    expected = fit(embeddings).dual_coef_
    with torch.autocast("cpu", dtype=torch.bfloat16):
        np.testing.assert_array_equal(fit(embeddings).dual_coef_, expected)
        assert torch.is_autocast_enabled("cpu")


@pytest.mark.usefixtures("_rounding_is_allowed")
def test_several_threads_may_fit_at_once_and_leave_the_settings_as_they_were() -> None:
    embeddings = [heads(seed=seed).astype(np.float32) for seed in range(24)]
    expected = [fit(one).dual_coef_ for one in embeddings]
    with ThreadPoolExecutor(4) as pool:
        for mine, alone in zip(pool.map(fit, embeddings), expected, strict=True):
            np.testing.assert_array_equal(mine.dual_coef_, alone)
    assert [matmul.fp32_precision for matmul in MATMULS] == ["tf32", "bf16"]


def test_far_from_the_origin_float32_is_as_good_as_at_it() -> None:
    embeddings = heads().astype(np.float32)
    shifted = embeddings + np.float32(64.0)
    far, near = fit(shifted, tol=1e-4), fit(shifted - np.float32(64.0), tol=1e-4)
    assert far.samples.rows.dtype is near.samples.rows.dtype is torch.float32
    np.testing.assert_allclose(far.dual_coef_, near.dual_coef_, atol=1e-3)


def test_one_client() -> None:
    machine = fit(heads(clients=1), cost=100.0)
    assert machine.support_.all()
    distances = np.linalg.norm(machine.hyperplanes(), axis=1)
    rows = heads(clients=1)[0]
    expected = [2 / np.linalg.norm(rows[k] - rows[m]) for k, m in machine.pairs_]
    np.testing.assert_allclose(distances, expected, rtol=1e-6)


def test_identical_clients_and_identical_classes() -> None:
    same = np.repeat(heads(clients=1), 5, axis=0)
    same[:, 1] = same[:, 0]  # classes 0 and 1 cannot be told apart
    machine = fit(same)
    assert machine.converged_.all()
    assert np.isfinite(machine.hyperplanes()).all()
    np.testing.assert_allclose(machine.hyperplanes()[0], 0, atol=1e-12)
    np.testing.assert_allclose(machine.slack_[0], machine.slack_[1])


def test_five_hundred_clients() -> None:
    embeddings = heads(classes=3, clients=512, size=20).astype(np.float32)
    machine = fit(embeddings)
    assert machine.converged_.all()
    for (k, m), coefficients in zip(machine.pairs_, machine.dual_coef_, strict=True):
        assert Pair(embeddings, k, m, 1.0).violation(coefficients) <= 1.01e-3


def test_max_iter_stops_early_and_says_so() -> None:
    machine = fit(heads(noise=2.0), max_iter=2)
    assert machine.n_iter_.max() == 2
    assert not machine.converged_.all()


def test_every_layout_of_an_array_is_fine() -> None:
    embeddings = heads()
    expected = fit(embeddings, cost=np.float64(1)).dual_coef_
    read_only = embeddings.copy()
    read_only.setflags(write=False)
    for same in (read_only, np.asfortranarray(embeddings), embeddings[::-1][::-1], embeddings.astype(">f8")):
        np.testing.assert_array_equal(fit(same).dual_coef_, expected)
    np.testing.assert_array_equal(fit(head for head in embeddings).dual_coef_, expected)
    assert isinstance(fit(iter([torch.eye(2)])).dual_coef_, torch.Tensor)


def test_it_is_found_from_the_package() -> None:
    assert turbosvm.svm.fit is fit


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda x: x[:, :1], r"at least 2 classes"),
        (lambda x: x[:0], r"at least 1 client"),
        (lambda x: x[..., :0], r"at least 1 number"),
        (lambda x: x[0], r"shape \(4, 5\); expected three axes"),
        (lambda x: x.astype(int), r"int64; expected floating-point"),
        (lambda x: x.astype(str), r"must be numbers"),
        (lambda x: [], r"no clients"),
        (lambda x: None, r"NoneType; expected an array"),
        (lambda x: 3.0, r"float; expected an array"),
        (lambda x: {"a": x[0]}, r"dict; expected an array"),
        (lambda x: torch.from_numpy(x).to_sparse(), r"torch.sparse_coo tensor"),
        (lambda x: torch.from_numpy(x).to("meta"), r"tensor on 'meta'"),
        (lambda x: torch.from_numpy(x).to(torch.complex64), r"complex64; expected floating-point"),
        (lambda x: torch.from_numpy(x).to(torch.float8_e4m3fn), r"float8"),
        (lambda x: x.astype(object), r"must be numbers"),
        (lambda x: [x[0], x[1].astype(np.float32)], r"client 1 is torch.float32.*client 0 torch.float64"),
        (lambda x: [x[0], x[1][:3]], r"Client 1 has a head of shape \(3, 5\), client 0 of \(4, 5\)"),
    ],
)
def test_what_cannot_be_fitted_is_refused(change: Any, message: str) -> None:
    with pytest.raises(TurboSVMError, match=message):
        fit(change(heads()))


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_numbers_that_are_not_finite_are_named(bad: float) -> None:
    embeddings = heads()
    embeddings[3, 2, 1] = bad
    with pytest.raises(TurboSVMError, match=r"class 2 from client 3 has a number that is not finite\."):
        fit(embeddings)
    embeddings[5, 0, 0] = bad
    with pytest.raises(TurboSVMError, match=r"\(2 embeddings in all\)"):
        fit(embeddings)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"cost": 0}, "cost is 0"),
        ({"cost": np.inf}, "cost is inf"),
        ({"tol": 0.0}, "tol is 0.0"),
        ({"max_iter": 0}, "max_iter is 0"),
        ({"kernel": "polynomial"}, "Unknown kernel 'polynomial'.*Did you mean 'poly'"),
        ({"scheme": "one"}, "Unknown scheme 'one'; allowed: ovo, ovr"),
        ({"kernel": "poly", "degree": 0}, "degree is 0"),
        ({"kernel": None}, "Unknown kernel 'None'"),
        ({"cost": "1"}, "cost is '1'"),
        ({"cost": True}, "cost is True"),
        ({"cost": np.array([1.0, 2.0])}, r"cost is array\(\[1., 2.\]\)"),
        ({"tol": None}, "tol is None"),
        ({"max_iter": 2.5}, "max_iter is 2.5"),
        ({"max_iter": 2**70}, "max_iter is 1180591620717411303424"),
        ({"kernel": "rbf", "a": -1.0}, "a is -1.0; it must be greater than 0"),
    ],
)
def test_options_out_of_range_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(TurboSVMError, match=message):
        fit(heads(), **options)


def test_a_kernel_that_overflows_is_refused() -> None:
    for scale, degree in ((1e100, 4), (1e52, 3), (1e78, 2)):
        with pytest.raises(TurboSVMError, match="poly kernel of these embeddings overflows"):
            fit(heads() * scale, kernel="poly", degree=degree)
    in_float32 = fit((heads() * 1e5).astype(np.float32), kernel="poly", degree=4, max_iter=50)
    assert np.isfinite(in_float32.dual_coef_).all()
    assert in_float32.samples.rows.dtype is torch.float64


def test_only_the_linear_kernel_has_hyperplanes_and_points_must_fit() -> None:
    with pytest.raises(TurboSVMError, match="rbf kernel are not vectors"):
        fit(heads(), kernel="rbf").hyperplanes()
    with pytest.raises(TurboSVMError, match=r"shape \(2, 3\); expected \[points, 5\]"):
        fit(heads()).decision(np.zeros((2, 3)))
