"""Filters JSON with jq and prints the results; reads files but writes none."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, Final

from duebook.builtin_steps.given import perform
from duebook.errors import Invalid, Unavailable, shorten

__all__ = ["filter_json"]

_FILE: Final = "file://"


def filter_json(payload: dict[str, Any]) -> None:
    """Print each result on its own line, with objects and lists indented. Raises Invalid."""
    try:
        import jq
    except ImportError:
        raise Unavailable("jq is not installed on this worker: pip install 'jq>=1.8,<2'") from None
    args = {name.removeprefix("$"): value for name, value in payload.get("args", {}).items()}
    try:
        program = jq.compile(payload["filter"], args=args)
        results = program.input_value(_data(payload)).all()
    except ValueError as error:
        raise Invalid(f"jq: {shorten(str(error), 500)}") from None
    for result in results:
        sys.stdout.write(f"{_shown(result, raw=payload.get('raw', False))}\n")


def _data(payload: dict[str, Any]) -> Any:
    """The value to filter: given directly, or as JSON in a string or a file."""
    data, path = payload.get("data"), payload.get("input")
    if isinstance(data, str) and data.startswith(_FILE):
        path = data.removeprefix(_FILE)
    if path is not None:
        data = Path(path).read_text(encoding="utf-8")
    if not isinstance(data, str):
        return data
    try:
        return json.loads(data)
    except ValueError as error:
        raise Invalid(f"the data is not valid JSON: {error}") from None


def _shown(result: Any, raw: bool) -> str:
    if raw and (isinstance(result, str) or result is None):
        return result or ""
    indent = 4 if isinstance(result, dict | list) else None
    return json.dumps(result, ensure_ascii=False, indent=indent)


if __name__ == "__main__":
    perform(filter_json)
