from pathlib import Path
from typing import Any

import pandas as pd

from tests.report.makers import config_of
from turbosvm.report.groups import Contest, contests_of
from turbosvm.report.records import RunRecords


def run(rounds: int = 3, environment: dict[str, Any] | None = None, **changes: Any) -> RunRecords:
    accuracies = [0.1 * number for number in range(1, rounds + 1)]
    frame = pd.DataFrame({"round": range(1, rounds + 1), "accuracy": accuracies, "loss": accuracies})
    return RunRecords.from_config(config_of(**changes), frame, environment=environment or {})


def contest_of(*runs: RunRecords) -> Contest:
    (contest,) = contests_of(runs)
    return contest


def labels(*runs: RunRecords) -> list[str]:
    return [group.label for group in contest_of(*runs).groups]


def test_seeds_of_one_config_belong_together() -> None:
    contest = contest_of(run(seed=1), run(seed=0), run(algorithm="turbosvm"))
    assert [(group.label, sorted(group.by_seed)) for group in contest.groups] == [("fedavg", [0, 1]), ("turbosvm", [0])]


def test_how_a_run_was_computed_makes_no_difference() -> None:
    manners: list[dict[str, Any]] = [
        {"engine": "threads"},
        {"threads": 4},
        {"device": "cuda"},
        {"trackers": ["mlflow"]},
        {"checkpoint_every": 5},
    ]
    runs = [run(seed=seed, **manner) for seed, manner in enumerate(manners)]
    (group,) = contest_of(*runs).groups
    assert len(group.runs) == 5


def test_every_other_setting_does() -> None:
    assert labels(run(), run(clients_per_round=16)) == ["fedavg C=8", "fedavg C=16"]
    assert labels(run(), run(client__epochs=2)) == ["fedavg E=1", "fedavg E=2"]
    assert labels(run(), run(precision="bfloat16")) == ["fedavg precision=auto", "fedavg precision=bfloat16"]
    assert labels(run(), run(cohorts="own")) == ["fedavg cohorts=own", "fedavg cohorts=paired"]
    assert labels(run(), run(algorithm__buffers="frozen")) == ["fedavg buffers=frozen", "fedavg buffers=mean"]
    assert labels(run(), run(target=0.5)) == ["fedavg target=0.5", "fedavg target=0.7"]
    svm: dict[str, Any] = {"algorithm": "turbosvm"}
    assert labels(run(**svm), run(**svm, algorithm__head__kernel="rbf")) == [
        "turbosvm kernel=linear",
        "turbosvm kernel=rbf",
    ]
    assert labels(run(**svm), run(**svm, model__options={"embedding": 16})) == [
        "turbosvm embedding=16",
        "turbosvm embedding=unset",
    ]


def test_a_setting_that_older_runs_do_not_know_is_one_that_is_not_set() -> None:
    assert labels(run(seed=0), run(seed=1, data__max_samples=None)) == ["fedavg"]
    assert labels(run(), run(data__max_samples=9)) == ["fedavg max_samples=9", "fedavg max_samples=unset"]


def test_names_are_as_short_as_is_clear() -> None:
    svm: dict[str, Any] = {"algorithm": "turbosvm"}
    assert labels(run(**svm), run(**svm, client__learning_rate=0.5)) == [
        "turbosvm client.learning_rate=0.1",
        "turbosvm client.learning_rate=0.5",
    ]
    assert labels(run(), run(data__split_seed=1))[1] == "fedavg split_seed=1"


def test_rows_are_in_the_order_of_their_numbers() -> None:
    rates = [0.1, 0.03, 1e-05, 2.0, 16.0]
    assert labels(run(algorithm="turbosvm"), *(run(client__learning_rate=rate) for rate in rates)) == [
        "turbosvm",
        *(f"fedavg client.learning_rate={rate:g}" for rate in sorted(rates)),
    ]


def test_what_differs_between_algorithms_alone_is_not_in_the_label() -> None:
    assert labels(run(), run(algorithm="turbosvm", client__learning_rate=0.5)) == ["fedavg", "turbosvm"]


def test_conditions_stand_in_every_label_once_they_differ() -> None:
    found = labels(run(), run(clients_per_round=16), run(algorithm="turbosvm"))
    assert found == ["fedavg C=8", "fedavg C=16", "turbosvm C=8"]


def test_one_and_one_point_nought_are_the_same() -> None:
    (group,) = contest_of(run(client__dropout=0.0), run(client__dropout=0, seed=1)).groups
    assert len(group.runs) == 2


def test_data_sets_are_apart_also_where_only_their_content_differs() -> None:
    first, second = ({"data": {"digest": digest * 8}} for digest in ("ab", "cd"))
    same = [run(data="/a/blobs", environment=first), run(data="/b/blobs", seed=1, environment=first)]
    assert [contest.title for contest in contests_of(same)] == ["blobs"]
    other = contests_of([*same, run(data="/a/blobs", environment=second), run(data="glyphs")])
    assert [contest.title for contest in other] == ["blobs (abababab)", "blobs (cdcdcdcd)", "glyphs"]


def test_the_papers_data_sets_come_first_and_in_its_order() -> None:
    names = ["zebras", "shakespeare", "aardvarks", "celeba", "blobs10", "blobs9", "femnist"]
    titles = [contest.title for contest in contests_of(run(data=name) for name in names)]
    assert titles == ["femnist", "celeba", "shakespeare", "aardvarks", "blobs9", "blobs10", "zebras"]


def test_of_two_runs_of_a_seed_the_longer_counts_and_it_is_said() -> None:
    contest = contest_of(run(rounds=2), run(rounds=5), run(rounds=3), run(clients_per_round=16))
    assert [one.rounds for one in contest.runs] == [5, 3]
    assert contest.notes == ("fedavg C=8 seed 0 was run 3 times with one config; the run with most rounds counts.",)


def test_missing_seeds_are_noted() -> None:
    contest = contest_of(run(), run(seed=1), run(seed=2), run(algorithm="turbosvm"))
    assert contest.notes == ("turbosvm has no seeds 1, 2, which others have.",)


def test_names_are_without_their_folders() -> None:
    contest = contest_of(run(data=str(Path("some") / "where" / "femnist")))
    assert (contest.title, contest.task) == ("femnist", "femnist")


def test_data_is_what_it_was_prepared_as_wherever_it_lies_now() -> None:
    about = {"data": {"digest": "ab" * 8, "task": "femnist"}}
    contest = contest_of(run(data="/a/mine", environment=about), run(seed=1, data="/b/moved", environment=about))
    assert (contest.title, contest.task) == ("mine", "femnist")
    assert len(contest.groups) == 1


def test_glyphs_are_told_apart_by_how_they_were_made() -> None:
    few, many = ({"data": {"digest": digest * 8}} for digest in ("ab", "cd"))
    runs = [run(data__glyphs={"users": 60}, environment=few), run(data__glyphs={"users": 200}, environment=many)]
    assert [contest.title for contest in contests_of(runs)] == ["glyphs users=60", "glyphs users=200"]
    runs = [run(data__max_samples=4, environment=few), run(environment=many)]
    assert [contest.title for contest in contests_of(runs)] == ["glyphs max_samples=4", "glyphs max_samples=unset"]
