"""The figures of reports and the tables made of them."""

import math
from dataclasses import replace
from io import StringIO
from statistics import fmean, stdev
from typing import Any

import pandas as pd
import pytest
from scipy import stats

from tests.report.makers import config_of
from turbosvm.errors import TurboSVMError
from turbosvm.report.estimates import Estimate
from turbosvm.report.groups import contests_of
from turbosvm.report.layout import (
    TextTable,
    ablation_tables,
    paired_table,
    paper_table,
    results_table,
    tables_of,
)
from turbosvm.report.markup import escape_latex, html_table, latex_table, markdown_table
from turbosvm.report.numbers import each_run, numbers_of
from turbosvm.report.records import RunRecords
from turbosvm.report.results import Results, check_request, results_of
from turbosvm.report.text import number, signed


def run(algorithm: str, seed: int, accuracies: list[float], **changes: Any) -> RunRecords:
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
    return RunRecords.from_config(config_of(algorithm, seed=seed, **changes), frame)


RUNS = [
    run("fedavg", 0, [0.1, 0.5, 0.8]),
    run("fedavg", 1, [0.1, 0.75, 0.9]),
    run("turbosvm", 0, [0.7, 0.8, 0.85]),
    run("turbosvm", 1, [0.6, 0.72, 0.85]),
    run("slow", 0, [0.1, 0.2, 0.3]),
    run("slow", 1, [0.1, 0.2, 0.7]),
]


def results(runs: list[RunRecords], at: int | None = None, baseline: str | None = None) -> Results:
    (contest,) = contests_of(runs)
    check_request([contest], at, baseline)
    return results_of(contest, at, baseline)


def cells(table: TextTable) -> dict[str, list[str]]:
    return {row[0].text: [cell.text for cell in row[1:]] for row in table.rows}


def best(table: TextTable) -> dict[str, list[int]]:
    return {row[0].text: [place for place, cell in enumerate(row) if cell.best] for row in table.rows}


def test_mean_and_spread_over_seeds_and_censoring() -> None:
    table = results_table(results(RUNS))
    assert table.columns == ("algorithm", "seeds", "rounds to 70%", "accuracy %", "macro F1 %", "MCC %")
    assert cells(table) == {
        "fedavg": ["2", "2.5 ± 0.7", "85.0 ± 7.1", "42.5 ± 3.5", "75.0 ± 7.1"],
        "turbosvm": ["2", "1.5 ± 0.7", "85.0 ± 0.0", "42.5 ± 0.0", "75.0 ± 0.0"],
        "slow": ["2", ">3", "50.0 ± 28.3", "25.0 ± 14.1", "40.0 ± 28.3"],  # one seed did not get there
    }


def test_ties_are_both_best_and_whoever_did_not_arrive_is_not() -> None:
    assert best(results_table(results(RUNS))) == {"fedavg": [3, 4, 5], "turbosvm": [2, 3, 4, 5], "slow": []}
    nobody = [run("fedavg", 0, [0.1, 0.2]), run("slow", 0, [0.1, 0.1])]
    assert best(results_table(results(nobody))) == {"fedavg": [3, 4, 5], "slow": []}


def test_best_is_only_who_could_have_lost() -> None:
    apart = [run("fedavg", 0, [0.1, 0.8]), run("turbosvm", 0, [0.1, 0.9], clients_per_round=16)]
    assert best(results_table(results(apart))) == {"fedavg C=8": [], "turbosvm C=16": []}
    tuned = [run("fedavg", 0, [0.1, 0.8]), run("turbosvm", 0, [0.1, 0.9], client__learning_rate=0.5)]
    assert best(results_table(results(tuned))) == {"fedavg": [2], "turbosvm": [2, 3, 4, 5]}


def test_metrics_are_at_the_last_round_that_all_have() -> None:
    found = results([*RUNS[:2], run("turbosvm", 0, [0.2, 0.3])])
    assert found.at == 2
    assert cells(results_table(found))["fedavg"][2] == "62.5 ± 17.7"
    assert any(note.startswith("Metrics are at round 2, the last at which all") for note in found.notes)


