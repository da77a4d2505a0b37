"""Renders the pages of the API; everything in them is escaped."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.responses import HTMLResponse

__all__ = ["page", "stylesheet"]

_FOLDER = Path(__file__).with_name("pages")


@cache
def _environment() -> Environment:
    return Environment(loader=FileSystemLoader(_FOLDER), autoescape=True, undefined=StrictUndefined)


def page(name: str, status: int = 200, **values: Any) -> HTMLResponse:
    return HTMLResponse(_environment().get_template(name).render(**values), status)


@cache
def stylesheet() -> str:
    return (_FOLDER / "api.css").read_text("utf-8")
