"""Steps that wait for a person, who approves or rejects them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from duebook.book import Book
from duebook.engine.advancer import Advancer
from duebook.errors import Conflict, NotFound
from tests.support.builders import MINUTE, begin, claim, get_run
from tests.support.flow_builders import ask_person, steps_of, work

if TYPE_CHECKING:
    from duebook.store.base import Store
    from tests.support.builders import VirtualClock


def test_a_step_that_waits_for_a_person_occupies_nobody(store: Store) -> None:
    run = get_run(store, ask_person(store))
    ok = steps_of(store, run.id)["ok"]
    assert (ok.status, ok.queue, ok.node, ok.progress_text) == ("queued", "@human", None, "Deploy?")
    assert claim(store) == []
    assert store.read(lambda tx: tx.status.health(MINUTE)).queues == ()
    told = Book(store).flows.explain(run.id).steps[1]
    assert told.verdict == "waiting"
    assert "for less than 1 s: Deploy?; to answer: duebook flow approve" in told.text


def test_an_approval_lets_the_flow_go_on_and_says_who_and_when(
    store: Store, clock: VirtualClock
) -> None:
    run = get_run(store, ask_person(store))
    book = Book(store, by="ann")
    done = book.flows.approve(run.id, "ok", "looks good")
    at = f"{clock.now:%Y-%m-%dT%H:%M:%SZ}"
    assert done.status == "succeeded"
    assert done.output == {"decision": "approved", "by": "ann", "at": at, "comment": "looks good"}
    begin(store)
    assert work(store) == ["ship"]
    assert get_run(store, run.id).status == "succeeded"
    assert book.flows.explain(run.id).steps[1].text == "approved by ann at 12:00: looks good"
    newest = book.audit.list(limit=1)[0]
    assert (newest.by, newest.action, newest.after) == (
        "ann",
        "approve",
        {"step": "ok", "comment": "looks good"},
    )
    with pytest.raises(Conflict, match="does not wait for a person: it is succeeded"):
        book.flows.reject(run.id, "ok")
    with pytest.raises(NotFound, match='has no step "okk"'):
        book.flows.approve(run.id, "okk")


def test_a_rejection_fails_the_step_and_a_retry_asks_again(store: Store) -> None:
    run, book = get_run(store, ask_person(store)), Book(store, by="ann")
    done = book.flows.reject(run.id, "ok", "not today")
    assert (done.status, done.reason, done.error) == (
        "failed",
        "rejected",
        "rejected by ann: not today",
    )
    Advancer(store).step()
    assert get_run(store, run.id).status == "failed"
    book.flows.retry(run.id)
    Advancer(store).step()
    begin(store)
    assert [claimed.run.step for claimed in claim(store)] == ["ok"]


def test_a_step_that_nobody_answers_in_time_ends_and_its_flow_fails(
    store: Store, clock: VirtualClock
) -> None:
    run = get_run(store, ask_person(store, timeout=MINUTE))
    clock.advance(2 * MINUTE)
    assert store.transact(lambda tx: tx.attempts.expire(10)) == 1
    ok = steps_of(store, run.id)["ok"]
    assert (ok.status, ok.error) == ("cancelled", "it was not approved or rejected in time")
    Advancer(store).step()
    assert get_run(store, run.id).status == "failed"
    with pytest.raises(Conflict, match="does not wait for a person"):
        Book(store).flows.approve(run.id, "ok")


def test_a_flow_that_is_stopped_asks_no_longer(store: Store) -> None:
    run = get_run(store, ask_person(store))
    Book(store).flows.stop("deploy")
    Advancer(store).step()
    assert steps_of(store, run.id)["ok"].status == "cancelled"
    assert get_run(store, run.id).status == "cancelled"
    assert store.read(lambda tx: [f for f in tx.checks.check(deep=True) if f.problem]) == []
