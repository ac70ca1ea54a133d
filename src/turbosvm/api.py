"""The Python entry point: `run`, `resume`, `compare`, `sweep`, `prepare` and `open_data`."""

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from torch import nn

from turbosvm.algorithms.catalogue import find_algorithm
from turbosvm.data import store
from turbosvm.data.federated import FederatedData
from turbosvm.data.partition import Partition
from turbosvm.data.preparation.prepare import Rules
from turbosvm.data.preparation.prepare import prepare as prepare_data
from turbosvm.data.sources.request import Request
from turbosvm.errors import TurboSVMError, unknown
from turbosvm.evaluation.milestones import RoundsToTarget
from turbosvm.experiment.build import build_data
from turbosvm.experiment.config import Config
from turbosvm.experiment.grid import Changes, make_sweep, read_sweep
from turbosvm.experiment.jobs import carry_out_runs, check_engine, refuse_import
from turbosvm.experiment.layers import merge_layers, named, nest
from turbosvm.experiment.planning import plan_runs
from turbosvm.experiment.prepared import plan_of, prepare_run, reopen_run
from turbosvm.experiment.resolve import read_config, refuse_another, resolve_config
from turbosvm.experiment.runner import Outcome, run_experiment, run_on
from turbosvm.experiment.sweep import code_of, make_ready, plan_sweep, threads_for
from turbosvm.models.registry import module_meant, modules_of
from turbosvm.names import OWN
from turbosvm.report.curves import draw_curves, save_figure
from turbosvm.report.folder import place_beside, save_report, work_out, write_report
from turbosvm.report.groups import contests_of
from turbosvm.report.numbers import numbers_of
from turbosvm.report.reading import gather
from turbosvm.report.records import RunRecords, read_run
from turbosvm.report.results import Results, results_of
from turbosvm.report.tables import results_frame, summary
from turbosvm.run_files import CONFIG
from turbosvm.trackers.tracker import Tracker
from turbosvm.visible import visible


@dataclass(frozen=True, eq=False)
class Result:
    """A finished run."""

    config: Config
    """Everything that the run was told, defaults included."""
    records: pd.DataFrame
    """A row a round: metrics, cohort, bytes, seconds by phase."""
    model: nn.Module
    """The trained global model."""
    folder: Path | None
    """Where the run was saved, if it was."""
    stopped: str | None
    """Why the run ended before its last round, if it did."""
    _report: RunRecords

    def __repr__(self) -> str:
        final = self.final
        end = f"accuracy {final['accuracy']:.1%} after round {final['round']}" if final else "nothing evaluated"
        end += f"; stopped: {self.stopped}" if self.stopped else ""
        return f"Result({self._report.algorithm} on {self._report.data}, seed {self._report.seed}: {end})"

    def rounds_to(self, target: float) -> RoundsToTarget:
        """Rounds until the accuracy on held-out users was first at least `target`; prints as '57' or '>100'."""
        return self._report.rounds_to(target)

    @property
    def final(self) -> dict[str, float]:
        """The metrics of the last evaluated round."""
        return self._report.final

    def plot(self, path: str | Path | None = None) -> Figure:
        """Draw accuracy and loss over rounds; saved as a picture if a path is given."""
        return _plot([self._report], path)


@dataclass(frozen=True, eq=False)
class Comparison:
    """Several runs side by side, paired: at one seed all of them saw the same cohorts."""

    results: tuple[Result, ...]

    def __repr__(self) -> str:
        return f"Comparison{self.results}"

    @property
    def table(self) -> pd.DataFrame:
        """A row for each algorithm: rounds to target and final metrics, mean ± std over seeds."""
        return summary(result._report for result in self.results)

    def plot(self, path: str | Path | None = None) -> Figure:
        """Draw a line for each algorithm; saved as a picture if a path is given."""
        return _plot([result._report for result in self.results], path)


