"""Which payloads a function takes."""

from __future__ import annotations

import datetime as dt
import json
import typing
from collections.abc import Collection
from enum import Enum, StrEnum
from pathlib import Path
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Literal,
    NewType,
    Optional,
    Protocol,
    TypedDict,
)

import pytest

from duebook import Context
from duebook.errors import Invalid
from duebook.targets.function_signature import FunctionSignature, fits

if TYPE_CHECKING:
    from collections.abc import Callable


def plain(audience: str, count: int = 1) -> None: ...


def with_context(ctx: Context, audience: str = "all") -> None: ...


def named_otherwise(run: Context) -> None: ...


def maybe_context(run: Context | None = None) -> None: ...


class Color(Enum):
    RED = "red"


class Colour(StrEnum):
    RED = "red"


class Row(TypedDict):
    rows: int


class Closable(Protocol):
    def close(self) -> None: ...


Number = NewType("Number", int)


def untyped(ctx, audience) -> None: ...  # type: ignore[no-untyped-def]


def open_to_all(ctx: Context, audience: str = "", **rest: Any) -> None: ...


def keywords(*, count: int | None = None) -> None: ...


async def waiting(ctx: Context, rows: list[int]) -> None: ...


@pytest.mark.parametrize(
    ("function", "payload"),
    [
        (plain, {"audience": "staff"}),
        (plain, {"audience": "staff", "count": 3}),
        (with_context, {}),
        (named_otherwise, {}),
        (untyped, {"audience": 3}),
        (open_to_all, {"anything": {"a": 1}}),
        (keywords, {"count": None}),
        (waiting, {"rows": [1, 2]}),
    ],
)
def test_a_payload_that_fits(function: Callable[..., Any], payload: dict[str, Any]) -> None:
    FunctionSignature(function).check(payload)


@pytest.mark.parametrize(
    ("function", "payload", "told"),
    [
        (plain, {}, 'payload has no "audience"; the task takes audience, count (optional)'),
        (plain, {"audience": 3}, "payload audience 3 is not of type str"),
        (plain, {"audience": "a", "count": "3"}, 'payload count "3" is not of type int'),
        (plain, {"audience": "a", "count": True}, "payload count True is not of type int"),
        (named_otherwise, {"x": 1}, 'payload has "x", but the task takes no arguments'),
        (with_context, {"ctx": 1}, 'payload has "ctx", but the task takes audience (optional)'),
        (waiting, {"rows": [1, "2"]}, 'payload rows [1, "2"] is not of type list[int]'),
        (open_to_all, {"audience": None}, "payload audience None is not of type str"),
    ],
)
def test_a_payload_that_does_not_fit_says_why(
    function: Callable[..., Any], payload: dict[str, Any], told: str
) -> None:
    with pytest.raises(Invalid) as caught:
        FunctionSignature(function).check(payload)
    assert str(caught.value) == told


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (plain, False),
        (with_context, True),
        (named_otherwise, True),
        (maybe_context, True),
        (untyped, True),
    ],
)
def test_a_function_gets_the_context_when_it_asks_for_it(
    function: Callable[..., Any], expected: bool
) -> None:
    assert FunctionSignature(function).takes_context is expected


def test_a_parameter_that_no_payload_can_name_is_refused() -> None:
    def nameless(ctx: Context, audience: str, /) -> None: ...

    with pytest.raises(Invalid, match="audience is positional-only"):
        FunctionSignature(nameless)


class Shop:
    def ship(self, order: int) -> None: ...


def context_last(order: int, ctx: Context) -> None: ...


def dated(day: dt.date) -> None: ...


def coloured(colours: Color | set[int]) -> None: ...


