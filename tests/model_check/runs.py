"""A model of due times and runs: two schedulers that plan and bury, two workers that claim, work
under leases and settle. A step is a transaction, an answer, or the passing of time; between any two
steps a process may crash, an answer may get lost, or time may pass. Shares no code with Duebook."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Model", "Rules", "World"]


@dataclass(frozen=True)
class Rules:
    """The rules of the protocol; each may be broken."""

    row_lock: bool = True
    """a schedule is planned by one scheduler at a time"""
    unique_key: bool = True
    """a due time has one run"""
    together: bool = True
    """the watermark moves in the transaction that inserts the runs"""
    database_clock: bool = True
    """whether a due time has come, and a lease is over, is asked of the database's clock"""
    exclusive: bool = True
    """a claim takes no run while another of its schedule is under way"""
    claim_checks_session: bool = True
    """a session that was declared dead claims nothing"""
    lease_from_request: bool = True
    """a worker counts its lease from before it asked for it"""
    begins_under_lease: bool = True
    """a worker begins nothing when its lease is over"""
    stops_in_time: bool = True
    """a worker's work ends with its lease"""
    settle_needs_session: bool = True
    """the token has the session and the state, not only the attempt"""
    finds_orphans: bool = True
    """runs under dead sessions are looked for on every pass, not only by who buried them"""


class Run(NamedTuple):
    due: int
    status: str = "queued"
    attempt: int = 0
    losses: int = 0
    session: int = -1


class Session(NamedTuple):
    left: int
    """of its lease, by the database's clock"""
    ended: bool = False


class Worker(NamedTuple):
    session: int = -1
    """-1: it is down"""
    left: int = 0
    """of its lease, as it reckons itself"""
    phase: str = "idle"
    """or asking, claimed, working, done"""
    due: int = 0
    attempt: int = 0
    asked: str = ""
    """the answer to its renewal that it has yet to hear: granted or refused"""


class Taken(NamedTuple):
    """What a scheduler found, and has yet to write."""

    now: int
    watermark: int
    moved: bool = False
    """the watermark is written, the runs are not"""


class World(NamedTuple):
    now: int
    watermark: int
    surprises: int
    """how many crashes and lost answers there may still be"""
    taken: tuple[Taken | None, ...]
    buried: tuple[int, ...]
    """per scheduler the session that it has buried, and whose runs it has yet to take over"""
    sessions: tuple[Session, ...]
    runs: tuple[Run, ...]
    workers: tuple[Worker, ...]


NOBODY = -1


