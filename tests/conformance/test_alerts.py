"""Alert rules on both stores: what they find, sent once, kept apart, continued by other nodes."""

from __future__ import annotations

from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from duebook.book import Book
from duebook.delivery.courier import Courier
from duebook.engine.alert_desk import tidy_channels
from duebook.errors import Conflict, Invalid, NotFound
from duebook.model.alert import ALERTS
from duebook.model.codec import encode
from tests.support.alerts import HOOK, alerts_told, end_run, evaluate, evaluator, titles
from tests.support.builders import (
    LEASE,
    MINUTE,
    add_schedule,
    begin,
    claim,
    settle,
    tick,
)
from tests.support.event_builders import Box, stamp
from tests.support.examples import ALL

if TYPE_CHECKING:
    from duebook.store.base import Store
    from tests.support.backends import Backend
    from tests.support.builders import VirtualClock

HOUR = timedelta(hours=1)


@pytest.fixture
def book(store: Store) -> Book:
    return Book(store)


def test_a_failure_is_told_with_what_explain_says_and_closed_by_a_success(
    store: Store, book: Book, clock: VirtualClock
) -> None:
    job = add_schedule(store, "nightly")
    book.alerts.save("ops", to=HOOK)
    one = evaluator(store, clock)
    run_id = end_run(store, job, error="exit code 7")
    evaluate(one, store)
    (told,) = alerts_told(store)
    assert (told.type, told.data["title"]) == ("alert.problem", "nightly failed")
    assert "failed" in told.data["text"]
    assert "exit code 7" in told.data["text"]
    assert (told.data["run"], told.data["schedule"]) == (run_id, "nightly")
    (alert,) = book.alerts.history(only_open=True)
    assert (alert.subject, alert.state, alert.resolved_at) == ("nightly", "sending", None)
    end_run(store, job)
    evaluate(one, store)
    assert len(alerts_told(store)) == 1
    end_run(store, job, "succeeded")
    evaluate(one, store)
    assert titles(store) == ["nightly failed", "recovered: nightly failed"]
    assert {event.data["incident"] for event in alerts_told(store)} == {told.data["incident"]}
    assert book.alerts.history(only_open=True) == []
    (alert,) = book.alerts.history()
    assert alert.count == 2
    one.close()


def test_failures_within_the_group_become_one_message_that_another_node_sends(
    store: Store, book: Book, clock: VirtualClock
) -> None:
    jobs = [add_schedule(store, f"job-{n}") for n in range(8)]
    book.alerts.save("ops", to=HOOK, group="10m")
    one = evaluator(store, clock)
    end_run(store, jobs[0])
    evaluate(one, store)
    for job in jobs[1:]:
        end_run(store, job)
    assert evaluate(one, store) <= 600
    assert len(alerts_told(store)) == 1
    clock.advance(10 * MINUTE)  # the first one is gone
    evaluate(evaluator(store, clock), store)
    _, grouped = alerts_told(store)
    assert grouped.data["count"] == 7
    assert grouped.data["title"].startswith("7 problems: job-")
    assert grouped.data["title"].endswith(" and 2 more")
    assert grouped.data["text"].count("\n") == 5


def test_a_repetition_within_the_group_is_sent_later_by_another_node(
    store: Store, book: Book, clock: VirtualClock
) -> None:
    jobs = [add_schedule(store, name) for name in ("one", "other", "third")]
    book.alerts.save("ops", to=HOOK, group="1m", repeat="1h")
    node = evaluator(store, clock)
    end_run(store, jobs[0])
    evaluate(node, store)
    for job in jobs[1:]:
        end_run(store, job)
    clock.advance(MINUTE)
    evaluate(node, store)
    first, grouped = titles(store)
    assert first == "one failed"
    assert grouped.startswith("2 problems: ")
    clock.advance(HOUR)
    for job in jobs:
        end_run(store, job)
    evaluate(node, store)
    assert titles(store)[2:] == ["still: one failed"]
    clock.advance(MINUTE)  # that node is gone
    evaluate(evaluator(store, clock), store)
    (repeated,) = titles(store)[3:]
    assert repeated.startswith("still: 2 problems: ")
    assert len({event.data["incident"] for event in alerts_told(store)}) == 2


