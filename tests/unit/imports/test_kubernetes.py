"""CronJobs: what is carried over, and what is named instead."""

from __future__ import annotations

import json
from typing import Any

import pytest

from duebook.flows.problems import Refused
from duebook.imports.found import Found, Import, finish
from duebook.imports.kubernetes import read_manifests
from tests.support.cron_jobs import CONTAINER, manifest


def read(text: str) -> Import:
    return finish(read_manifests(text, "jobs.yaml"), {})


def one(
    spec: dict[str, Any] | None = None,
    job: dict[str, Any] | None = None,
    container: dict[str, Any] | None = None,
) -> Found:
    (found,) = read(manifest(spec or {}, job or {"backoffLimit": 0}, container or CONTAINER)).found
    return found


def test_a_cron_job_becomes_a_schedule() -> None:
    assert one({"timeZone": "Europe/Brussels"}).form == {
        "trigger": {"cron": "30 2 * * *", "tz": "Europe/Brussels"},
        "target": {"command": ["/app/run"]},
        "overlap": "allow",
    }


@pytest.mark.parametrize(
    ("policy", "overlap"), [("Allow", "allow"), ("Forbid", "latest"), ("Replace", "cancel")]
)
def test_a_concurrency_policy_is_an_overlap(policy: str, overlap: str) -> None:
    assert one({"concurrencyPolicy": policy}).form["overlap"] == overlap


def test_items_of_a_list_of_cron_jobs_need_no_kind() -> None:
    item = json.loads(manifest({}, {}, CONTAINER))
    del item["kind"]
    (found,) = read(json.dumps({"kind": "CronJobList", "items": [item]})).found
    assert found.name == "job"


def test_a_file_may_have_many_documents() -> None:
    text = "---\n".join(f"{manifest({}, {}, CONTAINER)}\n" for _ in range(150))
    assert len(read(text).found) == 150


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        ({"startingDeadlineSeconds": 10**30}, "it cannot be read"),
        ({"schedule": "30 0 9 * * 1"}, "expected 5 fields, but found 6"),
        ({"schedule": ""}, "expected 5 fields, but found 0"),
        ({"suspend": "true"}, 'suspend "true" is not true or false'),
        ({"jobTemplate": {"spec": {"template": {"spec": {"containers": [5]}}}}}, "cannot be read"),
    ],
)
def test_what_kubernetes_refuses_is_left_out(spec: dict[str, Any], told: str) -> None:
    (left,) = read(manifest(spec, {}, CONTAINER)).left
    assert told in left.why


def test_a_deadline_is_a_grace_after_which_nothing_is_made_up_for() -> None:
    form = one({"startingDeadlineSeconds": 600}).form
    assert (form["grace"], form["catchup"]) == ("10m", "skip")


def test_a_suspended_one_is_created_paused() -> None:
    found = one({"suspend": True})
    assert found.form["enabled"] is False
    assert "suspend: it is created paused; duebook resume starts it" in found.notes


def test_limits_of_the_job_are_retries_and_a_timeout() -> None:
    found = one(job={"backoffLimit": 2, "activeDeadlineSeconds": 90})
    assert found.form["retry"] == {"attempts": 3, "delay": "10s", "max_delay": "6m"}
    assert found.form["timeout"] == "1m30s"
    assert any("limits all attempts together" in note for note in found.notes)
    assert one(job={"completions": 2}).form["retry"]["attempts"] == 7, "Kubernetes' default"


def test_variables_are_replaced_and_secrets_are_named() -> None:
    container = {
        "name": "a",
        "command": ["/app/run", "$(DAY)", "$$5", "$(OTHER)"],
        "args": ["{{ x }}"],
        "workingDir": "/app",
        "image": "shop:1",
        "env": [
            {"name": "DAY", "value": "today"},
            {"name": "KEY", "valueFrom": {"secretKeyRef": 1}},
        ],
    }
    found = one(container=container)
    assert found.form["target"] == {
        "shell": "exec /app/run today '$5' '$(OTHER)' '{{ x }}'",
        "env": {"DAY": "today"},
        "cwd": "/app",
    }
    assert "env KEY comes from secretKeyRef; use {{ secret.NAME }}" in found.notes
    assert any("container a.image is not carried over" in note for note in found.notes)


def test_either_day_counts_even_with_a_step() -> None:
    assert one({"schedule": "0 6 */10 * 1"}).form["trigger"] == [
        {"cron": "0 6 */10 * *"},
        {"cron": "0 6 * * 1"},
    ]
    assert one({"schedule": "0 6 */10 * *"}).form["trigger"] == {"cron": "0 6 */10 * *"}


def test_lists_and_documents_are_read_and_other_kinds_are_named() -> None:
    text = manifest({}, {}, CONTAINER)
    done = read(f'---\n{{"kind": "List", "items": [{text}, {text}]}}\n---\nkind: Service\n---\n')
    assert len(done.found) == 2
    assert done.notes == ["jobs.yaml: passed over what is not a CronJob: Service"]


@pytest.mark.parametrize(
    ("spec", "container", "told"),
    [
        ({"schedule": "61 * * * *"}, CONTAINER, "minute 61"),
        ({"schedule": 5}, CONTAINER, "schedule 5 is not a string"),
        ({"timeZone": "Mars/Base"}, CONTAINER, "Mars/Base"),
        ({"concurrencyPolicy": "Maybe"}, CONTAINER, "concurrencyPolicy"),
        ({"startingDeadlineSeconds": "x"}, CONTAINER, "startingDeadlineSeconds"),
        ({}, {"name": "a", "image": "job:1", "args": ["run"]}, "only the image job:1 knows"),
        ({}, {"name": "a", "command": "run"}, "not a list of strings"),
        ({"jobTemplate": None}, CONTAINER, "no containers"),
        ({"jobTemplate": {"spec": {"template": []}}}, CONTAINER, "no containers"),
    ],
)
def test_what_cannot_be_carried_over_is_left_out(
    spec: dict[str, Any], container: dict[str, Any], told: str
) -> None:
    done = read(manifest(spec, {}, container))
    assert not done.found
    assert told in str(done.left[0])
    assert done.left[0].place == "jobs.yaml:1"


def test_a_bomb_of_aliases_is_refused() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 12)]
    with pytest.raises(Refused, match="aliases expanded"):
        read("\n".join(lines))
