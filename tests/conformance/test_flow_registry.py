"""Directories and the database: flows and their schedules follow the files."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from duebook.book.flow_registry import FlowRegistry
from duebook.engine.served_queues import ServedQueues
from duebook.errors import Conflict, NotFound
from duebook.flows.directory_keeper import RENEW, FlowKeeper
from tests.support.builders import LEASE, MINUTE, begin, get_runs, tick
from tests.support.flow_builders import Folder
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from pathlib import Path

    from duebook.book import Book
    from duebook.store.base import Store
    from tests.support.backends import Backend
    from tests.support.builders import VirtualClock

ETL = """
schedule: "*/10 * * * *"
catchup_window: 6h
steps: [{name: work, command: "true"}]
"""


@pytest.fixture
def folder(tmp_path: Path, store: Store) -> Folder:
    return Folder(tmp_path, store)


def test_a_new_file_is_a_flow_with_a_schedule_that_begins_now(
    folder: Folder, book: Book, clock: VirtualClock
) -> None:
    folder.write("etl.yaml", ETL)
    assert folder.sync() == [("add", "etl")]
    schedule = book.schedules.get("etl")
    assert schedule.watermark == clock.now
    assert schedule.created_by == "flows:flows"
    assert schedule.spec is not None
    assert schedule.spec.target.to_json() == {"flow": "etl"}
    assert book.flows.get("etl").place == "flows/etl.yaml"
    assert folder.sync() == []


def test_a_change_takes_effect_and_its_watermark_stays(
    folder: Folder, book: Book, store: Store, clock: VirtualClock
) -> None:
    folder.write("etl.yaml", ETL)
    folder.sync()
    began = book.schedules.get("etl").watermark
    clock.advance(timedelta(minutes=5))
    folder.write("etl.yaml", ETL.replace("*/10", "*/5"))
    assert folder.sync() == [("change", "etl")]
    schedule = book.schedules.get("etl")
    assert schedule.version == 2
    assert schedule.watermark is not None
    assert began is not None
    assert began <= schedule.watermark <= clock.now
    clock.advance(timedelta(minutes=5))
    folder.sync()
    tick(store)
    assert next(run.due_at for run in get_runs(store, schedule.id)) == clock.now


def test_a_deleted_file_takes_its_schedule_along_and_nothing_is_dispatched(
    folder: Folder, book: Book, store: Store, clock: VirtualClock
) -> None:
    folder.write("etl.yaml", ETL)
    folder.sync()
    (folder.path / "etl.yaml").unlink()
    assert folder.sync() == [("delete", "etl")]
    assert book.flows.list() == []
    assert list(book.schedules.list()) == []
    clock.advance(60 * MINUTE)
    assert tick(store) == 0


def test_a_broken_file_leaves_the_last_good_revision_in_force_and_shows_the_problem(
    folder: Folder, book: Book
) -> None:
    folder.write("etl.yaml", ETL)
    folder.sync()
    folder.write("etl.yaml", ETL + "retires: 3\n")
    assert folder.sync() == []
    assert book.schedules.get("etl").status == "active"
    (problem,) = book.flows.problems()
    assert (problem["file"], problem["line"]) == ("flows/etl.yaml", 5)
    assert "retires" in (book.flows.get("etl").problem or "")
    folder.write("etl.yaml", ETL)
    folder.sync()
    assert book.flows.problems() == []


def test_a_flow_that_there_is_not_is_told_with_what_is_wrong_with_its_file_or_what_was_meant(
    folder: Folder, book: Book
) -> None:
    folder.write("etl.yaml", "steps: [a]")
    folder.write("other.yaml", "steps: [{comand: a}]")
    folder.sync()
    with pytest.raises(NotFound, match=r'flow "other" does not exist; .*did you mean `command`'):
        book.flows.start("other")
    with pytest.raises(NotFound, match='flow "elt" does not exist; did you mean `etl`'):
        book.flows.get("elt")
    with pytest.raises(NotFound, match=r'flow "x" does not exist$'):
        book.flows.get("x")


def test_the_text_of_a_broken_file_is_kept_as_it_is_without_its_secrets(
    folder: Folder, book: Book
) -> None:
    folder.write("etl.yaml", ETL)
    folder.sync()
    assert book.flows.broken_source("etl") is None
    bad = ETL + "env: {DB_PASSWORD: hunter22}\nretires: 3\n"
    folder.write("etl.yaml", bad)
    folder.sync()
    kept = book.flows.broken_source("etl") or ""
    assert kept == bad.replace("hunter22", "***")
    assert book.flows.source("etl") == ETL
    (problem,) = book.flows.problems()
    assert (problem["line"], problem["text"]) == (6, "retires: 3")
    folder.write("etl.yaml", bad + "# and nothing else is wrong\n")
    folder.sync()
    assert (book.flows.broken_source("etl") or "").endswith("wrong\n")
    folder.write("etl.yaml", "retires: 3\n" + 300_000 * "# a\n")
    folder.sync()
    assert len(book.flows.broken_source("etl") or "") <= 200_000
    folder.write("etl.yaml", ETL)
    folder.sync()
    assert book.flows.broken_source("etl") is None


def test_nodes_that_take_turns_agree_on_what_is_wrong(
    folder: Folder, tmp_path: Path, store: Store, book: Book
) -> None:
    other = Folder(tmp_path, store)
    book.schedules.create("taken", trigger={"every": "1h"}, target={"command": ["true"]})
    good = {"etl.yaml": ETL, "taken.yaml": ETL}
    told = []
    for node, text in ((folder, "a: 1"), (other, "b: 1"), (folder, "a: 1"), (other, ETL)):
        assert node.registry.hold(["flows"])
        for name, content in (good | {"etl.yaml": text}).items():
            folder.write(name, content)
        node.sync()
        told.append({problem["message"].partition(":")[0] for problem in book.flows.problems()})
        node.registry.release()
    refused = "it cannot be scheduled"
    assert all(refused in messages for messages in told)
    assert [messages - {refused} for messages in told] == [
        {"unknown key `a`"},
        {"unknown key `b`"},
        {"unknown key `a`"},
        set(),
    ]


def test_a_changed_name_is_another_flow(folder: Folder, book: Book) -> None:
    folder.write("etl.yaml", "name: one\n" + ETL)
    folder.sync()
    folder.write("etl.yaml", "name: two\n" + ETL)
    assert folder.sync() == [("delete", "one"), ("add", "two")]
    assert [schedule.name for schedule in book.schedules.list()] == ["two"]


def test_schedules_of_flows_are_found_by_what_they_run(folder: Folder, book: Book) -> None:
    folder.write("one.yaml", ETL)
    folder.write("two.yaml", ETL)
    folder.sync()
    book.schedules.create("other", trigger={"every": "1h"}, target={"command": ["true"]})
    assert [s.name for s in book.schedules.list(target="flow")] == ["one", "two"]
    assert [s.name for s in book.schedules.list(target="flow:two")] == ["two"]
    assert [s.name for s in book.schedules.list(target="command")] == ["other"]


def test_a_flow_without_times_has_no_schedule(folder: Folder, book: Book) -> None:
    folder.write("etl.yaml", ETL)
    folder.sync()
    folder.write("etl.yaml", "steps: [{name: work, command: 'true'}]\n")
    folder.sync()
    assert list(book.schedules.list()) == []
    assert book.flows.get("etl").starts is None


def test_a_schedule_of_a_flow_that_somebody_deletes_is_made_again(
    folder: Folder, book: Book, clock: VirtualClock
) -> None:
    folder.write("etl.yaml", ETL)
    folder.sync()
    book.schedules.delete("etl")
    clock.advance(MINUTE)
    assert folder.sync() == [("schedule", "etl")]
    assert book.schedules.get("etl").watermark == clock.now
    assert folder.sync() == []


def test_a_flow_gets_its_schedule_once_that_of_somebody_else_is_gone(
    folder: Folder, book: Book
) -> None:
    book.schedules.create("etl", cron="0 2 * * *", target={"command": ["true"]})
    folder.write("etl.yaml", ETL)
    folder.sync()
    book.schedules.delete("etl")
    assert folder.sync() == [("schedule", "etl")]
    assert book.flows.problems() == []
    assert book.schedules.get("etl").created_by == "flows:flows"


def test_flows_of_a_directory_that_has_another_name_now_can_be_forgotten(
    tmp_path: Path, store: Store, book: Book, clock: VirtualClock
) -> None:
    folder = Folder(tmp_path, store)
    folder.write("etl.yaml", ETL)
    folder.sync()
    with pytest.raises(Conflict, match="start it without that directory first"):
        book.flows.forget("flows")
    clock.advance(2 * MINUTE)
    folder.path.rename(tmp_path / "jobs")
    jobs = Folder(tmp_path, store, name="jobs")  # the old name is no longer assigned to any node
    assert jobs.sync() == []
    (problem,) = book.flows.problems()
    assert problem["message"] == 'flow "etl" is already defined in flows/etl.yaml'
    assert "duebook flow forget flows" in problem["hint"]
    assert book.flows.forget("flows") == ["etl"]
    assert list(book.schedules.list()) == []
    assert jobs.sync() == [("add", "etl")]
    assert (book.flows.problems(), book.flows.get("etl").place) == ([], "jobs/etl.yaml")
    with pytest.raises(NotFound):
        book.flows.forget("flows")


def test_a_file_that_goes_to_another_directory_keeps_its_schedule(
    tmp_path: Path, store: Store, book: Book
) -> None:
    folder = Folder(tmp_path, store, "more")
    folder.write("etl.yaml", "name: etl\n" + ETL)
    folder.sync()
    id_ = book.schedules.get("etl").id
    moved = folder.path.parent / "more" / "etl.yaml"
    (folder.path / "etl.yaml").rename(moved)
    assert folder.sync() == [("move", "etl")]
    moved.write_text("name: etl\n" + ETL.replace("*/10", "*/5"))
    assert folder.sync() == [("change", "etl")]
    assert book.flows.problems() == []
    schedule = book.schedules.get("etl")
    assert (schedule.id, schedule.version) == (id_, 2)


def test_a_schedule_that_somebody_made_by_hand_stays_and_the_file_says_so(
    folder: Folder, book: Book, store: Store
) -> None:
    book.schedules.create("etl", cron="0 2 * * *", target={"command": ["true"]})
    folder.write("etl.yaml", ETL)
    assert folder.sync() == [("add", "etl")]
    assert book.schedules.get("etl").created_by == "a test"
    (problem,) = book.flows.problems()
    assert "it cannot be scheduled" in problem["message"]
    Folder(folder.path.parent, store).sync()  # as seen by another node, which starts later
    assert book.flows.problems() == [problem]
    (folder.path / "etl.yaml").unlink()
    folder.sync()
    assert book.schedules.get("etl").status == "active"


def test_of_two_nodes_one_looks_after_a_directory_and_the_other_follows(
    backend: Backend, tmp_path: Path, clock: VirtualClock
) -> None:
    first, second = backend.open(), backend.open()
    mine = Folder(tmp_path, first)
    assert mine.registry.hold(["flows"])[0]
    other = FlowRegistry(second, "default")
    assert other.hold(["flows"]) == (set(), 60)
    clock.advance(2 * MINUTE)
    assert other.hold(["flows"])[0]
    assert not mine.registry.hold(["flows"])[0]
    other.release()
    assert mine.registry.hold(["flows"])[0]


@pytest.mark.parametrize("is_buried", [False, True])
def test_a_directory_is_free_when_the_session_of_the_node_is_over_that_looked_after_it(
    backend: Backend, tmp_path: Path, clock: VirtualClock, is_buried: bool
) -> None:
    first, second = backend.open(), backend.open()
    mine, registry = Folder(tmp_path, first).registry, FlowRegistry(second, "default")
    other = FlowKeeper([tmp_path / "flows"], registry)
    mine.owned_by(begin(first, "node-1"))
    assert mine.hold(["flows"])[0] == {"flows"}
    clock.advance(LEASE / 2)
    other.owned_by(begin(second, "node-2"))
    assert other.step() == LEASE.total_seconds() / 2, "when it might be free"
    clock.advance(LEASE / 2)
    if is_buried:
        assert second.transact(lambda tx: tx.nodes.bury()) == ["node-1"]
    assert registry.hold(["flows"])[0] == {"flows"}
    assert mine.hold(["flows"])[0] == set()


def test_a_node_that_looks_after_a_directory_does_not_lead_for_that(
    folder: Folder, store: Store
) -> None:
    begin(store)
    folder.registry.owned_by("node-1")
    assert folder.registry.hold(["flows"])[0]
    (node,) = store.read(lambda tx: tx.nodes.list_nodes())
    assert not node.leads


def test_nodes_with_some_directories_in_common_look_after_each_directory(
    backend: Backend, tmp_path: Path, book: Book
) -> None:
    for name in ("one", "both", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / f"{name}.yaml").write_text(ETL)
    nodes = [
        FlowKeeper([tmp_path / name, tmp_path / "both"], FlowRegistry(backend.open(), "default"))
        for name in ("one", "two")
    ]

    def found() -> set[str]:
        for node in nodes:
            node.step()
        return {flow.name for flow in book.flows.list()}

    eventually(lambda: found() == {"one", "both", "two"})
    for node in nodes:
        node.close()


def test_a_node_that_looks_after_a_directory_again_begins_with_what_is_there(
    backend: Backend, tmp_path: Path, book: Book, clock: VirtualClock
) -> None:
    first, second = (Folder(tmp_path, backend.open()) for _ in range(2))
    first.write("etl.yaml", ETL)
    keeper = FlowKeeper([first.path], first.registry)
    eventually(lambda: keeper.step() and list(book.flows.list()))
    old = book.flows.get("etl").digest
    clock.advance(2 * MINUTE)  # it was stopped, or cut off
    assert second.registry.hold(["flows"])[0] == {"flows"}
    first.write("etl.yaml", "steps: [{name: work, comand: x}]")
    second.sync()
    assert book.flows.problems() != []
    first.write("etl.yaml", ETL.replace("work", "other"))
    assert second.sync() == [("change", "etl")]
    keeper._held_at = float("-inf")
    assert keeper.step() == RENEW
    second.registry.release()
    new = book.flows.get("etl").digest
    for _ in range(3):
        keeper.step()
        assert book.flows.get("etl").digest == new != old


def test_the_name_of_a_file_that_is_renamed_is_another_flow_unless_it_says_its_name(
    folder: Folder, book: Book
) -> None:
    folder.write("a.yaml", ETL)
    folder.write("b.yaml", "name: kept\n" + ETL)
    folder.sync()
    (folder.path / "a.yaml").rename(folder.path / "c.yaml")
    (folder.path / "b.yaml").rename(folder.path / "d.yaml")
    folder.sync()
    assert [flow.name for flow in book.flows.list()] == ["c", "kept"]
    assert book.flows.get("kept").place == "flows/d.yaml"
    assert sorted(schedule.name for schedule in book.schedules.list()) == ["c", "kept"]


def test_a_flow_waits_for_a_calendar_that_does_not_exist_and_then_follows_it(
    folder: Folder, book: Book
) -> None:
    folder.write("etl.yaml", ETL + "calendar: {except: weekends, roll: next}\n")
    folder.sync()
    (problem,) = book.flows.problems()
    assert (problem["line"], problem["column"], problem["key"]) == (5, 11, "calendar")
    assert 'calendar "weekends" does not exist; create it' in problem["message"]
    assert list(book.schedules.list()) == []
    book.calendars.save("weekends", weekdays="SAT,SUN")
    folder.sync()
    assert book.flows.problems() == []
    schedule = book.schedules.get("etl")
    assert schedule.spec is not None
    assert str(schedule.spec.calendar) == "except weekends, roll next"
    folder.write("etl.yaml", ETL + "calendar: {only: workdays}\n")
    folder.sync()
    assert book.schedules.get("etl").version == 1, "the last good definition stays"
    book.calendars.save("workdays", weekdays="MON-FRI")
    assert folder.sync() == [("schedule", "etl")]
    assert (book.flows.problems(), book.schedules.get("etl").version) == ([], 2)
    assert folder.sync() == []
    book.calendars.save("workdays", weekdays="MON-THU")
    assert (folder.sync(), book.schedules.get("etl").version) == ([], 3)


def test_a_node_serves_the_queues_that_its_flows_name(tmp_path: Path, store: Store) -> None:
    first = Folder(tmp_path, store)
    first.write("etl.yaml", "queue: batch\nsteps: [a]")
    first.write("plain.yaml", "steps: [a]")
    first.sync()
    served = ServedQueues(store, ["default"], lambda: None)
    served.session_id = begin(store, queues=("default",))
    other = FlowKeeper([first.path], FlowRegistry(store, "default"))
    other.start(lambda: None, served.add)
    other.step()  # though another node reads the directory
    other.close()
    assert list(served) == ["default", "batch"]
    (node,) = store.read(lambda tx: tx.nodes.list_nodes())
    assert node.queues == ("default", "batch")


def test_a_queue_of_an_edited_file_is_served_and_one_of_a_broken_file_stays(
    tmp_path: Path, store: Store
) -> None:
    folder = Folder(tmp_path, store)
    folder.write("etl.yaml", "queue: batch\nsteps: [a]")
    folder.sync()
    folder.write("etl.yaml", "queue: batch\nstepz: [a]")
    folder.write("new.yaml", "queue: other\nsteps: [a]")
    folder.sync()
    assert folder.queues() == {"batch", "other"}


def test_a_node_without_a_worker_serves_no_queue(store: Store) -> None:
    served = ServedQueues(store, (), lambda: None)
    served.add({"batch"}, "a flow uses it")
    assert not served
