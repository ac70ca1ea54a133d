"""Sweeps: done runs are skipped, others go on, failed ones are tried again."""

import platform
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

import turbosvm as package
from tests.conftest import turbosvm
from tests.experiment.sweeps import TRUSTED, do, planned, sweep, sweep_settings, timeless, unwatched
from turbosvm.data import store
from turbosvm.data.federated import FederatedData
from turbosvm.errors import TurboSVMError
from turbosvm.experiment.folder import RunFolder
from turbosvm.experiment.grid import Changes, read_sweep
from turbosvm.experiment.jobs import one_by_one
from turbosvm.experiment.prepared import adopt, reopen_run
from turbosvm.experiment.recorded import recorded
from turbosvm.experiment.runner import run_on
from turbosvm.experiment.sweep import Ended, make_ready, plan_sweep
from turbosvm.files import write_atomically
from turbosvm.seals import sealed, unsealed

pytestmark = pytest.mark.usefixtures("sweep_files")


def test_runs_have_the_same_folders_each_time(tmp_path: Path) -> None:
    runs = planned(sweep(), tmp_path / "out")
    assert [run.path for run in plan_sweep(sweep(), tmp_path / "out")] == [run.path for run in runs]
    assert len({run.path for run in runs}) == 4
    assert not any(run.done for run in runs)
    ends = list(one_by_one([run.path for run in runs], unwatched, TRUSTED))
    assert [ended.failed for ended in ends] == [None] * 4
    assert all(run.done for run in runs)
    assert not any((run.path / "checkpoints").exists() for run in runs)
    other = plan_sweep(sweep(grid={"algorithm": ["fedavg"], "seed": [0, 2]}), tmp_path / "out")
    assert [run.done for run in other] == [True, False]


def test_a_run_that_fails_is_told_of_and_tried_again(tmp_path: Path) -> None:
    (tmp_path / "faulty").touch()
    runs = planned(sweep("Faulty", set={**sweep_settings("Faulty"), "on_bad_client": "abort"}), tmp_path / "out")
    ends = list(one_by_one([run.path for run in runs], unwatched, TRUSTED))
    assert all("all gone" in str(ended.failed) for ended in ends)
    assert not any(run.done for run in runs)
    (tmp_path / "faulty").unlink()
    assert [do(run).failed for run in runs] == [None] * 4
    assert all(run.done for run in runs)


def test_a_run_that_diverges_fails_each_time(tmp_path: Path) -> None:
    settings = {**sweep_settings("Net"), "max_failed_rounds": 0}
    (run,) = planned(sweep(set=settings, grid={"client.learning_rate": [1e30]}), tmp_path / "out")
    for _ in range(2):
        assert not run.done
        assert "1 round" in str(do(run).failed)
    assert not run.done


@pytest.mark.parametrize("every", [0, 1])
def test_what_failed_for_good_begins_again(every: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "faulty").touch()
    settings = {**sweep_settings("Faulty"), "max_failed_rounds": 1, "rounds": 5, "checkpoint_every": every}
    (run,) = planned(sweep(set=settings, grid={"seed": [0]}), tmp_path / "out")
    assert "2 rounds failed" in str(do(run).failed)
    assert (run.state, run.rounds_left) == ("failed", 5)
    assert turbosvm("resume", str(run.path), "--trust-code", *TRUSTED) == 1
    shown = capsys.readouterr().out
    assert "fedavg seed 0 stopped before, after round 2, and stays as it is" in shown
    assert "fedavg seed 0 stopped: 2 rounds failed (max_failed_rounds is 1). Round 2: " in shown
    (tmp_path / "faulty").unlink()
    assert do(run).failed is None
    assert [record["failed"] for record in recorded(run.path)] == [None] * 5


