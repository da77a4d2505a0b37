"""Tasks of each kind on real nodes: every day, when they are asked to end, and in odd places."""

from __future__ import annotations

import os
import signal
import sys
import threading
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from duebook import Duebook
from duebook.book import Book
from duebook.errors import Conflict
from tests.support.node_checks import wait_for_success
from tests.support.nodes import (
    LEASE,
    ROOT,
    NodeProcess,
    World,
    check,
    cmdline,
    world,
)
from tests.support.waiting import PATIENCE, eventually

if TYPE_CHECKING:
    from duebook.model.run import Run

__all__ = ["world"]  # the fixture

KINDS = ["thread", "loop", "process"]
APP = "tests.integration.program:book"
PROGRAM = Path(__file__).with_name("program.py")


def add(world: World, task: str, **definition: Any) -> None:
    definition.setdefault("trigger", {"cron": "0 0 29 2 *"})
    world.book.schedules.create(task, target={"task": task}, **definition)


def run(world: World, task: str, **definition: Any) -> str:
    add(world, task, **definition)
    return world.trigger(task)


def worker(world: World, **options: float) -> NodeProcess:
    """A node with the tasks of the program."""
    return world.node(None, app=APP, **options)


def children(node: NodeProcess) -> list[int]:
    return [pid for pid in node.family() if b"task_child" in cmdline(pid)]


def output(world: World, run_id: str) -> Any:
    return world.book.runs.get(run_id).output


def printed(world: World, run_id: str) -> list[str]:
    return [line.text for _, line in world.book.runs.log(run_id)]


# ------------------------------------------------------------ events


def test_what_a_task_publishes_is_on_the_log_when_it_has_succeeded(world: World) -> None:
    worker(world)
    for number, kind in enumerate(KINDS):
        run_id = run(world, f"publish_in_{kind}")
        world.wait_for(run_id, "succeeded")
        events = {event.meta["run_id"]: event for event in world.book.events.list("told")}
        assert len(events) == number + 1
        event = events[run_id]
        assert (event.data, event.aggregate, event.version) == ({"by": kind}, f"run:{run_id}", 1)


# ------------------------------------------------------------ everyday


def test_a_worker_runs_the_tasks_of_its_program(world: World) -> None:
    node = world._begin(
        world.cli_argv("worker", APP, "--slots", "3"), {"PYTHONPATH": str(ROOT)}
    ).wait_ready()
    run_id = run(world, "quick", payload={"answer": 7})
    world.wait_for(run_id, "succeeded")
    assert output(world, run_id) == 7
    assert "tasks: aside, chat_in_loop, " in node.output
    assert (
        "this node does not serve queue reports; runs of these tasks will wait in it: report\n"
    ) in node.log
    assert world.book.schedules.get("quick").problem is None
    assert node.end() == 0
    check(world)


@pytest.mark.parametrize("kind", KINDS)
def test_a_task_knows_its_interval_and_who_asked(world: World, kind: str) -> None:
    worker(world)
    name = f"whose_in_{kind}"
    schedules = Book(world.book.store, by="cli:ann").schedules
    schedules.create(name, trigger={"every": "1s"}, target={"task": name}, catchup="skip")
    about = {"user": "cli:ann", "namespace": "default"}

    def ended() -> list[Run]:
        return world.book.runs.list(name, status="succeeded", origin="schedule")

    of_due_time = eventually(ended)[0]
    due_at = of_due_time.due_at
    assert due_at is not None
    interval = [(due_at - timedelta(seconds=1)).isoformat(), due_at.isoformat()]
    told = output(world, of_due_time.id)
    assert told == about | {"interval": interval, "requested_by": None}
    schedules.pause(name)
    by_hand = Book(world.book.store, by="token:deploy").schedules.trigger(name).id
    world.wait_for(by_hand, "succeeded")
    told = output(world, by_hand)
    assert told == about | {"interval": None, "requested_by": "token:deploy"}


def test_what_tasks_print_is_kept_whatever_their_kind(world: World) -> None:
    argv = world.cli_argv("worker", APP)
    node = world._begin(argv, {"PYTHONPATH": str(ROOT)}).wait_ready()
    for kind in KINDS:
        run_id = run(world, f"chat_in_{kind}")
        world.wait_for(run_id, "succeeded")
        said = {(line.stream, line.text.split()[-1]) for _, line in world.book.runs.log(run_id)}
        assert said == {("stdout", "printed"), ("stderr", "logged")}, kind
    assert node.end() == 0
    assert node.output.count("printed") == node.log.count("logged") == 2, "not of the process"


def test_an_error_does_not_steer_the_terminal_of_its_node(world: World) -> None:
    argv = world.cli_argv("worker", APP)
    node = world._begin(argv, {"PYTHONPATH": str(ROOT)}).wait_ready()
    world.wait_for(run(world, "steer"), "failed")
    eventually(lambda: "steer failed (ValueError: ?[2Jred?)" in node.log)
    assert "\x1b" not in node.log


