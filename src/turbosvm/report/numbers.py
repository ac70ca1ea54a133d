"""The figures as plain numbers for whoever reckons on: a row for each group and measure, and a row for each run."""

from collections.abc import Iterable
from typing import Any

import pandas as pd

from turbosvm.report.layout import difference_from_paper
from turbosvm.report.records import RunRecords
from turbosvm.report.results import MEASURES, METRICS, ROUNDS, Results, Row

COLUMNS = (
    "data",
    "row",
    "algorithm",
    "measure",
    "target",
    "at_round",
    "mean",
    "std",
    "n",
    "reached",
    "not_reached_in",
    "best",
    "paper_mean",
    "paper_std",
    "paper_not_reached_in",
    "mean_beside_paper",
    "less_paper",
    "baseline",
    "less_baseline",
    "less_baseline_low",
    "less_baseline_high",
    "pairs",
)


def numbers_of(many: Iterable[Results]) -> pd.DataFrame:
    """All figures of all contests, metrics in percent; `mean_beside_paper` is ours at the paper's round."""
    rows = [_numbers(results, row, measure) for results in many for row in results.rows for measure in MEASURES]
    return pd.DataFrame(rows, columns=list(COLUMNS)).convert_dtypes()


EACH = ("data", "row", "algorithm", "seed", "rounds", "target", "rounds_to_target", "at_round", *METRICS)
MADE_BY = ("turbosvm", "commit", "device")


def each_run(many: Iterable[Results]) -> pd.DataFrame:
    """What every run has measured, metrics in percent; those of runs that did not go so far are left empty."""
    rows = [
        _run_numbers(results, row.group.label, run)
        for results in many
        for row in results.rows
        for run in row.group.runs
    ]
    return pd.DataFrame(rows, columns=[*EACH, *MADE_BY]).convert_dtypes()


def _run_numbers(results: Results, label: str, run: RunRecords) -> dict[str, Any]:
    reaching, metrics = run.rounds_to(), run.metrics_at(results.at)
    return {
        "data": results.contest.title,
        "row": label,
        "algorithm": run.algorithm,
        "seed": run.seed,
        "rounds": run.rounds,
        "target": run.target,
        "rounds_to_target": reaching.rounds if reaching.reached else None,
        "at_round": results.at,
        **{metric: 100 * metrics[metric] for metric in METRICS if metric in metrics},
        **{name: run.environment.get(name) for name in MADE_BY},
    }


def _numbers(results: Results, row: Row, measure: str) -> dict[str, Any]:
    estimate, figure, pair = row.estimates[measure], row.paper.get(measure), row.paired.get(measure)
    of_rounds = measure == ROUNDS
    numbers = {
        "data": results.contest.title,
        "row": row.group.label,
        "algorithm": row.group.algorithm,
        "measure": measure,
        "target": row.group.runs[0].target if of_rounds else None,
        "at_round": None if of_rounds else results.at,
        "mean": estimate.mean,
        "std": estimate.std,
        "n": estimate.n,
        "reached": estimate.reached if of_rounds else None,
        "not_reached_in": estimate.above,
        "best": measure in row.best,
    }
    if figure:
        numbers |= {"paper_mean": figure.mean, "paper_std": figure.std, "paper_not_reached_in": figure.above}
        ours = row.beside_paper[measure]
        numbers |= {"mean_beside_paper": ours.mean, "less_paper": difference_from_paper(ours, figure)}
    if pair:
        numbers |= {"baseline": results.baseline, "less_baseline": pair.mean, "pairs": pair.n}
        numbers |= {"less_baseline_low": pair.low, "less_baseline_high": pair.high}
    return numbers