def test_what_failed_with_rounds_left_goes_on_from_its_checkpoint(tmp_path: Path) -> None:
    settings = {**sweep_settings("Faulty"), "on_bad_client": "abort", "rounds": 4, "checkpoint_every": 1}
    (run,) = planned(sweep(set=settings, grid={"seed": [0]}), tmp_path / "out")

    def spoil(record: dict[str, Any]) -> None:
        if record["round"] == 2:
            (tmp_path / "faulty").touch()

    assert "all gone" in str(do(run, spoil).failed)
    (tmp_path / "faulty").unlink()
    seen: list[int] = []
    assert do(run, lambda record: seen.append(record["round"])).failed is None
    assert seen == [3, 4]


def test_a_run_in_which_nothing_was_merged_has_failed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "faulty").touch()
    (tmp_path / "wild.yaml").write_text(yaml.safe_dump({"set": sweep_settings("Faulty")}))
    assert turbosvm("sweep", "wild.yaml") == 1
    shown = capsys.readouterr().out
    assert "Nothing was merged in any of its 3 rounds (0 usable clients, at least 1 are needed; clients: " in shown
    assert "MemoryError: all gone)." in shown
    assert turbosvm("sweep", "wild.yaml", "--dry-run") == 0
    assert "\nfailed  fedavg seed 0" in capsys.readouterr().out
    assert turbosvm("report", "runs", "--out", "report") == 0
    assert "fedavg seed 0 stopped. After round 3: Nothing was merged" in capsys.readouterr().out


def test_a_run_at_work_is_called_so(tmp_path: Path) -> None:
    first, *others = planned(sweep(), tmp_path / "out")
    with pytest.raises(ZeroDivisionError):
        run_on(reopen_run(first.path, trusted=TRUSTED), lambda record: 1 // (2 - record["round"]))
    assert first.state == "stopped after round 2"
    at_work = RunFolder.reopen(first.path)
    assert [run.state for run in (first, *others)] == ["at work", "to do", "to do", "to do"]
    at_work.release()
    assert first.state == "stopped after round 2"


def test_too_many_clients_are_found_by_the_dry_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "many.yaml").write_text(
        yaml.safe_dump({"set": sweep_settings("Net"), "grid": {"clients_per_round": [3, 300]}})
    )
    assert turbosvm("sweep", "many.yaml", "--dry-run") == 2
    assert "Config key 'clients_per_round' is 300; it must be from 1 to" in capsys.readouterr().err
    assert turbosvm("sweep", "many.yaml", "--dry-run", "--grid", "clients_per_round=3") == 0


def test_what_was_planned_but_not_begun_takes_new_settings(tmp_path: Path) -> None:
    (before, *_) = planned(sweep(), tmp_path / "out")
    (after, *_) = planned(sweep(set={**sweep_settings("Net"), "evaluate_every": 1, "threads": 2}), tmp_path / "out")
    assert after.path == before.path
    assert "threads: 2" in (after.path / "config.yaml").read_text()