def test_a_node_that_dies_at_any_point_of_its_evaluation_loses_and_doubles_nothing(
    backend: Backend, store: Store, book: Book, clock: VirtualClock
) -> None:
    job = add_schedule(store, "nightly")
    book.alerts.save("ops", to=HOOK, group="0s", limit=1_000)
    moment = expected = 0
    while True:
        end_run(store, job)
        end_run(store, job, "succeeded")
        expected += 2
        stamp(store)
        alive = _dies_at(moment, backend, clock)
        clock.advance(2 * LEASE)
        heir = evaluator(store, clock)
        evaluate(heir, store)
        heir.close()
        assert len(alerts_told(store)) == expected, f"at point {moment}"
        if alive:
            break
        moment += 1 if ALL else 3
    assert moment > 20


class Crash(BaseException):
    """The end of a process."""


def _dies_at(moment: int, backend: Backend, clock: VirtualClock) -> bool:
    """Whether the evaluation dies when killed after so many points."""
    left: int | None = None

    def hook(_: str) -> None:
        nonlocal left
        if left is not None:
            left -= 1
            if left < 0:
                raise Crash

    one = evaluator(backend.open(hook), clock)
    left = moment
    with suppress(Crash):
        while one.step() == 0:
            pass
        return True
    return False


def test_two_nodes_evaluate_a_namespace_one_at_a_time(
    store: Store, book: Book, clock: VirtualClock
) -> None:
    job = add_schedule(store, "nightly")
    book.alerts.save("ops", to=HOOK)
    first, second = evaluator(store, clock), evaluator(store, clock)
    evaluate(first, store)
    evaluate(second, store)
    end_run(store, job)
    evaluate(second, store)
    evaluate(first, store)
    assert len(alerts_told(store)) == 1


def test_a_stopped_node_that_wakes_up_after_its_lease_writes_nothing(
    store: Store, book: Book, clock: VirtualClock
) -> None:
    job = add_schedule(store, "nightly")
    book.alerts.save("ops", to=HOOK)
    stopped = evaluator(store, clock)
    evaluate(stopped, store)
    end_run(store, job)
    stamp(store)
    found = stopped.fetch()
    clock.advance(2 * LEASE)
    evaluate(evaluator(store, clock), store)
    assert found is not None
    stopped._evaluate(found)
    assert len(alerts_told(store)) == 1


def test_missed_due_times_are_told(store: Store, book: Book, clock: VirtualClock) -> None:
    add_schedule(store, "skipped", catchup="skip")
    book.alerts.save("ops", on=["missed"], to=HOOK)
    clock.advance(HOUR)
    tick(store)
    evaluate(evaluator(store, clock), store)
    (told,) = alerts_told(store)
    assert told.data["title"] == "skipped missed a due time"
    (alert,) = book.alerts.history()
    assert alert.count >= 58


def test_a_missed_due_time_that_is_caught_up_is_told(
    store: Store, book: Book, clock: VirtualClock
) -> None:
    add_schedule(store, "kept", catchup="all", catchup_pace="0s")
    book.alerts.save("ops", on=["missed"], to=HOOK)
    clock.advance(3 * MINUTE)
    tick(store)
    evaluate(evaluator(store, clock), store)
    assert titles(store) == ["kept missed a due time"]


def test_late_runs_and_due_times_are_told_until_they_start(
    store: Store, book: Book, clock: VirtualClock
) -> None:
    add_schedule(store, "queued", trigger={"every": "1h"})
    book.alerts.save("ops", on=["late:10m", "recovered"], to=HOOK, group="0s")
    one = evaluator(store, clock)
    clock.advance(HOUR)
    tick(store)
    clock.advance(5 * MINUTE)
    evaluate(one, store)
    assert titles(store) == []
    clock.advance(6 * MINUTE)
    evaluate(one, store)
    assert titles(store) == ["queued is more than 10m late"]
    begin(store)
    (claimed,) = claim(store, "node-1", limit=1)
    clock.advance(timedelta(seconds=11))
    evaluate(one, store)
    assert titles(store)[1:] == ["recovered: queued is more than 10m late"]
    settle(store, claimed.token)
    evaluate(one, store)
    assert len(titles(store)) == 2, "the end of the run tells nothing new"
    add_schedule(store, "unplanned", trigger={"every": "1h"})
    clock.advance(HOUR + 11 * MINUTE)
    evaluate(one, store)
    assert "unplanned" in titles(store)[-1]


