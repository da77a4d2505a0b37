"""Puts the ends of attempts on the books, those that wait together in one transaction."""

from __future__ import annotations

import logging
import threading
import time
from datetime import timedelta
from queue import SimpleQueue
from typing import TYPE_CHECKING, Final

from duebook.engine.measures import Measures
from duebook.engine.persist import persist
from duebook.engine.settling import conclude, conclude_all, is_final
from duebook.errors import DuebookError, counted
from duebook.model.run import Outcome

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime

    from duebook.model.run import Claim, Token
    from duebook.store.base import Store, Tx

    End = str | None
    Ended = tuple[Claim, Outcome | None]

__all__ = ["Settler"]

log = logging.getLogger(__name__)

MOST: Final = 1_000
"""How many ends share a transaction at most."""
_LATE: Final = Outcome("cancelled", "written_off")
"""Stands for the end of a task whose attempt has ended on the books."""


class Settler:
    """One thread; `done` is told which attempts were put on the books, or given up."""

    def __init__(
        self,
        store: Store,
        done: Callable[[Sequence[Claim]], None],
        measures: Measures | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._monotonic = monotonic
        self._until: dict[Token, float] = {}
        """when tasks ended here that nobody could have made to end"""
        self._store = store
        self._measures = Measures() if measures is None else measures
        self._done = done
        self._closed = False
        self._queue: SimpleQueue[Ended | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._loop, name="duebook-settler", daemon=True)
        self._thread.start()

    def put(self, claim: Claim, outcome: Outcome | None, until: float | None = None) -> None:
        """None as an outcome hands the run back.

        `until` is when its task ended, by the monotonic clock, if it is one that cannot be made to
        end: should others have taken the run over before, the books say that it went on.
        """
        if until is not None:
            self._until[claim.token] = until
        self._queue.put((claim, outcome))

    def put_late(self, claim: Claim, until: float) -> None:
        """A task has ended whose attempt was settled long ago."""
        self.put(claim, _LATE, until)

    def close(self) -> None:
        """What waits is settled first; what cannot be is taken over by others."""
        self._closed = True
        self._queue.put(None)
        self._thread.join(timeout=10)

    def _loop(self) -> None:
        going_on = True
        while going_on:
            batch: list[Ended] = []
            while len(batch) < MOST and not (batch and self._queue.empty()):
                ended = self._queue.get()
                if ended is None:
                    going_on = False
                    break
                batch.append(ended)
            self._settle(batch)

    def _settle(self, batch: list[Ended]) -> None:
        final, others = [], []
        self._note_late([claim for claim, outcome in batch if outcome is _LATE])
        batch = [(claim, outcome) for claim, outcome in batch if outcome is not _LATE]
        for claim, outcome in batch:
            if outcome is not None and is_final(claim, outcome):
                final.append((claim, outcome))
            else:
                others.append((claim, outcome))
        try:
            self._write(final)
        except Exception:  # the keeper hands back what is left, and this thread goes on
            log.exception("could not settle %s", counted(len(final), "run"))
        try:
            for claim, outcome in others:
                self._conclude(claim, outcome)
        finally:
            self._done([claim for claim, _ in batch])
            for claim, _ in batch:
                self._until.pop(claim.token, None)

    def _note_late(self, claims: list[Claim]) -> None:
        if not claims:
            return
        try:
            persist(self._store, lambda tx: self._note_overlaps(tx, claims), lambda: self._closed)
        except Exception:  # it says how things were, and no work depends on it
            log.exception(
                "%s ended late, and that could not be recorded", counted(len(claims), "run")
            )
        for claim in claims:
            self._until.pop(claim.token, None)

    def _note_overlaps(self, tx: Tx, claims: Sequence[Claim]) -> None:
        now, tokens = self._monotonic(), [claim.token for claim in claims]
        tx.attempts.note_overlaps(
            (token, tx.now - timedelta(seconds=now - self._until[token]))
            for token in tokens
            if token in self._until
        )

    def _conclude(self, claim: Claim, outcome: Outcome | None) -> None:
        """One that is tried again or handed back; whatever happens, the others get their turn."""
        try:
            try:
                (end,) = self._persist([claim], lambda tx: [conclude(tx, claim, outcome)])
            except DuebookError:
                raise
            except Exception as error:
                self._write_as_failed(claim, error)
                return
            _log_end(claim, outcome, end)
        except Exception:  # the keeper hands it back
            log.exception("run %s could not be settled", claim.run.id)

    def _write(self, final: list[tuple[Claim, Outcome]]) -> None:
        """What the database refuses together is halved, until what spoils it is alone."""
        if not final:
            return
        try:
            ends = self._persist([claim for claim, _ in final], lambda tx: conclude_all(tx, final))
        except DuebookError:
            raise
        except Exception as error:
            if len(final) == 1:
                self._write_as_failed(final[0][0], error)
                return
            middle = len(final) // 2
            self._write(final[:middle])
            self._write(final[middle:])
            return
        for (claim, outcome), end in zip(final, ends, strict=True):
            _log_end(claim, outcome, end)

    def _write_as_failed(self, claim: Claim, error: Exception) -> None:
        """The run ended, but the database does not take how: it failed, and says why."""
        log.error("run %s: its outcome cannot be kept: %s", claim.run.id, error)
        outcome = Outcome("failed", "error", "its outcome could not be put on the books")
        (end,) = self._persist([claim], lambda tx: [conclude(tx, claim, outcome)])
        _log_end(claim, outcome, end)

    def _persist(self, claims: list[Claim], work: Callable[[Tx], list[End]]) -> list[End]:
        """How each ended, once that is durable; None for each when it was given up."""

        def write(tx: Tx) -> tuple[list[End], datetime]:
            ends = work(tx)
            refused = [claim for claim, end in zip(claims, ends, strict=True) if end is None]
            self._note_overlaps(tx, refused)
            return ends, tx.now

        done = persist(self._store, write, lambda: self._closed)
        if done is None:
            return [None] * len(claims)
        self._measures.ended(claims, *done)
        return done[0]


def _log_end(claim: Claim, outcome: Outcome | None, end: str | None) -> None:
    """How a run ended, in a line for whoever watches the node."""
    run, run_id = claim.run, claim.run.id
    if end is None:
        log.warning("run %s was taken over meanwhile; this outcome does not count", run_id)
    elif log.isEnabledFor(logging.INFO):
        why = f" ({outcome.error})" if outcome is not None and outcome.error else ""
        is_step = run.step is not None
        name = f"{run.flow}: {run.step}" if is_step else run.schedule or run.task or run.queue
        log.info("%s %s%s, run %s", name, end, why, run_id)
