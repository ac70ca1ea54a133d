"""The round loop: sample a cohort, train it, merge it, evaluate the new model.

Nothing is written, printed or remembered here. Whoever iterates over `simulate` gets each round as it ends, holds all
that a checkpoint needs, and may stop at any time.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor, nn

from turbosvm.algorithms.rules import Algorithm
from turbosvm.algorithms.server import ServerStep, init_server, is_frozen, merge, warm_up
from turbosvm.blocks import nbytes
from turbosvm.clients.alone import settle
from turbosvm.clients.engine import Engine, choose_engine
from turbosvm.clients.local import Call
from turbosvm.clients.memory import ClientMemory
from turbosvm.clients.pooled import train_pooled
from turbosvm.clients.probe import probe
from turbosvm.clients.replies import (
    Failure,
    Gathered,
    OnBadClient,
    Reply,
    first_not_finite,
    gather,
    look_for_infinities,
    numbers_of,
    stack,
)
from turbosvm.clients.sampling import sample_cohort
from turbosvm.clients.training import LocalTraining
from turbosvm.clients.workbench import Workbench
from turbosvm.data.federated import FederatedData
from turbosvm.data.samples import Samples, free_memory
from turbosvm.data.split import Split
from turbosvm.errors import TurboSVMError, in_one_line
from turbosvm.evaluation.metrics import Metrics, Places, evaluate_at
from turbosvm.models.contract import Head, frozen_in, load_state, state_of
from turbosvm.models.remarks import remarks_on
from turbosvm.precision import Precision, choose_precision, working_precision
from turbosvm.randomness import lend_to_global
from turbosvm.stopwatch import Stopwatch
from turbosvm.types import Diagnostics, ModelState, Moment, ServerState
from turbosvm.workers import own_threads, workers


@dataclass(frozen=True)
class Federation:
    """What is learnt, by whom: data with its users split in two, and a model with its head named."""

    data: FederatedData
    split: Split
    module: nn.Module
    head: Head


@dataclass(frozen=True)
class Plan:
    """How long and how wide: T rounds of C clients, each training as `training` says; and what to do with bad ones."""

    rounds: int
    clients_per_round: int
    training: LocalTraining
    evaluate_every: int = 1
    seed: int = 0
    paired_cohorts: bool = True
    on_bad_client: OnBadClient = "skip"
    min_clients: int = 1
    max_failed_rounds: int = 10
    client_memory: int = 2**30
    engine: str = "auto"
    precision: str = "auto"


@dataclass(frozen=True)
class Standing:
    """Where a run stands after a round: all that is needed to go on from there."""

    round: int
    failed_rounds: int
    model: ModelState
    server: ServerState
    memory: ClientMemory


@dataclass(frozen=True)
class Round:
    """One finished round."""

    number: int
    cohort: tuple[int, ...]
    """The clients whose work was merged; none in a round that failed."""
    failures: tuple[Failure, ...]
    failed: str | None
    """Why nothing was merged in this round, if so."""
    samples: int
    train_loss: float
    metrics: Metrics | None
    unanswered: int | None
    """The user of the first held-out sample whose logits are not finite, if any are."""
    diagnostics: Diagnostics
    bytes_down: int
    bytes_up: int
    seconds: dict[str, float]
    """By phase; "compile" is in the first round alone, where anything is compiled."""
    notes: tuple[str, ...]
    """What went differently than asked for, in sentences for the person."""
    standing: Standing

    @property
    def model(self) -> ModelState:
        """The global model."""
        return self.standing.model


def begin(federation: Federation, algorithm: Algorithm, plan: Plan) -> Standing:
    """Where a run stands before its first round: at the weights that the model has now."""
    model = state_of(federation.module)
    server = init_server(algorithm, model, federation.head)
    return Standing(0, 0, model, server, empty_memory(federation, plan))


def empty_memory(federation: Federation, plan: Plan) -> ClientMemory:
    """What clients keep before the first round: nothing, with room for more."""
    device = next(federation.module.parameters()).device
    return ClientMemory(plan.client_memory, free_memory(device) // 4 if device.type == "cuda" else 0)


def simulate(
    federation: Federation, algorithm: Algorithm, plan: Plan, standing: Standing | None = None
) -> Iterator[Round]:
    """Run an algorithm round by round, from its beginning or from where a run stands.

    A round's model is in `Round.model`; the federation's module is what rounds are computed with, and holds anything.
    """
    module, data = federation.module, federation.data
    device = next(module.parameters()).device
    precision = choose_precision(plan.precision, device)
    bench = Workbench(module, federation.head, precision)
    samples = Samples(data, device, plan.clients_per_round) if device.type == "cuda" else None
    held_out = HeldOut(federation, samples, device, precision)
    notes: list[str] = []
    users, pooled = federation.split.train, algorithm.pooled
    plan = replace(plan, training=settle(plan.training, bench, data, users, plan.seed, pooled, notes.append))
    name, most = choose_engine(plan.engine, device), plan.clients_per_round
    notes += _remarks(federation, algorithm, plan.seed)
    engine = Engine(name, bench, data, samples, algorithm, plan.training, most, notes.append)
    standing = standing or begin(federation, algorithm, plan)
    if standing.failed_rounds > plan.max_failed_rounds:
        raise TurboSVMError(f"{_failed(standing, plan)}.")
    following = _cohort(federation, algorithm, plan, standing.round + 1)
    compiling = _warmed_up(federation, algorithm, plan, standing)
    for number in range(standing.round + 1, plan.rounds + 1):
        watch = Stopwatch(bench.device)
        moment = Moment(number, plan.rounds, plan.seed)
        call = Call(standing.model, standing.server.shared, moment)
        ids = following
        with working_precision(precision, device):
            sent = _trained(engine, call, federation, algorithm, plan, ids, standing.memory)
        watch.lap("train")
        if number < plan.rounds:
            following = _cohort(federation, algorithm, plan, number + 1)
            engine.expect(Moment(number + 1, plan.rounds, plan.seed), following)
        with own_threads():
            replies, step = _taken_in(federation, algorithm, plan, standing, sent, moment)
        failed = step if isinstance(step, str) else None
        merged: list[Reply] = []
        diagnostics: Diagnostics = {}
        if isinstance(step, str):
            standing = replace(standing, round=number, failed_rounds=standing.failed_rounds + 1)
        else:
            merged, diagnostics = replies.good, step.diagnostics
            new = {reply.client: reply.kept for reply in merged if reply.kept is not None}
            memory = standing.memory.keeping(new)
            standing = Standing(number, standing.failed_rounds, step.model, step.state, memory)
        watch.lap("merge")
        metrics = None
        if number % plan.evaluate_every == 0 or number == plan.rounds:
            with lend_to_global(plan.seed, "layers", number, "evaluation"):
                metrics = _evaluated(held_out, engine, standing)
        watch.lap("evaluate")
        yield Round(
            number=number,
            cohort=() if algorithm.pooled else tuple(reply.client for reply in merged),
            failures=tuple(replies.failures),
            failed=failed,
            samples=sum(reply.samples for reply in merged),
            train_loss=float(torch.stack([reply.loss for reply in merged]).mean()) if merged else float("nan"),
            metrics=metrics,
            unanswered=held_out.user_of(metrics.unanswered.first) if metrics and metrics.unanswered else None,
            diagnostics=diagnostics,
            bytes_down=0 if algorithm.pooled else len(ids) * (call.model.nbytes + nbytes(*call.shared.values())),
            bytes_up=0 if algorithm.pooled else sum(reply.nbytes for reply in replies.good),
            seconds=compiling | watch.seconds,
            notes=_taken(notes),
            standing=standing,
        )
        compiling = {}
        if failed and standing.failed_rounds > plan.max_failed_rounds:
            raise TurboSVMError(_too_many(standing, plan, federation, algorithm, failed, replies))


class HeldOut:
    """All samples of the held-out users, and how models are evaluated on them: in large batches."""

    def __init__(
        self, federation: Federation, samples: Samples | None, device: torch.device, precision: Precision
    ) -> None:
        self._data, self._samples, self._device, self._precision = federation.data, samples, device, precision
        for user in federation.split.held_out:
            self._data.labels_of(user)  # refuses those that are no classes
        offsets = self._data.offsets
        own = np.concatenate([np.arange(offsets[user], offsets[user + 1]) for user in federation.split.held_out])
        resident = samples is not None and samples.resident
        self._places: Places = torch.tensor(own, device=device) if resident else own
        self._at_a_time = 512
        if device.type == "cuda":
            self._at_a_time = 8192 if self._data.tokens else 4096

    def evaluate(self, module: nn.Module, side_by_side: bool) -> Metrics:
        """Evaluate a model on all of them; on the CPU, a batch a core if the model allows that."""
        classes, precision = len(self._data.classes), self._precision
        with working_precision(precision, self._device):
            if side_by_side and self._device.type != "cuda":
                with workers(torch.get_num_threads()) as pool:
                    return evaluate_at(module, self._places, self._fetch, classes, 128, pool.map, precision)
            while self._at_a_time > 1:
                try:
                    return evaluate_at(module, self._places, self._fetch, classes, self._at_a_time, precision=precision)
                except torch.OutOfMemoryError:
                    self._at_a_time //= 2  # tried below: while an error is handled, it holds on to what it was about
                torch.cuda.empty_cache()
            return evaluate_at(module, self._places, self._fetch, classes, 1, precision=precision)

    def user_of(self, place: int) -> int:
        """Whose sample is at this place."""
        return int(np.searchsorted(self._data.offsets, place, side="right")) - 1

    def _fetch(self, places: Places) -> tuple[Tensor, Tensor]:
        if isinstance(places, Tensor):
            assert self._samples is not None  # noqa: S101 (places lie on the device where the samples do)
            return self._samples.at(places)
        return self._data.tensors(places, self._device)


def _evaluated(held_out: HeldOut, engine: Engine, standing: Standing) -> Metrics:
    """Evaluate the round's model; an error of the person's own model ends the run with a sentence."""
    try:
        load_state(engine.module, standing.model)
        return held_out.evaluate(engine.module, engine.side_by_side)
    except TurboSVMError:
        raise
    except Exception as error:  # the person's own model may raise anything
        kind = type(engine.bench.module).__name__
        raise TurboSVMError(
            f"Round {standing.round}: model {kind} cannot be evaluated on the held-out users: {in_one_line(error)}"
        ) from error


def _remarks(federation: Federation, algorithm: Algorithm, seed: int) -> list[str]:
    """What the person may not have meant of the model, in sentences."""
    module, head = federation.module, federation.head
    device = next(module.parameters()).device
    with lend_to_global(seed, "layers"):
        remarks = remarks_on(
            module, head, probe(federation.data, federation.split.train, 8, device), algorithm.head is not None
        )
    if algorithm.head is not None and is_frozen(head, frozen_in(module)):
        remarks.append(
            f"The head '{head.layer}' of model {type(module).__name__} is frozen (requires_grad is False): "
            f"{algorithm.name} leaves it as it is, and its head rule does nothing."
        )
    return remarks


def _warmed_up(federation: Federation, algorithm: Algorithm, plan: Plan, standing: Standing) -> dict[str, float]:
    """Have what the server compiles ready for the first of the rounds that are left; the seconds that it takes."""
    watch = Stopwatch(next(federation.module.parameters()).device)
    if standing.round < plan.rounds and warm_up(algorithm, standing.model, federation.head, plan.clients_per_round):
        watch.lap("compile")
    return watch.seconds


def _taken(notes: list[str]) -> tuple[str, ...]:
    """Take the notes out."""
    taken = tuple(notes)
    notes.clear()
    return taken


def _cohort(federation: Federation, algorithm: Algorithm, plan: Plan, number: int) -> tuple[int, ...]:
    apart = () if plan.paired_cohorts else (algorithm.name,)
    return sample_cohort(plan.seed, number, federation.split.train, plan.clients_per_round, *apart)


def _trained(
    engine: Engine,
    call: Call,
    federation: Federation,
    algorithm: Algorithm,
    plan: Plan,
    ids: tuple[int, ...],
    memory: ClientMemory,
) -> list[Reply | Failure]:
    """Have the round's clients train."""
    if not algorithm.pooled:
        return engine.train(call, ids, memory)
    data, users = federation.data, federation.split.train
    cohorts = [_cohort(federation, algorithm, plan, number) for number in range(1, call.moment.round + 1)]
    return [train_pooled(engine.bench, call, data, users, cohorts, algorithm, plan.training)]


