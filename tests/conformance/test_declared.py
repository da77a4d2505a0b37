"""Schedules declared in code, tasks that no worker knows, and payloads that do not fit a task."""

from __future__ import annotations

import threading
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from duebook import Duebook, cron, every
from duebook.errors import Conflict, Invalid
from duebook.model.schedule import InvalidSchedule
from duebook.store.values import SessionInfo
from tests.support.builders import LEASE, MINUTE, VirtualClock, tick
from tests.support.waiting import PATIENCE

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    from duebook.app import Declarations
    from duebook.book import Book
    from duebook.store.base import Store
    from tests.support.backends import Backend


class Program(Duebook):
    """A program that uses the test's database; `again()` is the same one after a restart."""

    def __init__(self, store: Store, app: str = "reports") -> None:
        super().__init__("unused.db", app=app)
        self._opened = store

    def again(self) -> Program:
        return Program(self.store, self.app)


@pytest.fixture
def program(store: Store) -> Program:
    return Program(store)


def digest(audience: str = "all") -> None: ...


def cleanup() -> None: ...


def declare(program: Program, function: Callable[..., Any] = digest, **options: Any) -> None:
    program.task(**{"schedule": every("1m"), **options})(function)


def live_worker(store: Store, *tasks: str) -> None:
    info = SessionInfo("a-worker", "host", 1, "worker", "0", "2026a", tasks)
    store.transact(lambda tx: tx.nodes.begin_session(info, LEASE))


# ------------------------------------------------------------ declaring


def test_a_declared_schedule_is_made_at_the_first_start(program: Program) -> None:
    declare(program, payload={"audience": "staff"}, overlap="allow", title="Weekday News")
    assert program.declare().created == ("digest",)
    schedule = program.schedules.get("digest")
    assert schedule.created_by == "code:reports"
    assert schedule.spec is not None
    assert schedule.spec.payload == {"audience": "staff"}
    assert schedule.spec.overlap == "allow"
    assert schedule.spec.title == "Weekday News"


def test_one_that_says_nothing_new_keeps_its_state(program: Program, clock: VirtualClock) -> None:
    declare(program)
    program.declare()
    clock.advance(MINUTE)
    tick(program.store)
    program.schedules.pause("digest", reason="holidays")
    before = program.schedules.get("digest")
    clock.advance(MINUTE)
    again = program.again()
    declare(again)
    assert again.declare().unchanged == ("digest",)
    assert again.schedules.get("digest") == before


def test_one_that_changed_follows_the_edit_rule(program: Program, clock: VirtualClock) -> None:
    declare(program, retry=3)
    program.declare()
    first = program.schedules.get("digest")
    clock.advance(MINUTE)
    tick(program.store)
    again = program.again()
    declare(again, schedule=cron("0 9 * * *"))
    assert again.declare().changed == ("digest",)
    schedule = again.schedules.get("digest")
    assert (schedule.id, schedule.version) == (first.id, 2)
    assert schedule.spec is not None
    assert schedule.spec.retry is None, "what is no longer said is the default again"
    assert [revision.by for revision in again.schedules.revisions("digest")] == ["code:reports"] * 2


def test_one_that_is_no_longer_declared_is_reported_and_stays(program: Program) -> None:
    declare(program)
    declare(program, cleanup)
    program.declare()
    again = program.again()
    declare(again)
    assert again.declare().removed == ("cleanup",)
    assert again.schedules.get("cleanup").status == "active"


def test_one_that_is_no_longer_declared_is_deleted_when_that_is_asked(program: Program) -> None:
    declare(program, cleanup)
    program.declare()
    program.schedules.create("by-hand", trigger=every("1m"), target="cleanup")
    other = Program(program.store, "shop")
    declare(other, digest)
    other.declare()
    assert program.again().declare(prune=True).removed == ("cleanup",)
    assert [schedule.name for schedule in program.schedules.list()] == ["by-hand", "digest"]