def run(
    algorithm: str | Mapping[str, Any] | None = None,
    *,
    data: str | Path | FederatedData | None = None,
    model: str | nn.Module | None = None,
    head: str | None = None,
    preset: str = "glyphs",
    config: str | Path | None = None,
    as_published: bool = False,
    out: str | Path | None = None,
    on_record: Callable[[dict[str, Any]], None] | None = None,
    trackers: str | Tracker | Iterable[str | Tracker] | None = None,
    **settings: Any,
) -> Result:
    """Run one federated algorithm on one data set.

    Args:
        algorithm: a name of the catalogue, or several joined by '+', such as 'fedavgm+turbosvm'; or the config's
            section of that name as a dictionary. Without one, the config file's, or 'fedavg'.
        data: 'glyphs', the name of a prepared set, the path of a data folder, or your own `FederatedData`.
        model: a built-in model's name, 'module:Class', or your own `nn.Module`, which is copied, not changed.
        head: the name of the model's last linear layer, where the model does not say it itself.
        preset: settings to start from: 'glyphs', 'femnist', 'celeba' or 'shakespeare'.
        config: a YAML file of settings, on top of the preset.
        as_published: behave like the paper's published code where that differs from the paper.
        out: a folder to save the run under, as `ALGORITHM-seedN`; without it nothing is written.
        on_record: called with each round's record as the round ends, for progress displays of your own.
        trackers: what follows the run: 'tensorboard', 'mlflow', 'wandb', or objects of your own with `begin`,
            `record` and `end`, see `turbosvm.trackers.tracker.Tracker`.
        settings: any key of the config; nested ones as dictionaries, or with dots: `**{"data.held_out": 0.2}`.

    Example:
        >>> result = turbosvm.run("fedavg", rounds=20, client={"learning_rate": 0.05})
        >>> print(result.rounds_to(0.3), result.final["accuracy"])

    Raises:
        TurboSVMError: a setting is wrong; the text says which, and what is allowed.
    """
    asked = _asked(
        algorithm,
        data=data,
        model=model,
        head=head,
        preset=preset,
        config=config,
        as_published=as_published,
        on_record=on_record,
        trackers=trackers,
        **settings,
    )
    result, sentences = _result(asked.carry_out(Path(out) if out else None))
    if result.stopped and (result.records.empty or result.config.on_bad_client == "abort"):
        raise TurboSVMError(result.stopped)
    for sentence in sentences:
        warnings.warn(visible(sentence), stacklevel=2)
    return result


def resume(
    folder: str | Path,
    *,
    data: str | Path | FederatedData | None = None,
    model: nn.Module | None = None,
    trust_code: str | Iterable[str] = (),
    on_record: Callable[[dict[str, Any]], None] | None = None,
) -> Result:
    """Go on with a saved run from its newest checkpoint; its records then equal those of a run that was never stopped.

    Args:
        folder: a run's folder, as `run` saved it.
        data: your own, where the run was made with data of your own; or where data that was named is now.
        model: your own, where the run was made with a model of your own.
        trust_code: modules that the run's model may come from where its folder names 'module:Class'; their code is run.
        on_record: called with each further round's record.
    """
    _check_handed_over(data, model)
    if model is not None and not isinstance(model, nn.Module):
        raise TurboSVMError(f"The model is a {type(model).__name__}; hand over an nn.Module, or none if it has a name.")
    if isinstance(data, str | Path):
        named_before = read_config(Path(folder) / CONFIG).data
        data = build_data(named_before.model_copy(update={"name": str(data)}))
    trusted = set(map(module_meant, [trust_code] if isinstance(trust_code, str) else _listed("trust_code", trust_code)))
    prepared = reopen_run(Path(folder), data, model, trusted=trusted)
    result, sentences = _result(run_on(prepared, on_record))
    for sentence in sentences:
        warnings.warn(visible(sentence), stacklevel=2)
    return result


