"""Schedule templates: stored by name in a namespace, and copied into new schedules."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from duebook.book import Book
from duebook.errors import Invalid, NotFound
from duebook.model.schedule import InvalidSchedule
from duebook.model.template import ScheduleTemplate
from duebook.triggers import cron
from tests.support.builders import BEGIN, MINUTE, VirtualClock

if TYPE_CHECKING:
    from duebook.model.schedule import ScheduleSpec
    from duebook.store.base import Store


def spec_of(book: Book, name: str) -> ScheduleSpec:
    spec = book.schedules.get(name).spec
    assert spec is not None
    return spec


def test_a_template_is_kept_as_it_was_saved(book: Book) -> None:
    saved = book.templates.save("nightly", by="ann", cron="H 2 * * *", description="ä")
    defaults = {"trigger": {"cron": "H 2 * * *"}, "description": "ä"}
    assert saved == ScheduleTemplate("default", "nightly", defaults, BEGIN, "ann", BEGIN, "ann")
    assert book.templates.get("nightly") == saved
    assert book.templates.list() == [saved]


def test_saving_again_replaces_all_defaults_and_keeps_who_made_it(
    book: Book, clock: VirtualClock
) -> None:
    book.templates.save("nightly", by="ann", cron="@daily", timeout="5m")
    clock.advance(MINUTE)
    again = book.templates.save("nightly", by="bob", queue="slow")
    assert again.defaults == {"queue": "slow"}
    assert (again.created_at, again.created_by) == (BEGIN, "ann")
    assert (again.updated_at, again.updated_by) == (BEGIN + MINUTE, "bob")


def test_templates_are_listed_by_name_and_belong_to_their_namespace(
    store: Store, book: Book
) -> None:
    for name in ("weekly", "nightly", "a.b"):
        book.templates.save(name, queue="slow")
    Book(store, "other").templates.save("nightly", queue="fast")
    assert [template.name for template in book.templates.list()] == ["a.b", "nightly", "weekly"]
    assert book.templates.get("nightly").defaults == {"queue": "slow"}
    book.templates.remove("nightly")
    assert Book(store, "other").templates.get("nightly").defaults == {"queue": "fast"}


def test_a_schedule_starts_from_a_template_and_overrides_single_fields(book: Book) -> None:
    book.templates.save("nightly", cron="H 2 * * *", target="dump", timeout="1h", overlap="queue")
    book.schedules.create("orders", template="nightly", timeout="5m", overlap=None)
    spec = spec_of(book, "orders")
    assert spec.triggers == (cron("H 2 * * *", key="orders"),)
    assert (spec.timeout, spec.overlap) == (5 * MINUTE, "skip")


def test_a_schedule_is_a_copy_that_later_changes_do_not_touch(book: Book) -> None:
    book.templates.save("nightly", cron="@daily", target="dump", queue="slow")
    made = book.schedules.create("orders", template="nightly")
    book.templates.save("nightly", queue="fast")
    book.templates.remove("nightly")
    assert spec_of(book, "orders") == made.spec
    assert (spec_of(book, "orders").queue, book.schedules.get("orders").version) == ("slow", 1)


def test_an_interval_counts_from_the_schedule_not_from_its_template(
    book: Book, clock: VirtualClock
) -> None:
    book.templates.save("often", trigger={"every": "10m"}, target="poll")
    clock.advance(MINUTE)
    assert book.schedules.create("poll", template="often").next_due_at == BEGIN + 11 * MINUTE


def test_what_neither_the_template_nor_the_caller_gives_is_missing(book: Book) -> None:
    book.templates.save("slow", queue="slow")
    with pytest.raises(InvalidSchedule) as caught:
        book.schedules.create("job", template="slow", grace="soon")
    assert set(caught.value.problems) == {"trigger", "target", "grace"}


def test_a_template_that_does_not_exist_is_named_with_near_ones(store: Store, book: Book) -> None:
    with pytest.raises(
        NotFound, match=r'template "nightly" does not exist; there are no templates yet'
    ):
        book.schedules.create("job", template="nightly", target="dump")
    for name in ("nightly", "nightly-eu", "hourly"):
        book.templates.save(name, queue="slow")
    with pytest.raises(NotFound, match=r'"nihgtly" does not exist; did you mean nightly or night'):
        book.schedules.create("job", template="nihgtly", target="dump")
    for lost in (book.templates.get, book.templates.remove):
        with pytest.raises(NotFound, match=r'template "x\?y" does not exist$'):
            lost("x\0y")
    with pytest.raises(NotFound, match="no templates yet"):
        Book(store, "other").templates.get("nightly")
    with pytest.raises(Invalid, match="template 7 is not a string"):
        book.schedules.create("job", template=7)  # type: ignore[call-overload]


def test_a_wrong_template_is_refused_with_all_that_is_wrong(book: Book) -> None:
    with pytest.raises(InvalidSchedule) as caught:
        book.templates.save("No Name", queue="No", template="nightly", cron="@reboot")
    assert set(caught.value.problems) == {"name", "queue", "template", "trigger"}
    with pytest.raises(InvalidSchedule, match="payload"):
        book.templates.save("t", payload={"a": "{{ nobody }}"})
    with pytest.raises(Invalid, match="has no defaults; give at least one field"):
        book.templates.save("t", queue=None)
    assert book.templates.list() == []
