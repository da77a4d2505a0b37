"""Renders the pages: everything in them is escaped, and nothing in them is script or style."""

from __future__ import annotations

import json
import shlex
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from duebook.errors import counted
from duebook.model.secret import show_payload
from duebook.timetext import format_instant, parse_instant
from duebook.web.ansi import coloured, escaped, stripped
from duebook.web.changes import field_changes, field_values
from duebook.web.labels import label_text, labels_text
from duebook.web.times import city, length_text

if TYPE_CHECKING:
    from datetime import timedelta

__all__ = ["render", "static"]

_FOLDER = Path(__file__).parent


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(_FOLDER / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "ansi": coloured,
        "plain": stripped,
        "took": length_text,
        "pretty": _pretty,
        "shown": show_payload,
        "line": lambda value: escaped(json.dumps(value, ensure_ascii=False)),
        "number": lambda value: f"{value:,}",
        "percent": lambda value: f"{value:.0%}",
        "sentence": lambda text: text[:1].upper() + text[1:],
        "shell": shlex.quote,
        "short": _short,
        "instant": parse_instant,
        "moment": format_instant,
        "plural": counted,
        "span": _span,
        "city": city,
        "asked": label_text,
        "labelled": labels_text,
        "fields": field_changes,
        "values": field_values,
    }
    return environment


def render(name: str, /, **values: Any) -> str:
    return _environment().get_template(name).render(**values)


@cache
def static(name: str) -> bytes:
    return (_FOLDER / "static" / name).read_bytes()


def _pretty(value: Any) -> str:
    return escaped(json.dumps(value, indent=2, ensure_ascii=False, sort_keys=False))


def _short(run_id: str) -> str:
    """The beginning of an id, as the command line shows it."""
    return run_id[:13]


def _span(length: timedelta) -> str:
    return length_text(abs(length))