@dataclass(frozen=True)
class Model:
    rules: Rules = Rules()
    due_times: int = 1
    lease: int = 2
    surprises: int = 1
    most_sessions: int = 4
    most_takeovers: int = 1

    @property
    def start(self) -> World:
        workers = tuple(Worker(number, self.lease) for number in range(2))
        sessions = (Session(self.lease),) * 2
        return World(0, 0, self.surprises, (None, None), (NOBODY,) * 2, sessions, (), workers)

    # -- what must hold

    def problem(self, world: World) -> str | None:
        due = [run.due for run in world.runs]
        if len(set(due)) < len(due):
            return "I1: a due time has two runs"
        writing = any(taken is not None and taken.moved for taken in world.taken)
        if self.rules.together or not writing:
            for one in range(1, world.watermark + 1):
                if one not in due:
                    return f"I2: due time {one} was passed and has no run"
        working = [worker for worker in world.workers if worker.phase == "working"]
        if len(working) > 1:
            return "I3: two attempts work at once"
        if any(worker.due > world.now for worker in working):
            return "I7: work began before its due time"
        return None

    def is_done(self, world: World) -> bool:
        """The runs of all due times have ended."""
        return len({run.due for run in world.runs if run.status == "ended"}) == self.due_times

    def is_excused(self, world: World) -> bool:
        """No worker is left that could work: the model has only so many sessions."""
        able = len(world.sessions) < self.most_sessions
        return not able and not any(self._lives(world, worker) for worker in world.workers)

    def _lives(self, world: World, worker: Worker) -> bool:
        if worker.session == NOBODY or worker.left == 0:
            return False
        session = world.sessions[worker.session]
        return session.left > 0 and not session.ended

    # -- what can happen

    def moves(self, world: World) -> Iterator[tuple[str, World | str]]:
        yield "time passes", self._tick(world)
        for number in range(2):
            yield from self._schedule(world, number)
            yield from self._keep(world, number)
            yield from self._work(world, number)

    def _tick(self, world: World) -> World:
        def aged(worker: Worker) -> Worker:
            left, phase = max(worker.left - 1, 0), worker.phase
            if left == 0 and phase == "working" and self.rules.stops_in_time:
                return Worker(worker.session)
            asked = worker.asked if left or not self.rules.lease_from_request else ""
            return worker._replace(left=left, asked=asked)

        sessions = tuple(
            session if session.ended else session._replace(left=max(session.left - 1, 0))
            for session in world.sessions
        )
        return world._replace(
            now=min(world.now + 1, self.due_times),
            sessions=sessions,
            workers=tuple(map(aged, world.workers)),
        )

    def _clock(self, world: World, number: int) -> int:
        """The clock of one scheduler is ahead, should anybody ask it."""
        ahead = 0 if self.rules.database_clock else number
        return min(world.now + ahead, self.due_times)

    # -- schedulers

    def _schedule(self, world: World, number: int) -> Iterator[tuple[str, World | str]]:
        taken = world.taken[number]
        who = f"scheduler {number}"
        if taken is None:
            is_free = all(other is None for other in world.taken) or not self.rules.row_lock
            now = self._clock(world, number)
            if is_free and now > world.watermark:
                yield f"{who} takes", self._taken(world, number, Taken(now, world.watermark))
            return
        if world.surprises:
            after = self._taken(world, number, None)
            yield f"{who} crashes", after._replace(surprises=world.surprises - 1)
        if not self.rules.together and not taken.moved:
            after = world._replace(watermark=max(world.watermark, taken.now))
            yield (
                f"{who} moves the watermark",
                self._taken(after, number, taken._replace(moved=True)),
            )
            return
        runs = list(world.runs)
        for due in range(taken.watermark + 1, taken.now + 1):
            if not self.rules.unique_key or all(run.due != due for run in runs):
                runs.append(Run(due))
        after = world._replace(runs=tuple(sorted(runs)), watermark=max(world.watermark, taken.now))
        yield f"{who} commits", self._taken(after, number, None)

    @staticmethod
    def _taken(world: World, number: int, taken: Taken | None) -> World:
        return world._replace(taken=_put(world.taken, number, taken))

    def _keep(self, world: World, number: int) -> Iterator[tuple[str, World | str]]:
        """Bury sessions whose lease is over, and requeue their runs."""
        who = f"keeper {number}"
        ahead = 0 if self.rules.database_clock else number
        if not self.rules.finds_orphans and (dead := world.buried[number]) != NOBODY:
            after = world._replace(buried=_put(world.buried, number, NOBODY))
            yield f"{who} takes over", self._take_over(after, {dead})
            if world.surprises:
                yield f"{who} crashes", after._replace(surprises=world.surprises - 1)
            return
        for place, session in enumerate(world.sessions):
            if session.ended or session.left > ahead:
                continue
            after = world._replace(
                sessions=_put(world.sessions, place, Session(0, ended=True)),
            )
            if not self.rules.finds_orphans:
                after = after._replace(buried=_put(world.buried, number, place))
                yield f"{who} buries session {place}", after
                continue
            yield f"{who} buries session {place}", self._take_over(after, {place})
            return
        dead_ones = {place for place, session in enumerate(world.sessions) if session.ended}
        if self.rules.finds_orphans and any(
            run.status == "running" and run.session in dead_ones for run in world.runs
        ):
            yield f"{who} finds orphans", self._take_over(world, dead_ones)

    def _take_over(self, world: World, dead: set[int]) -> World:
        def follow(run: Run) -> Run:
            if run.status != "running" or run.session not in dead:
                return run
            losses = run.losses + 1
            status = "ended" if losses > self.most_takeovers else "queued"
            return run._replace(status=status, losses=losses, session=NOBODY)

        return world._replace(runs=tuple(sorted(map(follow, world.runs))))

    # -- workers

    def _work(self, world: World, number: int) -> Iterator[tuple[str, World | str]]:
        worker = world.workers[number]
        who = f"worker {number}"
        if worker.session == NOBODY or (worker.left == 0 and worker.phase == "idle"):
            yield from self._begin_session(world, number)
        if worker.session == NOBODY:
            return
        if world.surprises:
            after = self._put_worker(world, number, Worker())
            yield f"{who} crashes", after._replace(surprises=world.surprises - 1)
        yield from self._renew(world, number)
        if worker.phase == "idle":
            if worker.left and any(run.status != "ended" for run in world.runs):
                asking = worker._replace(phase="asking")
                yield f"{who} asks for work", self._put_worker(world, number, asking)
        elif worker.phase == "asking":
            yield from self._claim(world, number)
        elif worker.phase == "claimed":
            if worker.left or not self.rules.begins_under_lease:
                begun = worker._replace(phase="working")
                yield f"{who} begins", self._put_worker(world, number, begun)
            else:  # what it may not begin is left to whoever takes over
                left = worker._replace(phase="idle", due=0, attempt=0)
                yield f"{who} begins nothing", self._put_worker(world, number, left)
        elif worker.phase == "working":
            done = worker._replace(phase="done")
            yield f"{who} has done its work", self._put_worker(world, number, done)
        else:
            yield from self._settle(world, number)

    def _begin_session(self, world: World, number: int) -> Iterator[tuple[str, World | str]]:
        if len(world.sessions) < self.most_sessions:
            begun = Worker(len(world.sessions), self.lease)
            after = world._replace(sessions=(*world.sessions, Session(self.lease)))
            yield f"worker {number} begins a session", self._put_worker(after, number, begun)

    def _renew(self, world: World, number: int) -> Iterator[tuple[str, World | str]]:
        """It asks, and the database grants or refuses; time may pass before it hears of that."""
        worker, who = world.workers[number], f"worker {number}"
        session = world.sessions[worker.session]
        if not worker.asked:
            if not 0 < worker.left < self.lease:
                return
            answer = "refused" if session.ended else "granted"
            after = self._put_worker(world, number, worker._replace(asked=answer))
            if not session.ended:
                renewed = Session(self.lease)
                after = after._replace(sessions=_put(world.sessions, worker.session, renewed))
            yield f"{who} renews, {answer}", after
        else:  # as much of the lease has passed since it asked as of the session's
            left = session.left if self.rules.lease_from_request else self.lease
            heard = worker._replace(asked="")
            if worker.asked == "granted":
                heard = heard._replace(left=left if worker.left else 0)
            else:
                heard = heard._replace(left=0)
                if heard.phase == "working":
                    heard = heard._replace(phase="idle", due=0, attempt=0)
            yield f"{who} hears", self._put_worker(world, number, heard)

    def _claim(self, world: World, number: int) -> Iterator[tuple[str, World | str]]:
        worker, who = world.workers[number], f"worker {number}"
        session = world.sessions[worker.session]
        mine = [
            run for run in world.runs if (run.status, run.session) == ("running", worker.session)
        ]
        if mine:  # the database gives it what it does not work on
            back = mine[0]._replace(status="queued", session=NOBODY)
            yield f"{who} hands back", self._put_run(world, mine[0], back)
            return
        is_alive = session.left > 0 and not session.ended
        idle = worker._replace(phase="idle")
        yield f"{who} gets nothing", self._put_worker(world, number, idle)
        if self.rules.claim_checks_session and not is_alive:
            return
        busy = {run.due for run in world.runs if run.status == "running"}
        for run in world.runs:
            if run.status != "queued" or (busy and self.rules.exclusive):
                continue
            claimed = run._replace(
                status="running", attempt=run.attempt + 1, session=worker.session
            )
            after = self._put_run(world, run, claimed)
            has = worker._replace(phase="claimed", due=run.due, attempt=claimed.attempt)
            yield f"{who} claims {run.due}", self._put_worker(after, number, has)
            if world.surprises:
                lost = self._put_worker(after, number, idle)
                lost = lost._replace(surprises=world.surprises - 1)
                yield f"{who} claims {run.due} and never hears of it", lost

    def _settle(self, world: World, number: int) -> Iterator[tuple[str, World | str]]:
        worker, who = world.workers[number], f"worker {number}"
        idle = worker._replace(phase="idle", due=0, attempt=0)
        for run in world.runs:
            if (run.due, run.attempt) != (worker.due, worker.attempt):
                continue
            is_current = (run.status, run.session) == ("running", worker.session)
            if not is_current and self.rules.settle_needs_session:
                continue
            if not is_current and run.status != "ended":
                yield f"{who} settles {run.due}", "I4: an attempt that is over ends a run"
                return
            after = self._put_run(world, run, run._replace(status="ended", session=NOBODY))
            yield f"{who} settles {run.due}", self._put_worker(after, number, idle)
            return
        yield f"{who} is refused", self._put_worker(world, number, idle)

    @staticmethod
    def _put_worker(world: World, number: int, worker: Worker) -> World:
        return world._replace(workers=_put(world.workers, number, worker))

    @staticmethod
    def _put_run(world: World, former: Run, run: Run) -> World:
        rest = list(world.runs)
        rest[rest.index(former)] = run
        return world._replace(runs=tuple(sorted(rest)))


def _put(items: tuple, place: int, item: object) -> tuple:  # type: ignore[type-arg]
    return (*items[:place], item, *items[place + 1 :])
