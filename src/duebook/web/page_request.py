"""The request for a page that its handler receives, and the submitted form."""

from __future__ import annotations

import hashlib
import json
import secrets
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeVar
from urllib.parse import parse_qs, quote, urlencode

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from duebook.api.answers import Answer
from duebook.api.asking import AT_ONCE, Ask, Here
from duebook.api.cookies import read_cookie
from duebook.api.gate import COOKIE
from duebook.api.parameters import Depends
from duebook.api.permissions import choose_namespace
from duebook.api.problems import Malformed, problem_of
from duebook.clock import utc_now
from duebook.errors import DuebookError, Forbidden, Invalid
from duebook.lazy_dataclasses import dataclass
from duebook.model.access import Role
from duebook.store.joined import JoinedStore
from duebook.timetext import parse_duration
from duebook.triggers.typed_time import read_time
from duebook.version import __version__
from duebook.web.csrf import FIELD, is_right, signed_address, token_for, told_by
from duebook.web.preferences import is_local, read_theme, read_views
from duebook.web.rendering import render
from duebook.web.times import ZONE_COOKIE, Clock, read_zone

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from duebook.api.permissions import Caller
    from duebook.book import Book
    from duebook.model.schedule import ScheduleSpec
    from duebook.web.preferences import View

    T = TypeVar("T")

__all__ = ["CurrentPage", "Form", "PageRequest", "Submitted", "is_encrypted", "local_path"]
__all__ += ["wants_page"]

MOST_FIELDS: Final = 2_000
KEY: Final = "key"
"""The form field that identifies the rendered page the form came from."""
PREVIEWS: Final = frozenset({"edit.html", "edit_preview.html", "new.html"})
"""Pages that a browser may keep while the tab is open, so that going back restores typed text."""
SENT_BEFORE: Final = "before"
"""The query parameter of a redirect after a form was submitted a second time."""


@dataclass(frozen=True, slots=True)
class PageRequest:
    """A request for a page of a namespace."""

    ask: Ask
    change: int
    """the latest change known before anything was read, so the page is at least that recent"""

    @property
    def request(self) -> Request:
        return self.ask.request

    @property
    def caller(self) -> Caller:
        return self.ask.caller

    @property
    def book(self) -> Book:
        return self.ask.book

    def may(self, role: Role) -> bool:
        return self.caller.role >= role

    @property
    def zone(self) -> str:
        return read_zone(read_cookie(self.request.headers, ZONE_COOKIE))

    @property
    def views(self) -> list[View]:
        """The saved views of this browser."""
        return read_views(self.request.headers)

    def may_define(self, spec: ScheduleSpec | None, current: ScheduleSpec | None = None) -> bool:
        """Whether the caller may replace the `current` definition with `spec`."""
        if spec is None:
            return False
        book = self.book
        return book.rights.allow(book.store, spec, current)

    def clock(self, now: datetime | None = None) -> Clock:
        return Clock(now or utc_now(), self.zone)

    def url(self, *parts: str, **query: Any) -> str:
        """A URL of the dashboard in this namespace; each part of the path is quoted."""
        path = "/" + "/".join(quote(part, safe="") for part in parts)
        given = {key: value for key, value in query.items() if value not in (None, "", [])}
        if self.ask.namespace != choose_namespace(self.caller, None):
            given["namespace"] = self.ask.namespace
        return f"{path}?{urlencode(given, doseq=True)}" if given else path

    def shared(self, load: Callable[[Book], T], *differs: str | bool) -> T:
        """What the page shows to every caller with the same access; live views load it only once
        for all callers with the same values of `differs`."""
        watches = self.request.app.state.watches
        key = (self.caller.namespaces, self.request.url.path, self.request.url.query, *differs)
        return watches.shared(  # type: ignore[no-any-return]
            self.ask.namespace, key, self.request.headers, lambda: load(self.book)
        )

    def render(self, template: str, status: int = 200, /, **values: Any) -> Response:
        values.setdefault("now", utc_now())
        common = {
            "page": self,
            "url": self.url,
            "clock": Clock(values["now"], self.zone),
            "csrf": token_for(_session(self.request)),
            "key": secrets.token_urlsafe(16),
            "sent_before": SENT_BEFORE in self.request.query_params,
            "operator": self.may(Role.OPERATOR),
            "admin": self.may(Role.ADMIN),
            "path": self.request.url.path,
            "version": __version__,
            "served": utc_now(),
            "notice": None,
            "theme": read_theme(self.request.headers),
            "views": self.views,
        }
        answer = HTMLResponse(render(template, **(common | values)), status)
        if template in PREVIEWS and self.request.method == "POST":
            answer.headers["Cache-Control"] = "private, no-cache"
        return answer

    def go(self, *parts: str, **query: Any) -> Answer:
        """Redirect after a write to a page that reports what was done and can be reloaded."""
        there = self.url(*parts, **query)
        if query:
            there = signed_address(_session(self.request), there)
        return Answer(None, 303, {"Location": there})

    @property
    def told(self) -> QueryParams:
        """What the URL says was done, if the dashboard signed it for this session."""
        request = self.request
        given = request.query_params
        is_ours = told_by(_session(request), request.scope["path"], given.multi_items())
        return given if is_ours else QueryParams()

    def write(
        self,
        form: Form,
        work: Callable[[Book], Answer],
        again: Callable[[str, int], Response] | None = None,
    ) -> Response:
        """Do what a form asks for, once: a second submission is redirected to the same page as the
        first, which says so. Errors are shown beside the form by `again`, or raised without it."""

        def once() -> Response:
            answer = replace(self.ask, key=form.key).write(work)
            if "idempotency-replayed" in answer.headers:
                there = answer.headers["location"]
                answer.headers["location"] = f"{there}{'&' if '?' in there else '?'}{SENT_BEFORE}=1"
            return answer

        return once() if again is None else self.attempt(once, again)

    def at_once(self, work: Callable[[Book], T]) -> T:
        """Do it in one transaction, which may be retried."""
        store = self.ask.services.store
        return store.transact(lambda tx: work(self.ask.book_on(JoinedStore(tx))))

    def read_time(self, field: str, text: str) -> datetime:
        """A typed time: with an offset, or as a wall time in the viewer's zone. Raises Invalid."""
        try:
            return read_time(text, self.zone).at
        except Invalid as error:
            raise Invalid(f"{field}: {error}") from None

    def read_end(self, form: Form, book: Book) -> datetime | None:
        """The end of a pause, from a duration or a time; None if open-ended. Raises Invalid."""
        if form["for"] and form["until"]:
            raise Invalid("for and until cannot be combined; choose one of them")
        if form["for"]:
            return book.insights.now() + parse_duration(form["for"])
        return self.read_time("until", form["until"]) if form["until"] else None

    def attempt(
        self, work: Callable[[], Response], again: Callable[[str, int], Response]
    ) -> Response:
        """The response of `work`; an error except Forbidden is shown beside the form by `again`."""
        try:
            return work()
        except Forbidden:
            raise
        except DuebookError as error:
            problem = problem_of(error)
            return again(problem.detail, problem.status)