def test_at_a_round_runs_that_ended_before_are_left_out_and_named() -> None:
    found = results([*RUNS[:2], run("fedavg", 2, [0.2, 0.3])], at=3)
    assert cells(results_table(found))["fedavg"] == ["2 of 3", ">2", "85.0 ± 7.1", "42.5 ± 3.5", "75.0 ± 7.1"]
    assert "Not in the metrics at round 3, as they ended before: fedavg seed 2." in found.notes


def test_at_a_round_without_evaluation_the_one_before_counts() -> None:
    found = results([run("fedavg", 0, [0.1, 0.2, math.nan, 0.4])], at=3)
    assert cells(results_table(found))["fedavg"][2] == "20.0"
    assert "Not evaluated at round 3, so the evaluation before it counts: fedavg seed 0." in found.notes
    assert results([run("fedavg", 0, [0.1, 0.2, math.nan])]).at == 2


@pytest.mark.parametrize(
    ("at", "baseline", "sentence"),
    [
        (4, None, "There is no round 4 to make tables at; the longest run has 3 rounds."),
        (0, None, "There is no round 0 to make tables at"),
        (None, "fedavgg", "Unknown baseline 'fedavgg'; allowed: fedavg, slow, turbosvm. Did you mean 'fedavg'?"),
    ],
)
def test_mistakes_are_one_sentence(at: int | None, baseline: str | None, sentence: str) -> None:
    with pytest.raises(TurboSVMError, match=sentence.replace("?", r"\?")):
        results(RUNS, at, baseline)


def test_differences_are_paired_by_seed_with_a_t_interval() -> None:
    slow = {0: 0.5, 1: 0.55, 2: 0.7, 7: 0.1}
    fast = {2: 0.75, 1: 0.65, 0: 0.58, 8: 0.9}
    runs = [run("fedavg", seed, [value]) for seed, value in slow.items()]
    runs += [run("turbosvm", seed, [value]) for seed, value in fast.items()]
    differences = [100 * (fast[seed] - slow[seed]) for seed in (0, 1, 2)]  # the seeds that both have
    mean, half = fmean(differences), stats.t.ppf(0.975, 2) * stdev(differences) / math.sqrt(3)
    pair = results(runs).rows[1].paired["accuracy"]
    assert pair.n == 3
    assert [pair.mean, pair.low, pair.high] == pytest.approx([mean, mean - half, mean + half])
    text = f"+7.7 [+{pair.low:.1f}, +{pair.high:.1f}]"
    assert cells(paired_table(results(runs))) == {"turbosvm": ["3", "–", text, cells_of_f1(pair.low, pair.high), text]}  # noqa: RUF001


def cells_of_f1(low: float, high: float) -> str:
    """The macro F1 of these runs is half the accuracy."""
    return f"+3.8 [+{low / 2:.1f}, +{high / 2:.1f}]"


def test_differences_of_rounds_where_all_arrived() -> None:
    found = results(RUNS)
    pair = found.rows[1].paired["rounds"]  # 1 - 3 and 2 - 2
    assert (pair.mean, pair.n) == (-1, 2)
    assert "rounds" not in found.rows[2].paired
    assert set(found.rows[2].paired) == {"accuracy", "macro_f1", "mcc"}


def test_one_common_seed_claims_nothing() -> None:
    assert results([RUNS[0], RUNS[2]]).rows[1].paired == {}
    assert paired_table(results([RUNS[0], RUNS[2]])).rows == ()


def test_the_baseline_can_be_chosen() -> None:
    found = results(RUNS, baseline="turbosvm")
    assert [row.group.label for row in found.rows if row.paired] == ["fedavg", "slow"]
    assert "difference from turbosvm" in paired_table(found).caption


def test_the_baseline_is_that_of_the_same_conditions() -> None:
    runs = [
        run(algorithm, seed, [value + clients / 100], clients_per_round=clients)
        for clients in (8, 16)
        for algorithm, value in (("fedavg", 0.2), ("turbosvm", 0.3))
        for seed in (0, 1)
    ]
    found = {row.group.label: row.paired for row in results(runs).rows}
    assert found["turbosvm C=16"]["accuracy"].mean == pytest.approx(10)
    assert not found["fedavg C=16"]


