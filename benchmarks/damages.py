"""Is anything wrong in silence? Damages to run folders, kills, and what strangers and people by mistake hand over.

    python benchmarks/damages.py             about ten minutes on two CPU cores
    python benchmarks/damages.py --times 1   each damage once, which takes a few minutes less

First, every file of a finished and of a stopped run (MOON, whose clients keep their models) is damaged in sixteen ways,
and gone on with. 'refused': an error of one sentence. 'told': it ends with the records and the model of a run that was
left alone, bit for bit, and says what was wrong. 'harmless': the same, with nothing to say. Anything else is 'silent'.

Then the catalogues in the tests are counted: each case is refused with a sentence, or comes to the right result; those
that do not are 'silent', and the tests fail.
"""

import argparse
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from xml.etree import ElementTree

sys.path.insert(0, str(Path(__file__).parents[1]))  # the tests are beside the benchmarks

from tests.conftest import blobs
from tests.experiment.damages import DAMAGES, SOUND, Tried, spoil_all

CATALOGUES = {
    "kills at any moment, resumed to the bit": ("tests/experiment/test_checkpoints.py", "-k", "killed"),
    "kills while planning, full disks, what is left behind": ("tests/experiment/test_planning.py",),
    "run folders from strangers, resumed": ("tests/experiment/test_strangers.py",),
    "run folders from strangers, reported on": ("tests/report/test_hostile.py", "tests/report/test_fuzz.py"),
    "settings and YAML": ("tests/test_yaml_text.py", "tests/experiment/test_fuzz_settings.py"),
    "prepared data, damaged or hostile": ("tests/data/test_store.py",),
    "data handed over in Python": ("tests/data/test_handed_over.py",),
    "files to prepare data from": ("tests/data/sources",),
    "odd models and bad clients": ("tests/test_odd_models.py", "tests/test_bad_clients.py"),
}

WHY_HARMLESS = {
    "config.yaml": "a comment or white space, or a setting that changes no number",
    "environment.json": "white space",
    "ended.json": "lost or white space: the run ends once more",
    "records.jsonl": "rounds that are lost at the end are done again",
    "checkpoints": "the one before serves, or it is of a finished run and is not read",
    "model.safetensors": "of a stopped run: it is made again from the checkpoint",
}


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=int, default=2, help="How often each file is damaged in each way.")
    parser.add_argument("--folders", action="store_true", help="Only the damages to run folders.")
    options = parser.parse_args(arguments)
    with TemporaryDirectory() as root:
        tried = list(spoil_all(blobs(), Path(root), options.times))
    show_folders(tried)
    silent = sum(one.outcome not in SOUND for one in tried)
    if not options.folders:
        print("\n| what was tried | cases | silent |\n| --- | --- | --- |")
        for what, tests in CATALOGUES.items():
            cases, wrong = count(tests)
            print(f"| {what} | {cases:,} | {wrong} |", flush=True)
            silent += wrong
    print(f"\nIn silence: {silent}.")
    return int(silent > 0)


def show_folders(tried: Sequence[Tried]) -> None:
    """A row for each kind of damage, and why some are harmless."""
    print(f"{len(tried)} damages to run folders\n\n| damage | refused | told | harmless | silent |")
    print("| --- | --- | --- | --- | --- |")
    for damage in DAMAGES:
        counts = counted(one.outcome for one in tried if one.damage == damage)
        print(f"| {damage} | {' | '.join(str(counts[each]) for each in (*SOUND, 'silent'))} |")
    counts = counted(one.outcome for one in tried)
    print(f"| all | {' | '.join(str(counts[each]) for each in (*SOUND, 'silent'))} |")
    print("\nHarmless, and why:")
    for file, why in WHY_HARMLESS.items():
        number = sum(one.outcome == "harmless" and one.file.split("/")[0] == file for one in tried)
        print(f"- {file}: {number} ({why})")
    for one in tried:
        if one.outcome not in SOUND:
            print(f"SILENT: {one}")


def counted(outcomes: Iterable[str]) -> Counter[str]:
    """How often each; what is not sound is silent."""
    return Counter(outcome if outcome in SOUND else "silent" for outcome in outcomes)


def count(tests: Sequence[str]) -> tuple[int, int]:
    """How many cases the tests have tried, and how many tests have failed."""
    with TemporaryDirectory() as folder:
        results = Path(folder) / "results.xml"
        command = [sys.executable, "-m", "pytest", "-q", "-o", "junit_family=xunit1", f"--junitxml={results}", *tests]
        subprocess.run(command, cwd=Path(__file__).parents[1], capture_output=True, check=False)
        suite = ElementTree.parse(results).getroot()
    cases = [case for case in suite.iter("testcase") if case.find("skipped") is None]
    wrong = sum(case.find("failure") is not None or case.find("error") is not None for case in cases)
    return sum(tried_in(case) for case in cases), wrong


def tried_in(case: ElementTree.Element) -> int:
    """How many cases a test says that it tried; one, if it says nothing."""
    told = [int(each.get("value", "1")) for each in case.iter("property") if each.get("name") == "tried"]
    return sum(told) or 1


if __name__ == "__main__":
    sys.exit(main())
