"""Enqueueing over HTTP, and requests that wait for a run to end."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any

import pytest

from duebook.api.log_stream import MOST_OF_ONE
from duebook.api.run_wait import RunWait
from duebook.book import Book
from duebook.book.waiting import watch_of
from tests.support.api import Api, shared_app
from tests.support.builders import begin, settle
from tests.support.waiting import PATIENCE, eventually

if TYPE_CHECKING:
    from duebook.model.run import Claim
    from duebook.store.base import Store


def start(store: Store) -> Claim:
    begin(store, tasks=("digest",))
    (claimed,) = store.transact(lambda tx: tx.claims.claim("node-1", "default", 1, ["digest"]))
    return claimed


def test_a_run_is_enqueued_and_a_taken_key_is_told(api: Api) -> None:
    wanted = {"task": "digest", "payload": {"n": 1}, "key": "k", "unique": "pending"}
    made = api("POST", "runs", wanted)
    assert (made.status_code, made.json()["result"]) == (201, "created")
    run_id = made.json()["id"]
    assert made.headers["location"] == f"/api/v1/runs/{run_id}"
    again = api("POST", "runs", wanted)
    assert (again.status_code, again.json()["result"]) == (200, "existing")
    other = api("POST", "runs", wanted | {"payload": {"n": 2}})
    assert (other.status_code, other.json()["result"]) == (200, "payload_ignored")
    assert other.json()["id"] == run_id


def test_an_idempotency_key_still_counts_for_the_request(api: Api) -> None:
    wanted = {"task": "digest", "key": "k", "unique": "pending"}
    first = api("POST", "runs", wanted, headers={"Idempotency-Key": "r1"})
    again = api("POST", "runs", wanted, headers={"Idempotency-Key": "r1"})
    assert (first.status_code, again.status_code) == (201, 201)
    assert again.headers["idempotency-replayed"] == "true"
    assert again.json()["result"] == "created"


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ({}, "task"),
        ({"task": 5}, "is not the name of a task"),
        ({"task": "digest", "key": 5}, "key 5 is not a string"),
        ({"task": "digest", "payload": [1]}, "payload"),
        ({"task": "digest", "debounce": "5s"}, "debounce needs a key"),
        ({"task": "digest", "connection": "x"}, "connection"),
        ({"task": "digest", "overlap": "skip"}, "is not an option of enqueue"),
    ],
)
def test_what_cannot_be_enqueued_is_refused(api: Api, body: dict[str, Any], told: str) -> None:
    answer = api("POST", "runs", body)
    assert answer.status_code in (400, 422)
    assert told in str(answer.json())


def test_an_operator_enqueues_tasks_that_a_live_worker_knows(store: Store) -> None:
    api = Api(shared_app.on(store), "operator")
    assert api("POST", "runs", {"task": "digest"}).status_code == 403
    begin(store, tasks=("digest",))
    assert api("POST", "runs", {"task": "digest"}).status_code == 201


def test_a_request_waits_until_its_run_has_ended(api: Api, store: Store) -> None:
    run = Book(store).enqueue("digest")
    claimed = start(store)
    found: list[Any] = []
    asking = threading.Thread(
        target=lambda: found.append(api.ok("GET", f"runs/{run.id}/wait", params={"timeout": "50s"}))
    )
    asking.start()
    eventually(lambda: watch_of(store)._waiting)
    settle(store, claimed.token, output="42")
    asking.join(PATIENCE)
    assert (found[0]["status"], found[0]["output"]) == ("succeeded", 42)
    assert api.ok("GET", f"runs/{run.id}/wait")["status"] == "succeeded", "at once"


def test_a_request_that_waited_long_enough_says_how_the_run_is(api: Api, store: Store) -> None:
    run = Book(store).enqueue("digest")
    assert api.ok("GET", f"runs/{run.id}/wait", params={"timeout": "0.05"})["status"] == "queued"
    assert api.ok("GET", f"runs/{run.id}/wait", params={"timeout": "0s"})["status"] == "queued"
    refused = api("GET", f"runs/{run.id}/wait", params={"timeout": "2m"})
    assert (refused.status_code, "is longer than 60s" in refused.text) == (422, True)
    assert api("GET", f"runs/{run.id}/wait", params={"timeout": "soon"}).status_code == 422


def test_too_many_requests_that_wait_are_refused(api: Api, store: Store) -> None:
    run = Book(store).enqueue("digest")
    streams = shared_app.on(store).state.streams
    for _ in range(MOST_OF_ONE):
        streams._of["admin", False] += 1
    assert api("GET", f"runs/{run.id}/wait").status_code == 429


def test_a_client_that_leaves_is_not_waited_for(store: Store) -> None:
    run = Book(store).enqueue("digest")
    streams = shared_app.on(store).state.streams
    waiting = RunWait(Book(store), run.id, PATIENCE, streams, lambda: None, "admin")

    async def receive() -> dict[str, Any]:
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        raise AssertionError(f"nobody is there for {message}")

    asyncio.run(waiting({"type": "http"}, receive, send))
    assert streams.open == 0
    eventually(lambda: not watch_of(store)._waiting)


def test_a_token_that_ends_meanwhile_ends_the_request(store: Store) -> None:
    run = Book(store).enqueue("digest")
    streams = shared_app.on(store).state.streams
    waiting = RunWait(Book(store), run.id, PATIENCE, streams, lambda: None, "admin")
    sent: list[Any] = []

    async def receive() -> Any:
        await asyncio.Event().wait()

    async def send(message: Any) -> None:
        sent.append(message)

    asyncio.run(waiting({"type": "http"}, receive, send))
    assert sent[0]["status"] == 401
