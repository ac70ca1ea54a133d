"""The figures as plain numbers for whoever reckons on: a row for each group and measure, and a row for each run."""

from collections.abc import Iterable
from typing import Any

import pandas as pd

from turbosvm.report.estimates import MEASURES, METRICS, BesidePaper, Estimate
from turbosvm.report.paper import ROUNDS
from turbosvm.report.records import RunRecords
from turbosvm.report.results import Results, Row

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
    "paper_at_round",
    "mean_beside_paper",
    "n_beside_paper",
    "less_paper",
    "baseline",
    "less_baseline",
    "less_baseline_low",
    "less_baseline_high",
    "pairs",
)


def numbers_of(many: Iterable[Results]) -> pd.DataFrame:
    """All figures of all contests, metrics in percent; `mean_beside_paper` is ours at the paper's round.

    What the paper has of other measures, or of a measure at a second round, has rows of its own.
    """
    rows = [numbers for results in many for row in results.rows for numbers in _all_numbers(results, row)]
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


def _all_numbers(results: Results, row: Row) -> list[dict[str, Any]]:
    first: dict[str, BesidePaper] = {}
    further = []
    for beside in row.beside_paper:
        if beside.paper.measure in MEASURES and beside.paper.measure not in first:
            first[beside.paper.measure] = beside
        else:
            further.append(beside)
    return [
        *(_numbers(results, row, measure) | _paper_numbers(first.get(measure)) for measure in MEASURES),
        *(
            _estimated(results, row, beside.paper.measure, beside.paper.at, beside.ours) | _paper_numbers(beside)
            for beside in further
        ),
    ]


def _estimated(results: Results, row: Row, measure: str, at: int | None, estimate: Estimate) -> dict[str, Any]:
    return {
        "data": results.contest.title,
        "row": row.group.label,
        "algorithm": row.group.algorithm,
        "measure": measure,
        "at_round": at,
        "mean": estimate.mean,
        "std": estimate.std,
        "n": estimate.n,
        "not_reached_in": estimate.above,
    }


def _paper_numbers(beside: BesidePaper | None) -> dict[str, Any]:
    if beside is None:
        return {}
    paper = beside.paper
    return {
        "paper_mean": paper.mean,
        "paper_std": paper.std,
        "paper_not_reached_in": paper.above,
        "paper_at_round": paper.at,
        "mean_beside_paper": beside.ours.mean,
        "n_beside_paper": beside.ours.n,
        "less_paper": beside.difference,
    }


def _numbers(results: Results, row: Row, measure: str) -> dict[str, Any]:
    estimate, pair = row.estimates[measure], row.paired.get(measure)
    of_rounds = measure == ROUNDS
    numbers = _estimated(results, row, measure, None if of_rounds else results.at, estimate)
    numbers["best"] = measure in row.best
    if of_rounds:
        numbers |= {"target": row.group.runs[0].target, "reached": estimate.reached}
    if pair:
        numbers |= {"baseline": results.baseline, "less_baseline": pair.mean, "pairs": pair.n}
        numbers |= {"less_baseline_low": pair.low, "less_baseline_high": pair.high}
    return numbers
