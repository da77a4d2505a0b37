"""Executes runs by their kind of target, with a log; the seam between slots and targets."""

from __future__ import annotations

from contextlib import contextmanager
from functools import partial
from queue import SimpleQueue
from typing import TYPE_CHECKING, Final

from duebook.engine.books_clock import BooksClock
from duebook.engine.output_files import OutputFiles
from duebook.engine.reports import Desk, TaskReports
from duebook.engine.steps import Ready, StepPreparer
from duebook.errors import Invalid, Unavailable
from duebook.flows.flow_cache import FlowCache
from duebook.model.celery_target import CELERY, CeleryTarget
from duebook.model.run import Outcome, Progress
from duebook.model.secret_values import SecretValues
from duebook.model.target import CommandTarget, EventTarget, HttpTarget, TaskTarget
from duebook.targets.celery_run import CeleryRun
from duebook.targets.celery_runs import CeleryRuns
from duebook.targets.celery_states import began_with
from duebook.targets.command import perform_command
from duebook.targets.context import TaskStop
from duebook.targets.event import perform_event
from duebook.targets.hiding import hidden_outcome, variable_secrets
from duebook.targets.node_secrets import NodeSecrets, SecretFailed
from duebook.targets.output_refs import OutputRefs
from duebook.targets.processes import Stop
from duebook.targets.task import Tasks, perform_task
from duebook.targets.task_process import TaskProcesses
from duebook.targets.templates import TemplateFailed, rendered, secret_names

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from duebook.engine.step_places import FlowPlaces
    from duebook.engine.steps import Write
    from duebook.model.flow_run import StepContext
    from duebook.model.run import Claim
    from duebook.model.target import Target
    from duebook.secret_sources import Sources
    from duebook.store.base import Store
    from duebook.targets.addresses import Network
    from duebook.targets.celery_link import AnyCelery
    from duebook.targets.loop import EventLoop
    from duebook.targets.spawner import Spawner
    from duebook.targets.task import Task

    AnyStop = Stop | TaskStop
    Perform = Callable[[Claim, AnyStop, Ready | None], Outcome]
    Execute = Callable[[Claim, Stop, TaskReports, Write], Outcome]

__all__ = ["TargetPerformer"]

LOG_CAP: Final = 1_000_000


