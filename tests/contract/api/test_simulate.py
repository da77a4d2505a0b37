"""Simulations through the API: their results, what they reject, and what they may cost."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tests.support.api import Api

DEFINITION = {"cron": "0 * * * *", "target": {"command": ["true"]}}
FROM = {"start": "2026-02-07T12:00:00Z", "days": 1}


def test_a_simulation_is_answered_and_changes_nothing(api: Api) -> None:
    api("POST", "schedules", {"name": "etl", **DEFINITION})
    answer = api("POST", "simulate", FROM | {"takes": {"etl": "90m"}})
    assert answer.status_code == 200
    assert answer.json()["skips"] == {"overlap": 12}
    given = [{"name": "other", **DEFINITION}]
    answer = api("POST", "simulate", FROM | {"schedules": given, "only": True})
    assert [one["name"] for one in answer.json()["outlooks"]] == ["other"]
    assert [one["name"] for one in api("GET", "schedules").json()["items"]] == ["etl"]


@pytest.mark.parametrize(
    "wrong",
    [
        {"days": "many"},
        {"days": 10**9},
        {"workers": 0},
        {"takes": ["etl"]},
        {"takes": {"etl": 5}},
        {"percentile": 101},
        {"start": 7},
        {"start": "9999-12-31T00:00:00Z"},
        {"schedules": {"name": "etl"}},
        {"schedules": [7]},
        {"schedules": [{"name": "etl"}]},
        {"only": "yes"},
    ],
)
def test_what_cannot_be_simulated_is_refused(api: Api, wrong: dict[str, Any]) -> None:
    assert api("POST", "simulate", wrong).status_code in (400, 422)
    if "only" not in wrong:
        assert api("POST", "spread", wrong).status_code in (400, 422)


@pytest.mark.parametrize("names", [7, "etl", [7], [{}], ["nobody"]])
def test_only_schedules_that_exist_can_be_spread(api: Api, names: Any) -> None:
    assert api("POST", "spread", {"names": names}).status_code in (400, 422)
