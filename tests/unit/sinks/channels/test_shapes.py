"""What each service is sent: its own shape, in which texts stay texts."""

from __future__ import annotations

import pytest

from duebook.errors import Unavailable
from duebook.model.alert_message import load_message
from duebook.sinks.channels.answers import MessageRefused, judge
from duebook.sinks.channels.command import variables_of
from duebook.sinks.channels.discord import discord_form
from duebook.sinks.channels.pagerduty import pagerduty_forms
from duebook.sinks.channels.slack import slack_form
from duebook.sinks.channels.smtp import mail_of
from duebook.sinks.channels.teams import teams_form
from duebook.targets.hiding import hiding
from tests.support.messages import MESSAGE, message

LINK = "https://duebook.example.com/runs/r-1"


def test_a_message_is_the_same_after_its_json_form() -> None:
    assert load_message(MESSAGE.to_json()) == MESSAGE
    assert MESSAGE.id == load_message(MESSAGE.to_json()).id != message(count=2).id


def test_slack_gets_an_attachment_that_mentions_nobody() -> None:
    (attachment,) = slack_form(MESSAGE)["attachments"]
    assert attachment["title"] == attachment["fallback"] == "etl failed"
    assert attachment["title_link"] == LINK
    assert attachment["text"].startswith("exit code 1\n&lt;!channel&gt; [click]")
    assert attachment["mrkdwn_in"] == []
    assert attachment["ts"] == 1_767_614_400
    assert "title_link" not in slack_form(message(link=None))["attachments"][0]
    assert len(slack_form(message(text="x" * 9_000))["attachments"][0]["text"]) == 3_000


def test_teams_gets_an_adaptive_card_whose_texts_are_not_markdown() -> None:
    form = teams_form(message(text="one\n\n**two**"))
    (attachment,) = form["attachments"]
    assert form["type"] == "message"
    assert attachment["contentType"] == "application/vnd.microsoft.card.adaptive"
    card = attachment["content"]
    runs = [block["inlines"][0] for block in card["body"]]
    assert [run["text"] for run in runs] == ["etl failed", "one", "**two**"]
    assert {block["type"] for block in card["body"]} == {"RichTextBlock"}
    assert runs[0]["color"] == "Attention"
    assert card["actions"][0]["url"] == LINK
    assert "actions" not in teams_form(message(link=None))["attachments"][0]["content"]


def test_discord_gets_an_embed_with_escaped_markdown_and_no_mentions() -> None:
    form = discord_form(MESSAGE)
    (embed,) = form["embeds"]
    assert form["allowed_mentions"] == {"parse": []}
    assert (embed["title"], embed["url"]) == ("etl failed", LINK)
    assert r"\[click\](http://x) \*\*now\*\*" in embed["description"]
    assert embed["timestamp"] == "2026-01-05T12:00:00Z"
    longest = discord_form(message(text="*" * 9_000, title="*" * 500))["embeds"][0]
    assert len(longest["description"]) <= 4_096
    assert len(longest["title"]) <= 256


def test_pagerduty_opens_and_resolves_by_the_same_key() -> None:
    options = {"routing_key": "01234567"}
    (opened,) = pagerduty_forms(MESSAGE, options)
    (resolved,) = pagerduty_forms(message(status="resolved", kind="recovered"), options)
    assert opened["event_action"] == "trigger"
    assert opened["payload"]["summary"] == "etl failed"
    assert opened["payload"]["severity"] == "error"
    assert opened["payload"]["source"] == "duebook/shop"
    assert opened["links"] == [{"href": LINK, "text": "Open in Duebook"}]
    assert resolved == {
        "routing_key": "01234567",
        "dedup_key": opened["dedup_key"],
        "event_action": "resolve",
    }
    tried = pagerduty_forms(message(status="test"), options | {"severity": "critical"})
    assert [form["event_action"] for form in tried] == ["trigger", "resolve"]
    assert tried[0]["payload"]["severity"] == "info", "a test wakes nobody"


def test_long_keys_stay_different_for_pagerduty() -> None:
    options = {"routing_key": "01234567"}
    keys = {
        pagerduty_forms(message(dedup_key="k" * 300 + end), options)[0]["dedup_key"]
        for end in ("a", "b")
    }
    assert len(keys) == 2
    assert all(len(key) <= 255 for key in keys)


def test_an_email_cannot_be_given_headers_by_its_texts() -> None:
    sent = mail_of(
        message(title="failed\r\nBcc: all@example.com", text="a\n.\nb"), "d@example.com", ["o@x.y"]
    )
    assert sent["Subject"] == "failed  Bcc: all@example.com"
    assert sent["Bcc"] is None
    assert sent["To"] == "o@x.y"
    assert sent.get_content() == f"a\n.\nb\n\n{LINK}\n"
    again = mail_of(message(status="resolved"), "d@example.com", ["o@x.y"])
    assert again["References"] == sent["References"], "one conversation for one problem"
    assert again["Message-ID"] != sent["Message-ID"]


def test_a_command_gets_a_message_as_variables() -> None:
    found = variables_of(message(schedule=None, text="a\0$(id)"))
    assert found["DUEBOOK_ALERT_TEXT"] == "a $(id)"
    assert found["DUEBOOK_ALERT_SCHEDULE"] == ""
    assert found["DUEBOOK_ALERT_AT"] == "2026-01-05T12:00:00Z"
    assert found["DUEBOOK_ALERT_COUNT"] == "1"


def test_answers_say_later_or_no_and_repeat_no_secret() -> None:
    hide = hiding({"hunter22"})
    judge(204, b"", hide)
    for status in (408, 425, 429, 502, 503, 504):
        with pytest.raises(Unavailable, match=f"it returned {status}"):
            judge(status, b"", hide)
    for status in (301, 400, 403, 404, 410, 500):
        with pytest.raises(MessageRefused) as caught:
            judge(status, b"no hook hunter22\x1b[31m", hide)
        assert str(caught.value) == f"it returned {status}: no hook ***?[31m"
