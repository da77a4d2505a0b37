"""What tasks tell while they run: log lines as they come, progress a few times per second."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

from duebook.errors import Conflict, DuebookError

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Literal

    from duebook.engine.logs import RunLog
    from duebook.model.run import Claim, Outcome, Progress, Token
    from duebook.store.base import Store

    Stream = Literal["stdout", "stderr"]

__all__ = ["Desk", "TaskReports"]

WRITE_EVERY: Final = 0.5


class Desk:
    """Of all runs of a node: the latest word of each, written together, lost when that fails."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._latest: dict[Token, Progress] = {}
        self._written_at = float("-inf")

    def put(self, token: Token, progress: Progress) -> None:
        """From any thread; a sign of life does not hide what was said before."""
        if progress.fraction is None:
            self._latest.setdefault(token, progress)
        else:
            self._latest[token] = progress

    def flush(self) -> None:
        """Write what came since, if it is time."""
        if not self._latest or time.monotonic() - self._written_at < WRITE_EVERY:
            return
        self._written_at = time.monotonic()
        told, self._latest = self._latest, {}
        try:
            self._store.transact(lambda tx: tx.note_progress(list(told.items())))
        except DuebookError:  # the next word will come; outcomes are what must not be lost
            return

    def settle_in(self, connection: Any, token: Token, outcome: Outcome) -> None:
        """End a run in the transaction of its own task."""
        with self._store.join(connection) as tx:
            if not tx.settle(token, outcome):
                raise Conflict(
                    f"run {token.run_id} belongs to somebody else by now; roll the transaction back"
                )


class TaskReports:
    """Of one run. Most tasks log nothing, and then there is no log to open or close."""

    __slots__ = ("_claim", "_close_log", "_desk", "_log", "_open_log")

    def __init__(
        self,
        claim: Claim,
        desk: Desk,
        open_log: Callable[[Claim], RunLog],
        close_log: Callable[[RunLog], None],
    ) -> None:
        self._claim = claim
        self._desk = desk
        self._open_log = open_log
        self._close_log = close_log
        self._log: RunLog | None = None

    @property
    def opened(self) -> bool:
        return self._log is not None

    @property
    def log(self) -> RunLog:
        if self._log is None:
            self._log = self._open_log(self._claim)
        return self._log

    def line(self, stream: Stream, text: str) -> None:
        self.log.add(stream, text)

    def printed(self, stream: Stream, data: bytes) -> None:
        """What a process wrote, which may end within a line."""
        self.log.write(stream, data)

    def settle_in(self, connection: Any, outcome: Outcome) -> None:
        """Raises Conflict when the token is no longer current."""
        self._desk.settle_in(connection, self._claim.token, outcome)

    def close(self) -> None:
        """Write what was logged, if anything was."""
        if self._log is not None:
            self._close_log(self._log)

    def progress(self, progress: Progress) -> None:
        self._desk.put(self._claim.token, progress)
