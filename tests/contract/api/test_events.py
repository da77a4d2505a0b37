"""Events over HTTP: the log as pages and as a stream, sinks and groups, replays, dead letters."""

from __future__ import annotations

import json
from contextlib import closing
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import httpx2
import pytest

from duebook.api import log_stream
from duebook.api.app import create_app
from duebook.api.authenticator import BookAuthenticator
from duebook.api.log_tails import LOOK_EVERY
from duebook.api.server import Server, bind
from duebook.api.token_cache import FRESH
from duebook.book import Book
from duebook.delivery.courier import Courier
from duebook.model.consumer import Report
from duebook.web.watching import TURN
from tests.attack import walls
from tests.support.api import Api, FixedTokens
from tests.support.waiting import PATIENCE

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from duebook.api.app import App
    from duebook.model.consumer import Delivery
    from duebook.store.base import Store

SECRET = "hunter2-not-to-be-shown"  # noqa: S105
HOOK = "https://example.com/hooks"
SINK = {"kind": "webhook", "options": {"url": HOOK}}


def stamp(store: Store) -> None:
    store.transact(lambda tx: tx.events.stamp_events(10_000))


def publish(book: Book, *keys: str, topic: str = "orders", **data: Any) -> None:
    for key in keys:
        book.events.publish(topic, {"key": key, **data}, key=key)
    stamp(book.store)


def keys(page: dict[str, Any]) -> list[str]:
    return [event["key"] for event in page["items"]]


def bury(book: Book, name: str = "hooks") -> None:
    """Turn every pending event of a sink into a dead letter."""

    class Outlet:
        def deliver(self, deliveries: Sequence[Delivery]) -> Report:
            return Report({d.event.id: f"no: {d.event.data}" for d in deliveries})

    (sink,) = [one for one in book.events.sinks() if one.name == name]
    courier = Courier(book.store, sink, Outlet())
    while not courier.step():
        """until it would rest"""
    courier.close()


# -- the log


def test_the_log_is_read_page_by_page(api: Api, book: Book) -> None:
    publish(book, *"abcde")
    first = api.ok("GET", "events", params={"limit": 2})
    assert keys(first) == ["a", "b"]
    second = api.ok("GET", "events", params={"limit": 2, "cursor": first["next_cursor"]})
    assert keys(second) == ["c", "d"]
    rest = api.ok("GET", "events", params={"after": second["position"]})
    assert (keys(rest), rest["next_cursor"]) == (["e"], None)
    assert api.ok("GET", "events", params={"after": rest["position"]})["items"] == []
    newest = api.ok("GET", "events", params={"newest": True, "limit": 3})
    assert keys(newest) == ["e", "d", "c"]
    back = {"newest": True, "limit": 3, "cursor": newest["next_cursor"]}
    assert keys(api.ok("GET", "events", params=back)) == ["b", "a"]
    event = rest["items"][0]
    assert api.ok("GET", f"events/{event['id']}") == event
    assert api.ok("GET", "events/position") == {"position": event["position"]}
    long_ago = {"since": "2020-01-01T00:00:00Z"}
    assert len(api.ok("GET", "events", params=long_ago)["items"]) == 5
    assert api.ok("GET", "events/position", params=long_ago) == {"position": 0}


def test_topic_type_and_key_choose_among_events(api: Api, book: Book) -> None:
    publish(book, "a", "b")
    publish(book, "a", topic="other")
    book.events.publish("orders", None, key="a", type="changed")
    stamp(book.store)
    for asked, count in (
        ({"topic": "orders"}, 3),
        ({"topic": ["orders", "other"]}, 4),
        ({"key": "a"}, 3),
        ({"type": "changed"}, 1),
        ({"topic": "orders", "key": "b"}, 1),
        ({"topic": "nothing"}, 0),
    ):
        assert len(api.ok("GET", "events", params=asked)["items"]) == count, asked
    found = api.ok("GET", "events/topics")["items"]
    assert [(use["topic"], use["events"]) for use in found] == [("orders", 3), ("other", 1)]


def test_what_is_secret_in_data_is_hidden_from_people(api: Api, book: Book) -> None:
    publish(book, "a", password=SECRET, nested=[{"api_key": SECRET}])
    api.ok("PUT", "events/consumers/hooks", SINK | {"start": "beginning", "attempts": 1})
    (event,) = api.ok("GET", "events")["items"]
    assert event["data"] == {"key": "a", "password": "***", "nested": [{"api_key": "***"}]}
    bury(book)
    for path in ("events", f"events/{event['id']}", "events/dead-letters", "audit"):
        assert SECRET not in api("GET", path).text
    details = api.ok("GET", "events/consumers/hooks")
    assert SECRET not in json.dumps(details)
    (letter,) = book.events.dead_letters()
    assert letter.event.data["password"] == SECRET, "who receives it gets it"


