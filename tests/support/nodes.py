"""Real nodes on a real file for tests: starts and ends them, reads evidence, checks invariants.

Commands write their evidence to a file outside the database; the checker compares both and shares
no code with planner, triggers or store.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
import time
import uuid
from collections import Counter
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from duebook.book import Book
from duebook.store.opening import open_store
from tests.support.waiting import PATIENCE, eventually

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
DRIVER = Path(__file__).with_name("node_driver.py")
CALM = 30.0
"""Seconds of a lease as in production: no node loses it because a machine is busy."""
LEASE = 2.0
"""The lease of nodes whose end other nodes should notice soon. A node that stalls for a second or
two may lose it, too: tests that count attempts use a multiple."""

SAY = (
    'say() { printf "%s %s %s %s %s %s %s %s\\n" "$1" "$DUEBOOK_SCHEDULE" "$DUEBOOK_RUN_ID" '
    '"$DUEBOOK_ATTEMPT" "$DUEBOOK_DUE_AT" "$$" "$NODE_MARK" "$(date +%s.%N)" >>"$EVIDENCE"; }; '
)
"""Writes a line with one write to a file opened for appending, so lines of many processes stay
whole."""

QUICK = SAY + "say start; say end"
HELD = SAY + 'say start; while [ ! -e "$GO" ]; do sleep 0.1; done; say end'
BEATING = SAY + 'say start; while [ ! -e "$GO" ]; do sleep 0.02; say beat; done; say end'


@dataclass(frozen=True)
class Evidence:
    """A line that a command wrote."""

    word: str
    schedule: str
    run: str
    attempt: int
    due: float
    pid: int
    node: str
    at: float


class NodeProcess:
    """A process that runs a node; its output is kept in files."""

    def __init__(self, argv: list[str], env: dict[str, str], folder: Path) -> None:
        self.mark = f"duebook-node-{uuid.uuid4()}"
        self.folder = folder
        self._out, self._err = folder / f"{self.mark}.out", folder / f"{self.mark}.err"
        self.started_at = time.monotonic()
        with self._out.open("wb") as out, self._err.open("wb") as err:
            self.process = subprocess.Popen(  # noqa: S603
                argv,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                env={**env, "NODE_MARK": self.mark},
                cwd=folder,
                start_new_session=True,
            )
        self.pid = self.process.pid

    @property
    def output(self) -> str:
        return self._out.read_text()

    @property
    def log(self) -> str:
        return self._err.read_text()

    @property
    def address(self) -> str:
        """The address of its API, which it prints once it is ready."""
        found = re.search(r"open: (http://[^/]+)/", self.wait_ready().output)
        assert found is not None, self.output
        return found[1]

    @property
    def has_ended(self) -> bool:
        return self.process.poll() is not None

    @property
    def was_ready(self) -> bool:
        """Whether it has reported that it is ready; it may have ended since."""
        return any(line.startswith("ready") for line in self.output.splitlines())

    def wait_ready(self) -> NodeProcess:
        eventually(lambda: self.has_ended or self.was_ready)
        assert self.was_ready, self.log
        return self

    def send(self, number: int) -> None:
        self.process.send_signal(number)

    def end(self, number: int = signal.SIGTERM) -> int:
        self.send(number)
        return self.wait_end()

    def wait_end(self) -> int:
        """Wait until it has ended; returns its exit code."""
        return self.process.wait(PATIENCE)

    def family(self) -> list[int]:
        """The live processes of the node and of everything that it started."""
        return marked(self.mark)

    def spawner(self) -> int:
        (pid,) = (p for p in children_of(self.pid) if b"spawner_process" in cmdline(p))
        return pid


class World:
    """A database in a file or elsewhere, the evidence beside it, and the nodes that work on it."""

    def __init__(self, folder: Path, url: str | None = None) -> None:
        self.folder = folder
        self.path = folder / "books.db"
        self._url = url
        self.evidence_file = folder / "evidence"
        self.evidence_file.touch()
        self.go = folder / "go"
        self.mark = f"duebook-work-{uuid.uuid4()}"
        self.nodes: list[NodeProcess] = []
        self._book: Book | None = None

    @property
    def place(self) -> str:
        return self._url or str(self.path)

    @property
    def book(self) -> Book:
        if self._book is None:
            self._book = Book(open_store(self.place))
        return self._book

    def use(self, book: Book) -> None:
        """Use this client instead of opening one; it is closed with the world."""
        self._book = book

    @property
    def env(self) -> dict[str, str]:
        return {
            "PATH": os.environ["PATH"],
            "EVIDENCE": str(self.evidence_file),
            "GO": str(self.go),
            "DUEBOOK_PASS_ENV": "EVIDENCE, GO, NODE_*",  # variables that commands of tests use
            "TZ": "UTC",
        }

    def cli_argv(self, *words: str) -> list[str]:
        return [sys.executable, "-m", "duebook", "--database", self.place, *words]

    def cli(self, *words: str, timeout: float = PATIENCE) -> subprocess.CompletedProcess[str]:
        return subprocess.run(  # noqa: S603
            self.cli_argv(*words),
            env=self.env,
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )

    def up(self, *words: str, program: Path | None = None) -> NodeProcess:
        """Run `duebook up` as a user starts it without the API; perhaps of another release."""
        argv = self.cli_argv("up", "--roles", "scheduler,worker", *words)
        return self._begin(argv if program is None else [str(program), *argv[3:]])

    def start(self, *words: str) -> NodeProcess:
        """Start a command that runs while the test continues."""
        return self._begin(self.cli_argv(*words))

    def node(self, place: str | None = None, **options: Any) -> NodeProcess:
        """Start a node and wait until it is ready; `place` is another route to the same database,
        `options` are those of node_driver.py."""
        return self.start_node(place, **options).wait_ready()

    def start_node(self, place: str | None = None, **options: Any) -> NodeProcess:
        """Like `node`, without waiting until it is ready."""
        words = json.dumps({"lease": CALM, **options})
        return self._begin([sys.executable, str(DRIVER), place or self.place, words])

    def _begin(self, argv: list[str], env: dict[str, str] | None = None) -> NodeProcess:
        node = NodeProcess(argv, self.env | (env or {}), self.folder)
        self.nodes.append(node)
        return node

    def add(self, name: str, shell: str, **definition: Any) -> None:
        """Add a schedule whose command and its children carry the world's mark; it is never due by
        itself."""
        target = {"shell": shell, "env": {"WORK_MARK": self.mark}}
        definition.setdefault("trigger", {"cron": "0 0 29 2 *"})
        self.book.schedules.create(name, target=target, **definition)

    def trigger(self, name: str) -> str:
        return self.book.schedules.trigger(name).id

    def status(self, run: str) -> str:
        return self.book.runs.get(run).status

    def wait_for(self, run: str, *statuses: str, timeout: float = PATIENCE) -> None:
        def story() -> str:
            return f"{run} is not {statuses}: {self._story(run)}"

        eventually(lambda: self.status(run) in statuses, timeout, story)

    def _story(self, run: str) -> str:
        """What the database and the nodes show about a run that went wrong."""
        log = [line.text for _, line in self.book.runs.log(run)]
        nodes = [(node.process.poll(), node.output, node.log) for node in self.nodes]
        return f"{self.book.runs.get(run)}\nits log: {log}\nnodes: {nodes}"

    def dues(self, name: str) -> Counter[float]:
        """How often a command started for each due time."""
        return Counter(e.due for e in self.evidence("start", name))

    def wait_for_more(self, name: str, number: int) -> None:
        """Wait until commands have started for this many more due times."""
        before = len(self.dues(name))
        eventually(lambda: len(self.dues(name)) >= before + number)

    def come_to_rest(self, names: list[str]) -> None:
        """Pause these schedules, and wait until their runs have ended."""
        for name in names:
            self.book.schedules.pause(name)

        def going_on() -> list[str]:
            runs = [run for name in names for run in self.book.runs.list(name, limit=1_000)]
            return [run.id for run in runs if run.status in ("queued", "running")]

        eventually(lambda: not going_on(), told=lambda: [*map(self._story, going_on()[:1])])

    def working(self) -> list[int]:
        """The live processes of commands."""
        return marked(self.mark)

    def evidence(self, word: str | None = None, schedule: str | None = None) -> list[Evidence]:
        lines = self.evidence_file.read_text().splitlines(keepends=True)
        found = [_read_evidence(line) for line in lines if line.endswith("\n")]
        return [
            e
            for e in found
            if (word is None or e.word == word) and (schedule is None or e.schedule == schedule)
        ]

    def wait_evidence(
        self, word: str, schedule: str, number: int = 1, timeout: float = PATIENCE
    ) -> list[Evidence]:
        def there() -> list[Evidence]:
            found = self.evidence(word, schedule)
            return found if len(found) >= number else []

        return eventually(there, timeout)

    def query(self, sql: str, *parameters: object) -> list[tuple[Any, ...]]:
        """Query the file directly, without Duebook."""
        connection = sqlite3.connect(f"file:{self.path}?mode=ro", uri=True, timeout=PATIENCE)
        try:
            return connection.execute(sql, parameters).fetchall()
        finally:
            connection.close()

    def sessions(self, node: NodeProcess) -> list[tuple[str, int | None]]:
        """The id and end of each session of a node, oldest first."""
        sql = "SELECT id, ended_at FROM node_sessions WHERE pid = ? ORDER BY started_at, id"
        return [(row[0], row[1]) for row in self.query(sql, node.pid)]

    def stop_outside_transactions(self, node: NodeProcess) -> None:
        """Send SIGSTOP while the node holds no lock on the file, which would block all other
        nodes."""

        def stopped() -> bool:
            node.send(signal.SIGSTOP)
            eventually(lambda: is_stopped(node.pid))
            if lock_is_free(self.path):
                return True
            node.send(signal.SIGCONT)
            return False

        eventually(stopped)

    def close(self) -> None:
        for node in self.nodes:
            if node.process.poll() is None:
                node.send(signal.SIGKILL)
                node.process.wait()
        for mark in (self.mark, *(node.mark for node in self.nodes)):
            for pid in marked(mark):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        if self._book is not None:
            self._book.close()


@contextmanager
def open_world(folder: Path, url: str | None = None) -> Iterator[World]:
    world = World(folder, url)
    try:
        yield world
    finally:
        world.close()


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with open_world(tmp_path) as opened:
        yield opened


# ------------------------------------------------------------ processes


def marked(mark: str) -> list[int]:
    """The live processes (zombies have no environment) with `mark` in their environment."""
    return [
        int(entry.name)
        for entry in Path("/proc").iterdir()
        if entry.name.isdecimal() and mark.encode() in read(entry / "environ")
    ]


def read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


def threads_of(pid: int) -> list[Path]:
    """The folders of its threads; empty if it has ended."""
    try:
        return list(Path(f"/proc/{pid}/task").iterdir())
    except OSError:
        return []


def is_stopped(pid: int) -> bool:
    """Whether all of its threads are stopped: one may first have to finish a system call, such as
    getting a lock."""
    told = [read(task / "stat") for task in threads_of(pid)]
    assert any(told), f"process {pid} has ended"
    return all(text.rpartition(b")")[2].split()[0] == b"T" for text in told if text)


def cmdline(pid: int) -> bytes:
    return read(Path(f"/proc/{pid}/cmdline"))


def children_of(pid: int) -> list[int]:
    """A child belongs to the thread that forked it, so the children of every thread are read."""
    return [int(child) for task in threads_of(pid) for child in read(task / "children").split()]


def cpu_seconds(pid: int) -> float:
    fields = read(Path(f"/proc/{pid}/stat")).decode().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def seconds_without_a_core(pid: int) -> float:
    """How long its live threads were ready to run while other processes had the cores."""
    told = [read(task / "schedstat").split() for task in threads_of(pid)]
    return sum(int(words[1]) for words in told if words) / 1_000_000_000


def resident(pid: int) -> int:
    return int(read(Path(f"/proc/{pid}/statm")).split()[1]) * os.sysconf("SC_PAGE_SIZE")


def peak_resident(pid: int) -> int:
    status = read(Path(f"/proc/{pid}/status")).decode()
    return int(status.partition("VmHWM:")[2].split()[0]) * 1024


def lock_is_free(path: Path) -> bool:
    with Path(f"{path}-lock").open("r+b") as side_file:
        try:
            fcntl.flock(side_file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


# ------------------------------------------------------------ the checker


def _read_evidence(line: str) -> Evidence:
    word, schedule, run, attempt, due, pid, node, at = line.split()
    due_at = datetime.fromisoformat(due).timestamp()
    return Evidence(word, schedule, run, int(attempt), due_at, int(pid), node, float(at))


def check(world: World) -> None:
    """Check the invariants I1, I2, I3, I4 and I7, on the evidence and the database."""
    _check_runs(world)
    _check_evidence(world)
    _check_no_overlap(world)
    _check_every_due_time(world)


def _check_runs(world: World) -> None:
    doubled = world.query(
        "SELECT schedule_id, due_at FROM runs WHERE due_at IS NOT NULL "
        "GROUP BY schedule_id, due_at HAVING count(*) > 1"
    )
    assert not doubled
    losses = world.query(
        "SELECT id, losses, (SELECT count(*) FROM run_attempts AS a "
        "WHERE a.run_id = r.id AND a.outcome = 'lost') AS lost "
        "FROM runs AS r WHERE losses <> lost AND reason IS NOT 'poison'"
    )
    assert not losses


def _check_evidence(world: World) -> None:
    """One run per due time, one start per attempt, none early, every success complete."""
    runs: dict[tuple[str, float], set[str]] = {}
    origins = dict(world.query("SELECT id, origin FROM runs"))
    for evidence in world.evidence("start"):
        if origins[evidence.run] != "manual":
            runs.setdefault((evidence.schedule, evidence.due), set()).add(evidence.run)
            assert evidence.at >= evidence.due
    assert all(len(ids) == 1 for ids in runs.values())
    starts = [(e.run, e.attempt) for e in world.evidence("start")]
    assert len(starts) == len(set(starts))
    ends = {(e.run, e.attempt) for e in world.evidence("end")}
    succeeded = world.query("SELECT id, attempt FROM runs WHERE status = 'succeeded'")
    assert set(succeeded) <= ends


def _check_no_overlap(world: World) -> None:
    """If runs of a schedule exclude each other, no two attempts worked at the same time; one that
    reports that it was cancelled has noticed, and no longer works."""
    exclusive = {row[0] for row in world.query("SELECT id FROM runs WHERE exclusive = 1")}
    spans: dict[str, dict[tuple[str, int], tuple[float, float]]] = {}
    for e in world.evidence():
        if e.run in exclusive and e.word != "cancelled":
            attempts = spans.setdefault(e.schedule, {})
            first, last = attempts.get((e.run, e.attempt), (e.at, e.at))
            attempts[e.run, e.attempt] = min(first, e.at), max(last, e.at)
    for attempts in spans.values():
        in_order = sorted(attempts.values())
        for (_, ended), (began, _) in pairwise(in_order):
            assert ended <= began


def _check_every_due_time(world: World) -> None:
    """Each due time of a schedule `every 1s`, up to its watermark, has a run or is recorded."""
    rows = world.query(
        "SELECT s.id, r.spec, s.created_at, st.watermark FROM schedules AS s "
        "JOIN schedule_revisions AS r ON r.schedule_id = s.id "
        "JOIN schedule_state AS st ON st.schedule_id = s.id"
    )
    for id_, spec, created_at, watermark in rows:
        trigger = json.loads(spec)["trigger"]
        if not isinstance(trigger, dict) or trigger.get("every") != "1s":
            continue
        anchor = round(datetime.fromisoformat(trigger["anchor"]).timestamp() * 1_000_000)
        first = (created_at - anchor) // 1_000_000 + 1
        last = (watermark - anchor) // 1_000_000
        expected = {anchor + k * 1_000_000 for k in range(first, last + 1)}
        assert _accounted(world, id_, expected) == expected


def _accounted(world: World, schedule_id: str, expected: set[int]) -> set[int]:
    found = [
        r[0] for r in world.query("SELECT due_at FROM runs WHERE schedule_id = ?", schedule_id)
    ]
    entries = world.query(
        "SELECT due_from, due_to, count FROM ledger WHERE schedule_id = ?", schedule_id
    )
    for due_from, due_to, count in entries:
        covered = [due for due in expected if due_from <= due <= due_to]
        assert len(covered) == count
        found += covered
    assert len(found) == len(set(found))
    return set(found)
