"""Random histories of keys, compared with a small oracle that shares no code with them."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import count
from typing import TYPE_CHECKING, Any, Final

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from duebook.book import Book
from tests.support.builders import SECOND, VirtualClock, begin, settle
from tests.support.examples import some_of

if TYPE_CHECKING:
    from duebook.model.run import Token
    from duebook.store.base import Store

_NUMBERS: Final = count()
WAYS: Final[list[dict[str, str]]] = [
    {},
    {"unique": "pending"},
    {"unique": "active"},
    {"unique": "forever"},
    {"unique": "7s"},
    {"debounce": "3s"},
    {"debounce": "3s", "max_wait": "5s"},
    {"throttle": "10s"},
]
calls = st.tuples(
    st.just("enqueue"),
    st.sampled_from(["a", "b"]),
    st.integers(0, 2),
    st.sampled_from(WAYS),
)
others = st.tuples(
    st.sampled_from(["claim", "settle", "hand_back", "cancel", "wait"]), st.integers(0, 9)
)
histories = st.lists(st.one_of(calls, others), min_size=2, max_size=20)


@dataclass
class Known:
    """A run, as the oracle knows it."""

    id: str
    way: dict[str, str]
    payload: int
    created: datetime
    ready: datetime
    attempts: int = 0
    claimed: datetime | None = None
    state: str = "queued"

    @property
    def pending(self) -> bool:
        return self.state == "queued" and not self.attempts

    def keeps_key(self, now: datetime) -> bool:
        if "debounce" in self.way or "throttle" in self.way:
            return self.pending
        match self.way.get("unique", "forever"):
            case "pending":
                return self.pending
            case "active":
                return self.state != "ended"
            case "forever":
                return True
            case _:
                return now - self.created < timedelta(seconds=7)


@dataclass
class Oracle:
    clock: VirtualClock
    holders: dict[str, Known] = field(default_factory=dict)
    runs: dict[str, Known] = field(default_factory=dict)

    def enqueue(self, key: str, payload: int, way: dict[str, str], made: str) -> Known:
        now, last = self.clock.now, self.holders.get(key)
        if last is None or not last.keeps_key(now):
            found = Known(made, way, payload, now, self._ready(way, last))
            self.holders[key] = self.runs[made] = found
            return found
        if last.pending and ("debounce" in way or "throttle" in way):
            last.payload = payload
            if "debounce" in way:
                latest = last.created + (5 if "max_wait" in way else 30) * SECOND
                last.ready = max(last.ready, min(now + 3 * SECOND, latest))
        return last

    def _ready(self, way: dict[str, str], last: Known | None) -> datetime:
        now = self.clock.now
        if "debounce" in way:
            return now + 3 * SECOND
        if "throttle" not in way or last is None:
            return now
        if not last.attempts:
            return max(now, last.ready)
        return max(now, (last.claimed or max(now, last.ready)) + 10 * SECOND)


class Story:
    """What is done in one namespace, and what the oracle expects."""

    def __init__(self, store: Store, clock: VirtualClock) -> None:
        namespace = f"n{next(_NUMBERS)}"
        self.book, self.oracle = Book(store, namespace), Oracle(clock)
        self._store, self._clock = store, clock
        self._session = begin(store, f"node-{namespace}", lease=timedelta(days=365))
        self._tokens: dict[str, Token] = {}

    def do_enqueue(self, key: str, number: int, way: dict[str, str]) -> None:
        known = set(self.oracle.runs)
        given: Any = way
        run = self.book.enqueue("digest", {"n": number}, key=key, **given)
        expected = self.oracle.enqueue(key, number, way, run.id)
        assert (run.id, run.is_new) == (expected.id, run.id not in known)
        assert (run.payload, run.ready_at) == ({"n": expected.payload}, expected.ready)

    def do_claim(self, number: int) -> None:
        wanted = (self._session, "default", number + 1, ["digest"], self.book.namespace)
        for claimed in self._store.transact(lambda tx: tx.claims.claim(*wanted)):
            mine = self.oracle.runs[claimed.run.id]
            assert mine.state == "queued"
            assert mine.ready <= self._clock.now
            assert claimed.run.payload == {"n": mine.payload}
            mine.state, mine.claimed = "running", self._clock.now
            mine.attempts += 1
            self._tokens[mine.id] = claimed.token

    def do_settle(self, number: int) -> None:
        if (mine := self._chosen("running", number)) is not None:
            assert settle(self._store, self._tokens[mine.id])
            mine.state = "ended"

    def do_hand_back(self, number: int) -> None:
        if (mine := self._chosen("running", number)) is not None:
            tokens = [self._tokens[mine.id]]
            self._store.transact(lambda tx: tx.attempts.hand_back_all(tokens))
            mine.state, mine.claimed = "queued", None

    def do_cancel(self, number: int) -> None:
        if (mine := self._chosen("queued", number)) is not None:
            assert self.book.runs.cancel(mine.id) == "cancelled"
            mine.state = "ended"

    def do_wait(self, number: int) -> None:
        self._clock.advance((number + 1) * SECOND)

    def _chosen(self, state: str, number: int) -> Known | None:
        found = [run for run in self.oracle.runs.values() if run.state == state]
        return found[number % len(found)] if found else None


@settings(
    max_examples=some_of(120),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(histories)
def test_keys_do_what_a_small_oracle_says(
    store: Store, clock: VirtualClock, history: list[Any]
) -> None:
    story = Story(store, clock)
    for step, *given_ in history:
        getattr(story, f"do_{step}")(*given_)
    assert {run.id for run in story.book.runs.list(limit=100)} == set(story.oracle.runs)
