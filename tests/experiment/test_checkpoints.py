"""Whatever ends a run, it goes on from its newest checkpoint as if nothing had happened."""

import itertools
import json
import multiprocessing
import random
import signal
from collections.abc import Callable
from multiprocessing.process import BaseProcess
from pathlib import Path
from time import sleep
from typing import Any

import pandas as pd
import pytest
import torch

import turbosvm
from tests.conftest import Note, tiny_net
from tests.experiment import killed
from turbosvm.data.federated import FederatedData
from turbosvm.errors import TurboSVMError
from turbosvm.experiment import checkpoints as module
from turbosvm.experiment.checkpoints import Checkpoints
from turbosvm.experiment.config import Config
from turbosvm.experiment.ending import is_finished
from turbosvm.experiment.folder import RunFolder
from turbosvm.experiment.prepared import begin_at, checkpoints_of, reopen_run
from turbosvm.experiment.recorded import Record, last_record, recorded
from turbosvm.experiment.resolve import resolve_config
from turbosvm.experiment.runner import Outcome, run_experiment, run_on
from turbosvm.files import cannot_read, write_atomically
from turbosvm.record_lines import line_of
from turbosvm.seals import sealed, unsealed

CPU = torch.device("cpu")
KILLS = 30
LONGEST = 0.15
"""Seconds that a process may live, at first."""


def config(algorithm: str = "fedavg", **overrides: Any) -> Config:
    short = {"rounds": 6, "clients_per_round": 3, "client": {"batch_size": 4}, "checkpoint_every": 1}
    return resolve_config(overrides={"algorithm": algorithm, **short, **overrides})


def stop_after(last: int) -> Callable[[Record], None]:
    def on_record(record: Record) -> None:
        if record["round"] == last:
            raise KeyboardInterrupt

    return on_record


def halved(data: FederatedData, root: Path, algorithm: str = "fedavg", **overrides: Any) -> Path:
    """A run that was stopped after its third round."""
    outcome = run_experiment(config(algorithm, **overrides), data, tiny_net(), root, stop_after(3))
    assert outcome.interrupted
    assert outcome.folder
    return outcome.folder


def finish(folder: Path, data: FederatedData) -> Outcome:
    return run_on(reopen_run(folder, data, tiny_net()))


def timeless(records: list[Record]) -> list[Record]:
    return [{key: value for key, value in record.items() if "seconds" not in key} for record in records]


def same(one: Path, two: Path) -> bool:
    """Whether two runs have the same records, but for the time they took, and the same model to the last bit."""
    models = [(path / "model.safetensors").read_bytes() for path in (one, two)]
    return timeless(recorded(one)) == timeless(recorded(two)) and models[0] == models[1]


@pytest.mark.parametrize("algorithm", ["fedavg", "fedadam", "moon", "scaffold", "fedprox", "turbosvm", "centralised"])
def test_a_run_that_goes_on_ends_as_one_that_was_never_stopped(
    algorithm: str, tiny_data: FederatedData, tmp_path: Path
) -> None:
    whole = run_experiment(config(algorithm), tiny_data, tiny_net(), tmp_path / "whole").folder
    folder = halved(tiny_data, tmp_path / "halved", algorithm)
    assert len(recorded(folder)) == 3
    assert not is_finished(folder)
    outcome = finish(folder, tiny_data)
    assert outcome.notes == []
    assert [record["round"] for record in outcome.records] == [1, 2, 3, 4, 5, 6]
    assert whole
    assert same(whole, folder)
    assert is_finished(folder)
    about = json.loads((folder / "environment.json").read_text())
    assert [again["after_round"] for again in about["resumed"]] == [3]


def test_rounds_after_the_checkpoint_are_done_again(tiny_data: FederatedData, tmp_path: Path) -> None:
    whole = run_experiment(config(), tiny_data, tiny_net(), tmp_path / "whole").folder
    folder = halved(tiny_data, tmp_path / "halved", checkpoint_every=2)
    for path in (folder / "checkpoints").glob("round-000000003*"):
        path.unlink()
    with (folder / "records.jsonl").open("a") as file:
        file.write('{"round": 4, "accuracy": 0.')  # the process was killed while it wrote
    prepared = reopen_run(folder, tiny_data, tiny_net())
    assert len(prepared.records) == 2
    run_on(prepared)
    assert whole
    assert same(whole, folder)


