"""The options by which commands define a request: where it goes, what it sends and expects."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import click

from duebook.errors import Invalid, shorten
from duebook.model.http_target import METHODS, HttpTarget

if TYPE_CHECKING:
    from collections.abc import Callable

    from duebook.model.target import Target

__all__ = ["http_decorators", "read_http"]

_DETAILS: Final = ("method", "header", "body", "body_json", "expect")


def http_decorators() -> list[Callable[[Any], Any]]:
    return [
        click.option("--http", metavar="URL", help="Send a request, instead of COMMAND."),
        click.option(
            "--method",
            type=click.Choice(METHODS, case_sensitive=False),
            help="[default: GET, or POST with a body]",
        ),
        click.option("--header", metavar="'NAME: VALUE'", multiple=True, help="For the request."),
        click.option("--body", metavar="TEXT", help="What the request sends."),
        click.option("--body-json", metavar="JSON", help="The same as JSON."),
        click.option(
            "--expect", metavar="STATUS", multiple=True, help="Success: 204, 3xx. [default: 2xx]"
        ),
    ]


def read_http(options: dict[str, Any], former: Target | None) -> dict[str, Any] | None:
    """The target that --http and its details name; details alone change a `former` request.

    None: none are given. Raises UsageError for details of a request that there is not.
    """
    given = [name for name in _DETAILS if options[name] not in (None, ())]
    if options["http"] is None and not given:
        return None
    if options["http"] is None and not isinstance(former, HttpTarget):
        raise click.UsageError(f"--{given[0].replace('_', '-')} goes with --http URL")
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
        raise Invalid(f"--body-json is not valid JSON: {shorten(str(error))}") from None