@pytest.mark.parametrize(
    ("function", "told"),
    [
        (Shop.ship, "parameter self belongs to a method, but a task is a function; move it out"),
        (context_last, "parameter ctx is the context and must come first"),
        (
            dated,
            "parameter day has type date, which JSON cannot represent; accept a str",
        ),
        (
            coloured,
            r"parameter colours has type .*Color \| set\[int\], which JSON cannot represent",
        ),
    ],
)
def test_a_function_that_no_payload_could_call_is_refused(
    function: Callable[..., Any], told: str
) -> None:
    with pytest.raises(Invalid, match=told):
        FunctionSignature(function)


def test_what_no_payload_need_fill_may_be_of_any_type() -> None:
    def reports(
        day: dt.date | None = None, mode: Literal["a"] = "a", out: Path = Path()
    ) -> None: ...

    def chooses(mode: Literal["a", "b"], day: dt.date | str) -> None: ...

    FunctionSignature(reports).check({"mode": "a", "day": None})
    FunctionSignature(chooses).check({"mode": "b", "day": "2026-01-01"})
    with pytest.raises(Invalid, match='payload out "/tmp" is not of type Path'):
        FunctionSignature(reports).check({"out": "/tmp"})  # noqa: S108


def test_hints_that_only_a_type_checker_knows_are_no_obstacle() -> None:
    def odd(ctx: Context, frame: DataFrame, rows: int) -> None: ...  # type: ignore[name-defined]  # noqa: F821

    FunctionSignature(odd).check({"frame": 1, "rows": 2})
    with pytest.raises(Invalid, match='payload rows "2" is not of type int'):
        FunctionSignature(odd).check({"frame": 1, "rows": "2"})


def test_the_context_is_known_by_its_name_when_only_a_type_checker_imports_it() -> None:
    names: dict[str, Any] = {}
    text = "from __future__ import annotations\ndef odd(run: Context, rows: int): ..."
    exec(text, names)  # noqa: S102
    assert FunctionSignature(names["odd"]).takes_context


@pytest.mark.parametrize(
    ("value", "hint", "expected"),
    [
        (1, float, True),
        (1.5, int, False),
        (None, Optional[str], True),  # noqa: UP045
        ("a", Literal["a", "b"], True),
        (1, Literal[True], False),
        ({"a": [1]}, dict[str, list[int]], True),
        ({"a": ["b"]}, dict[str, list[int]], False),
        ([1], dict, False),
        ("text", list, False),
        ("2026-01-01", Annotated[str, "a date"], True),
        ({"any": "thing"}, Context, False),
        ("2026-01-01", dt.date, False),
        ("red", Color, False),
        ([1], tuple[int], False),
        ([1], typing.Iterable, True),
        ({"a": 1}, typing.Mapping, True),
        ([1], Collection, True),
        ({"rows": 1}, Row, True),
        ([1], Row, False),
        (1, Number, True),
        ("1", Number, False),
        ("text", Closable, True),
        (object(), Any, True),
        (Colour.RED, str, True),
    ],
)
def test_values_and_types(value: object, hint: Any, expected: bool) -> None:
    assert fits(value, hint) is expected


def test_a_signature_checks_the_same_payloads_in_another_process() -> None:
    def reports(
        ctx: Context,
        rows: list[int],
        mode: Literal["a", "b"] = "a",
        day: dt.date | None = None,
        **rest: str,
    ) -> None: ...

    told = FunctionSignature.load(json.loads(json.dumps(FunctionSignature(reports).to_json())))
    assert told.takes_context
    right: list[dict[str, Any]] = [
        {"rows": [1]},
        {"rows": [], "mode": "b", "day": None, "else": "x"},
    ]
    wrong: list[dict[str, Any]] = [
        {},
        {"rows": ["1"]},
        {"rows": [1], "mode": "c"},
        {"rows": [1], "day": "today"},
    ]
    for payload in right:
        told.check(payload)
    for payload in wrong:
        with pytest.raises(Invalid) as here:
            FunctionSignature(reports).check(payload)
        with pytest.raises(Invalid) as there:
            told.check(payload)
        assert str(there.value) == str(here.value)
