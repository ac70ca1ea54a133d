from turbosvm.errors import unknown


def test_names_the_thing_the_allowed_values_and_a_guess() -> None:
    assert str(unknown("algorithm", "fedagv", ["fedavgm", "fedavg"])) == (
        "Unknown algorithm 'fedagv'; allowed: fedavg, fedavgm. Did you mean 'fedavg'?"
    )


def test_makes_no_guess_where_nothing_is_near() -> None:
    assert str(unknown("algorithm", "xyz", ["fedavg"])) == "Unknown algorithm 'xyz'; allowed: fedavg."
