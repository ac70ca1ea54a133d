from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from turbosvm.data.federated import FederatedData
from turbosvm.data.store import save
from turbosvm.errors import TurboSVMError
from turbosvm.experiment.config import Config
from turbosvm.experiment.layers import merge_layers, parse_assignments
from turbosvm.experiment.presets import PRESETS
from turbosvm.experiment.resolve import read_config, resolve_config


def test_layers_win_in_order(tmp_path: Path) -> None:
    file = tmp_path / "own.yaml"
    file.write_text("rounds: 7\nclient: {epochs: 2, learning_rate: 1e-1}\n")
    config = resolve_config("femnist", file, {"client": {"epochs": 3}, "data": "glyphs"})
    assert config.client.batch_size == 64  # the preset's
    assert config.client.learning_rate == 0.1  # the file's, although YAML reads 1e-1 as text
    assert config.rounds == 7  # the file's
    assert config.client.epochs == 3  # the override's
    assert (config.data.name, config.data.min_samples) == ("glyphs", 64)


@pytest.mark.parametrize("preset", PRESETS)
def test_a_saved_config_reads_back_as_itself(preset: str) -> None:
    config = resolve_config(preset)
    assert Config.model_validate(yaml.safe_load(config.to_yaml())) == config


@pytest.mark.parametrize(
    ("preset", "rate", "batch", "minimum", "target"),
    [("femnist", 0.1, 64, 64, 0.7), ("celeba", 0.001, 8, 8, 0.7), ("shakespeare", 1.0, 64, 64, 0.5)],
)
def test_presets_are_the_papers(preset: str, rate: float, batch: int, minimum: int, target: float) -> None:
    config = resolve_config(preset)
    assert (config.client.learning_rate, config.client.batch_size, config.client.epochs) == (rate, batch, 1)
    assert (config.data.min_samples, config.target, config.clients_per_round) == (minimum, target, 8)


def test_a_task_has_its_own_hyperparameters_for_an_algorithm() -> None:
    def rate(preset: str, data: str, **more: Any) -> float:
        config = resolve_config(preset, overrides={"algorithm": {"name": "fedavgm"}, "data": data, **more})
        return float(config.algorithm.body["learning_rate"])

    assert rate("glyphs", "glyphs") == rate("femnist", "glyphs") == 0.5
    assert rate("glyphs", "elsewhere") == 1.0
    assert rate("glyphs", "glyphs", fedavgm={"body": {"learning_rate": 2.0}}) == 2.0


def test_one_algorithms_options_can_be_set_in_a_comparison() -> None:
    overrides = {"fedavgm": {"body": {"momentum": 0.8}}}
    assert resolve_config(overrides={**overrides, "algorithm": "fedavgm"}).algorithm.body["momentum"] == 0.8
    assert resolve_config(overrides={**overrides, "algorithm": "fedavg"}).algorithm.body == {"weighting": "samples"}


def test_later_layers_win_over_an_algorithms_own_key_too(tmp_path: Path) -> None:
    (tmp_path / "own.yaml").write_text("fedavgm: {body: {momentum: 0.5}}")
    later = {"algorithm": {"name": "fedavgm", "body": {"momentum": 0.8}}}
    assert resolve_config(file=tmp_path / "own.yaml", overrides=later).algorithm.body["momentum"] == 0.8
    assert (
        resolve_config(file=tmp_path / "own.yaml", overrides={"algorithm": "fedavgm"}).algorithm.body["momentum"] == 0.5
    )


def test_a_resolved_config_leaves_nothing_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "here").mkdir()
    config = resolve_config("femnist", overrides={"algorithm": "fedavgm", "data": "here"})
    assert config.algorithm.body == {"momentum": 0.9, "learning_rate": 1.0}
    assert config.data.name == str(tmp_path / "here")
    assert config.threads is not None
    saved = tmp_path / "config.yaml"
    saved.write_text(config.to_yaml())
    monkeypatch.chdir("/")
    assert resolve_config(file=saved, overrides={"algorithm": {"name": "fedavgm"}}) == config