def test_an_event_is_published_once_for_a_key(api: Api, store: Store) -> None:
    body = {"topic": "orders", "data": {"id": 17}, "key": "17", "type": "placed"}
    key = {"Idempotency-Key": "one"}
    made = api.ok("POST", "events", body, headers=key)
    assert api.ok("POST", "events", body, headers=key) == made
    stamp(store)
    (event,) = api.ok("GET", "events")["items"]
    assert (event["id"], event["type"], event["data"]) == (made["id"], "placed", {"id": 17})
    assert event["meta"] == {"user": "token:admin"}


def nested(depth: int) -> Any:
    return json.loads("[" * depth + "]" * depth)


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"topic": "a b"},
        {"topic": ["orders"]},
        {"topic": "duebook.runs"},
        {"topic": "x" * 250},
        {"topic": "orders", "key": "x" * 501},
        {"topic": "orders", "key": 5},
        {"topic": "orders", "type": "a b"},
        {"topic": "orders", "data": "x" * 1_000_001},
        {"topic": "orders", "data": nested(500)},
        {"topic": "orders", "namespace": "other"},
    ],
    ids=lambda body: str(body)[:50],
)
def test_what_is_no_event_is_refused(api: Api, store: Store, body: dict[str, Any]) -> None:
    api.refused(422, "POST", "events", body)
    stamp(store)
    assert api.ok("GET", "events")["items"] == []


def test_questions_that_are_none_are_refused(api: Api, book: Book) -> None:
    publish(book, "a", "b")
    cursor = api.ok("GET", "events", params={"limit": 1})["next_cursor"]
    for status, asked in (
        (400, {"cursor": "x"}),
        (400, {"cursor": cursor, "topic": "orders"}),
        (400, {"after": -1}),
        (400, {"after": 2**70}),
        (400, {"after": "x"}),
        (400, {"limit": 0}),
        (400, {"offset": 3}),
        (422, {"topic": "' OR 1=1 --"}),
        (422, {"type": "a b"}),
        (422, {"since": "yesterday"}),
        (422, {"since": "2020-01-01T00:00:00Z", "after": 1}),
    ):
        api.refused(status, "GET", "events", params=asked)
    for odd in ("nope", "..%2f..%2fetc", "0" * 300, "%00"):
        api.refused(404, "GET", f"events/{odd}")


# -- a stream


@pytest.fixture
def address(store: Store) -> Iterator[str]:
    place = bind("127.0.0.1", 0)
    server = Server(create_app(store, FixedTokens()), place)
    server.start()
    yield f"{place.address}/api/v1/events"
    server.close()


STREAM = {"Accept": "text/event-stream", "Authorization": "Bearer viewer"}


def received(lines: Iterator[str]) -> tuple[str, dict[str, Any]]:
    """The id and the data of the next event of a stream."""
    number = ""
    for line in lines:
        number = line.removeprefix("id: ") if line.startswith("id: ") else number
        if line.startswith("data: "):
            return number, json.loads(line.removeprefix("data: "))
    raise AssertionError("the stream ended")


def test_a_stream_ends_with_its_token(store: Store, book: Book) -> None:
    """Within a second: the sum of all its waits."""
    assert log_stream.CHECK_EVERY + max(LOOK_EVERY, TURN) + FRESH < 1
    _, text = book.tokens.create("reader", "viewer", "*")
    place = bind("127.0.0.1", 0)
    server = Server(create_app(store, BookAuthenticator(store)), place)
    server.start()
    headers = STREAM | {"Authorization": f"Bearer {text}"}
    with (
        closing(server),
        httpx2.Client(timeout=PATIENCE, trust_env=False, headers=headers) as client,
        client.stream("GET", f"{place.address}/api/v1/events") as answer,
    ):
        assert answer.status_code == 200
        book.tokens.revoke("reader")
        lines = answer.iter_lines()
        _, problem = received(lines)
        assert (problem["code"], problem["status"]) == ("unauthorized", 401)
        publish(book, "a")
        assert [line for line in lines if line] == []


def test_hostile_sinks_and_flows_are_refused_by_a_server(address: str, book: Book) -> None:
    counts = walls.knock(address.removesuffix("/api/v1/events"), {"admin": "admin"})
    assert counts == {
        "settings refused": len(walls.REFUSED_SETTINGS),
        "kept secrets refused elsewhere": len(walls.HOSTILE_SETTINGS) + 2,
        "flows refused": len(walls.FLOWS),
    }
    assert book.events.sinks() == []


