"""Files and parts of files that are derived from declarations: `make derive` rewrites them, and a
test fails if one is out of date."""

from __future__ import annotations

import inspect
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final, get_overloads

from duebook.client import PARTS, TABLE
from duebook.client.use_cases import V1
from duebook.model.aliases import SHORT_FORMS, SWITCHES
from duebook.model.enqueued import ENQUEUE_POLICIES
from duebook.model.schedule import FIELDS, POLICIES, DefinitionField
from tools.capacity import table_of_constants, table_of_needs
from tools.reference import REFERENCE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from duebook.client.use_cases import UseCase
    from duebook.model.kinds import Declared, Kind, Shape

__all__ = ["DERIVED", "derived_text"]

FIRST: Final = "0.1"
"""The version that introduced most fields."""
ROOT: Final = Path(__file__).parents[1]
LONGEST_LINE: Final = 100
BEGIN, END = "derived: begin", "derived: end"
"""Marks in the lines around a derived part of a file."""

GIVEN: Final[dict[Shape, str]] = {
    "any": "Any",
    "calendar": "Mapping[str, str] | CalendarUse",
    "days": "Sequence[str | date | DateRange] | str",
    "dependencies": "Sequence[Mapping[str, Any] | Dependency]",
    "flag": "bool",
    "instant": "Instant",
    "labels": "Mapping[str, str]",
    "length": "Length",
    "name": "str",
    "object": "Mapping[str, Any]",
    "retry": "Retry | int | Mapping[str, Any]",
    "target": "str | Mapping[str, Any] | Target",
    "text": "str",
    "triggers": "AnyTrigger",
    "whole": "int",
}
"""The Python types of values, for type checkers."""
MEANT: Final[dict[Shape, str]] = {
    "any": "JSON",
    "calendar": "object",
    "days": "list of days",
    "dependencies": "list of objects",
    "flag": "true or false",
    "instant": "instant",
    "labels": "object of text",
    "length": "length",
    "name": "name",
    "object": "object",
    "retry": "object or number",
    "target": "object or text",
    "text": "text",
    "triggers": "object, text or a list",
    "whole": "number",
}
"""The same for people."""


def typed_policies() -> Iterator[str]:
    """The fields of `Policies` in model/policies.py."""
    return _typed(POLICIES)


def typed_definition() -> Iterator[str]:
    """The other fields of `Definition` there."""
    return _typed(
        {"trigger": FIELDS["trigger"], "target": FIELDS["target"]} | SHORT_FORMS | SWITCHES
    )


def typed_enqueue() -> Iterator[str]:
    """The fields of `EnqueuePolicies` there."""
    return _typed(ENQUEUE_POLICIES)


def _typed(fields: Mapping[str, DefinitionField | Declared]) -> Iterator[str]:
    for name, said in fields.items():
        yield f"    {name}: {_given(said.kind)}"


def _given(kind: Kind) -> str:
    if kind.choices:
        return f"Literal{json.dumps(kind.choices)}"
    return GIVEN[kind.shape]


def table_of_fields() -> Iterator[str]:
    """The table of docs/definition.md."""
    yield "| field | value | default | meaning |"
    yield "|---|---|---|---|"
    for name, known in FIELDS.items():
        since = "" if known.since == FIRST else f" Since {known.since}."
        yield f"| `{name}` | {_meant(known.kind)} | {_default(known)} | {known.help}{since} |"


def table_of_short_forms() -> Iterator[str]:
    yield "| field | value | meaning |"
    yield "|---|---|---|"
    for name, said in (SHORT_FORMS | SWITCHES).items():
        yield f"| `{name}` | {_meant(said.kind)} | {said.help} |"


def _meant(kind: Kind) -> str:
    if kind.choices:
        return ", ".join(f"`{choice}`" for choice in kind.choices)
    if kind.shape == "whole":
        return f"number from {kind.least:,} to {kind.most:,}"
    return MEANT[kind.shape]


def _default(known: DefinitionField) -> str:
    default = known.to_json(known.default)
    if isinstance(default, bool):
        return "`false`"
    return f"`{default}`" if default or default == 0 else ""


