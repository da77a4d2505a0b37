"""What the state of a Celery task means for its run."""

from __future__ import annotations

from typing import Literal

import pytest

from duebook.model.run import Attempt
from duebook.targets.celery_states import (
    CeleryEnd,
    CeleryRecord,
    began_with,
    end_of,
    next_step,
    takeover_note,
)
from tests.support.builders import BEGIN

Ended = Literal["succeeded", "failed", "cancelled", "lost", "handed_back"]


def ended(record: CeleryRecord) -> CeleryEnd:
    found = end_of(record, "run-1")
    assert found is not None
    return found


def test_a_success_has_its_result_as_output() -> None:
    outcome = ended(CeleryRecord("SUCCESS", {"rows": 3})).outcome
    assert (outcome.status, outcome.output) == ("succeeded", '{"rows": 3}')


@pytest.mark.parametrize("result", [{1, 2}, "x" * 70_000, float("nan")])
def test_a_result_that_the_books_cannot_keep_is_a_success_that_says_where_it_is(
    result: object,
) -> None:
    end = ended(CeleryRecord("SUCCESS", result))
    assert (end.outcome.status, end.outcome.output) == ("succeeded", None)
    assert end.outcome.output_ref == "celery:run-1"
    assert end.note is not None
    assert end.note.startswith("the result stays in Celery's result backend: the output")


@pytest.mark.parametrize(
    ("result", "error"),
    [
        ({"exc_type": "ValueError", "exc_message": ["no", 5]}, "ValueError: no, 5"),
        ({"exc_type": "ValueError", "exc_message": "no"}, "ValueError: no"),
        ({"exc_type": "KeyError", "exc_message": []}, "KeyError"),
        (ValueError("no"), "ValueError: no"),
        ("no", "Exception: no"),
        (None, "Exception"),
    ],
)
def test_a_failure_has_the_text_of_its_exception(result: object, error: str) -> None:
    end = ended(CeleryRecord("FAILURE", result, "Traceback …"))
    assert (end.outcome.status, end.outcome.reason, end.outcome.error) == ("failed", "error", error)
    assert end.outcome.kinds[0] == error.partition(":")[0]
    assert end.traceback == "Traceback …"


def test_a_revoked_task_cancels_its_run() -> None:
    record = CeleryRecord("REVOKED", {"exc_type": "TaskRevokedError", "exc_message": ["expired"]})
    outcome = ended(record).outcome
    assert (outcome.status, outcome.reason) == ("cancelled", "revoked")
    assert outcome.error == "Celery revoked the task: expired"


def test_a_record_that_cannot_be_read_fails_the_run() -> None:
    outcome = ended(CeleryRecord("UNREADABLE", "ContentDisallowed: pickle")).outcome
    assert outcome.status == "failed"
    assert "ContentDisallowed: pickle" in (outcome.error or "")


@pytest.mark.parametrize("state", ["RECEIVED", "STARTED", "RETRY", "PROGRESS", "a state of theirs"])
def test_a_task_that_has_begun_goes_on(state: str) -> None:
    assert end_of(CeleryRecord(state), "run-1") is None
    assert next_step("asking", CeleryRecord(state), "run-1") == "wait"
    assert next_step("waiting", CeleryRecord(state), "run-1") == "wait"


def test_whoever_takes_over_waits_for_a_task_that_was_sent() -> None:
    assert next_step("asking", CeleryRecord(is_marked=True), "run-1") == "wait"


def test_whoever_takes_over_settles_by_a_task_that_has_ended() -> None:
    step = next_step("asking", CeleryRecord("SUCCESS", 5), "run-1")
    assert isinstance(step, CeleryEnd)
    assert step.outcome.output == "5"


def test_whoever_takes_over_sends_what_nothing_is_known_of_and_says_so() -> None:
    step = next_step("asking", CeleryRecord(), "run-1")
    assert step == "send"
    told = takeover_note(step, "run-1")
    assert "cannot know whether Celery task run-1 was sent" in told
    assert "has no record of it" in told
    assert "has no result backend" in takeover_note(step, "run-1", waits=False)


def test_a_task_that_could_not_be_marked_is_waited_for() -> None:
    assert next_step("unmarked", CeleryRecord(), "run-1") == "wait"


def test_a_task_that_the_backend_has_forgotten_fails_its_run() -> None:
    assert next_step("waiting", CeleryRecord(is_marked=True), "run-1") == "wait"
    step = next_step("waiting", CeleryRecord(), "run-1")
    assert isinstance(step, CeleryEnd)
    assert (step.outcome.status, step.outcome.reason) == ("failed", "result_lost")


@pytest.mark.parametrize(
    ("ends", "began"),
    [
        ([], 1),
        (["failed"], 2),
        (["lost"], 1),
        (["handed_back", "lost"], 1),
        (["failed", "lost", "handed_back"], 2),
        (["lost", "failed"], 3),
        (["cancelled"], 2),
        (["succeeded", "lost"], 2),
    ],
)
def test_an_attempt_continues_those_that_were_lost_or_handed_back(
    ends: list[Ended], began: int
) -> None:
    attempts = [Attempt(n, "node", BEGIN, BEGIN, end) for n, end in enumerate(ends, 1)]
    assert began_with(attempts, len(ends) + 1) == began
