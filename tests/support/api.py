"""An app on the database that a test has, and clients with tokens of each role."""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import unquote

from anyio.from_thread import BlockingPortal, start_blocking_portal
from starlette.testclient import TestClient

from duebook.api.app import create_app
from duebook.api.asking import Services
from duebook.api.log_stream import Streams
from duebook.api.permissions import Caller
from duebook.api.routes import OPERATIONS as API
from duebook.api.watching import Watch
from duebook.model.access import EVERYWHERE, Role
from duebook.targets.task import Tasks
from duebook.web.routes import PAGES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from starlette.types import ASGIApp

    from duebook.api.app import App
    from duebook.api.gate import Authenticator
    from duebook.store.base import Store


BASE = "http://127.0.0.1:7420"


class FixedTokens:
    """Tokens that stand for a role, everywhere or in one namespace: `admin`, `viewer@shop`."""

    def known(self, text: str) -> Caller | None: ...

    def forget(self) -> None: ...

    def check(self, text: str, again: bool = False) -> Caller | None:  # noqa: ARG002
        role, _, namespace = text.partition("@")
        if role not in ("viewer", "operator", "admin"):
            return None
        seen = (namespace,) if namespace else (EVERYWHERE,)
        return Caller(text, text, Role[role.upper()], seen)

    def open_session(self, text: str) -> str | None:
        return text if self.check(text) else None

    def use_link(self, code: str) -> str | None:  # noqa: ARG002
        return None

    def check_session(self, text: str, again: bool = False) -> Caller | None:  # noqa: ARG002
        return self.check(text)

    def end_session(self, text: str) -> None: ...


class WhoeverKnows:
    """Delegates to another authenticator, which changes from test to test."""

    def __init__(self) -> None:
        self.now: Authenticator = FixedTokens()

    def known(self, text: str) -> Caller | None:
        return self.now.known(text)

    def forget(self) -> None:
        self.now.forget()

    def check(self, text: str, again: bool = False) -> Caller | None:
        return self.now.check(text, again)

    def open_session(self, text: str) -> str | None:
        return self.now.open_session(text)

    def use_link(self, code: str) -> str | None:
        return self.now.use_link(code)

    def check_session(self, text: str, again: bool = False) -> Caller | None:
        return self.now.check_session(text, again)

    def end_session(self, text: str) -> None:
        self.now.end_session(text)


class SharedApp:
    """One app for all tests of a process: creating one takes longer than most tests. Its store is
    exchanged for each test, so that no test sees anything of another."""

    def __init__(self, make: Callable[[Store, Authenticator], App] = create_app) -> None:
        self._make = make
        self._tokens = WhoeverKnows()
        self._app: App | None = None

    def on(self, store: Store, authenticator: Authenticator | None = None) -> App:
        """The app on this store, by default with tokens of every role."""
        self._tokens.now = authenticator or FixedTokens()
        if self._app is None:
            self._app = self._make(store, self._tokens)
        state = self._app.state
        state.services, state.watch, state.streams = (
            Services(store, Tasks()),
            Watch(store),
            Streams(),
        )
        return self._app


shared_app = SharedApp()


class SharingClient(TestClient):
    """All clients use one event loop, once `with_loop` has started it, instead of one per
    request."""

    loop: ClassVar[BlockingPortal | None] = None

    def __init__(self, app: ASGIApp, *words: Any, **options: Any) -> None:
        super().__init__(app, *words, **options)
        self.portal = self.loop

    @classmethod
    @contextmanager
    def with_loop(cls) -> Iterator[None]:
        with start_blocking_portal() as cls.loop:
            yield
        cls.loop = None


class Api:
    """A client that sends JSON and checks the status."""

    def __init__(self, app: App, token: str | None) -> None:
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        self.client = SharingClient(app, BASE, headers=headers, raise_server_exceptions=False)

    def __call__(self, method: str, path: str, body: Any = None, /, **options: Any) -> Any:
        """The response, whatever its status; `path` is below /api/v1 unless it starts with /."""
        place = path if path.startswith("/") else f"/api/v1/{path}"
        if body is not None:
            options["json"] = body
        return self.client.request(method, place, **options)

    def ok(self, method: str, path: str, body: Any = None, /, **options: Any) -> Any:
        """The JSON of a successful response."""
        answer = self(method, path, body, **options)
        assert answer.status_code < 300, answer.text
        return answer.json() if answer.content else None

    def refused(
        self, status: int, method: str, path: str, body: Any = None, /, **options: Any
    ) -> Any:
        """The problem of a refusal with this status."""
        answer = self(method, path, body, **options)
        assert answer.status_code == status, answer.text
        assert answer.headers["content-type"] == "application/problem+json"
        return answer.json()


def raw_status(app: App, method: str, path: str, headers: dict[str, str] | None = None) -> int:
    """The status of an app's response to a raw path, which no client normalizes first."""
    given = {"host": "127.0.0.1:7420"} | (headers or {})
    scope = {
        "type": "http",
        "method": method,
        "path": unquote(path),
        "raw_path": path.encode(),
        "query_string": b"",
        "headers": [(name.lower().encode(), value.encode()) for name, value in given.items()],
        "scheme": "http",
        "http_version": "1.1",
        "server": ("127.0.0.1", 7420),
        "client": ("127.0.0.1", 1),
        "root_path": "",
    }
    statuses: list[int] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Any) -> None:
        if message["type"] == "http.response.start":
            statuses.append(message["status"])

    asyncio.run(app(scope, receive, send))
    return statuses[0]


HELLO: dict[str, Any] = {
    "name": "hello",
    "cron": "0 9 * * *",
    "target": {"command": ["echo", "hello"]},
}


OPERATIONS = [*API, *(operation for part in PAGES for operation in part.all)]
