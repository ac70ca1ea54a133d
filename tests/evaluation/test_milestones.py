import math

from turbosvm.evaluation.milestones import RoundsToTarget, rounds_to_target


def test_the_first_round_at_or_above_the_target_counts() -> None:
    got = rounds_to_target([1, 2, 3, 4], [0.1, 0.7, 0.6, 0.9], 0.7)
    assert got == RoundsToTarget(0.7, 2, reached=True)
    assert str(got) == "2"


def test_a_run_that_does_not_get_there_is_censored() -> None:
    got = rounds_to_target([5, 10], [0.1, 0.2], 0.7)
    assert not got.reached
    assert str(got) == ">10"


def test_rounds_without_evaluation_are_passed_over() -> None:
    assert str(rounds_to_target([1, 2, 3], [math.nan, 0.9, math.nan], 0.7)) == "2"
    assert str(rounds_to_target([], [], 0.7)) == ">0"
