"""docs/reference/python.md: the classes and functions that programs use, with their docstrings."""

from __future__ import annotations

import inspect
import re
from typing import TYPE_CHECKING, Any, Final

import duebook
from duebook import errors
from duebook.client import PARTS
from duebook.remote import RemoteBook
from duebook.testing import Simulation
from tools.reference.writing import NOTE, paragraphs, table, type_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["python_page"]

WIDTH: Final = 92
"""Line width that needs no scroll bar."""
_OF_BOOK: Final = (
    "task",
    "enqueue",
    "declare",
    "run",
    "running",
    "stop",
    "readiness",
    "problems",
    "close",
)
_TRIGGERS: Final = ("cron", "every", "daily", "weekly", "at", "rrule")
_OF_TRIGGERS: Final = (
    *("next_after", "previous_before", "between", "count", "omitted", "describe", "warnings"),
    "to_json",
)


def python_page() -> Iterator[str]:
    yield from ("# Python API", "", NOTE, "")
    yield from (
        "The names below are imported from `duebook`, unless another module is given.",
        "[The library](../library.md) and [Tasks](../tasks.md) show how they are used.",
        "",
    )
    yield from _class("Duebook", duebook.Duebook, _OF_BOOK, "book")
    for part, kind in PARTS.items():
        yield from (f"## book.{part}", "")
        yield from paragraphs(inspect.getdoc(kind) or "") if kind.__doc__ else ()
        for name, method in _methods(kind):
            yield from _function(f"book.{part}.{name}", method)
    yield from _class("Context", duebook.Context, _public(duebook.Context), "ctx", made=False)
    yield from ("## Triggers", "")
    for name in _TRIGGERS:
        yield from _function(name, getattr(duebook, name))
    trigger = type(duebook.cron("0 0 * * *"))
    for name in _OF_TRIGGERS:
        yield from _function(f"trigger.{name}", getattr(trigger, name))
    yield from _class("Retry", duebook.Retry, (), "retry")
    yield from _class("Output", duebook.Output, (), "output")
    yield from _class("RemoteBook", RemoteBook, (), "book", module="duebook.remote")
    simulation = [name for name in _public(Simulation) if name not in ("book", "now")]
    yield from _class("Simulation", Simulation, simulation, "sim", module="duebook.testing")
    yield from _errors()


def _class(
    name: str,
    kind: type[Any],
    methods: tuple[str, ...] | list[str],
    value: str,
    *,
    module: str = "duebook",
    made: bool = True,
) -> Iterator[str]:
    yield from (f"## {name}", "")
    if module != "duebook":
        yield from (f"From `{module}`.", "")
    if made:
        yield from ("```text", _call(name, kind), "```", "")
    yield from paragraphs(inspect.getdoc(kind) or "")
    for method in methods:
        yield from _function(f"{value}.{method}", inspect.getattr_static(kind, method))


def _public(kind: type[Any]) -> list[str]:
    return [name for name in vars(kind) if not name.startswith("_") and _documented(kind, name)]


def _documented(kind: type[Any], name: str) -> bool:
    found = inspect.getattr_static(kind, name)
    return (inspect.isfunction(found) or isinstance(found, property)) and bool(found.__doc__)


def _methods(kind: type[Any]) -> Iterator[tuple[str, Callable[..., Any]]]:
    """The methods of a Protocol and its bases, in the order of their source."""
    for base in reversed(kind.__mro__):
        for name, found in vars(base).items():
            if (
                not name.startswith("_")
                and inspect.isfunction(found)
                and found.__doc__
                and base.__module__ != "typing"
            ):
                yield name, found


def _function(title: str, function: Any) -> Iterator[str]:
    yield from (f"### {title}", "")
    if not isinstance(function, property):
        yield from ("```text", _call(title, function), "```", "")
    yield from paragraphs(inspect.getdoc(function) or "")


def _call(name: str, function: Any) -> str:
    """Name, arguments and result, without annotations for programs; long argument lists have one
    argument per line."""
    try:
        signature = inspect.signature(function, eval_str=True)
    except NameError:  # it names types that are imported only for type checking
        signature = inspect.signature(function)
    shown = [_parameter(one) for one in signature.parameters.values() if one.name != "self"]
    result = signature.return_annotation
    ends = "" if result in (inspect.Parameter.empty, None, "None") else f" -> {type_text(result)}"
    arguments = list(_separated(signature, shown))
    line = f"{name}({', '.join(arguments)}){ends}"
    if len(line) <= WIDTH:
        return line
    rows = "".join(f"    {argument},\n" for argument in arguments)
    return f"{name}(\n{rows}){ends}"


def _separated(signature: inspect.Signature, shown: list[str]) -> Iterator[str]:
    """The arguments, with the stars and slashes between them."""
    kinds = [one.kind for one in signature.parameters.values() if one.name != "self"]
    for position, (text, kind) in enumerate(zip(shown, kinds, strict=True)):
        before = kinds[position - 1] if position else None
        if kind is inspect.Parameter.KEYWORD_ONLY and before not in (
            inspect.Parameter.KEYWORD_ONLY,
            inspect.Parameter.VAR_POSITIONAL,
        ):
            yield "*"
        yield text


def _parameter(parameter: inspect.Parameter) -> str:
    stars = {"VAR_KEYWORD": "**", "VAR_POSITIONAL": "*"}.get(parameter.kind.name, "")
    name, hint = stars + parameter.name, parameter.annotation
    text = "" if hint is inspect.Parameter.empty else type_text(hint)
    typed = f"{name}: {text}" if text and "Unpack" not in text and text != "Any" else name
    if parameter.default is inspect.Parameter.empty:
        return typed
    default = re.sub(r"datetime\.timedelta\(seconds=(\d+)\)", r"'\1s'", repr(parameter.default))
    return f"{typed} = {default}"


def _errors() -> Iterator[str]:
    yield from ("## Errors", "", "From `duebook.errors`. All derive from `DuebookError`.", "")
    found = [getattr(errors, name) for name in errors.__all__]
    kinds = [one for one in found if isinstance(one, type) and issubclass(one, errors.DuebookError)]
    rows = [
        (f"`{one.__name__}`", f"`{one.code}`", f"`{one.__mro__[1].__name__}`", one.__doc__ or "")
        for one in kinds
        if one is not errors.DuebookError
    ]
    yield from table(("error", "code", "is a", "meaning"), rows)
