"""Titles of messages about several problems."""

from __future__ import annotations

from duebook.alerting.words import message_title
from duebook.model.alert import Alert
from tests.support.builders import BEGIN


def alert(subject: str, kind: str = "failure") -> Alert:
    return Alert(
        id=subject,
        namespace="default",
        rule="ops",
        kind=kind,
        subject=subject,
        title="x",
        text="x",
        schedule=None,
        run_id=None,
        due_at=None,
        opened_at=BEGIN,
        seen_at=BEGIN,
    )


def test_a_title_names_what_has_a_problem_once_and_without_its_run() -> None:
    alerts = [
        alert("etl run:01a1ed5d-2799", "running"),
        alert("etl run:01a1ed5d-2799", "slow"),
        alert("task:mail"),
        alert("plan", "unattended"),
        alert("work", "unattended"),
    ]
    title = message_title(alerts, 7, "problem", repeated=False)
    assert title == "7 problems: etl, task mail, no scheduler, no worker and 2 more"
