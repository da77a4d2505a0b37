"""The client of a server has the surface of the local one: nothing is forgotten."""

from __future__ import annotations

import inspect
from types import MappingProxyType
from typing import Any, Final

import pytest

from duebook.book import (
    Audit,
    Book,
    Events,
    Namespaces,
    Nodes,
    Queues,
    Runs,
    Schedules,
    Templates,
    Tokens,
)
from duebook.book.alerts import Alerts
from duebook.book.calendars import Calendars
from duebook.book.catchup import Catchup
from duebook.book.doctor import Doctor
from duebook.book.feeds import Feeds
from duebook.book.flows import Flows
from duebook.book.shadow import Shadow
from duebook.book.windows import Windows
from duebook.book.zones import Zones
from duebook.client import PARTS, TABLE, Client
from duebook.model.filters import EntriesWanted, RunsWanted, SchedulesWanted
from duebook.remote import RemoteBook
from duebook.remote.needs import NeedsDatabase

OF_THE_DATABASE = {
    "doctor.note_backup",
    "schedules.act_on",
    "schedules.declare_one",
    "schedules.preview_create",
    "tokens.check",
    "tokens.look_up",
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
OF_OTHERS = {
    *("close", "problems", "runs.short_ids", "runs.wait_all"),
    *("events.list", "events.latest", "events.tail", "events.sinks"),
}
"""What is made of other use cases."""


FILTERS: Final[dict[str, Any]] = {
    f"Unpack[{kind.__name__}]": kind for kind in (EntriesWanted, RunsWanted, SchedulesWanted)
}
LOCAL: Final[dict[str, type[Any]]] = {
    "schedules": Schedules,
    "runs": Runs,
    "flows": Flows,
    "catchup": Catchup,
    "calendars": Calendars,
    "windows": Windows,
    "shadow": Shadow,
    "feeds": Feeds,
    "alerts": Alerts,
    "doctor": Doctor,
    "zones": Zones,
    "nodes": Nodes,
    "events": Events,
    "queues": Queues,
    "templates": Templates,
    "audit": Audit,
    "namespaces": Namespaces,
    "tokens": Tokens,
}


def public(kind: type[Any]) -> dict[str, Any]:
    """What can be called of a class, by name."""
    names = {name for base in kind.__mro__[:-1] for name in vars(base) if not name.startswith("_")}
    return {name: getattr(kind, name) for name in names if callable(getattr(kind, name))}


def verbs() -> list[tuple[str, Any, Any]]:
    """(path, how it is called here, how it is called far away) of everything that can be called."""
    calls = [("", Book, Client), *((f"{name}.", LOCAL[name], PARTS[name]) for name in PARTS)]
    return sorted(
        (f"{path}{name}", value, getattr(protocol, name, None))
        for path, local, protocol in calls
        for name, value in public(local).items()
    )


def _path(value: object) -> str:
    return value if isinstance(value, str) and "." in value else ""


@pytest.mark.parametrize(("path", "local", "declared"), verbs(), ids=_path)
def test_every_use_case_is_declared_or_made_of_others(path: str, local: Any, declared: Any) -> None:
    assert declared is not None, path
    said = getattr(declared, "__dict__", {})
    assert ("needs_database" in said) == (path in OF_THE_DATABASE)
    by_hand = path in OF_OTHERS
    assert by_hand == (not {"needs_database", "use_case", "part_of"} & said.keys())
    assert parameters(declared) == parameters(local), path


def parameters(function: Any) -> dict[str, Any]:
    """The arguments with their defaults; filters that a function takes as a typed dictionary count
    as arguments."""
    found: dict[str, Any] = {}
    for parameter in inspect.signature(function, eval_str=False).parameters.values():
        filters = FILTERS.get(str(parameter.annotation))
        if filters is None:
            found[parameter.name] = parameter.default
        else:
            found |= dict.fromkeys(filters.__annotations__, None)
    return found


@pytest.mark.parametrize("part", PARTS)
def test_a_part_from_afar_has_every_method_of_its_protocol(part: str) -> None:
    with RemoteBook("http://127.0.0.1:1") as book:
        made = type(getattr(book, part))
    for name, declared in public(PARTS[part]).items():
        assert getattr(made, name) is not declared or name in ("list", "latest", "tail"), name
        assert parameters(getattr(made, name)).keys() >= parameters(declared).keys() - {"self"}


def test_what_is_given_is_sent_as_json_has_it() -> None:
    start, sink = TABLE["start_flow"], TABLE["save_sink"]
    given = start.bind("etl", MappingProxyType({"DAY": "monday"}))
    params = next(one for one in start.arguments if one.name == "params")
    assert params.given.send is not None
    assert params.given.send(given["params"]) == {"DAY": "monday"}
    assert sink.bind("hooks", "webhook")["options"] == {}


def test_a_wrong_call_names_the_method() -> None:
    wrong: dict[str, Any] = {"staus": "active"}
    with (
        RemoteBook("http://127.0.0.1:1") as book,
        pytest.raises(TypeError, match=r"\.get\(\): .*staus"),
    ):
        book.schedules.get("job", **wrong)


@pytest.mark.parametrize("path", sorted(path for path in OF_THE_DATABASE if "." in path))
def test_what_needs_the_database_is_a_method_in_every_python(path: str) -> None:
    part, _, name = path.partition(".")
    with RemoteBook("http://127.0.0.1:1") as book:
        assert inspect.isfunction(vars(type(getattr(book, part)))[name])


def test_what_needs_the_database_says_so() -> None:
    with RemoteBook("http://127.0.0.1:1") as book:
        with pytest.raises(NeedsDatabase, match="give --database"):
            _ = book.store
        with pytest.raises(NeedsDatabase):
            book.enqueue("digest", connection=object())
        with pytest.raises(NeedsDatabase):
            book.schedules.declare_one("digest", "code:shop")
        with pytest.raises(NeedsDatabase):
            book.tokens.check("dbk_x")
        with pytest.raises(
            NeedsDatabase, match="consuming events needs direct access to the database"
        ):
            book.events.consume("orders", "billing")
        with pytest.raises(NeedsDatabase, match="in a transaction"):
            book.events.publish("orders", connection=object())
