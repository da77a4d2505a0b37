"""The options that define a request: its URL, what it sends and what it expects."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import click

from duebook.cli.commands import WHAT, in_section, option
from duebook.errors import Invalid, json_problem, shorten
from duebook.model.http_target import METHODS, HttpTarget

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from duebook.model.target import Target

__all__ = ["http_decorators", "read_http"]

_DETAILS: Final = ("method", "header", "body", "body_json", "expect")


def http_decorators() -> Sequence[Callable[[Any], Any]]:
    return in_section(
        WHAT,
        option("--http", metavar="URL", help="Send a request to this URL instead of a COMMAND."),
        option(
            "--method",
            metavar="METHOD",
            type=click.Choice(METHODS, case_sensitive=False),
            help="The request's method. [default: GET, or POST with a body]",
        ),
        option("--header", metavar="'NAME: VALUE'", multiple=True, help="A header; repeatable."),
        option("--body", metavar="TEXT", help="The request's body."),
        option("--body-json", metavar="JSON", help="The request's body as JSON."),
        option(
            "--expect",
            metavar="STATUS",
            multiple=True,
            help="A status that means success, such as 204 or 3xx; repeatable. [default: 2xx]",
        ),
    )


def read_http(options: dict[str, Any], former: Target | None) -> dict[str, Any] | None:
    """The target from --http and its details; details alone change a `former` request.

    Returns None if none are given. Raises UsageError for details without a request.
    """
    given = [name for name in _DETAILS if options[name] not in (None, ())]
    if options["http"] is None and not given:
        return None
    if options["http"] is None and not isinstance(former, HttpTarget):
        raise click.UsageError(f"--{given[0].replace('_', '-')} needs --http URL")
    form = former.to_json()["http"] if isinstance(former, HttpTarget) else {}
    if options["http"] is not None:
        form = {"url": options["http"]}
    if options["method"] is not None:
        form["method"] = options["method"]
    if options["header"]:
        form["headers"] = dict(_header(text) for text in options["header"])
    if options["body"] is not None or options["body_json"] is not None:
        form |= {"body": options["body"], "json": _json(options["body_json"])}
    if options["expect"]:
        form["expect"] = [int(text) if text.isdecimal() else text for text in options["expect"]]
    return {"http": form}


def _header(text: str) -> tuple[str, str]:
    name, colon, value = text.partition(":")
    if not name.strip() or not colon:
        raise Invalid(f"--header \"{shorten(name)}\" is not 'NAME: VALUE'")
    return name.strip(), value.strip()


def _json(text: str | None) -> Any:
    if text is None:
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Invalid(f"--body-json is not valid JSON: {json_problem(error)}") from None
