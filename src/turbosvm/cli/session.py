"""Carry out one or several runs for a person at a terminal: progress, table, picture, and where it all is."""

import re
import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from functools import partial
from pathlib import Path
from shlex import quote

import typer
from rich.console import Console

from turbosvm.cli.labels import run_labels
from turbosvm.cli.progress import RoundsDisplay, making
from turbosvm.cli.report import make_report
from turbosvm.cli.terminal import print_table, say
from turbosvm.data.federated import FederatedData
from turbosvm.errors import TurboSVMError
from turbosvm.experiment.about import describe_data
from turbosvm.experiment.build import build_data
from turbosvm.experiment.config import Config
from turbosvm.experiment.ending import is_finished
from turbosvm.experiment.planning import (
    complete,
    find_plans,
    gone_runs,
    make_folder,
    missing_runs,
    plan_runs,
    read_plan,
)
from turbosvm.experiment.prepared import Prepared, RunPlan, is_done, plan_of, prepare_run, reopen_run
from turbosvm.experiment.recorded import last_record
from turbosvm.experiment.resolve import read_config
from turbosvm.experiment.runner import run_on
from turbosvm.experiment.sweep import data_of
from turbosvm.files import new_folder, refuse_unwritable
from turbosvm.models.registry import (
    call_of,
    find_factory,
    module_meant,
    module_of,
    modules_of,
    place_of,
    refuse_untrusted,
)
from turbosvm.report.folder import BESIDE, TABLES, place_beside, save_report
from turbosvm.report.groups import contests_of
from turbosvm.report.reading import find_runs
from turbosvm.report.records import RunRecords, read_run
from turbosvm.report.tables import summary
from turbosvm.run_files import CONFIG
from turbosvm.simulation import Federation
from turbosvm.trackers.catalogue import build_trackers
from turbosvm.visible import visible


def carry_out(configs: list[Config], out: Path, name: str) -> None:
    """Run the configs one after another into one new folder under `out`, then show what came of it."""
    console = Console()
    refuse_unwritable(out)
    try:
        data, plans = _prepare(configs, out, console)
    except KeyboardInterrupt:
        console.print("Stopped before the first round.")
        raise typer.Exit(STOPPED) from None
    plain_name = re.sub(r"[^\w.-]+", "-", data.name)
    root = new_folder(out, f"{datetime.now():%Y%m%d-%H%M%S}-{name}-{plain_name}")
    runs = dict(zip(plan_runs(root, plans), configs, strict=True))
    trusted = modules_of(config.model.name for config in configs)
    _end_with(_go_through(runs, root, console, lambda _: data, lambda *_: trusted), [root], None, trusted, console)


def go_on(folders: Sequence[Path], data: str | None = None, trust_code: Sequence[str] = ()) -> None:
    """Finish the runs in folders, then show what came of them: those in one folder together, each given one apart.

    A run that names a model of somebody's own is carried out if its module is among those of `trust_code`, or the
    person says so when asked, and only if the person named the run's folder, or the folder that it was planned in.
    """
    console, given = Console(), [folder for folder in folders if not folder.is_file()]  # beside runs lie tables
    trust = Trust(trust_code, _named(given), console)
    worst = _plan_what_is_missing(given, data, trust, console)
    paths = find_runs(given or folders)
    if not paths:
        raise TurboSVMError(f"There are no runs in {', '.join(repr(str(folder)) for folder in folders)}.")
    roots: dict[Path, dict[Path, Config]] = {}
    for path in paths:
        try:
            config = read_config(path / CONFIG)
        except TurboSVMError as error:
            worst = max(worst, _put_up_with(error, len(paths), console))
            continue
        roots.setdefault(path if path in given and not _has_table(path.parent) else path.parent, {})[path] = config
    for root, runs in roots.items():
        if len(roots) > 1 and all(map(is_done, runs)):
            say(f"{root}: finished before", console)
            continue
        in_order = dict(sorted(runs.items(), key=lambda run: ((run[0] / CONFIG).stat().st_mtime_ns, run[0])))
        data_for = partial(_own_data, name=data)
        worst = max(worst, _go_through(in_order, root, console, data_for, trust.modules, len(paths)))
        if worst == STOPPED:
            break
    _end_with(worst, folders, data, trust_code, console)


