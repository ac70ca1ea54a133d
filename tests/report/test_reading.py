import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.report.makers import ENVIRONMENT, change_config, config_of, end_run, record_of, rising, write_run
from turbosvm.errors import TurboSVMError
from turbosvm.record_lines import line_of
from turbosvm.report.reading import find_runs, gather
from turbosvm.report.records import read_run
from turbosvm.report.settings import fingerprint
from turbosvm.seals import sealed


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


NOT_WRITTEN = "of records.jsonl is not what was written: its checksum is missing or wrong."


def line(number: int, **changes: Any) -> str:
    """The line of a round with some values changed before it was written."""
    return line_of({**record_of(number, 0.5), **changes})


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("records.jsonl", "{}\nx\n{}\n", f"line 1 {NOT_WRITTEN}"),
        ("records.jsonl", line(1) + "nonsense\n", f"line 2 {NOT_WRITTEN}"),
        ("records.jsonl", line(1) + "\n" + line(2), f"line 2 {NOT_WRITTEN}"),
        ("records.jsonl", line(1) + line(2).replace("0.5", "0.6", 1), f"line 2 {NOT_WRITTEN}"),
        ("records.jsonl", json.dumps(record_of(1, 0.5)) + "\n", f"line 1 {NOT_WRITTEN}"),
        ("records.jsonl", line(1).replace("\n", "\r\n"), f"line 1 {NOT_WRITTEN}"),
        ("records.jsonl", line(1) + line(1), "line 2 of records.jsonl is not the record of round 2."),
        ("records.jsonl", line(1) + line(3), "line 2 of records.jsonl is not the record of round 2."),
        ("records.jsonl", line(2) + line(1), "line 1 of records.jsonl is not the record of round 1."),
        ("records.jsonl", line(0), "line 1 of records.jsonl is not the record of round 1."),
        ("records.jsonl", line(1, round=1e30), "line 1 of records.jsonl is not the record of round 1."),
        ("records.jsonl", line(1, round="1"), "line 1 of records.jsonl is not the record of round 1."),
        ("records.jsonl", line_of({"accuracy": 1}), "after line 0 of records.jsonl, a line is not a round's record."),
        ("records.jsonl", line(1, accuracy="0.5"), "'accuracy' in line 1 of records.jsonl is not a number."),
        ("records.jsonl", line(1) + line(2, loss=True), "'loss' in line 2 of records.jsonl is not a number."),
        ("records.jsonl", line(1, mcc=[0.5]), "'mcc' in line 1 of records.jsonl is not a number."),
        ("records.jsonl", line(1, accuracy=1.5), "'accuracy' in line 1 of records.jsonl is 1.5, which cannot be."),
        ("records.jsonl", line(1, loss=1e300), "'loss' in line 1 of records.jsonl is 1e+300, which cannot be."),
        ("records.jsonl", line(1, bytes_up=-1), "'bytes_up' in line 1 of records.jsonl is -1, which cannot be."),
        ("records.jsonl", line(1, bytes_up=10**400), "OverflowError: int too large to convert to float."),
        (
            "config.yaml",
            "algorithm: {name: x}\ndata: {name: x}\nseed: 0\ntarget: 1.5\n",
            "config.yaml has 1.5 for its target.",
        ),
        ("config.yaml", "seed: [", "while parsing a flow node"),
        ("config.yaml", "just text", "config.yaml does not hold keys and values."),
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
    assert str(refused.value).startswith(f"'{broken}' cannot be reported on: ")
    assert sentence in str(refused.value)
    write_run(tmp_path / "whole", config_of(), [0.5, 0.6])
    gathered = gather([tmp_path])
    assert [run.seed for run in gathered.runs] == [0]
    assert gathered.notes == (f"Left out: {refused.value}",)


def test_a_run_without_records_is_left_out(tmp_path: Path) -> None:
    write_run(tmp_path / "whole", config_of(), [0.5])
    (write_run(tmp_path / "begun", config_of(seed=1), [0.5]) / "records.jsonl").unlink()
    assert "begun' cannot be reported on" in gather([tmp_path]).notes[0]


def test_records_that_lost_their_end_after_the_run_ended_are_noticed(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", config_of(), [0.5, 0.6])
    end_run(folder)
    assert read_run(folder).rounds == 2
    lines = (folder / "records.jsonl").read_text().splitlines(keepends=True)
    (folder / "records.jsonl").write_text(lines[0])
    with pytest.raises(TurboSVMError, match=r"records.jsonl is not what it was when the run ended"):
        read_run(folder)


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ('{"started": ', "environment.json: EOF while parsing"),
        ('{"started": "2026-01-01"}', "environment.json: it has no sha256."),
        (
            sealed(ENVIRONMENT).replace("cpu", "gpu"),
            "environment.json: it is not what was written: its sha256",
        ),
        (sealed({"data": 5}), "environment.json: its data does not hold keys and values."),
        (sealed({"commit": 5}), "environment.json: its commit is not text."),
        (None, "Cannot read '{}/environment.json': No such file or directory."),
    ],
)
def test_a_run_whose_environment_is_damaged_is_left_out(content: str | None, sentence: str, tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", config_of(), [0.5])
    (folder / "environment.json").unlink()
    if content is not None:
        (folder / "environment.json").write_text(content)
    with pytest.raises(TurboSVMError) as refused:
        read_run(folder)
    assert str(refused.value).startswith(f"'{folder}' cannot be reported on: {sentence.format(folder)}"[:-1])


def test_the_only_line_of_a_seed_is_found_wherever_it_stands(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", config_of(), [0.5])
    text = (folder / "config.yaml").read_text().replace("\nseed: 0\n", "\n")
    for content, seed in (
        (f"{text}seed: 7\n", 7),
        (f"seed: 7 # lucky\n{text}", 7),
        (f'{text}"seed": 3\nx: "\nseed: 7\n"', 3),
    ):
        change_config(folder, content)
        assert read_run(folder).seed == seed
    for content in (
        f"{text}seed: 7\nseed: 8\n",
        f"{text}seed: 010\n",
        f'{text}x: "\nseed: 7\n"',
        f"{text}seed: true\n",
    ):
        (folder / "config.yaml").write_text(content)
        with pytest.raises(TurboSVMError, match=r"is there twice|is not read|does not say its seed|config.yaml: "):
            read_run(folder)


def test_settings_that_differ_in_their_last_digit_are_two() -> None:
    assert fingerprint({"a": 1234567890123456}) != fingerprint({"a": 1234567890123457})
    assert fingerprint({"a": 1, "b": 2.0}) == fingerprint({"b": 2, "a": 1.0})


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
