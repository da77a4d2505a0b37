"""A Celery task as a target: its JSON form, what is wrong with it, and what of it is shown."""

from __future__ import annotations

from typing import Any

import pytest

from duebook.errors import Invalid
from duebook.model.celery_target import CELERY
from duebook.model.hidden import keep_hidden, load_shown
from duebook.model.target import load_target, worker_task

WHOLE: dict[str, Any] = {
    "celery": "proj.tasks.add",
    "args": [1, "{{ due_at }}"],
    "kwargs": {"user": "ann", "password": "s3cret"},
    "queue": "sums",
    "exchange": "all",
    "routing_key": "sums.now",
    "priority": 7,
    "expires": "10m",
    "time_limit": "1h",
    "soft_time_limit": "50m",
    "headers": {"tenant": "s3cret"},
    "terminate": True,
    "wait": False,
}


@pytest.mark.parametrize("form", [{"celery": "proj.add"}, WHOLE, {"celery": "add", "kwargs": {}}])
def test_a_task_is_written_as_it_was_read(form: dict[str, Any]) -> None:
    assert load_target(form).to_json() == form
    assert worker_task(load_target(form)) == CELERY


def test_lengths_may_be_given_in_seconds_as_celery_has_them() -> None:
    assert load_target({"celery": "add", "expires": 600}).to_json()["expires"] == "10m"


@pytest.mark.parametrize(
    ("part", "told"),
    [
        ({"celery": ""}, "is not a task such as proj.tasks.add"),
        ({"celery": "{{ payload.task }}"}, "is not a task such as proj.tasks.add"),
        ({"celery": 5}, "is not a task such as proj.tasks.add"),
        ({"args": {"a": 1}}, "target args"),
        ({"args": [float("nan")]}, "target args is not valid JSON"),
        ({"kwargs": [1]}, "target kwargs"),
        ({"queue": "two words"}, "target queue"),
        ({"priority": 256}, "from 0 to 255"),
        ({"priority": True}, "from 0 to 255"),
        ({"expires": "soon"}, "target expires"),
        ({"expires": 0}, "target expires"),
        ({"time_limit": "-1s"}, "target time_limit"),
        ({"headers": {"task": "other"}}, 'target header "task" is set by Celery'),
        ({"headers": {"tenant": 5}}, 'target header "tenant"'),
        ({"terminate": "yes"}, "target terminate"),
        ({"env": {}}, 'target key "env" is unknown'),
    ],
)
def test_what_is_wrong_is_named(part: dict[str, Any], told: str) -> None:
    with pytest.raises(Invalid, match="target") as raised:
        load_target({"celery": "proj.add"} | part)
    assert told in str(raised.value)


def test_secrets_are_hidden_and_stay_when_they_are_sent_back() -> None:
    target = load_target(WHOLE)
    shown = target.masked().to_json()
    assert "s3cret" not in str(shown)
    assert load_shown(shown) == target.masked()
    assert load_target(keep_hidden(shown, target)) == target


def test_what_is_hidden_goes_to_no_other_task() -> None:
    other = load_target(WHOLE).masked().to_json() | {"celery": "proj.tasks.print"}
    with pytest.raises(Invalid, match="placeholder"):
        load_target(keep_hidden(other, load_target(WHOLE)))