def test_a_finished_run_stays_as_it_is(tiny_data: FederatedData, tmp_path: Path) -> None:
    folder = run_experiment(config(), tiny_data, tiny_net(), tmp_path).folder
    assert folder
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    outcome = finish(folder, tiny_data)
    assert len(outcome.records) == 6
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before


def test_a_finished_run_without_checkpoints_is_not_done_again(tiny_data: FederatedData, tmp_path: Path) -> None:
    whole = run_experiment(config(checkpoint_every=0), tiny_data, tiny_net(), tmp_path)
    assert whole.folder
    before = (whole.folder / "records.jsonl").stat().st_mtime_ns
    outcome = finish(whole.folder, tiny_data)
    assert outcome.records == whole.records
    assert torch.equal(outcome.module.get_parameter("head.weight"), whole.module.get_parameter("head.weight"))
    assert (whole.folder / "records.jsonl").stat().st_mtime_ns == before
    RunFolder.reopen(whole.folder).release()  # it has been let go of


def test_a_run_that_failed_stays_as_long_as_it_was_and_is_not_finished(
    tiny_data: FederatedData, tmp_path: Path
) -> None:
    diverging = config(max_failed_rounds=2, client={"learning_rate": 1e30, "batch_size": 4})
    first = run_experiment(diverging, tiny_data, tiny_net(), tmp_path)
    assert first.stopped
    assert first.folder
    for _ in range(2):
        again = finish(first.folder, tiny_data)
        assert again.stopped == first.stopped  # with the reason
        assert "3 rounds failed (max_failed_rounds is 2)" in first.stopped
        assert len(recorded(first.folder)) == 3
        assert not is_finished(first.folder)
    anew = reopen_run(first.folder, tiny_data, tiny_net(), retry=True)
    assert (anew.records, anew.standing, anew.notes, anew.ending) == ((), None, (), None)
    seen: list[int] = []
    assert run_on(anew, lambda record: seen.append(record["round"])).stopped == first.stopped
    assert seen == [1, 2, 3]


def test_a_run_in_which_nothing_was_merged_is_not_finished(tiny_data: FederatedData, tmp_path: Path) -> None:
    diverging = config(rounds=2, client={"learning_rate": 1e30, "batch_size": 4})
    outcome = run_experiment(diverging, tiny_data, tiny_net(), tmp_path)
    assert outcome.folder
    assert str(outcome.stopped).startswith("Nothing was merged in any of its 2 rounds (")
    assert json.loads((outcome.folder / "ended.json").read_text())["stopped"] == outcome.stopped
    assert not is_finished(outcome.folder)
    assert finish(outcome.folder, tiny_data).stopped == outcome.stopped


def test_a_damaged_model_of_a_finished_run_is_told_of(tiny_data: FederatedData, tmp_path: Path) -> None:
    folder = run_experiment(config(), tiny_data, tiny_net(), tmp_path).folder
    assert folder
    whole = (folder / "model.safetensors").read_bytes()
    truncate(folder / "model.safetensors")
    assert not is_finished(folder)
    outcome = finish(folder, tiny_data)
    assert "model.safetensors' is damaged: it is not what was written." in outcome.notes[0]
    assert (folder / "model.safetensors").read_bytes() == whole  # from the last checkpoint
    assert is_finished(folder)


@pytest.mark.parametrize("length", [10, 2**16 - 1, 2**16, 2**18, 3 * 2**20])
def test_the_last_record_is_found_however_long_it_is(length: int, tmp_path: Path) -> None:
    for before in (b"", b'{"round": 1}\n', b"x" * length + b"\n"):
        record = line_of({"round": 2, "cohort": "x" * length, "failures": [], "failed": None})
        (tmp_path / "records.jsonl").write_bytes(before + record.encode())
        found = last_record(tmp_path)
        assert found
        assert len(found["cohort"]) == length
        with (tmp_path / "records.jsonl").open("ab") as file:
            file.write(b'{"round": 3, "coh')  # cut off
        assert (last_record(tmp_path) or {}).get("round") == 2
    for odd in (b'{"round": 3, "coh', b"", b"\n", b"5\n"):
        (tmp_path / "records.jsonl").write_bytes(odd)
        assert last_record(tmp_path) is None


