"""Reads what a flow gets from where it runs: secrets of the node, and files with variables."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from duebook.errors import Invalid, quoted
from duebook.flows.parse import Node, plain
from duebook.flows.section import Section, items, text_of
from duebook.flows.values import check_variable
from duebook.flows.variables import check_value, walk
from duebook.flows.words import DEFAULTS, SECRET
from duebook.model.secret_values import as_reference
from duebook.model.target import TaskTarget

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import timedelta

    from duebook.flows.references import Scope
    from duebook.model.flow import Step

__all__ = ["notes_on_grace", "notes_on_logs", "read_defaults", "read_dotenv", "read_secrets"]

PROVIDERS: Final = ("env", "file", "command")
_SECRET: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}")


def read_secrets(section: Section) -> tuple[list[tuple[str, str]], tuple[str, ...]]:
    """The variables of `secrets` with their references, and notes on their sources.

    The node that executes a step decides where a secret comes from: a file cannot by itself read
    variables and files of a node.
    """
    node = section.get("secrets")
    if node is None:
        return [], ()
    found: list[tuple[str, str]] = []
    notes: list[str] = []
    for place, item in enumerate(items(node)):
        key = f"secrets[{place}]"
        inner = Section(item, section.at(key), section.problems, SECRET)
        name = section.judge(item, key, "", _name, inner)
        if not name:
            continue
        if name in dict(found):
            section.problem(item, key, f'two secrets are named "{name}"')
        found.append((name, as_reference(name)))
        source = section.judge(item, key, "", _source, inner)
        if source:
            notes.append(f"the secret {name} comes from the node: {name} = {source}")
    return found, tuple(notes)


_NO_EFFECT: Final = {
    **dict.fromkeys(("log_dir", "log_output"), "the output of a step is kept with its run"),
    "otel": "start the node with --tracing",
}


def notes_on_logs(section: Section) -> tuple[str, ...]:
    """Notes on keys that define where output and traces are stored, which have no effect here."""
    return tuple(
        f"{key} has no effect: {told}" for key, told in _NO_EFFECT.items() if key in section
    )


def notes_on_grace(flow: str, steps: Iterable[Step], grace: timedelta | None) -> tuple[str, ...]:
    """Notes on tasks, which are not stopped by signals."""
    names = [step.name for step in steps if isinstance(step.target, TaskTarget)]
    return tuple(
        f'step "{name}" of flow {flow} is a task, which has 5 seconds to stop whatever '
        "max_clean_up_time_sec says"
        for name in (names if grace is not None else ())
    )


def _name(inner: Section) -> str:
    name = inner.read("name", text_of, "")
    if not _SECRET.fullmatch(name):
        raise Invalid(f"name {quoted(name)} of a secret is not a variable name")
    return check_variable(name, "secret")


def _source(inner: Section) -> str:
    """The settings for a node that correspond to what the file says."""
    if "ref" in inner and "provider" not in inner:
        return '{command = ["…"]}'
    provider, key = inner.read("provider", text_of, ""), inner.read("key", text_of, "")
    if provider not in PROVIDERS:
        raise Invalid(
            f"provider {quoted(provider)} is not supported; use env, file or command, and let a "
            "command on the node ask other stores"
        )
    if not key:
        raise Invalid("a secret has no key; add `key: NAME`")
    shown = f'["{key}"]' if provider == "command" else f'"{key}"'
    return f"{{{provider} = {shown}}}"


def read_dotenv(section: Section, scope: Scope) -> tuple[str, ...]:
    """The files to read variables from, in order; the last one comes last."""
    node = section.get("dotenv")
    if node is None:
        return ()
    found = [section.judge(item, "dotenv", "", _path, item, scope) for item in items(node)]
    return tuple(path for path in found if path)


def _path(node: Node, scope: Scope) -> str:
    path: str = walk(text_of("dotenv", plain(node)), scope)
    check_value(path, scope, "dotenv", "write the file literally, or with variables of env")
    return path


def read_defaults(section: Section) -> Section | None:
    node = section.get("defaults")
    if node is None:
        return None
    return Section(node, section.at("defaults"), section.problems, DEFAULTS)