@dataclass(frozen=True, slots=True)
class Form:
    """The submitted fields of a form that the dashboard rendered for this session."""

    fields: dict[str, list[str]]

    def __getitem__(self, name: str) -> str:
        """Empty if it was not sent."""
        return self.fields.get(name, [""])[0].strip()

    def get(self, name: str) -> str | None:
        """None if it is empty."""
        return self[name] or None

    @property
    def texts(self) -> dict[str, str]:
        """Each field that was sent, with its first value."""
        return {name: self[name] for name in self.fields}

    def all(self, name: str) -> list[str]:
        return self.fields.get(name, [])

    @property
    def key(self) -> str | None:
        """Identifies a second submission of this form: a hash of the page's key and all fields;
        None if the page has no key."""
        if not self[KEY]:
            return None
        return hashlib.sha256(json.dumps(self.fields, sort_keys=True).encode()).hexdigest()


def _session(request: Request) -> str:
    """A secret of this browser: its session, or the token that it sends."""
    return read_cookie(request.headers, COOKIE) or request.headers.get("authorization", "")


async def _page_request(ask: Here) -> PageRequest:
    return PageRequest(ask, ask.request.app.state.watches.number(ask.namespace))


async def _form(request: Request) -> Form:
    """Raises Forbidden for a form that the dashboard did not render for this session."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/x-www-form-urlencoded":
        raise Malformed("send the form as application/x-www-form-urlencoded")
    content = await request.body()
    if len(content) <= AT_ONCE:
        fields = _parse_form(content)
    else:  # a large form must not block other requests
        fields = await run_in_threadpool(_parse_form, content)
    if not is_right(_session(request), fields.get(FIELD, [""])[0]):
        raise Forbidden(
            "this form belongs to an earlier session; go back, reload the page and try again"
        )
    return Form(fields)


def _parse_form(content: bytes) -> dict[str, list[str]]:
    """The fields of a form. Raises Malformed."""
    try:
        text = content.decode()
        fields = parse_qs(text, keep_blank_values=True, max_num_fields=MOST_FIELDS)
    except ValueError:
        raise Malformed("the form cannot be read") from None
    if "\0" in text or "%00" in text:
        raise Malformed("the form contains a NUL character, which cannot be stored")
    return fields


def wants_page(request: Request) -> bool:
    """Whether the request comes from a browser rather than a program."""
    return not request.url.path.startswith("/api/") and "text/html" in request.headers.get(
        "accept", ""
    )


def is_encrypted(request: Request) -> bool:
    """Whether the browser uses TLS, maybe to a proxy; a forged header harms only its sender."""
    return "https" in (request.url.scheme, request.headers.get("x-forwarded-proto"))


def local_path(text: str | None) -> str:
    """The page to open after the login; `/` for anything outside this site."""
    return text if text and is_local(text) else "/"


CurrentPage = Annotated[PageRequest, Depends(_page_request)]
Submitted = Annotated[Form, Depends(_form)]
