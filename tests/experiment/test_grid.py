"""From a sweep's file to its runs."""

from pathlib import Path
from typing import Any

import pytest

from turbosvm.data.federated import FederatedData
from turbosvm.errors import TurboSVMError
from turbosvm.experiment.grid import Changes, key_of, make_sweep, read_sweep
from turbosvm.experiment.layers import parse_assignments, parse_lists
from turbosvm.experiment.resolve import resolve_config


def test_every_combination_once(tmp_path: Path) -> None:
    (tmp_path / "kernels.yaml").write_text(
        "set: {rounds: 7, client.epochs: 2}\n"
        "grid:\n"
        "  algorithm: [fedavg, turbosvm]\n"
        "  turbosvm.head.kernel: [linear, rbf]\n"
        "  seed: [0, 1, 2]\n"
    )
    sweep = read_sweep(tmp_path / "kernels.yaml")
    assert sweep.name == "kernels"
    assert len(sweep.configs) == 3 + 2 * 3  # a kernel changes nothing of FedAvg
    assert {(config.rounds, config.client.epochs) for config in sweep.configs} == {(7, 2)}
    kernels = [config.algorithm.head["kernel"] for config in sweep.configs if config.algorithm.name == "turbosvm"]
    assert sorted(kernels) == ["linear"] * 3 + ["rbf"] * 3


def test_blocks_share_what_stands_beside_them() -> None:
    sweep = make_sweep(
        {
            "name": "two",
            "preset": "celeba",
            "set": {"rounds": 5, "model": "small"},
            "grid": {"seed": [0, 1]},
            "runs": [
                {"grid": {"algorithm": ["fedavg", "moon"]}},
                {"preset": "glyphs", "set": {"rounds": 6}, "grid": {"seed": [7]}, "as_published": True},
            ],
        }
    )
    seen = [(run.data.name, run.algorithm.name, run.rounds, run.seed, run.cohorts) for run in sweep.configs]
    assert seen == [
        ("celeba", "fedavg", 5, 0, "paired"),
        ("celeba", "moon", 5, 0, "paired"),
        ("celeba", "fedavg", 5, 1, "paired"),
        ("celeba", "moon", 5, 1, "paired"),
        ("glyphs", "fedavg", 6, 7, "own"),
    ]


def test_the_grid_may_go_over_presets_and_overrides_win() -> None:
    sweep = make_sweep(
        {"set": {"rounds": 5}, "grid": {"preset": ["femnist", "shakespeare"], "client.learning_rate": [0.1, 0.2]}},
        Changes({"rounds": 3}, data={"femnist": "mine"}, threads=2),
    )
    assert [(run.data.name, run.client.learning_rate) for run in sweep.configs] == [
        ("mine", 0.1),
        ("mine", 0.2),
        ("shakespeare", 0.1),
        ("shakespeare", 0.2),
    ]
    assert {(run.rounds, run.threads, run.target) for run in sweep.configs} == {(3, 2, 0.7), (3, 2, 0.5)}
    assert make_sweep({"set": {"threads": 1}}, Changes(threads=2)).configs[0].threads == 1


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"gird": {}}, r"Unknown key 'gird' in the sweep; allowed: .* Did you mean 'grid'\?"),
        ({"grid": {"seed": 3}}, r"the grid's 'seed' must be a list of values, not 3"),
        ({"grid": {"seed": []}}, r"the grid's 'seed' must be a list"),
        ({"grid": [1]}, r"'grid' must hold keys and values"),
        ({"set": "rounds"}, r"'set' must hold keys and values"),
        ({"runs": {"grid": {}}}, r"'runs' must be a list of blocks"),
        ({"runs": [3]}, r"block 1: keys and values are expected, not 3"),
        ({"runs": [{"runs": []}]}, r"Unknown key 'runs' in the sweep, block 1;"),
        ({"grid": {"algorithm": ["fedavg", "fedavgg"]}}, r"In the sweep \(algorithm=fedavgg\): Unknown algorithm"),
        ({"grid": {"rounds": [1, -1]}}, r"In the sweep \(rounds=-1\): Config key 'rounds' is -1"),
        ({"preset": "mnist"}, r"Unknown preset 'mnist'"),
        ({"grid": {"preset": [["a"]]}}, r"the preset is \['a'\]; it must be a name"),
        ({"grid": {"threads": [1, 2]}}, r"'threads' says how a run is computed, not what; it can stand in 'set'"),
        ({"name": "../elsewhere"}, r"the name is '../elsewhere'; it must be letters"),
        ({"name": ".."}, r"the name is '..'"),
        ({"name": None}, r"the name is None"),
        ({"as_published": "yes"}, r"as_published is 'yes'; it must be true or false"),
        ({"grid": {"seed": list(range(1000)), "rounds": list(range(1, 1001))}}, r"1,000,000 runs; at most 100,000"),
    ],
)
def test_mistakes_are_told_with_their_place(content: dict[str, Any], message: str) -> None:
    with pytest.raises(TurboSVMError, match=message):
        make_sweep(content)


