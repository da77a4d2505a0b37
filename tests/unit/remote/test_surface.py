"""The client of a server has the surface of the local one: nothing is forgotten."""

from __future__ import annotations

import inspect
from functools import cached_property
from importlib import import_module
from typing import Any, NoReturn

import pytest

from duebook.book import Book
from duebook.remote import RemoteBook
from duebook.remote.needs import NeedsDatabase

OF_THE_DATABASE = {
    "store",
    "enqueue",
    "schedules.act_on",
    "schedules.declare",
    "schedules.preview_create",
    "tokens.check",
    "namespaces.recount",
    "flows.source",
    "flows.broken_file",
    "flows.broken_source",
    "flows.params",
    "events.consume",
    "events.consumer",
    "events.serve",
}
"""What no server does for somebody far away; everything else works through it."""
INHERITED = {"problems", "events.list", "events.latest", "events.tail", "events.sinks"}
"""What is made of other use cases."""


def public(kind: type[Any]) -> dict[str, Any]:
    """What a class itself offers, by name."""
    own = {name for base in kind.__mro__[:-1] for name in vars(base) if not name.startswith("_")}
    return {name: inspect.getattr_static(kind, name) for name in own}


def parts() -> dict[str, tuple[type[Any], type[Any]]]:
    """The parts of a book, such as `schedules`, here and far away."""
    found = {}
    for name, value in public(Book).items():
        if isinstance(value, cached_property):
            kinds = []
            for book in (Book, RemoteBook):
                getter = inspect.getattr_static(book, name).func
                module = inspect.getmodule(getter)
                kinds.append(_kind(module, name, getter.__annotations__["return"]))
            found[name] = (kinds[0], kinds[1])
    return found


def _kind(module: Any, part: str, kind: str) -> type[Any]:
    """A class that its module knows, or that is imported where it is needed."""
    found: type[Any] | None = vars(module).get(kind)
    return found or getattr(import_module(f"{module.__package__}.{part}"), kind)


def verbs() -> list[tuple[str, type[Any], type[Any], str]]:
    """(path, local class, remote class, name) of everything that can be called."""
    calls = [
        (name, Book, RemoteBook, name)
        for name, value in public(Book).items()
        if inspect.isfunction(value)
    ]
    for part, (local, remote) in parts().items():
        calls += [
            (f"{part}.{name}", local, remote, name)
            for name, value in public(local).items()
            if inspect.isfunction(value)
        ]
    return sorted(calls, key=lambda call: call[0])


def test_a_book_has_the_parts_that_this_test_looks_at() -> None:
    assert {"schedules", "runs", "queues", "templates", "tokens", "audit"} <= set(parts())
    assert "schedules.create" in {path for path, *_ in verbs()}


def _path(value: object) -> str:
    return value if isinstance(value, str) and "." in value else ""


@pytest.mark.parametrize(("path", "local", "remote", "name"), verbs(), ids=_path)
def test_every_use_case_is_spoken_over_rest(
    path: str, local: type[Any], remote: type[Any], name: str
) -> None:
    if path in INHERITED:
        return
    assert name in vars(remote), f"{remote.__name__} has no {name}"
    theirs, ours = getattr(local, name), getattr(remote, name)
    returned = inspect.signature(ours).return_annotation
    assert (returned in (NoReturn, "NoReturn")) == (path in OF_THE_DATABASE), path
    assert parameters(ours) == parameters(theirs), path


def parameters(function: Any) -> list[tuple[str, Any, Any]]:
    found = inspect.signature(inspect.unwrap(function)).parameters.values()
    return [(parameter.name, parameter.kind, parameter.default) for parameter in found]


def test_what_needs_the_database_says_so() -> None:
    with RemoteBook("http://127.0.0.1:1") as book:
        with pytest.raises(NeedsDatabase, match="give --database"):
            _ = book.store
        with pytest.raises(NeedsDatabase):
            book.enqueue("digest")
        with pytest.raises(NeedsDatabase):
            book.schedules.declare("digest", "code:shop")
        with pytest.raises(NeedsDatabase):
            book.tokens.check("dbk_x")
        with pytest.raises(NeedsDatabase, match="consuming events needs the database"):
            book.events.consume("orders", "billing")
        with pytest.raises(NeedsDatabase, match="in a transaction"):
            book.events.publish("orders", connection=object())
