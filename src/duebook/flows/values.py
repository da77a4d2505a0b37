"""Reads the values that a flow declares: params with their defaults, variables, labels."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from duebook.errors import Invalid, quoted, shorten
from duebook.flows.parse import Node, plain
from duebook.flows.section import Section, items, split_words, text_of
from duebook.flows.words import PARAM
from duebook.model.fields import check_payload, read_flag, read_labels, read_text
from duebook.model.flow import Param, ParamKind
from duebook.model.secret import HIDDEN, is_secret
from duebook.targets.programs import steers

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = [
    "check_variable",
    "is_variable",
    "read_env",
    "read_labels_of",
    "read_pairs",
    "read_params",
]

_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
MOST_VALUES: Final = 1_000
"""Params of a flow, and variables of one `env`."""
_KINDS: Final[dict[str, ParamKind]] = {
    "string": "text",
    "integer": "integer",
    "number": "number",
    "boolean": "boolean",
}


def is_variable(name: str) -> bool:
    """Whether a value from outside may have this name."""
    return _VARIABLE.fullmatch(name) is not None and not steers(name)


def check_variable(name: str, what: str) -> str:
    """A name for a value from outside; raises Invalid for names that steer programs."""
    if not _VARIABLE.fullmatch(name):
        raise Invalid(
            f'{what} "{shorten(name)}" is not a variable name: use letters, digits and "_"'
        )
    if steers(name):
        raise Invalid(
            f'{what} "{name}" would change how programs work; choose another name, and set this '
            "variable in env"
        )
    return name


def read_pairs(section: Section, key: str) -> list[tuple[str, Node, Any]]:
    """Names and values, from a mapping or from a list of mappings and `NAME=value` strings."""
    node, found = section.get(key), []
    if node is None:
        return []
    for item in items(node):
        if isinstance(item.value, dict):
            found += [(name, value, plain(value)) for name, value in item.value.items()]
        elif isinstance(item.value, str) and "=" in item.value:
            name, _, text = item.value.partition("=")
            found.append((name.strip(), item, text))
        else:
            told = f"{key} {shorten(plain(item))} does not have the form NAME: value or NAME=value"
            section.problem(item, key, told)
    if len(found) > MOST_VALUES:
        told = f"{key} has {len(found):,} values; at most {MOST_VALUES:,} are allowed"
        section.problem(node, key, told)
        return []
    return found


def read_env(section: Section) -> list[tuple[str, Node, str]]:
    """Variables in their order; a later one of the same name replaces an earlier one."""
    found: dict[str, tuple[str, Node, str]] = {}
    for name, node, value in read_pairs(section, "env"):
        if not _VARIABLE.fullmatch(name) or name.startswith("DUEBOOK_"):
            told = f'env "{shorten(name)}" is not a variable name, or starts with DUEBOOK_'
            section.problem(node, "env", told)
            continue
        text = "" if value is None else section.judge(node, f"env.{name}", "", text_of, name, value)
        found[name] = (name, node, text)
    return list(found.values())


def read_labels_of(section: Section, key: str = "labels") -> tuple[tuple[str, str], ...]:
    """Labels, from a mapping, a list, or a string with commas; one without a value is `true`."""
    node = section.get(key)
    if node is None:
        return ()
    labels: dict[str, str] = {}
    if key == "worker_selector" and node.value == "local":
        told = 'worker_selector "local" is not supported'
        section.problem(node, key, told, "leave it out, or name a label of the worker")
        return ()
    for item in items(node):
        if isinstance(item.value, dict):
            for name, value in item.value.items():
                labels[name] = section.judge(value, key, "", text_of, key, plain(value))
            continue
        if not isinstance(item.value, str):
            told = f"{key} {shorten(plain(item))} does not have the form NAME: value or NAME=value"
            section.problem(item, key, told)
            continue
        for part in _parts(item.value):
            name, equals, text = part.strip().partition("=")
            if name:
                labels[name.strip()] = text.strip() if equals else "true"
    if key == "worker_selector":
        _refuse_values(section, node, key, labels)
    return section.judge(node, key, (), read_labels, key, labels)


def _refuse_values(section: Section, node: Node, key: str, labels: dict[str, str]) -> None:
    for text in labels.values():
        if "$" in text or "{{" in text:
            told = f'{key} "{shorten(text)}" contains a value; the worker must be fixed'
            section.problem(node, key, told, "write the label literally")


def _parts(text: str) -> list[str]:
    """Labels in a string: between commas, or between spaces if each has a value."""
    words = text.split()
    if "," not in text and len(words) > 1 and all("=" in word for word in words):
        return words
    return text.split(",")


def read_params(section: Section) -> list[tuple[Param, Node]]:
    """The params of a flow in order, each with its node; a default is still as written."""
    node = section.get("params")
    if node is None:
        return []
    found: list[tuple[Param, Node]] = []
    if isinstance(node.value, dict):
        key = "properties" if "type" in node.value else "schema"
        if key in node.value:
            told, hint = f"key `{key}` is not supported", "list the params with their types"
            section.problem(node.keys[key], f"params.{key}", told, hint)
            return []
    names: set[str] = set()
    places = 0
    for item in items(node):
        for param in _params(section, item, places):
            if param.name in names:
                section.problem(item, "params", f'param "{shorten(param.name)}" appears twice')
            names.add(param.name)
            places += 1
            found.append((param, item))
    if len(found) > MOST_VALUES:
        told = f"it has {len(found):,} params; at most {MOST_VALUES:,} are allowed"
        section.problem(node, "params", told)
        return []
    for param, item in found:
        if not param.name.isdigit():
            section.judge(item, "params", "", check_variable, param.name, "param")
    return found


def _params(section: Section, item: Node, places: int) -> Iterator[Param]:
    if isinstance(item.value, dict):
        if "name" in item.value and len(item.value) > 1:
            yield _defined(Section(item, section.at("params"), section.problems, PARAM))
            return
        for name, value in item.value.items():
            default = plain(value)
            section.judge(value, "params", None, _check_default, name, default)
            yield Param(name, "" if default is None else default)
        return
    for word in section.judge(item, "params", list[str](), split_words, "params", plain(item)):
        places += 1
        name, equals, value = word.partition("=")
        if equals and _VARIABLE.fullmatch(name):
            yield Param(name, value)
        else:
            yield Param(str(places), word)


def _check_default(name: str, default: Any) -> None:
    check_payload(f"param {shorten(name)}", {"default": default})


def _fits(kind: ParamKind, value: Any) -> bool:
    """Whether a default has a type; a string that a run fills in may become anything."""
    if isinstance(value, str) and (
        kind == "text" or any(sign in value for sign in ("$", "{{", "`")) or not value
    ):
        return True
    if isinstance(value, bool) or kind == "boolean":
        return isinstance(value, bool) and kind == "boolean"
    return isinstance(value, int if kind == "integer" else int | float) and kind != "text"


def _defined(section: Section) -> Param:
    name = section.read("name", text_of, "")
    default = section.get("default")
    required = section.read("required", read_flag, default=False)
    choices: tuple[Any, ...] = ()
    if (enum := section.get("enum")) is not None:
        choices = tuple(plain(item) for item in items(enum))
    given = section.read("type", text_of, "")
    if given and given not in _KINDS:
        told = f'type "{shorten(given)}" is not one of {", ".join(_KINDS)}'
        section.problem(section.get("type") or section.node, "type", told)
    value = None if default is None else plain(default)
    if default is not None and required:
        section.problem(default, "default", "a required param cannot have a default")
    elif default is None and not required:
        value = ""
    if value is not None and given in _KINDS and not _fits(_KINDS[given], value):
        told = f"default {HIDDEN if is_secret(name) else quoted(value)} is not a valid {given}"
        section.problem(default or section.node, "default", told)
    if default is not None and choices and value not in choices and "`" not in str(value):
        told = f"default {HIDDEN if is_secret(name) else shorten(value)} is not one of its enum"
        section.problem(default, "default", told)
    return Param(
        name,
        None if required else value,
        _KINDS.get(given, "any"),
        choices,
        section.read("description", read_text, ""),
    )
