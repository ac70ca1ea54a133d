from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.report.makers import config_of, rising, write_run, write_runs
from turbosvm.record_lines import line_of, parse_line
from turbosvm.report.folder import work_out
from turbosvm.report.layout import ablations
from turbosvm.report.pictures import MOST_LINES, draw_ablation, draw_kind, leading
from turbosvm.report.reading import gather
from turbosvm.report.results import Results
from turbosvm.report.series import BY_NAME, KINDS, lines_of


def results(place: Path) -> Results:
    (found,) = work_out(gather([place]))
    return found


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_a_picture_has_a_line_for_each_algorithm(kind: object, tmp_path: Path) -> None:
    found = results(write_runs(tmp_path / "runs", seeds=2, rounds=8))
    figure = draw_kind(found, next(one for one in KINDS if one is kind))
    assert figure is not None
    (panel,) = figure.axes
    labels = [line.get_label() for line in panel.get_lines() if not str(line.get_label()).startswith("_")]
    only = ["turbosvm"] if panel.get_title().startswith("Support") else ["fedavg", "fedadam", "fedavgm", "turbosvm"]
    assert labels == only
    assert len(panel.collections) == len(only)  # a band for each
    assert "(glyphs)" in panel.get_title()


def test_accuracy_against_bytes_and_seconds_counts_all_rounds(tmp_path: Path) -> None:
    write_run(tmp_path / "run", config_of(), [None, 0.2, None, 0.4])
    found = results(tmp_path)
    for name, each in (("accuracy-by-bytes", 2 * 3_580_864), ("accuracy-by-seconds", 0.264)):
        figure = draw_kind(found, BY_NAME[name])
        assert figure is not None
        line = figure.axes[0].get_lines()[0]
        assert np.asarray(line.get_xdata()).tolist() == pytest.approx([2 * each, 4 * each])
        assert np.asarray(line.get_ydata()).tolist() == [0.2, 0.4]


def test_time_spent_compiling_is_no_part_of_accuracy_against_time(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", config_of("turbosvm"), [0.2, 0.4])
    lines = (folder / "records.jsonl").read_text().splitlines()
    records = [parse_line(line.encode()) for line in lines]
    records[0]["seconds_compile"] = 2.5
    (folder / "records.jsonl").write_text("".join(map(line_of, records)))
    figure = draw_kind(results(tmp_path), BY_NAME["accuracy-by-seconds"])
    assert figure is not None
    assert np.asarray(figure.axes[0].get_lines()[0].get_xdata()).tolist() == pytest.approx([0.264, 0.528])


def test_lines_that_lie_on_each_other_can_be_told_apart(tmp_path: Path) -> None:
    for place, algorithm in enumerate(("fedavg", "fedadam", "fedams", "fedaws", "fedprox", "moon", "turbosvm")):
        write_run(tmp_path / f"{place}", config_of(algorithm), [0.1, 0.5])
    figure = draw_kind(results(tmp_path), BY_NAME["accuracy"])
    assert figure is not None
    lines = [line for line in figure.axes[0].get_lines() if not str(line.get_label()).startswith("_")]
    dashes = {str(getattr(line, "_dash_pattern", None)) for line in lines}  # there is no public way to ask
    assert len(dashes) == len({line.get_color() for line in lines}) == len(lines) == 7


def test_gaps_change_nothing_in_the_rounds_that_all_seeds_have(tmp_path: Path) -> None:
    for seed in (0, 1):
        curve = rising("fedavg", seed, rounds=6)
        write_run(tmp_path / "whole" / f"{seed}", config_of(seed=seed), curve)
        write_run(
            tmp_path / "gaps" / f"{seed}", config_of(seed=seed), [*curve[:4], curve[4] if seed else None, curve[5]]
        )
    for kind in KINDS[:5]:
        whole, gaps = (lines_of(results(tmp_path / name).contest.groups, kind)[0][1] for name in ("whole", "gaps"))
        for part in ("x", "mean", "low", "high"):
            one, other = getattr(whole, part), getattr(gaps, part)
            assert np.delete(one, 4).tolist() == pytest.approx(np.delete(other, 4).tolist(), rel=1e-12)
        assert (whole.low < whole.high).all()
        assert gaps.low[4] == gaps.high[4]


def test_what_no_run_has_is_not_drawn(tmp_path: Path) -> None:
    write_run(tmp_path / "run", config_of(), [0.1])
    assert draw_kind(results(tmp_path), BY_NAME["support-vectors"]) is None


def test_of_too_many_groups_each_algorithms_best_are_drawn(tmp_path: Path) -> None:
    for place in range(20):
        config = config_of("turbosvm", client__learning_rate=0.1 + place)
        write_run(tmp_path / f"turbosvm{place}", config, [0.5 + place / 100])
    write_run(tmp_path / "fedavg", config_of("fedavg"), [0.1])
    found = results(tmp_path)
    figure = draw_kind(found, BY_NAME["loss"])
    assert figure is not None
    assert figure.axes[0].get_title() == "Loss on held-out users (glyphs; 14 of 21 rows)"
    labels = [group.label for group in leading(found)]
    assert len(labels) == MOST_LINES
    assert "fedavg" in labels
    assert "turbosvm client.learning_rate=19.1" in labels
    assert "turbosvm client.learning_rate=0.1" not in labels


def test_names_are_not_formulas(tmp_path: Path) -> None:
    write_run(tmp_path / "run", config_of("$bad$", data="$x_$"), [0.1, 0.2])
    figure = draw_kind(results(tmp_path), BY_NAME["accuracy"])
    assert figure is not None
    figure.draw_without_rendering()
    assert figure.axes[0].get_title().endswith(r"(\$x_\$)")


def test_the_ablation_shows_each_combination(tmp_path: Path) -> None:
    for selection in (True, False):
        for spread_out in (True, False):
            changes: dict[str, Any] = {
                "algorithm__head__selection": selection,
                "algorithm__head__spread_out": spread_out,
            }
            for seed in (0, 1):
                folder = tmp_path / f"{selection}-{spread_out}-{seed}"
                write_run(folder, config_of("turbosvm", seed=seed, **changes), rising("turbosvm", seed, 10))
    found = results(tmp_path)
    ((name, family),) = ablations(found)
    left, right = draw_ablation(found, name, family).axes
    words = ["neither", "spread-out only", "selection only", "both"]
    assert [line.get_label() for line in left.get_lines()][:4] == words
    assert [label.get_text() for label in right.get_yticklabels()] == words
    assert len(right.patches) == 4
