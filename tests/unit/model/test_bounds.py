"""What a caller sends as a definition has a bound in every part: what is allowed is read, and what
is not is refused, both in a moment and in a short sentence."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from duebook.model.definition import load_spec
from duebook.model.schedule import InvalidSchedule
from tests.support.waiting import takes_less_than

LIMIT = 1.0
"""Seconds of the processor."""
TEXT = "x" * 2_000_000


def job(**fields: Any) -> dict[str, Any]:
    return {"trigger": "@daily", "target": "work"} | fields


@cache
def names(number: int, value: Any = "x") -> dict[str, Any]:
    return {f"name-{n}": value for n in range(number)}


LARGEST: dict[str, dict[str, Any]] = {
    "payload": job(payload=names(50_000, 1)),
    "a long payload": job(payload={"text": TEXT[:999_000]}),
    "a deep payload": job(payload={"a": [[[[[["x"] * 1000] * 100]]]]}),
    "labels": job(labels=names(100, "x" * 256)),
    "exclude": job(exclude=["2026-12-24/2027-01-02"] * 1_000),
    "depends_on": job(depends_on=[{"schedule": f"s{n}", "within": "1h"} for n in range(100)]),
    "trigger": job(trigger=[{"cron": "* * * * *", "tz": "Europe/Berlin"}] * 20),
    "daily": job(trigger={"daily": [f"{n // 60:02}:{n % 60:02}" for n in range(1_440)]}),
    "command": job(target={"command": ["x" * 1_000] * 1_000}),
    "shell": job(target={"shell": TEXT[:100_000]}),
    "env": job(target={"command": ["x"], "env": names(1_000, "x" * 1_000)}),
    "headers": job(target={"http": {"url": "http://x", "headers": names(100)}}),
    "url": job(target={"http": {"url": "http://" + "{{" * 3_000}}),
    "json": job(target={"http": {"url": "http://x", "json": ["x"] * 150_000}}),
    "data": job(target={"event": {"topic": "x", "data": names(50_000, 1)}}),
    "params": job(target={"flow": "x", "params": names(50_000, 1)}),
    "retry on": job(retry={"on": [f"Error{n}" for n in range(100)]}),
}


@pytest.mark.parametrize("form", LARGEST.values(), ids=LARGEST)
def test_the_largest_that_is_allowed_is_read_in_a_moment(form: dict[str, Any]) -> None:
    assert takes_less_than(LIMIT, lambda: load_spec(form, "job"))


TOO_LARGE: dict[str, dict[str, Any]] = {
    "unknown": job(**names(100_000)),
    "unknown long": job(**{TEXT: 1}),
    "title": job(title=TEXT),
    "description": job(description=TEXT),
    "queue": job(queue=TEXT),
    "grace": job(grace=TEXT),
    "start_at": job(start_at="1" * 2_000_000),
    "overlap": job(overlap=TEXT),
    "payload": job(payload=names(100_000, "x" * 10)),
    "labels": job(labels=names(100_000)),
    "exclude": job(exclude=["2026-12-24"] * 100_000),
    "depends_on": job(depends_on=[{"schedule": "s", "within": "1h"}] * 50_000),
    "trigger": job(trigger=["@daily"] * 100_000),
    "cron": job(trigger="*," * 1_000_000),
    "tz": job(trigger={"cron": "@daily", "tz": TEXT}),
    "every": job(trigger={"every": "1h" * 1_000_000}),
    "daily": job(trigger={"daily": ["07:00"] * 200_000}),
    "weekly": job(trigger={"weekly": ["mon"] * 200_000, "at": "07:00"}),
    "rrule": job(trigger={"rrule": "FREQ=DAILY;" * 100_000}),
    "trigger keys": job(trigger={"cron": "@daily"} | names(100_000)),
    "at": job(trigger={"at": "2026" * 500_000}),
    "task": job(target=TEXT),
    "shell": job(target={"shell": TEXT}),
    "command": job(target={"command": ["x"] * 500_000}),
    "argument": job(target={"command": ["x", TEXT]}),
    "env": job(target={"command": ["x"], "env": names(100_000)}),
    "env value": job(target={"command": ["x"], "env": {"A": TEXT}}),
    "env name": job(target={"command": ["x"], "env": {TEXT: "A"}}),
    "cwd": job(target={"command": ["x"], "cwd": TEXT}),
    "target keys": job(target={"command": ["x"]} | names(100_000)),
    "url": job(target={"http": {"url": "http://" + "{{" * 1_000_000}}),
    "headers": job(target={"http": {"url": "http://x", "headers": names(100_000)}}),
    "expect": job(target={"http": {"url": "http://x", "expect": [200] * 500_000}}),
    "body": job(target={"http": {"url": "http://x", "body": TEXT}}),
    "topic": job(target={"event": {"topic": TEXT}}),
    "key": job(target={"event": {"topic": "x", "key": TEXT}}),
    "data": job(target={"event": {"topic": "x", "data": TEXT}}),
    "params": job(target={"flow": "x", "params": names(200_000)}),
    "retry": job(retry=names(100_000)),
    "retry on": job(retry={"on": ["x"] * 500_000}),
    "max_runs": job(max_runs=10**4000),
}


@pytest.mark.parametrize("form", TOO_LARGE.values(), ids=TOO_LARGE)
def test_what_is_too_large_is_refused_in_a_moment_and_in_short(form: dict[str, Any]) -> None:
    def refuse() -> None:
        with pytest.raises(InvalidSchedule) as refused:
            load_spec(form, "job")
        assert len(str(refused.value)) < 20_000

    assert takes_less_than(LIMIT, refuse)
