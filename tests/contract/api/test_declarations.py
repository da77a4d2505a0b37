"""Declarations over HTTP: what would change, what changed, and what is rejected."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.support.api import HELLO, Api

if TYPE_CHECKING:
    from duebook.api.app import App

PATH = "declarations/billing"


def body(**more: Any) -> dict[str, Any]:
    return {"schedules": [HELLO], **more}


def test_a_dry_run_shows_the_plan_and_its_fingerprint_applies_it(api: Api) -> None:
    planned = api.ok("PUT", PATH, body(), params={"dry_run": "true", "days": 3})
    assert (planned["applied"], planned["owner"]) == (False, "billing")
    (told,) = planned["schedules"]
    assert (told["name"], told["action"], len(told["appear"])) == ("hello", "create", 3)
    assert api.ok("GET", "schedules")["items"] == []
    done = api.ok("PUT", PATH, body(expect=planned["fingerprint"]))
    assert done["applied"] is True
    assert api.ok("GET", "schedules/hello")["owner"] == "billing"
    again = api.ok("PUT", PATH, body())
    assert (again["unchanged"], again["schedules"]) == (["hello"], [])


def test_a_plan_that_no_longer_fits_is_a_conflict(api: Api) -> None:
    planned = api.ok("PUT", PATH, body(), params={"dry_run": "true"})
    api.ok("POST", "schedules", HELLO)
    problem = api.refused(409, "PUT", PATH, body(expect=planned["fingerprint"], adopt=True))
    assert problem["code"] == "conflict"
    api.refused(409, "PUT", PATH, body())
    api.ok("PUT", PATH, body(adopt=True))
    removed = api.ok("PUT", PATH, {"schedules": [], "prune": True})
    assert [one["action"] for one in removed["schedules"]] == ["remove"]


def test_wrong_definitions_are_named_by_their_place(api: Api) -> None:
    wrong = {"schedules": [HELLO, {"name": "other", "cron": "61 * * * *", "target": "x"}]}
    problem = api.refused(422, "PUT", PATH, wrong)
    assert [error["field"] for error in problem["errors"]] == ["schedules[1].trigger"]
    api.refused(422, "PUT", "declarations/Billing!", body())


def test_it_takes_as_large_a_body_as_other_operations_for_many(api: Api) -> None:
    many = [HELLO | {"name": f"job-{n}", "payload": {"text": "x" * 9_000}} for n in range(300)]
    planned = api.ok("PUT", PATH, {"schedules": many}, params={"dry_run": "true", "days": 0})
    assert len(planned["schedules"]) == 300


def test_only_an_admin_declares_commands(app: App, api: Api) -> None:
    operator = Api(app, "operator")
    command = {"schedules": [HELLO | {"target": {"command": ["true"]}}]}
    assert operator.refused(403, "PUT", PATH, command)["code"] == "forbidden"
    api.ok("PUT", PATH, command)
    later = {"schedules": [command["schedules"][0] | {"priority": 3}]}
    assert operator.ok("PUT", PATH, later)["applied"] is True, "the target stays as it is"


def test_create_replaces_when_that_is_asked(api: Api) -> None:
    api.ok("POST", "schedules", HELLO)
    api.refused(409, "POST", "schedules", HELLO)
    replaced = api.ok("POST", "schedules", HELLO | {"replace": True, "priority": 3})
    assert (replaced["version"], replaced["priority"]) == (2, 3)
