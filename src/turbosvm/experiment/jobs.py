"""Who carries out the runs of a sweep: this process, several on this machine, or a Ray cluster.

Each is an iterator over how runs ended, in the order in which they end. Runs are known by their folders alone, so that
whoever carries one out needs nothing else; on a cluster, folders and data must be on a disk that all machines see.
"""

import os
import signal
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from math import ceil
from multiprocessing import active_children, current_process, get_context, parent_process
from pathlib import Path
from threading import Thread, current_thread, main_thread
from typing import Any, NamedTuple

import torch

from turbosvm.errors import TurboSVMError, in_one_line, unknown
from turbosvm.experiment.resolve import read_config
from turbosvm.experiment.runner import OnRecord
from turbosvm.experiment.sweep import Ended, do_run
from turbosvm.run_files import CONFIG

SECONDS = 0.3
"""Between two looks at runs that others carry out."""

ENGINES = ("local", "ray")

DIED = 'its process died: for want of memory, or because a script does this outside of `if __name__ == "__main__":`'

OnWait = Callable[[], None]


def check_engine(name: str) -> None:
    """Refuse an engine that is not there."""
    if name not in ENGINES:
        raise unknown("engine", name, ENGINES, where="of a sweep")
    if name == "ray" and find_spec("ray") is None:
        raise TurboSVMError('Ray is not installed: pip install "turbosvm[ray]".')


def refuse_import(jobs: int | None) -> None:
    """End a process that is to carry out runs, but came upon the sweep that began it while importing its script."""
    if jobs and jobs > 1 and getattr(current_process(), "_inheriting", False):
        raise SystemExit('A sweep with jobs must be called under `if __name__ == "__main__":`.')


def carry_out_runs(
    paths: Sequence[Path],
    jobs: int | None,
    engine: str,
    watch: Callable[[Path], OnRecord],
    on_wait: OnWait,
    trusted: Collection[str] = (),
) -> Iterator[Ended]:
    """Carry out runs as asked for; their models may come from the `trusted` modules."""
    if engine == "ray":
        return on_ray(paths, jobs, on_wait, trusted)
    return in_processes(paths, jobs, on_wait, trusted) if jobs and jobs > 1 else one_by_one(paths, watch, trusted)


def one_by_one(
    paths: Sequence[Path], watch: Callable[[Path], OnRecord], trusted: Collection[str] = ()
) -> Iterator[Ended]:
    """Carry them out here, one after another."""
    for path in paths:
        ended = do_run(path, watch(path), trusted)
        yield ended
        if ended.interrupted:
            return


def in_processes(paths: Sequence[Path], jobs: int, on_wait: OnWait, trusted: Collection[str] = ()) -> Iterator[Ended]:
    """Carry them out in several processes; each has a GPU to itself as far as there are GPUs.

    Where a process dies, all others of its pool are ended, too. So those that were at work go on one at a time: a
    second death is then a run's own.
    """
    left, suspects = list(paths), list[Path]()
    while left:
        broken = Broken(set(), set())
        yield from _in_a_pool(left, jobs, on_wait, trusted, broken)
        suspects += [path for path in left if path in broken.begun]
        left = [path for path in left if path in broken.waiting]
    for path in suspects:
        broken = Broken(set(), set())
        yield from _in_a_pool([path], 1, on_wait, trusted, broken)
        if broken.begun or broken.waiting:
            yield Ended(path, DIED)


class Broken(NamedTuple):
    """The runs of a pool that broke: those that may have been at work, and the others."""

    begun: set[Path]
    waiting: set[Path]


def _in_a_pool(
    paths: Sequence[Path], jobs: int, on_wait: OnWait, trusted: Collection[str], broken: Broken
) -> Iterator[Ended]:
    context, others = get_context("spawn"), set(active_children())
    pool = ProcessPoolExecutor(min(jobs, len(paths)), context, _settle, (context.Value("i", 0), _gpus()))
    running, begun = dict[Future[Ended], Path](), set[Path]()
    try:
        with _stopping_waits():  # also in the new processes, until they are settled
            running.update({pool.submit(_do_run, path, trusted): path for path in paths})
        while running:
            with _signals_put_off():
                begun |= {path for future, path in running.items() if future.running()}
                done, _ = wait(running, SECONDS, FIRST_COMPLETED)
            on_wait()
            for future in done:
                path = running.pop(future)
                if isinstance(future.exception(), BrokenProcessPool):
                    (broken.begun if path in begun else broken.waiting).add(path)
                else:
                    yield future.result()
    except BaseException:  # Ctrl-C: the runs write a checkpoint, and end
        for process in set(active_children()) - others:
            with suppress(ProcessLookupError):
                os.kill(process.pid or 0, signal.SIGINT)
        raise
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def on_ray(paths: Sequence[Path], jobs: int | None, on_wait: OnWait, trusted: Collection[str] = ()) -> Iterator[Ended]:
    """Carry them out on a Ray cluster: the one that RAY_ADDRESS names, or this machine."""
    import ray

    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # or it warns that this will be so one day
    started = not ray.is_initialized()
    if started:
        try:
            ray.init(log_to_driver=False, configure_logging=False)
        except Exception as error:  # of many kinds
            raise TurboSVMError(f"Ray can be neither reached nor started: {in_one_line(error)}.") from error
    try:
        cluster = _cluster(ray.nodes())  # type: ignore[no-untyped-call]
        waiting, running = list(paths), dict[Any, Path]()
        while waiting or running:
            while waiting and (jobs is None or len(running) < jobs):
                path = waiting.pop(0)
                remote: Any = ray.remote(do_run).options(**needs_of(path, jobs, cluster))
                running[remote.remote(path.resolve(), None, trusted)] = path
            ended, _ = ray.wait(list(running), timeout=SECONDS)
            on_wait()
            for reference in ended:
                path = running.pop(reference)
                try:
                    yield ray.get(reference)._replace(path=path)
                except ray.exceptions.RayError as error:
                    yield Ended(path, f"Ray could not carry it out: {str(error).splitlines()[0]}")
    finally:
        if started:
            ray.shutdown()


