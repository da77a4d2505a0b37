"""A fleet of real nodes on a separate PostgreSQL server, with faults to inject; what is seen of it
outside the database is kept for the checker."""

from __future__ import annotations

import signal
import time
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from psycopg.conninfo import conninfo_to_dict

from duebook.model.consumer import new_consumer
from tests.chaos.books import read_books
from tests.chaos.checker import ENDED, check
from tests.chaos.flow_checker import check_flows
from tests.chaos.flows import GRAPHS, SCHEDULES, text_of
from tests.chaos.proxy import Proxy
from tests.chaos.stillness import Stillness
from tests.chaos.witness import Fault, Witness
from tests.support.flow_builders import put_flow
from tests.support.nodes import SAY, World, is_stopped
from tests.support.waiting import PATIENCE, eventually

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.chaos.books import Books
    from tests.support.nodes import NodeProcess
    from tests.support.postgres import Server

LEASE: Final = 3.0
"""The lease of the nodes here; their transaction timeouts are shortened in proportion."""
QUICK: Final = SAY + "say start; echo working; say end"
SLOW: Final = SAY + "say start; for n in 1 2 3 4 5 6; do sleep 0.1; say beat; done; say end"
LATE: Final = SAY + "say start; for n in 1 2 3 4; do sleep 0.3; say beat; done; say end"
FAILING: Final = SAY + "say start; say fail; exit 3"
EVERY: Final = {"grace": "1s", "catchup": "all", "catchup_pace": "0s", "max_takeovers": 100}
LOAD: Final[dict[str, tuple[str, dict[str, Any]]]] = {
    "all-1": (QUICK, {"trigger": {"every": "1s"}, "overlap": "allow", **EVERY}),
    "all-2": (QUICK, {"trigger": {"every": "1s"}, "overlap": "allow", **EVERY}),
    "cron": (
        QUICK,
        {"trigger": {"cron": "*/2 * * * * *", "tz": "Asia/Kathmandu"}, "overlap": "allow", **EVERY},
    ),
    "queue": (SLOW, {"trigger": {"every": "2s"}, "overlap": "queue", **EVERY}),
    "skip": (LATE, {"trigger": {"every": "1s"}, "overlap": "skip", **EVERY}),
    "latest": (SLOW, {"trigger": {"every": "1s"}, "overlap": "latest", **EVERY}),
    "cancel": (SLOW, {"trigger": {"every": "2s"}, "overlap": "cancel", **EVERY}),
    "missed": (QUICK, {"trigger": {"every": "1s"}, "overlap": "allow", **EVERY, "catchup": "one"}),
    "failing": (
        FAILING,
        {
            "trigger": {"every": "3s"},
            "overlap": "allow",
            "retry": {"attempts": 2, "delay": "1s"},
            **EVERY,
        },
    ),
    "narrow": (SLOW, {"trigger": {"every": "2s"}, "overlap": "allow", "queue": "narrow", **EVERY}),
    "pair": (SLOW, {"trigger": {"every": "1s"}, "overlap": "allow", "max_concurrent": 2, **EVERY}),
}
"""The work of the fleet: commands and definitions by name."""


@dataclass
class Member:
    """A node of the fleet and its way to the database."""

    process: NodeProcess
    proxy: Proxy | None = None

    @property
    def alive(self) -> bool:
        return not self.process.has_ended


