"""Values in and out of JSON, by their fields."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, NamedTuple, is_typeddict

import pytest

import duebook.api.app  # noqa: F401 - all that is shown is known then
from duebook.api.schemas.definitions import SPREAD
from duebook.api.shapes import Schemas, keys_of
from duebook.model.codec import NEVER_SHOWN, Shown, decode, encode, parts_of, shown, shown_as
from duebook.model.run import LatestRun
from duebook.model.schedule import Schedule

AT = datetime(2026, 3, 29, 2, 10, tzinfo=UTC)


@shown()
class Wheel(NamedTuple):
    """One of several."""

    size: int


@shown()
@dataclass(frozen=True)
class Engine:
    """What drives."""

    power: Annotated[int | None, Shown("In watts.", key="engine_power")]
    oil: Annotated[str, Shown(key="engine_oil")] = "fresh"


@shown("Vehicle")
@dataclass(frozen=True)
class Car:
    """All that a value may have."""

    made_at: datetime
    age: timedelta
    wheels: tuple[Wheel, ...]
    sold_at: datetime | None = None
    engine: Annotated[Engine | None, Shown(spread=True)] = None
    notes: Annotated[tuple[str, ...], Shown("What is odd.", sparse=True)] = ()
    owner: Annotated[str, NEVER_SHOWN] = "nobody"
    plate: Annotated[str, Shown(of=lambda car: car.plate[:2] + "…")] = "AB 1"

    @property
    def sold(self) -> Annotated[bool, Shown("Whether it has an owner.")]:
        return self.sold_at is not None

    @property
    def parked(self) -> bool:
        return True


CAR = Car(AT, timedelta(seconds=90), (Wheel(17), Wheel(18)), notes=("loud",), owner="Ann")
FORM = {
    "made_at": "2026-03-29T02:10:00Z",
    "age": 90.0,
    "wheels": [{"size": 17}, {"size": 18}],
    "sold_at": None,
    "engine_power": None,
    "engine_oil": None,
    "notes": ["loud"],
    "plate": "AB…",
    "sold": False,
}


def test_a_value_is_shown_by_its_fields() -> None:
    assert encode(CAR) == FORM


def test_what_is_empty_is_left_out_where_that_is_declared() -> None:
    assert encode(Car(AT, timedelta(), ())).keys() == FORM.keys() - {"notes"}


def test_a_value_is_read_back_but_for_what_is_never_shown() -> None:
    read = decode(Car, FORM | {"engine_power": 70_000, "engine_oil": "old"})
    assert read == Car(AT, CAR.age, CAR.wheels, None, Engine(70_000, "old"), ("loud",), plate="AB…")
    assert decode(Car, FORM, owner="Ann").owner == "Ann"


def test_what_a_newer_server_adds_is_left_out_and_what_an_older_lacks_is_at_its_default() -> None:
    form = {"made_at": FORM["made_at"], "age": 90.0, "wheels": [], "of_tomorrow": 1}
    assert decode(Car, form) == Car(AT, CAR.age, ())


def test_the_document_has_what_is_shown() -> None:
    schemas = Schemas({})
    assert schemas.reference(Car) == {"$ref": "#/components/schemas/Vehicle"}
    vehicle = schemas.named["Vehicle"]
    assert vehicle["properties"].keys() == FORM.keys()
    assert set(vehicle["required"]) == FORM.keys() - {"notes"}
    assert vehicle["properties"]["engine_power"] == {
        "anyOf": [{"type": "integer"}, {"type": "null"}],
        "description": "In watts.",
        "title": "Engine Power",
    }


def test_a_field_that_sounds_secret_says_that_it_is_shown_or_is_refused() -> None:
    @shown()
    class Safe(NamedTuple):
        door_password: str

    with pytest.raises(TypeError, match=r"Safe\.door_password sounds secret"):
        encode(Safe("1234"))


def test_a_field_that_has_no_json_is_refused() -> None:
    @shown()
    class Box(NamedTuple):
        content: set[str]

    with pytest.raises(TypeError, match=r"Box\.content: set\[str\] has no JSON"):
        encode(Box(set()))


HIDDEN = {
    "Alert": {"message"},
    "AlertRule": {"schedule_id", "sent"},
    "Calendar": {"days"},
    "ConsumerSettings": {"namespace"},
    "Edit": {"missed"},
    "EnqueuedRun": {"output_secrets"},
    "Event": {"replay"},
    "Lag": {"namespace", "consumer", "kind"},
    "Namespace": {"schedules", "fires_per_minute", "definition_bytes"},
    "Quota": {"namespace"},
    "Run": {"output_secrets"},
    "Status": {"asked"},
}
"""Fields that stay inside, by the names of their classes in the document."""


def shown_kinds() -> dict[str, Any]:
    """Every class of Duebook that is shown."""
    modules = [module for name, module in sys.modules.items() if name.startswith("duebook.")]
    found = {kind for module in modules for kind in vars(module).values() if shown_as(kind)}
    return {str(shown_as(kind)): kind for kind in found if not is_typeddict(kind)}


def test_only_these_fields_are_never_shown() -> None:
    kinds = shown_kinds()
    assert len(kinds) > 30
    hidden = {
        name: fields - {part.name for part in parts_of(kind)}
        for name, kind in kinds.items()
        if (fields := set(getattr(kind, "_fields", getattr(kind, "__match_args__", ()))))
    }
    assert {name: fields for name, fields in hidden.items() if fields} == HIDDEN


def test_every_class_has_a_name_of_its_own_and_can_be_documented() -> None:
    schemas = Schemas(SPREAD)
    for kind in shown_kinds().values():
        schemas.reference(kind)
    assert keys_of(Schedule, SPREAD).keys() >= keys_of(LatestRun).keys()


def test_two_classes_of_one_name_are_refused() -> None:
    @shown("Wheel")
    class Other(NamedTuple):
        size: int

    schemas = Schemas({})
    schemas.reference(Wheel)
    with pytest.raises(TypeError, match="two shapes are called Wheel"):
        schemas.reference(Other)