class Cluster(NamedTuple):
    """The cores of its largest machine, and all of its GPUs."""

    cores: int
    gpus: int


def _cluster(nodes: Sequence[Mapping[str, Any]]) -> Cluster:
    alive = [node["Resources"] for node in nodes if node["Alive"]]
    return Cluster(
        max((int(node.get("CPU", 0)) for node in alive), default=0), sum(int(node.get("GPU", 0)) for node in alive)
    )


def needs_of(path: Path, jobs: int | None, cluster: Cluster) -> dict[str, float]:
    """What Ray is to keep free for a run, which is never more than there is: it would wait for that in silence."""
    config = read_config(path / CONFIG)
    if config.device != "cpu" and cluster.gpus:
        return {"num_cpus": 1, "num_gpus": 1 / ceil(jobs / cluster.gpus) if jobs else 1}
    return {"num_cpus": min(config.threads or 1, max(cluster.cores, 1))}


def _gpus() -> list[str]:
    """The GPUs that this process may use, as CUDA calls them."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    return visible.split(",") if visible else [str(place) for place in range(torch.cuda.device_count())]


def _settle(turn: Any, gpus: list[str]) -> None:
    """Prepare a process: it takes the next GPU, and Ctrl-C ends the run in it, once, and lets no other begin.

    So does the death of the process that began it, which may have been killed without a word.
    """
    for number in STOPPING:
        signal.signal(number, _CTRL_C.heard)
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPPING)
    with turn.get_lock():
        place, turn.value = turn.value, turn.value + 1
    if len(gpus) > 1:
        os.environ["CUDA_VISIBLE_DEVICES"] = gpus[place % len(gpus)]
    Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """Wait until the process is alone, and end it as SIGTERM does."""
    if parent := parent_process():
        parent.join()
        if hasattr(signal, "pthread_kill"):
            signal.pthread_kill(main_thread().ident or 0, signal.SIGTERM)  # the one that hears, wherever it waits
        else:
            os._exit(128 + signal.SIGTERM)


STOPPING = {signal.SIGINT, signal.SIGTERM}
"""Ctrl-C, and what ends processes: clusters send it to all of them, and a pool to the others when one has died."""


@contextmanager
def _stopping_waits() -> Iterator[None]:
    """Put off whatever stops us, here and in processes that are begun meanwhile, where the system can do so."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, STOPPING)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def _signals_put_off() -> Iterator[None]:
    """Answer whatever stops us afterwards: in the middle of a lock, it would leave that in disorder."""
    if current_thread() is not main_thread():  # signals are answered elsewhere
        yield
        return
    heard = list[int]()
    answers = {number: answer for number in STOPPING if callable(answer := signal.getsignal(number))}
    for number in answers:
        signal.signal(number, lambda number, _: heard.append(number))
    try:
        yield
    finally:
        for number, answer in answers.items():
            signal.signal(number, answer)
    if heard:
        answers[signal.Signals(heard[0])](heard[0], None)


class CtrlC:
    """Whether it was pressed, whether the process is to end with it, and whether there is a run to tell."""

    def __init__(self) -> None:
        self.pressed = self.ended = self.at_work = False

    def heard(self, number: int, _: Any) -> None:
        """Take note of a signal, and interrupt the run at work the first time."""
        first, self.pressed = not self.pressed, True
        self.ended |= number == signal.SIGTERM
        if first and self.at_work:
            raise KeyboardInterrupt
        if not self.at_work:
            self.end_if_told()

    def end_if_told(self) -> None:
        """After SIGTERM, a process must not wait for work: nobody may be there to give it any."""
        if self.ended:
            os._exit(128 + signal.SIGTERM)


_CTRL_C = CtrlC()


def _do_run(path: Path, trusted: Collection[str]) -> Ended:
    try:
        _CTRL_C.at_work = True
        return Ended(path, interrupted=True) if _CTRL_C.pressed else do_run(path, None, trusted)
    except KeyboardInterrupt:
        return Ended(path, interrupted=True)
    finally:
        _CTRL_C.at_work = False
        _CTRL_C.end_if_told()