def test_a_schedule_of_somebody_else_is_not_touched(program: Program) -> None:
    made = program.schedules.create("digest", trigger=cron("0 9 * * *"), target="other")
    declare(program)
    declare(program, cleanup)
    declared = program.declare()
    assert declared.created == ("cleanup",), "one that is refused holds up no other"
    ((name, why),) = declared.refused
    assert name == "digest"
    assert "was created manually, so code does not change it; delete it first" in why
    assert program.schedules.get("digest").spec == made.spec


def test_nodes_that_start_at_once_declare_a_schedule_once(backend: Backend, book: Book) -> None:
    start = threading.Barrier(4)
    found: list[Declarations] = []

    def begin() -> None:
        program = Program(backend.open())
        declare(program)
        start.wait(PATIENCE)
        found.append(program.declare())

    threads = [threading.Thread(target=begin) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert sum(declared.created == ("digest",) for declared in found) == 1
    assert sum(declared.unchanged == ("digest",) for declared in found) == 3
    assert [schedule.version for schedule in book.schedules.list()] == [1]


def test_a_task_declares_several_schedules_with_different_arguments(program: Program) -> None:
    each = {
        "digest-staff": {"trigger": every("1h"), "payload": {"audience": "staff"}},
        "digest-all": {"trigger": cron("0 9 * * *"), "priority": 5},
    }
    declare(program, schedule=None, schedules=each, queue="mail", priority=1)
    assert program.declare().created == ("digest-staff", "digest-all")
    found = {one.name: one.spec for one in program.schedules.list() if one.spec is not None}
    told = {name: (spec.payload, spec.queue, spec.priority) for name, spec in found.items()}
    assert told == {
        "digest-all": ({}, "mail", 5),
        "digest-staff": ({"audience": "staff"}, "mail", 1),
    }
    again = program.again()
    declare(again, schedules={"digest-all": each["digest-all"]}, queue="mail", priority=1)
    declared = again.declare(prune=True)
    assert declared.created == ("digest",)
    assert (declared.unchanged, declared.removed) == (("digest-all",), ("digest-staff",))


def test_a_name_that_two_tasks_declare_is_refused_for_the_second(program: Program) -> None:
    declare(program)
    declare(program, cleanup, schedule=None, schedules={"digest": {"trigger": every("1m")}})
    declared = program.declare()
    assert declared.created == ("digest",)
    assert declared.refused == (("digest", 'task "digest" declares a schedule of the same name'),)


@pytest.mark.parametrize(
    ("schedules", "told"),
    [
        ({"digest": {"trigger": every("1m")}}, 'schedule "digest" is declared by both'),
        ({"other": {}}, "trigger is missing"),
        ({"other": "* * * * *"}, '"other" is not a dict with a trigger'),
        ({"other": {"trigger": every("1m"), "target": "x"}}, "has a target; remove it"),
        ({"other": {"trigger": every("1m"), "payload": {"audience": 3}}}, "is not of type str"),
        ({"Bad Name": {"trigger": every("1m")}}, "the schedule of task"),
        ([], "is not a dict such as"),
    ],
)
def test_wrong_schedules_of_a_task_are_refused_where_they_stand(
    program: Program, schedules: Any, told: str
) -> None:
    with pytest.raises(Invalid, match=told):
        declare(program, schedules=schedules)
    assert program.tasks.names == ()


def test_wrong_policies_are_refused_where_they_stand(program: Program) -> None:
    with pytest.raises(InvalidSchedule, match="overlap"):
        declare(program, overlap="sometimes")
    with pytest.raises(InvalidSchedule, match='"never" is not a duration'):
        declare(program, schedule={"every": "never"})
    with pytest.raises(Invalid, match="the schedule of task"):
        declare(program, name="Digest")
    assert program.tasks.names == ()


# ------------------------------------------------------------ payloads


def test_a_payload_that_the_task_does_not_take_makes_no_schedule(program: Program) -> None:
    declare(program)
    with pytest.raises(InvalidSchedule, match='payload has "wrong", but the task takes audience'):
        program.schedules.create(
            "news", trigger=every("1m"), target="digest", payload={"wrong": True}
        )
    assert program.schedules.list() == []
    program.schedules.create("news", trigger=every("1m"), target="digest")
    with pytest.raises(InvalidSchedule, match="payload audience 3 is not of type str"):
        program.schedules.update("news", payload={"audience": 3})
    with pytest.raises(Invalid, match="payload audience 3 is not of type str"):
        program.schedules.trigger("news", payload={"audience": 3})
    program.schedules.create("other", trigger=every("1m"), target="unknown", payload={"any": 1})


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"payload": {"audience": 3}}, "payload audience 3 is not of type str"),
        ({"payload": {"audience": 3}, "schedule": None}, "payload audience 3 is not of type str"),
        ({"payload": {"audience": "{{ nobody }}"}}, '"nobody" is unknown'),
        ({"target": "other"}, "a task does not take target: the task itself runs"),
        ({"trigger": every("1m")}, "a task does not take trigger: use schedule"),
    ],
)
def test_what_does_not_fit_the_task_is_refused_where_it_stands(
    program: Program, options: dict[str, Any], told: str
) -> None:
    with pytest.raises(Invalid, match=told):
        declare(program, **options)
    assert program.tasks.names == ()


