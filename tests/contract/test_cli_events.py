"""Events on the command line: due times that write them, and the log."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.contract.conftest import Cli

ADD = ("add", "orders", "--every", "1h", "--event", "orders")


def test_a_schedule_that_writes_events_is_added_and_changed(cli: Cli) -> None:
    data = ("--event-type", "due", "--event-key", "{{ due_at }}", "--event-data", '{"n": 1}')
    added = cli.json(*ADD, *data)
    event = {"topic": "orders", "type": "due", "key": "{{ due_at }}", "data": {"n": 1}}
    assert added["target"] == {"event": event}
    assert "event orders due" in cli.ok("show", "orders")
    cli.ok("update", "orders", "--event-data", '{"n": 2}')
    assert cli.json("show", "orders")["target"] == {"event": event | {"data": {"n": 2}}}
    cli.ok("update", "orders", "--event", "other")
    assert cli.json("show", "orders")["target"] == {"event": {"topic": "other"}}


def test_a_run_by_hand_is_an_event_at_once(cli: Cli) -> None:
    cli.ok(*ADD, "--event-data", '{"n": 1}')
    assert "succeeded" in cli.ok("run", "orders", "--wait")
    (event,) = cli.json("events", "tail")
    assert (event["topic"], event["key"], event["data"]) == ("orders", "orders", {"n": 1})
    assert event["meta"]["origin"] == "manual"
    assert ' orders orders orders {"n": 1}' in cli.ok("events", "tail", "orders")


def test_the_log_is_shown_from_a_place_on(cli: Cli) -> None:
    cli.ok(*ADD)
    for _ in range(3):
        cli.ok("run", "orders")
    first, second, third = cli.json("events", "tail")
    assert cli.json("events", "tail", "--after", str(first["position"])) == [second, third]
    assert cli.json("events", "tail", "--since", "2020-01-01T00:00:00Z", "-n", "2") == [
        first,
        second,
    ]
    assert cli.json("events", "tail", "-n", "1") == [third]
    assert cli.json("events", "tail", "nothing") == []
    assert "no events" in cli.ok("events", "tail", "nothing")


def test_what_does_not_go_together_is_refused(cli: Cli) -> None:
    for words, told in (
        ((*ADD, "--task", "digest"), "--event TOPIC"),
        (("add", "job", "--every", "1h", "--event-key", "k", "--", "true"), "goes with --event"),
        ((*ADD, "--event-data", "[1"), "no JSON"),
        (("add", "job", "--every", "1h", "--event", "duebook.runs"), "own"),
        (("add", "job", "--every", "1h", "--event", "t", "--event-key", "{{ nobody }}"), "nobody"),
    ):
        result = cli(*words)
        assert result.exit_code == 2, result.output
        assert told in result.output