def test_glyphs_settings_belong_to_glyphs_only() -> None:
    assert resolve_config("glyphs").data.glyphs is not None
    assert resolve_config("femnist").data.glyphs is None


def test_assignments_are_nested_and_read_as_yaml() -> None:
    assert parse_assignments(
        ["client.epochs=2", "model.head=a.b", "client.learning_rate=0.5", "data.glyphs.users=9"]
    ) == {
        "client": {"epochs": 2, "learning_rate": 0.5},
        "model": {"head": "a.b"},
        "data": {"glyphs": {"users": 9}},
    }


def test_a_name_and_its_options_can_come_from_different_layers() -> None:
    assert merge_layers([{"data": "here"}, {"data": {"min_samples": 3}}]) == {
        "data": {"name": "here", "min_samples": 3}
    }
    assert merge_layers([{"data": {"min_samples": 3}}, {"data": "here"}]) == {
        "data": {"name": "here", "min_samples": 3}
    }


@pytest.mark.parametrize(
    ("overrides", "sentence"),
    [
        ({"round": 5}, r"Unknown config key 'round'; allowed: algorithm, checkpoint_every, .* Did you mean 'rounds'\?"),
        (
            {"client": {"epoch": 5}},
            r"Unknown config key 'client.epoch'; allowed in 'client': batch_size, .* Did you mean 'client.epochs'\?",
        ),
        (
            {"data": {"glyphs": {"user": 5}}},
            r"Unknown config key 'data.glyphs.user'; allowed in 'data.glyphs': .* Did you mean 'data.glyphs.users'\?",
        ),
        ({"rounds": 0}, "Config key 'rounds' is 0; it must be greater than or equal to 1."),
        ({"rounds": "many"}, "Config key 'rounds' is 'many'; it must be a valid integer"),
        ({"client": {"learning_rate": -1}}, "Config key 'client.learning_rate' is -1; it must be greater than 0."),
        ({"client": {"learning_rate": float("nan")}}, "'client.learning_rate' is nan; it must be a finite number"),
        ({"data": {"held_out": 1.5}}, "Config key 'data.held_out' is 1.5; it must be less than 1."),
        (
            {"data": {"glyphs": {"heterogeneity": 2}}},
            "'data.glyphs.heterogeneity' is 2; it must be less than or equal to 1",
        ),
        ({"device": "tpu"}, "Config key 'device' is 'tpu'; it must be 'auto', 'cpu' or 'cuda'."),
        ({"client": 3}, "Config key 'client' is 3; it must be keys and values."),
        ({"client": None}, "Config key 'client' is empty; it must be keys and values."),
        ({"data": None}, "Config key 'data' is empty; it must be a name, or keys and values."),
        ({"model": {"options": 3}}, "Config key 'model.options' is 3; it must be keys and values."),
        ({"model": {"options": True}}, "Config key 'model.options' is True; it must be keys and values."),
        ({"rounds": None}, "Config key 'rounds' is empty; it must be a valid integer."),
        ({"algorithm": {"name": "fedagv"}}, r"Unknown algorithm 'fedagv'; .* Did you mean 'fedavg'\?"),
        (
            {"fedavgm": 3},
            "Config key 'fedavgm' must hold options of its objective or local or body or head or buffers, not 3",
        ),
        (
            {"fedavgm": {"body": 3}},
            "Config key 'fedavgm' must hold options of its objective or local or body or head or buffers, not",
        ),
        (
            {"fedavgm": {"name": {}}},
            "Unknown config key 'fedavgm.name'; allowed in 'fedavgm': body, buffers, head, local, objective",
        ),
        ({"fedprx": {"objective": {"mu": 1}}}, "Unknown config key 'fedprx'.*Did you mean 'fedprox'"),
        ({"algorithm": {"body": {"rule": ["x"]}}}, "Unknown body rule .*allowed: fedadagrad"),
        ({"turbosvm": {"cost": 1}}, "'turbosvm.cost' is not there; did you mean 'turbosvm.head.cost'"),
        (
            {"head": {"cost": 1}},
            r"Config key 'head' is not there; did you mean 'algorithm.head' or 'model.head'\?",
        ),
        ({"epochs": 3}, r"Config key 'epochs' is not there; did you mean 'client.epochs'\?"),
        ({"users": 3}, r"Config key 'users' is not there; did you mean 'data.glyphs.users'\?"),
        ({"fedavgm": {"body": {"junk": 3}}}, "Unknown option 'junk' of the body rule of fedavgm;"),
        ({"threads": 5_000_000_000}, "'threads' is 5000000000; it must be less than or equal to 1024"),
        ({1: 2}, "Config key 1 is not a name"),
        ({"algorithm": {"name": [1]}}, "Config key 'algorithm.name' is .1.; it must be a valid string"),
    ],
)
def test_mistakes_name_the_key_and_what_is_allowed(overrides: dict[Any, Any], sentence: str) -> None:
    with pytest.raises(TurboSVMError, match=sentence):
        resolve_config(overrides=overrides)


