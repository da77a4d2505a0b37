"""Which payloads a function takes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal, Optional

import pytest

from duebook import Context
from duebook.errors import Invalid
from duebook.targets.signature import Signature, fits

if TYPE_CHECKING:
    from collections.abc import Callable


def plain(audience: str, count: int = 1) -> None: ...


def with_context(ctx: Context, audience: str = "all") -> None: ...


def named_otherwise(run: Context) -> None: ...


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
    Signature(function).check(payload)


@pytest.mark.parametrize(
    ("function", "payload", "told"),
    [
        (plain, {}, 'payload lacks "audience"; the task takes audience, count (optional)'),
        (plain, {"audience": 3}, "payload audience 3 is no str"),
        (plain, {"audience": "a", "count": "3"}, 'payload count "3" is no int'),
        (plain, {"audience": "a", "count": True}, "payload count True is no int"),
        (named_otherwise, {"x": 1}, 'payload has "x", and the task takes no arguments'),
        (with_context, {"ctx": 1}, 'payload has "ctx", and the task takes audience (optional)'),
        (waiting, {"rows": [1, "2"]}, "payload rows [1, '2'] is no list[int]"),
        (open_to_all, {"audience": None}, "payload audience None is no str"),
    ],
)
def test_a_payload_that_does_not_fit_says_why(
    function: Callable[..., Any], payload: dict[str, Any], told: str
) -> None:
    with pytest.raises(Invalid) as caught:
        Signature(function).check(payload)
    assert str(caught.value) == told


@pytest.mark.parametrize(
    ("function", "expected"),
    [(plain, False), (with_context, True), (named_otherwise, True), (untyped, True)],
)
def test_a_function_gets_the_context_when_it_asks_for_it(
    function: Callable[..., Any], expected: bool
) -> None:
    assert Signature(function).takes_context is expected


def test_a_parameter_that_no_payload_can_name_is_refused() -> None:
    def nameless(ctx: Context, audience: str, /) -> None: ...

    with pytest.raises(Invalid, match="audience has no name"):
        Signature(nameless)


def test_hints_that_only_a_type_checker_knows_are_no_obstacle() -> None:
    def odd(ctx: Context, frame: DataFrame) -> None: ...  # type: ignore[name-defined]  # noqa: F821

    Signature(odd).check({"frame": 1})


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
        ({"any": "thing"}, Context, True),
        (object(), Any, True),
    ],
)
def test_values_and_types(value: object, hint: Any, expected: bool) -> None:
    assert fits(value, hint) is expected
