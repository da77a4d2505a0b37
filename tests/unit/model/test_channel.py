"""Channels: which URL means which, what of them is shown, and when a hidden value stays."""

from __future__ import annotations

from typing import Any

import pytest

from duebook.errors import Invalid
from duebook.model.channel import (
    Channel,
    channel_secrets,
    keep_channel,
    load_channel,
    show_channel,
)

SECRET = "hunter22-not-to-be-shown"  # noqa: S105
WHSEC = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("https://hooks.slack.com/services/T0/B0/x", "slack"),
        ("https://hooks.slack-gov.com/services/T0/B0/x", "slack"),
        ("https://discord.com/api/webhooks/1/x", "discord"),
        ("https://canary.discord.com/api/webhooks/1/x", "discord"),
        ("https://acme.webhook.office.com/webhookb2/x", "teams"),
        ("https://prod-1.westeurope.logic.azure.com:443/workflows/x?sig=y", "teams"),
        ("https://x.environment.api.powerplatform.com/powerautomate/x", "teams"),
        ("https://events.pagerduty.com/v2/enqueue?routing_key=0123456789abcdef", "pagerduty"),
        ("pagerduty:0123456789abcdef", "pagerduty"),
        ("mailto:ops@example.com,dev@example.com", "email"),
        ("smtps://duebook:pw@mail.example.com?from=a@example.com&to=ops@example.com", "email"),
        ("apprise:tgram://123:abc/chat", "apprise"),
        ("https://example.com/hooks", "webhook"),
        ("https://hooks.slack.com.evil.example/x", "webhook"),
        ("https://evil.example/hooks.slack.com/x", "webhook"),
        ("slack+http://127.0.0.1:8065/hooks/x", "slack"),
        ("discord+https://chat.example.com/x", "discord"),
        ("teams+https://chat.example.com/x", "teams"),
        ("webhook+https://hooks.slack.com/services/x", "webhook"),
        ("pagerduty+http://127.0.0.1:1/v2/enqueue?routing_key=01234567", "pagerduty"),
    ],
)
def test_a_url_says_which_kind_of_channel_it_is(text: str, kind: str) -> None:
    channel = load_channel(text)
    assert channel.kind == kind
    assert load_channel(channel.to_json()) == channel


def test_the_parts_of_urls_are_options() -> None:
    mail = load_channel("smtp://duebook:p%40ss@mail.example.com?from=a@b.c&to=ops@example.com")
    assert mail.options == {
        "to": ["ops@example.com"],
        "from": "a@b.c",
        "host": "mail.example.com",
        "port": 587,
        "tls": "starttls",
        "user": "duebook",
        "password": "p@ss",
    }
    pager = load_channel("pagerduty+http://h/v2/enqueue?a=b&routing_key=01234567")
    assert pager.options == {"url": "http://h/v2/enqueue?a=b", "routing_key": "01234567"}


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ("tgram://hunter22/x", "apprise:"),
        ("hunter22", "is not a URL"),
        ("https://", "does not start with http"),
        ("https://user:hunter22@example.com/", "user name or password"),
        ("https://exa mple.com/hunter22", "contains a character that is not allowed in URLs"),
        (f"https://example.com/{'hunter22' * 1_100}", "is longer than"),
        ("https://example.com/hunter22/***", r'"https://example.com/\*\*\*" contains'),
        ("https://events.pagerduty.com/v2/enqueue", "pagerduty:ROUTING_KEY"),
        ("pagerduty:hunter22!", "routing_key is not 8 to 100"),
        ("mailto:ops", "e-mail address"),
        ("mailto:ops@example.com%0aBcc:x@y.z", "e-mail address"),
        ("smtp://duebook:hunter22@h?tls=none&to=a@b.c", "plain text"),
        ("smtp://duebook@h?to=a@b.c", "user and password go together"),
        ("smtp://h?to=a@b.c&colour=red", "unknown parameter"),
        (7, "is not a URL"),
        ({"kind": "fax"}, "is not one of webhook, slack"),
        ({"kind": ["slack"]}, "is not one of webhook, slack"),
        ({"kind": "slack"}, 'needs "url"'),
        ({"kind": "slack", "url": "https://h/x", "colour": 1}, "is not an option"),
        ({"kind": "email", "to": []}, "1 to 50 e-mail"),
        ({"kind": "email", "to": ["a@b.c"], "password": "hunter22"}, "needs host"),
        ({"kind": "email", "to": "a@b.c", "host": "h", "port": 0}, "1 to 65535"),
        ({"kind": "email", "to": "a@b.c", "host": "h\r\nx"}, "500 characters"),
        ({"kind": "email", "to": "a@b.c", "from": "a@b.c\nX: y"}, "e-mail address"),
        ({"kind": "command", "command": "rm -rf /"}, "is not a list"),
        ({"kind": "command", "command": ["a", "b\0"]}, "without NUL"),
        ({"kind": "command", "command": ["a"], "timeout": "1h"}, "between 1s and 5m"),
        ({"kind": "webhook", "url": "https://h/x", "secret": "hunter22"}, "^secret must be whsec_"),
        ({"kind": "apprise", "url": "hunter22"}, "is not a URL of Apprise"),
        ({"kind": "pagerduty", "routing_key": "01234567", "severity": "bad"}, "critical, error"),
    ],
)
def test_what_is_wrong_is_named_without_its_secrets(value: object, told: str) -> None:
    with pytest.raises(Invalid, match=told) as caught:
        load_channel(value)
    assert "hunter22" not in str(caught.value)


