from typing import Any

from turbosvm.trackers.scalars import flatten, scalars, summarise

RECORD: dict[str, Any] = {
    "round": 3,
    "accuracy": 0.5,
    "loss": None,
    "train_loss": 1.5,
    "samples": 40,
    "bytes_up": 8,
    "seconds_head_solve": 0.25,
    "svm_support_mean": 6.5,
    "spread_loss_before": 2.0,
    "client_norm": [1.0, 2.0],
    "cohort": [4, 7],
    "failures": [{"client": 9, "user": "nine", "why": "its reply is not finite"}],
    "failed": None,
}


def test_a_records_numbers_are_grouped_and_lists_are_counted_or_left_out() -> None:
    assert scalars(RECORD) == {
        "held_out/accuracy": 0.5,
        "training/train_loss": 1.5,
        "training/samples": 40.0,
        "traffic/bytes_up": 8.0,
        "seconds/head_solve": 0.25,
        "svm/support_mean": 6.5,
        "spread_loss/before": 2.0,
        "training/clients": 2.0,
        "training/failures": 1.0,
        "training/failed": 0.0,
    }


def test_a_round_that_merged_nothing_shows() -> None:
    assert scalars({"round": 1, "cohort": [], "failures": [], "failed": "no client answered"})["training/failed"] == 1.0


def test_a_config_is_flattened_without_what_is_empty() -> None:
    config = {"data": {"name": "glyphs", "glyphs": {"users": 9}}, "model": {"head": None}, "trackers": ["a", "b"]}
    assert flatten(config) == {"data.name": "glyphs", "data.glyphs.users": 9, "trackers": "['a', 'b']"}


def test_a_summary_has_the_last_evaluated_metrics() -> None:
    records = [RECORD, {**RECORD, "round": 4, "accuracy": None}]
    assert summarise(records, None) == {"rounds": 4, "accuracy": 0.5}
    assert summarise([], "no data") == {"rounds": 0, "stopped": "no data"}