def test_a_program_s_own_node_keeps_prints_only_when_it_is_asked_to(tmp_path: Path) -> None:
    with Duebook(str(tmp_path / "books.db")) as book:
        book.task(chat)
        for keep_prints, kept in ((False, []), (True, ["hello"])):
            with book.running(slots=1, keep_prints=keep_prints):
                run_id = book.enqueue(chat).id
                eventually(partial(has_succeeded, book, run_id))
            assert [line.text for _, line in book.runs.log(run_id)] == kept


def test_a_book_is_one_node_at_a_time(tmp_path: Path) -> None:
    with Duebook(str(tmp_path / "books.db")) as book:
        with book.running(slots=1):
            with pytest.raises(Conflict, match="is already running as a node"):
                book.run(slots=1)
            with (
                pytest.raises(Conflict, match="is already running as a node"),
                book.running(slots=1),
            ):
                pass
        with book.running(slots=1):
            pass


def chat() -> None:
    print("hello")  # noqa: T201


def has_succeeded(book: Duebook, run_id: str) -> bool:
    return book.runs.get(run_id).status == "succeeded"


def test_a_program_is_its_own_node(world: World) -> None:
    node = world._begin(
        [sys.executable, str(PROGRAM)], {"PROGRAM_BOOKS": world.place, "PYTHONPATH": str(ROOT)}
    ).wait_ready()
    first, second = run(world, "quick"), run(world, "aside", payload={"number": 3})
    world.wait_for(first, "succeeded")
    world.wait_for(second, "succeeded")
    assert output(world, second)["number"] == 3
    assert node.end(signal.SIGTERM) == 0
    assert "ended" in node.output


def test_a_program_without_a_guard_does_not_multiply(world: World) -> None:
    text = PROGRAM.read_text("utf-8").replace('if __name__ == "__main__":', "if True:")
    script = world.folder / "script.py"
    script.write_text(text)
    env = {"PROGRAM_BOOKS": world.place, "PYTHONPATH": str(ROOT)}
    world._begin([sys.executable, str(script)], env).wait_ready()
    run_id = run(world, "aside", payload={"number": 3})
    world.wait_for(run_id, "failed")
    ended = world.book.runs.get(run_id)
    assert ended.reason == "import"
    assert 'put the call below `if __name__ == "__main__":`' in str(ended.error)
    assert len(world.query("SELECT id FROM node_sessions")) == 1


def test_a_node_without_a_program_leaves_tasks_alone(world: World) -> None:
    waits = run(world, "quick")
    world.node()
    world.add("command", "true")
    world.wait_for(world.trigger("command"), "succeeded")
    assert world.status(waits) == "queued"
    assert world.book.problems() == [
        'runs are waiting for task "quick", which no live worker knows'
    ]
    worker(world)
    world.wait_for(waits, "succeeded")
    assert world.book.problems() == []


def test_a_process_of_a_task_is_kept_for_the_next_run(world: World) -> None:
    add(world, "aside", payload={"number": 1})
    node = worker(world)
    runs = []
    for _ in range(2):
        runs.append(world.trigger("aside"))
        world.wait_for(runs[-1], "succeeded")
    first, second = (output(world, run_id)["pid"] for run_id in runs)
    assert first == second
    assert [set(printed(world, run_id)) for run_id in runs] == [{"number 1", "printed"}] * 2
    assert children(node)
    node.end()
    assert not node.family()


def test_a_process_that_a_task_has_left_untidy_is_not_kept(world: World) -> None:
    node = worker(world)
    add(world, "untidy")
    for what in ("child", "pipes", "streams"):
        run_id = world.book.schedules.trigger("untidy", payload={"what": what}).id
        world.wait_for(run_id, "succeeded")
        left = output(world, run_id)
        eventually(partial(is_gone, node, left))
        other = world.book.schedules.trigger("untidy", payload={"what": "nothing"}).id
        world.wait_for(other, "succeeded")
        assert output(world, other) != left
        assert printed(world, other) == ["printed"]
        assert output(world, other) in children(node)


def is_gone(node: NodeProcess, child: int) -> bool:
    return child not in children(node) and not sleepers(node)


def sleepers(node: NodeProcess) -> list[int]:
    return [pid for pid in node.family() if b"sleep" in cmdline(pid)]


def test_the_process_of_a_task_uses_the_books_of_its_node(world: World) -> None:
    argv = world.cli_argv("--namespace", "team", "worker", APP)
    elsewhere = {"PYTHONPATH": str(ROOT), "PROGRAM_BOOKS": str(world.folder / "other.db")}
    world._begin(argv, elsewhere).wait_ready()
    team = Book(world.book.store, "team")
    run_id = team.enqueue("enqueues").id
    wait_for_success(team, run_id)
    assert team.runs.get(team.runs.get(run_id).output).task == "quick"
    assert not (world.folder / "other.db").exists()


def test_a_task_that_crashes_its_process_fails_alone(world: World) -> None:
    node = worker(world)
    run_id = run(world, "crash")
    world.wait_for(run_id, "failed")
    ended = world.book.runs.get(run_id)
    assert (ended.reason, ended.error, ended.exit_code) == ("signal", "ended by SIGABRT", 134)
    assert "about to crash" in printed(world, run_id)
    assert node.process.poll() is None