def _taken_in(
    federation: Federation,
    algorithm: Algorithm,
    plan: Plan,
    standing: Standing,
    sent: list[Reply | Failure],
    moment: Moment,
) -> tuple[Gathered, ServerStep | str]:
    """Tell the good replies from the bad, and take the server's step with the good.

    On a GPU the step is first taken as if all numbers were finite, and they are looked at afterwards: looking makes the
    CPU wait until all clients have trained, and the GPU then waits for the CPU.
    """
    start, on_bad = standing.model, plan.on_bad_client
    sound = look_for_infinities(numbers_of(sent))
    for trusting in (True, False) if start.on_cuda else (False,):
        replies = gather(sent, start, on_bad, sound=trusting or sound())
        if on_bad == "abort" and replies.failures:
            told = _told(replies.failures[0], federation, algorithm)
            raise TurboSVMError(f"Round {moment.round}: {told} (on_bad_client: abort).")
        step = _merge(federation, algorithm, plan, standing, replies.good, moment)
        if isinstance(step, ServerStep) and sound():
            break
    return replies, step


def _merge(
    federation: Federation,
    algorithm: Algorithm,
    plan: Plan,
    standing: Standing,
    replies: list[Reply],
    moment: Moment,
) -> ServerStep | str:
    """The server's step, or why there is none: too few clients, or a step that cannot be taken."""
    needed = 1 if algorithm.pooled else plan.min_clients
    if len(replies) < needed:
        return f"{len(replies)} usable clients, at least {needed} are needed"
    model, population = standing.model, len(federation.split.train)
    try:
        step = merge(
            algorithm,
            model,
            stack(replies),
            standing.server,
            federation.head,
            moment,
            population,
            frozen_in(federation.module),
        )
    except TurboSVMError as error:
        return f"the server's step failed: {error}"
    name = _first_not_finite(step, standing)
    return f"the server's step made '{name}' not finite" if name else step


