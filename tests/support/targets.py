"""What targets are performed with in tests: a claim, a run, and a receiver of their reports."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from duebook.model.definition import load_spec
from duebook.model.run import Claim, Outcome, Progress, Run, Token
from tests.support.builders import BEGIN

if TYPE_CHECKING:
    from duebook.model.event import Draft
    from duebook.model.schedule import ScheduleSpec


AT = datetime(2026, 3, 29, 0, 30, tzinfo=UTC)
NOW = AT + timedelta(minutes=5)


def spec_of(target: Any, payload: dict[str, Any] | None = None) -> ScheduleSpec:
    form = {"trigger": {"cron": "0 9 * * *", "tz": "Europe/Brussels"}, "target": target}
    return load_spec({**form, "payload": payload or {}}, "digest")


def claim_of(
    target: Any, payload: dict[str, Any] | None = None, given: dict[str, Any] | None = None
) -> Claim:
    run = Run(
        id="run-1",
        namespace="team",
        schedule_id="schedule-1",
        schedule="digest",
        version=1,
        due_at=AT,
        origin="schedule",
        trigger="schedule:0 9 * * *",
        queue="default",
        priority=0,
        status="running",
        attempt=1,
        failures=0,
        losses=0,
        payload=given,
        created_at=AT,
        ready_at=AT,
        started_at=NOW,
    )
    return Claim(run, Token("run-1", 1, "session"), spec_of(target, payload), "ann")


RUN = Run(
    "r", "default", "s", "digest", 1, BEGIN, "schedule", "", "default", 0, "running", 2, 1, 0, None,
    BEGIN, BEGIN, BEGIN, task="digest",
)  # fmt: skip


class Told:
    """Keeps reports in lists."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, str]] = []
        self.progresses: list[Progress] = []
        self.published: list[Draft] = []
        self.settles = False

    def line(self, stream: str, text: str) -> None:
        self.lines.append((stream, text))

    def progress(self, progress: Progress) -> None:
        self.progresses.append(progress)

    def secret(self, name: str) -> str:
        return f"the {name}"

    def shown(self, text: str) -> str:
        return text

    def settle_in(self, connection: Any, outcome: Outcome) -> None:
        connection.append(outcome)
        self.settles = True

    def settled(self) -> Outcome:
        return Outcome("failed", "uncommitted")
