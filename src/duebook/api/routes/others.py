"""The other resources: handlers that depend on the caller, and return more than the use case."""

from __future__ import annotations

from typing import Any

from starlette.responses import Response

from duebook.api.answers import Answer, listed
from duebook.api.asking import Ask, Everywhere
from duebook.api.calls import pass_on
from duebook.api.operations import Handlers
from duebook.api.permissions import choose_namespace, refuse_role
from duebook.book import Book
from duebook.book.readiness import look
from duebook.client import TABLE
from duebook.model.access import Role
from duebook.model.codec import encode
from duebook.model.queue import QueueLoad

__all__ = ["handlers"]

handlers = Handlers()


@handlers
def list_flows(book: Book, **page: Any) -> Answer:
    found = book.flows.list(**page)
    form = {"items": [encode(view) for view in found], "next_cursor": found.next_cursor}
    return Answer(form | {"problems": book.flows.problems()})


@handlers
def limit_queue(book: Book, name: str, **limits: Any) -> Answer:
    queue = book.queues.limit(name, **limits)
    loads = (load for load in book.queues.list() if load.queue.name == name)
    return Answer(encode(next(loads, QueueLoad(queue, 0, 0))))


@handlers
def list_changes(book: Book, ask: Ask, everywhere: bool, **asked: Any) -> Answer:
    if everywhere:
        refuse_role(ask.caller, Role.VIEWER, everywhere=True)
    return pass_on(TABLE["list_changes"], book, everywhere=everywhere, **asked)


@handlers
def list_namespaces(book: Book, ask: Ask) -> Answer:
    found = [use for use in book.namespaces.list() if ask.caller.sees(use.quota.namespace)]
    return listed([encode(use) for use in found])


@handlers
def get_me(ask: Everywhere) -> Response:
    caller = ask.caller
    form = {"name": caller.name, "role": str(caller.role), "namespaces": list(caller.namespaces)}
    return Answer(form).response()


@handlers
def get_status(book: Book, ask: Ask, grace: str, namespace: str | None) -> Answer:
    seen = None if ask.caller.everywhere else ask.caller.namespaces
    if namespace is not None:
        seen = (choose_namespace(ask.caller, namespace),)
    return Answer(encode(look(book.store, grace, seen)))
