"""The checker finds every kind of fault: the real database of a real fleet is right, and wrong as
soon as anything in it or in the evidence is altered."""

from __future__ import annotations

import re
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from tests.chaos.books import read_books
from tests.chaos.checker import check, facts_of
from tests.chaos.fleet import LEASE, open_fleet
from tests.chaos.witness import STANDSTILL, Answer, Delivery, Fault, Glimpse, Witness

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.chaos.books import Books
    from tests.support.nodes import Evidence
    from tests.support.postgres import Server

NAMES = ("all-1", "cron", "queue", "skip", "failing")
EVENTS = """
INSERT INTO events (id, namespace, topic, type, key, slot, aggregate, version, data, meta, at,
    position)
SELECT 'e' || n, 'default', 't', 't', 'k', 1, 'a', n, '{}', '{}', now(), n
FROM generate_series(1, 3) AS n"""

REOPEN = """
INSERT INTO run_attempts (run_id, attempt, session_id, claimed_at, finished_at, outcome, exit_code)
SELECT id, attempt, session_id, claimed_at, finished_at, status, exit_code FROM runs
WHERE id = '{0}';
UPDATE ended_runs SET attempt = attempt + 1, status = 'cancelled', exit_code = NULL
WHERE id = '{0}'"""


class Case:
    """A copy of the database, to be altered, and what was seen outside of it."""

    def __init__(self, url: str, seen: Witness) -> None:
        self.url, self.seen = url, seen

    def write(self, sql: str) -> None:
        with psycopg.connect(self.url, options="-c search_path=duebook") as connection:
            done = connection.execute(sql.encode())
            assert done.rowcount, "this changed nothing"

    def read(self) -> Books:
        return read_books(self.url)

    def verdict(self) -> list[str]:
        return check(self.read(), self.seen)

    def line(self, word: str, schedule: str, number: int = 0) -> tuple[int, Evidence]:
        """A line of evidence, and its index."""
        found = [
            (place, line)
            for place, line in enumerate(self.seen.evidence)
            if line.word == word and line.schedule == schedule
        ]
        return found[number]

    def alter(self, word: str, schedule: str, **changes: object) -> None:
        place, line = self.line(word, schedule)
        self.seen.evidence[place] = replace(line, **changes)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def original(
    tmp_path_factory: pytest.TempPathFactory, postgres_server: Server
) -> Iterator[tuple[str, Witness]]:
    """A correct database of two nodes, one of which was killed at work, and the responses to
    users."""
    with open_fleet(tmp_path_factory.mktemp("fleet"), postgres_server) as fleet:
        fleet.load(NAMES)
        run = fleet.world.book.schedules.trigger("all-1").id
        created = fleet.world.book.schedules.get("all-1").id
        updated = fleet.world.book.schedules.update("cron", payload={"a": 1})
        fleet.seen.answers += [
            Answer("triggered", run),
            Answer("created", created),
            Answer("updated", updated.id, updated.version),
        ]
        fleet.node()
        doomed = fleet.start(kill_at="settler before:settle_runs")
        doomed.process.wait_end()
        fleet.wait_more("queue", 1)
        fleet.wait_more("failing", 1)
        fleet.settle_accounts()
        with psycopg.connect(fleet.url, options="-c search_path=duebook") as connection:
            connection.execute(EVENTS)
        fleet.seen.deliveries = [Delivery("us", f"e{n}") for n in (1, 2, 2, 3)]
        for row in fleet.books().runs:
            fleet.seen.glimpses.append(Glimpse(row["id"], row["attempt"], facts_of(row)))
        fleet.world.close()
        yield fleet.url, fleet.seen


@pytest.fixture
def case(original: tuple[str, Witness], postgres_server: Server) -> Iterator[Case]:
    url, seen = original
    with postgres_server.database(str(conninfo_to_dict(url)["dbname"])) as copy:
        yield Case(copy, deepcopy(seen))


def test_right_books_are_right(case: Case) -> None:
    books = case.read()
    assert {run["status"] for run in books.runs} >= {"succeeded", "failed"}
    assert {row["outcome"] for row in books.attempts} >= {"lost", "failed"}
    assert {row["reason"] for row in books.ledger} >= {"overlap"}
    assert case.verdict() == []


def doctored() -> dict[str, tuple[str, str]]:
    """By fault: what the checker must report, and the statements that cause it."""
    text = Path(__file__).with_name("doctored.sql").read_text()
    blocks = re.findall(r"^-- (.+) \| (.+)\n((?:(?!-- ).*\n)+)", text, re.MULTILINE)
    return {name: (says, sql) for says, name, sql in blocks}


DOCTORED = doctored()


def test_each_invariant_has_a_fault_that_breaks_it() -> None:
    assert {says.partition(":")[0] for says, _ in DOCTORED.values()} == {
        f"I{number}" for number in range(1, 10)
    }


@pytest.mark.parametrize("name", DOCTORED)
def test_doctored_books_are_found_out(case: Case, name: str) -> None:
    expected, sql = DOCTORED[name]
    case.write(sql)
    assert any(text.startswith(expected) for text in case.verdict()), case.verdict()


def _begin_twice(case: Case) -> None:
    case.seen.evidence.append(case.line("start", "all-1")[1])


