"""Calls use cases through the API: reads the arguments that the table names from a request, and
writes the result. Most operations need nothing else."""

from __future__ import annotations

import inspect
from dataclasses import fields
from datetime import datetime
from functools import cached_property, partial
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args, get_origin

from starlette.responses import Response

from duebook.api.answers import Answer, about_schedule, listed, paged
from duebook.api.asking import Ask, Everywhere, Here, Version, Writing
from duebook.api.bodies import read_definition, read_fields
from duebook.api.parameters import Header, Query
from duebook.book import Book
from duebook.client.arguments import Given
from duebook.client.use_cases import V1, UseCase
from duebook.model.codec import encode, shown_as
from duebook.model.fields import check_payload, one_of, read_flag, read_instant, read_text
from duebook.model.listing import Listing
from duebook.model.run import Run
from duebook.model.schedule import Schedule
from duebook.timetext import format_instant

if TYPE_CHECKING:
    from collections.abc import Callable

    from duebook.api.bodies import Reader
    from duebook.client.use_cases import Argument

__all__ = ["Call", "pass_on"]


class Call:
    """The handler of an operation. `work` executes it, given a book, `ask` if it has that
    parameter, and the arguments of the use case by name; by default it calls the use case of
    the book."""

    def __init__(self, case: UseCase, work: Callable[..., Any] | None = None) -> None:
        self._case = case
        self._work = work or partial(pass_on, case)

    def __call__(self, ask: Ask, **values: Any) -> Response:
        case = self._case
        if case.keyless:
            ask.refuse_key()
        values |= self._read_body(ask)
        also = (ask,) if "ask" in self._wanted else ()
        if case.keyed:
            return ask.write(lambda book: self._work(book, *also, **values))
        if not case.computes:
            return _response(self._work(ask.book, *also, **values), ask)
        with ask.computing() as book:
            return _response(self._work(book, *also, **values), ask)

    @cached_property
    def _wanted(self) -> dict[str, inspect.Parameter]:
        return dict(inspect.signature(self._work, eval_str=True).parameters)

    @cached_property
    def __signature__(self) -> inspect.Signature:
        """What is read of a request besides its body, in the form of a handler's signature."""
        case = self._case
        kind = Writing if case.keyed else Everywhere if case.shared or case.everywhere else Here
        found: dict[str, tuple[Any, Any]] = {"ask": (kind, inspect.Parameter.empty)}
        for argument in case.arguments:
            if argument.place == "path":
                found[argument.name] = (str, inspect.Parameter.empty)
            elif argument.place == "query":
                found[argument.name] = _in_query(argument)
            elif argument.place == "version":
                found[argument.name] = (Version, inspect.Parameter.empty)
        for name, extra in self._wanted.items():
            if isinstance(_said(extra.annotation), Header):
                found[name] = (extra.annotation, extra.default)
        return inspect.Signature(
            [
                inspect.Parameter(
                    name, inspect.Parameter.KEYWORD_ONLY, annotation=hint, default=default
                )
                for name, (hint, default) in sorted(found.items(), key=lambda item: _late(item[0]))
            ]
        )

    def _read_body(self, ask: Ask) -> dict[str, Any]:
        """The arguments in the body. The fields of a definition are left to the model, which
        validates them all at once."""
        arguments = [one for one in self._case.arguments if one.place == "body"]
        if any(one.place == "rest" for one in self._case.arguments):
            body = dict(ask.body)
            wanted = [one for one in arguments if one.required or one.key in body]
            given = {one.name: body.pop(one.key, None) for one in wanted}
            return given | read_definition(body, self._case.names)
        if not arguments:
            return {}
        required = tuple(one.key for one in arguments if one.required)
        given = read_fields(ask.body, {one.key: _reader(one) for one in arguments}, required)
        return {one.name: given[one.key] for one in arguments if one.key in given}


def pass_on(case: UseCase, book: Book, /, **values: Any) -> Answer:
    """Call the use case, and respond with its result."""
    assert case.call is not None  # noqa: S101 - it is declared by a method
    part = getattr(book, case.part) if case.part else book
    call = getattr(part, case.call.__name__)
    if get_origin(case.returns) is not Listing:
        return _answer(case, call(**values))
    cursor, limit = values.pop("cursor"), values.pop("limit")
    return paged(lambda at, most: call(**values, cursor=at, limit=most), encode, cursor, limit)


def _answer(case: UseCase, result: Any) -> Answer:
    if result is None:
        return Answer(status=case.status)
    if isinstance(result, Schedule):
        return about_schedule(result, case.status)
    if isinstance(case.result, tuple):
        return Answer(_members(case.result, result), case.status)
    if case.result:
        return Answer({case.result: _form(result)}, case.status)
    if isinstance(result, list):
        return listed([_form(item) for item in result])
    created = isinstance(result, Run) and case.status == 201
    return Answer(
        _form(result), case.status, {"Location": f"{V1}/runs/{result.id}"} if created else {}
    )


def _members(names: tuple[str, ...], result: tuple[Any, ...]) -> dict[str, Any]:
    """Several results as members of one object; one without a name is the object itself."""
    members: dict[str, Any] = {}
    for name, value in zip(names, result, strict=True):
        members |= {name: _form(value)} if name else _form(value)
    return members


def _form(value: Any) -> Any:
    if isinstance(value, datetime):
        return format_instant(value)
    return encode(value) if shown_as(type(value)) is not None else value


def _response(answer: Answer | Response, ask: Ask) -> Response:
    return answer.response(ask.request) if isinstance(answer, Answer) else answer


def _in_query(argument: Argument) -> tuple[Any, Any]:
    given, default = argument.given, argument.default
    if given.send is not None and default not in (None, inspect.Parameter.empty):
        default = given.send(default)
    kind = argument.kind
    if argument.nullable or default is None:
        kind = kind | None
    said = Query(*(getattr(given, known.name) for known in fields(Given)))
    return Annotated[kind, said], default


def _late(name: str) -> int:
    """Sorts the parameters for paging last."""
    return ("cursor", "limit").index(name) + 1 if name in ("cursor", "limit") else 0


def _said(hint: Any) -> Any:
    return hint.__metadata__[0] if get_origin(hint) is Annotated else None


def _reader(argument: Argument) -> Reader:
    if argument.given.read is not None:
        return argument.given.read
    kinds = argument.kinds
    if get_origin(kinds[0]) is Literal:
        return one_of(get_args(kinds[0]))
    if datetime in kinds:
        return read_instant
    if get_origin(kinds[0]) is dict:
        return check_payload
    return {bool: read_flag, str: read_text}[kinds[0]]