def test_an_unfinished_run_goes_on_with_its_data_elsewhere_and_computes_as_it_began(tmp_path: Path) -> None:
    (before, *_) = planned(sweep(), tmp_path / "out")
    with pytest.raises(ZeroDivisionError):
        run_on(reopen_run(before.path, trusted=TRUSTED), lambda record: 1 // (2 - record["round"]))
    (tmp_path / "blobs").rename(tmp_path / "moved")
    settings = {**sweep_settings("Net"), "data": "moved", "evaluate_every": 1, "threads": 2, "checkpoint_every": 7}
    (after, *_) = planned(sweep(set=settings), tmp_path / "out")
    assert after.path == before.path
    assert not after.done
    assert do(after).failed is None
    kept = (after.path / "config.yaml").read_text()
    assert "threads: 1\n" in kept  # other threads sum in another order
    assert "checkpoint_every: 7\n" in kept
    assert [again["after_round"] for again in about(after.path)["resumed"]] == [2]
    (again, *_) = planned(sweep(set={**settings, "checkpoint_every": 8}), tmp_path / "out")
    assert again.done
    adopt(again.path, again.config)
    assert (again.path / "config.yaml").read_text() == kept


def test_a_run_whose_model_could_not_be_saved_is_not_done_and_keeps_its_checkpoints(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (run, *_) = planned(sweep(), tmp_path / "out")

    def full(path: Path, content: str | bytes) -> None:
        if path.name == "model.safetensors":
            raise TurboSVMError("the disk is full")
        write_atomically(path, content)

    with monkeypatch.context() as patch:
        patch.setattr("turbosvm.experiment.folder.write_atomically", full)
        ended = do(run)
    assert ended.failed == "it could not be saved"
    assert any("the disk is full" in remark for remark in ended.remarks)
    assert do(run).failed is None
    assert [again["after_round"] for again in about(run.path).get("resumed", [])] == []  # nothing was left to compute
    assert run.done


def test_ctrl_c_between_a_record_and_its_model_does_not_pass_for_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, cut, *_ = planned(sweep(grid={"seed": [0]}), tmp_path / "whole") + planned(
        sweep(grid={"seed": [0]}), tmp_path / "cut"
    )
    append = RunFolder.append

    def and_stop(folder: RunFolder, record: dict[str, Any]) -> None:
        append(folder, record)
        if record["round"] == 3:
            raise KeyboardInterrupt

    assert do(whole).failed is None
    with monkeypatch.context() as patch:
        patch.setattr(RunFolder, "append", and_stop)
        assert do(cut).interrupted
    assert len(recorded(cut.path)) == 3
    assert not cut.done
    assert do(cut).failed is None
    assert timeless(cut.path) == timeless(whole.path)
    assert (cut.path / "model.safetensors").read_bytes() == (whole.path / "model.safetensors").read_bytes()


def test_another_sweep_that_has_come_first_is_left_alone(tmp_path: Path) -> None:
    runs = plan_sweep(sweep(), tmp_path / "out")
    runs[0].path.mkdir(parents=True)
    other = RunFolder(runs[0].path)
    try:
        assert make_ready(runs) == [run.path for run in runs]
        ended = do(runs[0])
    finally:
        other.release()
    assert "config.yaml': No such file or directory" in str(ended.failed)
    assert (runs[1].path / "config.yaml").exists()


def test_a_finished_run_that_is_broken_stops_no_other(tmp_path: Path) -> None:
    first, *others = planned(sweep(), tmp_path / "out")
    assert do(first).failed is None
    (first.path / "config.yaml").write_text("rounds: [\n")
    make_ready([first, *others])
    ends = list(one_by_one([run.path for run in (first, *others)], unwatched, TRUSTED))
    assert [ended.failed is None for ended in ends] == [False, True, True, True]


def test_other_data_under_the_old_name_is_seen(tmp_path: Path, tiny_data: FederatedData) -> None:
    (before, *_) = planned(sweep(), tmp_path / "out")
    shutil.rmtree(tmp_path / "blobs")
    store.save(replace(tiny_data, labels=tiny_data.labels[::-1].copy(), digest=None), tmp_path / "blobs")
    (after, *_) = planned(sweep(), tmp_path / "out")
    assert after.path != before.path


def test_a_planned_run_notes_the_machine_that_carries_it_out(tmp_path: Path) -> None:
    (run, *_) = planned(sweep(), tmp_path / "out")
    file = run.path / "environment.json"
    file.write_text(sealed({**about(run.path), "python": "2.7", "engine": "none"}))
    assert do(run).failed is None
    assert about(run.path)["python"] == platform.python_version()
    assert about(run.path)["engine"] != "none"
    assert "resumed" not in about(run.path)


def about(path: Path) -> dict[str, Any]:
    return unsealed((path / "environment.json").read_bytes())


def test_a_mistake_of_ours_leaves_its_trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (run, *_) = planned(sweep(), tmp_path / "out")
    with monkeypatch.context() as patch:
        patch.setattr("turbosvm.experiment.sweep.run_on", lambda *_: 1 / 0)
        ended = do(run)
    assert "division by zero" in str(ended.failed)
    assert "ZeroDivisionError" in (run.path / "error.txt").read_text()
    assert do(run) == Ended(run.path)
    assert not (run.path / "error.txt").exists()


def test_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    content = {"set": sweep_settings("Net"), "grid": {"algorithm": ["fedavg", "turbosvm"], "seed": [0, 1]}}
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump(content))
    assert turbosvm("sweep", "mine.yaml", "--dry-run") == 0
    shown = capsys.readouterr().out
    assert "blobs: 20 users, " in shown
    assert "4 runs in runs/mine: 0 done, 4 to do, with 12 rounds\n" in shown
    assert "to do  turbosvm seed 1  in turbosvm-seed1-" in shown
    assert not (tmp_path / "runs").exists()
    assert turbosvm("sweep", "mine.yaml", "--set", "rounds=2") == 0
    shown = capsys.readouterr().out
    assert shown.count("after round 2") == 4
    assert "\nfedavg seed 0: accuracy " in shown
    assert (tmp_path / "runs" / "mine" / "report" / "tables.md").exists()
    assert turbosvm("sweep", "mine.yaml", "--set", "rounds=2") == 0
    assert "4 runs in runs/mine: 4 done, 0 to do" in capsys.readouterr().out
    assert turbosvm("sweep", "mine.yaml", "--engine", "slurm") == 2
    assert "Unknown engine 'slurm' of a sweep; allowed: local, ray" in capsys.readouterr().err
    assert turbosvm("sweep", "other.yaml") == 2
    assert "Cannot read 'other.yaml': No such file" in capsys.readouterr().err
    (tmp_path / "faulty").touch()
    assert turbosvm("sweep", "mine.yaml", "--set", "model=sweep_models:Faulty", "--set", "on_bad_client=abort") == 1
    shown = capsys.readouterr().out
    assert "4 of 4 runs failed; the same command tries them again" in shown


def test_a_dry_run_tells_how_far_runs_are(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    content = {
        "set": sweep_settings("Net"),
        "grid": {"algorithm": ["fedavg"], "turbosvm.head.kernel": ["linear", "rbf"]},
    }
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump(content))
    assert turbosvm("sweep", "mine.yaml", "--seeds", "0") == 0
    second, third = planned(read_sweep(Path("mine.yaml"), Changes(seeds=[1, 2])), Path("runs") / "mine")
    with pytest.raises(ZeroDivisionError):
        run_on(reopen_run(second.path, trusted=TRUSTED), lambda record: 1 // (2 - record["round"]))
    (third.path / "error.txt").touch()
    capsys.readouterr()
    assert turbosvm("sweep", "mine.yaml", "--seeds", "0,1,2,3", "--dry-run") == 0
    shown = capsys.readouterr().out
    combined = "(8 combinations, of which 4 mean the same as others)"
    assert f"4 runs in runs/mine {combined}: 1 done, 3 to do, with 7 rounds\n" in shown
    states = ("done", "stopped after round 2", "failed", "to do")
    for seed, state in enumerate(states):
        assert f"\n{state:21}  fedavg seed {seed}  in fedavg-seed{seed}-" in shown
    (tmp_path / "nothing.yaml").write_text("# to be filled in\n")
    assert turbosvm("sweep", "nothing.yaml") == 2
    assert "In nothing.yaml: there is nothing; a sweep has 'set', 'grid' or 'runs'." in capsys.readouterr().err


def test_resume_in_a_sweeps_folder_averages_seeds_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    grid = {"algorithm": ["turbosvm"], "turbosvm.head.selection": [True, False], "seed": [0, 1]}
    runs = planned(sweep(grid=grid), tmp_path / "out")
    list(one_by_one([run.path for run in runs[:3]], unwatched, TRUSTED))
    assert turbosvm("resume", str(tmp_path / "out"), "--trust-code", *TRUSTED) == 0
    shown = capsys.readouterr().out
    assert "turbosvm selection=true" in shown
    assert "turbosvm selection=false" in shown
    assert all(run.done for run in runs)


def test_from_python(tmp_path: Path) -> None:
    content: dict[str, Any] = {"name": "mine", "set": sweep_settings("Net")}
    content["grid"] = {"algorithm": ["fedavg", "fedavgm"]}
    ends: list[tuple[Path, str | None]] = []
    swept = package.sweep(content, out=tmp_path / "out", rounds=2, on_end=lambda *end: ends.append(end))
    assert [(path.name.split("-")[0], path.parent, why) for path, why in ends] == [
        ("fedavg", swept.folder, None),
        ("fedavgm", swept.folder, None),
    ]
    assert swept.folder == tmp_path / "out" / "mine"
    assert repr(swept) == f"Swept(2 runs in '{tmp_path}/out/mine')"
    assert [(run.algorithm, run.final["round"]) for run in swept.runs] == [("fedavg", 2), ("fedavgm", 2)]
    assert set(swept.table["algorithm"]) == {"fedavg", "fedavgm"}
    assert {"seeds", "rounds to 60%", "accuracy %"} <= set(swept.table.columns)
    assert {"measure", "mean", "std"} <= set(swept.numbers.columns)
    assert repr(swept.runs[0]) == "RunRecords(fedavg seed 0 on blobs, 2 rounds)"
    assert (swept.folder / "report" / "index.html").is_file()
    (tmp_path / "faulty").touch()
    with pytest.raises(
        TurboSVMError, match=r"All of the 2 runs in '.*mine' failed; the first, fedavg-seed0-.*all gone"
    ):
        package.sweep(content, out=tmp_path / "out", model="sweep_models:Faulty", on_bad_client="abort")
    content["grid"]["model"] = ["sweep_models:Net", "sweep_models:Faulty"]
    with pytest.warns(UserWarning, match=r"fedavgm?-seed0-\w+ failed: .*all gone"):
        again = package.sweep(content, out=tmp_path / "out", rounds=2, on_bad_client="abort")
    assert len(again.failed) == 2
    assert all("all gone" in why for why in again.failed.values())
    smaller = {"algorithm": ["fedavg"], "model": ["sweep_models:Net"]}
    part = package.sweep(content, out=tmp_path / "part", seeds=[3, 4], grid=smaller, rounds=1)
    assert [(run.algorithm, run.seed) for run in part.runs if run.final] == [("fedavg", 3), ("fedavg", 4)]
    wrongs: list[tuple[dict[str, Any], str]] = [
        ({"jobs": 0}, "jobs is 0; it must be at least 1"),
        ({"seeds": []}, "The list of 'seed' in the grid of the sweep is to have no values"),
        ({"seeds": 3}, "seeds is 3; it must be a list of values"),
        ({"seeds": "01"}, "seeds is '01'; it must be a list of values"),
        ({"grid": {"algorithm": "fedavg"}}, r"grid\['algorithm'\] is 'fedavg'; it must be a list of values"),
        ({"seeds": [1], "grid": {"seed": [2]}}, "There are seeds, and a list of 'seed'"),
    ]
    for wrong, message in wrongs:
        with pytest.raises(TurboSVMError, match=message):
            package.sweep(content, out=tmp_path / "part", **wrong)


def test_a_damaged_model_of_a_run_that_was_done_is_made_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    content = {"set": sweep_settings("Net"), "grid": {"algorithm": ["fedavg"], "seed": [0, 1]}}
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump(content))
    assert turbosvm("sweep", "mine.yaml") == 0
    (model,) = Path("runs/mine").glob("fedavg-seed1-*/model.safetensors")
    whole = model.read_bytes()
    model.write_bytes(whole[:-1] + bytes([whole[-1] ^ 4]))
    capsys.readouterr()
    assert turbosvm("sweep", "mine.yaml", "--dry-run") == 0
    assert "\ndamaged  fedavg seed 1  in " in capsys.readouterr().out
    assert turbosvm("sweep", "mine.yaml") == 0
    assert "model.safetensors' is damaged: it is not what was written." in capsys.readouterr().out
    assert model.read_bytes() == whole


def test_a_folder_that_holds_another_run_than_its_name_says_is_refused(tmp_path: Path) -> None:
    first, second, *_ = planned(sweep(), tmp_path / "out")
    assert do(first).failed is None
    shutil.rmtree(second.path)
    shutil.copytree(first.path, second.path)
    with pytest.raises(TurboSVMError, match=r"holds another run than its name says \(seed is 1, it was 0\)"):
        planned(sweep(), tmp_path / "out")
