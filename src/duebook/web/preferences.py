"""A user's preferences in cookies: the theme and the saved views."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import quote, unquote

from duebook.api.cookies import read_cookie
from duebook.errors import Invalid

if TYPE_CHECKING:
    from collections.abc import Sequence

    from starlette.datastructures import Headers

__all__ = ["THEMES", "THEME_COOKIE", "VIEWS_COOKIE", "View", "add_view", "is_local", "read_theme"]
__all__ += ["read_views", "views_text", "without_view"]

THEME_COOKIE: Final = "duebook_theme"
VIEWS_COOKIE: Final = "duebook_views"
THEMES: Final = ("light", "dark")
"""Besides the system's theme."""
MOST: Final = 12
LONGEST_NAME: Final = 40
LONGEST: Final = 3_500
"""Characters in the cookie; browsers keep 4,096."""


class View(NamedTuple):
    """A list with filters, saved under a name."""

    name: str
    place: str


def is_local(text: str) -> bool:
    """Whether a URL belongs to this site."""
    if not text.startswith("/") or text[1:2] in ("/", "\\") or len(text) > 2_000:
        return False
    return text.isprintable() and "\\" not in text


def read_theme(headers: Headers) -> str:
    """Empty for the system's theme."""
    theme = read_cookie(headers, THEME_COOKIE)
    return theme if theme in THEMES else ""


def read_views(headers: Headers) -> list[View]:
    """The readable views of the cookie; none if it is malformed."""
    try:
        found = json.loads(unquote(read_cookie(headers, VIEWS_COOKIE) or ""))
        views = [View(name, place) for name, place in found]
    except (ValueError, TypeError, RecursionError):
        return []
    return [view for view in views[:MOST] if _is_fit(view)]


def _is_fit(view: View) -> bool:
    texts = all(isinstance(text, str) for text in view)
    return texts and 0 < len(view.name) <= LONGEST_NAME and is_local(view.place)


def add_view(views: Sequence[View], name: str, place: str) -> list[View]:
    """The views with one more, which replaces any of the same name. Raises Invalid."""
    new = View(name.strip(), place)
    if not new.name or len(new.name) > LONGEST_NAME or not new.name.isprintable():
        raise Invalid(f"name: use 1 to {LONGEST_NAME} characters")
    if not _is_fit(new):
        raise Invalid("only pages of this dashboard can be saved as views")
    found = [*without_view(views, new.name), new]
    if len(found) > MOST or len(views_text(found)) > LONGEST:
        raise Invalid(f"at most {MOST} views can be saved, and fewer if they are long; delete one")
    return found


def without_view(views: Sequence[View], name: str) -> list[View]:
    return [view for view in views if view.name != name]


def views_text(views: Sequence[View]) -> str:
    """The views as the text of the cookie."""
    return quote(json.dumps([list(view) for view in views], ensure_ascii=False), safe="")
