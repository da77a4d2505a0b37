"""What is told of problems: once each, grouped, within limits, and over only after it began."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import count, pairwise
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from duebook.alerting import Board, Happening, Look, Standing, Subject, decide
from duebook.model.alert import AlertRule
from duebook.model.window import MaintenanceWindow
from duebook.timetext import parse_duration
from tests.support.examples import some_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duebook.alerting import Told
    from duebook.model.alert import Alert

BEGIN = datetime(2026, 1, 5, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
NIGHTLY = Subject("nightly", "nightly", {"team": "data"})


def rule(name: str = "ops", on: Sequence[str] = ("failure", "recovered"), **more: Any) -> AlertRule:
    return AlertRule("default", name, tuple(on), ("channel",), created_at=BEGIN, **more)


class World:
    """Keeps what the database would keep, and the messages with their times."""

    def __init__(self, *rules: AlertRule) -> None:
        self.rules = {each.name: each for each in rules}
        self.alerts: dict[str, Alert] = {}
        self.streaks: dict[str, int] = {}
        self.windows: list[MaintenanceWindow] = []
        self.now = BEGIN
        self.told: list[tuple[datetime, Told]] = []
        self.wake_at: datetime | None = None
        self._ids = count()

    def play(self, *facts: Happening, look: Look | None = None) -> list[Told]:
        found = Board(
            list(self.rules.values()),
            list(self.alerts.values()),
            self.streaks,
            self.windows,
            [alert for alert in self.alerts.values() if alert.kind == "late"],
        )
        decided = decide(found, facts, look, self.now, lambda: f"a{next(self._ids)}")
        self.alerts |= {alert.id: alert for alert in decided.alerts}
        self.streaks |= decided.streaks
        for name, sent in decided.sent.items():
            self.rules[name] = replace(self.rules[name], sent=sent)
        self.told += [(self.now, told) for told in decided.told]
        self.wake_at = decided.wake_at
        open_ = Counter(
            (alert.rule, alert.kind, alert.subject)
            for alert in self.alerts.values()
            if alert.resolved_at is None
        )
        assert set(open_.values()) <= {1}, "a problem is open once"
        return decided.told

    def fail(self, subject: Subject = NIGHTLY) -> list[Told]:
        return self.play(Happening("failed", subject, self.now, text="exit code 1"))

    def succeed(self, subject: Subject = NIGHTLY) -> list[Told]:
        return self.play(Happening("succeeded", subject, self.now))

    def later(self, length: timedelta) -> World:
        self.now += length
        return self


def statuses(told: Sequence[Told]) -> list[str]:
    return [each.status for each in told]


def test_a_failure_is_told_once_and_its_recovery_closes_it() -> None:
    world = World(rule())
    assert statuses(world.fail()) == ["problem"]
    assert world.later(MINUTE * 5).fail() == []
    (over,) = world.later(MINUTE).succeed()
    assert over.status == "resolved"
    assert over.key == world.told[0][1].key
    assert world.later(MINUTE).succeed() == []
    assert statuses(world.fail()) == ["problem"]


def test_a_recovery_is_told_only_where_a_rule_asks_for_it() -> None:
    world = World(rule(on=("failure",)))
    world.fail()
    assert world.later(MINUTE).succeed() == []
    assert world.alerts["a0"].resolved_at == world.now


def test_the_nth_failure_in_a_row_is_told() -> None:
    world = World(rule(on=("failures:3", "recovered")))
    assert world.fail() == []
    assert world.fail() == []
    (told,) = world.fail()
    assert told.alerts[0].title == "nightly failed 3 times in a row"
    assert statuses(world.succeed()) == ["resolved"]
    assert world.fail() == world.fail() == []


def test_problems_soon_after_a_message_become_one_message_with_their_number() -> None:
    world = World(rule(group="10m"))
    assert len(world.fail(Subject("first", "first"))) == 1
    for n in range(7):
        assert world.later(MINUTE).fail(Subject(f"job-{n}", f"job-{n}")) == []
    assert world.wake_at == BEGIN + 10 * MINUTE
    (told,) = world.later(MINUTE * 3).play()
    assert told.count == 7
    assert len(told.alerts) == 5
    for n in range(6):
        assert world.succeed(Subject(f"job-{n}", f"job-{n}")) == []
    assert statuses(world.succeed(Subject("job-6", "job-6"))) == ["resolved"]


def test_what_is_over_before_it_was_told_is_told_with_its_end() -> None:
    world = World(rule(group="10m"))
    world.fail(Subject("first", "first"))
    world.later(MINUTE).fail()
    assert world.later(MINUTE).succeed() == []
    assert statuses(world.later(10 * MINUTE).play()) == ["problem", "resolved"]


def test_a_rule_concerns_one_schedule_a_label_or_everything() -> None:
    one = rule("one", schedule="nightly")
    label = rule("label", labels={"team": "data"})
    world = World(one, label, rule("all"))
    assert [told.rule.name for told in world.fail()] == ["one", "label", "all"]
    assert [told.rule.name for told in world.later(MINUTE).fail(Subject("task:mail"))] == ["all"]
    other = Subject("other", "other", {"team": "web"})
    assert [told.rule.name for told in world.later(MINUTE).fail(other)] == ["all"]


def test_nothing_is_told_in_a_silence_and_what_persists_is_told_after_it() -> None:
    world = World(rule(silenced_until=BEGIN + 10 * MINUTE))
    assert world.fail() == []
    assert world.later(20 * MINUTE).play() == [], "it may be over"
    assert statuses(world.fail()) == ["problem"]


def test_what_failed_and_recovered_in_a_silence_is_never_told() -> None:
    world = World(rule(silenced_until=BEGIN + 10 * MINUTE))
    world.fail()
    world.succeed()
    assert world.later(20 * MINUTE).play() == []
    assert [alert.state for alert in world.alerts.values()] == ["silenced"]


def test_maintenance_windows_silence_the_schedules_that_they_select() -> None:
    window = MaintenanceWindow(
        "default", "upgrade", {"team": "data"}, BEGIN, BEGIN + 60 * MINUTE, BEGIN, ""
    )
    world = World(rule())
    world.windows = [window]
    assert world.fail() == []
    assert statuses(world.fail(Subject("other", "other"))) == ["problem"]


def test_a_problem_that_persists_is_told_again_after_repeat() -> None:
    world = World(rule(repeat="1h"))
    (first,) = world.fail()
    assert world.later(30 * MINUTE).fail() == []
    (again,) = world.later(30 * MINUTE).fail()
    assert (again.repeated, again.key) == (True, first.key)
    assert world.later(30 * MINUTE).fail() == []


@pytest.mark.parametrize("hours", [23, 24, 25])
def test_what_fails_every_night_is_told_every_night(hours: int) -> None:
    """Also where it ends a little earlier than before, and where a day has 23 hours."""
    world = World(rule())
    assert statuses(world.fail()) == ["problem"]
    for late in (0, 20, 3, 15, 0):
        world.later(timedelta(hours=hours, minutes=-late))
        assert statuses(world.fail()) == ["problem"]
        assert world.later(6 * 60 * MINUTE).fail() == []
        world.later(-6 * 60 * MINUTE + late * MINUTE)


def test_repetitions_within_the_group_wait_and_are_not_lost() -> None:
    world = World(rule(repeat="1d"))
    (first,) = world.fail()
    world.fail(SUBJECTS[0])
    (second,) = world.later(MINUTE).play()
    world.later(timedelta(days=1))
    (again,) = world.fail()
    assert world.fail(SUBJECTS[0]) == []
    assert world.wake_at == world.now + MINUTE
    (other,) = world.later(MINUTE).play()
    assert [again.key, other.key] == [first.key, second.key]
    assert [again.repeated, other.repeated] == [True, True]
    assert world.later(MINUTE).play() == []
    assert world.wake_at is None


def test_a_repetition_that_waits_is_not_told_once_its_problem_is_over() -> None:
    world = World(rule(repeat="1d"))
    world.fail()
    world.fail(SUBJECTS[0])
    world.later(MINUTE).play()
    world.later(timedelta(days=1)).fail()
    world.fail(SUBJECTS[0])
    assert statuses(world.succeed(SUBJECTS[0])) == ["resolved"]
    assert world.wake_at is None
    assert world.later(MINUTE).play() == []


def test_a_problem_that_stands_is_told_again_no_earlier_than_its_repeat() -> None:
    world = World(rule(on=("no_success:1h",), repeat="1h"))
    stands = Standing("no_success", NIGHTLY, BEGIN - timedelta(hours=2), rule="ops")
    look = Look([stands], frozenset({"no_success"}))
    assert statuses(world.play(look=look)) == ["problem"]
    assert world.later(59 * MINUTE).play(look=look) == []
    assert statuses(world.later(MINUTE).play(look=look)) == ["problem"]


@pytest.mark.parametrize(
    ("condition", "kind", "key"),
    [("late:10m", "late", "nightly"), ("running:10m", "running", "nightly run:r1")],
)
def test_what_takes_too_long_is_a_problem_until_it_does_not(
    condition: str, kind: Any, key: str
) -> None:
    world = World(rule(on=(condition, "recovered")))
    stands = Standing(kind, NIGHTLY, BEGIN, "r1")
    look = Look([stands], frozenset({"late", "running", "slow"}))
    assert world.later(10 * MINUTE).play(look=look) == []
    (told,) = world.later(MINUTE).play(look=look)
    assert told.alerts[0].subject == key
    assert world.later(MINUTE).play(look=look) == []
    assert statuses(world.later(MINUTE).play(look=replace(look, standings=[]))) == ["resolved"]


def test_a_run_is_slow_when_it_takes_three_times_its_p95() -> None:
    world = World(rule(on=("slow",)))
    stands = Standing("running", NIGHTLY, BEGIN, "r1", usual=MINUTE)
    look = Look([stands], frozenset({"running", "slow"}))
    assert world.later(3 * MINUTE).play(look=look) == []
    assert len(world.later(timedelta(seconds=1)).play(look=look)) == 1
    unknown = Look([stands._replace(usual=None, run_id="r2")], look.kinds)
    assert world.later(100 * MINUTE).play(look=unknown) == []


def test_nobody_who_plans_concerns_rules_of_single_schedules_too() -> None:
    world = World(rule("one", on=("unattended",), schedule="nightly"), rule("other"))
    stands = Standing("unattended", Subject("plan"), BEGIN, rule="one")
    (told,) = world.later(MINUTE).play(look=Look([stands], frozenset({"unattended"})))
    assert told.rule.name == "one"
    assert told.alerts[0].title == "no node plans due times"


def test_a_deleted_schedule_closes_its_problems() -> None:
    world = World(rule())
    world.fail()
    gone = Happening("deleted", NIGHTLY, world.now, text="the id")
    assert statuses(world.play(gone)) == ["resolved"]


def test_a_run_that_started_too_late_is_told_when_it_ends() -> None:
    world = World(rule(on=("late:10m",)))
    on_time = Happening("succeeded", NIGHTLY, world.now, late=10 * MINUTE)
    assert world.play(on_time) == []
    assert len(world.play(on_time._replace(late=11 * MINUTE))) == 1


def look_at_late(*late: Standing) -> Look:
    return Look(list(late), frozenset({"late"}))


def test_a_due_time_that_was_told_as_late_is_not_told_again_when_its_run_ends() -> None:
    world = World(rule(on=("late:10m", "recovered"), group="0s"))
    due = world.now
    waits = look_at_late(Standing("late", NIGHTLY, due, "r1", due))
    assert statuses(world.later(11 * MINUTE).play(look=waits)) == ["problem"]
    started = world.later(MINUTE).now
    ended = Happening("succeeded", NIGHTLY, started, "r1", due, late=started - due)
    assert world.play(ended) == []  # before a look sees that it started
    assert world.alerts["a0"].count == 1
    assert statuses(world.later(MINUTE).play(look=look_at_late())) == ["resolved"]
    assert world.play(ended) == []
    other = due + MINUTE  # was late as well, while that problem was open
    next_one = Happening("failed", NIGHTLY, started, "r2", other, late=started - other)
    assert world.play(next_one) == []


def test_a_due_time_that_was_late_after_another_one_is_told() -> None:
    world = World(rule(on=("late:10m",), group="0s"))
    due = world.now
    waits = look_at_late(Standing("late", NIGHTLY, due, "r1", due))
    assert statuses(world.later(11 * MINUTE).play(look=waits)) == ["problem"]
    world.later(MINUTE).play(look=look_at_late())
    later = world.now
    world.later(15 * MINUTE)
    ended = Happening("succeeded", NIGHTLY, world.now, "r2", later, late=12 * MINUTE)
    assert statuses(world.play(ended)) == ["problem"]
    assert statuses(world.play(ended._replace(subject=SUBJECTS[0]))) == ["problem"]


def test_a_silence_holds_back_what_waits_but_no_end_of_what_was_told() -> None:
    world = World(rule(group="10m"))
    world.fail()
    world.later(MINUTE).fail(SUBJECTS[0])  # waits for the group
    silence = world.later(MINUTE).now + 60 * MINUTE
    world.rules["ops"] = replace(world.rules["ops"], silenced_until=silence)
    (over,) = world.later(30 * MINUTE).succeed()
    assert (over.status, over.alerts[0].subject) == ("resolved", "nightly")
    assert world.wake_at == world.now + MINUTE  # people may end the silence
    assert world.later(29 * MINUTE).play() == []
    (told,) = world.later(MINUTE).play()
    assert (told.status, told.alerts[0].subject) == ("problem", "a")


# -- whole histories

SUBJECTS = [Subject(name, name, {"team": team}) for name, team in zip("abcd", "xxyy", strict=True)]
steps = st.tuples(
    st.sampled_from(["failed", "succeeded", "missed", "look", "wait"]),
    st.sampled_from(SUBJECTS),
    st.integers(0, 40),
)
rules = st.builds(
    rule,
    st.just("ops"),
    st.sets(st.sampled_from(["failure", "failures:2", "missed", "late:5m"]), min_size=1).map(
        lambda kinds: (*sorted(kinds), "recovered")
    ),
    group=st.sampled_from(["0s", "1m", "30m"]),
    limit=st.integers(1, 4),
    repeat=st.sampled_from([None, "10m", "1d"]),
    labels=st.sampled_from([{}, {"team": "x"}]),
    silenced_until=st.sampled_from([None, BEGIN + 30 * MINUTE]),
)


@settings(max_examples=some_of(300), deadline=None)
@given(rules, st.lists(steps, max_size=40))
def test_each_problem_is_told_once_within_limits_and_over_only_after_it_began(
    given_rule: AlertRule, history: list[tuple[str, Subject, int]]
) -> None:
    world = World(given_rule)
    late: dict[str, Standing] = {}
    for kind, subject, minutes in history:
        world.later(minutes * MINUTE)
        if kind in ("failed", "succeeded", "missed"):
            world.play(Happening(kind, subject, world.now))  # type: ignore[arg-type]
        elif kind == "look":
            if late.pop(subject.key, None) is None:
                late[subject.key] = Standing("late", subject, world.now)
            world.play(look=Look(list(late.values()), frozenset({"late"})))
    while world.wake_at is not None:  # nothing that waits is forgotten
        world.now = max(world.now, world.wake_at)
        world.play()
    check(world, given_rule)


def check(world: World, wanted: AlertRule) -> None:
    first = [told for _, told in world.told if told.status == "problem" and not told.repeated]
    sent = [alert for alert in world.alerts.values() if alert.state == "sent"]
    assert sum(told.count for told in first) == len(sent), "each is counted once"
    assert not [alert for alert in world.alerts.values() if alert.state == "waiting"]
    assert len({told.key for told in first}) == len(first)
    over = [told.key for _, told in world.told if told.status == "resolved"]
    assert len(set(over)) == len(over)
    begun: set[str] = set()
    for _, told in world.told:
        if told.status == "problem":
            begun.add(told.key)
        else:
            assert told.key in begun, "nothing recovers that was not told"
            members = [a for a in world.alerts.values() if a.message == told.key]
            assert all(alert.resolved_at is not None for alert in members)
            assert told.count == len(members)
    times = [at for at, told in world.told if told.status == "problem"]
    for before, after in pairwise(times):
        assert after - before >= parse_duration(wanted.group)
    for number, at in enumerate(times[wanted.limit :]):
        assert at - times[number] >= timedelta(hours=1)