def test_runs_that_take_too_long_are_told(store: Store, book: Book, clock: VirtualClock) -> None:
    job = add_schedule(store, "nightly", trigger={"every": "1h"})
    book.alerts.save("long", on=["running:30m"], to=HOOK)
    book.alerts.save("slow", on=["slow"], to=HOOK)
    for _ in range(5):
        end_run(store, job, "succeeded")
    clock.advance(HOUR)
    tick(store)
    begin(store)
    assert len(claim(store, "node-1", limit=1)) == 1
    one = evaluator(store, clock)
    clock.advance(MINUTE)
    evaluate(one, store)
    assert titles(store) == ["nightly has been running for more than 3 times its p95 duration"]
    clock.advance(HOUR)
    evaluate(one, store)
    assert titles(store)[1:] == ["nightly has been running for more than 30m"]


def test_a_schedule_without_success_is_told_and_closed_by_one(
    store: Store, book: Book, clock: VirtualClock
) -> None:
    job = add_schedule(store, "nightly", trigger={"every": "1h"}, labels={"team": "data"})
    add_schedule(store, "other", trigger={"every": "1h"})
    rule = {"on": ["no_success:1d", "recovered"], "to": HOOK, "labels": {"team": "data"}}
    book.alerts.save("ops", **rule)  # type: ignore[arg-type]
    one = evaluator(store, clock)
    clock.advance(23 * HOUR)
    evaluate(one, store)
    assert titles(store) == []
    clock.advance(2 * HOUR)
    evaluate(one, store)
    assert titles(store) == ["nightly has not succeeded for 1d"]
    end_run(store, job, "succeeded")
    evaluate(one, store)
    assert titles(store)[1:] == ["recovered: nightly has not succeeded for 1d"]


def test_a_relay_tells_that_nobody_plans_or_works(
    store: Store, book: Book, clock: VirtualClock
) -> None:
    book.alerts.save("fleet", on=["unattended:5m", "recovered"], to=HOOK, group="0s")
    one = evaluator(store, clock)
    clock.advance(4 * MINUTE)
    evaluate(one, store)
    assert titles(store) == []
    clock.advance(2 * MINUTE)
    evaluate(one, store)
    (told,) = alerts_told(store)
    assert told.data["count"] == 2
    assert "start one: duebook up" in told.data["text"]
    begin(store, "both", lease=HOUR, roles="scheduler,worker")
    clock.advance(MINUTE)
    evaluate(one, store)
    assert alerts_told(store)[1].type == "alert.resolved"


def test_namespaces_do_not_see_each_other(store: Store, book: Book, clock: VirtualClock) -> None:
    other = Book(store, "other")
    add_schedule(store, "theirs", namespace="other")
    book.alerts.save("ops", to=HOOK)
    other.alerts.save("ops", to="mailto:ops@example.com")
    (theirs,) = store.read(lambda tx: [tx.schedules.find_schedule("other", "theirs")])
    end_run(store, theirs, namespace="other")
    evaluate(evaluator(store, clock), store)
    evaluate(evaluator(store, clock, "other"), store)
    assert alerts_told(store) == []
    assert titles(store, "other") == ["theirs failed"]
    assert book.alerts.history() == []
    assert [rule.channels[0].address for rule in book.alerts.list()] == [
        "webhook hooks.example.com"
    ]
    with pytest.raises(NotFound):
        book.alerts.delivery(alerts_told(store, "other")[0].id)


def test_a_rule_of_a_schedule_is_deleted_with_it(
    store: Store, book: Book, clock: VirtualClock
) -> None:
    job = book.schedules.create("nightly", trigger={"every": "1h"}, target={"command": ["true"]})
    book.alerts.save("nightly", to=HOOK, schedule="nightly", with_schedule=True)
    book.alerts.save("kept", to=HOOK, schedule="nightly")
    one = evaluator(store, clock)
    end_run(store, job.id)
    evaluate(one, store)
    book.schedules.delete("nightly")
    evaluate(one, store)
    assert [rule.name for rule in book.alerts.list()] == ["kept"]
    assert book.alerts.history(only_open=True) == []
    assert titles(store).count("recovered: nightly failed") == 2


def test_channels_of_deleted_schedules_go_once_they_have_delivered_everything(
    store: Store, book: Book, clock: VirtualClock
) -> None:
    job = book.schedules.create("nightly", trigger={"every": "1h"}, target={"command": ["true"]})
    book.alerts.save("nightly", to=HOOK, schedule="nightly", with_schedule=True)
    one = evaluator(store, clock)
    end_run(store, job.id)
    book.schedules.delete("nightly")
    evaluate(one, store)
    (channel,) = [found for found in book.events.consumers() if found.kind == "alert_channel"]
    box = Box()

    def monotonic() -> float:
        return clock.now.timestamp()

    courier = Courier(store, channel, box, lease=LEASE, monotonic=monotonic)
    while courier.step() == 0:
        pass
    assert [got.event.type for got in box.got] == ["alert.problem", "alert.resolved"]
    store.transact(lambda tx: tidy_channels(tx, "default"))
    assert book.events.consumers() == []


