from typing import Any

import pytest

from tests.report.makers import config_of
from turbosvm.experiment.presets import PRESETS
from turbosvm.experiment.resolve import resolve_config
from turbosvm.report.paper import PaperFigure, paper_figures_of, paper_target, unlike_the_paper
from turbosvm.report.settings import settings_of


def figures(data: str = "femnist", algorithm: str = "turbosvm", **changes: Any) -> dict[tuple[str, int | None], str]:
    """The paper's figures as text by measure and round, for a config like those that runs save."""
    config = config_of(algorithm, f"/somewhere/{data}", 0, **{"model__name": data, "target": TARGETS[data], **changes})
    return {(figure.measure, figure.at): str(figure) for figure in paper_figures_of(config, data)}


TARGETS = {"femnist": 0.7, "celeba": 0.7, "shakespeare": 0.5, "glyphs": 0.6}
LIKE_FEMNIST = {("rounds", None), ("accuracy", 100), ("macro_f1", 100), ("mcc", 100)}


@pytest.mark.parametrize(
    ("data", "algorithm", "clients", "epochs", "measure", "text"),
    [
        ("femnist", "fedavg", 8, 1, ("rounds", None), "144.4 ± 4.6"),
        ("femnist", "turbosvm", 8, 1, ("accuracy", 100), "76.6 ± 1.0"),
        ("celeba", "fedadam", 8, 1, ("rounds", None), ">200"),
        ("celeba", "fedams", 32, 1, ("rounds", None), ">200"),
        ("shakespeare", "fedprox", 16, 1, ("rounds", None), "137.0"),
        ("femnist", "moon", 32, 1, ("accuracy", 100), "62.0"),
        ("celeba", "turbosvm", 8, 4, ("macro_f1", 100), "81.4"),
        ("shakespeare", "fedaws", 8, 2, ("mcc", 100), "49.9"),
        ("femnist", "fedavg", 8, 2, ("rounds", None), None),
        ("femnist", "fedavg", 16, 2, ("accuracy", 100), None),
        ("femnist", "fedavgm", 8, 1, ("accuracy", 100), None),
        ("glyphs", "fedavg", 8, 1, ("accuracy", 100), None),
    ],
)
def test_figures_are_found_by_what_was_run(
    data: str, algorithm: str, clients: int, epochs: int, measure: tuple[str, int | None], text: str | None
) -> None:
    found = figures(data, algorithm, clients_per_round=clients, client__epochs=epochs)
    assert found.get(measure) == text


def test_figures_as_text() -> None:
    found = [
        PaperFigure("rounds", None, 144.4, 4.6),
        PaperFigure("rounds", None, 137),
        PaperFigure("rounds", None, None, None, 200),
        PaperFigure("loss", 200, 0.5),
    ]
    assert list(map(str, found)) == ["144.4 ± 4.6", "137.0", ">200", "0.50"]


@pytest.mark.parametrize("data", ["femnist", "celeba", "shakespeare"])
def test_targets_are_those_of_the_presets(data: str) -> None:
    assert paper_target(data) == PRESETS[data]["target"]


@pytest.mark.parametrize("data", ["femnist", "celeba", "shakespeare"])
def test_presets_run_the_papers_algorithms_as_the_paper_did(data: str) -> None:
    for algorithm in ("fedavg", "fedadam", "fedaws", "fedprox", "fedams", "moon", "turbosvm"):
        config = resolve_config(data, overrides={"algorithm": algorithm}).model_dump()
        assert unlike_the_paper(settings_of(config), data) == {}
        assert paper_figures_of(config, data)
        faster = settings_of({**config, "client": {**config["client"], "learning_rate": 7.0}})
        assert list(unlike_the_paper(faster, data)) == ["client.learning_rate"]
    turbo = resolve_config(data, overrides={"algorithm": "turbosvm", "turbosvm": {"head": {"learning_rate": 7.0}}})
    assert list(unlike_the_paper(settings_of(turbo.model_dump()), data)) == ["algorithm.head.learning_rate"]


def test_only_what_the_paper_ran_stands_beside_it() -> None:
    assert set(figures()) == LIKE_FEMNIST
    assert set(figures(target=0.6)) == LIKE_FEMNIST - {("rounds", None)}
    assert figures(clients_per_round=16)["accuracy", 100] == "76.7"
    assert figures(client__epochs=4)["accuracy", 100] == "74.2"
    assert paper_figures_of({}, "femnist") == []


@pytest.mark.parametrize(
    "changes",
    [
        {"clients_per_round": 5},
        {"model__name": "small"},
        {"model__options": {"embedding": 17}},
        {"model__options": {"embedding": 16, "more": 1}},
        {"algorithm__head__kernel": "rbf"},  # the paper's kernels are on CelebA
        {"algorithm__head__selection": False},
        {"algorithm__head__spread_out": False},
        {"algorithm__head__scheme": "ovr"},
        {"algorithm__head__cost": "constant"},
        {"algorithm__head__classes": 0.5},
    ],
)
def test_another_method_or_model_stands_beside_nothing(changes: dict[str, Any]) -> None:
    assert figures(**changes) == {}


@pytest.mark.parametrize(
    ("size", "clients", "f1", "vectors"), [(4, 8, "6.1", "8.0"), (1024, 64, "68.3", "37.0"), (16, 512, "43.2", "150.0")]
)
def test_the_table_of_embedding_sizes(size: int, clients: int, f1: str, vectors: str) -> None:
    found = figures(model__options={"embedding": size}, clients_per_round=clients)
    assert found == {("macro_f1", 200): f1, ("svm_support_mean", 200): vectors}
    assert figures(model__options={"embedding": size}, clients_per_round=9) == {}


@pytest.mark.parametrize(
    ("kernel", "degree", "rate", "f1", "loss"),
    [
        ("poly", 2, 0.0001, "78.4", "0.46"),
        ("poly", 4, 0.1, "85.2", "2.43"),
        ("rbf", 3, 0.01, "76.8", "0.51"),
        ("rbf", 3, 0.5, "76.8", "0.51"),  # the paper gives no rate
        ("sigmoid", 3, 0.01, "77.3", "0.50"),
    ],
)
def test_the_table_of_kernels(kernel: str, degree: int, rate: float, f1: str, loss: str) -> None:
    head: dict[str, Any] = {
        "algorithm__head__kernel": kernel,
        "algorithm__head__degree": degree,
        "algorithm__head__learning_rate": rate,
        "algorithm__head__a": 1.0,
        "algorithm__head__b": 1.0,
    }
    assert figures("celeba", **head) == {("macro_f1", 200): f1, ("loss", 200): loss}
    assert figures("celeba", **{**head, "algorithm__head__a": 2.0}) == {}
    if kernel == "poly":
        assert figures("celeba", **{**head, "algorithm__head__learning_rate": 0.5}) == {}


def test_the_linear_kernel_has_figures_of_two_tables() -> None:
    assert figures("celeba") == {
        ("rounds", None): "46.4 ± 9.4",
        ("accuracy", 100): "77.3 ± 1.2",
        ("macro_f1", 100): "77.2 ± 1.3",
        ("mcc", 100): "55.0 ± 2.4",
        ("macro_f1", 200): "82.1",
        ("loss", 200): "0.44",
    }
