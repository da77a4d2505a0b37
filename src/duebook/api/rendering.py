"""Renders the pages of the API; everything in them is escaped."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any, Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape
from starlette.responses import HTMLResponse

__all__ = ["page", "stylesheet"]

_CODE: Final = re.compile(r"`([^`<>]+)`")
_FOLDER: Final = Path(__file__).with_name("pages")


@cache
def _environment() -> Environment:
    made = Environment(loader=FileSystemLoader(_FOLDER), autoescape=True, undefined=StrictUndefined)
    made.filters["words"] = _words
    return made


def _words(text: str) -> Markup:
    """Text, escaped, with `this` as code."""
    return Markup(_CODE.sub(r"<code>\1</code>", str(escape(text))))  # noqa: S704 - it is escaped


def page(name: str, status: int = 200, **values: Any) -> HTMLResponse:
    return HTMLResponse(_environment().get_template(name).render(**values), status)


@cache
def stylesheet() -> str:
    return (_FOLDER / "api.css").read_text("utf-8")