def test_what_cannot_be_read_is_not_taken_for_damage(
    tiny_data: FederatedData, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = halved(tiny_data, tmp_path)
    before = {path.name for path in (folder / "checkpoints").iterdir()}

    def failing(path: Path, most: int = 0) -> bytes:
        with cannot_read(path):
            raise OSError(5, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(module, "read_bounded", failing)
        with pytest.raises(TurboSVMError, match=r"Cannot read '.*': Input/output error"):
            reopen_run(folder, tiny_data, tiny_net())
    assert {path.name for path in (folder / "checkpoints").iterdir()} == before
    assert len(reopen_run(folder, tiny_data, tiny_net()).records) == 3


def test_a_model_that_cannot_be_saved_is_told_of(
    tiny_data: FederatedData, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: Path, content: str | bytes) -> None:
        if path.name == "model.safetensors":
            raise TurboSVMError(f"Cannot write file '{path}': No space left on device.")
        write_atomically(path, content)

    monkeypatch.setattr("turbosvm.experiment.folder.write_atomically", full)
    outcome = run_experiment(config(), tiny_data, tiny_net(), tmp_path)
    assert len(outcome.records) == 6
    assert any("The model is not saved: Cannot write file" in note for note in outcome.notes)


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-7])


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-9] ^= 1
    path.write_bytes(content)


DAMAGES: dict[str, tuple[str, Callable[[Path], Any]]] = {
    "truncated": ("round-000000003.safetensors", truncate),
    "a bit flipped": ("round-000000003.safetensors", flip),
    "missing": ("round-000000003.safetensors", Path.unlink),
    "of a client": ("client-*-000000003.safetensors", flip),
    "not JSON": ("round-000000003.json", truncate),
    "another JSON": ("round-000000003.json", lambda path: path.write_text("[1]")),
    "a client less": (
        "round-000000003.json",
        lambda path: path.write_text(json.dumps({**json.loads(path.read_text()), "clients": {}})),
    ),
    "another round": (
        "round-000000003.json",
        lambda path: path.write_text(sealed({**unsealed(path.read_bytes()), "records": "0" * 64})),
    ),
    "another format": ("round-000000003.json", lambda path: path.write_text('{"format": "checkpoint 99"}')),
    "empty": ("round-000000003.json", lambda path: path.write_text("")),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_checkpoint_is_passed_over_and_told_of(damage: str, tiny_data: FederatedData, tmp_path: Path) -> None:
    whole = run_experiment(config("moon"), tiny_data, tiny_net(), tmp_path / "whole").folder
    folder = halved(tiny_data, tmp_path / "halved", "moon")
    pattern, spoil = DAMAGES[damage]
    spoil(next((folder / "checkpoints").glob(pattern)))
    prepared = reopen_run(folder, tiny_data, tiny_net())
    assert len(prepared.records) == 2
    (note,) = prepared.notes
    assert "round-000000003.json' is damaged" in note
    outcome = run_on(prepared)
    assert any("is damaged" in sentence for sentence in outcome.told)
    assert whole
    assert same(whole, folder)


def test_without_a_whole_checkpoint_it_begins_again(tiny_data: FederatedData, tmp_path: Path) -> None:
    whole = run_experiment(config(), tiny_data, tiny_net(), tmp_path / "whole").folder
    folder = halved(tiny_data, tmp_path / "halved")
    for path in (folder / "checkpoints").glob("*.safetensors"):
        truncate(path)
    prepared = reopen_run(folder, tiny_data, tiny_net())
    assert prepared.records == ()
    assert "began again" in prepared.notes[-1]
    run_on(prepared)
    assert whole
    assert same(whole, folder)


def test_a_checkpoint_that_is_ahead_of_the_records_is_not_used(tiny_data: FederatedData, tmp_path: Path) -> None:
    folder = halved(tiny_data, tmp_path)
    lines = (folder / "records.jsonl").read_text().splitlines(keepends=True)
    (folder / "records.jsonl").write_text("".join(lines[:2]))  # the machine lost power
    prepared = reopen_run(folder, tiny_data, tiny_net())
    assert len(prepared.records) == 2
    assert prepared.notes[0].startswith("The records end with round 2, though there is a checkpoint of round 3")


def test_two_checkpoints_are_kept_and_only_what_is_new_is_written(tiny_data: FederatedData, tmp_path: Path) -> None:
    written: list[str] = []
    ordinary = write_atomically

    def counting(path: Path, content: str | bytes) -> None:
        written.append(path.name)
        ordinary(path, content)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "write_atomically", counting)
        outcome = run_experiment(config("moon", rounds=8), tiny_data, tiny_net(), tmp_path)
    assert outcome.folder
    places = sorted(path.name for path in (outcome.folder / "checkpoints").iterdir())
    assert [name for name in places if name.endswith(".json")] == ["round-000000007.json", "round-000000008.json"]
    assert [name for name in places if name.startswith("round") and name.endswith("safetensors")] == [
        "round-000000007.safetensors",
        "round-000000008.safetensors",
    ]
    clients = [name for name in written if name.startswith("client")]
    assert len(clients) == 8 * 3  # those who took part, each time
    took_part = {client for record in outcome.records for client in record["cohort"]}
    about = json.loads((outcome.folder / "checkpoints" / "round-000000008.json").read_text())
    assert {int(client) for client in about["clients"]} == took_part
    before = json.loads((outcome.folder / "checkpoints" / "round-000000007.json").read_text())
    needed = {entry["file"] for each in (about, before) for entry in each["clients"].values()}
    assert {name for name in places if name.startswith("client")} == needed


