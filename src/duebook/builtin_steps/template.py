"""Fills a parsed template with data, and prints the text or writes it to a file."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from duebook.builtin_steps.given import perform
from duebook.errors import Invalid

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["fill_template"]

FILTERS: Final[dict[str, Callable[[str], str]]] = {
    "lower": str.lower,
    "trim": str.strip,
    "upper": str.upper,
}


def fill_template(payload: dict[str, Any]) -> None:
    """Raises Invalid for a value that is missing from the data or is an object or a list."""
    text = "".join(
        part if isinstance(part, str) else _value(part, payload["data"])
        for part in payload["parts"]
    )
    path = payload.get("output")
    if path is None:
        sys.stdout.write(text)
        return
    file = Path(path).expanduser()
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")


def _value(part: dict[str, list[str]], data: Any) -> str:
    found, name = data, ".".join(part["path"])
    for key in part["path"]:
        if not isinstance(found, dict) or key not in found:
            raise Invalid(f"the template names .{name}, which data does not have")
        found = found[key]
    if isinstance(found, dict | list):
        raise Invalid(f"the template names .{name}, which is not a string, number or boolean")
    text = found if isinstance(found, str) else json.dumps(found)
    for word in part["filters"]:
        text = FILTERS[word](text)
    return text


if __name__ == "__main__":
    perform(fill_template)
