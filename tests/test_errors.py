from turbosvm.errors import in_one_line, unknown


def test_names_the_thing_the_allowed_values_and_a_guess() -> None:
    assert str(unknown("algorithm", "fedagv", ["fedavgm", "fedavg"])) == (
        "Unknown algorithm 'fedagv'; allowed: fedavg, fedavgm. Did you mean 'fedavg'?"
    )


def test_makes_no_guess_where_nothing_is_near() -> None:
    assert str(unknown("algorithm", "xyz", ["fedavg"])) == "Unknown algorithm 'xyz'; allowed: fedavg."


def test_an_error_of_others_is_one_line_even_without_words() -> None:
    assert in_one_line(ValueError("first\nsecond")) == "ValueError: first"
    assert in_one_line(RuntimeError()) == "RuntimeError: "
