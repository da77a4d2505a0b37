"""Reads what Dagu 1 leaves implicit: a `run` that can only be a call, and the params of a called
flow that declares none; pure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from duebook.flows.section import items
from duebook.flows.values import is_variable

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from duebook.flows.parse import Node

__all__ = ["calls_of_dagu_one", "given_to"]


_FLOW: Final = re.compile(r"(?:[A-Za-z0-9_-]+/)*[a-z0-9][a-z0-9_-]*")
"""The name of a flow, perhaps with the directory of its file, and not a program such as ./a.sh."""
_NAMED: Final = re.compile(r"(?:^|\s)([A-Za-z_]\w*)=")


def calls_of_dagu_one(document: Node, own: Collection[str]) -> list[str]:
    """Turn `run` into `call` in steps that can only be calls: with `parallel` or `params`, which
    commands do not have, or with the name of another flow of the file, `own`; the notes are about
    these two."""
    notes = []
    for step in _steps(document):
        run = step.value.get("run")
        if run is None or "call" in step.value or not isinstance(run.value, str):
            continue
        name = run.value.strip().removesuffix(".yaml")
        if name in own:
            notes.append(
                f"line {run.line}: `run: {name}` calls the flow {name} of this file, as in Dagu 1; "
                f"write `call: {name}`, or `command: {name}` if it is a program"
            )
        elif not _FLOW.fullmatch(name):
            continue
        elif "params" in step.value and "parallel" not in step.value:
            notes.append(
                f"line {run.line}: `run: {name}` with `params` calls a flow, as in Dagu 1; "
                f"write `call: {name}`"
            )
        elif "parallel" not in step.value:
            continue
        for part in (step.value, step.keys):
            part["call"] = part.pop("run")
    return notes


def given_to(name: str, documents: Iterable[Node]) -> list[str]:
    """The params that steps of the file pass by name to its flow `name`."""
    found: dict[str, None] = {}
    for step in (step for document in documents for step in _steps(document)):
        called, params = step.value.get("call"), step.value.get("params")
        if called is None or params is None or called.value not in (name, f"{name}.yaml"):
            continue
        for part in items(params):
            if isinstance(part.value, dict):
                found |= dict.fromkeys(part.value)
            elif isinstance(part.value, str):
                found |= dict.fromkeys(_NAMED.findall(part.value))
    return [each for each in found if is_variable(each)]


def _steps(document: Node) -> Iterator[Node]:
    """The steps and handlers of a document that are mappings."""
    if not isinstance(document.value, dict):
        return
    for key in ("steps", "handler_on", "handlerOn"):
        node = document.value.get(key)
        if node is None:
            continue
        values = node.value.values() if isinstance(node.value, dict) else items(node)
        for each in values:
            yield from (step for step in items(each) if isinstance(step.value, dict))