def test_the_log_is_followed(address: str, book: Book) -> None:
    publish(book, "a", "b", token=SECRET)
    with (
        httpx2.Client(timeout=PATIENCE, trust_env=False, headers=STREAM) as client,
        client.stream("GET", address, params={"after": 0, "topic": "orders"}) as answer,
    ):
        assert answer.headers["content-type"].startswith("text/event-stream")
        lines = answer.iter_lines()
        number, event = received(lines)
        assert (number, event["key"], event["data"]["token"]) == ("1", "a", "***")
        assert received(lines)[1]["key"] == "b"
        publish(book, "c", topic="other")
        publish(book, "d")
        number, event = received(lines)
        assert event["key"] == "d"
    publish(book, "e")
    with (
        httpx2.Client(timeout=PATIENCE, trust_env=False, headers=STREAM) as client,
        client.stream("GET", address, headers={"Last-Event-ID": number}) as answer,
    ):
        assert received(answer.iter_lines())[1]["key"] == "e"


def test_a_stream_that_asks_for_nothing_right_is_refused(api: Api) -> None:
    for asked, more, status in (
        ({"topic": "a b"}, {}, 422),
        ({"after": -1}, {}, 400),
        ({}, {"Last-Event-ID": "x"}, 400),
        ({}, {"Last-Event-ID": "9" * 30}, 400),
    ):
        api.refused(
            status, "GET", "events", params=asked, headers={"Accept": "text/event-stream"} | more
        )


# -- sinks and groups


def test_a_sink_is_made_shown_changed_and_forgotten(api: Api, book: Book) -> None:
    made = api.ok("PUT", "events/consumers/hooks", SINK | {"topics": ["orders"]})
    secret = made.pop("secret")
    assert secret.startswith("whsec_")
    shown = {"url": HOOK, "secret": "***"}
    assert (made["options"], made["topics"], made["behind"]) == (shown, ["orders"], 0)
    assert api.ok("GET", "events/consumers")["items"] == [made]
    details = api.ok("GET", "events/consumers/hooks")
    assert len(details.pop("parts")) == made["partitions"]
    assert details == made
    changed = SINK | {"options": {"url": f"{HOOK}/2", "secret": "***"}}
    assert "secret" not in api.ok("PUT", "events/consumers/hooks", changed)
    assert book.events.sinks()[0].options == {"url": f"{HOOK}/2", "secret": secret}
    update, create = api.ok("GET", "audit", params={"kind": "sink"})["items"]
    assert (create["action"], create["by"]) == ("create", "token:admin")
    assert update["before"] == {"topics": ["orders"], "options": shown}
    assert update["after"] == {"topics": None, "options": shown | {"url": f"{HOOK}/2"}}
    assert api("DELETE", "events/consumers/hooks").status_code == 204
    assert api.ok("GET", "events/consumers")["items"] == []
    assert secret not in api("GET", "audit").text
    api.refused(404, "DELETE", "events/consumers/hooks")


def test_a_sink_asks_for_types_and_labels(api: Api) -> None:
    asked = {"types": ["run.failed"], "labels": {"team": "data"}}
    made = api.ok("PUT", "events/consumers/hooks", SINK | asked)
    assert {key: made[key] for key in asked} == asked
    assert made["topics"] == ["duebook.runs"]
    changed = api.ok("PUT", "events/consumers/hooks", SINK)
    assert (changed["types"], changed["labels"]) == (None, {})


