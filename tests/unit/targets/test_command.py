"""The variables that a command gets about its run."""

from __future__ import annotations

from datetime import timedelta

from duebook.model.run import Interval
from duebook.targets.command import environment
from tests.support.targets import AT, claim_of

COMMAND = {"command": ["true"]}


def test_a_command_knows_its_namespace_its_user_and_the_time_of_the_database() -> None:
    found = environment(claim_of(COMMAND), {})
    assert found["DUEBOOK_NAMESPACE"] == "team"
    assert found["DUEBOOK_USER"] == "ann"
    assert found["DUEBOOK_NOW"] == "2026-03-29T00:35:00Z"


def test_a_command_knows_its_interval() -> None:
    claim = claim_of(COMMAND)
    run = claim.run._replace(interval=Interval(AT - timedelta(hours=23), AT))
    found = environment(claim._replace(run=run), {})
    assert found["DUEBOOK_INTERVAL_START"] == "2026-03-28T01:30:00Z"
    assert found["DUEBOOK_INTERVAL_END"] == "2026-03-29T00:30:00Z"


def test_a_command_of_a_run_by_hand_knows_who_asked_and_has_an_empty_interval() -> None:
    claim = claim_of(COMMAND)
    run = claim.run._replace(due_at=None, origin="manual", requested_by="token:deploy")
    found = environment(claim._replace(run=run), {})
    assert found["DUEBOOK_REQUESTED_BY"] == "token:deploy"
    assert (found["DUEBOOK_INTERVAL_START"], found["DUEBOOK_INTERVAL_END"]) == ("", "")
    assert environment(claim_of(COMMAND), {})["DUEBOOK_REQUESTED_BY"] == ""
