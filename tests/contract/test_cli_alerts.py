"""The commands about alerts, on a file and through a server."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest

    from tests.support.cli import Cli

ANYWHERE = True
HOOK = "https://hooks.slack.com/services/T0/B0/marked-secret"


def test_a_rule_is_added_shown_silenced_and_deleted(cli: Cli) -> None:
    cli.ok("add", "nightly", "--every", "1h", "--", "true")
    told = cli.ok("alert", "add", "ops", "--on", "failure", "--on", "late:10m", "--to", HOOK)
    assert "rule ops: failure, late:10m of everything to slack hooks.slack.com" in told
    listed = cli.ok("alert", "ls")
    assert "slack hooks.slack.com" in listed
    shown = cli.ok("alert", "show", "ops")
    assert "at most 20 messages an hour" in shown
    assert "silenced until" in cli.ok("alert", "silence", "ops", "--until", "2h")
    assert "silenced" in cli.ok("alert", "ls")
    assert "sends messages" in cli.ok("alert", "silence", "ops", "--off")
    assert cli.ok("alert", "history").startswith("no alerts")
    form = json.loads(cli.ok("alert", "show", "ops", "--json"))
    assert form["on"] == ["failure", "late:10m"]
    assert "marked-secret" not in told + listed + shown + json.dumps(form)
    assert "deleted ops" in cli.ok("alert", "rm", "ops")
    assert "no alert rules" in cli.ok("alert", "ls")


def test_a_rule_without_a_channel_or_with_a_wrong_condition_is_refused(cli: Cli) -> None:
    assert "to is missing" in cli("alert", "add", "ops").output
    wrong = cli("alert", "add", "ops", "--on", "late", "--to", HOOK)
    assert "needs a duration, such as late:10m" in wrong.output
    unknown = cli("alert", "add", "ops", "--schedule", "nowhere", "--to", HOOK)
    assert (unknown.exit_code, "does not exist" in unknown.output) == (3, True)


def test_options_of_add_and_update_create_rules_of_the_schedule(cli: Cli) -> None:
    hooks = ("--on-failure", HOOK, "--on-missed", "mailto:ops@example.com")
    cli.ok("add", "nightly", "--every", "1h", *hooks, "--", "true")
    rules = json.loads(cli.ok("alert", "ls", "--json"))
    assert [(rule["name"], rule["schedule"], rule["on"]) for rule in rules] == [
        ("nightly.failure", "nightly", ["failure", "recovered"]),
        ("nightly.missed", "nightly", ["missed", "recovered"]),
    ]
    assert "2 alert rules of these schedules left out" in cli("export").output
    cli.ok("update", "nightly", "--on-missed", "off")
    assert "nightly.missed" not in cli.ok("alert", "ls")
    wrong = cli("add", "other", "--every", "1h", "--on-failure", "ftp://x", "--", "true")
    assert wrong.exit_code == 2
    assert "other" not in cli.ok("ls")


def test_an_alert_that_is_refused_says_that_the_schedule_was_saved_only_if_it_was(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    cli.ok("add", "nightly", "--every", "1h", "--", "true")
    monkeypatch.setattr("duebook.book.alerts.MOST_OWN_CHANNELS", 0)
    for options, saved in (((), False), (("--retry", "2"), True)):
        refused = cli("update", "nightly", *options, "--on-failure", HOOK)
        assert refused.exit_code != 0
        assert ("the schedule was saved, but not its alert" in refused.stderr) is saved


def test_a_test_message_is_written_and_waits_for_a_relay(cli: Cli) -> None:
    cli.ok("alert", "add", "ops", "--to", HOOK)
    told = cli.ok("alert", "test", "ops", "--no-wait")
    assert "slack hooks.slack.com: queued" in told
    assert "alert.test" in cli.ok("events", "tail", "duebook.alerts")


def test_a_rule_that_exists_is_replaced_only_when_asked_to_and_says_what_changes(cli: Cli) -> None:
    cli.ok("add", "backup", "--every", "1h", "--", "true")
    cli.ok("alert", "add", "ops", "--schedule", "backup", "--on", "missed", "--to", HOOK)
    refused = cli("alert", "add", "ops", "--to", HOOK)
    assert refused.exit_code != 0
    assert "alert rule ops exists: missed of backup to" in refused.output
    assert "--replace" in refused.output
    told = cli.ok("alert", "add", "ops", "--replace", "--limit", "5")
    assert "  of: backup → everything\n" in told
    assert "  on: missed → failure, recovered\n" in told
    assert "  limit: 20 → 5\n" in told


def test_the_rule_of_one_schedule_never_concerns_others(cli: Cli) -> None:
    cli.ok("add", "backup", "--every", "1h", "--on-failure", HOOK, "--", "true")
    refused = cli("alert", "add", "backup.failure", "--replace", "--to", HOOK)
    assert 'alert rule "backup.failure" belongs to schedule backup' in refused.output
    cli.ok("alert", "add", "backup.failure", "--replace", "--schedule", "backup", "--on", "slow")
    cli.ok("alert", "add", "backup.missed", "--on", "missed", "--to", HOOK)
    refused = cli("update", "backup", "--on-missed", HOOK)
    assert "does not concern backup alone" in refused.output
    assert "duebook alert rm backup.missed" in refused.output


def test_the_history_of_a_rule_that_never_was_is_a_mistake(cli: Cli) -> None:
    cli.ok("alert", "add", "ops", "--to", HOOK)
    assert cli.ok("alert", "history", "ops") == "no alerts\n"
    assert 'alert rule "opps" does not exist' in cli("alert", "history", "opps").output
