"""The results on real data: what the page says is what the runs have measured."""

import re
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

from turbosvm.report.numbers import EACH, MADE_BY
from turbosvm.report.student import interval
from turbosvm.report.text import NOTHING, number, spread

PLACE = Path(__file__).parents[1] / "docs" / "results"
PAGE = (PLACE / "index.md").read_text()
RUNS = pd.read_csv(PLACE / "runs.csv")
TABLES = pd.read_csv(PLACE / "tables.csv")
TASKS = {"FEMNIST": "femnist", "CelebA": "celeba", "Shakespeare": "shakespeare"}
ALGORITHMS = ("FedAvg", "FedAdam", "FedAwS", "FedProx", "FedAMS", "MOON", "TurboSVM")
METRICS = ("accuracy", "macro_f1", "mcc")
DEFAULTS = {
    "turbosvm": "turbosvm selection=true spread_out=true",
    "moon": "moon contrast=true",
    "fedadam": "fedadam buffers=mean",
}
SPREAD_OUT_ONLY = "turbosvm selection=false spread_out=true"


def marked(section: str) -> list[list[list[str]]]:
    """The tables under a heading as rows of cells, without their heads."""
    text = re.split(rf"^## {re.escape(section)}$", PAGE, flags=re.MULTILINE)[1].split("\n## ")[0]
    found = re.findall(r"(?:^\|.*\n)+", text, flags=re.MULTILINE)
    lines = [[line.strip()[1:-1].split("|") for line in table.splitlines()[2:]] for table in found]
    return [[[cell.strip() for cell in line] for line in table] for table in lines]


def tables(section: str) -> list[list[list[str]]]:
    """The same without bold letters."""
    return [[[cell.strip("*") for cell in line] for line in table] for table in marked(section)]


def best_of(table: list[list[str]], column: int, choose: Callable[[list[float]], float]) -> set[int]:
    """The rows whose figure in a column is the best."""
    figures = {
        place: float(line[column].strip("*").split()[0])
        for place, line in enumerate(table)
        if line[column][:1] not in (">", NOTHING)
    }
    return {place for place, figure in figures.items() if figure == choose(list(figures.values()))}


def runs_of(task: str, row: str) -> pd.DataFrame:
    of_task = RUNS[RUNS["data"] == task]
    found = of_task[of_task["row"] == (row if row in set(of_task["row"]) else DEFAULTS.get(row, row))]
    assert sorted(found["seed"]) == [0, 1, 2]
    return found


def rounds(runs: pd.DataFrame) -> str:
    reached = runs["rounds_to_target"]
    return spread(reached.tolist()) if reached.notna().all() else f">{runs['rounds'].max()}"


def metrics(runs: pd.DataFrame, names: tuple[str, ...] = METRICS) -> list[str]:
    return [spread(runs[name].tolist()) for name in names]


def test_the_runs_are_all_there_and_tell_where_they_come_from() -> None:
    assert list(RUNS.columns) == [*EACH, *MADE_BY]
    assert RUNS.groupby("data").size().to_dict() == {"femnist": 33, "celeba": 36, "shakespeare": 21}
    assert set(RUNS["device"]) == {"NVIDIA H200"}
    assert all(f"`{commit[:7]}`" in PAGE for commit in set(RUNS["commit"]))


@pytest.mark.parametrize("section", TASKS)
def test_the_first_table(section: str) -> None:
    task = TASKS[section]
    table = tables(section)[0]
    assert [line[0] for line in table] == list(ALGORITHMS)
    fedavg = runs_of(task, "fedavg")["rounds_to_target"].mean()
    papers = TABLES[(TABLES["data"] == task) & (TABLES["measure"] == "rounds")].set_index("row").T.to_dict()
    for name, ours, paper, ratio, paper_ratio, *others in table:
        runs, figure = runs_of(task, name.lower()), papers[name.lower()]
        assert (ours, others) == (rounds(runs), metrics(runs))
        assert ratio == (NOTHING if ours.startswith(">") else f"{runs['rounds_to_target'].mean() / fedavg:.2f}")
        if pd.isna(figure["paper_mean"]):
            assert (paper, paper_ratio) == (f">{figure['paper_not_reached_in']:.0f}", NOTHING)
        else:
            assert paper == f"{figure['paper_mean']:.1f} ± {figure['paper_std']:.1f}"
            assert paper_ratio == f"{figure['paper_mean'] / papers['fedavg']['paper_mean']:.2f}"


@pytest.mark.parametrize("section", TASKS)
def test_the_best_are_in_bold(section: str) -> None:
    table = marked(section)[0]
    for column, choose in {1: min, 3: min, 5: max, 6: max, 7: max}.items():
        bold = {place for place, line in enumerate(table) if line[column].startswith("**")}
        assert bold == best_of(table, column, choose)


def test_the_best_halves_are_in_bold() -> None:
    (table,) = marked("Selection and spread-out")
    for part in (table[:4], table[4:]):
        for column, choose in {3: min, 4: max, 5: max, 6: max}.items():
            bold = {place for place, line in enumerate(part) if line[column].startswith("**")}
            assert bold == best_of(part, column, choose)


