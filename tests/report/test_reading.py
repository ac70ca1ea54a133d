import os
from pathlib import Path

import pytest

from tests.report.makers import config_of, rising, write_run
from turbosvm.errors import TurboSVMError
from turbosvm.report.reading import find_runs, gather
from turbosvm.report.records import read_run


def test_runs_are_found_at_any_depth_and_once(tmp_path: Path) -> None:
    for name in ("a/fedavg-seed0", "a/deep/er/fedavg-seed1", "b"):
        write_run(tmp_path / name, config_of(), [0.1])
    found = find_runs([tmp_path / "a", tmp_path / "b", tmp_path / "a" / "fedavg-seed0", tmp_path])
    assert [str(folder.relative_to(tmp_path)) for folder in found] == ["a/deep/er/fedavg-seed1", "a/fedavg-seed0", "b"]


def test_a_run_is_read_as_it_was_written(tmp_path: Path) -> None:
    run = read_run(write_run(tmp_path / "run", config_of("turbosvm", seed=3), [0.1, None, 0.75]))
    assert (run.algorithm, run.data, run.seed, run.target, run.rounds) == ("turbosvm", "glyphs", 3, 0.7, 3)
    assert run.points["round"].tolist() == [1, 3]
    assert run.final["accuracy"] == 0.75
    assert run.arrays["bytes_up"].sum() == 3 * 3_580_864
    assert run.environment["cores"] == 2
    assert run.stopped is None


def test_configs_that_differ_in_the_seed_keep_their_own(tmp_path: Path) -> None:
    for seed in (0, 7, 12):
        write_run(tmp_path / str(seed), config_of(seed=seed, data__split_seed=3), [0.1])
    runs = [read_run(tmp_path / str(seed)) for seed in (0, 7, 12)]
    assert [run.seed for run in runs] == [run.config["seed"] for run in runs] == [0, 7, 12]
    assert {run.config["data"]["split_seed"] for run in runs} == {3}


def test_a_line_that_was_cut_off_is_left_out_and_told(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", config_of(), [0.1, 0.2, 0.3])
    records = folder / "records.jsonl"
    os.truncate(records, records.stat().st_size - 30)
    run = read_run(folder)
    assert run.rounds == 2
    assert run.told == ["fedavg seed 0: the last line of its records was cut off and is left out."]


def test_a_run_cut_off_in_its_first_line_has_no_rounds(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", config_of(), [0.1])
    os.truncate(folder / "records.jsonl", 40)
    assert read_run(folder).rounds == 0


def test_a_round_written_twice_counts_as_it_was_last(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", config_of(), [0.1, 0.2])
    again = write_run(tmp_path / "again", config_of(), [0.1, 0.9, 0.95])
    lines = (again / "records.jsonl").read_text().splitlines(keepends=True)
    with (folder / "records.jsonl").open("a") as file:
        file.writelines(lines[1:])
    assert read_run(folder).points["accuracy"].tolist() == [0.1, 0.9, 0.95]


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("records.jsonl", "{}\nx\n{}\n", "line 2 of records.jsonl is not JSON."),
        ("records.jsonl", '{"round": 1}\nnonsense\n', "line 2 of records.jsonl is not JSON."),
        ("records.jsonl", "[1]\n", "a line of records.jsonl is not a round's record."),
        ("records.jsonl", '{"accuracy": 1}\n', "a line of records.jsonl is not a round's record."),
        ("records.jsonl", '{"round": 1, "accuracy": "x"}\n', "could not convert string to float: 'x'."),
        ("records.jsonl", '{"round": 1e30}\n', "a line of records.jsonl has a round that cannot be."),
        ("records.jsonl", '{"round": 0}\n', "a line of records.jsonl has a round that cannot be."),
        (
            "config.yaml",
            "algorithm: {name: x}\ndata: {name: x}\nseed: 0\ntarget: .nan\n",
            "config.yaml has nan for its target.",
        ),
        ("config.yaml", "seed: [", "while parsing a flow node"),
        ("config.yaml", "just text", "config.yaml does not say its algorithm."),
        ("config.yaml", "algorithm: {name: x}\nseed: 0\ntarget: 0.5\n", "config.yaml does not say its data."),
        (
            "config.yaml",
            "algorithm: {}\ndata: {name: x}\nseed: 0\ntarget: 1\n",
            "config.yaml does not say its algorithm.",
        ),
    ],
)
def test_a_broken_run_is_refused_alone_and_left_out_among_others(
    name: str, content: str, sentence: str, tmp_path: Path
) -> None:
    broken = write_run(tmp_path / "broken", config_of(seed=1), [0.5, 0.6])
    (broken / name).write_text(content)
    with pytest.raises(TurboSVMError) as refused:
        gather([broken])
    assert str(refused.value).startswith(f"'{broken}' is not a run's folder: ")
    assert sentence in str(refused.value)
    write_run(tmp_path / "whole", config_of(), [0.5, 0.6])
    gathered = gather([tmp_path])
    assert [run.seed for run in gathered.runs] == [0]
    assert gathered.notes == (f"Left out: {refused.value}",)


def test_a_run_without_records_is_left_out(tmp_path: Path) -> None:
    write_run(tmp_path / "whole", config_of(), [0.5])
    (write_run(tmp_path / "begun", config_of(seed=1), [0.5]) / "records.jsonl").unlink()
    assert "begun' is not a run's folder" in gather([tmp_path]).notes[0]


def test_a_broken_environment_is_no_matter(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", config_of(), [0.5])
    (folder / "environment.json").write_text('{"started": ')
    assert read_run(folder).environment == {}


def test_fedavg_comes_first(tmp_path: Path) -> None:
    for algorithm in ("fedadam", "fedavg", "turbosvm"):
        write_run(tmp_path / algorithm, config_of(algorithm), rising(algorithm, 0, 3))
    assert [run.algorithm for run in gather([tmp_path]).runs] == ["fedavg", "fedadam", "turbosvm"]


def test_mistakes_are_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("")
    begun = write_run(tmp_path / "begun", config_of(), [None, None])
    for place, sentence in (
        (tmp_path / "empty", "There are no runs in '"),
        (tmp_path / "nowhere", "There is no folder '"),
        (tmp_path / "file", "file' is not a folder."),
        (begun, "None of the 1 runs in '"),
    ):
        with pytest.raises(TurboSVMError) as refused:
            gather([place])
        assert sentence in str(refused.value)
    write_run(tmp_path / "whole", config_of(seed=1), [0.5])
    assert gather([tmp_path]).notes == (f"'{begun}' did not come as far as an evaluation and is left out.",)
