"""Walks through the waiting due times in order, and lets the policies decide about each."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

from duebook.model.plan import ActiveRun, Decision, Defer, Delay, Fire, Lane, Plan, Reason, Skip
from duebook.planner.backlog import count_missed, remaining
from duebook.planner.decisions import (
    add_skip,
    facts_of,
    facts_of_dependency,
    skips_of_moved,
    waking,
)
from duebook.planner.due import instant_before
from duebook.planner.held import parted
from duebook.planner.intervals import new_fire
from duebook.timetext import format_duration

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

    from duebook.model.fields import Dependency
    from duebook.model.plan import DueException, Snapshot
    from duebook.model.run import Origin
    from duebook.model.schedule import Overlap
    from duebook.planner.backlog import Piece
    from duebook.planner.due import DueTimes

__all__ = ["MOST_AT_ONCE", "RECHECK", "Walk"]

MOST_AT_ONCE: Final = 1_000
"""Due times that one plan judges; with more, the next plan continues at once."""
RECHECK: Final = timedelta(minutes=1)
"""When to look again at a schedule that waits for a run to end; its settle wakes it earlier."""
_MICRO: Final = timedelta(microseconds=1)
_NOTHING: Final = timedelta()


class Walk:
    """One plan in the making. Each step returns True if the walk continues, and False if something
    must wait; then nothing behind it is decided.

    Due times are judged by the schedule's own time (see `Delay`): those that it has not reached are
    seen, and wait. While no run of the schedule's own is active it leaps to the next of them.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        due: DueTimes,
        pieces: list[Piece],
        watermark: datetime,
        now: datetime,
    ) -> None:
        self._snapshot = snapshot
        self._spec = snapshot.spec
        self._due = due
        self._pieces = pieces
        self._now = now
        self._decisions: list[Decision] = []
        self._watermark = watermark
        # runs that take no time never block others
        self._overlap: Overlap = "allow" if self._spec.instant else self._spec.overlap
        self._pace = timedelta() if self._spec.instant else self._spec.catchup_pace
        active = () if self._spec.instant else snapshot.active
        self._busy = bool(active)
        own = tuple(run for run in active if run.lane == Lane.OWN)
        self._blocker: ActiveRun | Fire | None = next(iter(own), None)
        self._gives_way = tuple(run.id for run in own) if self._overlap == "cancel" else ()
        extra = next((run for run in active if run.lane == Lane.EXTRA), None)
        waits = self._overlap == "cancel" or (self._overlap != "allow" and not own)
        self._held_by = extra if waits else None
        self._extra = extra
        delay = None if self._overlap == "allow" else snapshot.delay
        self._own_now = now if delay is None else delay.own_time(now)
        self._delay, self._stands_still = snapshot.delay, False
        most = snapshot.spec.max_runs
        self._left = None if most is None else max(most - snapshot.fired, 0)
        self._considered_at = snapshot.considered_at
        self._considered_now = False
        self._fired = 0
        self._judged = 0
        most = snapshot.spec.catchup_approval
        self._holds = most is not None and count_missed(pieces, due, most + 1) > most
        self._past = set(due.put_in_until(watermark))
        # the clock stepped back: moved to an instant that is still to come
        self._ahead = {at for at in self._past if at > now}
        self._deferred: Defer | None = None
        self._again = False

    def go(self) -> None:
        """Decide as much as can be decided now."""
        self._decide_all()
        self._delay = self._delay_now()

    def _decide_all(self) -> None:
        self._decisions += skips_of_moved(self._snapshot.exceptions, self._watermark)
        for at in sorted(self._past - self._ahead):  # moved to the past: due at once
            if not self._consider(at, "schedule", self._watermark):
                return
            self._past.discard(at)
        for piece in self._pieces:
            if not self._decide_in_turn(piece):
                return

    def _decide_in_turn(self, piece: Piece) -> bool:
        """What the schedule's own time has reached of a piece, then what it reaches next."""
        while (part := self._reached(piece)) is not piece:
            if part.until > self._watermark and not self._decide_piece(part):
                return False
            due_at = self._due.next_after(self._watermark)
            if due_at is None or due_at > piece.until:
                return self._advance(piece.until)
            if not self._reach(due_at, self._due.ripe_at(due_at)):
                return False
        return self._decide_piece(piece)

    def _decide_piece(self, piece: Piece) -> bool:
        if piece.kind == "done":
            return self._pass_decided(piece)
        if not self._any(piece):
            return self._advance(piece.until)
        if piece.kind == "paused":
            return self._skip_rest(piece, Reason.PAUSED, {"since": piece.after})
        if self._left == 0:
            return self._skip_rest(piece, Reason.MAX_RUNS, {"max_runs": self._spec.max_runs})
        if piece.kind == "live":
            return self._live(piece)
        if self._holds:
            return self._hold(piece)
        return self._missed(piece)

    def _missed(self, piece: Piece) -> bool:
        if self._spec.catchup == "skip":
            return self._skip_rest(piece, Reason.MISSED, {"catchup": "skip"})
        if self._spec.catchup == "one":
            return self._keep_newest(piece, self._last("missed"), Reason.COALESCED)
        self._expire(piece)
        if self._overlap in ("latest", "cancel") and self._any(piece):
            return self._keep_newest(piece, self._last("missed"), Reason.SUPERSEDED)
        return self._backlog(piece)

    def _hold(self, piece: Piece) -> bool:
        """Set a piece aside, except for shadow mode; live due times behind it are still decided."""
        for until, shadow in parted(self._snapshot.shadows, self._watermark, piece.until):
            if shadow:
                self._skip_until(until, Reason.SHADOW, {"origin": "catchup"})
            else:
                self._decisions += self._due.hold_all(self._watermark, until)
                self._advance(until)
        return True

    # -- the schedule's own time

    @property
    def _lag(self) -> timedelta:
        return max(self._now - self._own_now, _NOTHING)

    def _reached(self, piece: Piece) -> Piece:
        """The part of a piece that has arrived by the schedule's own time. A missed piece has
        arrived as a whole; those of its due times that are kept wait one by one."""
        if not self._lag or piece.kind != "live":
            return piece
        until = self._due.ripe_until(piece.after, self._own_now)
        return piece if until >= piece.until else replace(piece, until=max(until, piece.after))

    def _reach(self, due_at: datetime, arrives_at: datetime) -> bool:
        """Whether the schedule's own time gets there; a run that started late holds it up."""
        if not self._lag or arrives_at <= self._own_now:
            return True
        if self._blocker is None:
            self._own_now = min(arrives_at, self._now)
            return True
        late = {"late": format_duration(self._lag)}
        until = arrives_at + self._lag
        return self._defer(due_at, Reason.OVERLAP, until, facts_of(self._blocker) | late)

    def _next_arrival(self) -> datetime | None:
        """When the schedule's own time, if it is late, reaches the next due time."""
        if not self._lag or self._stands_still:
            return None
        place = self._due.ripe_until(self._watermark, self._own_now)
        due_at = self._due.next_after(max(place, self._watermark))
        return None if due_at is None else self._due.ripe_at(due_at) + self._lag

    def _delay_now(self) -> Delay | None:
        """By how much the schedule's own time is behind after this plan."""
        waits = self._deferred is not None or self._again
        if self._overlap == "allow" or not (waits or self._blocker is not None):
            return None
        if self._stands_still:
            return Delay(held_at=self._own_now)
        return Delay(lag=self._lag) if self._lag else None

    # -- pieces

    def _pass_decided(self, piece: Piece) -> bool:
        """Only due times that were moved here afterwards are still to be decided."""
        for at in self._due.put_in_until(piece.until):
            if at > self._watermark:
                self._watermark = instant_before(at)
                if not self._consider(at, "schedule", at):
                    return False
        self._watermark = piece.until
        return True

    def _live(self, piece: Piece) -> bool:
        for due_at in self._turns(piece):
            if self._collapses():
                return self._keep_newest(piece, self._last(), Reason.SUPERSEDED)
            if self._blocks_the_rest(due_at) and not self._snapshot.shadows:
                return self._skip_rest(piece, Reason.OVERLAP, facts_of(self._blocker))
            if not self._consider(due_at, "schedule", self._due.ripe_at(due_at)):
                return False
        return self._finish(piece)

    def _keep_newest(self, piece: Piece, newest: datetime, reason: Reason) -> bool:
        """The others of the piece give way to the newest one, in whichever piece that waits."""
        if newest > piece.until:
            return self._skip_rest(piece, reason, {"into": newest})
        self._skip_until(instant_before(newest), reason, {"into": newest})
        live = piece.kind == "live"
        since = self._due.ripe_at(newest) if live else piece.seen_at
        if not self._consider(newest, "schedule" if live else "catchup", since):
            return False
        return self._advance(piece.until)

    def _backlog(self, piece: Piece) -> bool:
        """Consider the missed due times one after the other."""
        for due_at in self._turns(piece):
            if (ready_at := self._paced_until(due_at)) is not None:
                return self._defer(due_at, Reason.PACE, ready_at, {})
            blocked = self._blocks_the_rest(piece.seen_at) and not self._snapshot.shadows
            if blocked and not self._pace:
                return self._skip_rest(piece, Reason.OVERLAP, facts_of(self._blocker))
            if not self._consider(due_at, "catchup", piece.seen_at):
                return False
            self._considered_at, self._considered_now = self._now, True
        return self._finish(piece)

    def _turns(self, piece: Piece) -> Iterator[datetime]:
        """The due times of a piece that this plan may still judge."""
        while self._left != 0 and self._judged < MOST_AT_ONCE:
            following = self._due.next_after(self._watermark)
            if following is None or following > piece.until:
                return
            yield following

    def _finish(self, piece: Piece) -> bool:
        """End the piece; a rest exceeds the allowed runs, or is left to the next plan."""
        if not self._any(piece):
            return self._advance(piece.until)
        if self._left == 0:
            return self._decide_piece(piece)
        self._again = True
        return False

    def _expire(self, piece: Piece) -> None:
        """Beyond window and limit, drop all but the newest."""
        window, limit = self._spec.catchup_window, self._spec.catchup_limit
        if window is not None:
            facts = {"catchup_window": format_duration(window)}
            oldest = min(self._kept_after(piece), piece.until)
            self._skip_until(oldest, Reason.EXPIRED, facts)
        newer = [other for other in self._pieces if other.after >= piece.until]
        keep = limit - count_missed(newer, self._due, limit)
        cut = self._due.newest_from(self._watermark, piece.until, keep)
        self._skip_until(cut, Reason.EXPIRED, {"catchup_limit": limit})

    def _paced_until(self, due_at: datetime) -> datetime | None:
        """When the backlog continues; None: now."""
        pace = self._pace
        if not pace or self._considered_at is None:
            return None
        following = self._due.next_after(due_at)
        if following is not None and following - due_at <= pace:
            pace = (following - due_at) / 2
        ready_at = self._considered_at + pace
        if self._considered_now:
            return max(ready_at, self._now + _MICRO)
        settled_at = self._snapshot.settled_at
        idle = self._blocker is None and self._extra is None
        if idle and settled_at is not None and settled_at >= self._considered_at:
            return None
        return None if ready_at <= self._now else ready_at

    # -- one due time

    def _consider(self, due_at: datetime, origin: Origin, since: datetime) -> bool:
        """In shadow mode it is only recorded, even if a run is active. In a maintenance window, due
        times from before it wait; otherwise the policies decide."""
        if self._snapshot.in_shadow(due_at):
            return self._shadow(due_at, origin)
        window = self._due.window_at(self._now)
        if window is None or self._left == 0:
            return self._judge(due_at, origin, since)
        facts = {"window": window.name, "until": window.end}
        return self._defer(due_at, Reason.PAUSED, window.end, facts)

    def _judge(self, due_at: datetime, origin: Origin, since: datetime) -> bool:
        """The policies in their order; `since` is when it started to wait for others."""
        if self._left == 0:
            return self._skip(due_at, Reason.MAX_RUNS, {"max_runs": self._spec.max_runs})
        if origin == "schedule" and self._done_by_hand(due_at):
            manual_success = self._snapshot.manual_success
            return self._skip(due_at, Reason.ALREADY_SUCCEEDED, facts_of(manual_success))
        if self._held_by is not None:
            facts, again = facts_of(self._held_by), self._now + RECHECK
            facts["origin"] = self._held_by.origin
            self._stands_still = True
            return self._defer(due_at, Reason.OVERLAP, again, facts, self._gives_way)
        if not self._reach(due_at, since):
            return False
        overlap, busy = self._overlap, self._blocker is not None
        if overlap == "skip" and busy:
            return self._skip(due_at, Reason.OVERLAP, facts_of(self._blocker))
        if self._collapses() and (newest := self._last()) > due_at:
            return self._skip(due_at, Reason.SUPERSEDED, {"into": newest})
        if overlap in ("queue", "latest") and busy:
            again = self._now + RECHECK
            return self._defer(due_at, Reason.OVERLAP, again, facts_of(self._blocker))
        for dependency in self._spec.depends_on:
            if not self._met(dependency):
                return self._unmet(due_at, dependency, since)
        return self._fire(due_at, origin)

    def _collapses(self) -> bool:
        """Whether only the newest of several waiting due times counts."""
        if self._held_by is not None:  # what will wait when that run has ended is still unknown
            return False
        overlap = self._overlap
        return overlap == "cancel" or (overlap == "latest" and self._blocker is not None)

    def _blocks_the_rest(self, since: datetime) -> bool:
        """Whether the same decision applies to every due time that follows in the piece."""
        blocks = self._blocker is not None and self._overlap == "skip"
        arrived = not self._lag or since <= self._own_now
        return blocks and arrived and not self._spec.skip_if_successful

    def _done_by_hand(self, due_at: datetime) -> bool:
        manual_success = self._snapshot.manual_success
        if not self._spec.skip_if_successful or manual_success is None:
            return False
        previous = self._due.before(due_at)
        return previous is None or manual_success.since > previous

    def _met(self, dependency: Dependency) -> bool:
        upstream = self._snapshot.upstreams.get(dependency.schedule)
        succeeded_at = None if upstream is None else upstream.succeeded_at
        return succeeded_at is not None and succeeded_at >= self._own_now - dependency.within

    def _unmet(self, due_at: datetime, dependency: Dependency, since: datetime) -> bool:
        upstream = self._snapshot.upstreams.get(dependency.schedule)
        facts = facts_of_dependency(dependency, upstream)
        patience = since + dependency.wait
        if self._own_now < patience:
            return self._defer(due_at, Reason.DEPENDENCY, patience + self._lag, facts)
        return self._skip(due_at, Reason.DEPENDENCY, facts)

    def _fire(self, due_at: datetime, origin: Origin) -> bool:
        wakes = self._overlap in ("queue", "latest") or self._spec.catchup == "all"
        wakes = wakes or self._lag > _NOTHING
        fire = new_fire(self._snapshot, due_at, origin, wakes, self._gives_way)
        self._decisions.append(fire)
        self._judged += 1
        if not self._spec.instant:
            self._blocker = self._blocker or fire
        self._fired += 1
        if self._left is not None:
            self._left -= 1
        return self._pass(due_at)

    def _shadow(self, due_at: datetime, origin: Origin) -> bool:
        """A separate entry for each, which records when its run would have been created."""
        self._judged += 1
        facts = {"origin": origin}
        self._decisions.append(Skip(due_at, due_at, 1, True, Reason.SHADOW, facts))
        return self._pass(due_at)

    def _skip(self, due_at: datetime, reason: Reason, facts: Mapping[str, Any]) -> bool:
        self._judged += 1
        follows = self._due.follows(due_at)
        add_skip(self._decisions, Skip(due_at, due_at, 1, True, reason, facts, follows))
        return self._pass(due_at)

    def _defer(
        self,
        due_at: datetime,
        reason: Reason,
        until: datetime,
        facts: Mapping[str, Any],
        cancels: tuple[str, ...] = (),
    ) -> bool:
        if due_at > self._watermark:
            self._advance(instant_before(due_at))
        self._deferred = Defer(due_at, reason, until, facts, cancels)
        return False

    # -- the place of the walk

    def _any(self, piece: Piece) -> bool:
        following = self._due.next_after(self._watermark)
        return following is not None and following <= piece.until

    def _last(self, kind: str | None = None) -> datetime:
        """The newest waiting due time that no limit drops."""
        for piece in map(self._reached, reversed(self._pieces)):
            came = kind == "missed" or piece.seen_at <= self._own_now or piece.kind == "live"
            if piece.kind not in ("done", "paused") and kind in (None, piece.kind) and came:
                after = max(self._kept_after(piece), self._watermark)
                found = self._due.last(after, piece.until)
                if found is not None:
                    return found
        return datetime.min.replace(tzinfo=self._now.tzinfo)

    def _kept_after(self, piece: Piece) -> datetime:
        """From where on the due times of a piece are not dropped for their age."""
        if piece.kind == "missed" and (self._holds or self._spec.catchup == "skip"):
            return piece.until
        window = self._spec.catchup_window
        if piece.kind == "missed" and self._spec.catchup == "all" and window is not None:
            return max(piece.after, instant_before(piece.seen_at - window))
        return piece.after

    def _pass(self, due_at: datetime) -> bool:
        return self._advance(due_at) if due_at > self._watermark else True

    def _advance(self, until: datetime) -> bool:
        self._decisions += self._due.left_out(self._watermark, until)
        self._watermark = until
        return True

    def _skip_rest(self, piece: Piece, reason: Reason, facts: Mapping[str, Any]) -> bool:
        self._skip_until(piece.until, reason, facts)
        return True

    def _skip_until(self, until: datetime, reason: Reason, facts: Mapping[str, Any]) -> None:
        if until > self._watermark:
            self._decisions += self._due.skip_all(self._watermark, until, reason, facts)
            self._advance(until)

    # -- the result

    def plan(self) -> Plan:
        """The decisions with the resulting state: what is next, or completion."""
        snapshot, horizon = self._snapshot, self._watermark
        seen = remaining(self._pieces, self._watermark)
        if seen:
            horizon = seen[-1].until
        over = self._left == 0
        next_due_at = None if over else _first(self._due.next_after(horizon), self._ahead)
        due = None if over else _first(self._due.wake_after(horizon), self._ahead)
        wake_at = self._wake_at(due)
        waits = self._deferred is not None or self._again or bool(seen)
        decisions, status = tuple(self._decisions), snapshot.status
        if status == "active" and next_due_at is None and not waits:
            decisions = tuple(waking(decision) for decision in decisions)
            busy = self._busy or self._blocker is not None
            status = "active" if busy or wake_at else "completed"
            wake_at = wake_at or (self._now + RECHECK if busy else None)
        return Plan(
            snapshot.schedule_id,
            snapshot.version,
            decisions if self._deferred is None else (*decisions, self._deferred),
            status,
            self._watermark,
            next_due_at,
            wake_at if status == "active" else snapshot.paused_until,
            used=self._used() if snapshot.exceptions else (),
            seen=seen,
            considered_at=self._considered_at if seen else None,
            fired=snapshot.fired + self._fired,
            delay=self._delay,
        )

    def _used(self) -> tuple[DueException, ...]:
        """Exceptions for due times that are decided; those moved to the past may still wait."""
        passed = (e for e in self._snapshot.exceptions if e.due_at <= self._watermark)
        return tuple(e for e in passed if e.kind != "moved_here" or e.due_at not in self._past)

    def _wake_at(self, due: datetime | None) -> datetime | None:
        if self._again:
            return self._now
        if self._deferred is None:
            return due
        # the next due time must be seen in time, even if it will have to wait
        moments = (due, self._deferred.until, self._next_arrival())
        return min(moment for moment in moments if moment is not None)


def _first(moment: datetime | None, others: set[datetime]) -> datetime | None:
    return min(others if moment is None else {moment, *others}, default=None)