def test_what_a_block_sets_stands_in_the_place_of_a_list_for_all_blocks() -> None:
    content = {
        "preset": "glyphs",
        "grid": {"algorithm": ["fedavg", "moon"], "client.epochs": [1, 2], "preset": ["glyphs", "femnist"]},
        "runs": [
            {"preset": "celeba", "set": {"algorithm": "fedavgm", "client": {"epochs": 3}}},
            {"set": {"client.learning_rate": 0.5}, "grid": {"preset": ["glyphs"]}},
        ],
    }
    found = [(run.algorithm.name, run.client.epochs, run.model.name) for run in make_sweep(content).configs]
    assert found == [
        ("fedavgm", 3, "celeba"),
        *((name, epochs, "small") for name in ("fedavg", "moon") for epochs in (1, 2)),
    ]


@pytest.mark.parametrize(
    ("key", "settings", "runs"),
    [
        ("algorithm", {"algorithm": "fedavgm"}, 1),
        ("algorithm", {"algorithm.name": "fedavgm"}, 1),
        ("algorithm.name", {"algorithm": "fedavgm"}, 1),
        ("algorithm", {"algorithm.buffers": "frozen"}, 2),  # of something below, not of the key
        ("algorithm", {"rounds": 3}, 2),
        ("algorithm", {"client": {"epochs": 3}}, 2),
    ],
)
def test_which_settings_stand_in_the_place_of_a_list(key: str, settings: dict[str, Any], runs: int) -> None:
    content = {"grid": {key: ["fedavg", "moon"]}, "runs": [{"set": settings}]}
    assert len(make_sweep(content).configs) == runs


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("grid: {seed: [0], seed: [1]}", r"is not YAML as settings are written: line 1: the key 'seed' is there twice"),
        ("set: {rounds: 2001-99-99}", r"Sweep file '.*' is not YAML .*'2001-99-99' is not read"),
        ("set: {rounds: 0x_}", r"Sweep file '.*' is not YAML .*'0x_' is not read"),
        ("set: &a {b: *a}", r"Sweep file '.*' is not YAML .*: line 1: '\*a' refers to itself"),
        ("set: !!bool maybe", r"Sweep file '.*' is not YAML .*there is the tag"),
        ("set: !!int ''", r"Sweep file '.*' is not YAML .*there is the tag"),
        ("set: !!timestamp foo", r"Sweep file '.*' is not YAML"),
        ("[" * 5000, r"Sweep file '.*' is not YAML .*nested more than 32 deep"),
    ],
)
def test_files_that_are_no_sweeps(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "sweep.yaml").write_text(text)
    with pytest.raises(TurboSVMError, match=message):
        read_sweep(tmp_path / "sweep.yaml")


@pytest.mark.parametrize("text", ["rounds=0x_", "rounds=2001-99-99", "rounds=[", "model.options={a: 1, a: 2}"])
def test_values_that_are_not_yaml(text: str) -> None:
    for parse in (parse_assignments, parse_lists):
        with pytest.raises(TurboSVMError, match=r"The value in '.*' is not YAML as settings are written: "):
            parse([text])
    with pytest.raises(
        TurboSVMError, match=r"The value in 'model.options=&a {b: \*a}' is not YAML .* refers to itself\."
    ):
        parse_assignments(["model.options=&a {b: *a}"])


def test_keys_that_are_merged_may_be_said_again(tmp_path: Path) -> None:
    (tmp_path / "sweep.yaml").write_text(
        "runs:\n- set: &one {rounds: 3, seed: 1}\n- set: &two {<<: *one, rounds: 4}\n- set: {<<: *two, seed: 2}\n"
    )
    runs = read_sweep(tmp_path / "sweep.yaml").configs
    assert [(run.rounds, run.seed) for run in runs] == [(3, 1), (4, 1), (4, 2)]


def test_lists_are_put_in_the_place_of_lists_alone() -> None:
    content = {"runs": [{"grid": {"seed": [0], "client.epochs": [1, 2]}}, {"grid": {"rounds": [3]}}]}
    changes = Changes(grid=parse_lists(["client.epochs=4,5", "rounds=7"]))
    assert [(run.client.epochs, run.rounds) for run in make_sweep(content, changes).configs] == [
        (4, 100),
        (5, 100),
        (1, 7),
    ]
    for given, message in (
        (["epochs=1"], r"Unknown list 'epochs' in the grid of the sweep; allowed: client.epochs, rounds, seed"),
        (["seed="], r"The list of 'seed' in the grid of the sweep is to have no values"),
        (["algorithm=fedavg,turbosvm"], r"Unknown list 'algorithm' in the grid of the sweep"),
        (["preset=celeba"], r"Unknown list 'preset' in the grid of the sweep"),
        (["seed=1", "seed=2"], r"There are two lists of 'seed'"),
    ):
        with pytest.raises(TurboSVMError, match=message):
            make_sweep(content, Changes(grid=parse_lists(given)))


def test_a_key_tells_what_is_computed_not_how(tiny_data: FederatedData) -> None:
    def key(**overrides: Any) -> str:
        return key_of(resolve_config(overrides=overrides), tiny_data)

    assert key() == key(threads=1) == key(engine="sequential", checkpoint_every=3, device="cpu")
    others = [key(seed=1), key(algorithm="turbosvm"), key(rounds=3), key(client={"epochs": 2}), key()]
    others += [key(precision="float32")]
    assert len(set(others)) == 6
