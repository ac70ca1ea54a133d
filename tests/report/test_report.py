import math
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

from turbosvm.errors import TurboSVMError
from turbosvm.report.curves import draw_curves, save_figure
from turbosvm.report.records import RunRecords, read_run
from turbosvm.report.tables import markdown, summary


def run(algorithm: str, seed: int, accuracies: list[float], target: float = 0.7) -> RunRecords:
    frame = pd.DataFrame(
        {
            "round": range(1, len(accuracies) + 1),
            "accuracy": accuracies,
            "macro_f1": [value / 2 for value in accuracies],
            "mcc": [value - 0.1 for value in accuracies],
            "loss": [1 - value for value in accuracies],
            "auc": accuracies,
        }
    )
    return RunRecords(algorithm, "blobs", seed, target, frame)


RUNS = [
    run("fedavg", 0, [0.1, 0.5, 0.8]),
    run("fedavg", 1, [0.1, 0.75, 0.9]),
    run("slow", 0, [0.1, 0.2, 0.3]),
    run("slow", 1, [0.1, 0.2, 0.7]),
]


def test_mean_and_spread_over_seeds_and_censoring() -> None:
    table = summary(RUNS).set_index("algorithm")
    assert table.loc["fedavg", "rounds to 70%"] == "2.5 ± 0.7"
    assert table.loc["slow", "rounds to 70%"] == ">3"  # one seed did not get there
    assert table.loc["fedavg", "accuracy %"] == "85.0 ± 7.1"
    assert table.loc["fedavg", "macro F1 %"] == "42.5 ± 3.5"
    assert table.loc["fedavg", "MCC %"] == "75.0 ± 7.1"
    assert table["seeds"].tolist() == ["2", "2"]


def test_one_seed_has_no_spread() -> None:
    table = summary(RUNS[:1])
    assert table["rounds to 70%"].tolist() == ["3"]
    assert table["accuracy %"].tolist() == ["80.0"]


def test_rounds_not_evaluated_are_passed_over() -> None:
    gaps = run("fedavg", 0, [math.nan, 0.75, math.nan])
    assert str(gaps.rounds_to()) == "2"
    assert gaps.final["round"] == 2
    assert str(gaps.rounds_to(0.9)) == ">2"


def test_a_run_without_records_is_left_out() -> None:
    empty = RunRecords("fedavg", "blobs", 0, 0.7, pd.DataFrame())
    assert empty.final == {}
    assert summary([empty]).empty


def test_a_target_is_named_exactly() -> None:
    assert "rounds to 62.5%" in summary([run("fedavg", 0, [0.1, 0.9], target=0.625)])


def test_a_diverged_run_has_numbers_all_the_same() -> None:
    config = {"algorithm": {"name": "fedavg"}, "data": {"name": "(own) blobs"}, "seed": 0, "target": 0.7}
    frame = pd.DataFrame([{"round": 1, "accuracy": 0.0, "macro_f1": 0.0, "mcc": 0.0, "loss": None, "auc": None}])
    records = RunRecords.from_config(config, frame)
    assert records.diverged
    assert math.isnan(records.final["loss"])
    assert records.data == "blobs"
    assert not RUNS[0].diverged


def test_pictures_have_the_kind_of_their_ending(tmp_path: Path) -> None:
    save_figure(draw_curves(RUNS), tmp_path / "curves.svg")
    assert "<svg" in (tmp_path / "curves.svg").read_text()
    with pytest.raises(TurboSVMError, match=r"Unknown picture format 'foo'; allowed: .*png"):
        save_figure(draw_curves(RUNS), tmp_path / "curves.foo")


def test_markdown() -> None:
    assert markdown(pd.DataFrame([{"a": "1", "b": "x"}])) == "| a | b |\n| --- | --- |\n| 1 | x |\n"


def test_curves_show_each_algorithm_once_with_the_mean_over_seeds() -> None:
    figure = draw_curves(RUNS)
    accuracy, loss = figure.axes
    lines = {line.get_label(): line for line in accuracy.get_lines()}
    assert {"fedavg", "slow"} <= set(lines)
    assert list(lines["fedavg"].get_ydata()) == pytest.approx([0.1, 0.625, 0.85])  # type: ignore[arg-type]
    assert len(accuracy.collections) == 2  # a band for each
    assert len(loss.get_lines()) == 2
    assert any("target 70%" in text.get_text() for text in accuracy.texts)


def test_a_folder_that_is_no_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TurboSVMError, match="cannot be reported on"):
        read_run(tmp_path)


def test_reports_need_no_torch() -> None:
    code = "import sys, turbosvm.report.tables, turbosvm.report.curves; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_runs_that_ended_early_can_be_seen_in_the_table() -> None:
    whole, short = run("fedavg", 0, [0.1, 0.9, 0.9]), run("fedavg", 1, [0.1, 0.2])
    empty = RunRecords("fedavg", "glyphs", 2, 0.7, pd.DataFrame())
    row = summary([whole, short, empty]).iloc[0]
    assert row["seeds"] == "2 of 3"
    assert row["at round"] == f"{short.final['round']} to {whole.final['round']}"
