"""Records the ends of attempts, those that wait together in one transaction."""

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
from duebook.targets.log_fields import about

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime

    from duebook.engine.tracing import Tracing
    from duebook.model.run import Claim
    from duebook.store.base import Store, Tx

    End = str | None
    Ended = tuple[Claim, Outcome | None]
    Told = tuple[Claim, Outcome | None, float | None]
    """with the time at which a task ended that could not have been forced to"""

__all__ = ["Settler"]

log = logging.getLogger(__name__)

MOST: Final = 1_000
"""Maximum number of ends in a transaction."""
MANY: Final = 10
"""If this many ends came together, more are waited for before they are written."""
GATHER: Final = 0.003
"""Seconds of that wait: a transaction costs the database as much as many ends do."""
_LATE: Final = Outcome("cancelled", "written_off")
"""Stands for the end of a task whose attempt was settled before."""
_BACK: Final = Outcome("cancelled", "buffered")
"""Stands for a buffered run that was not started."""
_BEGUN: Final = Outcome("cancelled", "begun")
"""Stands for a buffered run that was started and is still running."""
_OTHERS: Final = (_LATE, _BACK, _BEGUN)


class Settler:
    """One thread; `done` gets the claims that were settled or given up. `lingers` says whether a
    claim's task cannot be forced to end."""

    def __init__(
        self,
        store: Store,
        done: Callable[[Sequence[Claim]], None],
        measures: Measures | None = None,
        monotonic: Callable[[], float] = time.monotonic,
        tracing: Tracing | None = None,
        lingers: Callable[[Claim], bool] = lambda _: True,
    ) -> None:
        self._monotonic = monotonic
        self._lingers = lingers
        self._batch: list[Told] = []
        self._store = store
        self._measures = Measures() if measures is None else measures
        self._done = done
        self._tracing = tracing
        self._closed = False
        self._queue: SimpleQueue[Told | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._loop, name="duebook-settler", daemon=True)
        self._thread.start()

    def put(self, claim: Claim, outcome: Outcome | None, until: float | None = None) -> None:
        """An outcome of None hands the run back.

        `until` is when its task ended, by the monotonic clock. If others took the run over before
        that, and its task cannot be forced to end, the overlap is recorded.
        """
        self._queue.put((claim, outcome, until))

    def put_late(self, claim: Claim, until: float) -> None:
        """A task has ended whose attempt was settled long ago."""
        self.put(claim, _LATE, until)

    def put_back(self, claim: Claim) -> None:
        """A buffered run was not started, and is handed back together with others."""
        self.put(claim, _BACK)

    def put_begun(self, claim: Claim) -> None:
        """A buffered run was started a while ago, which the database does not know yet."""
        self.put(claim, _BEGUN)

    def close(self) -> None:
        """Settle what waits; others take over what cannot be settled."""
        self._closed = True
        self._queue.put(None)
        self._thread.join(timeout=10)

    def _loop(self) -> None:
        going_on, came = True, 0
        while going_on:
            told = [self._queue.get()]
            if came >= MANY and not self._closed:
                time.sleep(GATHER)
            told += [self._queue.get() for _ in range(min(self._queue.qsize(), MOST - 1))]
            batch = [each for each in told if each is not None]
            going_on, came = len(batch) == len(told), len(batch)
            self._settle(batch)

    def _settle(self, batch: list[Told]) -> None:
        self._batch = batch
        groups: dict[int, list[Claim]] = {id(kind): [] for kind in _OTHERS}
        final, others = [], []
        for claim, outcome, _ in batch:
            if id(outcome) in groups:
                groups[id(outcome)].append(claim)
            elif outcome is not None and is_final(claim, outcome):
                final.append((claim, outcome))
            else:
                others.append((claim, outcome))
        late, back, begun = (groups[id(kind)] for kind in _OTHERS)
        self._note_late(late)
        self._mark_begun(begun)
        try:
            self._write(final)
        except Exception:  # the keeper hands back what is left, and this thread continues
            log.exception("could not settle %s", counted(len(final), "run"))
        try:
            self._hand_back(back)
            for claim, outcome in others:
                self._conclude(claim, outcome)
        finally:
            self._batch = []
            self._done([*(claim for claim, _ in final), *(claim for claim, _ in others), *back])

    def _mark_begun(self, claims: list[Claim]) -> None:
        begun = [(claim.token, claim.begun_at) for claim in claims if claim.begun_at is not None]
        if not begun:
            return
        try:
            persist(self._store, lambda tx: tx.attempts.mark_begun(begun), lambda: self._closed)
        except Exception:  # its end will repeat it
            log.exception("%s started, but that could not be recorded", counted(len(begun), "run"))

    def _hand_back(self, claims: list[Claim]) -> None:
        """Buffered runs together, or one by one if the database refuses that."""
        if not claims:
            return
        tokens = [claim.token for claim in claims]

        def hand_back(tx: Tx) -> list[End]:
            own = tx.attempts.hand_back_all(tokens)
            return ["handed back" if token in own else None for token in tokens]

        try:
            self._persist(claims, hand_back)
        except Exception:
            log.exception("could not return %s to the queue together", counted(len(claims), "run"))
            for claim in claims:
                self._conclude(claim, None)

    def _note_late(self, claims: list[Claim]) -> None:
        if not claims:
            return
        try:
            persist(self._store, lambda tx: self._note_overlaps(tx, claims), lambda: self._closed)
        except Exception:  # only informative; no work depends on it
            log.exception(
                "%s finished late, but that could not be recorded", counted(len(claims), "run")
            )

    def _note_overlaps(self, tx: Tx, claims: Sequence[Claim]) -> None:
        """Record runs whose task continued here after others had taken the run over."""
        if not claims:
            return
        now, tokens = self._monotonic(), {claim.token for claim in claims}
        until = {
            claim.token: at
            for claim, _, at in self._batch
            if at is not None and claim.token in tokens and self._lingers(claim)
        }
        tx.attempts.note_overlaps(
            (token, tx.now - timedelta(seconds=now - at)) for token, at in until.items()
        )

    def _conclude(self, claim: Claim, outcome: Outcome | None) -> None:
        """Settle one that is retried or handed back; a failure does not affect the others."""
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
            log.exception("run %s could not be settled", claim.run.id, extra=about(claim))

    def _write(self, final: list[tuple[Claim, Outcome]]) -> None:
        """Halve a batch that the database refuses, until the end that spoils it is alone."""
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
        if None in ends or log.isEnabledFor(logging.INFO):
            for (claim, outcome), end in zip(final, ends, strict=True):
                _log_end(claim, outcome, end)

    def _write_as_failed(self, claim: Claim, error: Exception) -> None:
        """The database refuses the outcome, so record that the run failed, and why."""
        told = "run %s: its outcome cannot be stored: %s"
        log.error(told, claim.run.id, error, extra=about(claim))
        outcome = Outcome("failed", "error", "its outcome could not be stored")
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
        if self._tracing is not None:
            self._tracing.settled(claims, *done)
        return done[0]


def _log_end(claim: Claim, outcome: Outcome | None, end: str | None) -> None:
    """Log how a run ended, in one line."""
    run, run_id = claim.run, claim.run.id
    if end is None:
        told = "run %s has been taken over; this outcome is ignored"
        log.warning(told, run_id, extra=about(claim))
    elif log.isEnabledFor(logging.INFO):
        why = f" ({outcome.error})" if outcome is not None and outcome.error else ""
        is_step = run.step is not None
        name = f"{run.flow}: {run.step}" if is_step else run.schedule or run.task or run.queue
        words = "returned to the queue" if end == "handed back" else end
        log.info("%s %s%s, run %s", name, words, why, run_id, extra=about(claim))
