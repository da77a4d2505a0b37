"""Performs runs with a Celery target: one thread sends their tasks and looks at the records of all
that are under way, so that waiting needs no thread."""

from __future__ import annotations

import logging
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final, Literal, Protocol

from duebook.backoff import backoff
from duebook.errors import Unavailable
from duebook.model.celery_target import CeleryTarget, celery_task_id
from duebook.model.fate import HAND_BACK
from duebook.model.run import Outcome
from duebook.targets.celery_link import NotSent
from duebook.targets.celery_states import CeleryEnd, CeleryRecord, next_step, takeover_note
from duebook.targets.log_fields import about
from duebook.targets.outcomes import stopped

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from duebook.model.run import Claim
    from duebook.targets.celery_link import AnyCelery
    from duebook.targets.context import TaskStop

__all__ = ["CeleryReports", "CeleryRun", "CeleryRuns"]

log = logging.getLogger(__name__)

LOOK_EVERY: Final = 0.2
"""Seconds between two looks at the records, at least."""
LOOK_PART: Final = 10
"""Looking takes at most one part in so many of the time."""
LONGEST_LOOK: Final = 5.0


class CeleryReports(Protocol):
    """The log of a run."""

    def line(self, stream: Literal["stdout", "stderr"], text: str) -> None: ...

    def note(self, text: str) -> None: ...

    def close(self) -> None: ...


class CeleryRun:
    """One run, and whom to tell of its end."""

    __slots__ = (
        *("_open", "_reports", "claim", "ended", "is_prepared"),
        *("is_taken_over", "phase", "stop", "task_id", "was_tried"),
    )

    def __init__(
        self,
        claim: Claim,
        stop: TaskStop,
        open_reports: Callable[[Claim], CeleryReports],
        ended: Callable[[Claim, Outcome], None],
        is_prepared: bool = False,
    ) -> None:
        self.claim = claim
        self.stop = stop
        self._open = open_reports
        self._reports: CeleryReports | None = None
        self.ended = ended
        self.is_prepared = is_prepared
        """whether its values are filled in"""
        self.phase: Literal["new", "asking", "sending", "unmarked", "waiting"] = "new"
        self.task_id = ""
        self.is_taken_over = False
        """whether its task is that of an earlier attempt, whose node was lost or has left"""
        self.was_tried = False
        """whether its task may have been sent"""

    @property
    def reports(self) -> CeleryReports:
        """Opened with what the claim knows by then: it hides the secrets of the run."""
        if self._reports is None:
            self._reports = self._open(self.claim)
        return self._reports

    @property
    def target(self) -> CeleryTarget:
        target = self.claim.spec.target
        assert isinstance(target, CeleryTarget)  # noqa: S101 - the performer has looked
        return target


