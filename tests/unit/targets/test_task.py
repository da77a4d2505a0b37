"""Tasks: how they are declared and called, and what their ends mean."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn

import pytest

from duebook import Cancelled, Context, Output
from duebook.errors import Invalid, NotFound
from duebook.model.enqueued import enqueued_spec
from duebook.model.run import Claim, Outcome, Progress, Token
from duebook.model.target import TaskTarget
from duebook.targets.context import TaskStop
from duebook.targets.outcomes import MOST_OUTPUT
from duebook.targets.task import Tasks, perform_task
from duebook.targets.templates import has_templates
from tests.support.builders import BEGIN
from tests.support.targets import RUN, Told

if TYPE_CHECKING:
    from collections.abc import Callable


def call(
    function: Callable[..., Any],
    payload: dict[str, Any] | None = None,
    stop: TaskStop | None = None,
    told: Told | None = None,
) -> Outcome:
    task = Tasks().add(function, "digest")
    stop, told = stop or TaskStop(), told or Told()
    run = RUN._replace(payload=payload or {})
    claim = Claim(run, Token("r", 2, "n"), enqueued_spec("digest", None), "anna")
    return perform_task(task, claim, stop, told)


def asked(reason: str) -> TaskStop:
    stop = TaskStop()
    stop.set(reason)
    return stop


# ------------------------------------------------------------ declaring


def test_a_name_belongs_to_one_function() -> None:
    tasks = Tasks()
    tasks.add(call, "digest")
    tasks.add(call, "digest")  # a module that is imported again
    with pytest.raises(
        Invalid, match=r"declared both by tests\.unit\.targets\.test_task\.call and by"
    ):
        tasks.add(asked, "digest")


def test_what_cannot_be_a_task_is_refused() -> None:
    def inner() -> None: ...

    for wrong in ("digest", partial(call), Told):
        with pytest.raises(Invalid, match="is not a function"):
            Tasks().add(wrong)  # type: ignore[arg-type]
    with pytest.raises(Invalid, match="is not a name"):
        Tasks().add(call, "no name")
    with pytest.raises(Invalid, match='isolation "vm" is not one of thread, process'):
        Tasks().add(call, isolation="vm")  # type: ignore[arg-type]
    with pytest.raises(Invalid, match="move it to its module"):
        Tasks().add(inner, isolation="process")


def test_a_task_that_is_not_known_is_not_found() -> None:
    tasks = Tasks()
    tasks.add(call)
    with pytest.raises(NotFound, match="the declared tasks are call"):
        tasks.get("digest")


# ------------------------------------------------------------ ends


def test_what_a_function_returns_is_the_output() -> None:
    assert call(lambda audience: {"to": audience}, {"audience": "all"}).output == '{"to": "all"}'
    assert call(lambda: None) == Outcome("succeeded")
    assert call(lambda: Output(ref="s3://b", value=3)) == Outcome(
        "succeeded", output="3", output_ref="s3://b"
    )


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (object(), "the output is not valid JSON: Object of type object is not JSON serializable"),
        (
            float("nan"),
            "the output is not valid JSON: Out of range float values are not JSON compliant",
        ),
        ("x" * MOST_OUTPUT, "at most 65,536 are allowed: store it, and return Output(ref=…)"),
        ("é" * (MOST_OUTPUT // 2), "the output has 65,538 bytes as JSON"),
        ("half of a sign: \ud83d", "the output is not valid JSON: 'utf-8' codec can't encode"),
        (Output(ref=b"x"), "output ref b'x' is not a short string"),  # type: ignore[arg-type]
    ],
)
def test_an_output_that_cannot_be_kept_fails_the_run(value: object, told: str) -> None:
    outcome = call(lambda: value)
    assert (outcome.status, outcome.reason) == ("failed", "output")
    assert told in (outcome.error or "")


def test_what_counts_of_an_output_are_its_bytes() -> None:
    text = "é" * (MOST_OUTPUT // 2 - 1)
    assert call(lambda: text).output == f'"{text}"'


@pytest.mark.filterwarnings("error")
def test_a_function_that_hides_its_coroutine_fails_and_says_what_helps() -> None:
    async def work() -> None: ...

    def hides() -> Any:
        return work()

    outcome = call(hides)
    told = "it returned a coroutine that was never awaited; declare the task with async def"
    assert (outcome.reason, outcome.error) == ("output", told)


def test_an_exception_fails_the_run_and_its_traceback_is_logged() -> None:
    def broken() -> None:
        raise ConnectionResetError("gone")

    told = Told()
    outcome = call(broken, told=told)
    assert (outcome.status, outcome.reason) == ("failed", "error")
    assert outcome.error == "ConnectionResetError: gone"
    assert {"ConnectionResetError", "ConnectionError", "OSError"} <= set(outcome.kinds)
    ((stream, text),) = told.lines
    assert stream == "stderr"
    assert text.endswith("ConnectionResetError: gone")
    assert "in broken" in text
    assert "perform_task" not in text


def test_an_exception_without_a_message_is_shown_by_its_name() -> None:
    class Odd(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    def broken() -> None:
        raise Odd

    assert call(broken).error == "Odd: the message cannot be shown"


@pytest.mark.parametrize(("code", "status"), [(0, "succeeded"), (3, "failed"), (None, "succeeded")])
def test_an_exit_is_an_exit_code(code: int | None, status: str) -> None:
    def leave() -> NoReturn:
        raise SystemExit(code)

    outcome = call(leave)
    assert (outcome.status, outcome.exit_code) == (status, code or None)


@pytest.mark.parametrize(("code", "kept"), [(2**40, 2**31 - 1), (-(10**400), 1 - 2**31), (True, 1)])
def test_an_exit_code_is_kept_within_32_bits(code: int, kept: int) -> None:
    def leave() -> None:
        raise SystemExit(code)

    assert call(leave) == Outcome("failed", "exit_code", f"exit code {kept}", kept)


def test_a_group_is_also_what_all_in_it_are() -> None:
    def broken() -> None:
        inner = ExceptionGroup("inner", [BrokenPipeError(), ConnectionResetError()])
        raise ExceptionGroup("outer", [inner, ConnectionRefusedError()])

    kinds = call(broken).kinds
    assert {"ExceptionGroup", "ConnectionError", "OSError"} <= set(kinds)
    assert not {"BrokenPipeError", "ConnectionRefusedError"} & set(kinds)
    assert len(kinds) == len(set(kinds))


def test_an_exit_with_a_message_says_it() -> None:
    def leave() -> None:
        sys.exit("no such file")

    assert call(leave) == Outcome("failed", "exit_code", "exit code 1: no such file", 1)


def test_a_payload_that_does_not_fit_fails_the_run() -> None:
    def takes(audience: str) -> None: ...

    outcome = call(takes, {})
    assert (outcome.status, outcome.reason) == ("failed", "payload")


# ------------------------------------------------------------ being asked to end


def test_a_task_that_noticed_is_cancelled() -> None:
    assert call(lambda ctx: ctx.cancelled, stop=asked("cancelled")) == Outcome(
        "cancelled", "cancelled"
    )


def test_a_heartbeat_of_a_run_that_shall_end_raises() -> None:
    def beats(ctx: Context) -> None:
        ctx.heartbeat()

    def goes_on(ctx: Context) -> None:
        with pytest.raises(Cancelled, match="asked to end: shutdown"):
            ctx.progress(0.5)

    assert call(beats, stop=asked("shutdown")) == Outcome("cancelled", "shutdown")
    assert call(goes_on, stop=asked("shutdown")) == Outcome("cancelled", "shutdown")


def test_a_task_that_noticed_its_timeout_has_failed() -> None:
    outcome = call(lambda ctx: ctx.cancelled, stop=asked("timeout"))
    assert (outcome.status, outcome.reason) == ("failed", "timeout")


def test_a_task_that_never_noticed_has_done_its_work() -> None:
    assert call(lambda: 1, stop=asked("cancelled")) == Outcome("succeeded", output="1")


def test_only_the_first_reason_counts_and_is_told_once() -> None:
    stop, told = TaskStop(), list[str]()
    stop.when_set(lambda: told.append("heard"))
    stop.set("timeout")
    stop.set("cancelled")
    assert (stop.reason, told) == ("timeout", ["heard"])
    asked("lost").when_set(lambda: told.append("late"))
    assert told == ["heard", "late"]


# ------------------------------------------------------------ the context


def test_the_context_tells_what_the_run_is_about() -> None:
    seen: list[Context] = []
    call(lambda ctx, **_: seen.append(ctx), {"audience": "staff"})
    (ctx,) = seen
    assert (ctx.schedule.id, ctx.schedule.name, ctx.schedule.due_at) == ("s", "digest", BEGIN)
    assert (ctx.namespace, ctx.user, ctx.attempt) == ("default", "anna", 2)
    assert ctx.payload == {"audience": "staff"}
    assert (ctx.now - BEGIN).total_seconds() >= 0
    assert not ctx.cancelled


def test_what_a_task_logs_is_told_with_its_level() -> None:
    told = Told()

    def logs(ctx: Context) -> None:
        ctx.log.info("%d rows", 3)
        ctx.log.warning("careful")
        try:
            int("x")
        except ValueError:
            ctx.log.exception("odd")

    call(logs, told=told)
    assert told.lines[:2] == [("stdout", "3 rows"), ("stderr", "warning: careful")]
    assert told.lines[2][1].startswith("error: odd\nTraceback")


def test_progress_is_told_and_checked() -> None:
    told = Told()

    def goes_on(ctx: Context) -> None:
        ctx.heartbeat()
        ctx.progress(0.4, "loading")
        for wrong in (-0.1, 1.1, "half", True):
            with pytest.raises(Invalid, match="progress"):
                ctx.progress(wrong)  # type: ignore[arg-type]

    assert call(goes_on, told=told).status == "succeeded"
    assert told.progresses == [Progress(), Progress(0.4, "loading")]


def test_a_success_can_be_settled_in_the_task_s_own_transaction() -> None:
    connection: list[Outcome] = []

    def settles(ctx: Context) -> None:
        ctx.settle_in(connection, {"rows": 3})
        with pytest.raises(Invalid, match="not valid JSON"):
            ctx.settle_in(connection, object())

    assert call(settles).reason == "uncommitted", "the books say whether it was committed"
    assert connection == [Outcome("succeeded", output='{"rows": 3}')]


# ------------------------------------------------------------ templates


def test_a_payload_of_the_definition_may_have_templates() -> None:
    seen: list[str] = []

    def keeps(day: str) -> None:
        seen.append(day)

    task = Tasks().add(keeps, "digest")
    for payload, told in (
        ({"day": "{{ due_at | time }}"}, None),
        ({"day": "{{ due_at.nothing }}"}, "template"),
    ):
        spec = replace(enqueued_spec("digest", None), payload=payload)
        claim = Claim(RUN, Token("r", 2, "n"), spec)
        assert perform_task(task, claim, TaskStop(), Told()).reason == told
    assert seen == ["2026-01-05"]


def test_of_a_template_only_the_name_is_checked_beforehand() -> None:
    def takes(rows: int) -> None: ...

    tasks = Tasks()
    tasks.add(takes, "digest")
    target = TaskTarget("digest")
    tasks.check(target, {"rows": "{{ due_at }}"}, has_templates)
    with pytest.raises(Invalid, match='payload has no "rows"'):
        tasks.check(target, {"row": "{{ due_at }}"}, has_templates)
    with pytest.raises(Invalid, match="is not of type int"):
        tasks.check(target, {"rows": "{{ due_at }}"})


def test_what_a_task_publishes_is_part_of_its_success() -> None:
    def digest(ctx: Context) -> int:
        ctx.publish("orders", {"n": 1}, key="k", type="placed")
        ctx.publish("orders")
        return 3

    outcome = call(digest)
    assert outcome.output == "3"
    first, second = outcome.events
    assert (first.topic, first.type, first.key, first.data) == ("orders", "placed", "k", '{"n": 1}')
    assert json.loads(first.meta)["run_id"] == json.loads(second.meta)["run_id"]
    assert (second.type, second.data) == ("orders", "null")


def test_what_a_task_published_that_fails_is_forgotten() -> None:
    def digest(ctx: Context) -> None:
        ctx.publish("orders", 1)
        raise ValueError

    assert call(digest).events == ()


@pytest.mark.parametrize("topic", ["", "a b", "duebook.runs"])
def test_a_task_that_publishes_what_is_no_event_fails(topic: str) -> None:
    outcome = call(lambda ctx: ctx.publish(topic, 1))
    assert outcome.status == "failed"
    assert "topic" in (outcome.error or "")


def test_nothing_is_published_after_the_end() -> None:
    def digest(ctx: Context) -> None:
        ctx.publish("orders", 1)
        ctx.settle_in([])
        with pytest.raises(Invalid, match="before settle_in"):
            ctx.publish("orders", 2)

    told = Told()
    call(digest, told=told)
    assert len(told.published) == 1


def test_another_process_knows_the_names_of_tasks_and_what_they_take() -> None:
    def digest(ctx: Context, rows: int) -> None: ...

    here = Tasks()
    here.add(digest)
    there = Tasks.load(json.loads(json.dumps(here.to_json())))
    assert there.names == ("digest",)
    there.check(TaskTarget("digest"), {"rows": 1})
    with pytest.raises(Invalid, match='payload rows "1" is not of type int'):
        there.check(TaskTarget("digest"), {"rows": "1"})
    with pytest.raises(NotFound, match="declared in another process"):
        there.get("digest").function()