def test_an_unknown_preset_is_refused() -> None:
    with pytest.raises(TurboSVMError, match=r"Unknown preset 'femnis'; allowed: .* Did you mean 'femnist'\?"):
        resolve_config("femnis")


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("a: &a {b: *a}", "refers to itself"),
        ("a: [", "is not YAML"),
        ("- 1", "must hold keys and values, not a list"),
        ("roundz: 3", "Unknown config key 'roundz'"),
    ],
)
def test_a_wrong_file_is_explained(content: str, sentence: str, tmp_path: Path) -> None:
    (tmp_path / "own.yaml").write_text(content)
    with pytest.raises(TurboSVMError, match=sentence):
        resolve_config(file=tmp_path / "own.yaml")


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(TurboSVMError, match=r"Cannot read '.*none\.yaml': No such file"):
        resolve_config(file=tmp_path / "none.yaml")


@pytest.mark.parametrize("assignment", ["rounds", "=3", "rounds=["])
def test_a_broken_assignment_is_explained(assignment: str) -> None:
    with pytest.raises(TurboSVMError, match=r"is not an assignment|is not YAML"):
        parse_assignments([assignment])


def test_the_papers_learning_rates_are_presets_also_with_a_data_folder(tmp_path: Path) -> None:
    save(FederatedData.from_users({"a": (np.ones((2, 1), np.float32), [0, 1])}, 2), tmp_path / "folder")
    for data in ("shakespeare", str(tmp_path / "folder")):
        for name, part, rate in (("fedadam", "body", 0.01), ("fedams", "body", 0.01), ("fedaws", "head", 0.1)):
            config = resolve_config("shakespeare", overrides={"algorithm": name, "data": data})
            assert getattr(config.algorithm, part)["learning_rate"] == rate
    assert resolve_config("femnist", overrides={"algorithm": "fedprox"}).algorithm.objective == {"mu": 0.02}
    moon = resolve_config("celeba", overrides={"algorithm": "moon"}).algorithm.objective
    assert (moon["mu"], moon["temperature"]) == (1.0, 0.5)
    both = resolve_config("femnist", overrides={"algorithm": "fedadam+turbosvm"}).algorithm
    assert (both.body["learning_rate"], both.head["learning_rate"]) == (0.001, 0.01)


def test_a_rows_key_counts_in_combinations_and_the_combinations_own_wins() -> None:
    overrides = {
        "turbosvm": {"head": {"cost": "constant", "steps": 3}},
        "fedavgm+turbosvm": {"head": {"cost": "increasing"}, "body": {"momentum": 0.5}},
    }
    both = resolve_config(overrides={**overrides, "algorithm": "turbosvm+fedavgm"}).algorithm
    assert both.name == "fedavgm+turbosvm"
    assert (both.head["cost"], both.head["steps"], both.body["momentum"]) == ("increasing", 3, 0.5)
    assert resolve_config(overrides={**overrides, "algorithm": "fedavgm"}).algorithm.body["momentum"] == 0.9
    assert resolve_config(overrides={**overrides, "algorithm": "turbosvm"}).algorithm.head["cost"] == "constant"


