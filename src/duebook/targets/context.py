"""What a task can read and report: the `ctx` of a run. Knows no store and no thread."""

from __future__ import annotations

import logging
import threading
import time
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol

from duebook.errors import Invalid, quoted, shorten
from duebook.ids import new_id
from duebook.lazy_dataclasses import dataclass
from duebook.model.event import cause, new_draft
from duebook.model.run import Progress
from duebook.secret_sources import is_secret_name
from duebook.targets.outcomes import Cancelled, returned
from duebook.targets.printing import aside

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from duebook.model.event import Draft
    from duebook.model.run import Interval, Outcome, Run, Token

__all__ = ["Context", "DueSchedule", "Reports", "TaskStop"]

LONGEST_TEXT: Final = 500
MOST_PUBLISHED: Final = 1_000


@dataclass(frozen=True, slots=True)
class DueSchedule:
    """The schedule that a run belongs to; all None for an enqueued run."""

    id: str | None
    name: str | None
    due_at: datetime | None
    """None for a manual run"""


class Reports(Protocol):
    """Receives what a task reports."""

    def line(self, stream: Literal["stdout", "stderr"], text: str) -> None: ...

    def progress(self, progress: Progress) -> None: ...

    def secret(self, name: str) -> str:
        """A secret of the node that executes the run; raises SecretFailed."""

    def shown(self, text: str) -> str:
        """What the task prints, without secrets."""

    @property
    def published(self) -> list[Draft]:
        """Events to be stored together with the task's success."""

    @property
    def settles(self) -> bool:
        """Whether the task has settled the run itself."""

    def settle_in(self, connection: Any, outcome: Outcome) -> None:
        """Settle the run in the caller's transaction."""

    def settled(self) -> Outcome:
        """The outcome that this recorded; reads the database."""


class TaskStop:
    """A request to stop, which the task can poll or get as an exception; any thread may make it."""

    __slots__ = ("_then", "reason", "seen")
    _lock: Final = threading.Lock()

    def __init__(self) -> None:
        self.reason: str | None = None
        self.seen = False
        """whether the task has noticed it"""
        self._then: Callable[[], None] | None = None

    def set(self, reason: str) -> None:
        """Only the first reason counts."""
        with self._lock:
            if self.reason is not None:
                return
            self.reason = reason
            then = self._then
        if then is not None:
            then()

    def when_set(self, then: Callable[[], None]) -> None:
        """Call `then` when it is set, or now if it is already; in the thread that sets it."""
        with self._lock:
            self._then = then
            late = self.reason is not None
        if late:
            then()


