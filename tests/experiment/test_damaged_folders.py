"""Whatever happens to the files of a run, going on with it ends as if nothing had happened, or says what is wrong."""

import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random
from time import perf_counter

from tests.experiment.damages import DAMAGES, copy_of, files_of, gone_on_with, make_runs
from turbosvm.data.federated import FederatedData

TIMES = 1
"""How often each file is damaged in each way."""


def spoil_all(data: FederatedData, root: Path, times: int, seed: int = 0) -> Counter[tuple[str, str]]:
    """Damage each file of each run in each way, so many times; count what came of it."""
    runs, counts = make_runs(data, root / "runs"), Counter[tuple[str, str]]()
    for state in ("finished", "stopped"):
        for file in files_of(runs[state]):
            for damage, spoil in DAMAGES.items():
                for time in range(times):
                    draw = Random(f"{seed} {state} {file} {damage} {time}")
                    folder = copy_of(runs[state], root / "spoilt")
                    spoil(
                        draw,
                        folder / file,
                        next(runs["another"].rglob(Path(file).name), runs["another"] / "config.yaml"),
                    )
                    began = perf_counter()
                    outcome = gone_on_with(folder, runs["finished"], data)
                    assert perf_counter() - began < 20, f"{state}, {file}: {damage} took too long"
                    assert outcome in ("refused", "told", "harmless"), f"{state}, {file}: {damage}: {outcome}"
                    counts[damage, outcome] += 1
                    shutil.rmtree(folder)
    return counts


def test_no_damage_to_a_file_passes_in_silence(
    tiny_data: FederatedData, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    counts = spoil_all(tiny_data, tmp_path, TIMES)
    record_property("damages", str(counts))
    assert counts.total() > 300
    noticed = sum(count for (_, outcome), count in counts.items() if outcome != "harmless")
    assert noticed > counts.total() / 2
