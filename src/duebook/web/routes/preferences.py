"""A user's preferences for one browser: the theme and saved views, kept in cookies."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from starlette.responses import RedirectResponse, Response

from duebook.api.operations import Operations
from duebook.errors import Invalid
from duebook.model.access import Role
from duebook.web.page_request import CurrentPage, Submitted, is_encrypted, local_path
from duebook.web.preferences import (
    THEME_COOKIE,
    THEMES,
    VIEWS_COOKIE,
    View,
    add_view,
    read_views,
    views_text,
    without_view,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["operations"]

operations = Operations("", "pages")

A_YEAR: Final = 365 * 24 * 3600


@operations("POST", "/theme", Role.VIEWER)
def post_theme(page: CurrentPage, form: Submitted) -> Response:
    """Choose the light, the dark or the system's theme."""
    answer = RedirectResponse(local_path(form["next"]), 303)
    if form["theme"] in THEMES:
        _set(page, answer, THEME_COOKIE, form["theme"])
    else:
        answer.delete_cookie(THEME_COOKIE, samesite="strict")
    return answer


@operations("GET", "/views", Role.VIEWER)
def get_views(page: CurrentPage) -> Response:
    """The saved views, to open or delete them."""
    return page.render("views.html", problem="")


@operations("POST", "/views", Role.VIEWER)
def post_view(page: CurrentPage, form: Submitted) -> Response:
    """Save the current list under a name."""
    try:
        views = add_view(read_views(page.request.headers), form["name"], form["next"])
    except Invalid as error:
        return page.render("views.html", 422, problem=str(error))
    return _kept(page, views, local_path(form["next"]))


@operations("POST", "/views/delete", Role.VIEWER)
def post_view_delete(page: CurrentPage, form: Submitted) -> Response:
    """Delete a saved view."""
    return _kept(page, without_view(read_views(page.request.headers), form["name"]), "/views")


def _kept(page: CurrentPage, views: Sequence[View], there: str) -> Response:
    answer = RedirectResponse(there, 303)
    _set(page, answer, VIEWS_COOKIE, views_text(views))
    return answer


def _set(page: CurrentPage, answer: Response, name: str, value: str) -> None:
    answer.set_cookie(
        name,
        value,
        max_age=A_YEAR,
        secure=is_encrypted(page.request),
        httponly=True,
        samesite="strict",
    )