class Context:
    """A run, as its task sees it: passed as the first argument of a function that asks for it."""

    __slots__ = (
        *("_began_at", "_log", "_reports", "_stop"),
        *("payload", "run", "token", "traceparent", "user"),
    )

    def __init__(
        self,
        run: Run,
        token: Token,
        payload: dict[str, Any],
        user: str,
        stop: TaskStop,
        reports: Reports,
        traceparent: str | None = None,
    ) -> None:
        self.run: Final = run
        self.token: Final = token
        """proof that this attempt is the current one"""
        self.payload: Final = payload
        self.user: Final = user
        """the creator of the schedule"""
        self.traceparent: Final = traceparent
        """the W3C trace context of the attempt; None unless the node traces"""
        self._stop = stop
        self._reports = reports
        self._began_at = time.monotonic()
        self._log: logging.Logger | None = None

    @property
    def schedule(self) -> DueSchedule:
        return DueSchedule(self.run.schedule_id, self.run.schedule, self.run.due_at)

    @property
    def namespace(self) -> str:
        return self.run.namespace

    @property
    def interval(self) -> Interval | None:
        """From the previous due time to this one, as the triggers yield them: `start` and `end`.

        None for runs without a due time, one-offs, and the very first due time.
        """
        return self.run.interval

    @property
    def requested_by(self) -> str | None:
        """Who requested the run, such as `token:deploy`; None for a due time."""
        return self.run.requested_by

    @property
    def attempt(self) -> int:
        """The number of the attempt, 1 for the first."""
        return self.run.attempt

    @property
    def now(self) -> datetime:
        """The current time of the database clock, independent of this machine's clock."""
        elapsed = timedelta(seconds=time.monotonic() - self._began_at)
        return (self.run.started_at or self.run.created_at) + elapsed

    @property
    def log(self) -> logging.Logger:
        """A logger whose lines are kept with the run: `ctx.log.info("%d rows", n)`."""
        if self._log is None:
            self._log = logging.Logger(self.run.task or "task", logging.DEBUG)
            self._log.addHandler(_Lines(self._reports))
        return self._log

    @property
    def cancelled(self) -> bool:
        """Whether the run was asked to stop; a loop checks this now and then, and returns."""
        if self._stop.reason is None:
            return False
        self._stop.seen = True
        return True

    def heartbeat(self) -> None:
        """Report that the task is alive; raises Cancelled if the run was asked to stop."""
        if self.cancelled:
            raise Cancelled(f"the run was asked to stop: {self._stop.reason}")
        self._reports.progress(Progress())

    def progress(self, fraction: float, text: str | None = None) -> None:
        """Report the progress of the task, from 0 to 1, with an optional text.

        Like `heartbeat`, it raises Cancelled if the run was asked to stop.
        """
        if isinstance(fraction, bool) or not isinstance(fraction, int | float):
            raise Invalid(f"progress {quoted(fraction)} is not a number")
        if not 0 <= fraction <= 1:
            raise Invalid(f"progress {fraction} is not between 0 and 1")
        if self.cancelled:
            raise Cancelled(f"the run was asked to stop: {self._stop.reason}")
        told = None if text is None else shorten(text, LONGEST_TEXT)
        self._reports.progress(Progress(float(fraction), told))

    def secret(self, name: str) -> str:
        """Return a secret that this node offers to the run's namespace, by the name that it has in
        the setting `secrets`.

        Its value is hidden from then on in what the run prints, returns and fails with. Raises
        SecretFailed if the node does not have it. A secret that comes from a command may take
        seconds: in an async task, use `await asyncio.to_thread(ctx.secret, name)`.
        """
        if not is_secret_name(name):
            raise Invalid(f"secret {quoted(name)} is not the name of a secret, such as API_KEY")
        return self._reports.secret(name)

    def publish(
        self,
        topic: str,
        data: Any = None,
        *,
        key: str | None = None,
        type: str | None = None,  # noqa: A002 - as it is called everywhere
    ) -> str:
        """Publish an event together with the success of this run: both are stored, or neither.

        Returns its id. The default `key` is the name of the schedule, or else the id of the run.
        Events of an attempt that fails are discarded. Raises Invalid, also after `settle_in`.
        """
        if self._reports.settles:
            raise Invalid("the run has already settled; publish before settle_in")
        if len(self._reports.published) >= MOST_PUBLISHED:
            raise Invalid(f"a run can publish at most {MOST_PUBLISHED:,} events")
        run = self.run
        meta = cause(run.schedule, run.schedule_id, run.due_at, run.id, self.user, run.origin)
        wanted = (run.schedule or run.id) if key is None else key
        draft = new_draft(new_id(), run.namespace, topic, type, wanted, data, meta)
        self._reports.published.append(draft)
        return draft.id

    def settle_in(self, connection: Any, output: Any = None) -> None:
        """Record the success of this run in the task's own transaction: both commit, or neither.

        `connection` leads to Duebook's database (psycopg, sqlite3, Django's, or SQLAlchemy's
        connection or session). Call it last; then the task commits and returns. What it returns is
        not stored, so pass `output` here. Without a commit, the run fails with reason
        `uncommitted`. Raises Conflict if the run now belongs to another node, so that the
        transaction rolls back; and Invalid outside a transaction, on other databases, and with
        `isolation="process"`.
        """
        outcome = returned(output)
        if outcome.status != "succeeded":
            raise Invalid(outcome.error or "the output cannot be stored")
        self._reports.settle_in(connection, outcome)


class _Lines(logging.Handler):
    """Passes what a task logs on to the log of its run."""

    def __init__(self, reports: Reports) -> None:
        super().__init__()
        self._reports = reports

    def emit(self, record: logging.LogRecord) -> None:
        try:
            text = self.format(record)
        except Exception:  # wrong arguments for the message
            self.handleError(record)
            return
        with aside():
            if record.levelno >= logging.WARNING:
                self._reports.line("stderr", f"{record.levelname.lower()}: {text}")
            else:
                self._reports.line("stdout", text)
