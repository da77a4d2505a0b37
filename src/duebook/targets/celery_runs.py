"""Performs runs with a Celery target. One thread manages all of them, so that waiting needs no
thread for each; the broker and the result backend have one more thread each, so that neither delays
the other."""

from __future__ import annotations

import logging
import threading
import time
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final

from duebook.errors import Unavailable, shorten
from duebook.model.celery_target import celery_task_id
from duebook.model.fate import HAND_BACK
from duebook.model.run import Outcome
from duebook.targets.celery_broker import MaybeSent, NotSent
from duebook.targets.celery_calls import Connected, Looked, Marked, Revoked, Sent, asking, sending
from duebook.targets.celery_states import CeleryEnd, CeleryRecord, next_step, takeover_note
from duebook.targets.closers import Closers
from duebook.targets.lane import Lane, in_a_thread
from duebook.targets.log_fields import about
from duebook.targets.outages import Outages
from duebook.targets.outcomes import stopped

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from duebook.model.run import Claim
    from duebook.targets.celery_link import AnyBroker, AnyCelery, AnyResults
    from duebook.targets.celery_run import CeleryRun

__all__ = ["CeleryRuns"]

log = logging.getLogger(__name__)

LOOK_EVERY: Final = 0.2
"""The least number of seconds between two reads of the records."""
LOOK_PART: Final = 10
"""Reading the records takes at most one part in this many of the time."""
LONGEST_LOOK: Final = 5.0
SENT_TOGETHER: Final = 100
"""Tasks that are sent before checking again which ones to revoke."""
REVOKE_WITHIN: Final = 2.0
"""Seconds that an ending run waits for its task to be revoked."""
HAND_BACK_WITHIN: Final = 1.0
"""Seconds that a run being handed back waits for the broker and for the mark."""
ASK_AFTER: Final = 5.0
"""Seconds that workers get, once a broker is back, to start tasks that it may already have got."""
WORTH_TELLING: Final = 1.0
"""A delay by an unreachable broker is reported from this many seconds on."""
PATIENCE: Final = {"broker": 60.0, "backend": 30.0}
"""Seconds without progress after which another thread takes over, for brokers and backends whose
calls have no time limit."""
MOST_REVOKES: Final = 10_000
"""Tasks that are kept for revoking until the broker is back."""
MOST_LOST: Final = 10
"""Times that the broker may fail with one task before its run ends."""
_ASKED: Final = ("asking", "unmarked", "waiting")
_NAMES: Final = {"broker": "the broker of Celery", "backend": "the result backend of Celery"}
_NO_BROKER: Final = "the broker of Celery could not be reached"
_SERVICE: Final = {"new": "books", "sending": "broker", "doubtful": "broker"} | dict.fromkeys(
    _ASKED, "backend"
)
"""The service that a run waits for in each phase."""


