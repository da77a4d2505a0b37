"""A schedule from plan to plan, without a store: commits each Plan into the next Snapshot."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from duebook.model.calendar_days import DaySet
from duebook.model.definition import load_spec
from duebook.model.plan import (
    ActiveRun,
    Defer,
    DueException,
    Fire,
    Hold,
    Lane,
    Plan,
    Skip,
    Snapshot,
    Upstream,
)
from duebook.planner import count_edit, plan, plan_edit, plan_end, plan_pause, plan_resume

if TYPE_CHECKING:
    from collections.abc import Iterable

    from duebook.model.plan import Decision
    from duebook.model.run import Origin
    from duebook.model.schedule import ScheduleSpec

NOON: Final = datetime(2026, 1, 1, 12, tzinfo=UTC)
HOUR: Final = timedelta(hours=1)
MINUTE: Final = timedelta(minutes=1)
SECOND: Final = timedelta(seconds=1)
TICK: Final = timedelta(microseconds=1)
LANES: Final = {"manual": Lane.EXTRA, "backfill": Lane.BACKFILL}


def clock(text: str, day: int = 1) -> datetime:
    """ "12:30" or "12:30:15" on that day of January 2026, UTC."""
    hour, minute, second = (int(part) for part in (text + ":0").split(":")[:3])
    return datetime(2026, 1, day, hour, minute, second, tzinfo=UTC)


def make_spec(trigger: Any = "0 * * * *", **policies: Any) -> ScheduleSpec:
    """Due at every full hour, unless told otherwise."""
    definition = {"trigger": trigger, "target": {"command": ["true"]}, **policies}
    return load_spec(definition, "etl")


def calendar(mode: str, *days: str, roll: str = "skip", version: int = 1) -> dict[str, Any]:
    """The calendar "days" as a definition that was looked up has it."""
    found = DaySet.of(date.fromisoformat(day) for day in days)
    resolved = {"version": version, "days": found.text}
    return {mode: "days", "roll": roll, "resolved": resolved}


def _time(moment: datetime) -> str:
    if moment.microsecond:
        return f"{moment:%H:%M:%S.%f}"
    return f"{moment:%H:%M:%S}" if moment.second else f"{moment:%H:%M}"


def told(decisions: Iterable[Decision]) -> list[str]:
    """Each decision as a few words: "fire 12:00 catchup", "skip 09:00-11:00 x3 coalesced"."""
    found = []
    for decision in decisions:
        if isinstance(decision, Fire):
            found.append(f"fire {_time(decision.due_at)} {decision.origin}")
        elif isinstance(decision, Defer):
            found.append(f"wait {_time(decision.due_at)} {decision.reason}")
        else:
            due = _time(decision.due_from)
            if decision.count > 1:
                due += f"-{_time(decision.due_to)} x{decision.count}"
            why = "" if isinstance(decision, Hold) else f" {decision.reason}"
            found.append(f"{'skip' if why else 'hold'} {due}{why}")
    return found


@dataclass
class History:
    """What a store would keep about one schedule, and all that was ever decided about it."""

    snapshot: Snapshot
    now: datetime
    runs: dict[str, ActiveRun] = field(default_factory=dict)
    """the active ones, the oldest first"""
    settled_at: datetime | None = None
    manual_success: ActiveRun | None = None
    fires: list[Fire] = field(default_factory=list)
    skips: list[Skip] = field(default_factory=list)
    holds: list[Hold] = field(default_factory=list)
    cancelled: list[str] = field(default_factory=list)
    wake_at: datetime | None = None

    # -- time passes

    def at(self, now: datetime | str, day: int = 1) -> list[str]:
        """Plan and commit at that time; returns what was decided."""
        return told(self.plan(clock(now, day) if isinstance(now, str) else now).decisions)

    def plan(self, now: datetime) -> Plan:
        self.now = now
        planned = plan(self.facts(), now)
        self.commit(planned)
        return planned

    def facts(self) -> Snapshot:
        """The snapshot that a store would take now."""
        running = [run for run in self.runs.values() if run.status == "running"]
        active = tuple(sorted(running or self.runs.values(), key=lambda run: run.lane)[:1])
        if self.snapshot.spec.overlap == "cancel":
            begun = (run for run in self.runs.values() if run.lane != Lane.BACKFILL)
            active = tuple(begun) or active
        waits = self.snapshot.considered_at is not None
        return replace(
            self.snapshot,
            active=active,
            settled_at=self.settled_at if waits else None,
            manual_success=self.manual_success if self.snapshot.spec.skip_if_successful else None,
        )

    def commit(self, planned: Plan) -> None:
        for decision in planned.decisions:
            if isinstance(decision, Fire):
                self._begin(decision)
            elif isinstance(decision, Skip):
                self.skips.append(decision)
            elif isinstance(decision, Hold):
                self.holds.append(decision)
            else:
                self._cancel(decision.cancels)
        self._move(planned)

    def _begin(self, fire: Fire) -> None:
        assert fire.due_at not in {other.due_at for other in self.fires}, f"{fire} a second time"
        self._cancel(fire.cancels)
        self.fires.append(fire)
        run_id = f"run-{_time(fire.due_at)}" if fire.due_at.day == 1 else f"run-{fire.due_at}"
        self.runs[run_id] = ActiveRun(run_id, fire.due_at, self.now, fire.origin, "queued")

    def _cancel(self, run_ids: Iterable[str]) -> None:
        for run_id in run_ids:
            self.cancelled.append(run_id)
            self.settle(run_id)

    def _move(self, planned: Plan) -> None:
        self.wake_at = planned.wake_at
        self.snapshot = replace(
            self.snapshot,
            version=planned.version,
            status=planned.status,
            watermark=planned.watermark,
            exceptions=(
                *(e for e in self.snapshot.exceptions if e not in planned.used),
                *planned.said,
            ),
            seen=planned.seen,
            considered_at=planned.considered_at,
            fired=planned.fired,
            paused_until=self.snapshot.paused_until if planned.status == "paused" else None,
            delay=planned.delay,
            handover=planned.handover or self.snapshot.handover,
        )

    # -- runs

    def add_run(
        self, run_id: str, origin: Origin = "manual", due_at: datetime | None = None
    ) -> None:
        lane = LANES.get(origin, Lane.OWN)
        self.runs[run_id] = ActiveRun(run_id, due_at, self.now, origin, "queued", lane)

    def start(self, run_id: str) -> None:
        run = self.runs[run_id]
        lane = min(run.lane, Lane.EXTRA)
        self.runs[run_id] = replace(run, status="running", since=self.now, lane=lane)

    def settle(self, run_id: str | None = None, at: datetime | str | None = None) -> None:
        """The run ends (the oldest, if not said), at that time or now."""
        if at is not None:
            self.now = clock(at) if isinstance(at, str) else at
        ended = self.runs.pop(run_id or next(iter(self.runs)))
        self.settled_at = self.now
        if ended.origin == "manual":
            self.manual_success = ended

    # -- what people do

    def say(self, *exceptions: DueException) -> None:
        self.snapshot = replace(self.snapshot, exceptions=(*self.snapshot.exceptions, *exceptions))

    def upstream(self, **succeeded_at: datetime | None) -> None:
        known = {name: Upstream(True, at) for name, at in succeeded_at.items()}
        self.snapshot = replace(self.snapshot, upstreams={**self.snapshot.upstreams, **known})

    def pause(self, now: datetime, until: datetime | None = None) -> None:
        self.now = now
        planned = plan_pause(self.facts(), now)
        # a store that pauses commits only the state
        self._move(replace(planned, used=()))
        self.snapshot = replace(self.snapshot, paused_until=until)

    def resume(self, now: datetime) -> list[str]:
        self.now = now
        planned = plan_resume(self.facts(), now)
        self.commit(planned)
        return told(planned.decisions)

    def edit(self, now: datetime, **definition: Any) -> list[str]:
        self.now = now
        spec = count_edit(self.facts(), make_spec(**definition), now)
        planned = plan_edit(self.facts(), spec, now)
        self.snapshot = replace(self.snapshot, spec=spec)
        self.commit(planned)
        return told(planned.decisions)

    def delete(self, now: datetime) -> list[str]:
        self.now = now
        ended = plan_end(self.facts(), now)
        self.skips += ended
        return told(ended)

    # -- the account

    @property
    def status(self) -> str:
        return self.snapshot.status

    @property
    def waits(self) -> bool:
        return bool(self.snapshot.seen)

    @property
    def _ended(self) -> list[Skip | Hold]:
        """What did not become a run, or not yet."""
        return [*self.skips, *self.holds]

    def decided(self) -> int:
        """How many due times were fired, recorded or set aside."""
        return len(self.fires) + sum(ended.count for ended in self._ended)

    def covers(self, due_at: datetime) -> bool:
        return any(fire.due_at == due_at for fire in self.fires) or any(
            ended.due_from <= due_at <= ended.due_to for ended in self._ended
        )


def history(
    watermark: datetime | str = NOON, trigger: Any = "0 * * * *", **policies: Any
) -> History:
    """A schedule whose due times are decided up to the watermark."""
    since = clock(watermark) if isinstance(watermark, str) else watermark
    spec = make_spec(trigger, **policies).counting_from(since)
    return History(Snapshot("id", "etl", 1, spec, "active", since), since)
