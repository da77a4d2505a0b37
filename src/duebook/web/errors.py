"""What people see when something is refused: the log-in, or a page that says what is wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from duebook.api.problems import problem_of
from duebook.web.page_request import wants_page
from duebook.web.rendering import render

if TYPE_CHECKING:
    from starlette.types import Scope

__all__ = ["explain"]


def explain(scope: Scope, error: Exception) -> Response:
    """A page for people, problem details for programs."""
    request, problem = Request(scope), problem_of(error)
    if not wants_page(request):
        return problem.response()
    if problem.status == 401:
        there = request.url.path + (f"?{request.url.query}" if request.url.query else "")
        text = render("login.html", refused=None, there=there if request.method == "GET" else "/")
    else:
        text = render("error.html", problem=problem.form())
    headers = {name: value for name, value in problem.headers.items() if name != "WWW-Authenticate"}
    return HTMLResponse(text, problem.status, headers)