def test_none_is_written_where_none_is_wanted(tiny_data: FederatedData, tmp_path: Path) -> None:
    folder = run_experiment(config(checkpoint_every=0), tiny_data, tiny_net(), tmp_path).folder
    assert folder
    assert not (folder / "checkpoints").exists()


def test_by_themselves_they_take_little_of_the_time(tiny_data: FederatedData, tmp_path: Path) -> None:
    prepared = reopen_run(halved(tiny_data, tmp_path), tiny_data, tiny_net())
    standing = prepared.standing
    assert standing
    now = 0.0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "perf_counter", lambda: now)
        automatic = Checkpoints(tmp_path / "automatic", config(checkpoint_every=None), None)
        due = []
        ordinary = write_atomically

        def slow(path: Path, content: str | bytes) -> None:
            nonlocal now
            now += 1.0
            ordinary(path, content)

        patch.setattr(module, "write_atomically", slow)
        while now < 300:
            now += 1.0
            if automatic.due(1):
                due.append(now)
                automatic._round = None
                automatic.write(standing, "")
    assert due[0] == 5
    assert all(40 <= two - one <= 44 for one, two in itertools.pairwise(due))  # two files, a second each


def test_a_full_disk_costs_a_checkpoint_not_the_run(
    tiny_data: FederatedData, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: Path, content: str | bytes) -> None:
        raise TurboSVMError(f"Cannot write file '{path}': No space left on device.")

    folder = halved(tiny_data, tmp_path)
    prepared = reopen_run(folder, tiny_data, tiny_net())
    with monkeypatch.context() as patch:
        patch.setattr(module, "write_atomically", full)
        outcome = run_on(prepared)
    assert len(outcome.records) == 6
    told = [note for note in outcome.notes if "no checkpoint of some rounds" in note and "No space left" in note]
    assert len(told) == 1  # of three
    folder_of = reopen_run(folder, tiny_data, tiny_net())
    assert folder_of.ending
    assert folder_of.folder
    found = checkpoints_of(folder_of, folder_of.folder).latest(folder / "records.jsonl", 6, begin_at(folder_of))
    assert found.standing is not None
    assert found.standing.round == 3
    assert not [path for path in (folder / "checkpoints").iterdir() if path.name.startswith(".")]


def test_a_run_that_could_not_write_its_records_goes_on_later(tiny_data: FederatedData, tmp_path: Path) -> None:
    whole = run_experiment(config(), tiny_data, tiny_net(), tmp_path / "whole").folder
    folder = halved(tiny_data, tmp_path / "halved")
    prepared = reopen_run(folder, tiny_data, tiny_net())
    ordinary = RunFolder.begin

    def on_a_full_disk(self: RunFolder, done: int = 0) -> None:
        ordinary(self, done)
        assert self._records
        self._records.close()
        self._records = Path("/dev/full").open("ab")  # noqa: SIM115 (the folder closes it)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RunFolder, "begin", on_a_full_disk)
        with pytest.raises(TurboSVMError, match=r"Cannot write records in '.*': No space left on device"):
            run_on(prepared)
    finish(folder, tiny_data)
    assert whole
    assert same(whole, folder)


