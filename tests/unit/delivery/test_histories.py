"""Whatever happens to members and receivers: in the end every event that is asked for was delivered
or is a dead letter, of each key in order, and what came twice has the same id."""

from __future__ import annotations

import tempfile
from collections import defaultdict
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hypothesis import given, settings
from hypothesis import strategies as st

from duebook.delivery.courier import Courier
from duebook.ids import new_id
from duebook.model.consumer import Report, new_consumer
from duebook.model.event import new_draft
from duebook.store.sqlite import SqliteStore
from tests.support.builders import LEASE, VirtualClock, add_schedule
from tests.support.examples import some_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duebook.model.consumer import Delivery
    from duebook.model.event import Draft, Event

MEMBERS = 3
KEYS = "abcde"
OTHERS = "ABCDE12345"
"""Events of the same keys: of another type, or of a schedule without the label."""

ACTS = st.one_of(
    st.tuples(st.just("append"), st.text(KEYS + OTHERS, min_size=1, max_size=4)),
    st.tuples(st.just("step"), st.integers(0, MEMBERS - 1)),
    st.tuples(st.just("kill"), st.integers(0, MEMBERS - 1)),
    st.tuples(st.just("leave"), st.integers(0, MEMBERS - 1)),
    st.tuples(st.just("wait"), st.sampled_from([1, 15, 45, 400])),
    st.tuples(st.just("refused"), st.text(KEYS, max_size=2)),
    st.tuples(st.just("busy"), st.text(KEYS, max_size=2)),
    st.tuples(st.just("is_down"), st.booleans()),
    st.tuples(st.just("dies_after"), st.integers(0, 3)),
)


FILTERS: list[dict[str, Any]] = [{}, {"types": ["t"], "labels": {"team": "data"}}]


class Death(BaseException):
    """The end of a process."""


class World:
    """A log, members that come and go, and one receiver for all."""

    def __init__(self, path: Path, filters: dict[str, Any]) -> None:
        self.clock = VirtualClock()
        self.store = SqliteStore(path, self.clock, durable=False)
        self.schedule = add_schedule(self.store, labels={"team": "data"})
        wanted = new_consumer("default", "billing", "group", None, 4, 2, **filters)
        self.consumer = self.store.transact(lambda tx: tx.consumers.save_consumer(wanted, 0))
        self.members: dict[int, Courier] = {}
        self.got: list[Event] = []
        self.refused, self.busy, self.is_down = "", "", False
        self.dies_after: int | None = None

    def deliver(self, deliveries: Sequence[Delivery]) -> Report:
        report = Report()
        for delivery in deliveries:
            if self.dies_after == 0:
                self.dies_after = None
                raise Death
            if self.dies_after is not None:
                self.dies_after -= 1
            event = delivery.event
            failed = report.rejected | report.undelivered
            behind = any(d.event.id in failed and d.event.key == event.key for d in deliveries)
            if self.is_down:
                report.undelivered[event.id] = "down"
            elif behind:
                report.untried.add(event.id)
            elif event.key in self.refused:
                report.rejected[event.id] = "refused"
            elif event.key in self.busy:
                report.undelivered[event.id] = "busy"
            else:
                self.got.append(event)
        return report

    def _monotonic(self) -> float:
        return self.clock.now.timestamp()

    def member(self, number: int) -> Courier:
        if number not in self.members:
            self.members[number] = Courier(
                self.store, self.consumer, self, 3, LEASE, self._monotonic
            )
        return self.members[number]

    def act(self, what: str, detail: Any) -> None:
        match what:
            case "append":
                drafts = [self.draft(letter) for letter in detail]
                self.store.transact(lambda tx: tx.events.append_events(drafts))
            case "step":
                self.step(detail)
            case "kill":
                self.members.pop(detail, None)
            case "leave":
                if (leaving := self.members.pop(detail, None)) is not None:
                    leaving.close()
            case "wait":
                self.clock.advance(timedelta(seconds=detail))
            case _:
                setattr(self, what, detail)

    def draft(self, letter: str) -> Draft:
        key = letter.lower() if letter.isalpha() else KEYS[int(letter) - 1]
        type_ = "other" if letter.isupper() else "t"
        meta = {} if letter.isdigit() else {"schedule_id": self.schedule}
        return new_draft(new_id(), "default", "t", type_, key, letter, meta)

    def step(self, number: int) -> None:
        try:
            self.member(number).step()
        except Death:
            del self.members[number]

    def come_to_rest(self) -> None:
        self.refused, self.busy, self.is_down, self.dies_after = "", "", False, None
        last = self.store.read(lambda tx: tx.events.last_position())
        for _ in range(200):
            self.clock.advance(timedelta(minutes=6))
            self.step(0)
            (lag,) = self.store.read(lambda tx: tx.consumers.list_lags())
            if lag.behind == 0 and last == self.store.read(lambda tx: tx.events.last_position()):
                return
        raise AssertionError("it does not come to rest")


@settings(max_examples=some_of(60))
@given(acts=st.lists(ACTS, max_size=40), filters=st.sampled_from(FILTERS))
def test_every_event_is_delivered_in_the_order_of_its_key_or_is_a_dead_letter(
    acts: list[tuple[str, Any]], filters: dict[str, Any]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        world = World(Path(folder) / "books.db", filters)
        with closing(world.store):
            for act in acts:
                world.act(*act)
            world.come_to_rest()
            events = world.store.read(lambda tx: tx.events.read_events("default", 0, 1_000)).events
            letters = world.store.read(
                lambda tx: tx.consumers.list_letters("default", None, 1_000).rows
            )
    dead = {letter.event.id for letter in letters}
    delivered = {event.id for event in world.got}
    wanted = [event for event in events if not filters or event.data in KEYS]
    assert delivered | dead == {event.id for event in wanted}
    first: dict[str, list[int]] = defaultdict(list)
    for key, position in dict.fromkeys((event.key, event.position or 0) for event in world.got):
        first[key].append(position)
    for positions in first.values():
        assert positions == sorted(positions)
