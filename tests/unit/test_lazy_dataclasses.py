"""Dataclasses that compile their methods late behave as those of Python, whose are the oracle."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
from dataclasses import field
from typing import Any, ClassVar, get_type_hints

import pytest

from duebook import lazy_dataclasses

LAZY: Any = lazy_dataclasses.dataclass
SHAPES: tuple[dict[str, bool], ...] = (
    {},
    {"slots": True},
    {"frozen": True},
    {"frozen": True, "slots": True},
    {"frozen": True, "slots": True, "order": True},
    {"frozen": True, "slots": True, "eq": False},
    {"eq": False},
)


def point(decorate: Any, **shape: bool) -> Any:
    @decorate(**shape)
    class Point:
        """A place."""

        ORIGIN: ClassVar[str] = "0, 0"
        x: int
        y: int = 2
        tags: list[str] = field(default_factory=list, compare=False)
        note: str = field(default="", repr=False, kw_only=True)
        made: int = field(default=7, init=False)
        seen: list[int] = field(default_factory=list, init=False, hash=False)

        def twice(self) -> int:
            return 2 * self.x

    return Point


def outcome(work: Any) -> object:
    """What it returns, or how it fails."""
    try:
        return work()
    except (TypeError, AttributeError) as error:
        return type(error), str(error)


QUESTIONS: tuple[Any, ...] = (
    lambda k: repr(k(1)),
    lambda k: repr(k(1, 3, tags=["a"], note="b")),
    lambda k: k(1) == k(1),
    lambda k: k(1) == k(1, tags=["other"]),
    lambda k: k(1) == k(1, note="other"),
    lambda k: k(1) == 1,
    lambda k: k(1) != k(2),
    lambda k: len({*map(hash, [k(1), k(1, tags=["other"])])}),
    lambda k: len({*map(hash, [k(1), k(2)])}),
    lambda k: k(1) < k(2),
    lambda k: min([k(3), k(1), k(2)]).x,
    lambda k: k(1) >= k(1),
    lambda k: k(),
    lambda k: k(1, 2, [], "too many"),
    lambda k: k(1, unknown=1),
    lambda k: (k(1).tags is k(1).tags, k(1).made, k(1).seen, k(1).twice(), k.ORIGIN),
    lambda k: setattr(k(1), "x", 2),
    lambda k: delattr(k(1), "x"),
    lambda k: hasattr(k(1), "__dict__"),
    lambda k: dataclasses.replace(k(1), y=5).y,
    lambda k: dataclasses.asdict(k(1)),
    lambda k: [each.name for each in dataclasses.fields(k)],
    lambda k: copy.copy(k(1, 5)).y,
    lambda k: copy.deepcopy(k(1, 5)).y,
    lambda k: k.__match_args__,
    lambda k: list(inspect.signature(k).parameters),
    lambda k: [p.kind for p in inspect.signature(k).parameters.values()],
    lambda k: inspect.signature(k).parameters["x"].annotation,
    lambda k: (k.__init__.__qualname__, k.__eq__.__name__, k.__doc__, k.__qualname__),
    dataclasses.is_dataclass,
    lambda k: str(inspect.signature(k)),
    lambda k: get_type_hints(k.__init__),
)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_they_do_what_those_of_python_do(shape: dict[str, bool]) -> None:
    for question in QUESTIONS:
        lazy, eager = point(LAZY, **shape), point(dataclasses.dataclass, **shape)
        assert outcome(lambda q=question, k=lazy: q(k)) == outcome(
            lambda q=question, k=eager: q(k)
        ), getattr(question, "__code__", question)


def test_they_compile_nothing_before_it_is_used_and_each_method_once() -> None:
    kind = point(LAZY, frozen=True, slots=True)
    assert not any(map(inspect.isfunction, (vars(kind)[name] for name in ("__init__", "__eq__"))))
    made = kind(1)
    init = vars(kind)["__init__"]
    assert inspect.isfunction(init)
    assert not inspect.isfunction(vars(kind)["__eq__"])
    assert made == kind(1)
    assert vars(kind)["__init__"] is init


@LAZY(frozen=True, slots=True)
class Base:
    first: int

    def __post_init__(self) -> None:
        if self.first < 0:
            raise ValueError("below zero")


@LAZY(frozen=True, slots=True)
class Derived(Base):
    second: str = "b"

    def __repr__(self) -> str:
        return "as its author says"


class Plain(Base):
    """Not decorated."""


def test_a_class_that_derives_from_another_has_the_fields_of_both() -> None:
    base: Any = Base
    derived: Any = Derived
    assert repr(base(1)) == "Base(first=1)"
    assert (derived(1, "c").first, derived(1, "c").second) == (1, "c")
    assert repr(derived(1)) == "as its author says"
    assert derived(1) != base(1)
    with pytest.raises(ValueError, match="below zero"):
        derived(-1)


def test_a_class_below_that_is_not_decorated_may_have_attributes_of_its_own() -> None:
    kind: Any = Plain
    plain = kind(1)
    plain.other = 2
    assert plain.other == 2
    del plain.other
    with pytest.raises(dataclasses.FrozenInstanceError, match="cannot assign to field 'first'"):
        plain.first = 2


def test_a_frozen_one_with_slots_goes_through_a_pickle() -> None:
    derived: Any = Derived
    assert pickle.loads(pickle.dumps(derived(1, "c"))) == derived(1, "c")  # noqa: S301 - our own


def test_what_its_author_wrote_stays() -> None:
    @LAZY(frozen=True, slots=True)
    class Own:  # noqa: PLW1641 - its hash is not its author's
        x: int

        def __eq__(self, other: object) -> bool:
            return True

        def __init__(self) -> None:
            object.__setattr__(self, "x", 9)

    @LAZY(slots=True)
    class Counted:
        x: int

        def __hash__(self) -> int:
            return 5

    made: Any = Own()
    assert made.x == 9
    assert made == 1
    assert hash(made) == hash((9,))
    counted: Any = Counted
    assert hash(counted(1)) == 5


def test_one_that_holds_itself_can_be_shown() -> None:
    kind = point(LAZY)
    made = kind(1)
    made.tags.append(made)
    assert repr(made).endswith("Point(x=1, y=2, tags=[...], made=7, seen=[])")