def compare(
    algorithms: str | Iterable[str],
    *,
    seeds: int | Iterable[int] | None = None,
    out: str | Path | None = None,
    **arguments: Any,
) -> Comparison:
    """Run several algorithms at each of the seeds; the other arguments are those of `run`.

    With `out`, the table and the curves are saved beside the runs.

    Example:
        >>> comparison = turbosvm.compare(["fedavg", "fedavgm"], seeds=[0, 1, 2], rounds=50)
        >>> print(comparison.table)
    """
    given = [algorithms] if isinstance(algorithms, str) else algorithms
    names = list(dict.fromkeys(find_algorithm(name).name for name in given))  # mistakes are found before the first run
    if seeds is not None:
        settings = [{"seed": seed} for seed in dict.fromkeys([seeds] if isinstance(seeds, int | np.integer) else seeds)]
    else:
        settings = [{}]
    if not names or not settings:
        raise TurboSVMError("A comparison needs at least one algorithm and one seed.")
    asked = [_asked(name, **{**arguments, **seed}) for name in names for seed in settings]
    results = []
    for outcome in _planned_together(asked, Path(out)) if out else (one.carry_out() for one in asked):
        result, sentences = _result(outcome)
        results.append(result)
        for sentence in sentences:
            warnings.warn(visible(sentence), stacklevel=2)
    if out and any(result.final for result in results):
        save_report([result._report for result in results], Path(out))
    return Comparison(tuple(results))


@dataclass(frozen=True, eq=False)
class Swept:
    """All runs of a sweep, as they are in its folder."""

    folder: Path
    runs: tuple[RunRecords, ...]
    failed: dict[str, str]
    """Of runs that could not be finished, the name of the folder and why."""

    def __repr__(self) -> str:
        failed = f", {len(self.failed)} failed" if self.failed else ""
        return f"Swept({len(self.runs)} runs in '{self.folder}'{failed})"

    @property
    def table(self) -> pd.DataFrame:
        """A row for each setting: rounds to target and metrics, mean ± std over seeds, as text."""
        return results_frame(self._results)

    @property
    def numbers(self) -> pd.DataFrame:
        """A row for each setting and measure: mean and spread over seeds, the paper's figure, the paired difference."""
        return numbers_of(self._results)

    @property
    def _results(self) -> list[Results]:
        return [results_of(contest) for contest in contests_of(run for run in self.runs if run.points)]


def sweep(
    content: str | Path | Mapping[str, Any],
    *,
    out: str | Path = "runs",
    seeds: Iterable[int] | None = None,
    grid: Mapping[str, Sequence[Any]] | None = None,
    jobs: int | None = None,
    engine: str = "local",
    on_end: Callable[[Path, str | None], None] | None = None,
    **settings: Any,
) -> Swept:
    """Run every combination of a grid; what is done is skipped, what was stopped goes on, what failed is retried.

    Args:
        content: a YAML file with `set` and `grid`, or a dictionary of the same form.
        out: the runs, and their report, go into a folder in it that is called as the sweep, or as its file.
        seeds: of every run, in the place of those that the sweep has.
        grid: lists in the place of those that the sweep has under the same keys.
        jobs: runs at a time, in processes of their own; a script must then call this under
            `if __name__ == "__main__":`, since those processes import it.
        engine: 'local', or 'ray' for a cluster.
        on_end: called with a run's folder as it ends, and the reason if it failed, for progress displays of your own.
        settings: any key of the config, over what the sweep says.

    Example:
        >>> swept = turbosvm.sweep({"grid": {"algorithm": ["fedavg", "turbosvm"], "seed": [0, 1, 2]}}, jobs=2)
        >>> print(swept.table)
    """
    check_engine(engine)
    if jobs is not None and jobs < 1:
        raise TurboSVMError(f"jobs is {jobs}; it must be at least 1.")
    refuse_import(jobs)
    overrides = merge_layers(nest(key, value) for key, value in settings.items())
    lists = {key: _listed(f"grid['{key}']", values) for key, values in (grid or {}).items()}
    changes = Changes(overrides, lists, None if seeds is None else _listed("seeds", seeds), threads=threads_for(jobs))
    made = make_sweep(content, changes) if isinstance(content, Mapping) else read_sweep(Path(content), changes)
    root = Path(out) / made.name
    planned = plan_sweep(made, root)
    failed: dict[str, str] = {}
    trusted = code_of(planned)
    for ended in carry_out_runs(make_ready(planned), jobs, engine, lambda _: lambda _: None, lambda: None, trusted):
        if ended.interrupted:
            raise KeyboardInterrupt
        if ended.failed:
            failed[ended.path.name] = ended.failed
        if on_end:
            on_end(ended.path, ended.failed)
    if failed and not any(run.done for run in planned):
        first, why = next(iter(failed.items()))
        raise TurboSVMError(f"All of the {len(failed)} runs in '{root}' failed; the first, {first}: {why}")
    for name, why in failed.items():
        warnings.warn(visible(f"{name} failed: {why}"), stacklevel=2)
    begun = [run.path for run in planned if run.begun]
    runs = [read_run(path) for path in begun]
    if any(run.final for run in runs):
        gathered = gather(begun)
        write_report(work_out(gathered), gathered.notes, place_beside(root))
    return Swept(root, tuple(runs), failed)