def test_a_schedule_gets_a_ping_whose_url_is_not_shown(app: App, api: Api) -> None:
    url = "https://hc-ping.com/eb095278-secret"
    api.refused(404, "PUT", "events/pings/etl", {"url": url})
    api.ok("POST", "schedules", {"name": "etl", "cron": "@daily", "target": {"command": ["true"]}})
    Api(app, "operator").refused(403, "PUT", "events/pings/etl", {"url": url})
    assert api("PUT", "events/pings/etl", json={"url": url}).status_code == 204
    (pings,) = api.ok("GET", "events/consumers")["items"]
    assert (pings["name"], pings["kind"]) == ("pings", "ping")
    assert pings["options"] == {"urls": {"etl": "https://hc-ping.com/***"}}
    for place in ("events/consumers", "events/consumers/pings", "audit"):
        assert "eb095278" not in api("GET", place).text
    for body in ({}, {"url": None}, {"url": "hc-ping.com"}, {"url": 7}, {"url": url, "x": 1}):
        api.refused(422, "PUT", "events/pings/etl", body)
    assert api("DELETE", "events/pings/etl").status_code == 204
    api.refused(404, "DELETE", "events/pings/etl")


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"kind": "webhook"},
        {"kind": "ping", "options": {"urls": {}}},
        SINK | {"types": []},
        SINK | {"types": ["a b"]},
        SINK | {"types": [7]},
        SINK | {"labels": ["team"]},
        SINK | {"labels": {"team": 7}},
        {"kind": "group", "options": {}},
        {"kind": "webhook", "options": []},
        {"kind": "webhook", "options": {}},
        {"kind": "webhook", "options": {"url": HOOK, "attempts": 2}},
        {"kind": "webhook", "options": {"url": "ftp://example.com"}},
        {"kind": "webhook", "options": {"url": "https://a:b@example.com"}},
        {"kind": "webhook", "options": {"url": HOOK, "name": "x"}},
        {"kind": "webhook", "options": {"url": HOOK, "start": 1}},
        {"kind": "webhook", "options": {"url": HOOK, "self": 1}},
        SINK | {"topics": "orders"},
        SINK | {"topics": []},
        SINK | {"topics": [["orders"]]},
        SINK | {"topics": ["a b"]},
        SINK | {"start": 2**70},
        SINK | {"start": -1},
        SINK | {"start": 5},
        SINK | {"start": []},
        SINK | {"partitions": 10_000},
        SINK | {"attempts": "many"},
        SINK | {"namespace": "other"},
        {
            "kind": "kafka",
            "options": {"servers": "k:9092", "config": {"plugin.library.paths": "x"}},
        },
        {"kind": "kafka", "options": {"servers": "k:9092", "config": {"sasl.password": "***"}}},
        {"kind": "kafka", "options": {"servers": "k:9092", "config": {"a": "x" * 100_001}}},
        SINK | {"topics": [f"t{n}" for n in range(1_001)]},
    ],
    ids=lambda body: str(body)[:60],
)
def test_what_is_no_sink_is_refused(api: Api, body: dict[str, Any]) -> None:
    api.refused(422, "PUT", "events/consumers/hooks", body)
    assert api.ok("GET", "events/consumers")["items"] == []
    api.refused(422, "PUT", "events/consumers/NO NAME", SINK)


def test_only_admins_say_where_events_go(app: App, api: Api) -> None:
    """An address receives the data of all events."""
    for token in ("viewer", "operator", "operator@default"):
        low = Api(app, token)
        low.refused(403, "PUT", "events/consumers/hooks", SINK)
        low.refused(403, "POST", "events", {"topic": "orders"})
    api.ok("PUT", "events/consumers/hooks", SINK)
    for token in ("viewer", "operator"):
        Api(app, token).refused(403, "DELETE", "events/consumers/hooks")
    Api(app, "viewer").refused(403, "POST", "events/consumers/hooks/replay", {"after": 0})
    Api(app, "operator").ok("POST", "events/consumers/hooks/replay", {"after": 0})


def test_sinks_and_events_of_another_namespace_do_not_exist(app: App, api: Api) -> None:
    api.ok("PUT", "events/consumers/hooks", SINK)
    event = api.ok("POST", "events", {"topic": "orders"})["id"]
    stranger = Api(app, "admin@mail")
    for method, path, body in (
        ("GET", f"events/{event}", None),
        ("GET", "events/consumers/hooks", None),
        ("DELETE", "events/consumers/hooks", None),
        ("POST", "events/consumers/hooks/replay", {"after": 0}),
        ("POST", "events/consumers/hooks/dead-letters/drop", {}),
        ("POST", "events/consumers/hooks/dead-letters/replay", {}),
        ("GET", "events/dead-letters?consumer=hooks", None),
    ):
        stranger.refused(404, method, path, body)
    assert stranger.ok("GET", "events")["items"] == []
    assert stranger.ok("GET", "events/consumers")["items"] == []
    assert stranger.ok("GET", "events/topics")["items"] == []
    stranger.ok("PUT", "events/consumers/hooks", SINK)
    stranger.ok("DELETE", "events/consumers/hooks")
    assert len(api.ok("GET", "events/consumers")["items"]) == 1


