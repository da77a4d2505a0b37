"""Renders the pages: all values are escaped, and none can become script or style."""

from __future__ import annotations

import json
import shlex
from datetime import timedelta
from functools import cache
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from duebook.errors import counted
from duebook.flows.each import is_made_up
from duebook.ids import SHORT_ID
from duebook.model.run import lateness
from duebook.model.secret import show_payload
from duebook.timetext import format_instant, parse_instant
from duebook.web.ansi import coloured, escaped, stripped
from duebook.web.changes import field_changes, field_values
from duebook.web.day_chart import hour_range
from duebook.web.kinds import KINDS, typed
from duebook.web.labels import label_text, labels_text
from duebook.web.times import city, length_text

if TYPE_CHECKING:
    from collections.abc import Iterable

    from duebook.model.run import Run

__all__ = ["distinct_ids", "render", "static"]

LATE: Final = timedelta(minutes=1)
LISTED_ID: Final = 18
"""Characters of an id that contain its millisecond and some of its random part."""
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
        "short": lambda run_id: run_id[:LISTED_ID],
        "named_id": lambda run_id: run_id[:SHORT_ID],
        "ids": lambda runs: distinct_ids(run.id for run in runs),
        "instant": parse_instant,
        "moment": format_instant,
        "plural": counted,
        "hour_range": hour_range,
        "kinds": KINDS.__getitem__,
        "typed": lambda text, field: typed(field, text),
        "span": _span,
        "late": _late,
        "spanning": _spanning,
        "city": city,
        "asked": label_text,
        "labelled": labels_text,
        "fields": field_changes,
        "values": field_values,
    }
    environment.tests["made_up"] = is_made_up
    return environment


def render(name: str, /, **values: Any) -> str:
    return _environment().get_template(name).render(**values)


@cache
def static(name: str) -> bytes:
    return (_FOLDER / "static" / name).read_bytes()


def _pretty(value: Any) -> str:
    return escaped(json.dumps(value, indent=2, ensure_ascii=False, sort_keys=False))


def distinct_ids(ids: Iterable[str]) -> dict[str, str]:
    """The start of each id, with enough of its random part to be unique; the command line
    accepts it."""
    whole = sorted(set(ids))
    shown = {}
    for before, run_id, after in zip(["", *whole], whole, [*whole[1:], ""], strict=False):
        alike = max(_alike(run_id, other) for other in (before, after))
        shown[run_id] = run_id[: max(LISTED_ID, alike + 1)]
    return shown


def _alike(one: str, other: str) -> int:
    """The length of their common prefix."""
    pairs = zip(one, other, strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def _spanning(query: dict[str, str], span: dict[str, str]) -> dict[str, str]:
    """The query with another time range."""
    return {name: value for name, value in query.items() if name not in ("from", "to")} | span


def _late(run: Run) -> bool:
    """Whether it started more than a minute after it was due; False for a manual run."""
    late = lateness(run)
    return late is not None and late > LATE


def _span(length: timedelta) -> str:
    return length_text(abs(length))