def _listed(name: str, values: Any) -> list[Any]:
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise TurboSVMError(f"{name} is {values!r}; it must be a list of values.")
    return list(values)


def prepare(
    task: str,
    source: str | Path,
    out: str | Path | None = None,
    *,
    own_split: bool = False,
    min_samples: int | None = None,
    skip_bad: bool = False,
    replace: bool = False,
    partition: Partition | None = None,
    on_progress: Callable[[float], None] | None = None,
    **options: Any,
) -> FederatedData:
    """Make a data set of the files that you have, or open it where that has been done already.

    Args:
        task: 'femnist', 'celeba', 'shakespeare', or 'own' for tables of your own.
        source: a file, a folder or an archive; or 'hub:', 'hub:OWNER/NAME', 'hub:OWNER/NAME@REVISION'.
        out: what to call it (then `data=NAME` opens it in a run), or a path; without it, as the task.
        own_split: LEAF's folders train and test say who is held out.
        min_samples: leave out users with fewer samples.
        skip_bad: leave bad input out and count it, instead of stopping at it.
        replace: put it in the place of another set of that name.
        partition: gives the samples to made-up users, for tables of your own without a column for the user.
        on_progress: told the share that has been read.
        options: `images` and `attribute` of CelebA; `columns`, `classes` and `tokens` of tables of your own; `offline`;
            `allow_large`, for archives and tables that grow to more than 200 times their size.

    Example:
        >>> data = turbosvm.prepare("femnist", "leaf/data/femnist/data")
        >>> result = turbosvm.run("turbosvm", preset="femnist")
    """
    options = {key: str(value) if isinstance(value, Path) else value for key, value in options.items()}
    known = [each.name for each in fields(Request) if each.name not in ("task", "place", "own_split")]
    for option in options:
        if option not in known:
            raise unknown("option", option, known)
    request = Request(task, str(source), own_split, **options)
    rules = Rules(min_samples, skip_bad, partition)
    done = prepare_data(request, store.place_for(str(out or task)), rules, replace, on_progress)
    if bad := done.left_out.count:
        sentence = f"Bad things that were left out: {bad}, the first: {done.left_out.first[0]}"
        warnings.warn(visible(sentence), stacklevel=2)
    return store.load(done.folder)


def open_data(name: str | Path) -> FederatedData:
    """Open a prepared data set by its name, or any data folder by its path."""
    folder = store.find_folder(str(name))
    if folder is None:
        raise store.no_such_set(str(name))
    return store.load(folder)


@dataclass(frozen=True)
class _Asked:
    """A run as a person asked for it: its config, and what was handed over for it."""

    config: Config
    data: FederatedData | None
    module: nn.Module | None
    on_record: Callable[[dict[str, Any]], None] | None
    trackers: tuple[Tracker, ...]

    def carry_out(self, root: Path | None = None) -> Outcome:
        """Go through its rounds, and save it in a new folder under `root`, if there is one."""
        return run_experiment(self.config, self.data, self.module, root, self.on_record, self.trackers)


