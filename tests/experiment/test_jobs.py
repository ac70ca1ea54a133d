"""Whoever carries out the runs of a sweep: one process, several, Ray; and what becomes of them when one ends."""

import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.conftest import turbosvm
from tests.experiment.sweeps import TRUSTED, do, planned, sweep, sweep_settings, timeless, unwatched
from turbosvm.errors import TurboSVMError
from turbosvm.experiment import jobs
from turbosvm.experiment.ending import is_finished
from turbosvm.experiment.grid import read_sweep
from turbosvm.experiment.jobs import Cluster, in_processes, needs_of, on_ray, one_by_one
from turbosvm.experiment.sweep import plan_sweep

pytestmark = pytest.mark.usefixtures("sweep_files")


def test_processes_do_what_one_process_does(tmp_path: Path) -> None:
    alone = planned(sweep(), tmp_path / "alone")
    list(one_by_one([run.path for run in alone], unwatched, TRUSTED))
    looks = []
    side = planned(sweep(), tmp_path / "side")
    ends = list(in_processes([run.path for run in side], 2, lambda: looks.append(1), TRUSTED))
    assert {ended.path for ended in ends} == {run.path for run in side}
    assert looks
    for one, two in zip(alone, side, strict=True):
        assert timeless(one.path) == timeless(two.path)
        assert (one.path / "model.safetensors").read_bytes() == (two.path / "model.safetensors").read_bytes()


@pytest.mark.skipif(find_spec("ray") is None, reason="Ray is not installed")
@pytest.mark.filterwarnings("ignore")
def test_ray_does_what_one_process_does(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    alone = planned(sweep(), tmp_path / "alone")
    list(one_by_one([run.path for run in alone], unwatched, TRUSTED))
    content = {"set": {**sweep_settings("Net"), "evaluate_every": 1}, "grid": {"algorithm": ["fedavg", "turbosvm"]}}
    (tmp_path / "cluster.yaml").write_text(yaml.safe_dump({**content, "name": "cluster", "preset": "glyphs"}))
    assert turbosvm("sweep", "cluster.yaml", "--engine", "ray", "--jobs", "2", "--out", "out") == 0
    assert capsys.readouterr().out.count("after round 3") == 2
    for one in (run for run in alone if run.config.seed == 0):
        assert timeless(one.path) == timeless(tmp_path / "out" / "cluster" / one.path.name)


@pytest.mark.parametrize(
    ("settings", "jobs", "cluster", "needs"),
    [
        ({"threads": 1}, 2, Cluster(4, 0), {"num_cpus": 1}),
        ({"threads": 64}, None, Cluster(4, 0), {"num_cpus": 4}),
        ({"threads": 64}, None, Cluster(0, 0), {"num_cpus": 1}),
        ({"device": "cpu", "threads": 3}, 2, Cluster(4, 2), {"num_cpus": 3}),
        ({}, None, Cluster(4, 2), {"num_cpus": 1, "num_gpus": 1}),
        ({}, 2, Cluster(4, 2), {"num_cpus": 1, "num_gpus": 1}),
        ({}, 3, Cluster(4, 2), {"num_cpus": 1, "num_gpus": 0.5}),
        ({}, 1, Cluster(4, 8), {"num_cpus": 1, "num_gpus": 1}),
    ],
)
def test_ray_is_asked_for_no_more_than_there_is(
    settings: dict[str, Any], jobs: int | None, cluster: Cluster, needs: dict[str, float], tmp_path: Path
) -> None:
    (run, *_) = planned(sweep(set={**sweep_settings("Net"), **settings}), tmp_path / "out")
    assert needs_of(run.path, jobs, cluster) == needs


def test_a_cluster_that_cannot_be_reached_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    ray = pytest.importorskip("ray")

    def unreachable(**_: Any) -> None:
        raise ConnectionError("nobody there")

    monkeypatch.setattr(ray, "init", unreachable)
    with pytest.raises(TurboSVMError, match=r"neither reached nor started: ConnectionError: nobody there\."):
        list(on_ray([Path("run")], None, lambda: None))


def test_a_process_that_dies_takes_no_other_run_with_it(tmp_path: Path) -> None:
    (tmp_path / "deadly").touch()
    good = planned(sweep(), tmp_path / "good")
    bad = planned(sweep("Deadly", grid={"algorithm": ["fedavg"]}), tmp_path / "bad")
    ends = {ended.path: ended for ended in in_processes([run.path for run in (*bad, *good)], 2, lambda: None, TRUSTED)}
    assert "its process died" in str(ends[bad[0].path].failed)
    assert len(ends) == 5
    assert all(is_finished(run.path) for run in good)
    (tmp_path / "deadly").unlink()
    assert do(bad[0]).failed is None


def begin_long_sweep(folder: Path, jobs: str) -> "subprocess.Popen[str]":
    settings = {**sweep_settings("Net"), "rounds": 100_000, "evaluate_every": 50_000}
    (folder / "long.yaml").write_text(yaml.safe_dump({"set": settings, "grid": {"seed": [0, 1, 2]}}))
    return subprocess.Popen(
        [sys.executable, "-m", "turbosvm", "sweep", "long.yaml", "--jobs", jobs],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ,
        start_new_session=True,
    )


def wait_for_records(running: "subprocess.Popen[str]", folder: Path, runs: int) -> None:
    """Wait until so many runs of a long sweep are at their rounds."""
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and running.poll() is None:
        sizes = [path.stat().st_size for path in (folder / "runs").glob("long/*/records.jsonl")]
        if len([size for size in sizes if size > 4000]) >= runs:
            return
        time.sleep(0.1)


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_ctrl_c_stops_all_and_the_same_command_goes_on(jobs: str, tmp_path: Path) -> None:
    running = begin_long_sweep(tmp_path, jobs)
    wait_for_records(running, tmp_path, int(jobs))
    os.killpg(running.pid, signal.SIGINT)
    out, err = running.communicate(timeout=60)
    assert running.returncode == 130, err
    assert "Traceback" not in err
    assert "Stopped; the same command goes on." in out
    assert len(list((tmp_path / "runs").glob("long/*/checkpoints/round-*.json"))) >= int(jobs)


def processes_of(group: int) -> list[int]:
    """The processes that belong to a group, dead ones left out."""
    found = []
    for place in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, of = place.read_text().rpartition(")")[2].split()[:3]
        except OSError:
            continue
        if int(of) == group and state != "Z":
            found.append(int(place.parent.name))
    return found


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="there is no /proc to find processes in")
def test_processes_end_with_the_one_that_began_them(tmp_path: Path) -> None:
    running = begin_long_sweep(tmp_path, "2")
    wait_for_records(running, tmp_path, 2)
    assert len(processes_of(running.pid)) >= 3
    running.kill()
    running.communicate(timeout=60)
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and processes_of(running.pid):
        time.sleep(0.1)
    assert processes_of(running.pid) == []
    states = [run.state for run in plan_sweep(read_sweep(Path("long.yaml")), Path("runs") / "long")]
    assert sorted(state.split()[0] for state in states) == ["stopped", "stopped", "to"]


