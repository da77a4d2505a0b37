"""The state of one run with a Celery target: how far its task has come, and where to report it."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Literal, Protocol

from duebook.model.celery_target import CeleryTarget
from duebook.targets.log_fields import about

if TYPE_CHECKING:
    from collections.abc import Callable

    from duebook.model.run import Claim, Outcome
    from duebook.targets.context import TaskStop

__all__ = ["CeleryReports", "CeleryRun", "Phase"]

log = logging.getLogger(__name__)

Phase = Literal[
    "new", "sending", "doubtful", "asking", "unmarked", "waiting", "revoking"
]  # in this order, except doubtful: the broker failed while it had the task, and is not back


class CeleryReports(Protocol):
    """The log of one run."""

    def line(self, stream: Literal["stdout", "stderr"], text: str) -> None: ...

    def note(self, text: str) -> None: ...

    def close(self) -> None: ...


class CeleryRun:
    """One run, and the callback for its end."""

    __slots__ = (
        *(
            "_open",
            "_reports",
            "asks_at",
            "claim",
            "ended",
            "ends_by",
            "is_held",
            "ready_at",
            "is_begun",
            "is_in_hand",
        ),
        *("is_maybe_sent", "is_prepared", "is_taken_over", "outcome", "phase", "stop", "task_id"),
        *("times_lost", "told_of", "was_tried"),
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
        """whether its values have been filled in"""
        self.phase: Phase = "new"
        self.task_id = ""
        self.is_taken_over = False
        """whether its task was sent by an earlier attempt, whose node was lost or has left"""
        self.was_tried = False
        """whether its task may have been sent"""
        self.is_in_hand = False
        """whether the broker thread has it, and may be about to send it"""
        self.is_begun = False
        """whether that thread has started to send it"""
        self.is_maybe_sent = False
        """whether the broker failed while it had the task"""
        self.times_lost = 0
        """how often"""
        self.asks_at: float | None = None
        """when to ask the backend whether the task was sent"""
        self.told_of: set[str] = set()
        """the services that its log has reported as out of reach"""
        self.ready_at = 0.0
        """when its task could have been sent"""
        self.is_held = False
        """whether it has waited for a broker that is out of reach"""
        self.outcome: Outcome | None = None
        """how it ends once its task is revoked"""
        self.ends_by: float | None = None
        """when it stops waiting for that"""

    @property
    def reports(self) -> CeleryReports:
        """Opened when first used, with the claim as it is then, because the log hides the run's
        secrets."""
        if self._reports is None:
            self._reports = self._open(self.claim)
        return self._reports

    @property
    def target(self) -> CeleryTarget:
        target = self.claim.spec.target
        assert isinstance(target, CeleryTarget)  # noqa: S101 - the performer has checked
        return target

    def close(self, outcome: Outcome) -> None:
        """Report the end even if the log cannot be written; may wait for the database."""
        try:
            if outcome.error:
                self.reports.note(outcome.error)
            self.reports.close()
        except Exception:
            told = "run %s: its log could not be closed"
            log.exception(told, self.claim.run.id, extra=about(self.claim))
        finally:
            self.ended(self.claim, outcome)

    @property
    def doubt(self) -> str:
        """Why its task may already have been sent, for its log."""
        return "the broker failed while it had the task" if self.is_maybe_sent else "taken over"
