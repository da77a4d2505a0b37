"""Pings as definitions: the URLs that are called when runs of a schedule end.

A service such as Healthchecks expects a request after each success, one to the same URL with /fail
after a failure, and alerts people when neither comes in time.
"""

from __future__ import annotations

from typing import Any, Final

from duebook.errors import Conflict
from duebook.model.hook_url import check_hook_url, show_url

__all__ = ["PINGS", "PING_TYPES", "load_urls", "ping_url", "show_urls", "with_ping"]

PINGS: Final = "pings"
"""The name of the sink of a namespace that sends them."""
PING_TYPES: Final = ("run.failed", "run.partial", "run.succeeded")
MOST_URLS: Final = 1_000


def with_ping(urls: dict[str, str], schedule: str, url: object) -> dict[str, str]:
    """The URLs by schedule, with one more; raises Invalid and Conflict."""
    changed = urls | {schedule: check_hook_url("ping url", url)}
    if len(changed) > MOST_URLS:
        raise Conflict(f"a namespace can have pings for at most {MOST_URLS:,} schedules")
    return changed


def load_urls(value: Any) -> dict[str, str]:
    """From their stored form; raises Invalid."""
    return {name: check_hook_url("ping url", url) for name, url in value.items()}


def show_urls(urls: dict[str, str]) -> dict[str, str]:
    return {name: show_url(url) for name, url in urls.items()}


def ping_url(url: str, event_type: str) -> str:
    """Where to send the end of a run.

    >>> ping_url("https://hc-ping.com/key/etl?create=1", "run.failed")
    'https://hc-ping.com/key/etl/fail?create=1'
    """
    if event_type == "run.succeeded":
        return url
    place, question, query = url.partition("?")
    return f"{place.rstrip('/')}/fail{question}{query}"
