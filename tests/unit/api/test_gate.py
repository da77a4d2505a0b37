"""The gate: who gets in, what is refused, which headers every answer has."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from starlette.responses import JSONResponse
from starlette.testclient import TestClient

from duebook.api.gate import CALLER, COOKIE, SECURITY_HEADERS, Gate
from duebook.api.origins import Hosts
from duebook.api.permissions import Caller
from duebook.errors import Unavailable
from duebook.model.access import Role

if TYPE_CHECKING:
    from collections.abc import Iterator

    from starlette.types import Receive, Scope, Send

BASE = "http://localhost:7420"
TOKEN = {"Authorization": "Bearer right"}


class Known:
    def known(self, text: str) -> Caller | None: ...

    def forget(self) -> None: ...

    def check(self, text: str, again: bool = False) -> Caller | None:  # noqa: ARG002
        if text == "down":
            raise Unavailable("no answer")
        return Caller("1", "ci", Role.VIEWER) if text == "right" else None

    def open_session(self, text: str) -> str | None:
        return text if self.check(text) else None

    def use_link(self, code: str) -> str | None:  # noqa: ARG002
        return None

    def check_session(self, text: str, again: bool = False) -> Caller | None:  # noqa: ARG002
        return self.check(text)

    def end_session(self, text: str) -> None: ...


async def inside(scope: Scope, receive: Receive, send: Send) -> None:
    """Reads the whole body, and says who asks."""
    if scope["path"] == "/broken":
        raise RuntimeError("secret words")
    more = True
    while more:
        more = (await receive()).get("more_body", False)
    caller = scope[CALLER]
    await JSONResponse({"who": caller and caller.name})(scope, receive, send)


@pytest.fixture
def client() -> TestClient:
    gate = Gate(inside, Known(), Hosts(), {"/healthz": frozenset({"GET"})}, max_body=1000)
    return TestClient(gate, BASE, raise_server_exceptions=False)


def test_only_the_exact_list_is_open(client: TestClient) -> None:
    assert client.get("/healthz").json() == {"who": None}
    for path in ("/", "/healthz/", "/healthz;x", "/healthz.json", "//healthz", "/x/healthz"):
        assert client.get(path).status_code == 401, path
    for method in ("POST", "DELETE", "HEAD", "OPTIONS", "TRACE"):
        assert client.request(method, "/healthz").status_code == 401, method


def test_a_token_is_known_and_others_are_not(client: TestClient) -> None:
    assert client.get("/x", headers=TOKEN).json() == {"who": "ci"}
    for value in ("Bearer wrong", "Bearer ", "Basic right", "right", "Bearer right x"):
        answer = client.get("/x", headers={"Authorization": value})
        assert answer.status_code == 401, value
        assert answer.headers["www-authenticate"].startswith("Bearer")


def test_whose_token_was_accepted_just_now_is_not_asked_about_again() -> None:
    class Remembered(Known):
        def known(self, text: str) -> Caller | None:
            return Caller("2", "remembered", Role.VIEWER) if text in ("right", "down") else None

    client = TestClient(Gate(inside, Remembered(), Hosts(), {}, max_body=1000), BASE)
    for token in ("right", "down"):
        answer = client.get("/x", headers={"Authorization": f"Bearer {token}"})
        assert answer.json() == {"who": "remembered"}
    assert client.get("/x", headers={"Authorization": "Bearer wrong"}).status_code == 401
    twice = [("Authorization", "Bearer right"), ("Authorization", "Bearer right")]
    assert client.get("/x", headers=twice).status_code == 401
    foreign = TOKEN | {"Origin": "https://evil.example"}
    assert client.get("/x", headers=foreign).status_code == 403


def test_who_is_known_is_known_on_open_paths_too(client: TestClient) -> None:
    assert client.get("/healthz", headers=TOKEN).json() == {"who": "ci"}


def test_books_that_do_not_answer_are_no_reason_to_let_anybody_in(client: TestClient) -> None:
    answer = client.get("/x", headers={"Authorization": "Bearer down"})
    assert answer.status_code == 503
    assert answer.headers["retry-after"]
    assert client.get("/healthz", headers={"Authorization": "Bearer down"}).status_code == 200


def test_a_cookie_reads_and_writes_only_from_our_own_pages(client: TestClient) -> None:
    cookie = {"Cookie": f"{COOKIE}=right"}
    assert client.get("/x", headers=cookie).json() == {"who": "ci"}
    assert client.post("/x", headers=cookie).status_code == 403
    assert client.post("/x", headers=cookie | {"Origin": BASE}).status_code == 200
    assert client.post("/x", headers=cookie | {"Origin": "null"}).status_code == 403
    assert client.get("/x", headers={"Cookie": f"{COOKIE}=wrong"}).status_code == 401
    assert client.get("/x", headers={"Cookie": "\x01;;="}).status_code == 401


def test_a_cookie_beside_an_empty_token_is_none(client: TestClient) -> None:
    headers = {"Cookie": f"{COOKIE}=right", "Authorization": ""}
    assert client.post("/x", headers=headers).status_code == 401


def test_who_sends_two_tokens_is_nobody(client: TestClient) -> None:
    for values in (("right", "wrong"), ("wrong", "right"), ("right", "right")):
        headers = [("Authorization", f"Bearer {value}") for value in values]
        assert client.get("/x", headers=headers).status_code == 401, values


def test_pages_that_are_allowed_use_tokens_and_no_cookies() -> None:
    hosts = Hosts(origins=frozenset({"https://board.example"}))
    client = TestClient(Gate(inside, Known(), hosts, {}, max_body=1000), BASE)
    origin = {"Origin": "https://board.example"}
    assert client.post("/x", headers=TOKEN | origin).status_code == 200
    assert client.post("/x", headers={"Cookie": f"{COOKIE}=right"} | origin).status_code == 403


def test_foreign_hosts_and_origins_are_refused_before_anything_else(client: TestClient) -> None:
    for headers in ({"Host": "evil.example"}, {"Origin": "https://evil.example"}):
        answer = client.get("/healthz", headers=TOKEN | headers)
        assert answer.status_code == 403
        assert answer.json()["code"] == "foreign"


def test_a_body_that_is_too_long_is_refused_whatever_its_headers_say(client: TestClient) -> None:
    assert client.post("/x", headers=TOKEN, content=b"x" * 1000).status_code == 200
    assert client.post("/x", headers=TOKEN, content=b"x" * 1001).status_code == 413

    def pieces() -> Iterator[bytes]:
        yield from (b"x" * 600, b"x" * 600)

    chunked = client.post("/x", headers=TOKEN, content=pieces())
    assert chunked.status_code == 413
    assert chunked.json()["code"] == "too_large"
    assert client.post("/x", content=b"x" * 1001).status_code == 401


@pytest.mark.parametrize("path", ["/healthz", "/x", "/broken"])
def test_every_answer_has_the_security_headers(client: TestClient, path: str) -> None:
    for headers in ({}, TOKEN):
        answer = client.get(path, headers=headers)
        for name, value in SECURITY_HEADERS.items():
            assert answer.headers[name] == value


def test_an_unexpected_error_tells_nothing_of_the_inside(client: TestClient) -> None:
    answer = client.get("/broken", headers=TOKEN)
    assert answer.status_code == 500
    assert answer.json()["code"] == "internal"
    assert "secret" not in answer.text


def test_websockets_are_closed() -> None:
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    gate = Gate(inside, Known(), Hosts(), {}, 10)
    import asyncio

    asyncio.run(gate({"type": "websocket"}, None, send))  # type: ignore[arg-type]
    assert sent == [{"type": "websocket.close", "code": 1008}]


def test_what_is_open_takes_a_body_of_4_kib() -> None:
    login = {"/login": frozenset({"POST"})}
    client = TestClient(Gate(inside, Known(), Hosts(), login, max_body=100_000), BASE)
    assert client.post("/login", content=b"x" * 4_096).status_code == 200
    assert client.post("/login", content=b"x" * 4_097).json()["code"] == "too_large"
    pieces = (b"x" * 1_000 for _ in range(5))
    assert client.post("/login", content=pieces).status_code == 413
    assert client.post("/", content=b"x" * 4_097, headers=TOKEN).status_code == 200