def test_as_published_turns_every_switch() -> None:
    def published(name: str, **more: Any) -> Config:
        return resolve_config("femnist", overrides={"algorithm": name, **more}, as_published=True)

    for name in ("fedadam", "fedams", "fedadam+turbosvm"):
        assert published(name).algorithm.buffers == "frozen"
    turbo = published("turbosvm")
    assert (turbo.algorithm.head["max_iter"], turbo.algorithm.buffers) == (50, "mean")
    assert (turbo.cohorts, turbo.on_bad_client, turbo.rounds) == ("own", "replace", 201)
    assert published("moon").algorithm.objective["contrast"] is False
    with pytest.raises(TurboSVMError, match="MOON as published is known at one epoch a round only"):
        published("moon", client={"epochs": 2})
    assert published("turbosvm", rounds=7, turbosvm={"head": {"max_iter": 9}}).rounds == 7
    ours = resolve_config("femnist", overrides={"algorithm": "fedadam"})
    assert (ours.algorithm.buffers, ours.cohorts, ours.on_bad_client, ours.rounds) == ("mean", "paired", "skip", 200)


def test_a_resolved_config_resolves_to_itself(tmp_path: Path) -> None:
    for name in ("fedprox+fedadam+turbosvm", "scaffold", "fedproc", "centralised"):
        first = resolve_config(overrides={"algorithm": name}, as_published=name == "scaffold")
        (tmp_path / "saved.yaml").write_text(first.to_yaml())
        assert resolve_config(file=tmp_path / "saved.yaml") == first


def test_what_is_said_of_an_algorithm_counts_where_a_part_is_taken_from_it() -> None:
    overrides = {
        "algorithm": {"name": "fedavg", "body": {"rule": "fedadam"}, "local": {"rule": "scaffold"}},
        "fedadam": {"body": {"beta1": 0.5}},
    }
    config = resolve_config("shakespeare", overrides=overrides, as_published=True)
    assert config.algorithm.name == "scaffold+fedadam"
    assert (config.algorithm.body["beta1"], config.algorithm.body["learning_rate"]) == (0.5, 0.01)
    assert config.algorithm.buffers == "frozen"
    assert resolve_config(overrides={"algorithm": {"local": {"rule": "scaffold"}}}).algorithm.body == {
        "weighting": "equal"
    }


def test_a_file_for_another_algorithm_is_refused(tmp_path: Path) -> None:
    (tmp_path / "own.yaml").write_text("algorithm: {name: fedprox, objective: {mu: 0.5}}")
    with pytest.raises(TurboSVMError, match="The config file is for fedprox, not for fedavg"):
        resolve_config(file=tmp_path / "own.yaml", overrides={"algorithm": "fedavg"})
    assert resolve_config(file=tmp_path / "own.yaml").algorithm.objective == {"mu": 0.5}


def test_names_may_be_written_as_papers_write_them() -> None:
    assert resolve_config(overrides={"algorithm": "FedAvgM + TurboSVM"}).algorithm.name == "fedavgm+turbosvm"


def test_a_rule_can_be_chosen_under_the_algorithms_own_name() -> None:
    fedavgm = resolve_config(overrides={"algorithm": "fedavg", "fedavg": {"body": {"rule": "fedavgm"}}}).algorithm
    assert (fedavgm.name, fedavgm.body["learning_rate"]) == ("fedavgm", 0.5)
    fedaws = resolve_config(overrides={"algorithm": "turbosvm", "turbosvm": {"head": {"rule": "fedaws"}}}).algorithm
    assert (fedaws.name, fedaws.head["margin"]) == ("fedaws", 2.0)
    weighted = resolve_config(overrides={"algorithm": {"name": "scaffold", "body": {"rule": "fedavg"}}}).algorithm
    assert weighted.body == {"weighting": "samples"}


def test_an_empty_section_is_no_section(tmp_path: Path) -> None:
    (tmp_path / "own.yaml").write_text("algorithm:\nrounds: 3\n")
    assert resolve_config(file=tmp_path / "own.yaml", overrides={"algorithm": "moon"}).algorithm.name == "moon"