@pytest.mark.parametrize("section", ["FEMNIST", "CelebA"])
def test_the_metrics_beside_the_papers(section: str) -> None:
    of_task = TABLES[(TABLES["data"] == TASKS[section]) & TABLES["measure"].isin(METRICS)]
    assert [line[0] for line in tables(section)[1]] == list(ALGORITHMS)
    for name, *cells in tables(section)[1]:
        pairs = of_task.loc[of_task["row"] == name.lower(), ["mean_beside_paper", "paper_mean"]].to_numpy()
        assert cells == [f"{value:.1f}" for pair in pairs for value in pair]


def test_the_halves_of_turbosvm() -> None:
    task = ""
    (table,) = tables("Selection and spread-out")
    assert len(table) == 8
    for name, selection, spread_out, *cells in table:
        task = TASKS.get(name, task)
        words = {"on": "true", "off": "false"}
        runs = runs_of(task, f"turbosvm selection={words[selection]} spread_out={words[spread_out]}")
        assert cells == [rounds(runs), *metrics(runs)]


def test_buffers_and_contrast() -> None:
    (buffers,) = tables("BatchNorm's statistics under FedAdam")
    for line, kind in zip(buffers, ("mean", "frozen"), strict=True):
        runs = runs_of("celeba", f"fedadam buffers={kind}")
        assert [line[1], *line[4:]] == [rounds(runs), *metrics(runs, ("accuracy", "mcc"))]
    (contrast,) = tables("MOON with and without its contrast")
    for line, on in zip(contrast, ("true", "false"), strict=True):
        found = [runs_of(task, f"moon contrast={on}") for task in ("femnist", "celeba")]
        assert line[1:] == [cell for runs in found for cell in (rounds(runs), *metrics(runs, ("accuracy",)))]


def test_what_switches_nothing_off_is_fedavg() -> None:
    columns = ["seed", "rounds_to_target", *METRICS]
    for task in ("femnist", "celeba"):
        fedavg = runs_of(task, "fedavg")[columns].to_numpy()
        for row in ("moon contrast=false", "turbosvm selection=false spread_out=false"):
            assert (runs_of(task, row)[columns].to_numpy() == fedavg).all()


def difference(task: str, one: str, other: str, measure: str) -> tuple[float, float, float]:
    """The mean of the paired differences at the same seeds, and its 95 % interval."""
    values = [runs_of(task, row).sort_values("seed")[measure].tolist() for row in (one, other)]
    found = interval([mine - theirs for mine, theirs in zip(*values, strict=True)])
    assert found is not None
    return found.mean, found.low, found.high


@pytest.mark.parametrize(
    ("section", "one", "other", "measure", "sentence"),
    [
        ("FEMNIST", "fedavg", "turbosvm", "rounds_to_target", "needs {} rounds fewer [{}, {}]"),
        ("FEMNIST", "turbosvm", "fedavg", "accuracy", "has {} points more at round 200 [{}, {}]"),
        ("FEMNIST", "fedaws", "turbosvm", "rounds_to_target", "the next best, {} fewer [{}, {}]"),
        ("FEMNIST", "turbosvm", "fedaws", "accuracy", "and {} points more [{}, {}]"),
        ("CelebA", "fedavg", "turbosvm", "rounds_to_target", "TurboSVM needs {} rounds fewer than FedAvg [{}, {}]"),
        ("CelebA", "fedaws", "turbosvm", "rounds_to_target", "not clear of FedAwS ({} rounds fewer, [{}, {}])"),
        ("Shakespeare", "fedavg", "turbosvm", "rounds_to_target", "from FedAvg is {} rounds [{}, {}]"),
        ("Shakespeare", "turbosvm", "fedavg", "macro_f1", "clear of zero, {} points [{}, {}]"),
        ("FEMNIST", SPREAD_OUT_ONLY, "turbosvm", "accuracy", "On FEMNIST it costs {} points at round 200 [{}, {}]"),
        ("FEMNIST", "fedavg", "moon", "accuracy", "on FEMNIST {} points worse at round 200 [{}, {}]"),
    ],
)
def test_the_intervals(section: str, one: str, other: str, measure: str, sentence: str) -> None:
    told = sentence.format(*map(number, difference(TASKS[section], one, other, measure)))
    assert told in " ".join(PAGE.split())


def test_the_seeds_that_are_named() -> None:
    words = " ".join(PAGE.split())
    for section, row, sentence in (
        ("CelebA", "fedavg", "(FedAvg: {}, {}, {})"),
        ("Shakespeare", "turbosvm", "Seed by seed TurboSVM needs {}, {} and {} rounds"),
        ("Shakespeare", "fedavg", "FedAvg {}, {} and {}, FedAwS"),
        ("Shakespeare", "fedaws", "FedAwS {}, {} and {}: nobody"),
    ):
        rounds = runs_of(TASKS[section], row).sort_values("seed")["rounds_to_target"].astype(int)
        assert sentence.format(*rounds) in words
    for row, name in (("fedadam", "FedAdam"), ("turbosvm", "TurboSVM")):
        rounds = runs_of("celeba", row).sort_values("seed")["rounds_to_target"].astype(int)
        assert f"| {name} | {', '.join(map(str, rounds))} |" in PAGE
    f1 = runs_of("celeba", "turbosvm")["macro_f1"].mean()
    assert f"82.1 % macro F1 at round 200 (one seed), where we have {f1:.1f}." in words
