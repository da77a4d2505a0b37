"""Small builders for tests with a database: a schedule, a tick, a session, a claimed run."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, Literal

from duebook.ids import new_id
from duebook.model.definition import load_spec
from duebook.model.filters import LedgerFilter, RunFilter, ScheduleFilter
from duebook.model.run import Outcome
from duebook.planner import next_control, plan, plan_edit
from duebook.store.values import Edit, LedgerEntry, SessionInfo
from duebook.timetext import format_instant

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duebook.model.run import Claim, Run, Token
    from duebook.model.schedule import Schedule, ScheduleSpec
    from duebook.store.base import Store, Tx
    from duebook.store.values import Work

BEGIN: Final = datetime(2026, 1, 5, 12, 0, tzinfo=UTC)
SECOND: Final = timedelta(seconds=1)
MINUTE: Final = timedelta(minutes=1)
LEASE: Final = timedelta(seconds=30)


class VirtualClock:
    """The machine's clock as a test sets it; it can also go back."""

    def __init__(self) -> None:
        self.now = BEGIN

    def __call__(self) -> datetime:
        return self.now

    def advance(self, length: timedelta = MINUTE) -> datetime:
        self.now += length
        return self.now


def make_spec(**definition: Any) -> ScheduleSpec:
    """A definition that is due at every full minute by default."""
    form = {
        "trigger": {"every": "1m", "anchor": format_instant(BEGIN)},
        "target": {"command": ["true"]},
    }
    return load_spec(form | definition, "job")


def add_schedule(
    store: Store, name: str = "job", namespace: str = "default", **definition: Any
) -> str:
    """A new schedule; returns its id."""
    return add_spec(store, make_spec(**definition), name, namespace)


def add_spec(store: Store, spec: ScheduleSpec, name: str, namespace: str = "default") -> str:
    schedule_id = new_id()

    def work(tx: Tx) -> None:
        found = (trigger.next_after(tx.now) for trigger in spec.triggers)
        due_at = min((at for at in found if at is not None), default=None)
        moments = [due_at, next_control(spec, tx.now, name)]
        wake_at = min((moment for moment in moments if moment is not None), default=None)
        tx.schedules.create_schedule(schedule_id, namespace, name, spec, due_at, wake_at, "a test")

    store.transact(work)
    return schedule_id


def find_work(store: Store, queues: Sequence[str], tasks: Sequence[str] = ()) -> Work:
    """The work to claim; checks that the quick query finds the same."""
    listed = store.read(lambda tx: tx.claims.list_work(queues, tasks))
    assert store.look_for_work(queues, tasks) == listed
    return listed


def run_tick(tx: Tx, limit: int = 1_000, session_id: str | None = None) -> int:
    return tx.plans.commit(
        [plan(snapshot, tx.now) for snapshot in tx.plans.take(limit).snapshots], session_id
    )


def tick(store: Store, limit: int = 1_000, session_id: str | None = None) -> int:
    """Turn what is due into runs; returns how many."""
    return store.transact(lambda tx: run_tick(tx, limit, session_id))


def begin(store: Store, session_id: str = "node-1", lease: timedelta = LEASE, **more: Any) -> str:
    """A session of a node whose name is `host-of-` and its id."""
    info = SessionInfo(session_id, f"host-of-{session_id}", 1, "worker", "0", "2026a")
    store.transact(lambda tx: tx.nodes.begin_session(replace(info, **more), lease))
    return session_id


def claim(
    store: Store,
    session_id: str = "node-1",
    limit: int = 10,
    queue: str = "default",
    namespace: str = "default",
) -> list[Claim]:
    return store.transact(lambda tx: tx.claims.claim(session_id, queue, limit, (), namespace))


def add_run(store: Store, schedule_id: str, payload: dict[str, Any] | None = None) -> str:
    """A manual run; returns its id."""
    run_id = new_id()
    store.transact(lambda tx: tx.runs.create_run(tx.plans.snapshot(schedule_id), run_id, payload))
    return run_id


def claimed_run(
    store: Store, clock: VirtualClock, session_id: str = "node-1", **definition: Any
) -> Claim:
    """A schedule, its first due time as a run, claimed by a new session."""
    add_schedule(store, **definition)
    clock.advance(MINUTE)
    tick(store)
    begin(store, session_id)
    (claimed,) = claim(store, session_id, limit=1)
    return claimed


def settle(
    store: Store,
    token: Token,
    status: Literal["succeeded", "failed", "cancelled"] = "succeeded",
    **more: Any,
) -> bool:
    return store.transact(lambda tx: tx.attempts.settle(token, Outcome(status, **more)))


def lose(store: Store, session_id: str, limit: int = 100) -> int:
    """Lose a node, and take its runs over; returns how many."""
    store.transact(lambda tx: tx.nodes.end_session(session_id))
    return store.transact(lambda tx: tx.attempts.take_over(limit))


def overlap(store: Store, claimed: Claim, length: timedelta) -> datetime:
    """Lose the node of a claim and let another take the run over, although the first task continued
    for this long; returns until when."""
    assert lose(store, claimed.token.session_id) == 1
    begin(store, "successor")
    (again,) = claim(store, "successor", limit=1)
    until = (again.run.started_at or BEGIN) + length
    store.transact(lambda tx: tx.attempts.note_overlaps([(claimed.token, until)]))
    return until


def get_run(store: Store, run_id: str) -> Run:
    return store.read(lambda tx: tx.runs.get_run(run_id))


def get_runs(store: Store, schedule_id: str | None = None, limit: int = 1_000) -> list[Run]:
    wanted = RunFilter(schedule_id)
    return list(store.read(lambda tx: tx.lists.list_runs("default", wanted, None, limit)).rows)


def get_schedule(store: Store, schedule_id: str) -> Schedule:
    return store.read(lambda tx: tx.schedules.get_schedule(schedule_id))


def list_all(tx: Tx) -> list[Schedule]:
    return list(tx.lists.list_schedules("default", ScheduleFilter(), "name", None, 1_000).rows)


def get_ledger(store: Store, schedule_id: str) -> list[LedgerEntry]:
    wanted = LedgerFilter()
    return list(store.read(lambda tx: tx.ledger.list_ledger(schedule_id, wanted, None, 1_000)).rows)


def write_unreadable(store: Store, schedule_id: str) -> None:
    """Write a definition as a newer node would, with a priority that this one cannot read."""

    def work(tx: Tx) -> None:
        snapshot = tx.plans.snapshot(schedule_id)
        spec = replace(snapshot.spec, priority=1_000_000)
        planned = plan_edit(snapshot, spec, tx.now)
        edit = Edit(tx.schedules.get_schedule(schedule_id), spec, planned, snapshot.spec)
        tx.schedules.update_schedules([edit], "a newer node")

    store.transact(work)
