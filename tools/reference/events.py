"""docs/reference/events.md: the fields of events, and the events that Duebook itself writes."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING, Final, get_args

from duebook.model.run import RunStatus
from duebook.store.sql import lifecycle
from tools.reference.writing import NOTE, SOURCE, api_document, table

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["events_page"]

_ENDED: Final = ("succeeded", "partial", "failed", "cancelled")


def events_page() -> Iterator[str]:
    yield from ("# Events", "", NOTE, "")
    yield from ("[Events](../events.md) explains topics, keys, groups and sinks.", "")
    yield from ("## Fields of an event", "")
    shape = api_document()["components"]["schemas"]["Event"]
    rows = [
        (f"`{name}`", schema.get("description", "")) for name, schema in shape["properties"].items()
    ]
    yield from table(("field", "meaning"), rows)
    yield from ("## Events about runs and schedules", "")
    yield from (
        "They are written only for groups and sinks that name their topic.",
        "",
    )
    yield from table(("topic", "type"), _types())
    yield from (f"The data of `{lifecycle.RUNS}`:", "")
    yield from (", ".join(f"`{name}`" for name in _data("_run_event")) + ".", "")


def _types() -> Iterator[tuple[str, str]]:
    assert set(_ENDED) <= set(get_args(RunStatus))  # noqa: S101 - the ends of runs
    runs = [f"run.{status}" for status in _ENDED] + ["run.late", "flow.finished"]
    for name in runs:
        yield f"`{lifecycle.RUNS}`", f"`{name}`"
    for kind in sorted(_schedule_kinds()):
        yield f"`{lifecycle.SCHEDULES}`", f"`schedule.{kind}`"


def _schedule_kinds() -> set[str]:
    """The kinds of events that the store writes for schedules: past participles in its calls."""
    found: set[str] = set()
    for path in sorted((SOURCE / "store" / "sql").glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.FunctionDef) and "record_schedule_events(" in ast.unparse(node):
                texts = [one.value for one in ast.walk(node) if isinstance(one, ast.Constant)]
                kinds = (str(one) for one in texts if re.fullmatch("[a-z_]+(ed|held)", str(one)))
                found.update(kinds)
    return found


def _data(method: str) -> list[str]:
    """The keys of the data that a life cycle method writes."""
    tree = ast.parse((SOURCE / "store" / "sql" / "lifecycle.py").read_text("utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.name == method:
            for inner in ast.walk(node):
                if isinstance(inner, ast.Dict):
                    return [str(one.value) for one in inner.keys if isinstance(one, ast.Constant)]
    raise LookupError(method)
