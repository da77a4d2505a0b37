"""Alerts for tests, in the form that reaches a channel."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from duebook.model.alert_message import AlertMessage

MESSAGE = AlertMessage(
    kind="failure",
    status="problem",
    title="etl failed",
    text="exit code 1\n<!channel> [click](http://x) **now** $(id)",
    link="https://duebook.example.com/runs/r-1",
    dedup_key="failure/etl",
    namespace="shop",
    schedule="etl",
    run_id="r-1",
    at=datetime(2026, 1, 5, 12, tzinfo=UTC),
)


def message(**changes: Any) -> AlertMessage:
    return replace(MESSAGE, **changes)