class CeleryRuns:
    """Started with the first runs. `prepare` fills in the values of a run, or says how it ends
    without any; `began_with` is the attempt that sent its task; `tell` puts what a takeover found
    out where `explain` sees it. The two may wait for the books, and raise Unavailable."""

    def __init__(
        self,
        celery: AnyCelery,
        prepare: Callable[[Claim], Claim | Outcome],
        began_with: Callable[[Claim], int],
        tell: Callable[[Claim, str], None],
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._celery = celery
        self._prepare = prepare
        self._began_with = began_with
        self._tell = tell
        self._monotonic = monotonic
        self._woken = threading.Condition()
        self._new: list[CeleryRun] = []
        self._is_woken = False
        self._closed = False
        self._thread: threading.Thread | None = None
        self._closers = ThreadPoolExecutor(2, thread_name_prefix="duebook-closer")
        self._runs: dict[CeleryRun, None] = {}
        """in the order in which they came"""
        self._failures: dict[str, int] = {}
        """how often in a row the books, the broker and the backend were out of reach"""
        self._next_at: dict[str, float] = {}
        """when each of them is tried again"""

    def begin(self, runs: Iterable[CeleryRun]) -> None:
        """From any thread."""
        self.add(runs)
        with self._woken:
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._loop, name="duebook-celery", daemon=True
                )
                self._thread.start()

    def add(self, runs: Iterable[CeleryRun]) -> None:
        """For the next step."""
        added = list(runs)
        with self._woken:
            self._new += added
        for run in added:
            run.stop.when_set(self._wake)
        self._wake()

    def close(self, timeout: float = 1.0) -> None:
        with self._woken:
            self._closed = True
            thread = self._thread
        self._wake()
        if thread is not None:
            thread.join(timeout)
        self._closers.shutdown(wait=False)

    def _wake(self) -> None:
        with self._woken:
            self._is_woken = True
            self._woken.notify()

    def _loop(self) -> None:
        wait: float | None = 0.0
        while True:
            with self._woken:
                self._woken.wait_for(lambda: self._is_woken, wait)
                self._is_woken = False
                if self._closed:
                    return
            try:
                wait = self.step()
            except Exception:
                log.exception("the Celery thread continues after an error")
                wait = 1.0

    def step(self) -> float | None:
        """Do what can be done now; returns in how many seconds there is more, None: when woken."""
        with self._woken:
            self._runs |= dict.fromkeys(self._new)
            self._new = []
        for run in [run for run in self._runs if run.stop.reason is not None]:
            self._stop(run)
        self._start()
        self._send()
        self._look()
        if not self._runs:
            return None
        now = self._monotonic()
        waits = [self._next_at.get(part, 0.0) - now for part in self._parts()]
        return max(min(waits), 0.0)

    def _parts(self) -> set[str]:
        """What the runs wait for."""
        parts = {"new": "books", "sending": "broker"}
        return {parts.get(run.phase, "backend") for run in self._runs}

    def _in(self, *phases: str) -> list[CeleryRun]:
        return [run for run in self._runs if run.phase in phases]

    def _start(self) -> None:
        """Find out what each new run sends, or what an earlier attempt has sent."""
        for run in self._in("new") if self._may("books") else ():
            try:
                number = self._began_with(run.claim)
            except Unavailable as error:
                self._failed("books", error, ())
                return
            self._reached("books")
            run.task_id = celery_task_id(run.claim.run.id, number)
            ready = run.claim if run.is_prepared else self._prepare(run.claim)
            if isinstance(ready, Outcome):
                self._end(run, ready)
                continue
            run.claim = ready
            run.is_taken_over = number != run.claim.run.attempt
            if run.is_taken_over and self._celery.waits and run.target.wait:
                run.phase = "asking"
                continue
            if run.is_taken_over:
                self._told(run, takeover_note("send", run.task_id, waits=False))
            run.phase = "sending"

    def _send(self) -> None:
        for run in self._in("sending") if self._may("broker") else ():
            run.was_tried = True
            values = run.claim.payload if run.target.kwargs is None else run.target.kwargs
            bare = not run.claim.secret_values
            try:
                is_marked = self._celery.send(
                    run.target, values, run.task_id, bare, run.claim.traceparent
                )
            except Unavailable as error:
                self._failed("broker", error, self._in("sending"))
                return
            except NotSent as error:
                told = f"Celery did not take the task: {error}"
                self._end(run, Outcome("failed", "not_sent", told))
                continue
            self._reached("broker")
            run.reports.note(f"sent {run.target.task} to Celery as {run.task_id}")
            if self._celery.waits and run.target.wait:
                run.phase = "waiting" if is_marked else "unmarked"
                continue
            if run.target.wait:
                run.reports.note("the run ends here, because the app has no result backend")
            self._end(run, Outcome("succeeded"))

    def _look(self) -> None:
        """At the records of all tasks that are under way."""
        asked = self._in("asking", "unmarked", "waiting")
        if not asked or not self._may("backend"):
            return
        began = self._monotonic()
        try:
            records = self._celery.look([run.task_id for run in asked])
        except Unavailable as error:
            self._failed("backend", error, asked)
            return
        self._reached("backend")
        now = self._monotonic()
        pause = min(max((now - began) * LOOK_PART, LOOK_EVERY), LONGEST_LOOK)
        self._next_at["backend"] = now + pause
        for run in asked:
            self._follow(run, records.get(run.task_id, CeleryRecord()))

    def _follow(self, run: CeleryRun, record: CeleryRecord) -> None:
        assert run.phase in ("asking", "unmarked", "waiting")  # noqa: S101 - others are not asked
        may_have_timed_out = run.is_taken_over and run.claim.spec.timeout is not None
        step = next_step(run.phase, record, run.task_id, may_have_timed_out)
        if run.phase == "asking":
            self._told(run, takeover_note(step, run.task_id))
        if isinstance(step, CeleryEnd):
            if step.traceback:
                run.reports.line("stderr", step.traceback.rstrip("\n"))
            if step.note:
                run.reports.note(step.note)
            self._end(run, step.outcome)
            return
        if step == "send":
            run.phase = "sending"
        elif run.phase == "asking" or record.state is not None:
            run.phase = "waiting"
        run.was_tried = True

    def _stop(self, run: CeleryRun) -> None:
        """A run that is handed back leaves its task to the next attempt; others have it revoked."""
        run.stop.seen = True
        outcome = stopped(run.stop, None)
        assert outcome is not None  # noqa: S101 - it was asked to stop
        may_run = run.was_tried or run.phase == "asking"
        if may_run and outcome.reason not in HAND_BACK:
            self._revoke(run)
        self._end(run, outcome)

    def _revoke(self, run: CeleryRun) -> None:
        kills = run.target.terminate
        try:
            self._celery.revoke(run.task_id, kills)
        except Unavailable as error:
            run.reports.note(f"Celery task {run.task_id} could not be revoked: {error}")
            return
        how = "with terminate" if kills else "without terminate, so it continues if it has started"
        run.reports.note(f"Celery task {run.task_id} was revoked {how}")

    def _told(self, run: CeleryRun, text: str) -> None:
        run.reports.note(text)
        try:
            self._tell(run.claim, text)
        except Unavailable as error:
            log.warning("run %s: %s (%s)", run.claim.run.id, text, error, extra=about(run.claim))

    def _end(self, run: CeleryRun, outcome: Outcome) -> None:
        """Closing the log may wait for the books, which the other runs need not."""
        self._runs.pop(run, None)
        self._closers.submit(self._close, run, outcome)

    def _close(self, run: CeleryRun, outcome: Outcome) -> None:
        """Its end is told even if its log cannot be written."""
        try:
            if outcome.error:
                run.reports.note(outcome.error)
            run.reports.close()
        except Exception:
            told = "run %s: its log could not be closed"
            log.exception(told, run.claim.run.id, extra=about(run.claim))
        finally:
            run.ended(run.claim, outcome)

    def _may(self, part: str) -> bool:
        return self._monotonic() >= self._next_at.get(part, 0.0)

    def _failed(self, part: str, error: Unavailable, runs: Sequence[CeleryRun]) -> None:
        """Tried again after a while; the logs of the runs say so once."""
        failures = self._failures[part] = self._failures.get(part, 0) + 1
        self._next_at[part] = self._monotonic() + backoff(failures, 0.5)
        if failures == 1:
            log.warning("%s; trying again", error)
            for run in runs:
                run.reports.note(f"{error}; trying again")

    def _reached(self, part: str) -> None:
        if self._failures.pop(part, 0):
            log.warning("the %s can be reached again", part)
        self._next_at.pop(part, None)
