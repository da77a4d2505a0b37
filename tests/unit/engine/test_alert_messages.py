"""Messages about problems: what they say when there is no time for explanations."""

from __future__ import annotations

from datetime import UTC, datetime
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

from duebook.alerting import Told
from duebook.budget import Budget
from duebook.engine.alert_messages import alert_event
from duebook.model.alert import Alert, AlertRule

if TYPE_CHECKING:
    from duebook.store.base import Tx

NOW = datetime(2026, 1, 5, 12, tzinfo=UTC)


def test_without_time_for_an_explanation_a_message_says_what_was_noted() -> None:
    """A transaction that tells of many problems explains as many as it has time for."""
    rule = AlertRule("default", "ops", ("failure",), ("channel",), created_at=NOW)
    about = ("failure", "nightly", "nightly failed", "exit code 1", "nightly", "r1", NOW)
    alert = Alert("a1", "default", "ops", *about, NOW, NOW)
    told = Told(rule, "problem", "a1", (alert,), 1)
    tx = cast("Tx", SimpleNamespace(now=NOW))  # whatever it asks the database fails
    draft = alert_event(tx, told, Budget(-1))
    assert '"text":"Mon 2026-01-05 12:00 (UTC): exit code 1"' in draft.data.replace('": "', '":"')
