"""How the progress of a backfill is told, and followed to its end."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, cast

import pytest

from duebook.cli import backfill
from duebook.cli.backfill import Filled, progress_line
from duebook.model.acted import BackfillProgress

if TYPE_CHECKING:
    from duebook.client import Client

DAY = datetime(2026, 3, 1, tzinfo=UTC)
FILLED = Filled("report", DAY, DAY + timedelta(days=30), "2026-04-01T09:00:00Z")


@pytest.mark.parametrize(
    ("found", "each", "told"),
    [
        (BackfillProgress(), None, "no runs: there was no backfill of that period at that instant"),
        (BackfillProgress(queued=31), None, "0 of 31 runs ended, 31 queued"),
        (
            BackfillProgress(queued=18, running=2, succeeded=10, failed=1),
            timedelta(seconds=12),
            "11 of 31 runs ended, 1 failed, 2 running, 18 queued, about 4m left",
        ),
        (
            BackfillProgress(succeeded=1, cancelled=1),
            timedelta(seconds=1),
            "2 of 2 runs ended, 1 cancelled",
        ),
    ],
)
def test_the_progress_is_one_line(
    found: BackfillProgress, each: timedelta | None, told: str
) -> None:
    assert progress_line(found, each) == told


class Book:
    """Answers one after the other; after the last, Ctrl-C is pressed."""

    def __init__(self, *answers: BackfillProgress) -> None:
        self._answers = list(answers)
        self.asked: list[tuple[Any, ...]] = []

    @property
    def schedules(self) -> Book:
        return self

    def backfill_progress(self, *asked: Any) -> BackfillProgress:
        self.asked.append(asked)
        if not self._answers:
            raise KeyboardInterrupt
        return self._answers.pop(0)


def test_a_backfill_is_followed_until_its_runs_have_ended(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(backfill, "POLL", 0)
    waits, ends = BackfillProgress(queued=2), BackfillProgress(succeeded=2)
    book = Book(waits, waits, BackfillProgress(queued=1, succeeded=1), ends)
    assert backfill._follow(cast("Client", book), FILLED) == ends
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "0 of 2 runs ended, 2 queued"
    assert lines[1].startswith("1 of 2 runs ended, 1 queued")
    assert len(lines) == 2, "what has not changed is not told again"
    assert set(book.asked) == {tuple(FILLED)}