SECRETIVE: list[dict[str, Any]] = [
    {"kind": "webhook", "url": f"https://example.com/{SECRET}", "secret": WHSEC},
    {"kind": "slack", "url": f"https://hooks.slack.com/services/{SECRET}"},
    {"kind": "teams", "url": f"https://a.logic.azure.com/x?sig={SECRET}"},
    {"kind": "discord", "url": f"https://discord.com/api/webhooks/1/{SECRET}"},
    {"kind": "pagerduty", "routing_key": SECRET},
    {"kind": "email", "to": ["a@b.c"], "host": "h", "user": "u", "password": SECRET},
    {"kind": "command", "command": ["notify", f"--token={SECRET}"]},
    {"kind": "apprise", "url": f"tgram://{SECRET}/chat"},
]


@pytest.mark.parametrize("form", SECRETIVE, ids=lambda form: form["kind"])
def test_secrets_are_hidden_and_stay_while_nothing_else_changes(form: dict[str, Any]) -> None:
    channel = load_channel(form)
    shown = show_channel(channel)
    for text in (shown, channel, repr(channel)):
        assert SECRET not in str(text)
        assert WHSEC not in str(text)
    assert "***" in str(shown)
    assert load_channel(keep_channel(shown, channel)) == channel
    with pytest.raises(Invalid, match=r"\*\*\*"):
        load_channel(shown)
    assert any(SECRET in word for word in channel_secrets(channel))


@pytest.mark.parametrize(
    ("form", "changes"),
    [
        (SECRETIVE[0], {"url": "https://attacker.example/***"}),
        (SECRETIVE[0], {"url": "https://attacker.example/hook"}),
        (SECRETIVE[1], {"url": "https://attacker.example/***"}),
        (SECRETIVE[4], {"url": "https://attacker.example/v2/enqueue"}),
        (SECRETIVE[5], {"host": "attacker.example"}),
        (SECRETIVE[5], {"tls": "tls"}),
        (SECRETIVE[5], {"port": 2525}),
        (SECRETIVE[6], {"command": ["mail", "--token=***"]}),
        (SECRETIVE[7], {"url": "json://***"}),
        (SECRETIVE[1], {"kind": "webhook"}),
    ],
)
def test_a_hidden_value_never_goes_elsewhere(form: dict[str, Any], changes: dict[str, Any]) -> None:
    channel = load_channel(form)
    with pytest.raises(Invalid, match=r"\*\*\*"):
        load_channel(keep_channel(show_channel(channel) | changes, channel))


def test_what_does_not_decide_where_a_secret_goes_may_change_beside_it() -> None:
    mail = load_channel(SECRETIVE[5])
    changed = load_channel(keep_channel(show_channel(mail) | {"to": ["x@y.z"]}, mail))
    assert changed.options == mail.options | {"to": ["x@y.z"]}
    hook = load_channel(SECRETIVE[0])
    whole = {**show_channel(hook), "url": hook.options["url"]}
    assert load_channel(keep_channel(whole, hook)) == hook
    fresh = {"kind": "slack", "url": "https://hooks.slack.com/services/new"}
    assert load_channel(keep_channel(fresh, load_channel(SECRETIVE[1]))) == Channel(
        "slack", {"url": "https://hooks.slack.com/services/new"}
    )