def test_two_baselines_that_are_equally_near_are_none() -> None:
    rates = [run("fedavg", seed, [0.5], client__learning_rate=rate) for rate in (0.1, 0.2) for seed in (0, 1)]
    near = [run("turbosvm", seed, [0.6], client__learning_rate=0.2) for seed in (0, 1)]
    far = [run("turbosvm", seed, [0.6], client__learning_rate=0.3) for seed in (0, 1)]
    found = {row.group.label: bool(row.paired) for row in results([*rates, *near, *far]).rows}
    assert found["turbosvm client.learning_rate=0.2"]
    assert not found["turbosvm client.learning_rate=0.3"]
    named = results([*rates, *far], baseline="fedavg client.learning_rate=0.1")
    assert named.rows[-1].paired["accuracy"].mean == pytest.approx(10)


def test_the_papers_figures_stand_beside_ours_at_its_round() -> None:
    curve = [0.5] * 99 + [0.8] + [0.9] * 50
    runs = [
        run(name, seed, curve, data="/x/femnist", model__name="femnist")
        for name in ("fedavg", "turbosvm")
        for seed in (0, 1)
    ]
    table = paper_table(results(runs))
    assert [[cell.text for cell in row] for row in table.rows if row[0].text == "turbosvm"] == [
        ["turbosvm", "rounds to 70%", "100.0 ± 0.0", "54.6 ± 1.6", "+45.4"],
        ["turbosvm", "accuracy % at round 100", "80.0 ± 0.0", "76.6 ± 1.0", "+3.4"],
        ["turbosvm", "macro F1 % at round 100", "40.0 ± 0.0", "61.9 ± 0.7", "−21.9"],  # noqa: RUF001
        ["turbosvm", "MCC % at round 100", "70.0 ± 0.0", "75.8 ± 1.0", "−5.8"],  # noqa: RUF001
    ]


def test_the_paper_has_figures_of_one_measure_at_two_rounds() -> None:
    curve = [0.5] * 99 + [0.8] + [0.9] * 100
    runs = [run("turbosvm", seed, curve, data="celeba", model__name="celeba") for seed in (0, 1)]
    table = paper_table(results(runs))
    assert [[cell.text for cell in row[1:]] for row in table.rows if "F1" in row[1].text or "loss" in row[1].text] == [
        ["macro F1 % at round 100", "40.0 ± 0.0", "77.2 ± 1.3", "−37.2"],  # noqa: RUF001
        ["macro F1 % at round 200", "45.0 ± 0.0", "82.1", "−37.1"],  # noqa: RUF001
        ["loss at round 200", "0.10 ± 0.00", "0.44", "−0.34"],  # noqa: RUF001
    ]
    frame = numbers_of([results(runs)])
    columns = ["at_round", "mean", "paper_mean", "paper_at_round", "mean_beside_paper", "n_beside_paper", "less_paper"]
    assert frame[frame["measure"].isin(["macro_f1", "loss"])][columns].to_numpy().tolist() == [
        pytest.approx([200, 45, 77.2, 100, 40, 2, -37.2]),
        pytest.approx([200, 45, 82.1, 200, 45, 2, -37.1]),
        pytest.approx([200, 0.1, 0.44, 200, 0.1, 2, -0.34]),
    ]
    assert len(frame) == 6
    short = [run("turbosvm", 0, curve[:150], data="celeba", model__name="celeba")]
    assert not any("200" in row[1].text for row in paper_table(results(short)).rows)


def test_support_vectors_beside_the_papers() -> None:
    one = run("turbosvm", 0, [0.5] * 200, data="femnist", model__name="femnist", model__options={"embedding": 64})
    one.frame["svm_support_mean"] = [8.0] * 199 + [3.5]
    table = paper_table(results([one]))
    assert [[cell.text for cell in row[1:]] for row in table.rows] == [
        ["macro F1 % at round 200", "25.0", "58.9", "−33.9"],  # noqa: RUF001
        ["support vectors at round 200", "3.5", "8.0", "−4.5"],  # noqa: RUF001
    ]
    assert table.caption.endswith("support vectors are those of a class, ours on average, the paper's of its class 1")


