"""A wheel of time zone data sent to a server: the report, what is rejected, what it may cost."""

from __future__ import annotations

from base64 import b64encode
from typing import TYPE_CHECKING, Any

import pytest

from duebook.api.asking import Services
from duebook.api.computing import Computing
from duebook.book import Book
from duebook.targets.task import Tasks
from tests.support.api import Api
from tests.support.zone_wheels import write_wheel

if TYPE_CHECKING:
    from pathlib import Path

    from duebook.api.app import App
    from duebook.store.base import Store

DAILY = {"trigger": {"daily": "09:00", "tz": "Europe/Brussels"}, "target": {"command": ["true"]}}


@pytest.fixture
def wheel(tmp_path: Path) -> str:
    """Belgium stays on winter time."""
    return b64encode(write_wheel(tmp_path, Europe__Brussels="Africa/Algiers").read_bytes()).decode()


def test_a_server_tells_which_due_times_the_data_of_a_wheel_moves(api: Api, wheel: str) -> None:
    api("POST", "schedules", {"name": "report", **DAILY})
    api("POST", "schedules?namespace=shop", {"name": "sale", **DAILY})
    before = api("GET", "schedules/report").json()
    found = api.ok("POST", "zones/diff", {"wheel": wheel})
    assert (found["new"], found["zones"], found["looked_at"]) == ("2030a", ["Europe/Brussels"], 2)
    moved = {one["schedule"]: one for one in found["schedules"]}
    assert moved.keys() == {"report", "shop/sale"}
    assert moved["report"]["count"] > 200
    first = moved["report"]["first"][0]
    assert (first["was"][11:], first["becomes"][11:]) == ("07:00:00Z", "08:00:00Z")
    assert api("GET", "schedules/report").json() == before
    assert api.ok("POST", "zones/diff", {"wheel": wheel, "ahead": "0s"})["schedules"] == []


@pytest.mark.parametrize("who", ["viewer", "operator@default", "admin@default"])
def test_only_operators_of_all_namespaces_may_compare(app: App, wheel: str, who: str) -> None:
    Api(app, who).refused(403, "POST", "zones/diff", {"wheel": wheel})
    Api(app, "operator").ok("POST", "zones/diff", {"wheel": wheel})


@pytest.mark.parametrize(
    "wrong",
    [
        {},
        {"wheel": None},
        {"wheel": 7},
        {"wheel": ["UEs="]},
        {"wheel": ""},
        {"wheel": "no base64!"},
        {"wheel": "Zürich"},
        {"wheel": b64encode(b"no wheel").decode()},
        {"wheel": b64encode(b"PK\x05\x06" + b"\0" * 18).decode()},
        {"wheel": "A" * 2_000_004},
        {"ahead": "11y"},
        {"ahead": "-1d"},
        {"ahead": "36500d"},
        {"ahead": 7},
        {"ahead": ["1d"]},
    ],
)
def test_what_is_not_a_wheel_or_a_length_is_refused(
    api: Api, wheel: str, wrong: dict[str, Any]
) -> None:
    given = {"wheel": wheel} | wrong if "ahead" in wrong else wrong
    assert api("POST", "zones/diff", given).status_code in (400, 422)


def test_a_comparison_that_takes_too_long_is_refused_with_what_to_do(
    app: App, store: Store, wheel: str
) -> None:
    every = {"cron": "* * * * * *", "tz": "Europe/Brussels"}
    Book(store).schedules.create("job", trigger=every, target="job")
    app.state.services = Services(store, Tasks(), Computing(seconds=0.0))
    problem = Api(app, "operator").refused(422, "POST", "zones/diff", {"wheel": wheel})
    assert problem["code"] == "over_budget"
    assert "use the command line with --database" in problem["detail"]
