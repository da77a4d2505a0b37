"""The page for a rejected request: the login form, or a page that explains the error."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from duebook.api.cookies import read_cookie
from duebook.api.gate import COOKIE
from duebook.api.problems import problem_of
from duebook.web.page_request import local_path, wants_page
from duebook.web.rendering import render

if TYPE_CHECKING:
    from starlette.types import Scope

__all__ = ["explain"]


ENDED: Final = "Your session has ended, or was revoked. Log in again."
NOT_SENT: Final = (
    "Your session has ended, or was revoked, so nothing was changed. Log in, then fill in the "
    "form again."
)


def explain(scope: Scope, error: Exception) -> Response:
    """An HTML page for browsers, problem details for programs."""
    request, problem = Request(scope), problem_of(error)
    if not wants_page(request):
        return problem.response()
    if problem.status == 401:
        there = request.url.path + (f"?{request.url.query}" if request.url.query else "")
        if request.method != "GET":
            there = _form_page(request)
        text = render("login.html", refused=_why(request), there=there)
    else:
        text = render("error.html", problem=problem.form())
    headers = {name: value for name, value in problem.headers.items() if name != "WWW-Authenticate"}
    return HTMLResponse(text, problem.status, headers)


def _why(request: Request) -> str | None:
    """Why a user who was logged in must log in again; None for other users."""
    if not read_cookie(request.headers, COOKIE):
        return None
    return ENDED if request.method == "GET" else NOT_SENT


def _form_page(request: Request) -> str:
    """The dashboard page that a form was sent from, or the overview."""
    came = urlsplit(request.headers.get("referer", ""))
    if came.netloc != request.url.netloc:
        return "/"
    return local_path(came.path + (f"?{came.query}" if came.query else ""))