def _first_not_finite(step: ServerStep, standing: Standing) -> str | None:
    """The first tensor of the new model, or of what the server keeps and shares, that is not finite."""
    model, server, before = step.model, step.state, standing.server
    groups = [
        (model.parameters, standing.model.parameters),
        (model.buffers, standing.model.buffers),
        (server.body, before.body),
        (server.head, before.head),
        *((shared, before.shared.get(part, {})) for part, shared in server.shared.items()),
    ]
    if look_for_infinities([new for new, _ in groups])():
        return None
    return next(filter(None, (first_not_finite(new, old) for new, old in groups)), None)


def _too_many(
    standing: Standing, plan: Plan, federation: Federation, algorithm: Algorithm, failed: str, gathered: Gathered
) -> str:
    """The sentence that ends a run."""
    example = f"; {_told(gathered.failures[-1], federation, algorithm)}" if gathered.failures else ""
    hint = " If training has diverged, try smaller learning rates." if "not finite" in failed + example else ""
    return f"{_failed(standing, plan)}. Round {standing.round}: {failed}{example}.{hint}"


def _failed(standing: Standing, plan: Plan) -> str:
    rounds = "1 round" if standing.failed_rounds == 1 else f"{standing.failed_rounds} rounds"
    return f"{rounds} failed (max_failed_rounds is {plan.max_failed_rounds})"


def _told(failure: Failure, federation: Federation, algorithm: Algorithm) -> str:
    who = "the pool" if algorithm.pooled else f"user '{federation.data.users[failure.client]}'"
    return f"{who}: {failure.why}"
