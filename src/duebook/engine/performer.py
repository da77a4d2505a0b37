"""Performs runs by their kind of target, with a log; the seam between slots and targets."""

from __future__ import annotations

from functools import partial
from queue import SimpleQueue
from typing import TYPE_CHECKING, Final

from duebook.engine.books_clock import BooksClock
from duebook.engine.output_files import OutputFiles
from duebook.engine.reports import Desk, TaskReports
from duebook.engine.steps import Ready, StepPreparer
from duebook.errors import Invalid, Unavailable
from duebook.flows.flow_cache import FlowCache
from duebook.model.run import Outcome
from duebook.model.target import CommandTarget, EventTarget, HttpTarget, TaskTarget
from duebook.targets.command import perform_command
from duebook.targets.context import TaskStop
from duebook.targets.event import perform_event
from duebook.targets.hiding import hidden_outcome, variable_secrets
from duebook.targets.output_refs import OutputRefs
from duebook.targets.processes import Stop
from duebook.targets.task import Tasks, perform_task
from duebook.targets.task_process import TaskProcesses
from duebook.targets.templates import TemplateFailed, rendered

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from duebook.engine.steps import Write
    from duebook.model.flow_run import StepContext
    from duebook.model.run import Claim
    from duebook.model.target import Target
    from duebook.store.base import Store
    from duebook.targets.addresses import Network
    from duebook.targets.loop import EventLoop
    from duebook.targets.spawner import Spawner
    from duebook.targets.task import Task

    AnyStop = Stop | TaskStop
    Perform = Callable[[Claim, AnyStop, Ready | None], Outcome]
    Execute = Callable[[Claim, Stop, TaskReports, Write], Outcome]

__all__ = ["TargetPerformer"]

LOG_CAP: Final = 1_000_000


class TargetPerformer:
    """What a worker node uses; commands go through its spawner, tasks are those it was given."""

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
    ) -> None:
        self._spawner = spawner
        self._revive = revive
        self._http_allow = http_allow
        self._tasks = tasks or Tasks()
        self._desk = Desk(store, log_cap, clock or BooksClock())
        self._loop: EventLoop | None = None
        self._refs = OutputRefs(spawner.setup.user)
        self._processes = TaskProcesses(spawner, self._tasks.process_env)
        self._passed = variable_secrets(spawner.setup.inherited.items())
        self._steps = StepPreparer(store, spawner, flow_cache or FlowCache())
        self._performers: dict[type[Target], Perform] = {
            CommandTarget: partial(self._perform_logged, self._spawn),
            HttpTarget: partial(self._perform_logged, self._send),
            TaskTarget: self._perform_task,
            EventTarget: self._perform_event,
        }

    def new_stop(self, claim: Claim) -> AnyStop:
        return TaskStop() if claim.run.task in self._tasks.cooperative else Stop()

    def is_cooperative(self, claim: Claim) -> bool:
        return claim.run.task in self._tasks.cooperative

    def begin(
        self,
        begun: Sequence[tuple[Claim, AnyStop]],
        ended: Callable[[Claim, Outcome], None],
    ) -> list[Claim]:
        """Async tasks go to the event loop, all of them at once."""
        if not self._tasks.any_async:
            return [claim for claim, _ in begun]
        from duebook.targets.loop import AsyncRun, EventLoop  # asyncio takes its time

        runs, rest, told = [], [], _hiding(ended)
        known: dict[tuple[str | None, str], Task | None] = {}
        for claim, stop in begun:
            asked = claim.run.task, claim.run.namespace
            if asked not in known:
                known[asked] = self._task_in_loop(claim)
            task = known[asked]
            if task is None or not isinstance(stop, TaskStop):
                rest.append(claim)
            elif (filled := self._with_values(claim)) is not None:
                reports = TaskReports(filled, stop, self._desk)
                runs.append(AsyncRun(task, filled, stop, reports, told))
            else:
                rest.append(claim)
        if runs:
            self._loop = self._loop or EventLoop()
            self._loop.begin(runs)
        return rest

    def _task_in_loop(self, claim: Claim) -> Task | None:
        """The task of a run that begins in the event loop; None for all others."""
        task = self._tasks.find(claim.run.task)
        if task is None or task.kind != "loop" or _refusal(task, claim) is not None:
            return None
        return task

    def _with_values(self, claim: Claim) -> Claim | None:
        """A step of a flow with its values; None when these take time, or it will not run."""
        if claim.step_context is None:
            return claim
        try:
            ready = self._steps.prepare_at_once(claim, claim.step_context)
        except Exception:  # it fails alone, in a thread of its own
            return None
        return ready.claim if isinstance(ready, Ready) else None

    def perform(self, claim: Claim, stop: AnyStop) -> Outcome:
        if claim.step_context is not None:
            with OutputFiles(self._spawner.setup.user) as files:
                return self._perform_step(claim, claim.step_context, stop, files)
        return self._performers[type(claim.spec.target)](claim, stop, None)

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
        return self._performers[type(ready.claim.spec.target)](ready.claim, stop, ready)

    def _perform_logged(
        self, execute: Execute, claim: Claim, stop: AnyStop, ready: Ready | None
    ) -> Outcome:
        """What prints. The values of a step are in its claim, and never rendered again; the log
        knows all that are filled in, so that it can hide them."""
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
        """Why a run did not begin, where people look for it."""
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
        """A step of a flow, whose values were not known when others began together."""
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
        """What wants to be done now and then, by a thread that does not work on a run."""
        self._desk.flush()
        self._processes.tidy()
        self._spawner.tidy()

    def close(self) -> None:
        if self._loop is not None:
            self._loop.close()
        self._processes.close()
        self._refs.close()


def _hiding(ended: Callable[[Claim, Outcome], None]) -> Callable[[Claim, Outcome], None]:
    """Tells of an end without the secrets in its error."""
    return lambda claim, outcome: ended(claim, hidden_outcome(claim, outcome))


def _refusal(task: Task, claim: Claim) -> Outcome | None:
    """How a run ends whose namespace may not call its task; None: it may."""
    try:
        task.refuse(claim.run.namespace)
    except Invalid as error:
        return Outcome("failed", "fenced", str(error))
    return None