def table_of_operations() -> Iterator[str]:
    """The table of docs/api.md."""
    yield "| operation | what it does | role | repeat | audit | command |"
    yield "|---|---|---|---|---|---|"
    for case in TABLE.values():
        role = "" if case.role is None else f"{case.role}, all" if case.everywhere else case.role
        commands = ", ".join(f"`{command}`" for command in case.cli)
        place = f"`{case.method} {case.path.removeprefix(V1)}`"
        audited = "yes" if case.audited else ""
        yield f"| {place} | {case.summary} | {role} | {_repeat(case)} | {audited} | {commands} |"


def _repeat(case: UseCase) -> str:
    if case.keyed:
        return "with a key"
    return "" if case.keyless else "yes"


NOT_THREADED: Final = frozenset({"wait", "wait_all", "consume", "consumer", "serve"})
"""Methods that wait, or never end: they are coroutines written by hand, or none at all."""


def async_imports() -> Iterator[str]:
    """The imports of the classes in src/duebook/aio/parts.py."""
    found: dict[str, list[str]] = {}
    for kind in PARTS.values():
        found.setdefault(kind.__module__, []).append(kind.__name__)
    for module, names in sorted(found.items()):
        line = f"from {module} import {', '.join(sorted(names))}"
        if len(line) <= LONGEST_LINE:
            yield line
        else:
            yield from (f"from {module} import (", *(f"    {name}," for name in sorted(names)), ")")
    yield ""


def async_parts() -> Iterator[str]:
    """The classes of src/duebook/aio/parts.py."""
    for part, kind in PARTS.items():
        name = kind.__name__.removesuffix("Client")
        yield ""
        yield ""
        yield f"class {'Threaded' if part == 'runs' else 'Async'}{name}(AsyncPart):"
        yield f'    """As `book.{part}`, awaited."""'
        yield ""
        for method in _methods(kind):
            # mypy: `self` might be among fields of any name
            note = "  # type: ignore[arg-type]" if _takes_any(getattr(kind, method)) else ""
            yield f"    {method} = threaded({kind.__name__}.{method}){note}"
    yield ""
    yield ""


def _methods(kind: type) -> list[str]:
    ours = [base for base in reversed(kind.__mro__) if base.__module__.startswith("duebook")]
    found = {
        name: None
        for base in ours
        for name, value in vars(base).items()
        if inspect.isfunction(value) and not name.startswith("_")
    }
    return [name for name in found if name not in NOT_THREADED]


def _takes_any(method: Callable[..., object]) -> bool:
    every = inspect.signature(method).parameters.values()
    named = any(one.kind is one.VAR_KEYWORD and "Unpack" not in one.annotation for one in every)
    return named and not get_overloads(method)


DERIVED: Final[dict[str, list[Callable[[], Iterator[str]]]]] = {
    "src/duebook/model/policies.py": [typed_policies, typed_definition, typed_enqueue],
    "src/duebook/aio/parts.py": [async_imports, async_parts],
    "docs/api.md": [table_of_operations],
    "docs/capacity.md": [table_of_constants, table_of_needs],
    "docs/definition.md": [table_of_fields, table_of_short_forms],
}
"""File -> the content of its derived parts, in order."""


def derived_text(path: str) -> str:
    """The whole text that a file should have."""
    if path in REFERENCE:
        return "\n".join(REFERENCE[path]()).rstrip("\n") + "\n"
    lines: list[str] = []
    parts = iter(DERIVED[path])
    skipping = False
    for line in (ROOT / path).read_text("utf-8").splitlines():
        if END in line:
            skipping = False
        if not skipping:
            lines.append(line)
        if BEGIN in line:
            lines += next(parts)()
            skipping = True
    return "\n".join([*lines, ""])


def main() -> int:
    for path in (*DERIVED, *REFERENCE):
        text = derived_text(path)
        if not (ROOT / path).exists() or (ROOT / path).read_text("utf-8") != text:
            (ROOT / path).write_text(text, "utf-8")
            sys.stdout.write(f"wrote {path}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
