"""Requests of the client: what is sent, what is repeated, and what is said when nobody answers."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import httpx2
import pytest

from duebook import Retry, cron, every
from duebook.errors import DuebookError, Invalid, InvalidTime, NotFound, Unavailable
from duebook.remote.server import Server, is_loopback_url
from duebook.version import API_HEADER

if TYPE_CHECKING:
    from collections.abc import Callable


def answering(form: Any) -> httpx2.Response:
    return httpx2.Response(200, json=form, headers={API_HEADER: "v1"})


class Wire:
    """Stands for the network: keeps what is sent, and answers as it is told."""

    def __init__(self) -> None:
        self.sent: list[httpx2.Request] = []
        self.answer: Callable[[httpx2.Request], httpx2.Response] = lambda _: answering(
            {"items": [], "next_cursor": None}
        )

    def __call__(self, request: httpx2.Request) -> httpx2.Response:
        self.sent.append(request)
        return self.answer(request)


@pytest.fixture
def wire() -> Wire:
    return Wire()


@pytest.fixture
def server(wire: Wire) -> Server:
    made = Server("http://127.0.0.1:7420/", "s3cret", "shop")
    made._client = httpx2.Client(
        base_url=made.url, headers=made._client.headers, transport=httpx2.MockTransport(wire)
    )
    return made


def test_a_request_has_the_token_and_the_namespace(server: Server, wire: Wire) -> None:
    server.get("schedules", "a b?", limit=3, problem=True, label=["x:1", "y:2"], text=None)
    (request,) = wire.sent
    assert request.headers["authorization"] == "Bearer s3cret"
    assert str(request.url) == (
        "http://127.0.0.1:7420/api/v1/schedules/a%20b%3F"
        "?namespace=shop&limit=3&problem=true&label=x%3A1&label=y%3A2"
    )


def test_values_of_python_are_sent_as_their_json(server: Server, wire: Wire) -> None:
    body: dict[str, Any] = {
        "trigger": [cron("0 9 * * *"), every("15m")],
        "retry": Retry(attempts=3),
        "timeout": timedelta(minutes=90),
        "start_at": datetime(2026, 1, 1, tzinfo=UTC),
    }
    server.post("schedules", body=body)
    sent = json.loads(wire.sent[0].content)
    assert sent["trigger"][0]["cron"] == "0 9 * * *"
    assert sent["retry"]["attempts"] == 3
    assert (sent["timeout"], sent["start_at"]) == ("1h30m", "2026-01-01T00:00:00Z")


@pytest.mark.parametrize(
    ("value", "kind"),
    [(datetime(2026, 1, 1), InvalidTime), (object(), Invalid), (float("nan"), Invalid)],
)
def test_what_is_no_json_is_not_sent(
    server: Server, wire: Wire, value: object, kind: type[Exception]
) -> None:
    with pytest.raises(kind):
        server.post("schedules", body={"a": value})
    assert wire.sent == []


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "../tokens"])
def test_a_name_leads_nowhere_else(server: Server, wire: Wire, name: str) -> None:
    with pytest.raises(NotFound):
        server.get("schedules", name)
    assert wire.sent == []


def test_pages_are_read_until_there_are_enough(server: Server, wire: Wire) -> None:
    def page(request: httpx2.Request) -> httpx2.Response:
        place = int(request.url.params.get("cursor", "0"))
        limit = int(request.url.params["limit"])
        items = list(range(place, min(place + limit, 2500)))
        after = None if place + limit >= 2500 else str(place + limit)
        return answering({"items": items, "next_cursor": after})

    wire.answer = page
    found = server.pages(lambda item: item, 1_200, "runs")
    assert (len(found), found.next_cursor) == (1_200, "1200")
    rest = server.pages(lambda item: item, 10_000, "runs", cursor="1200")
    assert (len(rest), rest.next_cursor) == (1_300, None)


def test_a_page_may_be_short_and_have_a_next_one(server: Server, wire: Wire) -> None:
    answers = iter([([1], "a"), ([], "b"), ([2], None)])

    def page(_: httpx2.Request) -> httpx2.Response:
        items, after = next(answers)
        return answering({"items": items, "next_cursor": after})

    wire.answer = page
    found: list[Any] = server.pages(lambda item: item, 10, "runs")
    assert found == [1, 2]


def broken_once(error: Exception) -> Callable[[httpx2.Request], httpx2.Response]:
    answers = iter([error])

    def answer(_: httpx2.Request) -> httpx2.Response:
        if (trouble := next(answers, None)) is not None:
            raise trouble
        return answering({"id": "1"})

    return answer


def test_an_action_is_sent_again_under_the_same_key_when_its_connection_breaks(
    server: Server, wire: Wire
) -> None:
    wire.answer = broken_once(httpx2.RemoteProtocolError("closed"))
    assert server.post("schedules", "hello", "trigger") == {"id": "1"}
    first, second = wire.sent
    assert first.headers["idempotency-key"] == second.headers["idempotency-key"]
    server.post("schedules", "hello", "trigger")
    assert wire.sent[2].headers["idempotency-key"] != first.headers["idempotency-key"]


def test_an_edit_is_not_sent_again(server: Server, wire: Wire) -> None:
    wire.answer = broken_once(httpx2.ReadError("closed"))
    with pytest.raises(Unavailable):
        server.send("PATCH", "schedules", "hello", body={}, version=3)
    (request,) = wire.sent
    assert request.headers["if-match"] == '"3"'


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (httpx2.ConnectError("Connection refused"), "Connection refused"),
        (httpx2.ReadTimeout("timed out"), "it does not respond in time"),
    ],
)
def test_a_server_that_does_not_answer_is_unavailable(
    server: Server, wire: Wire, error: Exception, words: str
) -> None:
    def answer(_: httpx2.Request) -> httpx2.Response:
        raise error

    wire.answer = answer
    with pytest.raises(Unavailable, match=words) as caught:
        server.get("schedules")
    assert "check that `duebook up` runs there" in str(caught.value)
    assert len(wire.sent) == 1


@pytest.mark.parametrize(
    "answer",
    [
        httpx2.Response(200, text="<h1>Welcome</h1>"),
        httpx2.Response(200, json={"items": "many"}),
        httpx2.Response(204),
    ],
)
def test_somebody_who_answers_something_else_is_no_duebook(
    server: Server, wire: Wire, answer: httpx2.Response
) -> None:
    wire.answer = lambda _: answer
    with pytest.raises(DuebookError, match="does not respond like a Duebook server"):
        server.get("schedules")


@pytest.mark.parametrize(
    "url",
    [
        *("", "localhost:7420", "ftp://a.test", "http://", "http://a.test:x"),
        *("http://me:it@a.test", "http://a.test/?x=1", "http://a.test/#x"),
    ],
)
def test_what_is_no_address_of_a_server_is_refused(url: str) -> None:
    with pytest.raises(Invalid, match="is not a server address such as http://127"):
        Server(url, None, "default")


@pytest.mark.parametrize("token", ["", "a b", "a\nb", "ü"])
def test_what_is_no_token_is_refused_and_not_shown(token: str) -> None:
    with pytest.raises(Invalid, match="that is not a token"):
        Server("http://a.test", token, "default")


@pytest.mark.parametrize(
    ("url", "here"),
    [
        ("http://127.0.0.1:7420", True),
        ("http://localhost", True),
        ("http://[::1]:7420", True),
        ("https://127.evil.example", False),
        ("https://duebook.example", False),
    ],
)
def test_a_server_on_this_machine_is_known_by_its_address(url: str, here: bool) -> None:
    assert is_loopback_url(url) == here