def test_a_digest_tells_what_is_computed_not_how_nor_where() -> None:
    class Later(Config):
        tomorrow: int = 3

    digest = resolve_config().digest
    for same in ({"threads": 2}, {"device": "cpu"}, {"checkpoint_every": 5}, {"trackers": ["tensorboard"]}):
        assert resolve_config(overrides=same).digest == digest
    for other in ({"rounds": 7}, {"seed": 1}, {"data": {"max_samples": 9}}, {"precision": "float32"}):
        assert resolve_config(overrides=other).digest != digest
    assert Later(**resolve_config().model_dump()).digest == digest
    assert Later(**resolve_config().model_dump(), tomorrow=4).digest != digest


@pytest.mark.parametrize(
    ("assignment", "key"),
    [
        ("rounds=true", "rounds"),
        ("rounds='3'", "rounds"),
        ("rounds=2.5", "rounds"),
        ("seed=true", "seed"),
        ("target=true", "target"),
        ("threads=true", "threads"),
        ("client.learning_rate=true", "client.learning_rate"),
        ("client.learning_rate='1e-3'", "client.learning_rate"),
        ("data.held_out=false", "data.held_out"),
        ("data.glyphs.users=true", "data.glyphs.users"),
        ("data.max_samples=true", "data.max_samples"),
        ("data.name=1.10", "data.name"),
        ("data.name=true", "data.name"),
        ("model.head=1.5", "model.head"),
        ("model.head=false", "model.head"),
    ],
)
def test_a_value_is_what_a_person_reads_or_is_refused(assignment: str, key: str) -> None:
    with pytest.raises(TurboSVMError, match=f"Config key '{key}' is .*; it must be a valid "):
        resolve_config(overrides=parse_assignments([assignment]))


@pytest.mark.parametrize("word", ["yes", "no", "on", "off", "010", "1:30", "1_000", "0x10", "0o10", "+5", "2020-01-01"])
def test_words_that_yaml_has_two_readings_of_are_refused_wherever_they_stand(word: str) -> None:
    for key in ("rounds", "model.options.layers", "turbosvm.head.steps"):
        with pytest.raises(TurboSVMError, match=r"is not read, as not everyone reads it as the same"):
            parse_assignments([f"{key}={word}"])
    assert parse_assignments([f"rounds='{word}'"]) == {"rounds": word}


def test_numbers_with_exponents_are_numbers_everywhere() -> None:
    config = resolve_config(
        overrides=parse_assignments(
            [
                *("rounds=1e2", "client.learning_rate=1e-3", "model.options={rate: 1e-3}"),
                *("algorithm=fedavgm", "fedavgm.body.learning_rate=5E-1"),
            ]
        )
    )
    assert (config.rounds, config.client.learning_rate, config.algorithm.body["learning_rate"]) == (100, 0.001, 0.5)
    assert config.model.options == {"rate": 0.001}


def test_what_yaml_takes_for_a_comment_is_not_taken_for_nothing() -> None:
    with pytest.raises(TurboSVMError, match=r"=#3' begins with a '#'; put it in quotes"):
        parse_assignments(["model.head=#3"])
    assert parse_assignments(["model.head='#3'", "data.name="]) == {"model": {"head": "#3"}, "data": {"name": None}}


def test_a_config_is_saved_so_that_it_is_read_as_it_was_meant(tmp_path: Path) -> None:
    odd = ["1e-3", "010", "yes", "1:30", "2020-01-01", "", "~", "<<", "#", "a: b", " x", "\t"]
    config = resolve_config(overrides={"model": {"options": {"odd": odd, "again": [odd, odd], "1": 1e-7}}})
    (tmp_path / "config.yaml").write_text(config.to_yaml())
    assert "&" not in config.to_yaml()
    assert read_config(tmp_path / "config.yaml") == config
    assert yaml.safe_load(config.to_yaml()) == config.model_dump()


@pytest.mark.parametrize("value", ["\0", "\x1b", "\ud800", 2**70, float("inf"), object()])
def test_a_config_that_could_not_be_read_again_is_not_saved(value: object) -> None:
    with pytest.raises(TurboSVMError, match="This config cannot be saved as YAML"):
        resolve_config(overrides={"model": {"options": {"value": value}}}).to_yaml()
