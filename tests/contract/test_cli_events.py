"""Events on the command line: due times that write them, and the log."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from duebook import Duebook

if TYPE_CHECKING:
    from tests.support.cli import Cli

ANYWHERE = True
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


def test_the_data_of_an_event_is_any_json(cli: Cli) -> None:
    cli.ok(*ADD)
    for data in ([1, "x"], "text", 5, False, {"n": 1}):
        cli.ok("update", "orders", "--event-data", json.dumps(data))
        assert cli.json("show", "orders")["target"]["event"]["data"] == data
    result = cli("update", "orders", "--event-data", "[NaN]")
    assert (result.exit_code, "not valid JSON" in result.output) == (2, True)


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
        (("add", "job", "--every", "1h", "--event-key", "k", "--", "true"), "needs --event"),
        ((*ADD, "--event-data", "[1"), "not valid JSON"),
        (("add", "job", "--every", "1h", "--event", "duebook.runs"), "reserved"),
        (("add", "job", "--every", "1h", "--event", "t", "--event-key", "{{ nobody }}"), "nobody"),
    ):
        result = cli(*words)
        assert result.exit_code == 2, result.output
        assert told in result.output


def consume(cli: Cli, fail: bool = False) -> int:
    """Read all events as a group; return how many there were."""
    got = 0
    with Duebook(f"sqlite:///{cli.path}") as book:
        for event in book.events.consume("orders", "billing", attempts=1, follow=False):
            if fail:
                break
            got += 1
            assert event.topic == "orders"
    return got


@pytest.mark.usefixtures("terminal")
def test_groups_dead_letters_and_replays(cli: Cli) -> None:
    assert cli.ok("events", "groups") == "no consumers\n"
    assert "no dead letters" in cli.ok("events", "dlq")
    cli.ok(*ADD)
    for _ in range(3):
        cli.ok("run", "orders")
    assert consume(cli, fail=True) == 0
    assert consume(cli) == 2
    (letter,) = cli.json("events", "dlq", "billing")
    assert (letter["consumer"], letter["attempts"], letter["again"]) == ("billing", 1, False)
    assert letter["event"]["topic"] == "orders"
    told = cli.ok("events", "dlq")
    assert "the loop ended" in told
    assert max(map(len, told.splitlines())) <= 80
    (group,) = cli.json("events", "groups")
    assert (group["consumer"], group["behind"], group["dead"]) == ("billing", 0, 1)
    assert "1 dead letter will" in cli.ok(
        "events", "dlq", "billing", letter["event"]["id"], "--replay"
    )
    assert consume(cli) == 1
    assert cli.json("events", "dlq") == []
    assert "position 1" in cli.ok("events", "replay", "billing", "--after", "1")
    assert consume(cli) == 2
    cli.ok("events", "rm", "billing")
    assert cli.ok("events", "groups") == "no consumers\n"


def test_what_is_wrong_about_groups_is_said(cli: Cli) -> None:
    for words, code in (
        (("events", "replay", "nobody", "--after", "0"), 3),
        (("events", "replay", "nobody"), 2),
        (("events", "rm", "nobody"), 3),
        (("events", "dlq", "--replay"), 2),
        (("events", "dlq", "billing", "--replay", "--drop"), 2),
    ):
        assert cli(*words).exit_code == code, words


SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"  # noqa: S105


def test_sinks_are_added_changed_and_shown_without_their_secrets(cli: Cli) -> None:
    assert "no sinks" in cli.ok("events", "sink", "ls")
    said = cli.ok("events", "sink", "add", "hooks", "--webhook", "https://example.com/hooks")
    assert "shown only once: whsec_" in said
    hooks = ("events", "sink", "add", "hooks", "--webhook", "https://example.com/other")
    shown = cli.ok(*hooks, "--secret", SECRET, "--topic", "orders") + cli.ok("events", "sink", "ls")
    assert "changed hooks" in shown
    assert SECRET not in shown
    added = cli.json(
        *("events", "sink", "add", "bus", "--kafka", "k:9092", "--prefix", "shop."),
        *("--config", "sasl.password=x", "--config", "linger.ms=1", "--attempts", "3"),
    )
    assert added == {
        "name": "bus",
        "kind": "kafka",
        "topics": None,
        "partitions": 1,
        "attempts": 3,
        "options": {
            "servers": "k:9092",
            "prefix": "shop.",
            "config": {"sasl.password": "***", "linger.ms": "1"},
        },
        "types": None,
        "labels": {},
    }
    bus, changed = cli.json("events", "sink", "ls")
    assert bus == added
    assert changed["options"] == {"url": "https://example.com/other", "secret": "***"}
    assert "kafka" in cli.ok("events", "groups")


def test_a_sink_asks_for_types_and_labels(cli: Cli) -> None:
    hooks = ("events", "sink", "add", "hooks", "--webhook", "https://example.com/hooks")
    added = cli.json(*hooks, "--type", "run.failed", "--label", "team=data", "--label", "tier=1")
    assert (added["types"], added["topics"]) == (["run.failed"], ["duebook.runs"])
    assert added["labels"] == {"team": "data", "tier": "1"}
    assert "run.failed, team=data, tier=1" in cli.ok("events", "sink", "ls")
    assert "is not one of run.succeeded" in cli(*hooks, "--type", "run.fail").output
    changed = cli.json(*hooks, "--topic", "orders")
    assert (changed["types"], changed["labels"], changed["topics"]) == (None, {}, ["orders"])


def test_a_schedule_gets_a_ping_and_its_url_is_not_shown(cli: Cli) -> None:
    cli.ok("add", "backup", "--every", "1h", "--", "true")
    assert cli.ok("events", "ping") == "no pings\n"
    said = cli.ok("events", "ping", "backup", "https://hc-ping.com/eb095278-secret")
    assert said == "backup pings https://hc-ping.com/***\n"
    assert cli.json("events", "ping") == [{"schedule": "backup", "url": "https://hc-ping.com/***"}]
    listed = cli.ok("events", "ping") + cli.ok("events", "sink", "ls") + cli.ok("audit")
    assert "1 schedule" in listed
    assert "eb095278" not in listed
    assert cli.ok("events", "ping", "backup", "--off") == "no more pings about backup\n"
    for words, code, told in (
        (("backup", "--off"), 3, 'schedule "backup" has no ping'),
        (("nobody", "https://hc-ping.com/x"), 3, 'schedule "nobody" does not exist'),
        (("backup", "hc-ping.com/x"), 2, "does not start with http"),
        (("backup",), 2, "give either URL or --off"),
        (("backup", "https://hc-ping.com/x", "--off"), 2, "give either URL or --off"),
    ):
        result = cli("events", "ping", *words)
        assert (result.exit_code, told in result.output) == (code, True), result.output


def test_what_is_no_sink_is_refused(cli: Cli) -> None:
    add = ("events", "sink", "add", "hooks")
    for words in (
        add,
        (*add, "--webhook", "https://x", "--kafka", "k:9092"),
        (*add, "--webhook", "nothing"),
        (*add, "--webhook", "https://x", "--secret", "short"),
        (*add, "--kafka", "k:9092", "--start", "yesterday"),
        ("events", "sink", "add", "NO NAME", "--kafka", "k:9092"),
    ):
        assert cli(*words).exit_code == 2, words


def test_topics_and_partitions_are_listed(cli: Cli) -> None:
    assert "no events" in cli.ok("events", "topics")
    cli.ok(*ADD)
    cli.ok("run", "orders")
    (topic,) = cli.json("events", "topics")
    assert (topic["topic"], topic["events"], topic["position"]) == ("orders", 1, 1)
    assert "orders" in cli.ok("events", "topics")
    cli.ok("events", "sink", "add", "hooks", "--webhook", "https://example.com/hooks")
    (part,) = cli.json("events", "groups", "hooks")
    assert (part["part"], part["position"], part["behind"], part["owner"]) == (0, 1, 0, None)
    assert "nobody" not in cli.ok("events", "groups", "hooks")
    assert cli("events", "groups", "nothing").exit_code == 3


def test_type_and_key_choose_what_is_shown(cli: Cli) -> None:
    cli.ok(*ADD, "--event-type", "due", "--event-key", "17")
    cli.ok("run", "orders")
    assert len(cli.json("events", "tail", "--type", "due", "--key", "17")) == 1
    assert cli.json("events", "tail", "--type", "other") == []
    assert cli.json("events", "tail", "--key", "18", "--after", "0") == []
    assert cli("events", "tail", "--type", "a b").exit_code == 2
    assert cli("events", "tail", "no topic").exit_code == 2


def test_secrets_of_events_are_not_printed(cli: Cli) -> None:
    cli.ok(*ADD, "--event-data", '{"n": 1, "api_key": "hunter2-hidden"}')
    cli.ok("run", "orders")
    assert consume(cli, fail=True) == 0
    for words in (
        ("events", "tail"),
        ("events", "tail", "--json"),
        ("events", "dlq", "--json"),
        ("show", "orders", "--json"),
        ("show", "orders"),
        ("audit", "--json"),
    ):
        assert "hunter2" not in cli.ok(*words), words
    assert cli.json("events", "tail")[0]["data"] == {"n": 1, "api_key": "***"}
    cli.ok("update", "orders", "--every", "2h")
    cli.ok("run", "orders")
    with Duebook(f"sqlite:///{cli.path}") as book:
        secrets = [event.data["api_key"] for event in book.events.list("orders")]
    assert secrets == ["hunter2-hidden"] * 2


def test_a_secret_that_was_made_is_told_once_also_as_json(cli: Cli) -> None:
    add = ("events", "sink", "add", "hooks", "--webhook", "https://example.com/hooks")
    assert cli.json(*add)["secret"].startswith("whsec_")
    assert "secret" not in cli.json(*add)
    changes = cli.json("audit", "--kind", "sink")
    assert [change["action"] for change in changes] == ["create"]
    assert changes[0]["by"].startswith(cli.by)
    assert "whsec_" not in str(changes)


def test_dead_letters_are_listed_in_parts(cli: Cli) -> None:
    cli.ok(*ADD)
    for _ in range(3):
        cli.ok("run", "orders")
    for _ in range(3):
        consume(cli, fail=True)
    part = cli("events", "dlq", "-n", "2", "--json")
    cursor = part.stderr.split()[-1]
    assert len(cli.json("events", "dlq", "--cursor", cursor)) == 1
    assert cli("events", "dlq", "--cursor", "x").exit_code == 2
    assert cli("events", "dlq", "nobody").exit_code == 3
