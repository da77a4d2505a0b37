"""Runs over HTTP: read, cancel, retry; logs as JSON, as text, and as a stream that grows."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from duebook.api.routes import runs
from duebook.book import Book
from duebook.model.run import LogLine
from duebook.timetext import format_instant
from tests.support.api import HELLO, Api
from tests.support.builders import SECOND, begin, claim, overlap, settle

if TYPE_CHECKING:
    import pytest

    from duebook.model.run import Claim
    from duebook.store.base import Store, Tx


def running(api: Api, store: Store) -> Claim:
    """A run that a node executes."""
    api.ok("POST", "schedules", HELLO)
    api.ok("POST", "schedules/hello/trigger", {"payload": {"a": 1}})
    begin(store)
    (claimed,) = claim(store)
    return claimed


def say(store: Store, claimed: Claim, first: int, *texts: str) -> None:
    def work(tx: Tx) -> None:
        tx.attempts.append_log(
            claimed.token, first, [LogLine(tx.now, "stdout", text) for text in texts]
        )

    store.transact(work)


def test_a_run_is_read_with_its_attempts(api: Api, store: Store) -> None:
    claimed = running(api, store)
    settle(store, claimed.token, "failed", reason="exit", exit_code=3)
    assert api.ok("POST", f"runs/{claimed.run.id}/retry")["status"] == "queued"
    found = api.ok("GET", f"runs/{claimed.run.id}")
    assert found["payload"] == {"a": 1}
    assert [attempt["exit_code"] for attempt in found["attempts"]] == [3]
    assert api.ok("GET", "runs", params={"schedule": "hello"})["items"][0]["id"] == found["id"]


def test_an_attempt_says_until_when_it_went_on_beside_the_next(api: Api, store: Store) -> None:
    claimed = running(api, store)
    until = overlap(store, claimed, SECOND)
    (attempt,) = api.ok("GET", f"runs/{claimed.run.id}")["attempts"]
    assert (attempt["outcome"], attempt["went_on_until"]) == ("lost", format_instant(until))


def test_a_run_is_cancelled_once(api: Api) -> None:
    api.ok("POST", "schedules", HELLO)
    run = api.ok("POST", "schedules/hello/trigger")
    assert api.ok("POST", f"runs/{run['id']}/cancel")["status"] == "cancelled"
    assert api.refused(409, "POST", f"runs/{run['id']}/cancel")["code"] == "conflict"


def test_ids_that_are_none_do_not_exist(api: Api) -> None:
    for text in (
        "nope",
        "..%2f..%2fetc%2fpasswd",
        "0" * 300,
        "%00",
        "01a1e0c0-0000-7000-8000-000000000000",
    ):
        api.refused(404, "GET", f"runs/{text}")
        api.refused(404, "GET", f"runs/{text}/log")
        api.refused(404, "GET", f"schedules/{text}")


def test_a_log_is_read_page_by_page_until_the_run_has_ended(api: Api, store: Store) -> None:
    claimed = running(api, store)
    place = f"runs/{claimed.run.id}/log"
    nothing = api.ok("GET", place)
    assert nothing == {"items": [], "next_cursor": "0.0"}
    say(store, claimed, 1, "one", "two")
    page = api.ok("GET", place, params={"limit": 1})
    assert [line["text"] for line in page["items"]] == ["one"]
    page = api.ok("GET", place, params={"cursor": page["next_cursor"]})
    assert [line["text"] for line in page["items"]] == ["two"]
    settle(store, claimed.token)
    assert api.ok("GET", place, params={"cursor": page["next_cursor"]})["next_cursor"] is None
    assert api("GET", place, headers={"Accept": "text/plain"}).text == "one\ntwo\n"
    assert api.refused(400, "GET", place, params={"cursor": "x'--"})["code"] == "malformed"


def test_a_page_of_a_log_ends_with_its_bytes(
    api: Api, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runs, "PAGE_BYTES", 25_000)
    claimed = running(api, store)
    say(store, claimed, 1, *("x" * 10_000 for _ in range(5)))
    settle(store, claimed.token)
    place, cursor, pages = f"runs/{claimed.run.id}/log", None, list[list[str]]()
    while not pages or cursor:
        page = api.ok("GET", place, params={"cursor": cursor} if cursor else {})
        pages.append([line["place"] for line in page["items"]])
        cursor = page["next_cursor"]
    assert pages == [["1.1", "1.2"], ["1.3", "1.4"], ["1.5"]]


def test_a_stream_goes_on_from_where_it_was_cut_and_ends_with_the_run(
    api: Api, store: Store
) -> None:
    claimed = running(api, store)
    say(store, claimed, 1, "one", "two\n<img onerror=x>")
    settle(store, claimed.token)
    headers = {"Accept": "text/event-stream", "Last-Event-ID": "1.1"}
    answer = api("GET", f"runs/{claimed.run.id}/log", headers=headers)
    assert answer.headers["content-type"].startswith("text/event-stream")
    line, end = answer.text.strip().split("\n\n")
    assert line.splitlines()[:2] == ["id: 1.2", "event: line"]
    assert json.loads(line.splitlines()[2].removeprefix("data: "))["text"].startswith("two")
    assert end.splitlines()[0] == "event: end"
    assert json.loads(end.splitlines()[1].removeprefix("data: "))["status"] == "succeeded"


def test_a_large_output_is_read_apart_from_its_run(api: Api, store: Store) -> None:
    claimed, text = running(api, store), "x" * 300_000
    settle(store, claimed.token, output=json.dumps(text))
    found = api.ok("GET", f"runs/{claimed.run.id}")
    assert (found["output"], found["output_size"]) == (None, 300_002)
    assert api.ok("GET", f"runs/{claimed.run.id}/output") == {"output": text}


def test_a_small_output_is_read_either_way(api: Api, store: Store) -> None:
    claimed = running(api, store)
    settle(store, claimed.token, output='{"rows": 3}')
    found = api.ok("GET", f"runs/{claimed.run.id}")
    assert (found["output"], found["output_size"]) == ({"rows": 3}, None)
    assert api.ok("GET", f"runs/{claimed.run.id}/output") == {"output": {"rows": 3}}


def test_runs_are_found_by_the_task_that_they_were_enqueued_for(api: Api, store: Store) -> None:
    run = Book(store).enqueue("digest")
    Book(store).enqueue("other")
    Book(store, "shop").enqueue("digest")
    assert [found["id"] for found in api.ok("GET", "runs?task=digest")["items"]] == [run.id]
    api.refused(400, "GET", "runs?task=digest&flow=etl")