def test_rules_silences_and_channels_are_recorded_without_secrets(
    store: Store, book: Book, clock: VirtualClock
) -> None:
    book.alerts.save("ops", to=[HOOK, "pagerduty:marked-secret-key"])
    rule = book.alerts.save("ops", on=["failure", "late:1h"])
    assert len(rule.to) == 2
    kept = book.alerts.save("ops", to=encode(rule)["to"])
    assert [channel.name for channel in kept.channels] == [c.name for c in rule.channels]
    book.alerts.silence("ops", clock.now + HOUR)
    book.alerts.test("ops")
    book.alerts.remove("ops")
    changes = book.audit.list(kind="alert_rule")
    assert [change.action for change in reversed(changes)] == [
        *("create", "update", "update", "silence", "test", "delete")
    ]
    shown = [encode(change) for change in changes] + [encode(rule)]
    shown += [encode(event) for event in alerts_told(store)]
    assert "marked-secret" not in str(shown)
    assert book.events.consumers() == []


def test_a_silenced_rule_tells_nothing(store: Store, book: Book, clock: VirtualClock) -> None:
    job = add_schedule(store, "nightly")
    book.alerts.save("ops", to=HOOK)
    with pytest.raises(Invalid, match="choose a later time"):
        book.alerts.silence("ops", clock.now)
    book.alerts.silence("ops", clock.now + HOUR)
    end_run(store, job)
    evaluate(evaluator(store, clock), store)
    assert alerts_told(store) == []
    assert [alert.state for alert in book.alerts.history()] == ["silenced"]
    assert book.alerts.silence("ops").silenced_until is None