def test_no_difference_from_the_paper_where_one_did_not_arrive() -> None:
    never = [run("fedadam", 0, [0.5] * 20, data="celeba", model__name="celeba")]
    (row,) = paper_table(results(never)).rows
    assert [cell.text for cell in row[2:]] == [">20", ">200", "–"]  # noqa: RUF001


def test_other_data_is_beside_no_paper() -> None:
    assert paper_table(results(RUNS)).rows == ()


def test_ablation() -> None:
    runs = [
        run("turbosvm", seed, [value], algorithm__head__selection=selection, algorithm__head__spread_out=spread)
        for (selection, spread), value in {(True, True): 0.8, (False, True): 0.78, (True, False): 0.5}.items()
        for seed in (0, 1)
    ]
    (table,) = ablation_tables(results([*RUNS[:2], *runs]))
    assert [[cell.text for cell in row[:5]] for row in table.rows] == [
        ["off", "on", "2", "1.0 ± 0.0", "78.0 ± 0.0"],
        ["on", "off", "2", ">1", "50.0 ± 0.0"],
        ["on", "on", "2", "1.0 ± 0.0", "80.0 ± 0.0"],
    ]
    assert ablation_tables(results(RUNS)) == []


def test_runs_that_go_on_or_were_interrupted_are_noted() -> None:
    found = results([run("fedavg", seed, [0.5, 0.6], rounds=3) for seed in (0, 1)])
    assert found.notes == ("Not finished: fedavg seed 0 (2 of 3 rounds), fedavg seed 1 (2 of 3 rounds).",)


def test_a_data_set_whose_runs_all_ended_before_the_round_has_no_metrics() -> None:
    (contest,) = contests_of(RUNS)
    found = results_of(contest, at=7)
    assert cells(results_table(found))["fedavg"] == ["0 of 2", "2.5 ± 0.7", "–", "–", "–"]  # noqa: RUF001
    assert best(results_table(found)) == {"fedavg": [], "turbosvm": [2], "slow": []}


def test_a_diverged_run_is_noted() -> None:
    bad = run("fedavg", 0, [0.5, 0.0])
    bad.frame.loc[1, "loss"] = math.nan
    assert any("fedavg seed 0 diverged" in note for note in results([bad]).notes)


@pytest.mark.parametrize(("value", "text"), [(0.04, "0.0"), (-0.04, "0.0"), (-3.25, "−3.2"), (3.0, "+3.0")])  # noqa: RUF001
def test_signs(value: float, text: str) -> None:
    assert signed(value) == text


@pytest.mark.parametrize(("value", "text"), [(-0.04, "0.0"), (0.0, "0.0"), (-3.25, "−3.2"), (3.04, "3.0")])  # noqa: RUF001
def test_nothing_has_no_sign_and_a_minus_is_one(value: float, text: str) -> None:
    assert number(value) == text


def test_one_count_is_whole_and_several_have_a_spread() -> None:
    assert str(Estimate((68.0,), 1, counts=True)) == "68"
    assert str(Estimate((68.0,), 1)) == "68.0"
    assert str(Estimate((68.0, 70.0), 2, counts=True)) == "69.0 ± 1.4"
    assert str(Estimate((), 0)) == "–"  # noqa: RUF001


def test_a_seed_that_is_not_done_is_above_what_it_has_done() -> None:
    reached, slow = [0.1] * 159 + [0.8], [0.1] * 200
    going = run("fedavg", 1, [0.1] * 40, rounds=200)
    assert cells(results_table(results([run("fedavg", 0, slow, rounds=200), going], at=40)))["fedavg"][1] == ">40"
    assert cells(results_table(results([run("fedavg", 0, reached, rounds=200), going], at=40)))["fedavg"][1] == ">40"
    stopped = replace(going, stopped="After round 40: no more.")
    assert cells(results_table(results([run("fedavg", 0, slow, rounds=200), stopped], at=40)))["fedavg"][1] == ">200"