class Fleet:
    """The database, the nodes, and everything that was seen of them."""

    def __init__(self, folder: Path, server: Server, url: str) -> None:
        self.server, self.url = server, url
        self.world = World(folder, url)
        self.seen = Witness()
        self._stillness = Stillness(self.seen)
        self.members: list[Member] = []
        self._loaded: tuple[str, ...] = ()
        self._proxies: list[Proxy] = []
        self.database = str(conninfo_to_dict(url)["dbname"])

    @property
    def through_tcp(self) -> str:
        return self.server.url(self.database, "127.0.0.1")

    def proxy(self, url: str | None = None) -> Proxy:
        """A way to the server, or to what stands before it."""
        made = Proxy(url or self.through_tcp)
        self._proxies.append(made)
        return made

    def load(self, names: tuple[str, ...] = tuple(LOAD)) -> None:
        """Add schedules that continue until `end_load`."""
        if "narrow" in names:
            self.world.book.queues.limit("narrow", concurrency=1, rate="100/s")
        self._loaded = names
        for name in names:
            shell, definition = LOAD[name]
            self.world.add(name, shell, **definition)

    def load_flows(self) -> None:
        """Add flows and their schedules, and a consumer of the events about runs."""
        store = self.world.book.store
        for name in GRAPHS:
            put_flow(store, text_of(name, self.world.mark), name)
        listener = new_consumer("default", "listener", "group", ["duebook.runs"], 1, 1)
        store.transact(lambda tx: tx.consumers.save_consumer(listener, 0))
        for name, definition in SCHEDULES.items():
            self.world.book.schedules.create(name, target={"flow": name}, **definition)
        self._loaded += tuple(SCHEDULES)

    def adopt(self, names: tuple[str, ...]) -> None:
        """Use schedules that were added elsewhere, and continue until `end_load`."""
        self._loaded += names

    def end_load(self) -> None:
        """Let nothing more become due soon. The end must not be in the past when it is written:
        that would contradict what ran until then."""
        for name in self._loaded:
            ends = (datetime.now(UTC) + timedelta(seconds=2)).isoformat()
            self.world.book.schedules.update(name, end_at=ends)

    def start(self, proxied: bool = False, way: str | None = None, **options: Any) -> Member:
        """Start a node, perhaps with another way to the database, without waiting until it is
        ready."""
        proxy = self.proxy(way) if proxied else None
        options = {"lease": LEASE, "scaled": True, "queues": ["default", "narrow"], **options}
        process = self.world.start_node(proxy.url if proxy else None, **options)
        if "clone" not in options:
            self.seen.pids[process.mark] = process.pid
        member = Member(process, proxy)
        self.members.append(member)
        return member

    def node(self, proxied: bool = False, **options: Any) -> Member:
        """Start a node, and wait until it is ready."""
        member = self.start(proxied, **options)
        member.process.wait_ready()
        return member

    def up(self) -> Member:
        """Run `duebook up`, with the lease that it has in production."""
        member = self.start_up()
        member.process.wait_ready()
        return member

    def start_up(self, program: Path | None = None) -> Member:
        """Like `up`, perhaps of another release, without waiting until it is ready."""
        process = self.world.up("--queue", "default", "--queue", "narrow", program=program)
        self.seen.pids[process.mark] = process.pid
        member = Member(process)
        self.members.append(member)
        return member

    @contextmanager
    def fault(self, what: str) -> Iterator[None]:
        """During this, runs of dead nodes need not be taken over in time."""
        began = time.time()
        try:
            yield
        finally:
            self.seen.faults.append(Fault(what, began, time.time()))

    def crash_server(self) -> None:
        """Crash the server as `pg_ctl stop -m immediate` does, and start it, which recovers."""
        with self.fault("server"):
            self.server.stop(signal.SIGQUIT)
            self.server.start()

    def stop(self, member: Member) -> None:
        member.process.send(signal.SIGSTOP)
        eventually(lambda: is_stopped(member.process.pid))

    def wait_stopped(self, member: Member, timeout: float = PATIENCE) -> None:
        """Wait until the node has stopped itself at the point that it was given."""
        eventually(lambda: is_stopped(member.process.pid), timeout)

    def wait_more(self, name: str, number: int = 2, timeout: float = PATIENCE) -> None:
        """Wait until this many more runs of the schedule have started."""
        before = len(self.world.evidence("start", name))
        eventually(lambda: len(self.world.evidence("start", name)) >= before + number, timeout)

    def drain(self, timeout: float = 5 * PATIENCE) -> None:
        """Wait until everything that was due has been decided and has ended; there may be a
        backlog.

        Does not wait for schedules to be completed: that is noticed up to a minute later, if the
        run of the last due time is not the last to end.
        """
        try:
            eventually(lambda: not self._unfinished(), timeout)
        except AssertionError:
            raise AssertionError(f"unfinished after {timeout} s: {self._unfinished()}") from None

    def _unfinished(self) -> list[tuple[str, str]]:
        """The schedules and runs that are not finished."""
        books = read_books(self.url)
        loaded = [schedule for schedule in books.schedules if schedule["name"] in self._loaded]
        undecided = [s for s in loaded if s["next_due_at"] or s["seen"]]
        waiting = [s for s in undecided if s["status"] != "completed"]
        return [(s["name"], s["status"]) for s in waiting] + [
            (run["id"], run["status"]) for run in books.runs if run["status"] not in ENDED
        ]

    def end(self) -> None:
        """Stop all nodes in order; they must leave nothing behind."""
        living = [member for member in self.members if member.alive]
        for member in living:
            member.process.send(signal.SIGTERM)
        codes = [member.process.wait_end() for member in living]
        assert not any(codes), [member.process.log[-2000:] for member in living]
        eventually(lambda: not self.world.working())
        self._stillness.close()

    def verdict(self) -> list[str]:
        """The violations that the checker finds in the database."""
        self.seen.evidence = self.world.evidence()
        books = self.books()
        return check(books, self.seen) + check_flows(books, self.seen)

    def books(self) -> Books:
        return read_books(self.url)

    def settle_accounts(self) -> None:
        """The end of most tests: everything is finished, and everything is right."""
        self.end_load()
        self.drain()
        self.end()
        wrong = self.verdict()
        assert not wrong, "\n".join(wrong)
        balanced = self.world.cli("db", "check")
        assert balanced.returncode == 0, balanced.stdout + balanced.stderr
        for member in self.members:
            assert "Traceback" not in member.process.log, member.process.log[-3000:]

    def close(self) -> None:
        self._stillness.close()
        self.world.close()
        for proxy in self._proxies:
            proxy.close()


@contextmanager
def open_fleet(folder: Path, server: Server, template: str = "template") -> Iterator[Fleet]:
    with server.database(template) as url:
        fleet = Fleet(folder, server, url)
        try:
            yield fleet
        finally:
            fleet.close()
