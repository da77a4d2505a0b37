"""Makes schedules due by a manually set clock, and lets the real ticker create their runs."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from duebook.engine.ticker import Ticker
from duebook.ids import new_id
from duebook.model.definition import load_spec
from duebook.store.values import NewSchedule

if TYPE_CHECKING:
    from collections.abc import Mapping

    from duebook.store.base import Store, Tx

__all__ = ["JOB", "Clock", "add_schedules", "fire"]

START: Final = datetime(2026, 1, 1, tzinfo=UTC)
MINUTE: Final = timedelta(minutes=1)
JOB: Final = {"trigger": {"cron": "* * * * *"}, "target": {"task": "job"}, "overlap": "allow"}
"""A schedule of a task that is due every minute."""
BATCH: Final = 1_000


class Clock:
    """The database's clock, set manually; its time is in the past."""

    def __init__(self, minutes: int = 0) -> None:
        self.now = START + minutes * MINUTE

    def __call__(self) -> datetime:
        return self.now


def add_schedules(store: Store, clock: Clock, forms: Mapping[str, dict[str, Any]]) -> None:
    """Add schedules by name, all due at the next minute."""
    due = clock.now + MINUTE
    specs = {name: load_spec(form, name) for name, form in forms.items()}
    made = [NewSchedule(new_id(), "default", name, specs[name], due, due) for name in forms]

    def add(tx: Tx, begin: int) -> None:
        tx.schedules.create_schedules(made[begin : begin + BATCH], "bench", clock.now)

    for begin in range(0, len(made), BATCH):
        store.transact(partial(add, begin=begin))


def fire(store: Store, clock: Clock, minutes: int = 1, ticker: Ticker | None = None) -> None:
    """Let minutes pass; after each, all that is due becomes runs."""
    ticker = ticker or Ticker(store, batch=BATCH)
    for _ in range(minutes):
        clock.now += MINUTE
        while (wake_at := ticker.step()) is not None and wake_at <= clock.now:
            pass
