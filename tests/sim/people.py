"""Users in a simulated world: they create, edit, pause, delete, trigger, cancel and retry through
the client, see their requests fail, and remember the responses."""

from __future__ import annotations

from datetime import timedelta
from math import inf
from typing import TYPE_CHECKING, Any, Final

from duebook.book import Book
from duebook.errors import DuebookError, Unavailable
from duebook.model.consumer import Consumer
from tests.chaos.witness import Answer
from tests.sim import graphs
from tests.sim.script import CLOSED, LIMITS, RATES, Action, definition
from tests.sim.turns import Actor
from tests.support.flow_builders import put_flow

if TYPE_CHECKING:
    from datetime import datetime

    from tests.sim.store import TurnStore
    from tests.sim.world import World

__all__ = ["People"]

LAST_DUE: Final = 15.0
"""Seconds after the storm within which the last due times are."""
FAILS: Final = 0.15


class People:
    def __init__(self, world: World, store: TurnStore) -> None:
        self.actor = Actor("people", self._step)
        self.is_done = False
        self.moved: set[tuple[str, float]] = set()
        """schedules, and the times to which a user wanted to move their next due time"""
        self.repeated: set[str] = set()
        """the steps of flows that somebody wanted to go on where they failed"""
        self._world = world
        self._store = store
        self._book = Book(store)
        self._actions = list(world.script.actions)
        self._names = list(world.script.schedules)
        self._chance = world.script.chance("people")

    def begin(self) -> None:
        """Create the first definitions, before anything can fail."""
        self._book.calendars.save("closed", dates=[CLOSED[1]])
        for queue, most in LIMITS.items():
            self._book.queues.limit(queue, concurrency=most)
        for queue, (count, seconds) in RATES.items():
            self._book.queues.limit(queue, rate=f"{count}/{seconds}s")
        if not graphs.SCHEDULES.keys().isdisjoint(self._names):
            self._put_flows()
        for name in self._names:
            self._create(name)
        self.actor.wake_at = self._actions[0].at if self._actions else self._world.script.seconds

    def _put_flows(self) -> None:
        """And let somebody listen to what is told of runs."""
        for name in graphs.GRAPHS:
            put_flow(self._store, graphs.text_of(name), name)
        listener = Consumer("default", "listener", "group", ("duebook.runs",), 1, 1)
        self._store.transact(lambda tx: tx.consumers.save_consumer(listener, 0))

    def _step(self) -> float:
        now, world = self._world.now, self._world
        if self._actions:
            action = self._actions.pop(0)
            if self._chance.random() < FAILS:
                world.failing = self._chance.randrange(1, 20)
            try:
                self._do(action)
            except DuebookError as error:
                world.say_line(f"  people: {action.what} {action.schedule}: {error}")
            world.failing = None
        elif now >= world.script.seconds:
            self._finish()
            self.is_done = True
            return inf
        following = self._actions[0].at if self._actions else world.script.seconds
        return max(following - world.now, 0.0)

    def _finish(self) -> None:
        """Give every schedule an end, so that everything comes to rest."""
        schedules = self._book.schedules
        end_at = self._now() + timedelta(seconds=LAST_DUE)
        for name in self._names:
            try:
                if schedules.get(name).status == "paused":
                    schedules.resume(name)
                self._answer("updated", schedules.update(name, end_at=end_at))
            except Unavailable:
                raise
            except DuebookError as error:  # it was deleted, or is completed
                self._world.say_line(f"  people: {name} ends: {error}")

    def _now(self) -> datetime:
        return self._store.read(lambda tx: tx.now)

    def _do(self, action: Action) -> None:
        self._world.counts["actions"] += 1
        name, schedules, seen = action.schedule, self._book.schedules, self._world.seen
        match action.what:
            case "create":
                self._create(name)
            case "update":
                trigger = {"every": action.detail}
                self._answer("updated", schedules.update(name, trigger=trigger))
            case "pause":
                seen.paused.add(name)
                schedules.pause(name)
            case "resume":
                schedules.resume(name)
            case "delete":
                schedules.delete(name)
            case "skip_next":
                schedules.skip_next(name)
            case "reschedule":
                at = self._now() + timedelta(seconds=2.5)
                self.moved.add((name, at.timestamp()))
                schedules.reschedule(name, at)
            case "trigger":
                seen.answers.append(Answer("triggered", schedules.trigger(name).id))
            case _:
                self._do_elsewhere(action)

    def _do_elsewhere(self, action: Action) -> None:
        """To the calendar, the log of events, a flow, or a run."""
        if action.what == "close":
            self._book.calendars.save("closed", dates=[action.detail])
        elif action.what == "publish":
            self._book.events.publish("sim", {"n": action.at}, key=action.schedule)
        elif action.what == "start":
            run = self._book.flows.start(action.schedule)
            self._world.seen.answers.append(Answer("triggered", run.id))
        elif action.what == "stop":
            stopped = self._book.flows.stop(action.schedule)
            self._world.seen.answers += [Answer("cancelled", run.id) for run in stopped]
        else:
            self._reopen_or_cancel(action.what, action.schedule)

    def _reopen_or_cancel(self, what: str, name: str) -> None:
        runs = list(self._book.runs.list(name, limit=5))
        if not runs:
            return
        run = runs[self._chance.randrange(len(runs))]
        if what == "retry":
            self._world.seen.reopened.add(run.id)
            if run.flow is not None:
                self._note_steps(run.id)
            self._book.runs.retry(run.id)
            self._world.seen.answers.append(Answer("retried", run.id, run.attempt))
        else:
            self._book.runs.cancel(run.id)
            self._world.seen.answers.append(Answer("cancelled", run.id))

    def _note_steps(self, run_id: str) -> None:
        for step in self._book.flows.steps(run_id):
            self.repeated.add(step.id)
            if step.queue == "@flow":
                self._note_steps(step.id)

    def _create(self, name: str) -> None:
        self._answer("created", self._book.schedules.create(name, **definition(name)))

    def _answer(self, what: str, schedule: Any) -> None:
        self._world.seen.answers.append(Answer(what, schedule.id, schedule.version))