def test_rules_and_channels_are_bounded(
    book: Book, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_schedule(store, "nightly")
    monkeypatch.setattr("duebook.book.alerts.MOST_RULES", 2)
    monkeypatch.setattr("duebook.book.alerts.MOST_OWN_CHANNELS", 2)
    for name in ("one", "two"):
        book.alerts.save(name, to=f"mailto:{name}@example.com")
    with pytest.raises(Conflict, match="already has 2 alert rules"):
        book.alerts.save("three", to="mailto:one@example.com")
    with pytest.raises(Conflict, match="already has 2 channels"):
        book.alerts.save("two", to="mailto:three@example.com")
    book.alerts.save("own", to="mailto:one@example.com", schedule="nightly", with_schedule=True)
    with pytest.raises(Invalid, match="to has 11 channels"):
        book.alerts.save("two", to=[f"mailto:a{n}@example.com" for n in range(11)])
    with pytest.raises(Invalid, match="to is missing"):
        Book(store, "other").alerts.save("three")


def test_what_serves_alert_rules_is_not_deleted_by_itself(book: Book) -> None:
    book.alerts.save("ops", to=HOOK)
    with pytest.raises(Conflict, match="duebook alert rm"):
        book.events.remove("duebook.alerts")
    assert book.events.sinks() == []


def test_a_test_message_tells_which_channels_accepted_it(
    store: Store, book: Book, clock: VirtualClock
) -> None:
    rule = book.alerts.save("ops", to=HOOK)
    sent = book.alerts.test("ops")
    stamp(store)
    assert book.alerts.delivery(sent.event_id).waiting == sent.waiting
    (consumer,) = [one for one in book.events.consumers() if one.kind == "alert_channel"]
    box = Box()

    def monotonic() -> float:
        return clock.now.timestamp()

    courier = Courier(store, consumer, box, lease=LEASE, monotonic=monotonic)
    box.down = True
    courier.step()
    assert book.alerts.delivery(sent.event_id).errors == {rule.channels[0].name: "it is down"}
    assert book.alerts.get("ops").channels[0].failing
    box.down = False
    clock.advance(MINUTE)
    while courier.step() == 0:
        pass
    assert book.alerts.delivery(sent.event_id).delivered == sent.waiting


def test_a_changed_rule_forgets_problems_that_it_no_longer_asks_for(
    store: Store, book: Book, clock: VirtualClock
) -> None:
    job = add_schedule(store, "nightly")
    book.alerts.save("ops", to=HOOK)
    end_run(store, job)
    evaluate(evaluator(store, clock), store)
    book.alerts.save("ops", on=["missed"])
    assert book.alerts.history(only_open=True) == []


def test_old_alerts_are_forgotten(store: Store, book: Book, clock: VirtualClock) -> None:
    job = add_schedule(store, "nightly")
    book.alerts.save("ops", to=HOOK)
    one = evaluator(store, clock)
    end_run(store, job)
    end_run(store, job, "succeeded")
    evaluate(one, store)
    end_run(store, job)
    evaluate(one, store)
    clock.advance(HOUR)
    store.transact(lambda tx: tx.upkeep.purge(tx.now, 100))
    assert [alert.resolved_at for alert in book.alerts.history()] == [None]


def test_history_says_whether_messages_were_delivered_or_refused(
    store: Store, book: Book, clock: VirtualClock
) -> None:
    job = add_schedule(store, "nightly")
    book.alerts.save("ops", to=[HOOK, "mailto:ops@example.com"])
    one = evaluator(store, clock)
    end_run(store, job)
    evaluate(one, store)
    (alert,) = book.alerts.history()
    assert alert.state == "sending"
    assert sorted(each.address for each in alert.deliveries) == [
        "email ops@example.com",
        "webhook hooks.example.com",
    ]
    box = Box()
    box.refuses.add(alert.id)
    taking, refusing = alert.deliveries
    _deliver(store, clock, taking.channel, Box())
    _deliver(store, clock, refusing.channel, box)
    (alert,) = book.alerts.history()
    assert (alert.state, [each.state for each in alert.deliveries]) == (
        "sending",
        ["delivered", "sending"],
    )
    assert alert.deliveries[1].error
    for _ in range(10):
        clock.advance(timedelta(minutes=5))
        _deliver(store, clock, refusing.channel, box)
    (alert,) = book.alerts.history()
    assert alert.event_id is not None
    assert (alert.state, alert.deliveries[1].state) == ("refused", "refused")
    test = book.alerts.delivery(alert.event_id)
    assert (test.delivered, test.waiting) == ((taking.channel,), (refusing.channel,))
    book.events.replay_dead(refusing.channel)
    (alert,) = book.alerts.history()
    assert alert.state == "sending"
    _deliver(store, clock, refusing.channel, Box())
    (alert,) = book.alerts.history()
    assert alert.state == "delivered"


def _deliver(store: Store, clock: VirtualClock, channel: str, box: Box) -> None:
    def monotonic() -> float:
        return clock.now.timestamp()

    consumer = store.read(lambda tx: tx.consumers.get_consumer("default", channel))
    courier = Courier(store, consumer, box, lease=LEASE, monotonic=monotonic)
    while courier.step() == 0:
        pass
    courier.close()


def test_messages_have_a_date_and_a_zone(store: Store, book: Book, clock: VirtualClock) -> None:
    trigger = {"cron": "0 2 * * *", "tz": "Europe/Brussels"}
    job = book.schedules.create("nightly", trigger=trigger, target={"command": ["true"]})
    book.alerts.save("ops", to=HOOK)
    one = evaluator(store, clock)
    end_run(store, job.id)
    evaluate(one, store)
    end_run(store, job.id, "succeeded")
    evaluate(one, store)
    problem, resolved = (event.data["text"] for event in alerts_told(store))
    assert problem.startswith(f"{clock.now:%a %Y-%m-%d} ")
    assert "(Europe/Brussels): ran at " in problem
    assert " as a manual run, for less than 1 s, failed" in problem
    assert f"found 1 time since {clock.now:%a %Y-%m-%d}" in resolved
    assert resolved.endswith("(UTC)")


def test_a_disabled_rule_leaves_nothing_waiting(
    store: Store, book: Book, clock: VirtualClock
) -> None:
    jobs = [add_schedule(store, name) for name in ("a", "b")]
    book.alerts.save("ops", to=HOOK, on=["failure", "late:10m"])
    one = evaluator(store, clock)
    for job in jobs:
        end_run(store, job)
        evaluate(one, store)
    assert [alert.state for alert in book.alerts.history()] == ["waiting", "sending"]
    book.alerts.save("ops", on=["failure", "late:10m"], enabled=False)
    (reader,) = [r for r in store.read(lambda tx: tx.alerts.readers()) if r.name == ALERTS]
    assert not reader.waiting
    assert book.alerts.history(only_open=True) == []
    consumer = store.read(lambda tx: tx.consumers.get_consumer("default", ALERTS))
    assert not consumer.options["timed"]
