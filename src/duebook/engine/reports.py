"""What tasks report while they run: log lines as they come, progress a few times per second."""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from duebook.engine.logs import RunLog
from duebook.errors import Conflict, DuebookError
from duebook.model.run import Outcome
from duebook.targets.hiding import hidden_outcome, hiding_run
from duebook.targets.node_secrets import NodeSecrets
from duebook.targets.outcomes import with_published

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Literal

    from duebook.engine.books_clock import BooksClock
    from duebook.engine.places import StopSignal
    from duebook.model.event import Draft
    from duebook.model.run import Claim, Progress, Token
    from duebook.store.base import Store

    Stream = Literal["stdout", "stderr"]

__all__ = ["Desk", "TaskReports"]

log = logging.getLogger(__name__)

WRITE_EVERY: Final = 0.5
UNCOMMITTED: Final = Outcome(
    "failed", "uncommitted", "settle_in was called, but its transaction was not committed"
)


class Desk:
    """For all runs of a node: their open logs, and the latest progress of each."""

    def __init__(
        self, store: Store, log_cap: int, clock: BooksClock, secrets: NodeSecrets | None = None
    ) -> None:
        self.store = store
        self.secrets = secrets or NodeSecrets()
        self._log_cap = log_cap
        self._clock = clock
        self._open_logs: set[RunLog] = set()
        self._latest: dict[Token, Progress] = {}
        self._written_at = float("-inf")

    def open_log(self, claim: Claim) -> RunLog:
        hide = hiding_run(claim)
        now = self._clock.stamp
        log = RunLog(self.store, claim.token, now, time.monotonic, self._log_cap, hide)
        self._open_logs.add(log)
        return log

    def close_log(self, log: RunLog, is_lost: Callable[[], bool]) -> None:
        """Write what was logged; gives up when the run is lost."""
        try:
            log.close(give_up=is_lost)
        finally:
            self._open_logs.discard(log)

    def put(self, token: Token, progress: Progress) -> None:
        """From any thread; a heartbeat without progress does not replace earlier progress."""
        if progress.fraction is None:
            self._latest.setdefault(token, progress)
        else:
            self._latest[token] = progress

    def flush(self) -> None:
        """Write reports that have waited, so that readers see them while the runs are silent."""
        for log in self._open_logs.copy():
            log.flush_if_overdue()
        if not self._latest or time.monotonic() - self._written_at < WRITE_EVERY:
            return
        self._written_at = time.monotonic()
        told, self._latest = self._latest, {}
        try:
            self.store.transact(lambda tx: tx.attempts.note_progress(list(told.items())))
        except DuebookError:  # the next report will come; only outcomes must not be lost
            return


class TaskReports:
    """For one run. Most tasks log nothing, so the log is opened when first used."""

    __slots__ = ("_desk", "_hidden", "_log", "_stop", "claim", "published", "settles")
    _opening: Final = threading.Lock()
    """a task may log its first lines from several threads at once"""

    def __init__(self, claim: Claim, stop: StopSignal, desk: Desk) -> None:
        self.claim = claim
        self._stop = stop
        self._desk = desk
        self._log: RunLog | None = None
        self._hidden: Callable[[str], str] | None = None
        self.published: list[Draft] = []
        self.settles = False

    @property
    def opened(self) -> bool:
        return self._log is not None

    @property
    def log(self) -> RunLog:
        if self._log is None:
            with self._opening:
                if self._log is None:
                    self._log = self._desk.open_log(self.claim)
        return self._log

    def line(self, stream: Stream, text: str) -> None:
        self.log.add(stream, text)

    def note(self, text: str) -> None:
        """Add a line of Duebook itself."""
        self.log.note(text)

    def printed(self, stream: Stream, data: bytes) -> None:
        """What a process wrote, which may end within a line."""
        self.log.write(stream, data)

    def secret(self, name: str) -> str:
        """A secret that the task asks for, hidden from then on; raises SecretFailed."""
        value = self._desk.secrets.get(self.claim.run.namespace, name)
        if self.claim.secret_values is not None:  # set wherever there are secrets
            self.claim.secret_values.add(name, value)
        return value

    def shown(self, text: str) -> str:
        """What a task prints, with secrets hidden."""
        values = self.claim.secret_values
        return values.hide(text) if values else text

    def _hide(self, text: str) -> str:
        if self._hidden is None:
            self._hidden = hiding_run(self.claim)
        return self._hidden(text)

    def progress(self, progress: Progress) -> None:
        if progress.text is not None:
            progress = replace(progress, text=self._hide(progress.text))
        self._desk.put(self.claim.token, progress)

    def settle_in(self, connection: Any, outcome: Outcome) -> None:
        """End the run in the transaction of its own task; raises Conflict on a lost token."""
        outcome = hidden_outcome(self.claim, with_published(outcome, self.published))
        with self._desk.store.join(connection) as tx:
            begun_at = self.claim.begun_at
            if not tx.attempts.settle(self.claim.token, outcome, begun_at=begun_at):
                raise Conflict(
                    f"run {self.claim.run.id} now belongs to another node; "
                    "roll back the transaction"
                )
        self.settles = True

    def settled(self) -> Outcome:
        """The outcome that its task recorded itself; a failure when it is not in the database, as
        the task may have forgotten to commit. If the commit came too late, the database's record
        wins."""
        run_id, attempt = self.claim.token.run_id, self.claim.token.attempt
        try:
            run = self._desk.store.read(lambda tx: tx.runs.get_run(run_id))
        except Exception:
            log.exception("run %s: cannot find out whether its transaction was committed", run_id)
            return UNCOMMITTED
        is_open = run.status == "running" and run.attempt == attempt
        return UNCOMMITTED if is_open else Outcome("succeeded")

    def close(self) -> None:
        if self._log is not None:
            self._desk.close_log(self._log, lambda: self._stop.reason == "lost")
