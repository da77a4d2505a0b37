"""`mail_on` sends mails about how a run ended, as Dagu does, and no key is ignored silently."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from duebook.flows.advance import advance
from duebook.flows.flow_values import Values
from duebook.flows.reconcile import notes_about
from duebook.flows.render import render_step
from duebook.model.flow_run import Standing, StepState
from tests.unit.flows.dagu_helpers import flow_of, problems_of

BEGUN = datetime(2026, 1, 1, tzinfo=UTC)
MAILS = """
mailOn: {failure: true, success: true}
errorMail: {from: a@example.com, to: [b@example.com], prefix: "[ERROR]"}
infoMail: {from: a@example.com, to: c@example.com}
smtp: {host: localhost, port: "25"}
steps: [ls]
"""


def test_a_mail_is_sent_by_a_step_of_its_own() -> None:
    handlers = dict(flow_of(MAILS).handlers)
    assert list(handlers) == ["success_mail", "failure_mail"]
    assert handlers["failure_mail"].name == "mail_on.failure"
    sent = handlers["failure_mail"].payload
    assert (sent["from"], sent["to"]) == ("a@example.com", ["b@example.com"])
    assert sent["subject"] == "[ERROR] f failed"
    assert sent["message"].startswith("The run {{")
    assert sent["smtp"]["host"] == "localhost"


@pytest.mark.parametrize(
    ("status", "subject"), [("succeeded", "f succeeded"), ("partial", "f succeeded in part")]
)
def test_the_mail_of_a_partial_run_says_so(status: str, subject: str) -> None:
    flow = flow_of(MAILS)
    values = Values(facts={"run": {"id": "r1"}}, status=status)
    sent = render_step(flow, dict(flow.handlers)["success_mail"], values, {}).payload
    told = subject.removeprefix("f ")
    assert sent["subject"] == subject
    assert sent["message"] == f"The run r1 of f {told}.\n\nduebook logs r1\n"


@pytest.mark.parametrize(
    ("ends", "begun"),
    [
        ("failed", ["handler_on.failure", "handler_on.exit", "mail_on.failure"]),
        ("succeeded", ["handler_on.exit", "mail_on.success"]),
        ("cancelled", ["handler_on.exit"]),
    ],
)
def test_a_mail_is_sent_when_the_handlers_have_ended(ends: str, begun: list[str]) -> None:
    flow = flow_of(MAILS + "handler_on: {failure: ls, exit: ls}\n")
    reason = "flow_cancelled" if ends == "cancelled" else None
    states = {"step-1": StepState(ends, reason)}  # type: ignore[arg-type]
    found: list[str] = []
    while (start := advance(flow, Standing(BEGUN, states), BEGUN).start) and len(found) < 5:
        found += start
        states |= {name: StepState("succeeded") for name in start}
    assert found == begun


def test_a_mail_says_how_the_handlers_left_the_flow() -> None:
    flow = flow_of(MAILS + "handler_on: {success: ls, exit: ls}\n")
    states = {"step-1": StepState("succeeded")}
    found: list[str] = []
    while (step := advance(flow, Standing(BEGUN, states), BEGUN)).end is None:
        found += step.start
        ends = {"handler_on.success": StepState("failed", exit_code=1)}
        states |= {name: ends.get(name, StepState("succeeded")) for name in step.start}
        assert len(found) < 5
    assert found == ["handler_on.success", "handler_on.exit", "mail_on.failure"]
    assert (step.end.status, step.end.failed) == ("failed", ("handler_on.success",))


def test_mails_that_are_not_asked_for_are_not_sent() -> None:
    flow = flow_of(MAILS.replace("true", "false"))
    assert flow.handlers == ()
    assert flow_of(MAILS.replace("mailOn", "# mailOn")).handlers == ()


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            "mail_on: {failure: true}\nsteps: [ls]\n",
            "f.yaml:1:10: mail_on.failure has no recipients; add `error_mail` with `to`",
        ),
        (
            (
                "params: {WHO: a@b.de}\nmail_on: {failure: true}\n"
                "error_mail: {to: '${WHO}'}\nsteps: [ls]\n"
            ),
            "f.yaml:3:13: ",
        ),
        (
            "mail_on: {wait: true}\nsteps: [ls]\n",
            "f.yaml:1:11: key `wait` is not supported; send mail from a step or a handler",
        ),
    ],
)
def test_what_cannot_be_sent_is_refused_at_its_line(text: str, told: str) -> None:
    (found,) = problems_of(text)
    assert found.startswith(told)


def test_what_has_no_effect_is_said() -> None:
    flow = flow_of(
        MAILS.replace("to: c@", "attachLogs: true, to: c@") + "logDir: /x\nlogOutput: merged\n"
    )
    assert notes_about([flow], {"f"}) == [
        "the mail of info_mail has no logs attached, but a command that prints them",
        "log_dir has no effect: the output of a step is kept with its run",
        "log_output has no effect: the output of a step is kept with its run",
    ]
