"""`reproduce` and `tune`, as a person sees them."""

from pathlib import Path

import pytest
import yaml

from tests.conftest import turbosvm
from turbosvm.data import store
from turbosvm.data.federated import FederatedData
from turbosvm.experiment.grid import Changes, make_sweep, read_sweep
from turbosvm.experiment.ready import about, ready_sweeps

EXPERIMENTS = Path(__file__).parents[2] / "experiments"

MODEL = """
import torch

class Net(torch.nn.Module):
    head_name = "head"

    def __init__(self):
        super().__init__()
        self.body, self.head = torch.nn.Linear(4, 8), torch.nn.Linear(8, 3)

    def forward(self, inputs):
        return self.head(self.body(inputs).relu())
"""
SMALL = ("--set", "model=small_models:Net", "--set", "clients_per_round=3", "--set", "data.min_samples=1")


@pytest.fixture(autouse=True)
def own_files(tiny_data: FederatedData, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store.save(tiny_data, tmp_path / "blobs")
    (tmp_path / "small_models.py").write_text(MODEL)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")


RUNS = {"clients": 315, "costs": 45, "embedding": 15, "epochs": 315, "kernels": 9, "rounds": 105, "schemes": 30}


def test_every_table_of_the_paper_has_a_file() -> None:
    sweeps = ready_sweeps()
    assert {name: len(read_sweep(file).configs) for name, file in sweeps.items()} == RUNS
    assert all(about(file) for file in sweeps.values())
    assert {path.stem: path for path in (EXPERIMENTS / "paper").glob("*.yaml")} == sweeps
    assert len(read_sweep(EXPERIMENTS / "ablations.yaml").configs) == 42
    assert len(read_sweep(EXPERIMENTS / "results.yaml").configs) == 63


def test_the_files_hold_what_the_paper_did() -> None:
    sweeps = ready_sweeps()
    first = read_sweep(sweeps["rounds"]).configs
    assert {(run.rounds, run.clients_per_round, run.client.epochs) for run in first} == {(200, 8, 1)}
    assert {run.seed for run in first} == {0, 1, 2, 3, 4}
    sizes = {(run.model.options["embedding"], run.clients_per_round) for run in read_sweep(sweeps["embedding"]).configs}
    assert sizes == {(size, clients) for size in (4, 16, 64, 256, 1024) for clients in (8, 64, 512)}
    kernels = [run.algorithm.head for run in read_sweep(sweeps["kernels"]).configs]
    assert [(head["kernel"], head["degree"], head["learning_rate"]) for head in kernels][:3] == [
        ("linear", 3, 0.01),
        ("poly", 2, 0.0001),
        ("poly", 2, 0.01),
    ]


def test_changes_narrow_a_table() -> None:
    changes = Changes({"rounds": 5}, {"preset": ["celeba"]}, [3, 4], {"celeba": "mine"})
    runs = read_sweep(ready_sweeps()["rounds"], changes).configs
    assert len(runs) == 7 * 2
    assert {run.seed for run in runs} == {3, 4}
    assert {run.seed for run in make_sweep({"set": {"rounds": 2}}, Changes(seeds=[3, 4])).configs} == {3, 4}
    assert {(run.data.name, run.rounds) for run in runs} == {("mine", 5)}


def test_reproduce_lists_and_refuses(capsys: pytest.CaptureFixture[str]) -> None:
    assert turbosvm("reproduce") == 0
    assert "rounds     The paper's first two tables" in capsys.readouterr().out
    for arguments, message in (
        (("rouds",), "Unknown table 'rouds'; allowed: clients, costs, embedding, epochs, kernels, rounds, schemes."),
        (("rounds",), "No data of femnist, celeba, shakespeare is prepared: turbosvm data prepare femnist"),
        (("kernels",), "The task 'celeba' needs its data: prepare it (turbosvm data prepare celeba --from PLACE)"),
        (("rounds", "--data", "celeba=blobs", "--grid", "preset=celeba"), "is said with --data, not with --grid"),
        (("rounds", "--data", "celeba=blobs", "--rounds", "0"), "Config key 'rounds' is 0"),
        (("rounds", "--data", "celeba=blobs", "--seeds", ""), "Seeds '' are not whole numbers"),
        (("rounds", "--data", "celeba=blobs", *2 * ("--grid", "seed=1")), "There are two lists of 'seed'; give one"),
        (("kernels", "--data", "femnist=blobs"), "The table 'kernels' is of celeba; it has nothing of femnist."),
        (
            ("rounds", "--data", "celeba=blobs", "--grid", "algorithm"),
            "write key=value, for instance client.epochs=1,2",
        ),
        (
            ("rounds", "--data", "celeba=blobs", "--grid", "algorithm=["),
            "The value in 'algorithm=[' is not YAML as settings are written",
        ),
        (
            ("rounds", "--data", "mnist=blobs"),
            "Unknown task 'mnist' of the paper; allowed: celeba, femnist, shakespeare.",
        ),
        (("rounds", "--data", "glyphs"), "Unknown task 'glyphs' of the paper"),
        (("rounds", "--data", "femnist=nowhere"), "nowhere"),
        (("rounds", "--data", "celeba=blobs", "--seeds", "x"), "Seeds 'x' are not whole numbers"),
    ):
        assert turbosvm("reproduce", *arguments) == 2
        assert message in capsys.readouterr().err


def test_reproduce_runs_a_table_and_prints_it_beside_the_paper(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ("reproduce", "rounds", "--data", "celeba=blobs", "--seeds", "0,1", "--rounds", "2", *SMALL)
    assert turbosvm(*arguments) == 0
    shown = capsys.readouterr().out
    assert "14 runs in runs/rounds: 0 done, 14 to do" in shown
    assert "difference from fedavg at the same seeds" in shown
    assert (tmp_path / "runs" / "rounds" / "report" / "index.html").is_file()
    assert turbosvm(*arguments, "--dry-run") == 0
    assert "14 runs in runs/rounds: 14 done, 0 to do" in capsys.readouterr().out


def test_a_table_that_asks_for_too_much_is_made_smaller(capsys: pytest.CaptureFixture[str]) -> None:
    model = ("--set", "model=small_models:Net", "--set", "data.min_samples=1")
    arguments = ("reproduce", "clients", "--data", "femnist=blobs", "--seeds", "0", "--rounds", "1", *model)
    assert turbosvm(*arguments) == 2
    assert "Config key 'clients_per_round' is 32; it must be from 1 to" in capsys.readouterr().err
    assert turbosvm(*arguments, "--grid", "clients_per_round=2,3", "--grid", "algorithm=fedavg") == 0
    shown = capsys.readouterr().out
    assert "2 runs in runs/clients: 0 done, 2 to do, with 2 rounds" in shown
    assert ["fedavg C=2" in shown, "fedavg C=3" in shown, "C=8" in shown] == [True, True, False]


def test_tune_searches_the_clients_rate_then_the_servers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ("tune", "fedadam", "moon", "turbosvm", "--data", "blobs", "--rates", "1e-4,0.2,1e30", "--rounds", "4")
    assert turbosvm(*arguments, *SMALL, "--dry-run") == 0
    shown = capsys.readouterr().out
    assert "First the clients' rate, as below; then, with the best, 6 runs with 24 rounds." in shown
    assert shown.count("to do  fedavg") == 3
    assert not (tmp_path / "runs").exists()
    assert turbosvm(*arguments, *SMALL, "--set", "max_failed_rounds=0") == 0
    shown = capsys.readouterr().out
    assert "moon has no learning rate on the server" in shown
    tuned = yaml.safe_load((tmp_path / "runs" / "tune-glyphs" / "tuned.yaml").read_text())
    assert tuned["client"] == {"learning_rate": 0.2}  # 1e-4 learns nothing in four rounds, 1e30 diverges
    assert list(tuned) == ["client", "fedadam", "turbosvm"]
    assert tuned["fedadam"]["body"]["learning_rate"] in (1e-4, 0.2)
    assert sum(line.rstrip().endswith(" best") for line in shown.splitlines()) == 3
    own = ("--data", "blobs", "--config", str(tmp_path / "runs" / "tune-glyphs" / "tuned.yaml"), "--rounds", "2")
    assert turbosvm("run", "fedadam", *own, *SMALL) == 0
    capsys.readouterr()
    assert turbosvm("tune", "--data", "blobs", "--rates", "1e30", "--rounds", "2", "--out", "bad", *SMALL) == 2
    assert "With none of the rates did a run go well" in capsys.readouterr().err
    assert turbosvm("tune", "--set", "client.learning_rate=1") == 2
    assert "client.learning_rate is what is searched" in capsys.readouterr().err
    assert turbosvm("tune", "--rates", "a") == 2
    assert "Rates 'a' are not numbers" in capsys.readouterr().err
    assert turbosvm("tune", "--rates", "0") == 2
    assert "must be larger than 0" in capsys.readouterr().err
