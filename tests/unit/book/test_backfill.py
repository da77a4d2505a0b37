"""How many due times one backfill may have."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from duebook.book.backfill import find_missing
from duebook.errors import Invalid
from duebook.model.history import History
from tests.unit.planner.histories import HOUR, NOON, calendar, history


@pytest.mark.parametrize(
    "definition",
    [
        {"trigger": "* * * * *", "calendar": calendar("except", "2026-06-01", roll="next")},
        {"trigger": ["*/2 * * * *", "1-59/2 * * * *"]},
    ],
)
def test_the_limit_of_a_backfill_counts_merged_and_rolling_due_times(definition: Any) -> None:
    tx: Any = SimpleNamespace(now=NOON, history=SimpleNamespace(of=lambda _: History()))
    snapshot = history(NOON, **definition).snapshot
    with pytest.raises(Invalid, match="more than 10,000 due times"):
        find_missing(tx, snapshot, NOON - 167 * HOUR, NOON, None)