class TargetPerformer:
    """Used by worker nodes; runs commands through its spawner, and the tasks it was given."""

    def __init__(
        self,
        store: Store,
        spawner: Spawner,
        revive: Callable[[], None],
        log_cap: int = LOG_CAP,
        http_allow: tuple[Network, ...] = (),
        tasks: Tasks | None = None,
        flow_cache: FlowCache | None = None,
        clock: BooksClock | None = None,
        secrets: Sources | None = None,
        celery: AnyCelery | None = None,
        places: FlowPlaces | None = None,
        tell_celery: Callable[[str | None], None] = lambda _: None,
    ) -> None:
        self._spawner = spawner
        self._revive = revive
        self._http_allow = http_allow
        self._tasks = tasks or Tasks()
        self._secrets = NodeSecrets(secrets, spawner)
        self._desk = Desk(store, log_cap, clock or BooksClock(), self._secrets)
        self._loop: EventLoop | None = None
        self._refs = OutputRefs(spawner.setup.user)
        self._processes = TaskProcesses(spawner, self._tasks.process_env)
        self._passed = variable_secrets(spawner.setup.inherited.items())
        self._celery = None if celery is None else self._celery_runs(celery, tell_celery)
        self._steps = StepPreparer(store, spawner, flow_cache or FlowCache(), self._secrets, places)
        self._performers: dict[type[Target], Perform] = {
            CeleryTarget: self._perform_celery,
            CommandTarget: partial(self._perform_logged, self._spawn),
            HttpTarget: partial(self._perform_logged, self._send),
            TaskTarget: self._perform_task,
            EventTarget: self._perform_event,
        }

    def new_stop(self, claim: Claim) -> AnyStop:
        return TaskStop() if self.is_cooperative(claim) else Stop()

    def is_cooperative(self, claim: Claim) -> bool:
        return claim.run.task == CELERY or claim.run.task in self._tasks.cooperative

    def begin(
        self,
        begun: Sequence[tuple[Claim, AnyStop]],
        ended: Callable[[Claim, Outcome], None],
    ) -> list[Claim]:
        """Hands tasks of Celery to their thread and async tasks to the event loop, all of them at
        once."""
        if self._celery is not None:
            begun = self._begin_celery(self._celery, begun, ended)
        if not self._tasks.any_async:
            return [claim for claim, _ in begun]
        from duebook.targets.loop import AsyncRun, EventLoop  # importing asyncio is slow

        runs, rest, told = [], [], _hiding(ended)
        known: dict[tuple[object, ...], tuple[Task | None, bool]] = {}
        for claim, stop in begun:
            run = claim.run
            is_step = claim.step_context is not None
            alike = id(claim.spec), run.task, run.namespace, run.payload is None, is_step
            found = known.get(alike)
            if found is None:
                found = known[alike] = self._task_in_loop(claim), self._is_filled(claim)
            task, is_filled = found
            if task is None or not isinstance(stop, TaskStop):
                rest.append(claim)
            elif (filled := claim if is_filled else self._with_values(claim)) is not None:
                reports = TaskReports(filled, stop, self._desk)
                runs.append(AsyncRun(task, filled, stop, reports, told))
            else:
                rest.append(claim)
        if runs:
            self._loop = self._loop or EventLoop()
            self._loop.begin(runs)
        return rest

    def _begin_celery(
        self,
        celery: CeleryRuns,
        begun: Sequence[tuple[Claim, AnyStop]],
        ended: Callable[[Claim, Outcome], None],
    ) -> Sequence[tuple[Claim, AnyStop]]:
        """Start the tasks of Celery except steps and runs with secrets, whose values may take time;
        returns the other runs."""
        runs, rest = [], []
        for claim, stop in begun:
            is_celery = isinstance(claim.spec.target, CeleryTarget) and isinstance(stop, TaskStop)
            if is_celery and claim.step_context is None and not secret_names(claim):
                runs.append(self._celery_run(claim, stop, ended))
            else:
                rest.append((claim, stop))
        if runs:
            celery.begin(runs)
        return rest

    def _celery_run(
        self,
        claim: Claim,
        stop: AnyStop,
        ended: Callable[[Claim, Outcome], None],
        is_prepared: bool = False,
    ) -> CeleryRun:
        assert isinstance(stop, TaskStop)  # noqa: S101 - as `new_stop` made it
        reports = partial(TaskReports, stop=stop, desk=self._desk)
        return CeleryRun(claim, stop, reports, _hiding(ended), is_prepared)

    def _celery_runs(
        self, celery: AnyCelery, tell_outage: Callable[[str | None], None]
    ) -> CeleryRuns:
        store = self._desk.store

        def began(claim: Claim) -> int:
            if claim.run.attempt == 1:
                return 1
            attempts = store.read(lambda tx: tx.runs.list_attempts(claim.run.id))
            return began_with(attempts, claim.run.attempt)

        def tell(claim: Claim, text: str) -> None:
            told = [(claim.token, Progress(text=text))]
            store.transact(lambda tx: tx.attempts.note_progress(told))

        return CeleryRuns(celery, _with_all_values, began, tell, tell_outage)

    def _perform_celery(self, claim: Claim, stop: AnyStop, ready: Ready | None) -> Outcome:
        """A step of a flow, a run with secrets, or a run on a node that cannot send it."""
        if self._celery is None:
            return Outcome("failed", "missing_target", "this node has no Celery app: use --celery")
        ended: SimpleQueue[Outcome] = SimpleQueue()
        told = partial(_put_outcome, ended)
        run = self._celery_run(claim, stop, told, is_prepared=ready is not None)
        self._celery.begin([run])
        return ended.get()

    def _task_in_loop(self, claim: Claim) -> Task | None:
        """The task of a run that can start in the event loop; None for all others."""
        task = self._tasks.find(claim.run.task)
        if task is None or task.kind != "loop" or _refusal(task, claim) is not None:
            return None
        return task

    def _is_filled(self, claim: Claim) -> bool:
        """Whether it has no values to fill in; if so, the same holds for its whole definition."""
        return claim.step_context is None and self._with_values(claim) is claim

    def _with_values(self, claim: Claim) -> Claim | None:
        """A run, or a step of a flow, with its values; None when these take time, or when it will
        not run."""
        if claim.step_context is None:
            return None if secret_names(claim) else self._with_place(claim)
        try:
            ready = self._steps.prepare_at_once(claim, claim.step_context)
        except Exception:  # it will fail alone, in its own thread
            return None
        return self._with_place(ready.claim) if isinstance(ready, Ready) else None

    def perform(self, claim: Claim, stop: AnyStop) -> Outcome:
        if claim.step_context is not None:
            with OutputFiles(self._spawner.setup.user) as files:
                return self._perform_step(claim, claim.step_context, stop, files)
        try:
            claim = self._with_secrets(claim)
        except SecretFailed as error:
            return self._noted(claim, Outcome("failed", "secret", str(error)))
        except Unavailable:  # as for commands
            self._revive()
            return Outcome("cancelled", "spawner")
        with _hiding_errors(claim):
            return self._performers[type(claim.spec.target)](claim, stop, None)

    def _with_secrets(self, claim: Claim) -> Claim:
        """A run with the values of the secrets that it names; raises SecretFailed."""
        if not (names := secret_names(claim)):
            return self._with_place(claim)
        values = SecretValues()
        for name in sorted(names):
            values.add(name, self._secrets.get(claim.run.namespace, name))
        return claim._replace(secret_values=values)

    def _with_place(self, claim: Claim) -> Claim:
        """With a place for secrets that its task may ask for, where there are any."""
        asks = isinstance(claim.spec.target, TaskTarget) and claim.secret_values is None
        if asks and self._secrets.offers_any(claim.run.namespace):
            return claim._replace(secret_values=SecretValues())
        return claim

    def _perform_step(
        self, claim: Claim, context: StepContext, stop: AnyStop, files: OutputFiles
    ) -> Outcome:
        asked = stop if isinstance(stop, Stop) else None
        try:
            ready = self._steps.prepare(claim, context, files, asked)
        except Unavailable:
            self._revive()
            return Outcome("cancelled", "spawner")
        if isinstance(ready, Outcome):
            return self._noted(claim, ready)
        claim = self._with_place(ready.claim)
        with _hiding_errors(claim):
            outcome = self._performers[type(claim.spec.target)](claim, stop, ready)
        try:
            return self._steps.repeated(claim, context, ready.step, outcome, asked)
        except Unavailable:
            self._revive()
            return Outcome("cancelled", "spawner")

    def _perform_logged(
        self, execute: Execute, claim: Claim, stop: AnyStop, ready: Ready | None
    ) -> Outcome:
        """Execute a target that may print. The values of a step are in its claim and are never
        rendered again; the log gets all filled-in secrets, so that it can hide them."""
        assert isinstance(stop, Stop)  # noqa: S101 - only tasks have another
        if ready is None:
            claim = claim._replace(secrets=claim.secrets | self._passed)
            try:
                claim = rendered(claim)
            except TemplateFailed as error:
                failed = Outcome("failed", "template", str(error))
                return self._noted(claim, hidden_outcome(claim, failed))
        reports = TaskReports(claim, stop, self._desk)  # most print nothing
        try:
            if ready is None:
                outcome = execute(claim, stop, reports, reports.printed)
            else:
                printed = ready.watch(reports.printed)
                outcome = ready.outcome(execute(claim, stop, reports, printed), printed)
            outcome = hidden_outcome(claim, outcome)
            if outcome.error:
                reports.note(outcome.error)
        finally:
            reports.close()
        return outcome

    def _noted(self, claim: Claim, outcome: Outcome) -> Outcome:
        """Note in the run's log why it did not start."""
        if outcome.error:
            log = self._desk.open_log(claim)
            log.note(outcome.error)
            self._desk.close_log(log, lambda: True)
        return outcome

    def _send(self, claim: Claim, stop: Stop, reports: TaskReports, write: Write) -> Outcome:
        from duebook.targets.http import perform_http  # a node without requests starts quicker

        return perform_http(claim, stop, write, reports.note, self._http_allow)

    def _spawn(self, claim: Claim, stop: Stop, _reports: TaskReports, write: Write) -> Outcome:
        try:
            return perform_command(claim, self._spawner, stop, write, self._refs)
        except Unavailable:  # the spawner is gone, which says nothing about the work
            self._revive()
            return Outcome("cancelled", "spawner")

    def _perform_event(self, claim: Claim, _stop: AnyStop, _ready: Ready | None) -> Outcome:
        return hidden_outcome(claim, perform_event(claim))

    def _perform_task(self, claim: Claim, stop: AnyStop, _ready: Ready | None) -> Outcome:
        task = self._tasks.find(claim.run.task)
        if task is None:
            told = f'task "{claim.run.task}" is not declared on this node'
            return Outcome("failed", "missing_target", told)
        if (refused := _refusal(task, claim)) is not None:
            return self._noted(claim, refused)
        reports = TaskReports(claim, stop, self._desk)
        try:
            if isinstance(stop, TaskStop) and task.kind == "loop":
                return self._perform_in_loop(task, claim, stop)
            if isinstance(stop, TaskStop):
                return hidden_outcome(claim, perform_task(task, claim, stop, reports))
            return self._perform_in_process(task, claim, stop, reports)
        finally:
            reports.close()

    def _perform_in_loop(self, task: Task, claim: Claim, stop: TaskStop) -> Outcome:
        """A step of a flow whose values were not known when others started together."""
        from duebook.targets.loop import AsyncRun, EventLoop

        ended: SimpleQueue[Outcome] = SimpleQueue()
        reports = TaskReports(claim, stop, self._desk)
        run = AsyncRun(task, claim, stop, reports, _hiding(lambda _, outcome: ended.put(outcome)))
        self._loop = self._loop or EventLoop()
        self._loop.begin([run])
        return ended.get()

    def _perform_in_process(
        self, task: Task, claim: Claim, stop: Stop, reports: TaskReports
    ) -> Outcome:
        try:
            outcome = self._processes.perform(task, claim, stop, reports.printed, reports)
        except Unavailable:  # as for commands
            self._revive()
            return Outcome("cancelled", "spawner")
        outcome = hidden_outcome(claim, outcome)
        if outcome.error:
            reports.note(outcome.error)
        return outcome

    def flush(self) -> None:
        """Periodic work, for a thread that does not execute runs."""
        self._desk.flush()
        self._processes.tidy()
        self._spawner.tidy()

    def close(self) -> None:
        if self._celery is not None:
            self._celery.close()
        if self._loop is not None:
            self._loop.close()
        self._processes.close()
        self._refs.close()


@contextmanager
def _hiding_errors(claim: Claim) -> Iterator[None]:
    """Unexpected errors, too, are reported without the secrets of the run."""
    try:
        yield
    except Exception as error:
        if not claim.secret_values:
            raise
        told = claim.secret_values.hide(f"{type(error).__name__}: {error}")
        raise RuntimeError(told) from None


def _hiding(ended: Callable[[Claim, Outcome], None]) -> Callable[[Claim, Outcome], None]:
    """Report an end without the secrets in its error."""
    return lambda claim, outcome: ended(claim, hidden_outcome(claim, outcome))


def _with_all_values(claim: Claim) -> Claim | Outcome:
    """A run whose secrets are known, with its values; an outcome if they cannot be had."""
    try:
        return rendered(claim)
    except TemplateFailed as error:
        return Outcome("failed", "template", str(error))


def _put_outcome(ended: SimpleQueue[Outcome], _: Claim, outcome: Outcome) -> None:
    ended.put(outcome)


def _refusal(task: Task, claim: Claim) -> Outcome | None:
    """The outcome of a run whose namespace may not call its task; None if it may."""
    try:
        task.refuse(claim.run.namespace)
    except Invalid as error:
        return Outcome("failed", "fenced", str(error))
    return None