def test_a_schedule_that_gives_no_payload_to_a_task_that_needs_one_is_refused(
    program: Program,
) -> None:
    def ship(order: int) -> None: ...

    with pytest.raises(InvalidSchedule, match='payload has no "order"'):
        declare(program, ship)
    declare(program, ship, schedule=None)


def test_what_is_no_function_is_no_task(program: Program) -> None:
    def numbers() -> Iterator[int]:
        yield 1

    async def later() -> AsyncIterator[int]:
        yield 1

    wrong: Any
    for wrong in ("digest", partial(digest), program, program.again):
        with pytest.raises(Invalid, match=r"is not a function; use @book\.task above a def"):
            declare(program, wrong)
    for wrong in (numbers, later):
        with pytest.raises(Invalid, match="is a generator, so a call does not run it"):
            declare(program, wrong)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"slots": 0}, "slots 0 is not a number from 1 to 10,000"),
        ({"slots": "3"}, 'slots "3" is not a number'),
        ({"queues": ()}, "queues is empty"),
        ({"queues": "No Queue"}, 'invalid queue "No Queue"'),
        ({"roles": ()}, 'role "" is not one of scheduler, worker'),
        ({"roles": "boss"}, 'role "boss" is not one of'),
    ],
)
def test_a_node_that_could_do_nothing_does_not_begin(
    program: Program, options: dict[str, Any], told: str
) -> None:
    with pytest.raises(Invalid, match=told):
        program.run(**options)


# ------------------------------------------------------------ who knows


def test_a_schedule_whose_task_no_live_worker_knows_has_a_problem(
    program: Program, clock: VirtualClock
) -> None:
    declare(program)
    program.declare()
    program.schedules.create("command", trigger=every("1m"), target={"command": ["true"]})
    told = 'no live worker knows task "digest"'
    assert program.schedules.get("digest").problem == told
    assert {s.name: s.problem for s in program.schedules.list()} == {
        "command": None,
        "digest": told,
    }
    live_worker(program.store, "digest")
    assert program.schedules.get("digest").problem is None
    clock.advance(LEASE)
    assert program.schedules.get("digest").problem == told


def test_runs_that_wait_for_an_unknown_task_are_a_problem_of_the_books(program: Program) -> None:
    declare(program)
    program.declare()
    assert program.problems() == []
    program.schedules.trigger("digest")
    assert program.problems() == ['runs are waiting for task "digest", which no live worker knows']
    live_worker(program.store, "digest")
    assert program.problems() == []


# ------------------------------------------------------------ opening late


def test_declaring_tasks_opens_no_books() -> None:
    book = Duebook("postgresql://nobody@127.0.0.1:1/none")
    book.task(digest)
    assert book.tasks.names == ("digest",)
    book.close()


def test_books_can_be_moved_until_they_are_opened(tmp_path: Any) -> None:
    book = Duebook("postgresql://nobody@127.0.0.1:1/none")
    book.move(str(tmp_path / "books.db"), "tests")
    assert book.namespace == "tests"
    assert book.schedules.list() == []
    with pytest.raises(Conflict, match="already open"):
        book.move("elsewhere.db")
    book.close()
