"""The pages of the API: the log-in, the documentation, and the document that it is made of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final
from urllib.parse import parse_qs

from fastapi import Query, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import JSONResponse, RedirectResponse, Response

from duebook.api.authenticator import SESSION_LASTS
from duebook.api.docs_page import group_operations, list_shapes
from duebook.api.gate import COOKIE
from duebook.api.operations import Operations
from duebook.api.problems import Malformed
from duebook.api.rendering import page, stylesheet
from duebook.model.access import Role

if TYPE_CHECKING:
    from duebook.api.gate import Authenticator

__all__ = ["operations"]

OUR_LINKS: Final = ("none", "same-origin")
"""What browsers say of an address that was typed or opened from outside, and of our own pages."""

operations = Operations("", "pages")


@operations("GET", "/", Role.VIEWER, None)
def get_home() -> Response:
    """To what there is to see."""
    return RedirectResponse("/api/docs", 303)


@operations("GET", "/login", None, None)
def get_login(
    request: Request, token: Annotated[str | None, Query(max_length=200)] = None
) -> Response:
    """Log in with a token: the one in the address, or one that the page asks for.

    A link of another site would log its reader in as somebody else, so the page asks then, too.
    """
    if token is None or request.headers.get("sec-fetch-site", "none") not in OUR_LINKS:
        return page("login.html", refused=False)
    return _log_in(request, token)


@operations("POST", "/login", None, None)
async def post_login(request: Request) -> Response:
    """Log in with the token of the form."""
    text = (await request.body()).decode("utf-8", "replace")
    try:
        fields = parse_qs(text, max_num_fields=10)
    except ValueError:
        raise Malformed("the form has more fields than the token") from None
    return await run_in_threadpool(_log_in, request, fields.get("token", [""])[0])


@operations("POST", "/logout", Role.VIEWER, None)
def post_logout() -> Response:
    """Forget the session."""
    answer = RedirectResponse("/login", 303)
    answer.delete_cookie(COOKIE, httponly=True, samesite="strict")
    return answer


@operations("GET", "/static/api.css", None, None)
def get_stylesheet() -> Response:
    """How the pages look."""
    return Response(stylesheet(), media_type="text/css")


@operations("GET", "/api/docs", Role.VIEWER, None)
def get_docs(request: Request) -> Response:
    """The documentation of the API."""
    document = request.app.openapi()
    groups, shapes = group_operations(document), list_shapes(document)
    return page("docs.html", document=document, groups=groups, shapes=shapes)


@operations("GET", "/api/openapi.json", Role.VIEWER, None)
def get_openapi(request: Request) -> Response:
    """The OpenAPI document."""
    return JSONResponse(request.app.openapi())


def _is_encrypted(request: Request) -> bool:
    """Whether the browser speaks TLS, to a proxy that says so; who lies harms his own cookie."""
    return "https" in (request.url.scheme, request.headers.get("x-forwarded-proto"))


def _log_in(request: Request, token: str) -> Response:
    authenticator: Authenticator = request.app.state.authenticator
    session = authenticator.open_session(token.strip())
    if session is None:
        return page("login.html", 401, refused=True)
    answer = RedirectResponse("/", 303)
    answer.set_cookie(
        COOKIE,
        session,
        max_age=SESSION_LASTS,
        secure=_is_encrypted(request),
        httponly=True,
        samesite="strict",
    )
    return answer
