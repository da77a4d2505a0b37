"""Plans as values."""

from __future__ import annotations

from dataclasses import fields, replace
from datetime import UTC, datetime
from typing import Any

from duebook.model.plan import Fire, Plan

NOW = datetime(2026, 11, 15, tzinfo=UTC)


def test_a_plan_with_other_decisions_is_the_same_otherwise() -> None:
    parts: dict[str, Any] = {field.name: field.name for field in fields(Plan)}
    plan = Plan(**parts)
    decisions = (Fire(NOW, "schedule"),)
    assert plan.deciding(decisions) == replace(plan, decisions=decisions)