def _planned_together(asked: Sequence[_Asked], root: Path) -> Iterator[Outcome]:
    """Carry out runs in folders that are all planned before the first begins, so that a kill forgets none of them."""
    plans = [plan_of(prepare_run(one.config, one.data, one.module, one.trackers, root)) for one in asked]
    for path, one in zip(plan_runs(root, plans), asked, strict=True):
        trusted = modules_of([one.config.model.name])
        yield run_on(reopen_run(path, one.data, one.module, one.trackers, trusted=trusted), one.on_record)


def _asked(
    algorithm: str | Mapping[str, Any] | None,
    *,
    data: str | Path | FederatedData | None = None,
    model: str | nn.Module | None = None,
    head: str | None = None,
    preset: str = "glyphs",
    config: str | Path | None = None,
    as_published: bool = False,
    on_record: Callable[[dict[str, Any]], None] | None = None,
    trackers: str | Tracker | Iterable[str | Tracker] | None = None,
    **settings: Any,
) -> _Asked:
    """Resolve the config of a run, and tell names from objects."""
    given = [] if trackers is None else trackers
    followers = list(given) if isinstance(given, Iterable) and not isinstance(given, str) else [given]
    if trackers is not None:
        settings["trackers"] = [tracker for tracker in followers if isinstance(tracker, str)]
    return _Asked(
        _resolve(algorithm, data, model, head, preset, config, as_published, settings),
        data if isinstance(data, FederatedData) else None,
        model if isinstance(model, nn.Module) else None,
        on_record,
        tuple(tracker for tracker in followers if not isinstance(tracker, str)),
    )


def _result(outcome: Outcome) -> tuple[Result, list[str]]:
    """Show a run's outcome as a result, with what the person should be told of it."""
    if outcome.interrupted:
        raise KeyboardInterrupt
    frame, config = pd.DataFrame(outcome.records), outcome.config
    report = RunRecords.from_config(config.model_dump(), frame)
    result = Result(config, frame, outcome.module, outcome.folder, outcome.stopped, report)
    return result, [*outcome.told, *report.told]


def _resolve(
    algorithm: str | Mapping[str, Any] | None,
    data: str | Path | FederatedData | None,
    model: str | nn.Module | None,
    head: str | None,
    preset: str,
    config: str | Path | None,
    as_published: bool,
    settings: dict[str, Any],
) -> Config:
    """Put the config together; own data and models appear in it by their names."""
    names: dict[str, Any] = {"model": {}} if algorithm is None else {"algorithm": named(algorithm), "model": {}}
    _check_handed_over(data, model)
    if data is not None:
        names["data"] = {"name": f"{OWN}{data.name}" if isinstance(data, FederatedData) else str(data)}
    if model is not None:
        names["model"]["name"] = f"{OWN}{type(model).__name__}" if isinstance(model, nn.Module) else model
    if head is not None:
        names["model"]["head"] = head
    given = [nest(key, value) for key, value in settings.items()]
    if isinstance(algorithm, str):
        refuse_another(merge_layers(given), algorithm, "The setting 'algorithm'")
    overrides = merge_layers([*given, names])
    return resolve_config(preset, Path(config) if config else None, overrides, as_published)


def _check_handed_over(data: object, model: object) -> None:
    """Refuse what is no data, and a class in the place of a model."""
    if isinstance(model, type):
        raise TurboSVMError(f"The model is the class {model.__name__}; hand over an object, {model.__name__}().")
    if data is not None and not isinstance(data, str | Path | FederatedData):
        raise TurboSVMError(f"The data is a {type(data).__name__}; hand over a name, a path or FederatedData.")


def _plot(runs: Sequence[RunRecords], path: str | Path | None) -> Figure:
    figure = draw_curves(runs)
    if path is not None:
        save_figure(figure, Path(path))
    return figure