def test_only_an_evaluation_at_the_papers_round_stands_beside_it() -> None:
    sparse = [0.5 if number % 40 == 0 else math.nan for number in range(1, 201)]
    found = results([run("fedavg", seed, sparse, data="femnist", model__name="femnist") for seed in (0, 1)])
    assert [row[1].text for row in paper_table(found).rows] == ["rounds to 70%"]
    assert "The paper's metrics are at round 100, where these were not evaluated: fedavg." in found.notes
    runs = [
        run("fedavg", seed, [0.5] * length, data="femnist", model__name="femnist")
        for seed, length in ((0, 100), (1, 60))
    ]
    rows = {row[1].text: row[2].text for row in paper_table(results(runs, at=60)).rows}
    assert rows["accuracy % at round 100"] == "50.0 (1 of 2 seeds)"


def test_settings_that_are_not_the_papers_are_noted() -> None:
    changes: dict[str, Any] = {
        "data": "celeba",
        "model__name": "celeba",
        "client__learning_rate": 0.001,
        "client__batch_size": 8,
        "data__min_samples": 8,
    }
    plain = [run(name, 0, [0.5] * 100, **changes) for name in ("fedavg", "turbosvm")]
    assert results(plain).notes == ("The paper has rounds=200; here it is 100 in turbosvm.",)  # its cost falls faster
    changes["rounds"] = 200
    poly = {"algorithm__head__kernel": "poly", "algorithm__head__degree": 2, "algorithm__head__learning_rate": 0.0001}
    kernel = run("turbosvm", 0, [0.5] * 200, **changes, **poly, algorithm__head__a=1.0, algorithm__head__b=1.0)
    assert results([kernel]).notes == ()
    assert len(paper_table(results([kernel])).rows) == 2
    others = {**changes, "client__dropout": 0.9, "client__batch_size": 1, "model__head": "conv1"}
    found = results([run("fedavg", seed, [0.5] * 200, **others) for seed in (0, 1)])
    assert found.notes == (
        "The paper has client.dropout=0.0; here it is 0.9 in fedavg.",
        "The paper has model.head=nothing; here it is conv1 in fedavg.",
        "The paper has client.batch_size=8; here it is 1 in fedavg.",
    )


def test_many_rows_make_few_notes() -> None:
    many = [
        run("fedavg", 0, [0.5] * 100, data="femnist", model__name="femnist", client__learning_rate=rate)
        for rate in range(2, 300)
    ]
    stopped = [replace(one, stopped="After round 3: enough.") for one in many]
    notes = results([*many[:200], *stopped[200:]]).notes
    assert len(notes) < 12
    (rates,) = (note for note in notes if note.startswith("The paper has client.learning_rate=0.1; here it is 2 in "))
    assert rates.endswith(" and 293 more.")
    assert "93 more stopped; their folders say why." in notes


def test_why_there_are_no_differences_from_a_baseline_that_was_asked_for() -> None:
    kernels = [
        run("turbosvm", seed, [0.5], algorithm__head__kernel=kernel) for kernel in ("linear", "rbf") for seed in (0, 1)
    ]
    found = results([*kernels, *(run("fedavg", seed, [0.4]) for seed in (0, 1))], baseline="turbosvm")
    assert found.notes[-1] == (
        "No differences from turbosvm, as several rows are that; name one of them: turbosvm kernel=linear, "
        "turbosvm kernel=rbf."
    )
    alone = results([RUNS[0], RUNS[2]], baseline="fedavg")
    assert alone.notes[-1].startswith("No differences from fedavg: they take two seeds")


def test_a_cap_is_noted_beside_the_paper() -> None:
    capped = run("fedavg", 0, [0.1] * 100, data="femnist", model__name="femnist", data__max_samples=9)
    assert "The paper has data.max_samples=nothing; here it is 9 in fedavg." in results([capped]).notes


HOSTILE = r"a_b & 50% $x$ #1 {y} ~z^2 \end <script>alert(1)</script> | [q] *s* `c`"