def test_a_folder_that_cannot_be_written_into_is_told_of(tiny_data: FederatedData, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(TurboSVMError, match=r"Cannot write folder '.*file"):
        run_experiment(config(), tiny_data, tiny_net(), tmp_path / "file")
    folder = halved(tiny_data, tmp_path / "halved")
    (folder / ".lock").unlink()
    (folder / ".lock").mkdir()
    with pytest.raises(TurboSVMError, match="Cannot write folder"):
        reopen_run(folder, tiny_data, tiny_net())


def test_other_data_than_before_is_refused(tiny_data: FederatedData, tmp_path: Path) -> None:
    folder = halved(tiny_data, tmp_path)
    about = unsealed((folder / "environment.json").read_bytes())
    about["data"]["samples_train"] += 1
    (folder / "environment.json").write_text(sealed(about))
    with pytest.raises(TurboSVMError, match=r"was run on other data than .*: samples_train differ"):
        reopen_run(folder, tiny_data, tiny_net())
    with pytest.raises(TurboSVMError, match=r"is not a run's folder: there is no config\.yaml in it"):
        reopen_run(tmp_path)
    (folder / "environment.json").write_text("{")
    with pytest.raises(TurboSVMError, match=r"Cannot read '.*environment.json'"):
        reopen_run(folder, tiny_data, tiny_net())


def test_another_model_than_before_is_refused(tiny_data: FederatedData, tmp_path: Path) -> None:
    """And not taken for damage, after which all rounds would be done again with it."""
    folder = halved(tiny_data, tmp_path)
    before = (folder / "records.jsonl").read_bytes()
    with pytest.raises(
        TurboSVMError, match=r"is of another model or algorithm than is there now: of parameters, 'head.bias' is gone"
    ):
        reopen_run(folder, tiny_data, tiny_net(bias=False))
    assert (folder / "records.jsonl").read_bytes() == before
    assert finish(folder, tiny_data).notes == []


def test_what_was_not_removed_before_the_end_is_removed_after_it(
    tiny_data: FederatedData, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:  # killed before the last checkpoints are tidied
        patch.setattr(Checkpoints, "_tidy", lambda *_: None)
        folder = run_experiment(config(), tiny_data, tiny_net(), tmp_path).folder
    assert folder
    (folder / "ended.json").unlink()
    assert len(list((folder / "checkpoints").glob("round-*.json"))) == 6
    finish(folder, tiny_data)
    assert len(list((folder / "checkpoints").glob("round-*.json"))) == 2


def test_another_config_than_before_is_refused(tiny_data: FederatedData, tmp_path: Path) -> None:
    folder = halved(tiny_data, tmp_path)
    text = (folder / "config.yaml").read_text()
    (folder / "config.yaml").write_text(text.replace("client_memory_mb: 1024", "client_memory_mb: 7"))
    assert len(reopen_run(folder, tiny_data, tiny_net()).records) == 3  # which says how, not what
    (folder / "config.yaml").write_text(text.replace("seed: 0\ntarget", "seed: 1\ntarget"))
    with pytest.raises(
        TurboSVMError, match=r"config.yaml' has been changed since the run was planned: seed is 1, it was"
    ):
        reopen_run(folder, tiny_data, tiny_net())


def test_from_python(tiny_data: FederatedData, tmp_path: Path) -> None:
    settings: dict[str, Any] = {"rounds": 6, "clients_per_round": 3, "checkpoint_every": 1}
    whole = turbosvm.run("moon", data=tiny_data, model=tiny_net(), out=tmp_path / "whole", **settings)
    with pytest.raises(KeyboardInterrupt):
        turbosvm.run(
            "moon", data=tiny_data, model=tiny_net(), out=tmp_path / "halved", on_record=stop_after(2), **settings
        )
    folder, seen = tmp_path / "halved" / "moon-seed0", []
    with pytest.raises(TurboSVMError, match="must be handed over again"):
        turbosvm.resume(folder)  # the run's data was handed over, so it has to be once more
    with pytest.raises(TurboSVMError, match="There is no data folder '/no/where'"):
        turbosvm.resume(folder, data="/no/where")
    result = turbosvm.resume(
        folder, data=tiny_data, model=tiny_net(), on_record=lambda record: seen.append(record["round"])
    )
    assert seen == [3, 4, 5, 6]
    one, two = (each.records.filter(regex="^(?!seconds_)") for each in (result, whole))
    pd.testing.assert_frame_equal(one, two[one.columns], check_exact=True)
    assert torch.equal(result.model.get_parameter("head.weight"), whole.model.get_parameter("head.weight"))


# Killed processes. They are forked from one that has imported everything, since that takes longest.


@pytest.fixture(scope="module")
def processes() -> Any:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["turbosvm.experiment.runner"])
    return context


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folders = {name: killed.plan(tmp_path_factory.mktemp("whole"), name) for name in ("scaffold", "turbosvm")}
    for folder in folders.values():
        run_on(reopen_run(folder))
    return folders


def start(processes: Any, folder: Path, *arguments: Any) -> BaseProcess:
    """Have another process go on with a run, and wait until it is at its rounds, or dead."""
    ready = processes.Event()
    process: BaseProcess = processes.Process(target=killed.go_on, args=(folder, ready, *arguments))
    process.start()
    while process.is_alive() and not ready.wait(0.02):
        pass
    return process


@pytest.mark.timeout(300)
def test_killed_at_any_moment_a_run_ends_with_the_same_weights(
    processes: Any, uninterrupted: dict[str, Path], tmp_path: Path, record_property: Note
) -> None:
    record_property("tried", KILLS)
    draw, names = random.Random(0), ["scaffold", "turbosvm"]
    folders = [killed.plan(tmp_path, names[0])]
    deaths: list[int] = []
    longest = LONGEST
    while len(deaths) < KILLS:
        done = len(recorded(folders[-1]))
        process = start(processes, folders[-1])
        sleep(draw.uniform(0, longest))
        process.kill()
        process.join()
        if process.exitcode == -signal.SIGKILL:
            deaths.append(len(recorded(folders[-1])))
            longest = LONGEST if deaths[-1] > done else 1.3 * longest  # until it gets somewhere, on any machine
        else:
            assert process.exitcode == 0
            assert is_finished(folders[-1])
            folders.append(killed.plan(tmp_path, names[len(folders) % 2]))
            longest = LONGEST
    start(processes, folders[-1]).join()
    assert len(set(deaths)) > 3, deaths
    assert all(is_finished(folder) for folder in folders)
    for place, folder in enumerate(folders):
        assert same(uninterrupted[names[place % 2]], folder)


@pytest.mark.parametrize("call", ["fsync", "replace"])
@pytest.mark.timeout(300)
def test_killed_in_the_middle_of_a_write(
    call: str, processes: Any, uninterrupted: dict[str, Path], tmp_path: Path, record_property: Note
) -> None:
    folder = killed.plan(tmp_path, "scaffold")
    left_behind, deaths = 0, 0
    for times in range(2, 12):
        process = start(processes, folder, call, times)
        process.join()
        deaths += process.exitcode == -signal.SIGKILL
        left_behind += bool(
            list((folder / "checkpoints").glob(".round*")) + list((folder / "checkpoints").glob(".client*"))
        )
    record_property("tried", deaths)
    assert deaths >= 8
    assert left_behind >= 3  # it was in the middle of a checkpoint's file
    start(processes, folder).join()
    assert same(uninterrupted["scaffold"], folder)
    assert not [path for path in (folder / "checkpoints").iterdir() if path.name.startswith(".")]


def test_a_second_process_is_refused(processes: Any, tmp_path: Path) -> None:
    folder = killed.plan(tmp_path, "fedavg")
    ready = processes.Event()
    process: BaseProcess = processes.Process(target=killed.hold, args=(folder, ready))
    process.start()
    assert ready.wait(60)
    with pytest.raises(TurboSVMError, match="is in use: another process is at this run"):
        reopen_run(folder)
    process.kill()
    process.join()
    run_on(reopen_run(folder))
    assert is_finished(folder)
