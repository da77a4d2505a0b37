"""Quotas of namespaces: exact with any number of writers, for new and for growing items."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from duebook.book import Book
from duebook.errors import Conflict, Invalid, NotFound, QuotaReached
from duebook.model.quota import DEFAULTS, NamespaceUse, Quota
from duebook.store.joined import JoinedStore
from tests.support.builders import MINUTE, VirtualClock, begin, claim, settle, tick
from tests.support.waiting import PATIENCE

if TYPE_CHECKING:
    from duebook.store.base import Store, Tx
    from tests.support.backends import Backend

pytestmark = pytest.mark.book_as(namespace="shop", by="token:ci")


def make(book: Book, name: str, every: str = "1m", **more: Any) -> None:
    book.schedules.create(name, trigger={"every": every}, target="report", **more)


def use(book: Book) -> NamespaceUse:
    return next(use for use in book.namespaces.list() if use.quota.namespace == book.namespace)


def test_a_namespace_has_no_more_schedules_than_its_quota(book: Book, store: Store) -> None:
    book.namespaces.limit("shop", schedules=2)
    make(book, "a")
    make(book, "b")
    with pytest.raises(QuotaReached) as caught:
        make(book, "c")
    assert str(caught.value) == (
        'namespace "shop" is limited to 2 schedules and would have 3; delete some, or raise the '
        "quota: duebook namespace limit shop --schedules …"
    )
    assert caught.value.code == "quota"
    assert isinstance(caught.value, Conflict)
    make(Book(store, "other"), "c")
    book.schedules.delete("a")
    make(book, "c")
    assert [schedule.name for schedule in book.schedules.list()] == ["b", "c"]


def test_what_was_there_before_the_quota_stays_and_can_be_edited(book: Book) -> None:
    for name in "abc":
        make(book, name)
    limited = book.namespaces.limit("shop", schedules=1, fires_per_minute=1, payload_bytes=10)
    assert limited.schedules == 3
    assert limited.fires_per_minute == pytest.approx(3.0)
    book.schedules.update("a", queue="slow")
    book.schedules.update("a", trigger={"every": "2m"})
    with pytest.raises(QuotaReached, match=r"--schedules … --fires-per-minute 1 --payload-bytes"):
        make(book, "d")


def test_the_rates_of_all_schedules_together_stay_within_the_quota(book: Book) -> None:
    make(book, "before", "30s")
    book.namespaces.limit("shop", fires_per_minute=4)
    make(book, "a")
    make(book, "b", "1h", max_runs=1)
    with pytest.raises(QuotaReached) as caught:
        make(book, "c", "15s")
    assert str(caught.value) == (
        'the schedules of namespace "shop" are limited to 4 due times a minute and would have '
        "7; make some of them less frequent, or raise the quota: duebook namespace limit shop "
        "--fires-per-minute …"
    )
    make(book, "c")
    assert use(book).fires_per_minute == pytest.approx(4.0)
    with pytest.raises(QuotaReached):
        book.schedules.update("c", trigger={"every": "10s"})
    book.schedules.update("before", trigger={"every": "1m"})
    book.schedules.update("c", trigger={"every": "30s"})
    assert use(book).fires_per_minute == pytest.approx(4.0)


def test_an_edit_that_makes_nothing_worse_passes_whatever_the_quota(book: Book) -> None:
    make(book, "a", "1s", payload={"text": "long enough to be refused"})
    book.namespaces.limit("shop", fires_per_minute=1, payload_bytes=10)
    book.schedules.update("a", priority=3)
    book.schedules.update("a", trigger={"every": "2s"})
    with pytest.raises(QuotaReached):
        book.schedules.update("a", trigger={"every": "1s"})
    with pytest.raises(QuotaReached):
        book.schedules.update("a", payload={"text": "also long enough"})
    book.schedules.update("a", payload={})


def test_a_completed_schedule_is_due_no_more_and_its_edit_is_counted(
    book: Book, clock: VirtualClock
) -> None:
    book.namespaces.limit("shop", fires_per_minute=2)
    make(book, "a", "30s", max_runs=2)
    begin(book.store, lease=60 * MINUTE)
    for _ in range(3):
        clock.advance(MINUTE / 2)
        tick(book.store)
        for claimed in book.store.transact(
            lambda tx: tx.claims.claim("node-1", "default", 9, ["report"], "shop")
        ):
            settle(book.store, claimed.token)
        tick(book.store)
    assert book.schedules.get("a").status == "completed"
    assert claim(book.store) == []
    make(book, "b", "30s")
    with pytest.raises(QuotaReached):
        make(book, "c")


def test_a_payload_has_no_more_bytes_than_the_quota(book: Book) -> None:
    book.namespaces.limit("shop", payload_bytes=13)
    make(book, "a", payload={"a": "ää"})
    for wrong in (
        lambda: make(book, "b", payload={"a": "äääää"}),
        lambda: book.schedules.update("a", payload={"a": "12345678"}),
        lambda: book.schedules.trigger("a", {"a": "12345678"}),
    ):
        with pytest.raises(
            QuotaReached, match=r"limited to 13 bytes, and this one has 1[79]; send"
        ):
            wrong()
    book.schedules.trigger("a", {"a": 1})


def test_namespaces_are_listed_with_their_quota_and_use(book: Book, store: Store) -> None:
    assert book.namespaces.list() == []
    make(Book(store, "mail"), "a")
    book.namespaces.limit("shop", schedules=5)
    make(book, "a")
    make(book, "b")
    assert book.namespaces.list() == [
        NamespaceUse(Quota("mail"), 1, None, 92),
        NamespaceUse(Quota("shop", 5), 2, None, 184),
    ]
    book.namespaces.limit("shop", fires_per_minute=9.5)
    assert use(book).quota == Quota("shop", None, 9.5), "it replaces the former"
    assert use(book).fires_per_minute == pytest.approx(2.0)
    book.namespaces.free("shop")
    assert use(book) == NamespaceUse(Quota("shop"), 2, None, 184)
    with pytest.raises(NotFound, match='namespace "shop" has no quota'):
        book.namespaces.free("shop")


def test_a_quota_is_put_down_in_the_audit_of_its_namespace(book: Book) -> None:
    book.namespaces.limit("shop", schedules=5)
    book.namespaces.free("shop")
    free, limit = book.audit.list(kind="namespace")
    assert (limit.action, limit.by, limit.subject) == ("limit", "token:ci", "shop")
    assert limit.after is not None
    given = {name: value for name, value in limit.after.items() if value is not None}
    assert given == {"schedules": 5}
    assert (free.action, free.before) == ("free", limit.after)


@pytest.mark.parametrize(
    ("limits", "words"),
    [
        ({}, "a quota needs at least one of schedules, fires_per_minute, payload_bytes"),
        ({"schedules": -1}, "schedules -1"),
        ({"schedules": 1.5}, "schedules 1.5"),
        ({"fires_per_minute": float("nan")}, "fires_per_minute nan is not a number from 0 to"),
        ({"fires_per_minute": "many"}, 'fires_per_minute "many" is not a number'),
        ({"payload_bytes": True}, "payload_bytes True"),
        ({"payload_bytes": 10**12}, "payload_bytes 1000000000000"),
    ],
)
def test_a_wrong_quota_is_refused(book: Book, limits: dict[str, Any], words: str) -> None:
    with pytest.raises(Invalid, match=words):
        book.namespaces.limit("shop", **limits)
    assert book.namespaces.list() == []


def test_a_namespace_without_a_quota_pays_one_lookup(backend: Backend) -> None:
    points: list[str] = []
    book = Book(backend.open(points.append), "shop")
    make(book, "a")
    extra = [point for point in points if point.startswith("before:") and _of_quotas(point)]
    assert extra == ["before:get_quota_standing"]
    points.clear()
    book.schedules.update("a", queue="slow")
    assert [point for point in points if _of_quotas(point) and point.startswith("before:")] == extra


def _of_quotas(point: str) -> bool:
    words = ("quota", "rate", "unrated", "count_schedules_of")
    return any(word in point for word in words) and "insert_change" not in point


@pytest.mark.parametrize("limit", [{"schedules": 7}, {"fires_per_minute": 7}])
def test_ten_who_create_at_once_never_exceed_the_quota(
    backend: Backend, book: Book, limit: dict[str, Any]
) -> None:
    book.namespaces.limit("shop", **limit)
    ready = threading.Barrier(10)
    made: list[str] = []
    refused: list[QuotaReached] = []

    def create(number: int) -> None:
        own = Book(backend.open(), "shop")
        ready.wait(PATIENCE)
        for turn in range(3):
            name = f"job-{number}-{turn}"
            try:
                make(own, name)
                made.append(name)
            except QuotaReached as error:
                refused.append(error)

    threads = [threading.Thread(target=create, args=(number,)) for number in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert (len(made), len(refused)) == (7, 23)
    assert sorted(made) == [schedule.name for schedule in book.schedules.list()]


def test_ten_who_edit_at_once_never_exceed_the_quota(backend: Backend, book: Book) -> None:
    for number in range(10):
        make(book, f"job-{number}", "1h")
    book.namespaces.limit("shop", fires_per_minute=5)
    ready = threading.Barrier(10)
    refused: list[QuotaReached] = []

    def edit(number: int) -> None:
        own = Book(backend.open(), "shop")
        ready.wait(PATIENCE)
        try:
            own.schedules.update(f"job-{number}", trigger={"every": "1m"})
        except QuotaReached as error:
            refused.append(error)

    threads = [threading.Thread(target=edit, args=(number,)) for number in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert len(refused) == 6, "four, and six once an hour"
    fires = use(book).fires_per_minute
    assert fires is not None
    assert fires <= 5


# -- the stored usage of a namespace


def kept(store: Store, namespace: str = "shop") -> tuple[int, int]:
    return store.read(lambda tx: tx.quotas.count_use()).get(namespace, (0, 0))


def held(backend: Backend, namespace: str = "shop") -> tuple[int, int]:
    """The usage, computed from the tables alone."""
    (row,) = backend.rows(
        "SELECT count(*), coalesce(sum(length(r.spec)), 0) FROM schedules AS s"
        " JOIN schedule_revisions AS r ON r.schedule_id = s.id AND r.version = s.version"
        " WHERE s.namespace = ? AND s.deleted_at IS NULL",
        namespace,
    )
    return int(row[0]), int(row[1])


def test_what_is_kept_is_what_a_namespace_holds(book: Book, store: Store, backend: Backend) -> None:
    make(book, "a", payload={"text": "ä" * 50})
    make(Book(store, "other"), "a")
    book.schedules.create_many(
        [{"name": f"many-{n}", "trigger": {"every": "1h"}, "target": "x"} for n in range(20)]
    )
    assert kept(store) == held(backend)
    assert kept(store)[0] == 21
    book.schedules.update("a", payload={"text": "x" * 5_000})
    book.schedules.pause("a")
    book.schedules.update("a", queue="slow")
    book.schedules.resume("a")
    assert kept(store) == held(backend)
    book.schedules.delete("a")
    book.schedules.act("delete", {"text": "many-1*"})
    assert kept(store) == held(backend)
    with pytest.raises(Conflict):
        make(book, "many-2")
    make(book, "a")
    assert kept(store) == held(backend)
    assert kept(store, "other") == held(backend, "other")
    assert [f for f in store.read(lambda tx: tx.checks.check(deep=True)) if f.rule == "quota"] == []


def test_a_part_that_is_undone_is_not_counted(store: Store, backend: Backend) -> None:
    def fail(book: Book) -> None:
        make(book, "b")
        raise RuntimeError("on purpose")

    def work(tx: Tx) -> None:
        book = Book(JoinedStore(tx), "shop")
        make(book, "a")
        with pytest.raises(RuntimeError, match="on purpose"):
            tx.undoable(lambda: fail(book))

    store.transact(work)
    assert kept(store) == held(backend)
    assert kept(store)[0] == 1


def test_a_check_finds_kept_numbers_that_are_wrong_and_a_recount_mends_them(
    book: Book, store: Store, backend: Backend
) -> None:
    make(book, "a")
    size = kept(store)[1]
    backend.write("UPDATE namespace_use SET schedules = 7, bytes = bytes + 1")
    (found,) = [f for f in store.read(lambda tx: tx.checks.check(deep=True)) if f.rule == "quota"]
    assert found.problem
    assert str(found) == (
        f"namespace shop is recorded with 7 schedules of {size + 1} bytes, "
        f"but has 1 of {size} bytes; duebook namespace recount shop"
    )
    assert book.namespaces.recount("shop") == (1, size)
    assert [f for f in store.read(lambda tx: tx.checks.check(deep=True)) if f.rule == "quota"] == []
    make(book, "b")
    assert kept(store) == held(backend)


def test_definitions_have_no_more_bytes_than_the_quota(book: Book) -> None:
    book.namespaces.limit("shop", definition_bytes=2_000)
    make(book, "a", payload={"text": "x" * 1_500})
    with pytest.raises(QuotaReached) as caught:
        make(book, "b", payload={"text": "x" * 1_500})
    assert str(caught.value).startswith(
        'the definitions of namespace "shop" are limited to 2,000 bytes and would have 3,'
    )
    assert "duebook namespace limit shop --definition-bytes …" in str(caught.value)
    book.namespaces.limit("shop", definition_bytes=2_000, max_priority=5)
    with pytest.raises(QuotaReached, match=r"--definition-bytes … --max-priority 5$"):
        make(book, "b", payload={"text": "x" * 1_500})
    with pytest.raises(QuotaReached):
        book.schedules.update("a", payload={"text": "x" * 2_500})
    book.namespaces.limit("shop", definition_bytes=100)
    book.schedules.update("a", payload={"text": "x" * 1_400})  # smaller than it was
    with pytest.raises(QuotaReached, match="definition-bytes"):
        book.templates.save("large", payload={"text": "x" * 500})
    assert use(book).definition_bytes > 1_400


def test_the_default_of_all_namespaces_holds_where_none_is_set(book: Book, store: Store) -> None:
    book.namespaces.limit("*", schedules=2, definition_bytes=3_000, payload_bytes=2_000)
    with pytest.raises(QuotaReached, match="2,000 bytes"):
        make(book, "a", payload={"text": "x" * 2_500})
    make(book, "a")
    make(book, "b")
    with pytest.raises(QuotaReached, match='namespace "shop" is limited to 2 schedules'):
        make(book, "c")
    book.namespaces.limit("shop", schedules=3)
    make(book, "c")
    book.schedules.update("c", payload={"text": "x" * 1_900})
    with pytest.raises(QuotaReached, match="definitions of namespace"):
        book.schedules.update("a", payload={"text": "x" * 1_900})
    make(Book(store, "other"), "a")
    book.namespaces.free("*")
    make(Book(store, "other"), "b", payload={"text": "x" * 5_000})
    for wrong in ({"fires_per_minute": 5}, {"max_priority": 1}):
        with pytest.raises(Invalid, match="for each namespace that needs it"):
            book.namespaces.limit("*", **wrong)


def test_a_template_times_many_names_ends_at_the_default(
    book: Book, backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = replace(DEFAULTS, definition_bytes=100_000)
    monkeypatch.setattr("duebook.store.sql.quotas.DEFAULTS", small)
    book.templates.save("large", target="x", trigger={"every": "1h"}, payload={"x": "x" * 9_000})
    forms = [{"name": f"job-{number}", "template": "large"} for number in range(20)]
    with pytest.raises(QuotaReached, match="are limited to 100,000 bytes and would have 18"):
        book.schedules.create_many(forms)
    assert held(backend) == (0, 0)


def test_those_who_create_at_once_are_all_counted(backend: Backend) -> None:
    ready = threading.Barrier(6)

    def create(number: int) -> None:
        own = Book(backend.open(), "shop")
        ready.wait(PATIENCE)
        for turn in range(4):
            make(own, f"job-{number}-{turn}")
        own.schedules.delete(f"job-{number}-0")

    threads = [threading.Thread(target=create, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert kept(backend.open()) == held(backend)
    assert held(backend)[0] == 18


# -- the highest priority


def test_a_priority_above_the_ceiling_of_a_namespace_is_refused(book: Book) -> None:
    make(book, "old", priority=50)
    book.namespaces.limit("shop", max_priority=10)
    with pytest.raises(QuotaReached) as caught:
        make(book, "a", priority=11)
    assert str(caught.value) == (
        'priority 11 is above the limit of namespace "shop"; use at most 10, or raise the '
        "quota: duebook namespace limit shop --max-priority …"
    )
    make(book, "a", priority=10)
    with pytest.raises(QuotaReached, match="priority 12"):
        book.schedules.update("a", priority=12)
    with pytest.raises(QuotaReached, match="priority 99"):
        book.enqueue("report", priority=99)
    assert book.enqueue("report", priority=10).priority == 10
    book.schedules.update("old", queue="slow")  # it asks for no more than before


def test_runs_of_what_was_there_before_get_the_ceiling(
    book: Book, store: Store, clock: VirtualClock
) -> None:
    make(book, "old", priority=50, overlap="allow")
    make(Book(store, "other"), "old", priority=50)
    waiting = book.schedules.trigger("old")
    assert waiting.priority == 50
    book.namespaces.limit("shop", max_priority=10)
    assert book.runs.get(waiting.id).priority == 10
    clock.advance(MINUTE)
    tick(store)
    assert {run.priority for run in book.runs.list("old")} == {10}
    assert {run.priority for run in Book(store, "other").runs.list("old")} == {50}
    book.namespaces.limit("shop", max_priority=-5)
    assert book.enqueue("report").priority == -5
    assert {run.priority for run in book.runs.list("old")} == {-5}