def test_markdown_marks_the_best_and_escapes_names() -> None:
    text = markdown_table(results_table(results([*RUNS[2:], run("a|b<i>*", 0, [0.1, 0.1, 0.1])])))
    assert "| turbosvm | 2 | **1.5 ± 0.7** | **85.0 ± 0.0** |" in text
    assert r"| a\|b\<i>\* | 1 | >3 |" in text
    assert text.splitlines()[3] == "| --- | ---: | ---: | ---: | ---: | ---: |"


def test_latex_marks_the_best_and_escapes_names() -> None:
    text = latex_table(results_table(results([*RUNS[2:], run(HOSTILE, 0, [0.1, 0.1, 0.1])])))
    assert r"turbosvm & 2 & \textbf{1.5 $\pm$ 0.7} & \textbf{85.0 $\pm$ 0.0}" in text
    assert r"a\_b \& 50\% \$x\$ \#1 \{y\} \textasciitilde{}z\textasciicircum{}2 \textbackslash{}end" in text
    assert "$>$3" in text
    body = text.split(r"\midrule")[1].split(r"\bottomrule")[0]
    for line in filter(None, body.splitlines()):
        plain = line.replace(r"\&", "")
        assert plain.count("&") == 5
        assert line.endswith(r"\\")
    assert text.count("{") - text.count(r"\{") == text.count("}") - text.count(r"\}")
    assert (text.count("$") - text.count(r"\$")) % 2 == 0
    assert text.count(r"\begin") == text.count(r"\end") == 2


def test_latex_has_no_open_brackets_after_a_line_break() -> None:
    assert escape_latex("[x]") == "{[}x{]}"
    assert escape_latex("two\nlines\x00") == r"two\textbackslash{}nlines\textbackslash{}x00"


def test_html_is_escaped_and_readable_aloud() -> None:
    text = html_table(results_table(results([*RUNS[2:], run(HOSTILE, 0, [0.1, 0.1, 0.1])])))
    assert "<script>" not in text
    assert "&lt;script&gt;" in text
    assert "<caption>glyphs: rounds to target" in text
    assert text.count('scope="col"') == 6
    assert text.count('scope="row"') == 3
    assert "<td><strong>85.0 ± 0.0</strong></td>" in text


def test_numbers_are_plain_and_apart() -> None:
    frame = pd.read_csv(StringIO(numbers_of([results(RUNS)]).to_csv(index=False)))
    rows: dict[tuple[str, str], dict[Any, Any]] = {
        (row["row"], row["measure"]): row for row in frame.to_dict(orient="records")
    }
    fedavg, slow, turbo = rows["fedavg", "accuracy"], rows["slow", "rounds"], rows["turbosvm", "rounds"]
    assert (fedavg["mean"], fedavg["std"]) == (pytest.approx(85), pytest.approx(math.sqrt(50)))
    assert (fedavg["n"], fedavg["at_round"]) == (2, 3)
    assert math.isnan(slow["mean"])
    assert (slow["n"], slow["reached"], slow["not_reached_in"], slow["target"]) == (2, 1, 3, 0.7)
    assert (turbo["less_baseline"], turbo["pairs"], turbo["baseline"], turbo["best"]) == (-1, 2, "fedavg", True)
    assert len(rows) == 12


def test_every_run_has_a_row_of_its_own() -> None:
    short = run("fedavg", 2, [0.1])
    frame = pd.read_csv(StringIO(each_run([results([*RUNS, short], at=3)]).to_csv(index=False)))
    assert len(frame) == len(RUNS) + 1
    fedavg = frame[frame["row"] == "fedavg"].set_index("seed")
    assert fedavg.loc[[0, 1], "accuracy"].mean() == pytest.approx(85)
    assert fedavg["at_round"].tolist() == [3, 3, 3]
    assert fedavg[["rounds", "rounds_to_target", "accuracy"]].isna().to_numpy()[2].tolist() == [False, True, True]


def test_all_tables_of_a_contest_in_order() -> None:
    captions = [table.caption for table in tables_of(results(RUNS))]
    assert ["rounds to target" in captions[0], "difference from fedavg" in captions[1], len(captions)] == [
        True,
        True,
        2,
    ]
