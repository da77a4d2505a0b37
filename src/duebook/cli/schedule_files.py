"""Reads definitions of schedules from files: YAML, TOML or JSON."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from duebook.errors import Invalid, shorten
from duebook.flows.parse import parse, plain
from duebook.flows.problems import Refused

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["read_schedule_files"]


def read_schedule_files(paths: Sequence[str]) -> list[dict[str, Any]]:
    """The definitions of all files, in their order; raises Invalid that names the file.

    A file has a list `schedules` of definitions as `POST schedules` takes them, or is such a list,
    as `ls --json` prints it.
    """
    found: list[dict[str, Any]] = []
    for path in paths:
        form = _content(path)
        schedules = form.get("schedules") if isinstance(form, dict) else form
        if not isinstance(schedules, list) or not schedules:
            raise Invalid(f'{path} has no list "schedules"')
        for number, one in enumerate(schedules):
            if not isinstance(one, dict) or not isinstance(one.get("name"), str):
                raise Invalid(f"{path}: schedules[{number}] is not a definition with a name")
        found += schedules
    return found


def _content(path: str) -> Any:
    text = _text(path)
    try:
        if path.endswith(".toml"):
            return tomllib.loads(text)
        if path.endswith(".json"):
            return json.loads(text)
        documents = parse(text, path)
    except Refused as error:
        raise Invalid(str(error.problem)) from None
    except (tomllib.TOMLDecodeError, ValueError, RecursionError) as error:
        raise Invalid(f"{path} cannot be read: {shorten(str(error), 200)}") from None
    if len(documents) != 1:
        raise Invalid(f"{path} has {len(documents)} documents; put all schedules into one")
    return plain(documents[0])


def _text(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise Invalid(f"{path} is not UTF-8") from None
