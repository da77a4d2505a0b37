"""Requests that are too large, or small ones that grow: rejected early, with a short response."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import pytest

from duebook.api import answers, asking
from duebook.api.bodies import parse_body
from duebook.api.problems import Malformed
from tests.support.waiting import takes_less_than

if TYPE_CHECKING:
    from duebook.store.base import Store
    from tests.support.api import Api

JOB = {"name": "job", "trigger": "@daily", "target": "work"}
JSON = {"Content-Type": "application/json"}


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "schedules", JOB),
        ("POST", "bulk/schedules", {"schedules": [JOB]}),
        ("POST", "schedules/job/pause", {}),
        ("PUT", "templates/nightly", {}),
    ],
)
def test_many_unknown_fields_are_counted_and_not_all_named(
    api: Api, method: str, path: str, body: dict[str, Any]
) -> None:
    unknown = {f"unknown-{n}": 1 for n in range(50_000)}
    answer = api(method, path, unknown | body)
    assert answer.status_code in (404, 422)
    assert len(answer.content) < 50_000
    if answer.status_code == 422:
        assert len(answer.json()["errors"]) <= 25
        assert "and 49,980 more unknown keys" in answer.json()["detail"]


def test_many_unknown_filters_are_counted_and_not_all_named(api: Api) -> None:
    unknown = {f"unknown-{n}": 1 for n in range(50_000)}
    problem = api.refused(
        400, "POST", "bulk/actions", {"action": "pause", "filter": unknown, "dry_run": True}
    )
    assert len(problem["errors"]) == 21
    assert problem["errors"][-1]["message"] == "and 49,980 more unknown keys"


def test_a_body_has_at_most_two_megabytes_unless_it_is_bulk(api: Api) -> None:
    """Nothing of a body that is too large is read; a smaller one gets its normal response."""
    large = json.dumps(JOB | {"description": "x" * 3_000_000}).encode()
    answer = api.client.post("/api/v1/schedules", content=large, headers=JSON)
    assert answer.status_code == 413
    assert answer.json()["detail"] == "the body is limited to 2,097,152 bytes here; send less"
    problem = api.refused(422, "POST", "bulk/schedules", {"schedules": ["x" * 3_000_000]})
    assert problem["errors"][0]["field"] == "schedules[0]"


def test_large_bodies_are_read_beside_the_event_loop(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    beside: list[bool] = []

    def parse(content: bytes) -> dict[str, Any]:
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            beside.append(True)
        else:
            beside.append(False)
        return parse_body(content)

    monkeypatch.setattr(asking, "parse_body", parse)
    api.ok("POST", "schedules", JOB | {"description": "x" * 9_000})
    assert beside == [True]


def test_a_key_twice_is_found_at_once_among_many() -> None:
    text = ", ".join(f'"{n}": 1' for n in [*range(30_000), 29_999])
    content = f"{{{text}}}".encode()

    def parse() -> None:
        with pytest.raises(Malformed, match='"29999" twice'):
            parse_body(content)

    assert takes_less_than(1, parse)


def test_characters_in_deep_lists_are_looked_at_once() -> None:
    texts = ",".join(['"a"'] * 100_000 + ['"\\ud83d\\ude00"'])
    content = f'{{"a": {"[" * 400}{texts}{"]" * 400}}}'.encode()
    assert takes_less_than(1, lambda: parse_body(content))


def test_a_bulk_is_counted_after_its_templates_are_applied(api: Api) -> None:
    api.ok("PUT", "templates/large", {"payload": {"text": "x" * 999_000}, "cron": "@daily"})
    many = [{"name": f"job-{n}", "template": "large", "target": "work"} for n in range(300)]
    problem = api.refused(422, "POST", "bulk/schedules", {"schedules": many})
    assert "more than 16,777,216 bytes" in problem["detail"]
    assert api.ok("GET", "schedules")["items"] == []
    assert api.ok("POST", "bulk/schedules", {"schedules": many[:3]})["count"] == 3


def test_a_bulk_with_many_mistakes_is_not_looked_through(api: Api) -> None:
    wrong = [{f"unknow-{n}": 1 for n in range(20)}] * 10_000
    problem = api.refused(422, "POST", "bulk/schedules", {"schedules": wrong})
    assert problem["errors"][-1]["message"].startswith("and at least 1,0")


def test_a_page_ends_with_its_bytes_and_the_next_goes_on(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every list: hundreds of small items or a few large ones on a page, and each item once."""
    monkeypatch.setattr(answers, "PAGE_BYTES", 50_000)
    sizes = [10] * 30 + [30_000] * 3 + [90_000] + [10] * 30
    many = [
        JOB | {"name": f"job-{n:02}", "payload": {"text": "x" * size}}
        for n, size in enumerate(sizes)
    ]
    api.ok("POST", "bulk/schedules", {"schedules": many})
    for path, field in (("schedules", "name"), ("audit", "subject")):
        seen: list[str] = []
        pages, cursor = 0, None
        while pages == 0 or cursor:
            query = {"limit": 1000} | ({"cursor": cursor} if cursor else {})
            answer = api("GET", path, params=query)
            assert len(answer.content) < 50_100 or len(answer.json()["items"]) == 1
            seen += [item[field] for item in answer.json()["items"]]
            cursor, pages = answer.json()["next_cursor"], pages + 1
        assert sorted(seen) == [one["name"] for one in many], path
        assert pages > 1 or path == "audit"


def test_events_are_paged_by_bytes_with_their_position(
    api: Api, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answers, "PAGE_BYTES", 50_000)
    for number in range(30):
        data = "x" * (20_000 if number > 25 else 10)
        api.ok("POST", "events", {"topic": "orders", "data": data, "key": str(number)})
    store.transact(lambda tx: tx.events.stamp_events(100))
    first = api.ok("GET", "events", params={"limit": 1000})
    assert [item["key"] for item in first["items"]] == [str(n) for n in range(28)]
    after = {"limit": 1000, "cursor": first["next_cursor"]}
    rest = api.ok("GET", "events", params=after)
    assert [item["key"] for item in rest["items"]] == ["28", "29"]
    on = api.ok("GET", "events", params={"after": first["position"], "limit": 1000})
    assert [item["key"] for item in on["items"]] == ["28", "29"]


def test_the_audit_keeps_digests_of_large_values(api: Api) -> None:
    api.ok("POST", "schedules", JOB | {"payload": {"text": "x" * 10_000}})
    api.ok("PATCH", "schedules/job", {"payload": {"text": "y" * 10_000}})
    update, create = api.ok("GET", "audit")["items"]
    assert create["after"]["payload"]["bytes"] == update["before"]["payload"]["bytes"] == 10_012
    digests = [
        entry[when]["payload"]["sha256"]
        for entry, when in ((create, "after"), (update, "before"), (update, "after"))
    ]
    assert digests[0] == digests[1] != digests[2]
    assert create["after"]["target"] == {"task": "work"}
