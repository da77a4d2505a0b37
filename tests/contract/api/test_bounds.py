"""Requests that are too large, or small ones that grow: refused soon, with a short answer."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import pytest

from duebook.api import asking
from duebook.api.bodies import parse_body
from duebook.api.problems import Malformed
from tests.waiting import takes_less_than

if TYPE_CHECKING:
    from tests.contract.api.conftest import Api

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
        assert "and 49,980 more that are unknown" in answer.json()["detail"]


def test_many_unknown_filters_are_counted_and_not_all_named(api: Api) -> None:
    unknown = {f"unknown-{n}": 1 for n in range(50_000)}
    problem = api.refused(
        400, "POST", "bulk/actions", {"action": "pause", "filter": unknown, "dry_run": True}
    )
    assert len(problem["errors"]) == 21
    assert problem["errors"][-1]["message"] == "and 49,980 more that are unknown"


def test_a_body_has_at_most_two_megabytes_unless_it_is_bulk(api: Api) -> None:
    """Of what is too large nothing is read, and what is not gets its own answer."""
    large = json.dumps(JOB | {"description": "x" * 3_000_000}).encode()
    answer = api.client.post("/api/v1/schedules", content=large, headers=JSON)
    assert answer.status_code == 413
    assert answer.json()["detail"] == "a body has at most 2,097,152 bytes here; send less"
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