class CeleryRuns:
    """Started with the first runs. `prepare` fills in the values of a run, or says how it ends
    without any; `began_with` is the attempt that sent its task; `tell` puts what a takeover found
    out where `explain` sees it, `tell_outage` why Celery is out of reach where `status` does. The
    three may wait for the books, and raise Unavailable; an outage need not be told again then."""

    def __init__(
        self,
        celery: AnyCelery,
        prepare: Callable[[Claim], Claim | Outcome],
        began_with: Callable[[Claim], int],
        tell: Callable[[Claim, str], None],
        tell_outage: Callable[[str | None], None],
        monotonic: Callable[[], float] = time.monotonic,
        begin_thread: Callable[[str, Callable[[], None]], None] | None = in_a_thread,
    ) -> None:
        self._celery = celery
        self._prepare = prepare
        self._began_with = began_with
        self._tell = tell
        self._tell_outage = tell_outage
        self._outage_told: str | None = None
        self._telling = threading.Lock()
        self._monotonic = monotonic
        self._woken = threading.Condition()
        self._new: list[CeleryRun] = []
        self._is_woken = False
        self._closed = False
        self._thread: threading.Thread | None = None
        self._closers = Closers("duebook-closer", 2)
        lent = self._wake, monotonic, begin_thread
        self._broker: Lane[AnyBroker] = Lane("celery-broker", celery.broker, *lent)
        self._backend: Lane[AnyResults] = Lane("celery-results", celery.results, *lent)
        self._outages = Outages(monotonic, _NAMES | {"books": "the database"})
        self._runs: dict[CeleryRun, None] = {}
        """in order of arrival"""
        self._batch: list[CeleryRun] = []
        """the runs that the broker thread has"""
        self._asked: list[CeleryRun] = []
        """the runs that the backend thread has"""
        self._marks: dict[str, CeleryRun] = {}
        """tasks that were sent, until the backend has their marks"""
        self._revokes: dict[str, bool] = {}
        """tasks to revoke, until the broker knows; True to also stop those that are running"""
        self._look_at = 0.0
        self.unreachable: str | None = None
        """why tasks cannot be sent or revoked, or their ends cannot be read, as of the last step"""

    def begin(self, runs: Iterable[CeleryRun]) -> None:
        """Add runs, and start the thread if necessary; may be called from any thread."""
        self.add(runs)
        with self._woken:
            if self._thread is None:
                thread = threading.Thread(target=self._loop, name="duebook-celery", daemon=True)
                thread.start()
                self._thread = thread

    def add(self, runs: Iterable[CeleryRun]) -> None:
        """Add runs for the next step."""
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
        self._broker.close()
        self._backend.close()
        self._closers.close()

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
        """Do what can be done now, without waiting for Celery; returns the seconds until there is
        more to do, None to wait until woken."""
        with self._woken:
            self._runs |= dict.fromkeys(self._new)
            self._new = []
        self._hear()
        for run in [run for run in self._runs if run.stop.reason is not None]:
            self._alone(run, self._stop)
        self._start()
        self._use_broker()
        self._hear()
        self._use_backend()
        self._hear()
        self._end_revoked()
        self._note_outages()
        return max(min(waits), 0.0) if (waits := list(self._pauses())) else None

    def _pauses(self) -> Iterator[float]:
        """Seconds until each expected event; the other threads wake this one for anything else."""
        waiting = [run for run in self._runs if run.asks_at is None]
        wanted = {_SERVICE[run.phase] for run in waiting if run.phase in _SERVICE}
        if "books" in wanted:
            yield self._outages.wait("books")
        if self._broker.is_free and ("broker" in wanted or self._revokes):
            yield self._outages.wait("broker")
        if self._backend.is_free and "backend" in wanted:
            look = 0.0 if self._marks else self._look_at - self._monotonic()
            yield max(self._outages.wait("backend"), look)
        for part, lane in self._lanes():
            if (late := lane.waits_for(PATIENCE[part])) is not None:
                yield late
        for run in self._runs:
            for moment in (run.ends_by, run.asks_at):
                if moment is not None:
                    yield moment - self._monotonic()

    def _lanes(self) -> tuple[tuple[str, Lane[AnyBroker] | Lane[AnyResults]], ...]:
        return ("broker", self._broker), ("backend", self._backend)

    def _in(self, *phases: str) -> list[CeleryRun]:
        return [run for run in self._runs if run.phase in phases]

    def _alone(self, run: CeleryRun, do: Callable[[CeleryRun], None]) -> None:
        """Do something for one run; an unexpected error ends it, and concerns no other."""
        try:
            do(run)
        except Exception as error:
            kind, shown = type(error).__name__, not run.claim.secret_values
            told = "run %s ends because of an error: %s"
            log.error(told, run.claim.run.id, kind, exc_info=shown, extra=about(run.claim))  # noqa: TRY400
            self._end(run, Outcome("failed", "error", f"{kind}: {shorten(str(error), 500)}"))

    def _start(self) -> None:
        """Determine what each new run sends, or what an earlier attempt has sent."""
        for run in self._in("new") if self._outages.may("books") else ():
            try:
                number = self._began_with(run.claim)
            except Unavailable as error:
                self._outages.failed("books", str(error))
                return
            self._outages.reached("books")
            run.task_id = celery_task_id(run.claim.run.id, number)
            run.is_taken_over = number != run.claim.run.attempt
            self._alone(run, self._fill_in)

    def _fill_in(self, run: CeleryRun) -> None:
        ready = run.claim if run.is_prepared else self._prepare(run.claim)
        if isinstance(ready, Outcome):
            self._end(run, ready)
            return
        run.claim, run.ready_at = ready, self._monotonic()
        if run.is_taken_over:
            self._doubt(run)
        else:
            run.phase = "sending"

    def _doubt(self, run: CeleryRun) -> None:
        """The task may have been sent: ask the backend, if there is one."""
        run.phase, run.asks_at = "asking", None
        if not self._celery.waits or not run.target.wait:
            self._told(run, takeover_note("send", run.task_id, run.doubt, waits=False))
            self._send_again(run)

    def _send_again(self, run: CeleryRun) -> None:
        if run.is_maybe_sent and run.claim.spec.max_takeovers == 0:
            told = f"cannot know whether Celery task {run.task_id} was sent: the broker failed"
            self._end(run, Outcome("failed", "not_sent", f"{told}, and max_takeovers is 0"))
        else:
            run.phase = "sending"

    def _use_broker(self) -> None:
        """Let the broker thread revoke and send tasks."""
        ready = [run for run in self._in("sending") if run.stop.reason is None][:SENT_TOGETHER]
        doubtful = self._in("doubtful")
        for run in doubtful:
            if run.asks_at is not None and self._monotonic() >= run.asks_at:
                self._doubt(run)
        is_missed = any(run.asks_at is None for run in doubtful)
        is_wanted = bool(ready or self._revokes or is_missed)
        if not is_wanted or not self._broker.is_free or not self._outages.may("broker"):
            return
        for run in ready:
            run.was_tried = run.is_in_hand = True
        self._batch = ready
        revokes = dict(self._revokes)
        self._broker.begin(lambda broker: sending(broker, revokes, ready))

    def _use_backend(self) -> None:
        """Let the backend thread store marks, and read the records of all active tasks."""
        asked = self._in(*_ASKED) if self._monotonic() >= self._look_at else []
        is_wanted = bool(asked or self._marks)
        if not is_wanted or not self._backend.is_free or not self._outages.may("backend"):
            return
        marks, ids = list(self._marks), [run.task_id for run in asked]
        self._asked = asked
        self._backend.begin(lambda results: asking(results, marks, ids, self._monotonic))

    def _hear(self) -> None:
        """Handle what the two threads have found out."""
        for part, lane in self._lanes():
            try:
                was_busy = lane.is_busy
                for news in lane.take():
                    if not isinstance(news, Connected):  # it may still refuse all tasks
                        self._reached(part)
                    self._heard(news)
                if was_busy and not lane.is_busy:
                    self._reached(part)
                late = lane.waits_for(PATIENCE[part])
                if late is not None and late <= 0:
                    lane.give_up()
                    raise MaybeSent(f"{_NAMES[part]} has not answered for {PATIENCE[part]:.0f} s")
            except Unavailable as error:
                self._outages.failed(part, str(error))
                if part == "broker":
                    self._take_back(in_doubt=isinstance(error, MaybeSent))
        if not self._broker.is_busy:
            self._take_back(in_doubt=False)

    def _reached(self, part: str) -> None:
        if self._outages.reached(part):
            for run in self._runs:
                run.told_of.discard(part)

    def _heard(self, news: Connected | Sent | Revoked | Marked | Looked) -> None:
        match news:
            case Connected():
                for run in self._in("doubtful"):
                    run.asks_at = run.asks_at or self._monotonic() + ASK_AFTER
            case Sent(run, error):
                self._was_sent(run, error)
            case Revoked(ids, refused):
                for task_id in ids:
                    self._revokes.pop(task_id, None)
                if refused is not None:
                    self._end_unrevoked(frozenset(ids), refused)
            case Marked(task_id, is_marked):
                run_marked = self._marks.pop(task_id, None)
                if is_marked and run_marked is not None and run_marked.phase == "unmarked":
                    run_marked.phase = "waiting"
            case Looked():
                self._follow_all(news)

    def _follow_all(self, looked: Looked) -> None:
        pause = min(max(looked.seconds * LOOK_PART, LOOK_EVERY), LONGEST_LOOK)
        self._look_at = self._monotonic() + pause
        for run in self._asked:
            if self._is_at(run, *_ASKED):
                record = looked.records.get(run.task_id, CeleryRecord())
                self._alone(run, partial(self._follow, record=record))

    def _take_back(self, in_doubt: bool) -> None:
        """Take back runs that the broker thread had and has not sent; with `in_doubt`, the run that
        it has started on may have been sent."""
        for run in self._batch:
            if in_doubt and run.is_in_hand and run.is_begun and self._is_at(run, "sending"):
                self._lose(run)
            run.is_in_hand = run.is_begun = False
        self._batch = []

    def _lose(self, run: CeleryRun) -> None:
        """The broker failed while it had the task."""
        run.is_maybe_sent, run.phase = True, "doubtful"
        run.times_lost += 1
        if run.times_lost >= MOST_LOST:
            why = f"the broker failed {run.times_lost} times while it had the task"
            told = f"cannot know whether Celery task {run.task_id} was sent: {why}"
            self._end(run, Outcome("failed", "not_sent", told))

    def _is_at(self, run: CeleryRun, *phases: str) -> bool:
        return run in self._runs and run.phase in phases

    def _was_sent(self, run: CeleryRun, error: NotSent | None) -> None:
        run.is_in_hand = False
        if not self._is_at(run, "sending"):  # it was stopped, and its task is revoked
            return
        if error is not None:
            told = f"Celery did not take the task: {error}"
            self._end(run, Outcome("failed", "not_sent", told))
            return
        run.reports.note(f"sent {run.target.task} to Celery as {run.task_id}")
        late = self._monotonic() - run.ready_at
        if run.is_held and late >= WORTH_TELLING and not run.is_maybe_sent:
            self._told(run, f"sent {late:.0f} s late: {_NO_BROKER}")
        if self._celery.waits and run.target.wait:
            run.phase = "unmarked"
            self._marks[run.task_id] = run
            return
        if run.target.wait:
            run.reports.note("the run ends here, because the app has no result backend")
        self._end(run, Outcome("succeeded"))

    def _follow(self, run: CeleryRun, record: CeleryRecord) -> None:
        assert run.phase in ("asking", "unmarked", "waiting")  # noqa: S101 - others are not asked
        may_have_timed_out = run.is_taken_over and run.claim.spec.timeout is not None
        step = next_step(run.phase, record, run.task_id, may_have_timed_out)
        if run.phase == "asking":
            self._told(run, takeover_note(step, run.task_id, run.doubt))
        if isinstance(step, CeleryEnd):
            if step.traceback:
                run.reports.line("stderr", step.traceback.rstrip("\n"))
            if step.note:
                run.reports.note(step.note)
            self._end(run, step.outcome)
        elif step == "send":
            self._send_again(run)
        elif run.phase == "asking" or record.state is not None:
            run.phase = "waiting"
        run.was_tried = True

    def _stop(self, run: CeleryRun) -> None:
        """Stop a run. One that is handed back leaves its task to the next attempt; others have it
        revoked."""
        if run.outcome is not None:
            return
        run.stop.seen = True
        outcome = stopped(run.stop, None)
        assert outcome is not None  # noqa: S101 - it was asked to stop
        if outcome.reason in HAND_BACK:
            if not self._is_about_to_be_marked(run):
                self._end(run, outcome)
            return
        if not run.was_tried and run.phase != "asking":
            self._end(run, outcome)
            return
        if len(self._revokes) >= MOST_REVOKES:
            dropped = next(iter(self._revokes))
            del self._revokes[dropped]
            why = self._outages.reasons.get("broker")
            log.warning("Celery task %s was not revoked: %s", dropped, why)
        self._revokes[run.task_id] = run.target.terminate
        run.phase, run.outcome = "revoking", outcome
        run.ends_by = self._monotonic() + REVOKE_WITHIN

    def _is_about_to_be_marked(self, run: CeleryRun) -> bool:
        """Whether to wait a moment, because the next attempt could not know whether the task was
        sent."""
        if not run.is_in_hand and run.task_id not in self._marks:
            return False
        if run.ends_by is None:
            run.ends_by = self._monotonic() + HAND_BACK_WITHIN
        is_reached = not _NAMES.keys() & self._outages.reasons.keys()
        return self._monotonic() < run.ends_by and is_reached

    def _end_unrevoked(self, ids: frozenset[str], refused: str) -> None:
        for run in self._in("revoking"):
            if run.task_id in ids:
                assert run.outcome is not None  # noqa: S101 - because of its phase
                told = "could not be revoked, because the broker refused it"
                run.reports.note(f"Celery task {run.task_id} {told}: {refused}")
                self._end(run, run.outcome)

    def _end_revoked(self) -> None:
        """End runs whose tasks are revoked, or that no longer wait for it."""
        for run in self._in("revoking"):
            assert run.outcome is not None  # noqa: S101 - because of its phase
            assert run.ends_by is not None  # noqa: S101
            reason = self._outages.reasons.get("broker")
            if run.task_id not in self._revokes:
                kills = run.target.terminate
                how = "with" if kills else "without terminate, so it continues if it has started"
                how = f"{how} terminate" if kills else how
                run.reports.note(f"Celery task {run.task_id} was revoked {how}")
            elif reason is not None or self._monotonic() >= run.ends_by:
                why = reason or "the broker of Celery has not answered yet"
                told = f"Celery task {run.task_id} could not be revoked: {why}"
                run.reports.note(f"{told}; trying again until this node stops")
            else:
                continue
            self._end(run, run.outcome)

    def _note_outages(self) -> None:
        """Note once in the log of each run that it waits for a service that cannot be reached."""
        reasons = self._outages.reasons
        needed = {_SERVICE.get(run.phase) for run in self._runs}
        needed |= {"broker"} if self._revokes else set()
        missed = [reasons[part] for part in _NAMES if part in needed and part in reasons]
        self.unreachable = missed[0] if missed else None
        if self.unreachable != self._outage_told:
            self._outage_told = self.unreachable
            self._closers.submit(self._report_outage)
        if not reasons.keys() & _NAMES.keys():
            return
        for run in self._runs:
            part = _SERVICE.get(run.phase, "")
            if part in _NAMES and part in reasons and part not in run.told_of:
                run.told_of.add(part)
                run.reports.note(f"{reasons[part]}; trying again")
                run.is_held = run.is_held or part == "broker"

    def _report_outage(self) -> None:
        with suppress(Unavailable), self._telling:  # no other tells what it saw before this one
            self._tell_outage(self.unreachable)

    def _told(self, run: CeleryRun, text: str) -> None:
        run.reports.note(text)
        try:
            self._tell(run.claim, text)
        except Unavailable as error:
            log.warning("run %s: %s (%s)", run.claim.run.id, text, error, extra=about(run.claim))

    def _end(self, run: CeleryRun, outcome: Outcome) -> None:
        """Closing the log may wait for the database, so it must not delay the other runs."""
        self._runs.pop(run, None)
        self._marks.pop(run.task_id, None)
        self._closers.submit(partial(run.close, outcome))
