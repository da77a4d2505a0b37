"""Common to several parts when runs end: attempts, cancellation, large outputs and secrets."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from duebook.store.sql.rows import clean, is_large
from duebook.store.sql.statements import Part, Statements, Values
from duebook.store.values import News

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from duebook.store.sql.lifecycle import Lifecycle
    from duebook.store.sql.wakes import Wakes

__all__ = ["RunEnds"]


class RunEnds(Part):
    """The caller must hold what the end may wake."""

    def __init__(self, db: Statements, wakes: Wakes, lifecycle: Lifecycle) -> None:
        super().__init__(db)
        self._wakes = wakes
        self._lifecycle = lifecycle

    def end_attempt(
        self, run_id: str, outcome: str, error: str | None, exit_code: int | None = None
    ) -> None:
        """Record an attempt that is over while its run continues."""
        self._db.run(
            "insert_attempt",
            id=run_id,
            now=self._db.now,
            outcome=outcome,
            error=error,
            exit_code=exit_code,
        )

    def cancel_queued(self, run_ids: Sequence[str], reason: str) -> list[str]:
        """Cancel unstarted runs, and wake what waits for them; returns these runs."""
        how: Values = {"now": self._db.now, "reason": clean(reason)}
        found = [(id_, self._db.one("cancel_queued_run", id=id_, **how)) for id_ in sorted(run_ids)]
        cancelled = [(id_, row) for id_, row in found if row]
        self._lifecycle.record_run_events([id_ for id_, _ in cancelled])
        for _, row in cancelled:
            self._wakes.wake_owner(*row)
        return [id_ for id_, _ in cancelled]

    def ask_to_end(self, run_id: str, reason: str) -> None:
        """Its owner ends it; for a run of a flow, an advancer does."""
        is_flow = self._db.value("request_cancel", id=run_id, now=self._db.now, reason=reason)
        if is_flow:
            self._wakes.wake_flows([run_id])
        else:
            self._db.notify(News.CANCEL)

    def stop(self, run_id: str, reason: str) -> None:
        """Cancel an unstarted run, or ask its owner to end it."""
        if not self.cancel_queued([run_id], reason):
            self.ask_to_end(run_id, reason)

    def keep_large(self, outputs: Iterable[tuple[str, str | None]]) -> None:
        """Store outputs that `inline` leaves out."""
        for run_id, output in outputs:
            if output is not None and is_large(output):
                self._db.run("keep_output", run_id=run_id, output=clean(output))
                size = len(output.encode(errors="replace"))
                self._db.run("note_output_size", run_id=run_id, size=size)

    def keep_secrets(self, secrets: Iterable[tuple[str, Sequence[str]]]) -> None:
        """Store what outputs hide; most hide nothing."""
        for run_id, texts in secrets:
            if texts:
                kept = clean(json.dumps(list(texts), ensure_ascii=False))
                self._db.run("note_output_secrets", run_id=run_id, secrets=kept)