def test_replays_begin_where_they_are_asked_to(api: Api, book: Book) -> None:
    publish(book, *"abc")
    for _ in book.events.consume("orders", "billing", partitions=1, follow=False):
        pass
    replay = "events/consumers/billing/replay"
    assert api.ok("POST", replay, {"after": 1}) == {"position": 1, "partitions": 1}
    assert [e.key for e in book.events.consume("orders", "billing", follow=False)] == ["b", "c"]
    since = {"since": "2020-01-01T00:00:00Z"}
    assert api.ok("POST", replay, since) == {"position": 0, "partitions": 1}
    noted = api.ok("GET", "audit", params={"kind": "group"})["items"]
    assert noted[1]["before"] == {"positions": [3]}
    assert noted[1]["after"] == {"positions": [1]}
    for body in (
        {},
        {"after": 4},
        {"after": -1},
        {"after": "x"},
        {"after": 2**70},
        since | {"after": 1},
    ):
        api.refused(422, "POST", replay, body)
    api.refused(404, "POST", "events/consumers/nobody/replay", {"after": 0})


def test_what_is_decided_under_a_key_is_decided_once(api: Api, book: Book) -> None:
    api.ok("PUT", "events/consumers/hooks", SINK | {"attempts": 1})
    publish(book, *"ab")
    bury(book)
    for path, body in (
        ("replay", {"after": 0}),
        ("dead-letters/replay", {}),
        ("dead-letters/drop", {}),
    ):
        key = {"Idempotency-Key": "once"}
        first = api("POST", f"events/consumers/hooks/{path}", body, headers=key)
        again = api("POST", f"events/consumers/hooks/{path}", body, headers=key)
        assert (first.status_code, first.json()) == (200, again.json()), path
        assert again.headers["Idempotency-Replayed"] == "true"
    actions = [change["action"] for change in api.ok("GET", "audit")["items"]]
    assert actions == ["drop_dead", "replay_dead", "replay", "create"]


def test_dead_letters_are_listed_delivered_again_and_given_up(api: Api, book: Book) -> None:
    api.ok("PUT", "events/consumers/hooks", SINK | {"attempts": 1, "start": "end"})
    publish(book, *"abc")
    bury(book)
    first = api.ok("GET", "events/dead-letters", params={"limit": 2})
    rest = {"limit": 2, "cursor": first["next_cursor"], "consumer": None}
    second = api.ok("GET", "events/dead-letters", params={k: v for k, v in rest.items() if v})
    letters = first["items"] + second["items"]
    assert sorted(letter["event"]["key"] for letter in letters) == ["a", "b", "c"]
    assert {letter["consumer"] for letter in letters} == {"hooks"}
    assert api.ok("GET", "events/consumers/hooks")["dead"] == 3
    decide = "events/consumers/hooks/dead-letters"
    one = {"event": letters[0]["event"]["id"]}
    assert api.ok("POST", f"{decide}/replay", one) == {"count": 1}
    again = [letter["again"] for letter in api.ok("GET", "events/dead-letters")["items"]]
    assert sorted(again) == [False, False, True]
    assert api.ok("POST", f"{decide}/drop", one) == {"count": 1}
    api.refused(404, "POST", f"{decide}/drop", one)
    api.refused(422, "POST", f"{decide}/drop", {"event": 5})
    assert api.ok("POST", f"{decide}/drop") == {"count": 2}
    assert api.ok("GET", "events/dead-letters")["items"] == []
    api.ok("POST", "events", {"topic": "orders"})
    actions = [change["action"] for change in api.ok("GET", "audit")["items"]]
    assert actions == ["publish", "drop_dead", "drop_dead", "replay_dead", "create"]
    api.refused(400, "GET", "events/dead-letters", params={"cursor": "x"})


def test_a_published_event_is_on_the_audit_without_its_data(api: Api) -> None:
    body = {"topic": "orders", "type": "placed", "key": "17", "data": {"note": "hunter2-unique"}}
    made = api.ok("POST", "events", body)
    text = api("GET", "audit").text
    (entry,) = api.ok("GET", "audit")["items"]
    assert (entry["by"], entry["action"], entry["kind"]) == ("token:admin", "publish", "event")
    assert (entry["subject"], entry["subject_id"]) == ("orders", made["id"])
    data = json.dumps(body["data"], ensure_ascii=False).encode()
    assert entry["after"] == {
        "topic": "orders",
        "type": "placed",
        "key": "17",
        "data": {"bytes": len(data), "sha256": sha256(data).hexdigest()},
    }
    assert "hunter2" not in text


def test_what_a_program_publishes_is_its_own_record(book: Book) -> None:
    Book(book.store, by="shop").events.publish("orders", {"id": 1})
    assert list(book.audit.list()) == []
    Book(book.store, by="cli:ann").events.publish("orders", {"id": 1})
    assert [change.action for change in book.audit.list()] == ["publish"]
