"""Who may define what runs: every use case that takes a target asks the same rule."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from duebook.app import Duebook
from duebook.book import Book
from duebook.book.rights import refuse_target
from duebook.errors import Forbidden
from duebook.model.access import Role
from duebook.model.target import load_target

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    Use = Callable[[Book, dict[str, Any]], object]

HOURLY: dict[str, Any] = {"trigger": {"every": "1h"}}
COMMAND: dict[str, Any] = {"target": {"command": ["true"]}}
ONLY_ADMINS = [
    COMMAND,
    {"target": {"shell": "id"}},
    {"target": {"http": {"url": "https://example.com"}}},
    {"target": {"event": {"topic": "orders"}}},
    {"event_topic": "orders"},
    {"target": {"task": "later"}},
    {"target": {"flow": "later"}},
]
USES: dict[str, Use] = {
    "create": lambda book, given: book.schedules.create("new", **HOURLY, **given),
    "preview_create": lambda book, given: book.schedules.preview_create("new", **HOURLY, **given),
    "create_many": lambda book, given: book.schedules.create_many(
        [{"name": "new", **HOURLY, **given}]
    ),
    "declare": lambda book, given: book.schedules.declare_one("new", "code", **HOURLY, **given),
    "update": lambda book, given: book.schedules.update("digest", **given),
    "preview_update": lambda book, given: book.schedules.preview_update("digest", **given),
    "replace": lambda book, given: book.schedules.replace("digest", **HOURLY, **given),
    "save": lambda book, given: book.templates.save("new", **given),
}


@pytest.fixture
def admin(tmp_path: Path) -> Iterator[Duebook]:
    with Duebook(str(tmp_path / "books.db")) as book:

        @book.task
        def digest(audience: str = "") -> str:
            return audience

        book.schedules.create("digest", **HOURLY, target="digest")
        book.schedules.create("backup", **HOURLY, **COMMAND)
        book.templates.save("nightly", **COMMAND)
        yield book


@pytest.fixture
def operator(admin: Duebook) -> Book:
    return Book(admin.store, tasks=admin.tasks, by="token:ci", role=Role.OPERATOR)


@pytest.mark.parametrize("given", ONLY_ADMINS, ids=str)
@pytest.mark.parametrize("use", USES)
def test_every_use_case_refuses_operators_a_target_that_only_admins_define(
    operator: Book, use: str, given: dict[str, Any]
) -> None:
    with pytest.raises(Forbidden, match="only an admin"):
        USES[use](operator, given)


@pytest.mark.parametrize("use", USES)
def test_every_use_case_takes_a_known_task_of_operators_and_anything_of_admins(
    admin: Duebook, operator: Book, use: str
) -> None:
    USES[use](operator, {"target": "digest", "description": "By an operator"})
    if use not in ("create", "create_many"):  # the name is taken by now
        USES[use](admin, COMMAND)


def test_operators_change_the_rest_of_a_schedule_whose_target_is_a_command(operator: Book) -> None:
    operator.schedules.update("backup", description="At night", **COMMAND)
    operator.schedules.replace("backup", trigger={"every": "2h"}, **COMMAND)
    with pytest.raises(Forbidden):
        operator.schedules.update("backup", target={"command": ["false"]})
    with pytest.raises(Forbidden):
        operator.schedules.update("backup", event_topic="orders")


def test_operators_use_templates_that_admins_saved_but_not_with_another_target(
    operator: Book,
) -> None:
    operator.schedules.create("one", **HOURLY, template="nightly")
    operator.schedules.create_many([{"name": "two", **HOURLY, "template": "nightly"}])
    given = {**HOURLY, "template": "nightly", "target": {"command": ["false"]}}
    with pytest.raises(Forbidden):
        operator.schedules.create("three", **given)
    with pytest.raises(Forbidden):
        operator.schedules.create_many([{"name": "three", **given}])


def test_operators_enqueue_tasks_that_are_known(operator: Book) -> None:
    assert operator.enqueue("digest").task == "digest"
    with pytest.raises(Forbidden, match='no live worker knows task "later"'):
        operator.enqueue("later")


def test_a_refusal_says_who_and_why() -> None:
    def refused(form: object) -> str:
        with pytest.raises(Forbidden) as caught:
            refuse_target('token "ci" is operator', load_target(form), set, lambda _: False)
        return str(caught.value)

    only = "only an admin may define commands, requests, events and Celery tasks"
    assert refused({"command": ["id"]}) == f'token "ci" is operator; {only}'
    assert refused("later").startswith('no live worker knows task "later"')
    assert refused({"flow": "later"}).startswith('flow "later" does not exist')
