"""What retention leaves of the runs of a schedule, whatever it keeps and however they ended."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from duebook.balance import check_books
from duebook.engine.retention import EVERY, Retention
from duebook.model.history import leaves
from duebook.settings import RETENTION
from duebook.store.sqlite import SqliteStore
from duebook.timetext import format_duration
from tests.support.builders import (
    VirtualClock,
    add_run,
    add_schedule,
    begin,
    claim,
    get_runs,
    settle,
    tick,
)
from tests.support.examples import some_of

HOUR = timedelta(hours=1)
LENGTHS = st.none() | st.integers(1, 30).map(lambda hours: hours * HOUR)
ENDS = st.lists(st.booleans(), min_size=1, max_size=12)


@settings(max_examples=some_of(60), deadline=None)
@given(
    ends=ENDS,
    keep=LENGTHS,
    of_namespace=LENGTHS,
    keep_last=st.none() | st.integers(1, 6),
    later=st.integers(0, 40),
    by_hand=st.booleans(),
)
def test_retention_leaves_what_its_rule_says_and_the_books_balance(
    ends: list[bool],
    keep: timedelta | None,
    of_namespace: timedelta | None,
    keep_last: int | None,
    later: int,
    by_hand: bool,
) -> None:
    clock = VirtualClock()
    with TemporaryDirectory() as folder:
        store = SqliteStore(Path(folder) / "book.db", clock, durable=False)
        try:
            said: dict[str, Any] = {"keep_last": keep_last}
            if keep is not None:
                said["keep"] = format_duration(keep)
            trigger = {"every": "1h" if not by_hand else "9999d", "anchor": "2026-01-05T12:00:00Z"}
            job = add_schedule(store, trigger=trigger, catchup="skip", **said)
            store.transact(lambda tx: tx.history.set_keep("default", of_namespace))
            begin(store, lease=timedelta(days=4_000))
            for succeeds in ends:
                clock.advance(HOUR)
                if by_hand:
                    add_run(store, job)
                else:
                    tick(store)
                (claimed,) = claim(store)
                settle(store, claimed.token, "succeeded" if succeeds else "failed")
            ran = [
                (run.finished_at, run.id, run.status == "succeeded")
                for run in get_runs(store, job)
                if run.finished_at is not None
            ]
            clock.advance(later * HOUR)
            retention = Retention(store)
            while retention.step() != EVERY:
                pass
            before = clock.now - (keep or of_namespace or RETENTION)
            expected = leaves(ran, before, keep_last, clock.now - RETENTION)
            assert {run.id for run in get_runs(store, job)} == expected
            tick(store)
            assert check_books(store, deep=True).balanced
        finally:
            store.close()
