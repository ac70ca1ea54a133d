from typing import Any

import pytest

from tests.report.makers import config_of
from turbosvm.experiment.presets import PRESETS
from turbosvm.report.paper import PaperFigure, paper_figure, paper_figure_of, paper_target


@pytest.mark.parametrize(
    ("where", "figure"),
    [
        (("femnist", "fedavg", "rounds", 8, 1), PaperFigure(144.4, 4.6)),
        (("femnist", "turbosvm", "accuracy", 8, 1), PaperFigure(76.6, 1.0)),
        (("celeba", "fedadam", "rounds", 8, 1), PaperFigure(None, None, 200)),
        (("celeba", "fedams", "rounds", 32, 1), PaperFigure(None, None, 200)),
        (("shakespeare", "fedprox", "rounds", 16, 1), PaperFigure(137)),
        (("femnist", "moon", "accuracy", 32, 1), PaperFigure(61.96)),
        (("celeba", "turbosvm", "macro_f1", 8, 4), PaperFigure(81.4)),
        (("shakespeare", "fedaws", "mcc", 8, 2), PaperFigure(49.9)),
        (("femnist", "fedavg", "rounds", 8, 2), None),
        (("femnist", "fedavg", "accuracy", 16, 2), None),
        (("femnist", "fedavgm", "accuracy", 8, 1), None),
        (("glyphs", "fedavg", "accuracy", 8, 1), None),
    ],
)
def test_figures_are_found_by_what_was_run(where: tuple[str, str, str, int, int], figure: PaperFigure | None) -> None:
    assert paper_figure(*where) == figure


def test_figures_as_text() -> None:
    assert [str(PaperFigure(144.4, 4.6)), str(PaperFigure(137)), str(PaperFigure(None, None, 200))] == [
        "144.4 ± 4.6",
        "137.0",
        ">200",
    ]


@pytest.mark.parametrize("data", ["femnist", "celeba", "shakespeare"])
def test_targets_are_those_of_the_presets(data: str) -> None:
    assert paper_target(data) == PRESETS[data]["target"]


def test_only_what_the_paper_ran_stands_beside_it() -> None:
    def figure(metric: str = "accuracy", **changes: Any) -> PaperFigure | None:
        config = config_of("turbosvm", "/somewhere/femnist", 0, **{"model__name": "femnist", **changes})
        return paper_figure_of(config, "femnist", metric)

    assert figure() == PaperFigure(76.6, 1.0)
    assert figure("rounds") == PaperFigure(54.6, 1.6)
    assert figure("rounds", target=0.6) is None
    assert figure(target=0.6) == PaperFigure(76.6, 1.0)
    assert figure(clients_per_round=16) == PaperFigure(76.7)
    assert figure(client__epochs=4) == PaperFigure(74.2)
    assert figure(clients_per_round=5) is None
    assert figure(model__name="small") is None
    assert figure(model__options={"embedding": 16}) is None
    assert figure(algorithm__head__kernel="rbf") is None
    assert figure(algorithm__head__selection=False) is None
    assert paper_figure_of({}, "femnist", "accuracy") is None
