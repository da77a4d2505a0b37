"""Login and logout, the viewer's time zone, and the static files of every page."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final
from urllib.parse import parse_qs

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from duebook.api.authenticator import SESSION_LASTS
from duebook.api.cookies import read_cookie
from duebook.api.gate import COOKIE
from duebook.api.operations import Operations
from duebook.api.parameters import Query
from duebook.api.problems import Malformed
from duebook.model.access import Role
from duebook.triggers.zones import zone_name
from duebook.web.page_request import CurrentPage, Submitted, is_encrypted, local_path
from duebook.web.rendering import render, static
from duebook.web.times import ZONE_COOKIE

if TYPE_CHECKING:
    from duebook.api.gate import Authenticator

__all__ = ["operations"]

operations = Operations("", "pages")

OUR_LINKS: Final = ("none", "same-origin")
"""Values of Sec-Fetch-Site for typed URLs, for links from other programs, and for our own pages."""
UNKNOWN: Final = "This token is unknown or no longer valid."
USED: Final = (
    "This link has been used, or is older than a minute. To get a new one, run: duebook token link"
)
ELSEWHERE: Final = (
    "Copy the link into the address bar: links on other sites' pages do not log you in."
)
A_YEAR: Final = 365 * 24 * 3600
FILES: Final = {"Cache-Control": "max-age=300"}


@operations("GET", "/login", None)
def get_login(
    request: Request,
    code: Annotated[str | None, Query(max_length=200)] = None,
    there: Annotated[str | None, Query(alias="next", max_length=2000)] = None,
) -> Response:
    """Log in with a one-time link, or with a token typed into the page.

    A link on another site could log its reader in as another user, so the form is shown then,
    too. Tokens are never part of a URL, because browsers and proxies store URLs.
    """
    if code is not None and request.headers.get("sec-fetch-site", "none") in OUR_LINKS:
        session = _authenticator(request).use_link(code)
        return _logged_in(request, session, local_path(there), USED)
    told = None if code is None else ELSEWHERE
    return HTMLResponse(render("login.html", refused=told, there=local_path(there)))


@operations("POST", "/login", None)
async def post_login(request: Request) -> Response:
    """Log in with the token in the form."""
    text = (await request.body()).decode("utf-8", "replace")
    try:
        fields = parse_qs(text, max_num_fields=10)
    except ValueError:
        raise Malformed("the form has too many fields") from None
    token, there = fields.get("token", [""])[0], local_path(fields.get("next", [""])[0])
    return await run_in_threadpool(_log_in, request, token, there)


@operations("POST", "/logout", Role.VIEWER)
def post_logout(request: Request, form: Submitted) -> Response:  # noqa: ARG001 - already checked
    """End the session, even for copies of its cookie."""
    _authenticator(request).end_session(read_cookie(request.headers, COOKIE) or "")
    answer = RedirectResponse("/login", 303)
    answer.delete_cookie(COOKIE, httponly=True, samesite="strict")
    return answer


@operations("POST", "/zone", Role.VIEWER)
def post_zone(page: CurrentPage, form: Submitted) -> Response:
    """Show times in another zone, or in the browser's zone again. Raises InvalidTrigger."""
    answer = RedirectResponse(local_path(form["next"]), 303)
    if not form["zone"]:
        answer.delete_cookie(ZONE_COOKIE, samesite="strict")
        return answer
    answer.set_cookie(
        ZONE_COOKIE,
        zone_name(form["zone"]),
        max_age=A_YEAR,
        secure=is_encrypted(page.request),
        samesite="strict",
    )
    return answer


@operations("GET", "/static/duebook.css", None)
def get_style() -> Response:
    """The style sheet of the pages."""
    return Response(static("duebook.css"), media_type="text/css", headers=FILES)


@operations("GET", "/static/duebook.js", None)
def get_module() -> Response:
    """The optional script of the pages."""
    return Response(static("duebook.js"), media_type="text/javascript", headers=FILES)


@operations("GET", "/static/icon.svg", None)
def get_icon() -> Response:
    """The icon of the site."""
    return Response(static("icon.svg"), media_type="image/svg+xml", headers=FILES)


def _log_in(request: Request, token: str, there: str) -> Response:
    session = _authenticator(request).open_session(token.strip())
    return _logged_in(request, session, there, UNKNOWN)


def _authenticator(request: Request) -> Authenticator:
    authenticator: Authenticator = request.app.state.authenticator
    return authenticator


def _logged_in(request: Request, session: str | None, there: str, told: str) -> Response:
    """Redirect to the requested page with a session; or show the login form with the problem."""
    if session is None:
        return HTMLResponse(render("login.html", refused=told, there=there), 401)
    answer = RedirectResponse(there, 303)
    answer.set_cookie(
        COOKIE,
        session,
        max_age=SESSION_LASTS,
        secure=is_encrypted(request),
        httponly=True,
        samesite="strict",
    )
    return answer