def _named(given: Sequence[Path]) -> set[Path]:
    """The folders that the person named: those given, and those that were planned in them."""
    named = {path.resolve() for path in given}
    for folder in given:
        with suppress(TurboSVMError):  # what is wrong with a plan is said when it is carried out
            plan = read_plan(folder)
            named |= {(folder / name).resolve() for name in (plan.runs if plan else ())}
    return named


def _plan_what_is_missing(given: Sequence[Path], data: str | None, trust: "Trust", console: Console) -> int:
    """Make the folders of runs whose planning was cut short; return what the command ends with so far."""
    worst = 0
    for root in dict.fromkeys(plan for folder in given for plan in find_plans(folder)):
        try:
            missing = missing_runs(root)
            for path in gone_runs(root):
                say(f"'{path}' was planned, and its folder is gone; it is not begun again.", console)
            for path, config in missing.items():
                allowed = trust.modules(path, config)
                refuse_untrusted(config.model.name, config.model.options, allowed, f"'{path}'")
                prepared = prepare_run(config, _own_data(config, data) or data_of(config.data), store=root)
                make_folder(path, plan_of(prepared))
            if missing:
                complete(root)
                runs = f"{len(missing)} run{'' if len(missing) == 1 else 's'}"
                say(f"{root}: {runs} had been planned when it was stopped, and had no folder yet", console)
        except TurboSVMError as error:
            say(str(error), console)
            worst = 1
    return worst


class Trust:
    """Whose code may be run: that of modules which the person names, beforehand or when asked."""

    def __init__(self, modules: Iterable[str], named: Collection[Path], console: Console) -> None:
        self._modules, self._named, self._console = set(map(module_meant, modules)), named, console
        self._asked: set[str] = set()

    def modules(self, path: Path, config: Config) -> Collection[str]:
        """The modules that a run's model may come from."""
        module = module_of(config.model.name)
        if module is None:
            return ()
        if path.resolve() not in self._named:
            if module in self._modules:
                say(
                    f"--trust-code counts for folders that you name: name '{path}', or the one it was planned in.",
                    self._console,
                )
            return ()
        if module not in self._modules | self._asked and self._console.is_terminal and sys.stdin.isatty():
            self._asked.add(module)
            called, place = call_of(config.model.name, config.model.options), place_of(module)
            if place is None:
                raise TurboSVMError(f"'{path}' has the model {called}, and there is no module '{module}' here.")
            say(f"'{path}' names the model {called}, whose code would be run.", self._console)
            if _confirm(f"Run the code of module '{module}' in '{place}'?"):
                self._modules.add(module)
            else:
                raise TurboSVMError(f"'{path}' is not gone on with.")
        return self._modules


def _confirm(question: str) -> bool:
    """Ask a person, who may stop all of it with Ctrl-C."""
    try:
        return typer.confirm(visible(question))
    except typer.Abort:
        raise typer.Exit(STOPPED) from None


def _own_data(config: Config, name: str | None) -> FederatedData | None:
    """The data of this name, as a run takes it; None leaves it to the run."""
    return data_of(config.data.model_copy(update={"name": name})) if name else None


def _has_table(folder: Path) -> bool:
    """Whether a comparison or a sweep has made a table of all runs in a folder."""
    report = (folder / BESIDE / TABLES).exists() and folder.resolve() != Path.cwd()  # there, reports are of all
    return (folder / "table.md").exists() or report


STOPPED = 130
"""What a command ends with after Ctrl-C."""


def _put_up_with(error: TurboSVMError, runs: int, console: Console) -> int:
    """Say what is wrong with one of several runs; a single one ends the command."""
    if runs == 1:
        raise error
    say(str(error), console)
    return 1


def _end_with(code: int, folders: Sequence[Path], data: str | None, trusted: Collection[str], console: Console) -> None:
    """End the command, after Ctrl-C with how to go on."""
    if code == STOPPED:
        places = "".join(f" {quote(str(folder))}" for folder in folders)
        options = [
            *([f"--data {quote(data)}"] if data else []),
            *(f"--trust-code {quote(module)}" for module in sorted(trusted)),
        ]
        say(f"Stopped; go on with: turbosvm resume{places}{''.join(f' {option}' for option in options)}", console)
    if code:
        raise typer.Exit(code)


