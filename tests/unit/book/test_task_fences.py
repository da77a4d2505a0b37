"""Tasks that are only for some namespaces: where that is known, nothing is created."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from duebook.app import Duebook
from duebook.book import Book
from duebook.errors import Invalid
from duebook.model.schedule import InvalidSchedule
from duebook.targets.task import Tasks
from duebook.testing import Simulation

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

HOURLY: dict[str, Any] = {"trigger": {"every": "1h"}, "target": "refund"}


@pytest.fixture
def app(tmp_path: Path) -> Iterator[Duebook]:
    with Duebook(str(tmp_path / "books.db")) as made:

        @made.task(namespaces=["billing"])
        def refund(order: str = "") -> str:
            return order

        yield made


def test_a_schedule_of_another_namespace_is_refused(app: Duebook) -> None:
    with pytest.raises(InvalidSchedule) as caught:
        app.schedules.create("nightly", **HOURLY)
    assert caught.value.problems == {
        "target": 'task "refund" is only for namespace billing, not for namespace "default"; use '
        "another task, or allow the namespace in @book.task(namespaces=…)"
    }
    with pytest.raises(InvalidSchedule, match="only for namespace billing"):
        app.schedules.create_many([{"name": "nightly", **HOURLY}])
    with pytest.raises(Invalid, match="only for namespace billing"):
        app.enqueue("refund")


def test_its_own_namespaces_may_use_it(app: Duebook) -> None:
    own = Book(app.store, "billing", app.tasks)
    own.schedules.create("nightly", **HOURLY)
    assert own.schedules.trigger("nightly").task == "refund"
    assert own.enqueue("refund", {"order": "7"}).namespace == "billing"


def test_what_others_created_is_not_triggered_or_changed_here(app: Duebook) -> None:
    Book(app.store).schedules.create("nightly", **HOURLY)  # a process that knows no tasks
    with pytest.raises(Invalid, match="only for namespace billing"):
        app.schedules.trigger("nightly")
    with pytest.raises(InvalidSchedule, match="only for namespace billing"):
        app.schedules.update("nightly", queue="slow")


def test_the_web_process_of_a_node_knows_it_too(app: Duebook) -> None:
    elsewhere = Tasks.load(app.tasks.to_json())
    with pytest.raises(InvalidSchedule, match="only for namespace billing"):
        Book(app.store, "shop", elsewhere).schedules.create("nightly", **HOURLY)


def nothing() -> None:
    """A function."""


@pytest.mark.parametrize("wrong", [[], "", 7, ["No Name"]])
def test_wrong_namespaces_are_refused(app: Duebook, wrong: Any) -> None:
    with pytest.raises(Invalid, match="namespaces"):
        app.task(name="digest", namespaces=wrong)(nothing)


def test_a_stand_in_has_no_fence() -> None:
    with Simulation() as sim:
        sim.task("refund")
        sim.book.schedules.create("nightly", **HOURLY)
        sim.advance("61m")
        assert [run.status for run in sim.runs("nightly")] == ["succeeded"]