def test_ctrl_c_while_processes_start_is_quiet(tmp_path: Path) -> None:
    running = begin_long_sweep(tmp_path, "2")
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and len(list((tmp_path / "runs").glob("long/*/environment.json"))) < 3:
        time.sleep(0.02)
    time.sleep(0.3)
    os.killpg(running.pid, signal.SIGINT)
    out, err = running.communicate(timeout=60)
    assert running.returncode == 130, err
    assert "Traceback" not in err
    assert "Stopped; the same command goes on." in out


def test_a_signal_in_the_middle_of_a_wait_is_answered_after_it() -> None:
    done = []

    def wait() -> None:
        with jobs._signals_put_off():
            os.kill(os.getpid(), signal.SIGINT)
            done.append("the wait")
        done.append("not this")

    with pytest.raises(KeyboardInterrupt):
        wait()
    assert done == ["the wait"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_signals_are_none_of_other_threads_business() -> None:
    with ThreadPoolExecutor() as pool:
        pool.submit(lambda: jobs._signals_put_off().__enter__()).result()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.parametrize("at_work", [True, False])
def test_a_process_that_is_told_to_end_does_not_wait_for_work(at_work: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    ended: list[int] = []
    monkeypatch.setattr(os, "_exit", ended.append)
    heard = jobs.CtrlC()
    heard.at_work = at_work
    with pytest.raises(KeyboardInterrupt) if at_work else nullcontext():
        heard.heard(signal.SIGTERM, None)
    assert ended == ([] if at_work else [143])
    heard.at_work = False
    heard.end_if_told()
    assert ended[-1] == 143
    quiet = jobs.CtrlC()
    quiet.heard(signal.SIGINT, None)
    quiet.end_if_told()
    assert len(ended) == (1 if at_work else 2)


def test_a_script_without_a_guard_is_told_of_it(tmp_path: Path) -> None:
    settings = {**sweep_settings("Net"), "rounds": 1}
    script = f"import turbosvm\nturbosvm.sweep({{'set': {settings!r}, 'grid': {{'seed': [0, 1]}}}}, jobs=2)\n"
    (tmp_path / "unguarded.py").write_text(script)
    ran = subprocess.run([sys.executable, "unguarded.py"], capture_output=True, text=True, timeout=120)
    assert ran.returncode == 1
    assert 'must be called under `if __name__ == "__main__":`' in ran.stderr
    assert ran.stderr.count("Traceback") == 1  # the script's own
    assert "All of the 2 runs" in ran.stderr.splitlines()[-1]