def _do_it_in_another_run(case: Case) -> None:
    other = case.line("start", "cron")[1]
    runs = {line.run for line in case.seen.evidence if line.schedule == "cron"} - {other.run}
    place = next(n for n, line in enumerate(case.seen.evidence) if line.run in runs)
    case.seen.evidence[place] = replace(case.seen.evidence[place], due=other.due)


def _work_at_once(case: Case) -> None:
    ended = case.line("end", "queue")[1]
    starts = (e for e in case.seen.evidence if (e.word, e.schedule) == ("start", "queue"))
    later = next(start for start in starts if start.at > ended.at)
    case.alter("end", "queue", at=later.at + 0.01)


def _begin_early(case: Case) -> None:
    case.alter("start", "cron", at=case.line("start", "cron")[1].due - 0.01)


def _unsay(word: str, status: str) -> Callable[[Case], None]:
    """Remove what attempts reported that were settled with this status."""

    def unsay(case: Case) -> None:
        ended = {(r["id"], r["attempt"]) for r in case.read().runs if r["status"] == status}
        said = (e for e in case.seen.evidence if e.word == word and (e.run, e.attempt) in ended)
        case.seen.evidence.remove(next(said))

    return unsay


def _deliver_backwards(case: Case) -> None:
    case.seen.deliveries += [Delivery("us", "e1")]


def _promise(what: str, version: int | None = None) -> Callable[[Case], None]:
    def promise(case: Case) -> None:
        run = case.line("end", "cron")[1].run
        id_ = {"retried": run}.get(what, "nothing")
        case.seen.answers.append(Answer(what, id_, version))

    return promise


def _work_on(case: Case) -> None:
    case.alter("end", "cron", attempt=9)


def _see_another_end(case: Case) -> None:
    glimpse = case.seen.glimpses[0]
    case.seen.glimpses.append(replace(glimpse, facts=("cancelled", *glimpse.facts[1:])))


def _forget_a_run(case: Case) -> None:
    case.seen.glimpses.append(Glimpse("nothing", 1, ()))


@pytest.mark.parametrize(
    ("expected", "doctor"),
    [
        ("I1: attempt", _begin_twice),
        ("I1: cron executed 2", _do_it_in_another_run),
        ("I3: queue", _work_at_once),
        ("I4: attempt", _unsay("end", "succeeded")),
        ("I4: attempt", _unsay("fail", "failed")),
        ("I5: us", _deliver_backwards),
        ("I6: ", _promise("triggered")),
        ("I6: ", _promise("created")),
        ("I6: ", _promise("updated", 7)),
        ("I6: ", _promise("cancelled")),
        ("I6: ", _promise("retried", 9)),
        ("I7: run", _begin_early),
        ("I9: run", _work_on),
        ("I9: run", _see_another_end),
        ("I9: run", _forget_a_run),
    ],
)
def test_doctored_evidence_is_found_out(
    case: Case, expected: str, doctor: Callable[[Case], None]
) -> None:
    doctor(case)
    assert any(text.startswith(expected) for text in case.verdict()), case.verdict()


def test_a_fault_of_the_server_excuses_those_who_follow_the_dead_later(case: Case) -> None:
    lost = [row["finished_at"] for row in case.read().attempts if row["outcome"] == "lost"]
    case.write(
        "UPDATE run_attempts SET finished_at = finished_at + interval '20 s' WHERE outcome = 'lost'"
    )
    fault = Fault("server", min(lost).timestamp(), max(lost).timestamp() + 20 - LEASE)
    case.seen.faults.append(fault)
    assert case.verdict() == []


def test_a_node_that_started_after_the_death_judges_nobody_for_a_lease(case: Case) -> None:
    case.write(
        "UPDATE run_attempts SET finished_at = finished_at + interval '20 s' WHERE outcome = 'lost'"
    )
    assert any(text.startswith("I8: ") for text in case.verdict())
    lost = next(row for row in case.read().attempts if row["outcome"] == "lost")
    later = ", ".join(f"{name} = {name} + interval '40 s'" for name in ("seen_at", "expires_at"))
    case.write(
        f"UPDATE node_sessions SET started_at = '{lost['finished_at']}', {later},"  # noqa: S608
        f" ended_at = ended_at + interval '40 s' WHERE id <> '{lost['session_id']}'"
    )
    assert not any(text.startswith("I8: ") for text in case.verdict())


def test_a_machine_that_stood_still_excuses_work_beyond_the_lease(case: Case) -> None:
    last = max(line.at for line in case.seen.evidence)
    case.write(f"UPDATE node_sessions SET expires_at = to_timestamp({last - 1})")  # noqa: S608
    case.seen.faults = [Fault("server", last - 2, last), Fault(STANDSTILL, last - 9, last - 5)]
    assert any(text.startswith("I3: attempt") for text in case.verdict())
    case.seen.faults += [Fault(STANDSTILL, last - ago, last - 0.1) for ago in (1.2, 0.9)]
    assert not any(text.startswith("I3: attempt") for text in case.verdict())


def test_a_pause_excuses_what_was_left_out_for_it(case: Case) -> None:
    case.write("UPDATE ledger SET reason = 'paused' WHERE reason = 'overlap'")
    assert case.verdict() != []
    case.seen.paused = {"skip"}
    assert case.verdict() == []


def test_a_person_may_open_a_run_again(case: Case) -> None:
    run = case.line("fail", "failing")[1].run
    case.write(REOPEN.format(run))
    assert any(text.startswith("I9: run") for text in case.verdict())
    case.seen.reopened = {run}
    assert case.verdict() == []