# ------------------------------------------------------------ being asked to end


def test_a_task_can_be_cancelled(world: World) -> None:
    node = worker(world)
    for kind in KINDS:
        run_id = run(world, kind)
        world.wait_evidence("start", kind)
        assert world.book.runs.cancel(run_id) == "requested"
        world.wait_for(run_id, "cancelled")
        if kind == "process":  # it hears nothing, and is killed
            assert not children(node)
        else:
            world.wait_evidence("cancelled", kind)
    assert not world.evidence("end")


def test_a_task_ends_at_its_timeout(world: World) -> None:
    worker(world)
    for run_id in [run(world, kind, timeout="1s") for kind in KINDS]:
        world.wait_for(run_id, "failed")
        assert world.book.runs.get(run_id).reason == "timeout"
    assert not world.evidence("end")


def test_a_thread_that_hears_nothing_is_written_off(world: World) -> None:
    node = worker(world, slots=2)
    run_id = run(world, "deaf", timeout="1s")
    world.wait_for(run_id, "failed")
    assert "its slot is written off" in node.log
    other = run(world, "quick")
    world.wait_for(other, "succeeded")
    world.go.touch()
    eventually(lambda: "has finished" in node.log)
    assert world.book.runs.get(run_id).reason == "timeout"


def test_a_node_without_any_slot_left_ends(world: World) -> None:
    node = worker(world, slots=1)
    world.wait_for(run(world, "deaf", timeout="1s"), "failed")
    assert node.wait_end() != 0
    assert "every slot is held by a task that does not stop" in node.log


# ------------------------------------------------------------ shutdown


def test_a_worker_that_ends_hands_long_tasks_back(world: World) -> None:
    node = worker(world, shutdown_grace=0.2)
    runs = [run(world, kind) for kind in KINDS]
    for kind in KINDS:
        world.wait_evidence("start", kind)
    assert node.end() == 0
    assert not node.family()
    assert [world.status(run_id) for run_id in runs] == ["queued"] * len(runs)
    world.go.touch()
    worker(world)
    for run_id in runs:
        world.wait_for(run_id, "succeeded")
        assert world.book.runs.get(run_id).losses == 0
    check(world)


def test_a_worker_with_a_task_that_hears_nothing_still_ends(world: World) -> None:
    node = worker(world, shutdown_grace=0.2)
    run_id = run(world, "deaf")
    world.wait_evidence("start", "deaf")
    assert node.end() == 0
    assert world.status(run_id) == "queued"


# ------------------------------------------------------------ faults


def test_an_event_loop_that_is_blocked_costs_no_lease(world: World) -> None:
    lease = 3 * LEASE
    node = worker(world, lease=lease)
    jammed, waits = run(world, "jam"), run(world, "loop")
    world.wait_evidence("start", "jam")
    lived = "SELECT max(seen_at) - min(started_at) FROM node_sessions WHERE ended_at IS NULL"
    eventually(lambda: world.query(lived)[0][0] > lease * 1_000_000)
    world.go.touch()
    world.wait_for(jammed, "succeeded")
    world.wait_for(waits, "succeeded")
    assert [world.book.runs.get(id_).attempt for id_ in (jammed, waits)] == [1, 1]
    assert len(world.sessions(node)) == 1


def test_a_node_in_a_thread_handles_no_signals_and_can_be_stopped(tmp_path: Path) -> None:
    book = Duebook(str(tmp_path / "books.db"))
    book.task(answer)
    handler = signal.getsignal(signal.SIGTERM)
    thread = threading.Thread(target=book.run, kwargs={"slots": 2})
    thread.start()
    try:
        run_id = book.enqueue(answer).id
        wait_for_success(book, run_id)
        assert book.runs.get(run_id).output == 42
        assert signal.getsignal(signal.SIGTERM) is handler
    finally:
        book.stop()
        thread.join(PATIENCE)
    assert not thread.is_alive()
    book.close()


def answer() -> int:
    return 42


def test_the_process_of_a_task_dies_with_its_node(world: World) -> None:
    node = worker(world)
    run(world, "process")
    (start,) = world.wait_evidence("start", "process")
    assert start.pid in children(node)
    os.kill(node.pid, signal.SIGKILL)
    node.process.wait()
    eventually(lambda: not node.family())


def test_the_program_of_the_readme_runs_as_it_is_printed(world: World) -> None:
    text = (ROOT / "README.md").read_text("utf-8")
    (program,) = [
        block.split("```")[0] for block in text.split("```python\n") if "@book.task" in block
    ]
    (world.folder / "digest.py").write_text(program)
    node = world.up("--app", "digest:book").wait_ready()
    assert "schedule email_digest created" in node.log
    run_id = world.trigger("email_digest")
    world.wait_for(run_id, "succeeded")
    assert output(world, run_id) == {"sent": 3}
    assert printed(world, run_id) == ["to all"]