def _go_through(
    runs: Mapping[Path, Config],
    root: Path,
    console: Console,
    data_for: Callable[[Config], FederatedData | None],
    trusted: Callable[[Path, Config], Collection[str]],
    among: int = 1,
) -> int:
    """Carry out planned or unfinished runs one after another; return what the command ends with so far."""
    labels, worst = run_labels(runs), 0
    told, seen = list[str](), set[str]()
    finished = [path for path in runs if is_done(path)]
    if finished:
        who = labels[finished[0]] if len(finished) == 1 else f"{len(finished)} runs"
        say(f"{who}: finished before", console)
    allowed: dict[Path, Collection[str]] = {}
    for path, config in runs.items():
        try:
            allowed[path] = () if path in finished else trusted(path, config)
        except TurboSVMError as error:
            worst = _put_up_with(error, max(among, len(runs)), console)
    with RoundsDisplay({labels[path]: config.rounds for path, config in runs.items()}, console) as display:
        for path, label in labels.items():
            if path in finished:
                display.pass_over(label)
                continue
            if path not in allowed:  # which has been said
                continue
            try:
                prepared = reopen_run(path, data_for(runs[path]), trusted=allowed[path])
            except TurboSVMError as error:
                worst = _put_up_with(error, max(among, len(runs)), console)
                continue
            if (about := _sentence_about(prepared.federation)) not in seen:
                say(about, console)
                seen.add(about)
            _introduce(prepared, label, console)
            outcome = run_on(replace(prepared, notes=()), display.watch(label, done=len(prepared.records)))
            told += outcome.told
            if outcome.interrupted:
                worst = STOPPED
                break
            if outcome.stopped or not is_finished(path):  # its model may not be saved
                worst = 1
    if worst == STOPPED:
        say("Stopped; what there is so far:", console)
    beside = [path for path in find_runs([root]) if path.parent == root]
    others = [path for path in beside if path not in runs]
    shown = list(runs) if root in runs else [*(path for path in runs if path in beside), *others]  # all in its folder
    for sentence in told:
        say(sentence, console)
    try:
        _show_all([path for path in shown if last_record(path)], root, console)
    except TurboSVMError as error:  # tables or curves cannot be written; the runs are what they are
        say(str(error), console)
        return max(worst, 1)
    return worst


def _introduce(prepared: Prepared, label: str, console: Console) -> None:
    """Say where a run goes on, and what is amiss."""
    for note in prepared.notes:
        say(f"{label}: {note}", console)
    if prepared.ending and prepared.ending.stopped:
        say(f"{label} stopped before, after round {len(prepared.records)}, and stays as it is", console)
    elif prepared.records:
        say(f"{label} goes on after round {len(prepared.records)} of {prepared.config.rounds}", console)


def _show_all(paths: Sequence[Path], root: Path, console: Console) -> None:
    """Print the table of runs, where settings differ a report's, and what the person should know of them."""
    runs: list[RunRecords] = []
    for path in paths:
        with suppress(TurboSVMError):  # what is broken has been said
            runs.append(read_run(path))
    contests = contests_of(run for run in runs if run.points)
    algorithms = [group.algorithm for contest in contests for group in contest.groups]
    unlike = len(contests) > 1 or len(set(algorithms)) < len(algorithms)
    if not unlike and len({(run.algorithm, run.seed) for run in runs}) == len(runs):
        try:
            show(runs, root, console)
        finally:
            for sentence in (sentence for run in runs for sentence in run.told):
                say(sentence, console)
    else:
        make_report(paths, place_beside(root), None, None, console)


def _prepare(configs: list[Config], out: Path, console: Console) -> tuple[FederatedData, list[RunPlan]]:
    """Make or open the data, and find mistakes in any of the configs before the first one runs."""
    for config in configs:
        find_factory(config.model.name)
        build_trackers(config.trackers, out)
    with making(configs[0].data.name, console) as on_progress:
        data = build_data(configs[0].data, on_progress)
    return data, [plan_of(prepare_run(config, data, store=out)) for config in configs]


def _sentence_about(federation: Federation) -> str:
    about = describe_data(federation)
    return (
        f"{federation.data.name}: {about['users_train']} users train ({about['samples_train']:,} samples), "
        f"{about['users_held_out']} held out ({about['samples_held_out']:,} samples)"
    )


def show(runs: list[RunRecords], root: Path, console: Console) -> None:
    """Print the table of some runs, and say where it is with the curves."""
    table = summary(runs)
    if not table.empty:
        print_table(table, console)
        save_report(runs, root)
    what = "Records" if table.empty else "Table, curves and records"
    say(f"{what}: {root}", console)
